"""Serving the master itself: gf_i2p/node/publish/failover.py, at routers that are simulated."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

from bridges.hosting_protocol import ServiceOffer, ServiceState
from gf_i2p.netdb.lease_set import LeaseSet2
from gf_i2p.node.publish import failover as module
from gf_i2p.node.publish.failover import Failover, FailoverState, NotDueError
from tests.bridges.simulated_hosting import SimulatedHosting, SimulatedNetDb, SimulatedService
from tests.netdb.strategies import KEYS, NOW
from tests.transport.harness import until

IDLE, OPENING, SERVING, DRAINING = FailoverState


@pytest.fixture(autouse=True)
def _hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_POLL_SECONDS", 0.002)


class Log:
    """A farm's log, as far as this needs one: who holds the office, and the last `published`."""

    def __init__(self) -> None:
        self.holder: int | None = None
        self.last = NOW
        self.entries: list[tuple[int, int]] = []
        """Server and `published`."""
        self.writable = asyncio.Event()
        self.writable.set()
        self.net_db = SimulatedNetDb()


class Node:
    """One server."""

    def __init__(self, number: int, log: Log) -> None:
        self.hosting = SimulatedHosting(log.net_db)
        self.now = 0.0
        self._number = number
        self._log = log
        offer = ServiceOffer(KEYS, ("127.0.0.1", 1), lambda: log.last + 1)
        self.failover = Failover(self.hosting, offer, due=self._due, announce=self._announce, clock=lambda: self.now)

    @property
    def service(self) -> SimulatedService:
        return self.hosting.services[-1]

    def _due(self) -> bool:
        return self._log.holder == self._number

    async def _announce(self, lease_set: LeaseSet2) -> int:
        await self._log.writable.wait()
        self._log.last = max(self._log.last, lease_set.published)
        self._log.entries.append((self._number, lease_set.published))
        return len(self._log.entries)

    async def reaches(self, state: FailoverState) -> None:
        await until(lambda: self.failover.state is state)


@asynccontextmanager
async def running(*nodes: Node) -> AsyncIterator[None]:
    tasks = [asyncio.create_task(node.failover.run()) for node in nodes]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for node in nodes:
            assert node.failover.state is IDLE
            assert all(service.state is ServiceState.CLOSED for service in node.hosting.services)


async def test_it_serves_while_it_is_its_turn() -> None:
    log = Log()
    node = Node(1, log)
    async with running(node):
        assert node.failover.lease_set is None
        log.holder = 1
        await node.reaches(SERVING)
        assert log.entries == [(1, NOW + 1)]
        assert [each.published for each in log.net_db.taken] == [NOW + 1]
        assert (node.failover.trouble, node.failover.announced_at, node.failover.opened) == (None, 1, 1)
        assert node.failover.lease_set == node.service.announced
        node.service.streams = 3
        assert node.failover.streams == 3
        log.holder = 2
        await node.reaches(DRAINING)
        await until(lambda: node.service.state is ServiceState.DRAINING)
        node.service.streams = 0
        await node.reaches(IDLE)
        assert node.service.state is ServiceState.CLOSED


async def test_nothing_is_given_to_the_router_that_was_not_announced() -> None:
    log = Log()
    log.writable.clear()
    node = Node(1, log)
    async with running(node):
        log.holder = 1
        await node.reaches(OPENING)
        assert log.net_db.taken == []
        log.holder = 2  # the log was silent until somebody else was chosen
        await node.reaches(IDLE)
        log.writable.set()
        assert (log.net_db.taken, node.failover.trouble) == ([], None)


async def test_a_set_whose_announcement_comes_too_late_is_not_given() -> None:
    log = Log()
    node = Node(1, log)
    async with running(node):
        log.holder = 1
        await node.reaches(SERVING)
        log.writable.clear()
        renewing = asyncio.create_task(node.service.renew())
        await asyncio.sleep(0)
        log.holder = 2
        log.writable.set()
        with pytest.raises(NotDueError, match="another server's turn"):
            await renewing
        with pytest.raises(NotDueError):
            await node.service.renew()
        assert len(log.net_db.taken) == 1


async def test_the_office_goes_from_one_to_the_next_and_published_rises() -> None:
    log = Log()
    nodes = [Node(number, log) for number in (1, 2, 3)]
    async with running(*nodes):
        for turn in (0, 1, 2, 0):
            log.holder = turn + 1
            await nodes[turn].reaches(SERVING)
            await nodes[turn].service.renew()
        await until(lambda: [node.failover.state for node in nodes] == [SERVING, IDLE, IDLE])
    published = [each.published for each in log.net_db.taken]
    assert published == sorted(set(published))
    assert (len(published), log.net_db.passed_over) == (8, [])


async def test_a_turn_that_comes_back_during_the_drain_is_gone_on_with() -> None:
    log = Log()
    node = Node(1, log)
    async with running(node):
        log.holder = 1
        await node.reaches(SERVING)
        node.service.streams = 1
        log.holder = None
        await node.reaches(DRAINING)
        log.holder = 1
        await node.reaches(SERVING)
        assert (len(node.hosting.services), node.service.state) == (1, ServiceState.SERVING)


async def test_a_drain_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "DRAIN_SECONDS", 0.02)
    log = Log()
    node = Node(1, log)
    async with running(node):
        log.holder = 1
        await node.reaches(SERVING)
        node.service.streams = 1
        log.holder = 2
        await node.reaches(IDLE)
        assert node.service.state is ServiceState.CLOSED


async def test_a_router_that_refuses_is_asked_again_later_and_later() -> None:
    log = Log()
    node = Node(1, log)
    node.hosting.refusal = "another client holds the destination"
    log.holder = 1
    async with running(node):
        pauses = []
        for _ in range(7):
            await until(lambda: node.failover._not_before > node.now)
            assert node.failover.trouble == "another client holds the destination"
            await node.reaches(IDLE)
            pauses.append(node.failover._not_before - node.now)
            node.now = node.failover._not_before
        assert pauses == [2, 4, 8, 16, 32, 60, 60]
        node.hosting.refusal = None
        await node.reaches(SERVING)
        assert node.failover.trouble is None


async def test_a_session_that_is_lost_is_opened_anew() -> None:
    log = Log()
    node = Node(1, log)
    async with running(node):
        log.holder = 1
        await node.reaches(SERVING)
        node.service.trouble = "the local service does not answer"
        assert node.failover.trouble == "the local service does not answer"
        node.service.lose("the router hung up")
        await until(lambda: node.failover.trouble == "the router hung up" and node.failover.state is IDLE)
        node.now += 60
        await node.reaches(SERVING)
        assert (len(node.hosting.services), node.failover.opened) == (2, 2)
        await until(lambda: node.failover.trouble is None)
        assert log.entries == [(1, NOW + 1), (1, NOW + 2)]


async def test_an_opening_that_is_no_longer_wanted_is_given_up() -> None:
    log = Log()
    node = Node(1, log)
    node.hosting.ready.clear()
    async with running(node):
        log.holder = 1
        await node.reaches(OPENING)
        log.holder = 2
        await node.reaches(IDLE)
        assert node.hosting.services == []


async def test_the_end_closes_the_service() -> None:
    log = Log()
    log.holder = 1
    node = Node(1, log)
    run = asyncio.create_task(node.failover.run())
    await node.reaches(SERVING)
    node.service.streams = 1
    run.cancel()
    with suppress(asyncio.CancelledError):
        await run
    assert node.service.state is ServiceState.CLOSED
