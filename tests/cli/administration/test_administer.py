"""`gf-i2p leaves`, `publisher` and `farm` as people type the commands."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gf_i2p.cli.administration import administer
from gf_i2p.cli.main import main as run
from gf_i2p.cli.shared.answer_text import MEMBERSHIP_TEXTS, NO_LEADER_KNOWN, NOT_KNOWN
from gf_i2p.cli.shared.errors import CommandError
from gf_i2p.farm.admin_entries import AdminEntry
from gf_i2p.farm.pieces import whole
from gf_i2p.farm.record.status_record import StatusRecord
from gf_i2p.farm.sensed_floodfills import Floodfill, Sensed
from gf_i2p.farm.state import FarmState
from gf_i2p.netdb.encoding import to_b32_address, to_base64
from gf_i2p.node.files.client_file import ClientFile
from gf_i2p.node.status.admin_status import describing
from gf_i2p.storage.private_files import write_private
from integration.harness.local_farm import LocalFarm
from integration.harness.processes import free_ports
from tests.cli.program import gf, gf_json
from tests.farm.strategies import NOW, leaf, record
from tests.node.files.another_key import with_another_key


class Node:
    """Answers like a node whose farm has a state, and commits every posted value."""

    def __init__(self) -> None:
        self.state = FarmState("farm")
        self.state.configure([1, 2])
        self.index = 1
        self.behind = 0
        """Number of answers before the state has taken in a posted value."""
        self.posted: list[AdminEntry] = []
        self.leader: int | None = 1
        self.membership = "member"
        self.on_order: StatusRecord | None = None
        """The publisher's record after an order to publish."""
        for server in (1, 2):
            self.take(record(server, leaf(server)).encode())

    def take(self, value: bytes) -> None:
        self.index += 1
        self.state.apply(value, self.index)

    def __call__(self, _directory: Path, method: str, path: str, *, seconds: float = 0, body: Any = None) -> Any:
        del seconds
        if method == "POST":
            [value] = body["values"]
            self.posted.append(AdminEntry.parse(value.encode()))
            self.take(value.encode())
            index = self.index
            if self.on_order is not None and self.posted[-1].action == "publishNow":
                self.take(self.on_order.encode())
            return {"index": index}
        assert path == "/v1/administration"
        applied = self.index - 1 if self.posted and self.behind > 0 else self.index
        self.behind -= bool(self.posted)
        standing = {"id": 1, "leader": self.leader, "membership": self.membership, "applied": applied}
        return {"cluster": "farm", **standing, **whole(describing(self.state))}


@pytest.fixture
def node(monkeypatch: pytest.MonkeyPatch) -> Node:
    made = Node()
    monkeypatch.setattr(administer, "ask", made)
    monkeypatch.setattr(administer, "_POLL_SECONDS", 0.001)
    return made


@pytest.fixture
def out(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str]]:
    """Run a command; return the exit code and all printed text."""

    def gives(*words: str) -> tuple[int, str]:
        try:
            code = run(words)
        except SystemExit as end:
            code = int(str(end.code))
        printed = capsys.readouterr()
        return code, printed.out + printed.err

    return gives


Out = Callable[..., tuple[int, str]]
SHOWN = (["farm", "show"], ["farm", "log"], ["leaves", "list"], ["publisher", "show"])
LEAF = to_b32_address(leaf(1).hash)


def test_a_change_is_made_in_the_name_of_the_server(node: Node, out: Out) -> None:
    code, text = out("leaves", "exclude", "node", LEAF, "--reason", "repairs")
    assert code == 0
    [entry] = node.posted
    assert (entry.by, entry.action, entry.hash, entry.reason) == ("server-1", "exclude", leaf(1).hash, "repairs")
    assert f"committed at index {node.index}: exclude {LEAF}" in text
    assert "the leaf is not listed: server-1 has excluded it: repairs" in text
    code, text = out("leaves", "include", "node", to_base64(leaf(1).hash))
    assert code == 0
    assert leaf(1).hash not in node.state.administration.excluded


