"""Routers for tests of nodes: the routers answer at once, late, never, or wrongly."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from bridges.errors import RouterUnreachableError
from bridges.router_protocol import Publication
from gf_i2p.farm.record.router_facts import LeafStatus, MeasuredStatus, RouterStatus
from gf_i2p.netdb.meta_lease_set import MetaLeaseSet
from gf_i2p.netdb.session_config import SessionConfig

DOWN = RouterUnreachableError("the router is off")
DEFECT = ZeroDivisionError("a bridge's own mistake")


@dataclass
class FakeBridge:
    """The router beside one server. Calls are known by `status`, `hash`, `leaf`, `publish`, `stop`, `close`."""

    server: int = 1
    leaf: int | None = None
    """Number of the router's first leaf; None: this router has no leaf."""
    more: int = 0
    """Count of further leaves, whose numbers follow."""
    netdb: list[tuple[int, MetaLeaseSet]] = field(default_factory=list)
    """Sets that the routers of a farm have got, and the giving server of each; routers may share the list."""
    leaf_up: bool = True
    destination: str | None = None
    """The destination of each leaf, in base64."""
    known_peers: int = 8
    trouble: str | None = None
    errors: dict[str, Exception] = field(default_factory=dict)
    hung: dict[str, asyncio.Event] = field(default_factory=dict)
    """Calls that wait until the event is set."""
    calls: list[str] = field(default_factory=list)
    under_way: list[str] = field(default_factory=list)
    on_publish: Callable[[MetaLeaseSet], None] | None = None
    publications: list[Publication] = field(default_factory=list)
    """Publications that the router has got."""
    holds: MetaLeaseSet | None = None
    """The set that the router publishes now."""
    wanted: Callable[[], bool] = lambda: True
    """Whether the set is still wanted; the router asks before the set is published again."""

    def hang(self, call: str) -> asyncio.Event:
        self.hung[call] = asyncio.Event()
        return self.hung[call]

    async def _call(self, name: str) -> None:
        self.calls.append(name)
        if name in self.hung:
            self.under_way.append(name)
            try:
                await self.hung[name].wait()
            finally:
                self.under_way.remove(name)
        if name in self.errors:
            raise self.errors[name]

    @property
    def sent(self) -> list[MetaLeaseSet]:
        return [lease_set for server, lease_set in self.netdb if server == self.server]

    async def local_router_status(self) -> RouterStatus:
        await self._call("status")
        return RouterStatus(version="2.45.1", known_peers=self.known_peers)

    async def local_leaf_hash(self, master: bytes, place: int = 0) -> bytes | None:
        await self._call("hash")
        return None if self.leaf is None or place > self.more else (self.leaf + place).to_bytes(32)

    async def local_leaf_status(self, leaf: bytes) -> LeafStatus:
        await self._call("leaf")
        if self.more:
            await self._call(f"leaf {int.from_bytes(leaf)}")
        return LeafStatus(up=self.leaf_up, destination=self.destination)

    async def remote_measured_status(self, target: bytes) -> MeasuredStatus:
        raise NotImplementedError

    async def publish_meta_lease_set(self, publication: Publication) -> None:
        if self.on_publish is not None:
            self.on_publish(publication.lease_set)
        await self._call("publish")
        assert MetaLeaseSet.parse(publication.lease_set.data) == publication.lease_set
        config = SessionConfig.parse(publication.session)
        if publication.lease_set.offline is None:
            config.verify()
        else:
            assert config.delegated
        self.publications.append(publication)
        self.trouble = None
        self.holds, self.wanted = publication.lease_set, publication.may_give
        self.netdb.append((self.server, publication.lease_set))

    async def stop_publishing_meta_lease_set(self, master: bytes) -> None:
        await self._call("stop")
        self.holds = None

    def publication_trouble(self, master: bytes) -> str | None:
        if "trouble" in self.errors:
            raise self.errors["trouble"]
        return self.trouble

    async def close(self) -> None:
        self.holds = None
        await self._call("close")
