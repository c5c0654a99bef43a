"""Publishing in `failover` mode, by a real log: when the chosen server runs the master's address, and when not."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from bridges.hosting_protocol import ServiceState
from gf_i2p.farm.choice.publisher import Choice
from gf_i2p.farm.parameters import Parameters
from gf_i2p.farm.publishing.effects import PublishingEffects
from gf_i2p.farm.publishing.lease import LEASE_SECONDS
from gf_i2p.farm.record.master_load import MasterLoad
from gf_i2p.farm.record.status_record import StatusRecord
from gf_i2p.netdb.encoding import to_base64
from gf_i2p.netdb.session_config import SERVICE_OPTIONS
from gf_i2p.node import farm_tasks
from gf_i2p.node.node import Node
from gf_i2p.node.publish import failover, machine_loop
from gf_i2p.node.publish.failover import FailoverPublisher
from gf_i2p.node.publish.keys_watch import KeysWatch
from gf_i2p.node.publish.publishing_keys import HANDOVER_SECONDS, PublishingKeys, Purpose
from gf_i2p.node.report import reporter, service_watch
from gf_i2p.node.report.reporter import Reporter
from gf_i2p.node.report.service_watch import ServiceWatch
from gf_i2p.node.status.publishing_status import publishing_status
from gf_i2p.node.view import FarmView
from gf_i2p.wire.errors import NotCommittedError
from integration.harness.local_farm import becomes
from integration.harness.processes import free_ports
from tests.bridges.simulated_hosting import SimulatedHosting, SimulatedNetDb, SimulatedService
from tests.netdb.strategies import KEYS
from tests.node.farm import NodeFarm
from tests.node.routers import FakeBridge

DAY = 86_400


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_loop, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr(machine_loop, "_LEAST_SECONDS", 0.001)
    monkeypatch.setattr(failover, "_FINISH_POLL_SECONDS", 0.01)
    monkeypatch.setattr(service_watch, "CHECK_SECONDS", 0.02)
    monkeypatch.setattr(reporter, "WAIT_SECONDS", 0.05)
    monkeypatch.setattr(reporter, "LEAST_SECONDS", 0.05)
    quick = Parameters(leaf_up_ms=40, leaf_down_ms=80, unheard_ms=80, flap_ms=200)
    monkeypatch.setattr("gf_i2p.farm.admin_entries.Parameters", lambda: quick)


class LocalService:
    """The service for clients; a test starts and stops the service."""

    def __init__(self) -> None:
        (self.port,) = free_ports(1)
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        self._server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", self.port)

    async def stop(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            server.close()
            await server.wait_closed()


class Desk:
    """A server's failover publisher with simulated router, service and keys; the test moves the clocks."""

    def __init__(self, node: Node, keys: PublishingKeys, interval: float) -> None:
        self.now = 1000.0
        self.keys_now = time.time()
        self.local = LocalService()
        self.hosting = SimulatedHosting(SimulatedNetDb())
        self.driver = node.driver
        self.view: FarmView = node.farm_tasks.view
        self.reporter = Reporter(
            1,
            "farm",
            node.driver,
            FakeBridge(leaf=1),
            master=keys.destination,
            interval=interval,
            publish_config="auto",
            mode="failover",
            clock=lambda: self.now,
        )
        self.keys = KeysWatch(keys, clock=lambda: self.keys_now)
        self.publisher = FailoverPublisher(
            1,
            self.view,
            self.reporter,
            self.hosting,
            self.keys,
            ServiceWatch(("127.0.0.1", self.local.port), on_change=self.reporter.changed),
            http=True,
            options={"inbound.length": "1"},
            clock=lambda: self.now,
        )

    @property
    def service(self) -> SimulatedService:
        """The service that was opened last."""
        return self.hosting.services[-1]

    @property
    def record(self) -> StatusRecord | None:
        return self.view.state.records.get(1)

    async def serves(self) -> SimulatedService:
        await becomes("it serves", lambda: (self.publisher.shown() or {}).get("word") == "sent")
        return self.service

    async def reported(self, what: str, condition: Callable[[StatusRecord], bool]) -> StatusRecord:
        await becomes(what, lambda: self.record is not None and condition(self.record))
        assert self.record is not None
        return self.record