@pytest.mark.parametrize("end", ["….b32.i2p", "", ".b32.i2p", "AA"])
def test_a_leaf_may_be_named_as_tables_show_it(node: Node, out: Out, end: str) -> None:
    node.take(record(2, replace(leaf(2), hash=b"w" * 32)).encode())
    address = to_b32_address(b"w" * 32)
    code, text = out("leaves", "exclude", "node", address[:8] + end if end != "AA" else address[:20].upper())
    assert (code, [entry.hash for entry in node.posted]) == (0, [b"w" * 32])
    assert f"exclude {address}" in text


def test_a_beginning_that_two_leaves_have_names_neither(node: Node, out: Out) -> None:
    code, text = out("leaves", "exclude", "node", LEAF[:8])
    assert (code, node.posted) == (2, [])
    assert "2 leaves of the farm begin with aaaaaaaa. `gf-i2p leaves list --json` shows whole addresses" in text


def test_a_cost_is_a_number_or_as_reckoned(node: Node, out: Out) -> None:
    assert out("leaves", "cost", "node", LEAF, "7")[0] == 0
    assert node.state.administration.costs == {leaf(1).hash: 7}
    assert "cost set to 7" in out("leaves", "list", "node")[1]
    assert out("leaves", "cost", "node", LEAF, "auto")[0] == 0
    assert node.state.administration.costs == {}
    for wrong in ("256", "cheap"):
        code, text = out("leaves", "cost", "node", LEAF, wrong)
        assert (code, "0 to 255, or auto" in text) == (2, True)


def test_what_a_change_leads_to_is_seen_when_the_node_has_taken_it_in(node: Node, out: Out) -> None:
    node.behind = 3
    assert out("publisher", "drain", "node", "1")[0] == 0
    assert node.behind < 0


