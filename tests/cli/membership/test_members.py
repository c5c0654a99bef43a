"""`gf-i2p members` as people type the command; tests/node/membership/test_server_changes.py tests the node's side."""

import argparse
import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from gf_i2p.cli.main import main
from gf_i2p.cli.membership import members
from gf_i2p.cli.shared.command import Answer
from gf_i2p.cli.shared.errors import CommandError, Exit
from gf_i2p.node.files.checked_read import ConfigError
from gf_i2p.node.files.client_file import ClientFile
from gf_i2p.node.files.config import Config
from gf_i2p.node.files.farm_setup import make_farm
from gf_i2p.node.membership.invitation import invite
from gf_i2p.wire.endpoint import Endpoint


class Node:
    """Stands in for a running node: answers the requests of the commands."""

    def __init__(self, *statuses: dict[str, Any] | CommandError, leaf_members: tuple[dict[str, Any], ...] = ()) -> None:
        self.statuses = list(statuses)
        self.leaf_members = leaf_members
        self.asked: list[Any] = []

    def __call__(self, _directory: Path, method: str, path: str, *, seconds: float = 0, body: object = None) -> Any:
        del seconds
        if path == "/v1/administration":
            return {"members": list(self.leaf_members)}
        if method == "POST":
            self.asked.append((path, body))
            return {"begun": True, "leader": 1, "term": 5}
        answer = self.statuses.pop(0) if len(self.statuses) > 1 else self.statuses[0]
        if isinstance(answer, CommandError):
            raise answer
        return answer


def status(
    *ids: int,
    away: tuple[int, ...] = (),
    committed: bool = True,
    refused: str | None = None,
    leader: int | None = 1,
    term: int = 5,
    change: str | None = None,
) -> dict[str, Any]:
    servers = [
        {
            "id": each,
            "endpoint": f"tcp://h:{each}",
            "self": each == 1,
            "leader": each == leader,
            "connected": each not in away,
            "lag": 0,
        }
        for each in ids
    ]
    return {
        "membership": "member",
        "leader": leader,
        "term": term,
        "servers": servers,
        "configuration_committed": committed,
        "change": change,
        "change_refused": refused,
        "timing": {"election_max": 0.0},
    }


def options(**values: Any) -> argparse.Namespace:
    return argparse.Namespace(**{"directory": Path("node"), "json": True, "force": False, **values})


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(members, "CHANGE_SECONDS", 2.0)
    monkeypatch.setattr(members, "_POLL_SECONDS", 0.001)


def test_a_server_is_removed_and_the_end_of_it_is_awaited() -> None:
    node = Node(status(1, 2, 3), status(1, 2, 3), status(1, 2, committed=False), status(1, 2))
    answer = members.remove(options(id=3), node)
    assert answer == Answer({"servers": [1, 2]}, "server 3 is out of the farm now: [1, 2]", Exit.OK)
    assert node.asked == [("/v1/servers", {"remove": 3})]
    assert len(node.statuses) == 1, "not before it is committed"


@pytest.mark.parametrize(
    ("server", "away", "says"),
    [(3, (3,), "--force"), (3, (2,), "nothing could be committed"), (7, (), "no server 7")],
)
def test_a_removal_that_may_hurt_is_not_begun(server: int, away: tuple[int, ...], says: str) -> None:
    node = Node(status(1, 2, 3, away=away))
    with pytest.raises(CommandError, match=says):
        members.remove(options(id=server), node)
    assert node.asked == []


def test_force_removes_the_dead() -> None:
    node = Node(status(1, 2, 3, away=(3,)), status(1, 2))
    assert members.remove(options(id=3, force=True), node).exit is Exit.OK


def test_a_server_that_is_given_up_is_reported_with_the_reason() -> None:
    node = Node(status(1, 2, refused="server 3 has not joined: nothing was heard from the server"))
    with pytest.raises(CommandError, match="nothing was heard"):
        members.add(options(server=(3, Endpoint("h", 3))), node)


@pytest.mark.parametrize("leader", [2, None, 1])
@pytest.mark.parametrize("present", [True, False])
def test_a_leader_that_lost_its_leadership_with_the_change_is_not_waited_for(leader: int | None, present: bool) -> None:
    ids = (1, 2) if present else (1, 2, 3)
    node = Node(
        status(*ids),
        status(*ids, change="server 3 is joining"),
        status(*ids, leader=None, term=6, committed=False),  # an entry in the log may still be committed
        status(*ids, leader=leader, term=7, change="nothing is committed yet" if leader == 1 else None),
        status(*ids, leader=leader, term=7),
    )
    act, words = (members.add, {"server": (3, Endpoint("h", 3))}) if present else (members.remove, {"id": 3})
    with pytest.raises(CommandError, match="server 1 had begun the change, and has lost its leadership") as caught:
        act(options(**words), node)
    assert (caught.value.outcome, caught.value.code) == ("unknown", Exit.DEGRADED if leader is None else Exit.FAILED)
    assert "members list" in str(caught.value)
    assert len(node.statuses) == 1, "not while anything of it is under way"


