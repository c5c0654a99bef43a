"""`gf-i2p members` as people type it; what the node does about it is tests/node/test_members.py."""

import argparse
from pathlib import Path
from typing import Any

import pytest

from gf_i2p.cli import members
from gf_i2p.cli.errors import CommandError, Exit
from gf_i2p.cli.main import main
from gf_i2p.node.setup import make_farm
from gf_i2p.wire.endpoint import Endpoint


class Node:
    """Answers as a node does."""

    def __init__(self, *statuses: dict[str, Any]) -> None:
        self.statuses = list(statuses)
        self.asked: list[Any] = []

    def __call__(self, _directory: Path, method: str, path: str, *, seconds: float = 0, body: object = None) -> Any:
        del seconds
        if method == "POST":
            self.asked.append((path, body))
            return {"begun": True}
        return self.statuses.pop(0) if len(self.statuses) > 1 else self.statuses[0]


def status(*ids: int, away: tuple[int, ...] = (), committed: bool = True, refused: str | None = None) -> dict[str, Any]:
    servers = [
        {
            "id": each,
            "endpoint": f"tcp://h:{each}",
            "self": each == 1,
            "leader": each == 1,
            "connected": each not in away,
            "lag": 0,
        }
        for each in ids
    ]
    return {
        "membership": "member",
        "servers": servers,
        "configuration_committed": committed,
        "change": None,
        "change_refused": refused,
    }


def options(**values: Any) -> argparse.Namespace:
    return argparse.Namespace(directory=Path("node"), json=True, **{"force": False, **values})


def test_a_server_is_removed_and_the_end_of_it_is_awaited() -> None:
    node = Node(status(1, 2, 3), status(1, 2, 3), status(1, 2, committed=False), status(1, 2))
    printed: list[Any] = []
    assert members.remove(options(id=3), node, printed.append) is Exit.OK
    assert node.asked == [("/v1/servers", {"remove": 3})]
    assert printed == [{"ok": True, "servers": [1, 2]}]
    assert len(node.statuses) == 1, "not before it is committed"


@pytest.mark.parametrize(
    ("server", "away", "says"),
    [(3, (3,), "--force"), (3, (2,), "nothing could be committed"), (7, (), "no server 7")],
)
def test_a_removal_that_may_hurt_is_not_begun(server: int, away: tuple[int, ...], says: str) -> None:
    node = Node(status(1, 2, 3, away=away))
    with pytest.raises(CommandError, match=says):
        members.remove(options(id=server), node, print)
    assert node.asked == []


def test_force_removes_the_dead() -> None:
    node = Node(status(1, 2, 3, away=(3,)), status(1, 2))
    assert members.remove(options(id=3, force=True), node, lambda _: None) is Exit.OK


def test_a_server_that_is_given_up_is_reported_with_the_reason() -> None:
    node = Node(status(1, 2, refused="server 3 has not joined: nothing was heard from it"))
    with pytest.raises(CommandError, match="nothing was heard"):
        members.add(options(server=(3, Endpoint("h", 3))), node, print)


def test_invite_and_accept_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_farm(tmp_path / "farm", {1: Endpoint("127.0.0.1", 4001)}, cluster="farm", profile="lan", clients=[])
    one, new = str(tmp_path / "farm" / "server-1"), str(tmp_path / "new")
    assert main(["members", "invite", one, "2=tcp://127.0.0.1:4002", "--into", new]) == 0
    text = capsys.readouterr().out
    assert f"gf-i2p run {new}/server-2" in text
    file = f"{new}/accept-server-2.toml"
    assert main(["members", "accept", one, file]) == 0
    assert "no node runs here now" in capsys.readouterr().out
    assert main(["members", "accept", one, file, "--json"]) == 0
    assert '"changed": false' in capsys.readouterr().out
    assert main(["members", "invite", one, "3=tcp://x.b32.i2p:80", "--into", new]) == 2
    assert "write i2p instead" in capsys.readouterr().err
