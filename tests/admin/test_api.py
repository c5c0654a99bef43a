"""The local interface of a real node, asked as any HTTP client would."""

import asyncio
import base64
import io
import socket
import stat
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from gf_i2p.admin import descriptions
from gf_i2p.admin.api import Api
from gf_i2p.admin.local_interface import LocalInterface
from gf_i2p.admin.local_socket import ADDRESS_BYTES, MAX_PAGE, MAX_PAGE_BYTES, socket_address
from gf_i2p.node import view
from gf_i2p.node.files.config import Config, Secrets
from gf_i2p.node.membership import removal_check
from gf_i2p.node.membership.invitation import accept, invite
from gf_i2p.node.node import Node
from gf_i2p.node.recovery.snapshot_copy import of_running
from gf_i2p.node.status.node_status import membership, status
from gf_i2p.raft.settings import Timing
from gf_i2p.storage.errors import StorageError
from gf_i2p.wire.endpoint import Endpoint
from gf_i2p.wire.entries import Entry
from gf_i2p.wire.limits import MAX_ENTRIES, MAX_VALUE_BYTES
from gf_i2p.wire.messages import NOBODY
from integration.harness.local_farm import becomes, until
from tests.node.farm import NodeFarm
from tests.node.membership.test_server_changes import removes
from tests.node.test_snapshots import shortened

Answer = tuple[int, Any]


class Asker:
    """Sends requests to one node's administration socket."""

    def __init__(self, node: Node, session: aiohttp.ClientSession) -> None:
        self.node = node
        self._session = session

    async def __call__(self, method: str, path: str, **options: Any) -> Answer:
        async with self._session.request(method, f"http://node{path}", **options) as response:
            assert response.content_type == "application/json"
            return response.status, await response.json()

    async def post(self, *values: object, query: str = "") -> Answer:
        return await self("POST", f"/v1/entries{query}", json={"values": values})


@asynccontextmanager
async def served(node: Node, path: Path) -> AsyncIterator[Asker]:
    api = Api(
        node.driver,
        lambda: {"cluster": node.cluster},
        partial(of_running, node),
        lacking=node.lacking,
        farm=lambda: node.removal_check.farm,
        events=node.farm_tasks.view.events.after,
    )
    local = LocalInterface(path, api)
    await local.start()
    try:
        with socket_address(path) as name:
            async with aiohttp.ClientSession(connector=aiohttp.UnixConnector(name)) as session:
                yield Asker(node, session)
    finally:
        await local.stop()


@pytest.fixture
async def ask(tmp_path: Path) -> AsyncIterator[Asker]:
    async with NodeFarm(tmp_path, servers=1) as farm, served(await farm.leader(), tmp_path / "s") as asker:
        yield asker


async def test_status(ask: Asker) -> None:
    assert await ask("GET", "/v1/status") == (200, {"cluster": "farm"})


async def test_the_health_check_of_a_container_says_whether_the_farm_takes_posts(tmp_path: Path) -> None:
    check = Path(__file__).parents[2] / "docker" / "ready"

    async def checked() -> tuple[int | None, str]:
        process = await asyncio.create_subprocess_exec(check, str(tmp_path / "s"), "1", stdout=asyncio.subprocess.PIPE)
        output, _ = await process.communicate()
        return process.returncode, output.decode()

    async def says(code: int, *words: str) -> bool:
        found, output = await checked()
        return found == code and all(word in output for word in words)

    assert await says(1, "The node does not run"), "nothing listens yet"
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(tmp_path / "s"))
        silent.listen()
        assert await says(1, "has not answered within 1 s"), "the node hangs"
    (tmp_path / "s").unlink()
    async with NodeFarm(tmp_path, servers=2) as farm:
        node = await farm.leader()
        local = LocalInterface(tmp_path / "s", Api(node.driver, partial(status, node, 0.0), partial(of_running, node)))
        await local.start()
        try:
            await until("the node is ready", 20, lambda: says(0, '"healthy"'))
            await farm.stop(3 - node.driver.core.id)
            await until("the node has no quorum", 60, lambda: says(1, '"unavailable"', "No quorum: 1 of 2"))
        finally:
            await local.stop()


