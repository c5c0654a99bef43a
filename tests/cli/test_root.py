"""Root runs commands in a server's directory that belongs to another user, as the Debian package's directories do."""

from pathlib import Path

import pytest

from gf_i2p.cli.main import main
from gf_i2p.node.files.farm_setup import make_farm
from gf_i2p.wire.endpoint import Endpoint
from tests.storage.foreign import as_root_elsewhere


@pytest.fixture
def server(tmp_path: Path) -> Path:
    make_farm(tmp_path, {1: Endpoint("127.0.0.1", 4001)}, cluster="farm", profile="lan", clients=[], admins=["owner"])
    return tmp_path / "server-1"


def _content(directory: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(directory.rglob("*")) if path.is_file()}


@pytest.mark.parametrize(
    "words",
    [
        ["set", "DIR", "logging.level=debug"],
        ["run", "DIR"],
        ["recover", "DIR", "--confirm", "farm"],
        ["snapshot", "save", "DIR", "OUT/farm.snapshot"],
        ["members", "invite", "DIR", "2=tcp://127.0.0.1:4002", "--into", "OUT"],
        ["members", "invite-leaf", "DIR", "--into", "OUT"],
        ["members", "rotate-key", "DIR"],
        ["keys", "master", "new", "DIR/master.dat"],
        ["doctor", "DIR"],
        ["init", "DIR/farm", "--server", "1=i2p"],
    ],
    ids=lambda words: " ".join(words[:2]),
)
def test_root_is_refused_before_a_command_writes(
    words: list[str], server: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    owner = as_root_elsewhere(server, monkeypatch)
    before = _content(tmp_path)
    code = main([word.replace("DIR", str(server)).replace("OUT", str(tmp_path)) for word in words])
    assert (code, _content(tmp_path)) == (1, before)
    assert f"sudo -u '{owner}' gf-i2p" in capsys.readouterr().err


def test_root_is_refused_before_the_farm_admits_a_server(
    server: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    owner = as_root_elsewhere(server, monkeypatch)
    assert main(["join", str(server / "server-2")]) == 1
    assert f"sudo -u '{owner}' gf-i2p" in capsys.readouterr().err


def test_root_may_still_ask_a_node_that_runs(
    server: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    as_root_elsewhere(server, monkeypatch)
    assert main(["status", str(server)]) == 1
    assert "no node answers" in capsys.readouterr().err