def test_a_node_that_does_not_take_it_in_says_so(node: Node, out: Out, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(administer, "APPLY_SECONDS", 0.0)
    node.behind = 1000
    code, text = out("publisher", "drain", "node", "1", "--json")
    answer = json.loads(text)
    assert (code, answer["ok"], answer["outcome"]) == (3, False, "unknown")
    assert "committed at index" in answer["error"]


def test_a_new_set_is_ordered_and_awaited(node: Node, out: Out, monkeypatch: pytest.MonkeyPatch) -> None:
    for server in (1, 2):
        node.take(record(server, leaf(server), publish=None).encode())
    code, text = out("publisher", "publish-now", "node")
    assert (code, node.posted) == (3, [])
    assert "nothing was ordered: no server is chosen to publish" in text
    meets = record(1, leaf(1), mode="meta")
    node.take(meets.encode())
    assert node.state.publisher == 1
    monkeypatch.setattr(administer, "_SET_SECONDS", 0.0)
    code, text = out("publisher", "publish-now", "node", "--json")
    assert (code, json.loads(text)["outcome"]) == (3, "unknown"), "the publisher announces nothing"
    monkeypatch.setattr(administer, "_SET_SECONDS", 5.0)
    node.on_order = record(1, leaf(1), mode="meta", date=NOW + 1, published=NOW)
    code, text = out("publisher", "publish-now", "node", "--reason", "a test")
    assert (code, node.posted[-1].action, node.posted[-1].reason) == (0, "publishNow", "a test")
    assert "server 1 has announced the set of 20" in text
    node.take(record(1, leaf(1), mode="failover", date=NOW + 2).encode())
    code, text = out("publisher", "publish-now", "node")
    assert code == 1
    assert "in mode failover the router of server 1 makes a new lease set by itself" in text


def test_publishing_is_moved_and_given_back(node: Node, out: Out) -> None:
    code, text = out("publisher", "move", "node", "2", "--json")
    answer = json.loads(text)
    assert (code, answer["ok"], answer["moved_to"], answer["what"]) == (0, True, 2, "move 2")
    assert answer["publisher"] == node.state.choice.publisher
    assert "moved to server 2" in out("publisher", "show", "node")[1]
    assert out("publisher", "release", "node")[0] == 0
    assert node.state.administration.moved_to is None
    assert out("publisher", "drain", "node", "1")[0] == 0
    assert "drained by server-1" in out("publisher", "show", "node")[1]
    assert "server 2 is not drained; the drained servers are [1]" in out("publisher", "undrain", "node", "2")[1]
    assert out("publisher", "undrain", "node", "1")[0] == 0
    assert node.state.administration.drained == {}


def test_in_mode_failover_servers_serve_and_leaves_are_not_published(node: Node, out: Out) -> None:
    for server in (1, 2):
        node.take(record(server, leaf(server), mode="failover").encode())
    assert out("publisher", "show", "node")[1].splitlines()[0] == "server 1 is chosen to serve (failover)"
    assert "no leaf is published" in out("leaves", "list", "node")[1]
    _, told = out("publisher", "drain", "node", "1")
    assert "server 2 is chosen to serve (failover); server 1 is not chosen: it is drained" in told
    shown = out("publisher", "show", "node")[1].splitlines()
    assert shown[0] == "server 2 is chosen to serve (failover)"
    assert "drained by server-1" in shown[1]


def test_who_is_not_known_is_told_of_and_it_counts_all_the_same(node: Node, out: Out) -> None:
    code, text = out("publisher", "undrain", "node", "9")
    assert code == 0
    assert "the farm has no server 9: its servers are [1, 2]" in text
    code, text = out("leaves", "exclude", "node", to_b32_address(leaf(9).hash), "--json")
    assert code == 0
    assert json.loads(text)["warnings"] == ["nobody reports this leaf now; the change counts as soon as somebody does"]


def test_parameters_are_set_shown_and_unset(node: Node, out: Out) -> None:
    code, text = out("farm", "set", "node", "margin=70", "tree=tree", "--json")
    assert (code, json.loads(text)["parameters"]) == (0, {"margin": 70, "tree": "tree"})
    code, text = out("farm", "show", "node")
    assert code == 0
    [line] = [line for line in text.splitlines() if line.startswith("margin")]
    assert "70  (0 to 1000; default 50)  changed by server-1 at " in line
    assert out("farm", "unset", "node", "margin", "tree")[0] == 0
    assert node.state.parameters.encode() == {}
    code, text = out("farm", "log", "node")
    assert [line.split()[3] for line in text.splitlines()] == ["server-1", "server-1"]


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["farm", "set", "node", "margin=1001"], "margin is a whole number from 0 to 1000"),
        (["farm", "set", "node", "margin=lots"], "margin is a whole number"),
        (["farm", "set", "node", "tree=9"], "tree is one of best, tree"),
        (["farm", "set", "node", "margins=5"], "is no parameter of a farm"),
        (["farm", "set", "node", "margin=5", "margin=6"], "'margin' is given twice"),
        (["farm", "unset", "node", "margin", "tree", "margin"], "'margin' is given twice"),
        (["publisher", "move", "node", "77"], "the farm has no server 77: its servers are [1, 2]"),
        (["publisher", "drain", "node", "77"], "the farm has no server 77: its servers are [1, 2]"),
        (["farm", "set", "node", "margin"], "expected NAME=VALUE"),
        (["farm", "unset", "node", "margins"], "is no parameter of a farm"),
        (["leaves", "exclude", "node", "web"], r"b32.i2p, its first 8 letters or more, or a hash"),
        (["leaves", "exclude", "node", "zzzzzzzz….b32.i2p"], "no leaf of the farm begins with zzzzzzzz. "),
        (["leaves", "exclude", "node", LEAF[:7]], "its first 8 letters or more"),
        (["publisher", "move", "node", "-1"], ""),
        (["publisher", "move", "node", "x"], "the id of a server"),
        (["publisher", "release", "node", "--reason", "x" * 201], "up to 200 characters"),
    ],
)
def test_what_is_wrong_is_not_posted(node: Node, out: Out, words: list[str], why: str) -> None:
    code, text = out(*words)
    assert code == 2
    assert why in text
    assert node.posted == []


def test_a_change_that_changes_nothing_is_a_failure(node: Node, out: Out) -> None:
    """Each value is in range; the two together are not."""
    assert out("farm", "set", "node", "republishMaxMs=100000")[0] == 0
    code, text = out("farm", "set", "node", "republishMinMs=200000")
    assert code == 1
    assert "nothing changes" in text


def test_a_farm_without_a_leader_is_degraded(node: Node, out: Out) -> None:
    node.leader = None
    for words in SHOWN:
        code, text = out(*words, "node")
        assert (code, NO_LEADER_KNOWN in text) == (3, True)
        code, text = out(*words, "node", "--json")
        answer = json.loads(text)
        assert (code, answer["ok"], answer["leader"], answer["membership"]) == (3, True, None, "member")