@asynccontextmanager
async def desk(
    directory: Path, *, keys: PublishingKeys | None = None, interval: float = 0.05, local: bool = True
) -> AsyncIterator[Desk]:
    async with NodeFarm(directory, servers=1) as farm:
        made = Desk(await farm.leader(), keys or PublishingKeys(KEYS), interval)
        if local:
            await made.local.start()
        tasks = [asyncio.create_task(run) for run in (made.reporter.run(), made.publisher.run())]
        try:
            yield made
            assert not any(task.done() for task in tasks), "they run for ever"
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            await made.local.stop()
        assert made.hosting.net_db.passed_over == []
        assert all(service.state is ServiceState.CLOSED for service in made.hosting.services)
        assert made.publisher.shown() is None


def publish_config(record: StatusRecord) -> str | None:
    return None if record.meta is None else record.meta.publish_config


# Serving ------------------------------------------------------------------------------------------------------------


async def test_who_is_chosen_announces_a_set_before_the_router_gets_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with desk(tmp_path) as made:
        store, announced = made.hosting.net_db.store, []

        def look(lease_set: Any) -> None:
            log = made.driver.core.log
            committed = log.slice(1, made.driver.core.applicable, max_entries=10_000, max_bytes=1 << 30)
            announced.append(any(to_base64(lease_set.data).encode() in entry.value for entry in committed))
            assert made.view.state.last_published_ms == lease_set.published * 1000
            store(lease_set)

        monkeypatch.setattr(made.hosting.net_db, "store", look)
        service = await made.serves()
        await service.renew()
        await becomes("both are sent", lambda: (made.publisher.shown() or {}).get("sent") == 2)
        assert announced == [True, True]
        first, second = made.hosting.net_db.taken
        assert second.published > first.published
        record = await made.reported("it says so", lambda record: record.meta is not None and record.meta.publishing)
        assert record.meta is not None
        await made.reported(
            "the set", lambda record: record.meta is not None and bool(record.meta.sent_ms) and bool(record.meta.hash)
        )
        assert made.publisher.trouble is None


async def test_what_is_served_and_what_the_status_shows(tmp_path: Path) -> None:
    async with desk(tmp_path) as made:
        service = await made.serves()
        offer = service.offer
        assert (offer.target, offer.http, offer.keys) == (("127.0.0.1", made.local.port), True, KEYS)
        assert offer.options == {**SERVICE_OPTIONS, "inbound.length": "1"}
        assert offer.signed_session is None
        service.streams = 3
        assert service.announced is not None
        assert made.publisher.shown() == {
            "state": "serving",
            "master": KEYS.destination.b32,
            "target": f"127.0.0.1:{made.local.port}",
            "published": service.announced.published,
            "expires": service.announced.expires_at,
            "streams": 3,
            "max_streams": 512,
            "max_streams_per_destination": 256,
            "sessions": 1,
            "sent": 1,
            "word": "sent",
            "load": {"uptime": 0, "currentConnections": 3},
        }
        made.now += 7
        await made.reported(
            "the load is in the record",
            lambda record: record.meta is not None and record.meta.load == MasterLoad(7000, current_connections=3),
        )
        service.lose("the router is gone")
        await made.reported(
            "without a session there is no load", lambda record: record.meta is not None and record.meta.load is None
        )


async def test_who_is_not_chosen_any_more_publishes_nothing_and_lets_its_clients_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with desk(tmp_path) as made:
        service = await made.serves()
        service.streams = 1
        monkeypatch.setattr(type(made.view), "choice", Choice(2, {}, mode="failover"))
        await becomes("it drains", lambda: service.state is ServiceState.DRAINING)
        assert (made.publisher.shown() or {})["state"] == "draining"
        with pytest.raises(Exception, match="another server's turn"):
            await service.renew()
        service.streams = 0
        await becomes("it is closed", lambda: made.publisher.shown() is None)
        await made.reported("it says so", lambda record: record.meta is not None and not record.meta.publishing)
        assert len(made.hosting.services) == 1


