"""Several nodes in one process: the end of one ends no other; one's farm may be a leaf of another's."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from structlog.contextvars import get_contextvars
from structlog.testing import capture_logs

from gf_i2p.farm.publishing import cadence
from gf_i2p.netdb.meta_lease_set import LeaseType
from gf_i2p.netdb.private_keys import DestinationKeys
from gf_i2p.node.files.client_file import ClientFile
from gf_i2p.node.files.config import Config, Secrets
from gf_i2p.node.files.farm_setup import make_farm
from gf_i2p.node.files.file_names import CONFIG_FILE
from gf_i2p.node.files.trust import tls_settings
from gf_i2p.node.listener import SharedListener, Tenant, tenants_by_listener
from gf_i2p.node.node import Node
from gf_i2p.node.publish import branches
from gf_i2p.node.publish.publishing_keys import PublishingKeys
from gf_i2p.node.report import leaf_farm as leaf_farm_module
from gf_i2p.node.report.leaf_farm import HostedFarm
from gf_i2p.node.supervisor import SupervisedNode, Supervisor
from gf_i2p.storage.errors import StorageError
from gf_i2p.transport.client.farm_client import FarmClient
from gf_i2p.transport.errors import TransportError
from gf_i2p.transport.tls.certificates import fingerprint, make_certificate
from gf_i2p.transport.tls.tls_transport import TlsTransport
from gf_i2p.wire.endpoint import Endpoint
from gf_i2p.wire.errors import NotCommittedError
from integration.harness.local_farm import becomes
from integration.harness.processes import free_ports
from tests.node.farm import CALM
from tests.node.routers import FakeBridge
from tests.node.threaded_history import HistoryThread


@dataclass
class FakeLife:
    """Notes each call, and the name under which the call was made."""

    fails: Exception | None = None
    fails_to_stop: Exception | None = None
    said: list[str] = field(default_factory=list)
    names: list[Any] = field(default_factory=list)

    async def start(self) -> None:
        if self.fails is not None:
            raise self.fails
        self.said.append("started")
        self.names.append(get_contextvars().get("node"))

    async def stop(self) -> None:
        self.said.append("stopped")
        self.names.append(get_contextvars().get("node"))
        if self.fails_to_stop is not None:
            raise self.fails_to_stop


@asynccontextmanager
async def running(supervisor: Supervisor, **lives: SupervisedNode) -> AsyncIterator[Callable[[], None]]:
    """Start all nodes that can start; yield a function that stops the nodes. At the end, wait until all have ended."""
    stopped: asyncio.Future[BaseException | None] = asyncio.get_running_loop().create_future()
    started = asyncio.Event()
    task = asyncio.create_task(supervisor.run(lives, stopped, on_start=started.set))
    await asyncio.wait_for(started.wait(), 20)
    yield lambda: None if stopped.done() else stopped.set_result(None)
    await asyncio.wait_for(task, 20)
    assert not {each.get_name() for each in asyncio.all_tasks()} - {asyncio.current_task().get_name()}  # type: ignore[union-attr]


async def test_all_are_started_and_stopped_each_with_its_name_in_the_log() -> None:
    supervisor, a, b = Supervisor(), FakeLife(), FakeLife()
    async with running(supervisor, a=a, b=b) as stop:
        assert (a.said, b.said) == (["started"], ["started"])
        stop()
    assert (a.said, b.said) == (["started", "stopped"], ["started", "stopped"])
    assert (a.names, b.names) == (["a", "a"], ["b", "b"])
    assert get_contextvars() == {}
    assert supervisor.troubles == {}


async def test_one_that_halts_is_stopped_alone_and_told_at_the_end() -> None:
    supervisor, a, b = Supervisor(), FakeLife(), FakeLife()
    gone = StorageError("the disk is gone")
    with capture_logs() as lines:
        async with running(supervisor, a=a, b=b) as stop:
            supervisor.halts("a")(gone)
            supervisor.halts("a")(ZeroDivisionError())  # the first reason counts
            await becomes("stopped", lambda: "stopped" in a.said)
            assert b.said == ["started"]
            stop()
    assert supervisor.troubles == {"a": gone}
    assert (a.said, b.said) == (["started", "stopped"], ["started", "stopped"])
    told = [(line["event"], line["node"], line["reason"], line["exc_info"]) for line in lines if "others" in line]
    assert told == [("served no more", "a", "the disk is gone", None)]


async def test_when_none_lives_it_is_over() -> None:
    supervisor, a, b, c = Supervisor(), FakeLife(), FakeLife(), FakeLife(fails=OSError("no such disk"))
    async with running(supervisor, a=a, b=b, c=c):
        supervisor.halts("b")(OSError("two"))
        supervisor.halts("a")(OSError("one"))
    assert sorted(supervisor.troubles) == ["a", "b", "c"]
    assert c.said == []


async def test_one_that_cannot_start_or_stop_does_not_keep_the_others() -> None:
    supervisor = Supervisor()
    a, b, c = FakeLife(fails=ZeroDivisionError("a defect")), FakeLife(fails_to_stop=OSError("stuck")), FakeLife()
    async with running(supervisor, a=a, b=b, c=c) as stop:
        assert (a.said, c.said) == ([], ["started"])
        stop()
    assert (b.said, c.said) == (["started", "stopped"], ["started", "stopped"])
    assert sorted(supervisor.troubles) == ["a", "b"]


async def test_who_is_told_to_stop_while_it_starts_begins_nothing_more() -> None:
    supervisor, b = Supervisor(), FakeLife()
    stopped: asyncio.Future[BaseException | None] = asyncio.get_running_loop().create_future()

    class Slow(FakeLife):
        async def start(self) -> None:
            stopped.set_result(None)
            await super().start()

    a = Slow()
    await supervisor.run({"a": a, "b": b}, stopped)
    assert (a.said, b.said) == (["started", "stopped"], [])


# Real nodes ---------------------------------------------------------------------------------------------------------


class RealLife:
    """A farm of one server, quickly elected."""

    def __init__(self, directory: Path, bridge: FakeBridge | None = None) -> None:
        self.where = directory / "server-1"
        path = self.where / CONFIG_FILE
        quick = "[timing]\nheartbeat = 0.01\nelection_min = 0.02\nelection_max = 0.04\n"
        text = path.read_text().replace("[timing]", quick, 1)
        if bridge is not None:
            text += '[router]\n[publish]\nmode = "meta"\nstatus_seconds = 1.0\n'
        path.write_text(text)
        self.config = Config.load(self.where)
        self.keys = None if bridge is None else PublishingKeys(DestinationKeys.generate())
        self.bridge = bridge
        self.client_file = directory / "client-test.toml"
        self.listener: SharedListener | None = None
        self.leaf_farm: HostedFarm | None = None
        self.on_halt: Callable[[BaseException], None] | None = None
        self.node: Node | None = None

    @property
    def tenant(self) -> Tenant:
        return Tenant(self.where, self.config, None if self.keys is None else self.keys.destination)

    async def start(self) -> None:
        assert self.on_halt is not None
        self.node = Node(
            self.where,
            self.config,
            Secrets.load(self.where),
            bridge=self.bridge,
            keys=self.keys,
            listener=self.listener,
            leaf_farm=self.leaf_farm,
            start_history=HistoryThread.start,
            on_halt=self.on_halt,
        )
        self.node.driver.core.timing = CALM  # an election before the disk's write would never end
        await self.node.start()

    async def stop(self) -> None:
        node, self.node = self.node, None
        assert node is not None
        await node.stop()

    def client(self) -> FarmClient:
        return ClientFile.load(self.client_file).open()

    @property
    def running(self) -> Node:
        assert self.node is not None
        return self.node


def two_farms(directory: Path, **bridges: FakeBridge) -> tuple[RealLife, RealLife]:
    """Farms "a" and "b", which share a listener."""
    endpoint = Endpoint("127.0.0.1", free_ports(1)[0])
    for name, beside in (("a", None), ("b", directory / "a")):
        make_farm(directory / name, {1: endpoint}, cluster=name, profile="lan", clients=["test"], beside=beside)
    a, b = (RealLife(directory / name, bridges.get(name)) for name in ("a", "b"))
    (tenants,) = tenants_by_listener([a.tenant, b.tenant])
    settings = tls_settings(tenants[0].directory, tenants[0].config)
    tls = TlsTransport(settings, host=endpoint.host, port=endpoint.port)
    a.listener = b.listener = SharedListener(tls, {"a", "b"}, tls=tls)
    return a, b


async def test_a_disk_that_fails_ends_one_farm_and_the_other_serves_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = two_farms(tmp_path)
    supervisor = Supervisor()
    a.on_halt, b.on_halt = supervisor.halts("a"), supervisor.halts("b")
    async with running(supervisor, a=a, b=b) as stop, a.client() as to_a, b.client() as to_b:
        assert await to_a.post([b"x"]) > 0
        assert await to_b.post([b"y"]) > 0
        assert a.listener is not None
        server = a.listener.server
        # Clients that only ask for the members of the farm come and go.
        theirs = {each for each in server._connections_of("b") if each._on_request is not None}
        assert theirs

        def broken(*_: object, **__: object) -> None:
            raise StorageError("the disk is gone")

        monkeypatch.setattr(a.running.storage, "store", broken)
        with pytest.raises(Exception, match=r"may be committed|Not committed"):
            await to_a.post([b"x"], timeout=2)
        await becomes("one farm is out", lambda: a.node is None)
        assert sorted(server.farms) == ["b"]
        assert server._connections_of("a") == []
        assert set(server._connections_of("b")) >= theirs, "not one of the other's connections was closed"
        assert await to_b.post([b"z"]) > 0
        with pytest.raises(NotCommittedError):
            await to_a.post([b"x"], timeout=0.5)
        stop()
    assert {name: str(error) for name, error in supervisor.troubles.items()} == {"a": "the disk is gone"}
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", a.tenant.place.port)


async def test_a_certificate_that_is_replaced_is_shown_to_both_farms_peers(tmp_path: Path) -> None:
    a, b = two_farms(tmp_path)
    supervisor = Supervisor()
    a.on_halt, b.on_halt = supervisor.halts("a"), supervisor.halts("b")
    async with running(supervisor, a=a, b=b) as stop:
        before = await shown(a)
        certificate, key = make_certificate("node")
        for each in (a, b):
            (each.where / "certificate.pem").write_bytes(certificate)
            (each.where / "key.pem").write_bytes(key)
        assert b.running.reload(Config.load(b.where), Secrets.load(b.where)) == []
        assert await shown(a) == fingerprint(certificate) != before
        (a.where / "certificate.pem").write_bytes(b"none")
        with pytest.raises(TransportError, match=r"certificate\.pem"):
            a.running.reload(Config.load(a.where), Secrets.load(a.where))
        assert await shown(a) == fingerprint(certificate)
        stop()


async def shown(life: RealLife) -> str:
    """Return the fingerprint of the certificate at the place where the node listens."""
    place = life.tenant.place
    pem = await asyncio.to_thread(ssl.get_server_certificate, (place.host, place.port))
    return fingerprint(pem.encode())


async def test_a_farms_master_is_listed_by_the_farm_above_while_it_publishes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cadence, "HURRIED_SECONDS", 0.1)
    above, below = FakeBridge(leaf=1), FakeBridge(leaf=2)
    a, b = two_farms(tmp_path, a=above, b=below)
    a.leaf_farm = HostedFarm("b", lambda: b.node)
    supervisor = Supervisor()
    a.on_halt, b.on_halt = supervisor.halts("a"), supervisor.halts("b")
    async with running(supervisor, a=a, b=b) as stop:
        await becomes("both publish", lambda: above.holds is not None and below.holds is not None)
        assert a.keys is not None
        assert b.keys is not None
        assert above.holds is not None
        assert below.holds is not None
        assert above.holds.destination == a.keys.destination
        assert [(entry.hash, entry.type) for entry in above.holds.entries] == [
            (b.keys.destination.hash, LeaseType.META)
        ]
        assert [(entry.hash, entry.type) for entry in below.holds.entries] == [((2).to_bytes(32), LeaseType.LEASE_SET2)]
        assert a.running.records[1].leaves[0].depth == 1

        def down() -> bool:
            record = a.running.records.get(1)
            return record is not None and not record.leaves[0].up

        supervisor.halts("b")(OSError("no space"))
        await becomes("the leaf above is down", down)
        reporter = a.running.farm_tasks.reporter
        assert reporter is not None
        assert reporter.trouble == "the farm in b does not run here now"
        stop()
    assert list(supervisor.troubles) == ["b"]
    assert leaf_farm_module.LISTED_MS == 1000 * branches.ENTRY_SECONDS
