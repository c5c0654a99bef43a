"""`gf-i2p set`: logins at the router, which need a password in another file."""

import errno
from pathlib import Path

import pytest

from gf_i2p.cli.main import main
from gf_i2p.node.files import transaction
from gf_i2p.node.files.config import Config
from gf_i2p.node.files.farm_setup import make_farm
from gf_i2p.node.files.file_names import CONFIG_FILE, SECRETS_FILE

ENDING = "then repeat this command"


@pytest.fixture
def node(tmp_path: Path) -> Path:
    make_farm(tmp_path, {1: None}, cluster="farm", profile="lan", clients=[])
    return tmp_path / "server-1"


def write_passwords(node: Path, **passwords: str) -> None:
    path = node / SECRETS_FILE
    path.write_text("".join(f'{name} = "{value}"\n' for name, value in passwords.items()) + path.read_text())


@pytest.mark.parametrize(
    ("change", "password"),
    [
        ("router.sam_user=farm", "sam_password"),
        ("router.i2cp_user=farm", "i2cp_password"),
        ("router.proxy_user=farm", "proxy_password"),
        ("router.i2pcontrol=https://127.0.0.1:7650", "i2pcontrol_password"),
    ],
)
def test_a_login_without_its_password_is_refused(
    change: str, password: str, node: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = (node / CONFIG_FILE).read_text()
    assert main(["set", str(node), change]) == 1
    error = capsys.readouterr().err
    assert "nothing was changed" in error
    assert f"{password}: is missing" in error
    assert error.rstrip().endswith(ENDING)
    assert (node / CONFIG_FILE).read_text() == before

    write_passwords(node, **{password: "correct-horse"})
    assert main(["set", str(node), change]) == 0


def test_a_full_disk_changes_nothing(
    node: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def write_nowhere(*_: object) -> None:
        Path("/dev/full").write_text("x")

    before = (node / CONFIG_FILE).read_text()
    monkeypatch.setattr(transaction, "write_private", write_nowhere)
    assert main(["set", str(node), "publish.mode=dry-run"]) == 1
    assert capsys.readouterr().err.startswith(f"gf-i2p: the disk under {node} is full. Nothing was changed: free some ")
    assert (node / CONFIG_FILE).read_text() == before


def test_a_change_that_the_disk_does_not_confirm_is_told_as_a_change(
    node: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(_: Path) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(transaction, "sync_directory", fails)
    assert main(["set", str(node), "timing.profile=auto"]) == 1
    said = capsys.readouterr().err
    assert f"files in {node} were changed, and the disk does not confirm the change (Read-only file system)" in said
    assert "Nothing was changed" not in said
    assert Config.load(node).timing.profile == "auto"


def test_two_logins_are_added_one_after_the_other(node: Path) -> None:
    write_passwords(node, sam_password="one", i2cp_password="two")
    assert main(["set", str(node), "router.sam_user=farm"]) == 0
    assert main(["set", str(node), "router.i2cp_user=farm"]) == 0
    router = Config.load(node).router
    assert router is not None
    assert (router.sam_user, router.i2cp_user) == ("farm", "farm")


def test_a_faulty_login_does_not_refuse_other_settings(node: Path) -> None:
    write_passwords(node, sam_password="one")
    assert main(["set", str(node), "logging.level=debug"]) == 0
    assert main(["set", str(node), "router.sam_user=farm", "logging.level=info"]) == 0


def test_a_password_that_the_router_cannot_take_is_named(node: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_passwords(node, sam_password="two words")
    assert main(["set", str(node), "router.sam_user=farm"]) == 1
    assert capsys.readouterr().err.rstrip().endswith(ENDING)


@pytest.mark.parametrize("user", ["two words", ""])
def test_nobody_is_told_to_write_a_password_that_is_not_at_fault(
    user: str, node: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_passwords(node, sam_password="one")
    if not user:
        assert main(["set", str(node), "router.sam_user=farm"]) == 0
    assert main(["set", str(node), f"router.sam_user={user}"]) == 1
    error = capsys.readouterr().err
    assert "nothing was changed" in error
    assert ENDING not in error