async def test_askers_share_an_answer_that_is_long_to_make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with NodeFarm(tmp_path, servers=1) as farm:
        made = 0

        def describe() -> dict[str, int]:
            nonlocal made
            made += 1
            return {"made": made}

        node = await farm.leader()
        local = LocalInterface(tmp_path / "s", Api(node.driver, describe, partial(of_running, node)))
        await local.start()
        try:
            with socket_address(tmp_path / "s") as name:
                async with aiohttp.ClientSession(connector=aiohttp.UnixConnector(name)) as session:
                    ask = Asker(node, session)
                    assert [(await ask("GET", "/v1/status"))[1]["made"] for _ in range(3)] == [1, 2, 3]
                    monkeypatch.setattr(descriptions, "LEAST_SHARED", -1.0)
                    monkeypatch.setattr(descriptions, "ASKERS_SHARE", 1e-9)
                    assert [(await ask("GET", "/v1/status"))[1]["made"] for _ in range(3)] == [4, 4, 4]
        finally:
            await local.stop()


async def test_events_are_sentences_after_a_number(ask: Asker) -> None:
    await becomes("the first events", lambda: len(ask.node.farm_tasks.view.events.after(0)) >= 2)
    status, answer = await ask("GET", "/v1/events")
    first, *others = answer["events"]
    assert status == 200
    assert {event["text"] for event in answer["events"]} == {"server 1 leads, in term 1", "the farm has the servers 1"}
    assert first.keys() == {"number", "date", "index", "text"}
    began = answer["began"]
    assert await ask("GET", f"/v1/events?after={first['number']}") == (200, {"events": others, "began": began})
    assert await ask("GET", "/v1/events?after=99") == (200, {"events": [], "began": began})


async def test_what_was_posted_is_read_back(ask: Asker) -> None:
    assert await ask.post("one", "zw\u00f6lf \U0001f9c4") == (200, {"index": 3})
    status, page = await ask("GET", "/v1/entries?first=2")
    assert (status, page["commit"]) == (200, 3)
    assert page["entries"] == [
        {"index": 2, "term": 1, "type": "application", "value": "one"},
        {"index": 3, "term": 1, "type": "application", "value": "zw\u00f6lf \U0001f9c4"},
    ]


async def test_bytes_that_are_no_text_are_shown_as_base64_and_nothing_is_lost(ask: Asker) -> None:
    await ask.node.driver.post([b"\xff\x00"], seconds=10)
    _, page = await ask("GET", "/v1/entries?limit=2")
    assert page["entries"][0]["type"] == "configuration"
    assert b"tcp://127.0.0.1" in base64.b64decode(page["entries"][0]["base64"])
    assert page["entries"][1] == {"index": 2, "term": 1, "type": "application", "base64": "/wA="}


async def test_pages(ask: Asker) -> None:
    await ask.post(*map(str, range(10)))
    _, page = await ask("GET", "/v1/entries?first=4&limit=3")
    assert [entry["index"] for entry in page["entries"]] == [4, 5, 6]
    assert await ask("GET", "/v1/entries?first=12") == (200, {"entries": [], "commit": 11, "newest": True})
    assert await ask("GET", f"/v1/entries?first={2**63 - 1}") == (200, {"entries": [], "commit": 11, "newest": True})
    _, page = await ask("GET", f"/v1/entries?limit={MAX_PAGE}")
    assert len(page["entries"]) == 11
    _, page = await ask("GET", "/v1/entries?limit=2")
    assert [entry["index"] for entry in page["entries"]] == [10, 11], "the newest, without an index"


async def test_the_newest_entries_come_from_disk_and_memory_together(tmp_path: Path) -> None:
    async with NodeFarm(tmp_path, servers=1) as farm:
        await (await farm.leader()).driver.post([b"old"] * 5, seconds=30)
        await farm.stop(1)
        await farm.start(1)
        node = await farm.leader()
        async with served(node, tmp_path / "s") as ask:
            _, answer = await ask.post("new")
            for query in ("limit=3", "first=2"):
                _, page = await ask("GET", f"/v1/entries?{query}")
                assert page["entries"][-1]["index"] == answer["index"] == page["commit"]
                assert [entry["value"] for entry in page["entries"] if "value" in entry][-1] == "new"
            indexes = [entry["index"] for entry in page["entries"]]
            assert indexes == list(range(2, answer["index"] + 1))


