"""The tasks of real nodes with simulated routers: one node publishes, and another node takes over when nodes stop."""

import asyncio
import random
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from gf_i2p.farm.parameters import Parameters
from gf_i2p.farm.publishing import cadence, lease, meta
from gf_i2p.farm.publishing.lease import LEASE_SECONDS
from gf_i2p.netdb.encoding import to_base64
from gf_i2p.netdb.meta_lease_set import MetaLeaseSet
from gf_i2p.node import farm_tasks
from gf_i2p.node.files.file_names import CONFIG_FILE
from gf_i2p.node.node import Node
from gf_i2p.node.publish import machine_loop as driving
from gf_i2p.node.report import router_info_file
from gf_i2p.node.status.publishing_status import publishing_status
from integration.harness.local_farm import becomes
from tests.farm.strategies import leaf
from tests.netdb.strategies import KEYS
from tests.netdb.test_router_info import build
from tests.node.farm import NodeFarm
from tests.node.routers import DEFECT, DOWN, FakeBridge


class Farm:
    """A farm, and the netDb that the farm's routers share."""

    def __init__(self, directory: Path, servers: int = 3, *, status_seconds: float = 1.0) -> None:
        self.netdb: list[tuple[int, MetaLeaseSet]] = []
        self.bridges = {n: FakeBridge(n, leaf=n, netdb=self.netdb) for n in range(1, servers + 1)}
        self.farm = NodeFarm(directory, servers, bridges=self.bridges, keys=KEYS, status_seconds=status_seconds)

    @property
    def nodes(self) -> dict[int, Node]:
        return self.farm.nodes

    @property
    def published(self) -> list[int]:
        return [lease_set.published for _, lease_set in self.netdb]

    def leaves(self) -> set[int]:
        """Give the leaves of the newest set."""
        return {int.from_bytes(entry.hash) for entry in self.netdb[-1][1].entries} if self.netdb else set()

    def holders(self) -> set[int]:
        return {server for server, bridge in self.bridges.items() if bridge.holds is not None}

    async def publishes(self, *leaves: int) -> int:
        """Wait until one server alone publishes a set with these leaves, and all know that; return the server."""

        def alone() -> bool:
            chosen = {node.farm_tasks.view.choice.publisher for node in self.nodes.values()}
            return len(chosen) == 1 and self.holders() == chosen == {self.netdb[-1][0]} and self.leaves() == set(leaves)

        await becomes(f"one server publishes {leaves}", alone, 40)
        return self.netdb[-1][0]


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    quick = Parameters(
        fresh_ms=4000, leaf_up_ms=200, leaf_down_ms=400, unheard_ms=400, flap_ms=800, republish_min_ms=400
    )
    monkeypatch.setattr("gf_i2p.farm.admin_entries.Parameters", lambda: quick)
    monkeypatch.setattr(lease, "LEASE_SECONDS", 4.0)
    monkeypatch.setattr(cadence, "HURRIED_SECONDS", 0.5)
    monkeypatch.setattr(driving, "LOOK_SECONDS", 0.05)
    monkeypatch.setattr(meta, "RETRY_SECONDS", 0.1)
    monkeypatch.setattr(meta, "MAX_RETRY_SECONDS", 0.2)


def own_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """Undo `_quick` for the farm; the choice needs a lease that is longer than the interval of the records."""
    monkeypatch.setattr("gf_i2p.farm.admin_entries.Parameters", Parameters)
    monkeypatch.setattr(lease, "LEASE_SECONDS", LEASE_SECONDS)


@asynccontextmanager
async def running(directory: Path, servers: int = 3, *, status_seconds: float = 1.0) -> AsyncIterator[Farm]:
    made = Farm(directory, servers, status_seconds=status_seconds)
    async with made.farm:
        yield made
        assert made.farm.halted == []
    assert made.published == sorted(set(made.published)), "every set is later than all before it"


def without(*servers: int) -> list[int]:
    return [server for server in (1, 2, 3) if server not in servers]


async def test_exactly_one_publishes_and_the_next_takes_over_with_a_later_set(tmp_path: Path) -> None:
    async with running(tmp_path) as made:
        first = await made.publishes(1, 2, 3)
        assert first in {server for server, _ in made.netdb}
        await made.farm.stop(first)
        second = await made.publishes(*without(first))
        assert second != first
        before = len(made.netdb)
        await made.farm.start(first)
        assert await made.publishes(1, 2, 3) == second, "who is as good stays the publisher"
        assert {server for server, _ in made.netdb[before:]} == {second}