def test_what_another_leader_commits_is_done_all_the_same() -> None:
    node = Node(
        status(1, 2, 3),
        status(1, 2, committed=False),
        status(1, 2, committed=False, leader=None, term=6),
        status(1, 2, leader=2, term=6),
    )
    assert members.remove(options(id=3), node).exit is Exit.OK


def test_a_server_that_joins_waits_though_it_knows_no_leader_yet() -> None:
    outside = {**status(1, 2, leader=None, term=0), "membership": "joining"}
    node = Node(outside, outside, outside, outside, status(1, 2, 3))
    assert members.add(options(server=(3, Endpoint("h", 3))), node).exit is Exit.OK


def test_a_node_that_dies_while_it_is_waited_for_leaves_it_open() -> None:
    dead = CommandError("no node answers in node")
    for node, act in (
        (Node(status(1, 2), dead), partial(members.add, options(server=(3, Endpoint("h", 3))))),
        (Node(status(1, 2, 3), dead), partial(members.remove, options(id=3))),
    ):
        with pytest.raises(CommandError, match=r"the change had begun.*members list.*another server") as caught:
            act(node)
        assert caught.value.outcome == "unknown"


def test_a_list_without_a_leader_says_so() -> None:
    node = Node(status(1, 2, 3, away=(2, 3), leader=None))
    answer = members.show(options(), node)
    assert answer.exit is Exit.DEGRADED
    assert "no leader is known" in answer.text.lower()
    assert "    3  tcp://h:3  not connected" in answer.text
    assert answer.data["leader"] is None
    answer = members.show(options(), Node(status(1, 2, 3, away=(3,))))
    assert (answer.exit, answer.data["leader"]) == (Exit.OK, 1)


def test_a_list_on_a_server_that_is_out_says_so() -> None:
    out = {**status(1, 2), "membership": "removed"}
    answer = members.show(options(), Node(out))
    assert (answer.exit, answer.data["membership"]) == (Exit.DEGRADED, "removed")
    assert "This server was removed from the farm" in answer.text


def test_on_a_server_that_is_out_nobody_is_let_in_and_that_is_said_briefly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    servers = {server: Endpoint("127.0.0.1", 4000 + server) for server in (1, 2, 3)}
    make_farm(tmp_path, servers, cluster="farm", profile="lan", clients=[])
    one, three = tmp_path / "server-1", tmp_path / "server-3"
    written = invite(three, tmp_path / "new", 4, servers[2], voters_of=lambda _: frozenset({3}))
    monkeypatch.setattr(members, "holder", lambda _: "1")
    for membership, says in (("removed", "was itself removed from the farm"), ("joining", "is itself joining")):
        node = Node({**status(1, 2), "membership": membership})
        with pytest.raises((CommandError, ConfigError), match=says) as caught:
            members.accept(options(directory=one, file=written.accept), node)
        if membership == "removed":
            assert len(str(caught.value)) < 250


def test_a_removal_without_a_leader_is_not_tried() -> None:
    node = Node(status(1, 2, 3, away=(1, 2), leader=None))
    for server in (1, 3):
        with pytest.raises(CommandError, match="gf-i2p recover") as caught:
            members.remove(options(id=server), node)
        assert (caught.value.code, caught.value.outcome) == (Exit.DEGRADED, "no")


@pytest.mark.parametrize("force", [False, True])
def test_the_last_server_is_stopped_and_not_removed(force: bool) -> None:
    node = Node(status(1))
    with pytest.raises(CommandError, match="the last server cannot leave its farm: stop the node"):
        members.remove(options(id=1, force=force), node)
    assert node.asked == []


def test_invite_and_accept_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_farm(tmp_path / "farm", {1: Endpoint("127.0.0.1", 4001)}, cluster="farm", profile="lan", clients=[])
    one, new = str(tmp_path / "farm" / "server-1"), str(tmp_path / "new")
    assert main(["members", "invite", one, "2=tcp://127.0.0.1:4002", "--into", new]) == 0
    text = capsys.readouterr().out
    assert "copied directory:\n     gf-i2p run server-2\n" in text
    assert "accept-server-2.toml is no secret" in text
    file = f"{new}/accept-server-2.toml"
    for wrong in (f"{one}/gf-i2p.toml", f"{one}/certificate.pem"):
        assert main(["members", "accept", one, wrong]) == 2
    Path(file).chmod(0o644)
    assert main(["members", "accept", one, file]) == 2
    assert "chmod 600" in capsys.readouterr().err
    Path(file).chmod(0o600)
    assert main(["members", "accept", one, file]) == 0
    text = capsys.readouterr().out
    assert "no node runs here now" in text
    assert "is no longer needed when all servers have accepted" in text
    assert main(["members", "accept", one, file, "--json"]) == 0
    assert '"changed": false' in capsys.readouterr().out
    assert main(["members", "invite", one, "3=tcp://x.b32.i2p:80", "--into", new]) == 2
    assert "write i2p instead" in capsys.readouterr().err