async def test_a_question_may_wait_for_the_next_entry(ask: Asker) -> None:
    assert await ask("GET", "/v1/entries?first=2&wait=0.001") == (200, {"entries": [], "commit": 1, "newest": True})
    question = asyncio.ensure_future(ask("GET", "/v1/entries?first=2&wait=60"))
    await becomes("the question waits", lambda: bool(ask.node.driver._applied_waiters))
    await ask.post("one")
    status, page = await question
    assert (status, [entry["value"] for entry in page["entries"]]) == (200, ["one"])


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("{", "the body is not JSON"),
        ("[]", "expected {"),
        ('{"values": "x"}', "expected {"),
        ('{"values": []}', f"0 values were given; one post takes 1 to {MAX_ENTRIES}"),
        ('{"values": [1]}', "each a text"),
        ('{"values": [%s]}' % ("9" * 5000), "the body is not JSON"),
        ('{"values": ["\\ud800"]}', "value 1 cannot be encoded as UTF-8"),
        ('{"values": ["%s"]}' % ("x" * (MAX_VALUE_BYTES + 1)), f"may have {MAX_VALUE_BYTES} bytes"),
        ("[" * 100_000, "the body is not JSON"),
    ],
)
async def test_bodies_that_are_refused(ask: Asker, body: str, expected: str) -> None:
    status, answer = await ask("POST", "/v1/entries", data=io.BytesIO(body.encode()))
    assert (status, answer["outcome"]) == (400, "no")
    assert expected in answer["error"]
    assert ask.node.driver.core.log.last_index == 1


@pytest.mark.parametrize(
    ("method", "path", "expected"),
    [
        ("GET", "/v1/entries?first=0", "first must be a whole number from 1"),
        ("GET", "/v1/entries?first=1.5", "first must be a whole number from 1"),
        ("GET", f"/v1/entries?first={2**63}", "first must be a whole number from 1"),
        ("GET", f"/v1/entries?limit={MAX_PAGE + 1}", f"limit must be a whole number from 1 to {MAX_PAGE}"),
        ("GET", "/v1/entries?wait=61", "wait must be a number from 0 to 60"),
        ("POST", "/v1/entries?timeout=0", "timeout must be a number from 0.001 to 3600"),
        ("POST", "/v1/entries?timeout=nan", "timeout must be a number from 0.001 to 3600"),
    ],
)
async def test_queries_that_are_refused(ask: Asker, method: str, path: str, expected: str) -> None:
    status, answer = await ask(method, path, json={"values": ["x"]})
    assert (status, answer["outcome"]) == (400, "no")
    assert expected in answer["error"]


async def test_a_charset_that_nobody_knows(ask: Asker) -> None:
    headers = {"Content-Type": "application/json; charset=none"}
    status, answer = await ask("POST", "/v1/entries", data=b"{}", headers=headers)
    assert (status, answer["outcome"]) == (400, "no")


async def test_other_paths_and_methods(ask: Asker) -> None:
    assert (await ask("GET", "/v2"))[0] == 404
    assert (await ask("DELETE", "/v1/entries"))[0] == 405


async def calm_follower(farm: NodeFarm) -> Node:
    await farm.calm()
    return await farm.follower()


async def test_only_the_leader_promises_that_nothing_newer_exists(tmp_path: Path) -> None:
    async with NodeFarm(tmp_path) as farm, served(await calm_follower(farm), tmp_path / "s") as ask:
        index = (await ask.post("x"))[1]["index"]
        await farm.equal()
        status, answer = await ask("GET", "/v1/entries?stale=0")
        assert (status, answer["outcome"]) == (409, "no")
        assert f"the leader, server {ask.node.driver.core.leader}, can promise" in answer["error"]
        for query in ("", "?stale=1"):
            status, page = await ask("GET", f"/v1/entries{query}")
            assert (status, page["newest"]) == (200, False)
            assert [entry["index"] for entry in page["entries"]][-1] == index
        async with served(await farm.leader(), tmp_path / "l") as ask_leader:
            assert (await ask_leader("GET", "/v1/entries"))[1]["newest"]


async def test_without_a_leader_a_post_is_refused(tmp_path: Path) -> None:
    async with NodeFarm(tmp_path) as farm:
        for server in (1, 2):
            await farm.stop(server)
        await becomes("no leader", lambda: farm.nodes[3].driver.core.leader == NOBODY)
        async with served(farm.nodes[3], tmp_path / "s") as ask:
            status, answer = await ask.post("x", query="?timeout=0.1")
            assert (status, answer["outcome"]) == (503, "no")
            assert "no leader could be reached" in answer["error"]
            status, answer = await ask("GET", "/v1/entries?stale=0")
            assert (status, answer["outcome"]) == (503, "no")
            assert "no leader has a majority" in answer["error"]
            assert (await ask("GET", "/v1/entries"))[1]["newest"] is False


