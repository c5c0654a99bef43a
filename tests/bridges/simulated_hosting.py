"""`ServiceHosting` without a router, for tests: the hosting obeys, and remembers every set.

No tunnels, no clients: a test says how many streams are open.
"""

import asyncio
from collections.abc import Sequence

from bridges.errors import RouterRefusedError
from bridges.hosting_protocol import HostedService, ServiceOffer, ServiceState
from gf_i2p.farm.record.master_load import MasterLoad
from gf_i2p.netdb.lease_set import EncryptionKey, Lease, LeaseSet2


class SimulatedNetDb:
    """The sets that floodfills hold of one destination; the set with the greatest `published` wins.

    Hostings may share one netDb.
    """

    def __init__(self) -> None:
        self.taken: list[LeaseSet2] = []
        """Sets that were newer than all before; floodfills hold the last one."""
        self.passed_over: list[LeaseSet2] = []
        """Sets that were not newer: two holders got the same number, or an old set came late."""

    def store(self, lease_set: LeaseSet2) -> None:
        """Take a set if the set is newer."""
        newer = not self.taken or lease_set.published > self.taken[-1].published
        (self.taken if newer else self.passed_over).append(lease_set)


class SimulatedHosting:
    """A router that serves every offered service."""

    def __init__(self, net_db: SimulatedNetDb | None = None) -> None:
        self.net_db = net_db or SimulatedNetDb()
        self.services: list[SimulatedService] = []
        """All services that were opened, the last one last."""
        self.refusal: str | None = None
        """Reason why the router opens no service now."""
        self.ready = asyncio.Event()
        """The service's tunnels are built; set at first."""
        self.ready.set()

    async def open(self, offer: ServiceOffer) -> HostedService:
        """See `ServiceHosting.open`."""
        if self.refusal is not None:
            raise RouterRefusedError(self.refusal)
        await self.ready.wait()
        service = SimulatedService(offer, self.net_db, len(self.services))
        await service.renew()
        self.services.append(service)
        return service


class SimulatedService:
    """`HostedService`, under the control of a test."""

    def __init__(self, offer: ServiceOffer, net_db: SimulatedNetDb, number: int) -> None:
        self.offer = offer
        self.state = ServiceState.SERVING
        self.trouble: str | None = None
        """Trouble of the service; a test may set the text."""
        self.announced: LeaseSet2 | None = None
        """See `HostedService.announced`."""
        self._net_db = net_db
        self._number = number
        self._streams = 0
        self._empty = asyncio.Event()
        self._empty.set()
        self._ended = asyncio.Event()

    @property
    def streams(self) -> int:
        """Number of open streams; a test sets the number."""
        return self._streams

    @streams.setter
    def streams(self, number: int) -> None:
        self._streams = number
        if number:
            self._empty.clear()
        else:
            self._empty.set()

    @property
    def load(self) -> MasterLoad:
        """See `HostedService.load`; only the streams are known."""
        return MasterLoad(current_connections=self._streams)

    async def renew(self, leases: Sequence[Lease] = ()) -> None:
        """Announce and give another lease set, as a session does at intervals. Raises what `announce` does."""
        published = self.offer.next_published()
        lease_set = LeaseSet2.build(
            self.offer.keys,
            published=published,
            encryption=[EncryptionKey.of(bytes(31) + bytes([self._number % 256]))],
            leases=leases or [Lease(bytes(32), self._number, published + 60)],
        )
        await self.offer.announce(lease_set)
        self.announced = lease_set
        self._net_db.store(lease_set)
        self.offer.on_given(lease_set)

    def lose(self, reason: str) -> None:
        """Lose the service, as when the router hangs up."""
        self.state, self.trouble = ServiceState.LOST, reason
        self._ended.set()

    async def lost(self) -> None:
        """See `HostedService.lost`."""
        await self._ended.wait()

    async def drain(self, seconds: float) -> bool:
        """See `HostedService.drain`; there are no clients but `streams`."""
        self.state = ServiceState.DRAINING
        try:
            async with asyncio.timeout(seconds):
                await self._empty.wait()
        except TimeoutError:
            return False
        return True

    def resume(self) -> None:
        """See `HostedService.resume`."""
        if self.state is ServiceState.DRAINING:
            self.state = ServiceState.SERVING

    async def close(self) -> None:
        """See `HostedService.close`."""
        self.state = ServiceState.CLOSED
        self.streams = 0
        self._ended.set()