async def test_a_farm_in_another_mode_is_not_served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FarmView, "choice", Choice(1, {}, mode="meta"))
    async with desk(tmp_path) as made:
        await made.reported("two records", lambda record: record.leaves != ())
        looked = 0
        step = made.publisher._loop._step

        def counted() -> PublishingEffects:
            nonlocal looked
            looked += 1
            return step()

        monkeypatch.setattr(made.publisher._loop, "_step", counted)
        await becomes("it has looked", lambda: looked > 5)
        assert made.hosting.services == []


async def test_who_has_committed_nothing_for_its_lease_gives_no_new_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with desk(tmp_path) as made:
        service = await made.serves()
        service.streams = 1

        async def refused(values: list[bytes], *, seconds: float) -> int:
            raise NotCommittedError("no server leads")

        post = made.driver.post
        monkeypatch.setattr(made.driver, "post", refused)
        made.now += LEASE_SECONDS + 1
        await becomes("it drains", lambda: service.state is ServiceState.DRAINING)
        assert "no own record was committed" in (made.publisher.trouble or "")
        assert len(made.hosting.net_db.taken) == 1
        monkeypatch.setattr(made.driver, "post", post)
        await becomes("it goes on", lambda: service.state is ServiceState.SERVING)
        await becomes("all is well", lambda: made.publisher.trouble is None)
        assert len(made.hosting.services) == 1


# Keys ---------------------------------------------------------------------------------------------------------------


async def test_a_server_whose_keys_end_publishes_no_longer(tmp_path: Path) -> None:
    now = int(time.time())
    keys = PublishingKeys.delegate(KEYS, now + DAY, now, server=1)
    async with desk(tmp_path, keys=keys) as made:
        service = await made.serves()
        assert service.offer.signed_session == keys.signed_session(Purpose.SERVICE)
        made.keys_now = now + DAY - HANDOVER_SECONDS + 1
        await made.reported("it publishes no more", lambda record: publish_config(record) == "off")
        await becomes("it is closed", lambda: service.state is ServiceState.CLOSED)
        assert "at the end of their life" in (made.publisher.trouble or "")
        assert made.view.choice.publisher is None


async def test_new_keys_open_a_new_session(tmp_path: Path) -> None:
    now = int(time.time())
    async with desk(tmp_path, keys=PublishingKeys.delegate(KEYS, now + DAY, now)) as made:
        first = await made.serves()
        made.keys.keys = new = PublishingKeys.delegate(KEYS, now + 2 * DAY, now)
        await becomes("another session", lambda: len(made.hosting.services) == 2)
        assert first.state is ServiceState.CLOSED
        assert made.service.offer.keys == new.keys
        assert made.service.offer.signed_session == new.signed_session(Purpose.SERVICE)
        await made.serves()
        sets = made.hosting.net_db.taken
        assert [each.offline for each in sets] == [first.offer.keys.offline, new.keys.offline]


# The local service --------------------------------------------------------------------------------------------------


async def test_a_server_whose_local_service_is_gone_says_so_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The interval between records is long, so the fault alone causes the record."""
    monkeypatch.setattr(reporter, "ASK_SECONDS", 3600.0)
    async with desk(tmp_path, interval=3600.0) as made:
        service = await made.serves()
        await made.local.stop()
        record = await made.reported("it publishes no more", lambda record: publish_config(record) == "off")
        assert record.router_up
        await becomes("it is closed", lambda: service.state is ServiceState.CLOSED)
        assert "start the service, or correct target" in (made.publisher.trouble or "")
        await made.local.start()
        await made.reported("it may publish again", lambda record: publish_config(record) == "auto")
        await becomes("it serves again", lambda: len(made.hosting.services) == 2)
        assert made.publisher.trouble is None


async def test_a_server_that_never_had_a_local_service_is_not_chosen(tmp_path: Path) -> None:
    async with desk(tmp_path, local=False) as made:
        await made.reported("it does not publish", lambda record: publish_config(record) == "off")
        assert made.view.choice.publisher is None


# Farms of nodes -----------------------------------------------------------------------------------------------------


class ServingFarm:
    """Three nodes in mode `failover`, each with a local service and a simulated router; they share one netDb."""

    def __init__(self, directory: Path) -> None:
        net_db = SimulatedNetDb()
        self.locals = {server: LocalService() for server in (1, 2, 3)}
        self.hostings = {server: SimulatedHosting(net_db) for server in (1, 2, 3)}
        self.net_db = net_db
        self.farm = NodeFarm(
            directory,
            3,
            bridges={server: FakeBridge(server, leaf=server) for server in (1, 2, 3)},
            services={server: (self.hostings[server], self.locals[server].port) for server in (1, 2, 3)},
            keys=KEYS,
            status_seconds=30.0,
        )

    def serving(self) -> set[int]:
        return {
            server
            for server, hosting in self.hostings.items()
            if any(service.state is ServiceState.SERVING for service in hosting.services)
        }

    async def one_serves(self, *others_than: int) -> int:
        """Wait until one server alone serves, and all servers know that server; return the server's number."""

        def alone() -> bool:
            chosen = {node.farm_tasks.view.choice.publisher for node in self.farm.nodes.values()}
            if len(chosen) != 1 or self.serving() != chosen or chosen & {None, *others_than}:
                return False
            # The router serves a moment before the publisher says so.
            shown = publishing_status(self.farm.nodes[next(iter(self.serving()))].farm_tasks)["publishing"]
            return shown is not None and shown["state"] == "serving"

        await becomes("one server serves", alone, 40)
        return next(iter(self.serving()))


