"""A router bridge without a router: the bridge gives the answers that a test sets, and notes each call."""

import asyncio

from bridges.errors import RouterError
from bridges.router import NO_CONNECTIONS
from bridges.router_protocol import Publication
from gf_i2p.farm.record.router_facts import LeafStatus, MeasuredStatus, Reachability, RouterStatus

LEAF = bytes(range(32))
STATUS = RouterStatus(uptime_ms=3000, version="2.45.1", reachability=Reachability.OK, current_inbound=1.5)
MEASURED = MeasuredStatus(lease_set_seconds=0.5, connect_seconds=None, error="it hung up")


class FakeBridge:
    def __init__(self) -> None:
        self.leaf: bytes | None = LEAF
        self.error: Exception | None = None
        """The exception that every call raises."""
        self.go_on = asyncio.Event()
        """Publishing and measuring wait for ever until the test sets this event."""
        self.go_on.set()
        self.published: list[Publication] = []
        self.stopped: list[bytes] = []
        self.troubles: dict[bytes, str] = {}
        self.measuring = 0
        self.closed = False
        self._stops: dict[bytes, asyncio.Event] = {}

    def _check(self) -> None:
        if self.error is not None:
            raise self.error

    async def local_router_status(self) -> RouterStatus:
        self._check()
        await self.go_on.wait()
        return STATUS

    async def local_leaf_hash(self, master: bytes, place: int = 0) -> bytes | None:
        self._check()
        return self.leaf if place == 0 else None

    async def local_leaf_status(self, leaf: bytes) -> LeafStatus:
        self._check()
        return LeafStatus(up=leaf == LEAF, name="shop", connections_reason=NO_CONNECTIONS)

    async def remote_measured_status(self, target: bytes) -> MeasuredStatus:
        self._check()
        self.measuring += 1
        try:
            await self.go_on.wait()
        finally:
            self.measuring -= 1
        return MEASURED

    async def publish_meta_lease_set(self, publication: Publication) -> None:
        stop = self._stops.setdefault(publication.lease_set.destination.hash, asyncio.Event())
        waits = [asyncio.ensure_future(self.go_on.wait()), asyncio.ensure_future(stop.wait())]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in waits:
                each.cancel()
        if stop.is_set():
            raise RouterError("publishing was stopped meanwhile")
        self._check()
        self.published.append(publication)

    async def stop_publishing_meta_lease_set(self, master: bytes) -> None:
        self.stopped.append(master)
        stop = self._stops.pop(master, None)
        if stop is not None:
            stop.set()

    def publication_trouble(self, master: bytes) -> str | None:
        return self.troubles.get(master)

    async def close(self) -> None:
        self.closed = True