async def test_a_publisher_that_dies_is_replaced_long_before_its_record_is_old(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the farm's real times: the leader, or the next leader, says at once that the publisher is silent."""
    own_times(monkeypatch)
    async with running(tmp_path, status_seconds=30.0) as made:
        first = await made.publishes(1, 2, 3)
        began = asyncio.get_running_loop().time()
        await made.farm.stop(first)
        await becomes("another one has published", lambda: made.netdb[-1][0] != first, 60)
        assert asyncio.get_running_loop().time() - began < Parameters().fresh_ms / 1000 / 2
        assert made.leaves() == {1, 2, 3}, "its leaf may come back"


async def test_a_publisher_that_is_stopped_says_so_and_is_replaced_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own_times(monkeypatch)
    async with running(tmp_path, status_seconds=30.0) as made:
        await made.farm.calm()  # without a known leader, a server can post nothing
        first = await made.publishes(1, 2, 3)
        stop = made.nodes[first].farm_tasks.stop
        others = [made.nodes[other].farm_tasks.view for other in without(first)]

        async def told() -> None:
            off = "publishing is off there"
            await becomes("the others know", lambda: all(view.choice.why_not.get(first) == off for view in others))
            made.farm.lively()
            await stop()

        monkeypatch.setattr(made.nodes[first].farm_tasks, "stop", told)
        await made.farm.stop(first, resigns=True)
        await becomes("another one has published", lambda: made.netdb[-1][0] != first)
        assert made.leaves() == {1, 2, 3}


async def test_nobody_waits_for_a_farm_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(farm_tasks, "RESIGN_SECONDS", 3600.0)
    async with running(tmp_path) as made:
        first = await made.publishes(1, 2, 3)
        for other in without(first):
            await made.farm.stop(other)
        await becomes("it is alone", lambda: not any(link.connected for link in made.nodes[first].links.values()))
        async with asyncio.timeout(20):
            await made.farm.stop(first, resigns=True)


async def test_published_rises_whoever_dies(tmp_path: Path) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    async with running(tmp_path) as made:
        publisher = await made.publishes(1, 2, 3)
        for its_turn in chance.sample([True, True, False, False], 4):
            victim = publisher if its_turn else chance.choice(without(publisher))
            await made.farm.stop(victim)
            publisher = await made.publishes(*without(victim))
            await made.farm.start(victim)
            assert await made.publishes(1, 2, 3) == publisher
        assert len(made.published) > 4


async def test_who_has_lost_the_farm_stops_by_itself(tmp_path: Path) -> None:
    """For the time of a lease two servers may both publish; then at most one does, and none without a majority."""
    async with running(tmp_path) as made:
        first = await made.publishes(1, 2, 3)
        others = without(first)
        for other in others:
            await made.farm.stop(other)
        sent = len(made.netdb)
        await becomes("nobody publishes", lambda: made.holders() == set())
        node = made.nodes[first].farm_tasks.publisher
        assert node is not None
        assert node.shown() is None
        assert node.trouble is not None
        assert len(made.netdb) <= sent + 1, "at most the set whose announcement was committed already"
        await made.farm.start(others[1])
        await made.publishes(*without(others[0]))


async def test_a_publisher_that_the_others_do_not_hear_is_replaced_and_stops(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(tmp_path) as made:
        first = await made.publishes(1, 2, 3)
        alone = made.nodes[first]

        async def cut(*_: object, **__: object) -> int:
            await asyncio.Event().wait()
            return 0

        post = alone.driver.post
        monkeypatch.setattr(alone.driver, "post", cut)
        await becomes("another one has published", lambda: made.netdb[-1][0] != first)
        await made.publishes(*without(first))
        assert alone.farm_tasks.publisher is not None
        assert alone.farm_tasks.publisher.shown() is None
        monkeypatch.setattr(alone.driver, "post", post)


async def test_a_router_that_goes_ends_its_servers_publishing_and_its_leaf(tmp_path: Path) -> None:
    async with running(tmp_path) as made:
        made.bridges[2].errors = {"status": DOWN}
        first = await made.publishes(1, 3)
        made.bridges[first].errors = {"status": DOWN, "hash": DEFECT}
        made.bridges[2].errors = {}
        assert await made.publishes(*without(first)) != first
        made.bridges[first].errors = {}
        await made.publishes(1, 2, 3)


async def test_a_session_that_is_lost_is_made_again(tmp_path: Path) -> None:
    async with running(tmp_path) as made:
        bridge = made.bridges[await made.publishes(1, 2, 3)]
        before = made.netdb[-1][1].published
        bridge.holds, bridge.trouble = None, "the router has restarted"
        await made.publishes(1, 2, 3)
        assert made.netdb[-1][1].published > before


async def test_a_server_without_a_router_votes_and_posts_nothing(tmp_path: Path) -> None:
    made = Farm(tmp_path)
    made.farm.bridges = {server: bridge for server, bridge in made.bridges.items() if server != 1}
    async with made.farm:
        await made.publishes(2, 3)
        assert 1 not in made.nodes[1].farm_tasks.view.state.records
        assert made.nodes[1].farm_tasks.reporter is None


@pytest.mark.parametrize("call", ["status", "hash", "leaf", "publish", "stop"])
async def test_a_node_stops_at_once_in_whatever_its_router_hangs(tmp_path: Path, call: str) -> None:
    made = Farm(tmp_path, servers=1)
    bridge = made.bridges[1]
    if call != "stop":
        bridge.hang(call)
    async with made.farm:
        if call == "stop":
            await made.publishes(1)
            bridge.hang("stop")
            bridge.leaf_up = False
        await becomes("it hangs", lambda: bridge.under_way == [call])
        async with asyncio.timeout(farm_tasks.CLOSE_SECONDS / 2):
            await made.farm.stop(1)
        assert bridge.under_way == []
        assert bridge.calls[-1] == "close"
        await made.farm.start(1)  # the log was closed, so the log can be opened


@pytest.mark.parametrize("error", [DOWN, DEFECT, None])
async def test_whatever_the_router_does_at_the_end_the_log_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception | None
) -> None:
    """`error`: None for a router that hangs."""
    monkeypatch.setattr(farm_tasks, "CLOSE_SECONDS", 0.2)
    made = Farm(tmp_path, servers=1)
    async with made.farm:
        await made.publishes(1)
        if error is None:
            made.bridges[1].hang("close")
        else:
            made.bridges[1].errors["close"] = error
        await made.farm.stop(1)
        made.bridges[1].errors.clear()
        made.bridges[1].hung.clear()
        await made.farm.start(1)
        await made.publishes(1)


async def test_after_a_restart_nothing_is_sent_by_what_the_log_said_long_ago(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log's beginning names this server as the publisher; the log's end names another one."""
    monkeypatch.setattr("gf_i2p.node.view._PAGE_ENTRIES", 1)
    async with running(tmp_path) as made:
        first = await made.publishes(1, 2, 3)
        await made.farm.stop(first)
        await made.publishes(*without(first))
        made.bridges[first].errors["status"] = DOWN
        await made.farm.start(first)
        node, sent = made.nodes[first], len(made.bridges[first].sent)
        view, leader = node.farm_tasks.view, await made.farm.leader()
        await becomes("caught up", lambda: view.applied == leader.driver.core.commit)
        await becomes("its word is in the log", lambda: not view.state.records[first].router_up)
        assert len(made.bridges[first].sent) == sent
        await becomes("the farm knows", lambda: view.choice.why_not[first] == "its router is down")
        assert leaf(first).hash not in view.choice.leaves


async def test_the_router_info_is_in_the_log_and_a_missing_one_in_the_status(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(router_info_file, "LOOK_SECONDS", 0.02)
    farm = NodeFarm(tmp_path, 1, bridges={1: FakeBridge(1, leaf=1)}, keys=KEYS, status_seconds=1.0)
    config = farm.path(1) / CONFIG_FILE
    config.write_text(
        config.read_text().replace("[router]\n[publish]", '[router]\ninfo_file = "router.info"\n[publish]')
    )
    async with farm:
        tasks = (await farm.leader()).farm_tasks

        def told() -> object:
            record = tasks.view.state.records.get(1)
            return None if record is None else record.router.get("lastPublishedRI")

        await becomes(
            "trouble", lambda: any("router.info cannot be read" in each for each in publishing_status(tasks)["trouble"])
        )
        assert told() is None
        info = build(published=int(time.time() * 1000))
        (farm.path(1) / "router.info").write_bytes(info.data)
        await becomes("in the log", lambda: told() == to_base64(info.data), 40)
        assert publishing_status(tasks)["trouble"] == []