async def test_without_a_leader_servers_stay_and_what_to_do_is_said(tmp_path: Path) -> None:
    async with NodeFarm(tmp_path) as farm:
        await farm.leader()
        for server in (1, 2):
            await farm.stop(server)
        await becomes("no leader", lambda: farm.nodes[3].driver.core.leader == NOBODY)
        async with served(farm.nodes[3], tmp_path / "s") as ask:
            for path, body in (
                ("/v1/servers", {"remove": 1}),
                ("/v1/servers", {"remove": 3}),  # without `leader` the command would ask the leader
                ("/v1/stepdown", {}),
            ):
                status, answer = await ask("POST", path, json=body)
                assert (status, answer["outcome"]) == (503, "no"), (path, body)
                assert "start the servers that are down" in answer["error"]
                assert "gf-i2p recover" in answer["error"]


async def test_who_does_not_lead_says_who_does(tmp_path: Path) -> None:
    async with NodeFarm(tmp_path) as farm:
        leader = (await farm.calm()).driver.core.id
        async with served(await farm.follower(), tmp_path / "s") as ask:
            for path, body in (("/v1/servers", {"remove": leader}), ("/v1/stepdown", {})):
                status, answer = await ask("POST", path, json=body)
                assert (status, answer["outcome"]) == (409, "no")
                assert f"server {leader} leads" in answer["error"]


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({"remove": 9}, "the farm has no server 9: its servers are [1]"),
        ({"remove": 1}, "the last server cannot leave its farm: stop the node"),
        ({"add": {"id": 1, "endpoint": "tcp://127.0.0.1:1"}}, "the farm has a server 1 already, at "),
        ({"add": {"id": 2, "endpoint": "OWN"}}, "is the endpoint of server 1"),
        ({"add": {"id": 2, "endpoint": "tcp://127.0.0.1:1"}}, "members accept DIR FILE"),
    ],
)
async def test_the_leader_says_which_of_its_reasons_it_has(ask: Asker, body: dict[str, Any], says: str) -> None:
    own = ask.node.driver.core.configuration.servers[0].endpoint
    if "add" in body:
        body = {"add": {**body["add"], "endpoint": body["add"]["endpoint"].replace("OWN", own)}}
    status, answer = await ask("POST", "/v1/servers", json=body)
    assert (status, answer["outcome"]) == (409, "no")
    assert says in answer["error"]
    assert "another change" not in answer["error"]


def invited(node: Node, directory: Path, server: int, endpoint: Endpoint) -> None:
    """Let the node of server 1 know a server that does not run."""
    own = directory / "server-1"
    accept(own, invite(own, directory, server, endpoint).accept)
    assert node.reload(Config.load(own), Secrets.load(own)) == []


async def test_a_change_that_has_begun_says_in_whose_term_and_no_other_begins(ask: Asker, tmp_path: Path) -> None:
    core = ask.node.driver.core
    await becomes("a change can begin", lambda: core.change_obstacle is None)
    core.timing = Timing(heartbeat=0.1, election_min=60, election_max=120)  # the patience with a joining server
    invited(ask.node, tmp_path, 2, Endpoint("127.0.0.1", 1))
    add = {"add": {"id": 2, "endpoint": "tcp://127.0.0.1:1"}}
    assert await ask("POST", "/v1/servers", json=add) == (200, {"begun": True, "leader": 1, "term": core.term})
    status, answer = await ask("POST", "/v1/servers", json=add)
    assert (status, answer["outcome"]) == (409, "no")
    assert "no change can begin now: server 2 is joining" in answer["error"]
    done = {"add": {"id": 1, "endpoint": core.configuration.servers[0].endpoint}}
    assert (await ask("POST", "/v1/servers", json=done))[0] == 200, "a member is what it is asked to be"