def test_a_server_that_was_removed_says_so(node: Node, out: Out) -> None:
    """The node may still know a leader, like a server that was just removed."""
    node.membership = "removed"
    for words in SHOWN:
        code, text = out(*words, "node")
        assert (code, MEMBERSHIP_TEXTS["removed"] in text) == (3, True)
    for words in (["publisher", "move", "node", "2"], ["farm", "set", "node", "margin=5"]):
        code, text = out(*words)
        assert (code, MEMBERSHIP_TEXTS["removed"] in text, "nothing was changed" in text) == (3, True, True)
    assert node.posted == []


def test_what_is_not_known_is_not_made_up(node: Node, out: Out) -> None:
    node.state, node.leader = FarmState("farm"), None
    for words in SHOWN:
        code, text = out(*words, "node")
        assert code == 3
        assert text.splitlines() == [NO_LEADER_KNOWN, NOT_KNOWN]


@pytest.mark.parametrize("mode", ["dry-run", "off"])
def test_where_nothing_is_published_nobody_is_said_to_publish(node: Node, out: Out, mode: str) -> None:
    for server in (1, 2):
        publish = "off" if mode == "off" else "auto"
        node.take(record(server, leaf(server), mode=mode, publish=publish).encode())
    now = "no server is chosen to publish" if mode == "off" else "server 2 is chosen to publish (dry-run)"
    assert out("publisher", "move", "node", "2")[1].splitlines()[1].partition(";")[0] == now
    shown = out("publisher", "show", "node")[1]
    assert shown.splitlines()[0] == now
    assert "publishes\n" not in shown


def test_what_was_sensed_is_shown_with_the_farm(node: Node, out: Out) -> None:
    sensed = Sensed("2026-07-02", (Floodfill(bytes(32), b"\x01" * 32),))
    node.take(AdminEntry("farm", NOW, "admin-ann", "sensed", hash=leaf(1).hash, sensed=sensed).encode())
    text = out("farm", "show", "node")[1]
    assert f"closest floodfills sensed for 1 hash, last at index {node.index}" in text
    assert f"{LEAF}  1 floodfill on 2026-07-02, the closest shares 7 bits (by admin-ann; 1 day known)" in text
    [told] = json.loads(out("farm", "show", "node", "--json")[1])["sensed"]
    assert (told["address"], told["day"], told["closest"][0]["distance"]) == (LEAF, "2026-07-02", "01" * 32)


def test_nothing_that_others_wrote_controls_the_terminal(node: Node, out: Out) -> None:
    assert out("publisher", "drain", "node", "1", "--reason", "a\x1b[2Jb")[0] == 0
    for words in (["farm", "log"], ["publisher", "show"]):
        text = out(*words, "node")[1]
        assert "\x1b" not in text
        assert "\\x1b[2J" in text


