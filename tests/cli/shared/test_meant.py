"""A mistyped directory is answered with the directory that was meant."""

import errno
import os
from pathlib import Path

import pytest

from gf_i2p.cli.main import main
from gf_i2p.cli.shared.meant import no_file, no_node_directory
from gf_i2p.node.files.file_names import CONFIG_FILE


@pytest.fixture
def farm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for server in ("server-1", "server-2"):
        (tmp_path / "my-farm" / server).mkdir(parents=True)
        (tmp_path / "my-farm" / server / CONFIG_FILE).touch()
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("typed", "meant"), [("my-fram/server-1", "my-farm/server-1"), ("my-farm/sever-2", "my-farm/server-2")]
)
def test_a_mistyped_directory_is_recognised(farm: Path, typed: str, meant: str) -> None:
    assert no_node_directory(Path(typed)).endswith(f"there is no {CONFIG_FILE} in it. Did you mean {meant}?")
    assert no_node_directory(farm / typed).endswith(f"Did you mean {farm / meant}?")


def test_a_farms_directory_is_answered_with_a_servers(farm: Path) -> None:
    assert no_node_directory(farm / "my-farm") == (
        f"{farm}/my-farm is a farm's directory: name one of its servers, as in {farm}/my-farm/server-1"
    )


def test_a_path_that_resembles_nothing_gets_no_advice(farm: Path) -> None:
    for path in (farm / "elsewhere", farm / "my-farm" / "server-1" / "log", Path("my-farm/server-1/gf-i2p.toml/x")):
        assert "Did you mean" not in no_node_directory(path)


@pytest.fixture
def closed(farm: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory into which this user may not look. Root may look everywhere, so this test refuses."""
    place, stat = farm / "closed", Path.stat
    place.mkdir()

    def refusing(path: Path, **options: bool) -> os.stat_result:
        if place in path.absolute().parents:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return stat(path, **options)

    monkeypatch.setattr(Path, "stat", refusing)
    return place


def test_a_closed_directory_beside_the_path_is_no_obstacle(closed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", str(closed.parent)]) == 1
    assert f"{closed.parent} is not a node's directory" in capsys.readouterr().err
    assert "Did you mean" not in no_node_directory(closed.parent / "closd" / "server-1")
    assert no_file(closed.parent / "closd" / "key", "check the name").endswith("check the name")


def test_a_mistyped_file_is_recognised(farm: Path) -> None:
    (farm / "my-farm" / "service.master").touch()
    assert no_file(Path("my-fram/servce.master"), "x") == (
        "There is no file my-fram/servce.master: did you mean my-farm/service.master?"
    )
    assert no_file(farm / "elsewhere", "check the name") == f"There is no file {farm}/elsewhere: check the name"
    assert no_file(Path("my-farm/server-3"), "check the name").endswith(": check the name"), "a directory is no file"


@pytest.mark.parametrize("words", [["run"], ["recover"], ["keys", "status"], ["status"], ["set"], ["doctor"]])
def test_each_command_names_the_directory_that_was_meant(
    words: list[str], farm: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    more = ["logging.level=debug"] if words == ["set"] else []
    assert main([*words, "my-farm/sever-1", *more]) == 1
    error = capsys.readouterr().err
    assert "Did you mean my-farm/server-1?" in error
    assert "init" not in error


@pytest.mark.parametrize(
    "words", [["master", "show", "FILE"], ["delegate", "FILE", "--server", "1"], ["master", "import", "FILE"]]
)
def test_a_mistyped_key_file_is_no_reason_for_a_new_master(
    words: list[str], farm: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (farm / "service.master").touch()
    assert main(["keys", *(word.replace("FILE", "servce.master") for word in words)]) == 1
    error = capsys.readouterr().err
    assert "did you mean service.master?" in error
    assert "keys master new" not in error