async def test_a_server_that_was_removed_takes_no_posts_and_is_not_healthy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(removal_check, "CHECK_SECONDS", 0.1)
    async with NodeFarm(tmp_path) as farm:
        leader = await farm.calm()
        own = leader.driver.core.id
        gone, other = (server for server in farm.nodes if server != own)
        out = farm.nodes[gone]
        await becomes("a change can begin", lambda: leader.driver.core.change_obstacle is None)
        async with served(out, tmp_path / "s") as ask:
            assert (await ask.post("while it belongs to it"))[0] == 200
            assert await removes(leader, gone)
            await becomes("it knows", lambda: membership(out.driver.core) == "removed")
            assert not status(out, 0.0)["healthy"]
            before = leader.driver.core.log.last_index
            code, answer = await ask.post("x")
            assert (code, answer["outcome"]) == (409, "no")
            assert "was removed from the farm" in answer["error"]
            for server in (own, other):
                assert f"{server} ({farm.endpoints[server]})" in answer["error"]
            assert leader.driver.core.log.last_index == before
        # A restarted server learns the farm's members from the others.
        await farm.stop(gone)
        out = await farm.start(gone)
        async with served(out, tmp_path / "s") as ask:
            await becomes("it was told", lambda: out.removal_check.farm is not None)
            code, answer = await ask.post("x")
            assert (code, answer["outcome"]) == (409, "no")
            assert f"{own} ({farm.endpoints[own]})" in answer["error"]
            assert status(out, 0.0)["membership"] == "removed"


async def test_a_log_that_cannot_be_read_gives_its_sentence(ask: Asker, monkeypatch: pytest.MonkeyPatch) -> None:
    log = ask.node.driver.core.log
    good = log.slice

    def bad(first: int, last: int, *, max_entries: int, max_bytes: int) -> Sequence[Entry]:
        if max_bytes != MAX_PAGE_BYTES:
            return good(first, last, max_entries=max_entries, max_bytes=max_bytes)  # otherwise the node stops by itself
        raise StorageError("row 7 is damaged: do this")

    monkeypatch.setattr(log, "slice", bad)
    assert await ask("GET", "/v1/entries") == (500, {"error": "row 7 is damaged: do this", "outcome": "no"})


async def test_a_defect_is_logged_and_gives_a_sentence(ask: Asker, monkeypatch: pytest.MonkeyPatch) -> None:
    def bad(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(ask.node.driver, "post", bad)
    status, answer = await ask.post("x")
    assert (status, answer["outcome"]) == (500, "unknown")
    assert "the node's log shows the place" in answer["error"]


async def test_an_entry_of_unknown_outcome(ask: Asker, monkeypatch: pytest.MonkeyPatch) -> None:
    core = ask.node.driver.core
    # Otherwise the failing write may be the new leader's own, and the node has ended before the question.
    await becomes("all is written", lambda: core.commit == core.log.last_index)
    monkeypatch.setattr(ask.node.storage, "store", lambda group: (_ for _ in ()).throw(StorageError("full")).__next__())
    status, answer = await ask.post("x")
    assert (status, answer["outcome"]) == (504, "unknown")


async def test_nobody_else_may_open_the_socket_and_one_left_behind_gives_way(tmp_path: Path) -> None:
    path = tmp_path / "s"
    path.write_text("left behind")
    async with NodeFarm(tmp_path, servers=1) as farm:
        async with served(await farm.leader(), path):
            assert stat.S_ISSOCK(path.stat().st_mode)
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert not path.exists()


def open_paths() -> list[Path]:
    return [entry.resolve() for entry in Path("/proc/self/fd").iterdir()]


async def test_a_path_that_is_longer_than_an_address(tmp_path: Path) -> None:
    path = tmp_path / ("x" * ADDRESS_BYTES) / "s"
    path.parent.mkdir()
    async with NodeFarm(tmp_path, servers=1) as farm:
        async with served(await farm.leader(), path) as ask:
            assert stat.S_ISSOCK(path.stat().st_mode)
            assert (await ask("GET", "/v1/status"))[0] == 200
        assert not path.exists()
        assert path.parent not in open_paths()


async def test_a_log_that_was_shortened_is_read_from_where_it_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(view, "SNAPSHOT_ENTRIES", 20)
    monkeypatch.setattr(view, "KEPT_ENTRIES", 5)
    async with NodeFarm(tmp_path, servers=1) as farm:
        node = await farm.leader()
        await shortened(node, node, 20)
        async with served(node, tmp_path / "s") as ask:
            status, page = await ask("GET", "/v1/entries?limit=1000")
            base = node.driver.core.log.base
            assert (status, page["entries"][0]["index"]) == (200, base + 1)
            status, answer = await ask("GET", "/v1/entries?first=1")
            assert status == 410
            assert f"--first {base + 1}" in answer["error"]