def test_a_node_that_cannot_be_asked_afterwards_leaves_it_open(
    node: Node, out: Out, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ask(*arguments: Any, **options: Any) -> Any:
        if node.posted:
            raise CommandError("the node broke off")
        return node(*arguments, **options)

    monkeypatch.setattr(administer, "ask", ask)
    code, text = out("publisher", "drain", "node", "1", "--json")
    assert (code, json.loads(text)["outcome"]) == (1, "unknown")
    assert f"committed at index {node.index}" in text


async def test_administration_here_and_from_afar(tmp_path: Path) -> None:
    """A real farm: three servers, a follower's operator, an administrator's file and a client's file."""
    with LocalFarm(tmp_path) as farm:
        farm.start_all()
        leader = await farm.leader()
        follower = next(server for server in farm.ids if server != leader)
        code, answer = await gf_json("farm", "set", farm.node(follower), "margin=70")
        assert (code, answer["parameters"]) == (0, {"margin": 70})
        code, answer = await gf_json("publisher", "drain", farm.node(leader), str(leader), "--reason", "repairs")
        assert code == 0
        code, answer = await gf_json("farm", "log", farm.node(follower))
        assert [(made["by"], made["what"]) for made in answer["log"][:1]] == [(f"server-{follower}", "set margin = 70")]
        forged = AdminEntry("farm", NOW, "admin-load", "release").encode().decode()
        code, answer = await gf_json("post", farm.node(leader), forged)
        assert (code, answer["outcome"]) == (1, "no")
        assert "in the name of 'admin-load'" in answer["error"]
        code, _, error = await gf("farm", "set", farm.client_file, "margin=80")
        assert (code, "only an administrator may" in error) == (2, True)


async def test_an_administrator_changes_it_from_any_machine(tmp_path: Path) -> None:
    code, _, error = await gf(
        "init",
        tmp_path / "farm",
        "--server",
        f"1=tcp://127.0.0.1:{free_ports(1)[0]}",
        "--admin",
        "alice",
        "--client",
        "load",
    )
    assert code == 0, error
    file = tmp_path / "farm" / "admin-alice.toml"
    with LocalFarm(tmp_path / "farm", servers=1) as farm:
        farm.start_all()
        await farm.leader()
        code, answer = await gf_json("farm", "set", file, "margin=80", "--reason", "calm")
        assert (code, answer["what"]) == (0, "set margin = 80")
        assert answer["parameters"] == {"margin": 80}
        code, _, error = await gf("publisher", "move", file, "9")
        assert (code, error) == (2, "gf-i2p: nothing was changed: the farm has no server 9: its servers are [1]\n")
        assert (await gf_json("publisher", "release", file))[1]["warnings"] == []
        wrong, text = tmp_path / "wrong.toml", file.read_text()
        for mistake, why in (
            (with_another_key(text), "refuses user admin-alice or its key"),
            (text.replace('cluster = "farm"', 'cluster = "form"'), "server 1 has no farm form"),
        ):
            write_private(wrong, mistake)
            code, _, error = await gf("farm", "set", wrong, "margin=90")
            assert (code, why in error) == (1, True), error
            wrong.unlink()
        for place in (file, farm.node(1)):
            code, shown = await gf_json("farm", "show", place)
            changed = shown["parameters"]["margin"]["changed"]
            assert (code, changed["index"]) == (0, answer["index"])
            assert (changed["by"], changed["reason"]) == ("admin-alice", "calm")


async def test_what_the_pipeline_posts_is_in_the_state_of_a_real_farm(tmp_path: Path) -> None:
    """Parameters come by a command without Spark, and sensed values in the same way."""
    endpoint = f"1=tcp://127.0.0.1:{free_ports(1)[0]}"
    code, _, error = await gf("init", tmp_path / "farm", "--server", endpoint, "--admin", "ann", "--client", "load")
    assert code == 0, error
    file, fragment = tmp_path / "farm" / "admin-ann.toml", tmp_path / "recommended.toml"
    fragment.write_text("[farm.parameters]\nmargin = 80\n")
    with LocalFarm(tmp_path / "farm", servers=1) as farm:
        farm.start_all()
        await farm.leader()
        words = ("pipeline", "post", tmp_path, "--farm", "farm", "--admin", file, "--parameters", fragment, "--yes")
        code, answer = await gf_json(*words)
        assert (code, answer["what"], len(answer["indexes"])) == (0, ["set margin = 80"], 1)
        sensed = Sensed("2026-07-02", (Floodfill(bytes(32), b"\x01" * 32),))
        entries = [
            AdminEntry("farm", NOW, "admin-ann", "sensed", hash=bytes([each]) * 32, sensed=sensed) for each in (1, 2)
        ]
        index, _ = await administer.post(ClientFile.load(file), entries, print)
        assert index == answer["indexes"][0] + 2

        async def shown() -> Any:
            return (await gf_json("farm", "show", farm.node(1)))[1]

        now = await shown()
        while now["applied"] < index:
            now = await shown()
        assert now["parameters"]["margin"]["changed"]["by"] == "admin-ann"
        assert [each["index"] for each in now["sensed"]] == [index - 1, index]


async def test_what_all_servers_say_is_told_once() -> None:
    class Client:
        async def survey(self, **_: float) -> SimpleNamespace:
            troubles = {1: "The proxy is off.", 2: "The proxy is off.", 3: "The password is wrong."}
            return SimpleNamespace(configurations={}, troubles=troubles, refused={1, 2, 3})

    entry = AdminEntry("farm", NOW, "admin-joe", "set", parameters={"margin": 50})
    with pytest.raises(CommandError, match=r"^nothing was changed: The proxy is off\. The password is wrong\.$"):
        await administer._warnings_of_servers(Client(), entry)  # type: ignore[arg-type]