def coded(
    directory: Path, node: Node, server: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> tuple[int, dict[str, Any]]:
    monkeypatch.setattr(members, "ask", node)
    code = main(["members", "invite", str(directory / "admin-owner.toml"), server, "--code", "--json"])
    return code, json.loads(capsys.readouterr().out)


def test_a_code_for_the_endpoint_of_a_member_is_refused_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The administrator's file lists servers 1 and 2. Server 3 joined later, and the endpoint of server N is h:N."""
    make_farm(tmp_path, {i: Endpoint("h", i) for i in (1, 2)}, cluster="f", profile="lan", clients=[], admins=["owner"])
    file = tmp_path / "admin-owner.toml"
    for taken in (2, 3):
        code, answer = coded(tmp_path, Node(status(1, 2, 3)), f"5=tcp://h:{taken}", monkeypatch, capsys)
        assert (code, "code" in answer) == (1, False)
        assert answer["error"] == (
            f"server {taken} has the endpoint tcp://h:{taken}, and belongs to the farm: choose another endpoint. If it "
            f"is dead for good, remove it first: gf-i2p members remove {file} {taken} --force"
        )
    uncommitted = Node(status(1, 3), status(1, 3, committed=False), status(1, 2, 3))
    assert coded(tmp_path, uncommitted, "5=tcp://h:2", monkeypatch, capsys)[0] == 1, "the removal was not committed"
    for node, free in (
        (Node(status(1, 3)), "tcp://h:2"),  # server 2 has left the farm
        (Node(status(1, 2, 3)), "tcp://h:5"),
        (Node(status(1, 2, 3)), "i2p"),
        (Node(CommandError("no server answers")), "tcp://h:5"),  # `join` asks again
    ):
        code, answer = coded(tmp_path, node, f"5={free}", monkeypatch, capsys)
        assert (code, answer.get("server")) == (0, 5), free


def test_no_code_is_made_for_a_listed_endpoint_when_the_members_are_not_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    make_farm(tmp_path, {i: Endpoint("h", i) for i in (1, 2)}, cluster="f", profile="lan", clients=[], admins=["owner"])
    monkeypatch.setattr(members, "SETTLE_SECONDS", 0.0)
    out = {**status(1), "membership": "removed"}
    for node, why in (
        (Node(CommandError("no server answers")), "no server answers"),
        (Node(status(1, leader=None)), "no leader is known"),
        (Node(out), "was itself removed from the farm"),
    ):
        code, answer = coded(tmp_path, node, "5=tcp://h:2", monkeypatch, capsys)
        assert code != 0
        assert "server 2 has the endpoint tcp://h:2, and it is not known whether that server is out" in answer["error"]
        assert why in answer["error"]


def test_what_invite_prints_for_clients_makes_their_files_know_the_new_server(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_farm(tmp_path / "farm", {1: Endpoint("127.0.0.1", 4001)}, cluster="farm", profile="lan", clients=["web"])
    one, file = str(tmp_path / "farm" / "server-1"), tmp_path / "farm" / "client-web.toml"
    assert main(["members", "invite", one, "2=tcp://127.0.0.1:4002", "--into", str(tmp_path / "new")]) == 0
    text = capsys.readouterr().out
    assert main(["members", "invite", one, "3=tcp://127.0.0.1:4003", "--into", str(tmp_path / "new"), "--json"]) == 0
    third = json.loads(capsys.readouterr().out)["client_table"]
    file.write_text(f"{file.read_text()}\n{text[text.index('[[servers]]') :]}\n{third}")
    known = {server.id: server for server in ClientFile.load(file).servers}
    for server in (2, 3):
        own = Config.load(tmp_path / "new" / f"server-{server}")
        listed = next(each for each in own.servers if each.id == server)
        assert (known[server].endpoint, known[server].fingerprint) == (listed.endpoint, listed.fingerprint)


def test_inside_i2p_clients_need_no_more_than_the_address(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_farm(tmp_path, {1: None}, cluster="farm", profile="auto", clients=[])
    assert main(["members", "invite", str(tmp_path / "server-1"), "2=i2p", "--into", str(tmp_path / "new")]) == 0
    assert "[[servers]]" not in capsys.readouterr().out