@asynccontextmanager
async def serving_farm(directory: Path) -> AsyncIterator[ServingFarm]:
    made = ServingFarm(directory)
    for local in made.locals.values():
        await local.start()
    try:
        async with made.farm:
            yield made
            assert made.farm.halted == []
    finally:
        for local in made.locals.values():
            await local.stop()
    assert made.net_db.passed_over == [], "published rises from one server to the next"


async def test_another_server_takes_over_when_the_local_service_is_gone(tmp_path: Path) -> None:
    async with serving_farm(tmp_path) as made:
        first = await made.one_serves()
        await made.locals[first].stop()
        second = await made.one_serves(first)
        assert second != first
        status = publishing_status(made.farm.nodes[first].farm_tasks)
        assert status["why_not"][str(first)] == "publishing is off there"
        assert any("does not answer" in each for each in status["trouble"])
        assert publishing_status(made.farm.nodes[second].farm_tasks)["publishing"]["state"] == "serving"


async def test_a_server_that_stops_hands_over_and_lets_its_clients_finish(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(farm_tasks, "RESIGN_SECONDS", 60.0)
    monkeypatch.setattr(farm_tasks, "FINISH_SECONDS", 60.0)
    async with serving_farm(tmp_path) as made:
        await made.farm.calm()  # without a known leader, a server can post nothing
        first = await made.one_serves()
        service = made.hostings[first].services[-1]
        service.streams = 1
        stopping = asyncio.create_task(made.farm.stop(first, resigns=True))
        await becomes("another one serves", lambda: made.serving() - {first} != set(), 40)
        assert not stopping.done(), "a client is still there"
        # The first server checks every second whether it is still chosen.
        states = [ServiceState.DRAINING]
        await becomes("it drains", lambda: [each.state for each in made.hostings[first].services] == states, 40)
        made.farm.lively()
        service.streams = 0
        await stopping
        assert [each.state for each in made.hostings[first].services] == [ServiceState.CLOSED]
        records = next(iter(made.farm.nodes.values())).farm_tasks.view.state.records
        await becomes("it has said so", lambda: publish_config(records[first]) == "off")
        await made.farm.start(first)
        second = await made.one_serves()
        assert second != first, "who is as good stays the publisher"
        state = made.farm.nodes[second].farm_tasks.view.state
        await becomes("it can be chosen again", lambda: publish_config(state.records[first]) == "auto")


async def test_a_server_that_stops_waits_for_nobody_for_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(farm_tasks, "RESIGN_SECONDS", 0.05)
    monkeypatch.setattr(farm_tasks, "FINISH_SECONDS", 0.05)
    async with serving_farm(tmp_path) as made:
        first = await made.one_serves()
        service = made.hostings[first].services[-1]
        service.streams = 1

        async def silent(values: list[bytes], *, seconds: float) -> int:
            await asyncio.Event().wait()
            return 0

        monkeypatch.setattr(made.farm.nodes[first].driver, "post", silent)
        async with asyncio.timeout(30):
            await made.farm.stop(first, resigns=True)
        assert service.state is ServiceState.CLOSED
