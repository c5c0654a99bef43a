"""Serves the master destination itself while the farm's log says that this server is to: `failover` mode.

Each lease set is announced in the log before the router gets it, so that `published` rises strictly from one holder to
the next. A holder that is not chosen any more, or has committed nothing for its lease time, publishes nothing from then
on, serves the clients that know only its lease set, and closes when they have gone.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from enum import StrEnum
from typing import Final

import structlog

from bridges.errors import RouterError
from bridges.hosting_protocol import Service, ServiceHosting, ServiceOffer, ServiceState
from gf_i2p.netdb.lease_set import LeaseSet2

logger = structlog.get_logger()

DRAIN_SECONDS: Final = 120.0
"""For clients to go. Lease sets end after 60 s, and most requests do not last another minute."""
_POLL_SECONDS: Final = 1.0
_AGAIN_SECONDS: Final = 2.0
"""After the router has refused, or was lost; twice as long each further time."""
_MAX_AGAIN_SECONDS: Final = 60.0


class NotDueError(Exception):
    """A lease set that is not given to the router: this server is not the one, or not any more."""


class FailoverState(StrEnum):
    """How far the service is."""

    IDLE = "idle"
    """It is another server's turn, or the router does not open a session now: see `trouble`."""
    OPENING = "opening"
    SERVING = "serving"
    DRAINING = "draining"


class Failover:
    """One server's service, when it is its turn. `run` takes it up and lays it down."""

    def __init__(
        self,
        hosting: ServiceHosting,
        offer: ServiceOffer,
        *,
        due: Callable[[], bool],
        announce: Callable[[LeaseSet2], Awaitable[int]],
        clock: Callable[[], float],
    ) -> None:
        """Take over nothing yet.

        Args:
            hosting: the router.
            offer: what is served; `announce` in it is not used.
            due: whether this server is to serve now: chosen, and its lease time is not over. Asked every second.
            announce: writes a set's `published` into the log; returns when that is committed and taken in here, with
                the index of its entry.
            clock: monotonic seconds.
        """
        self.state = FailoverState.IDLE
        self.announced_at: int | None = None
        """The index of the last announcement; None before the first one."""
        self.opened = 0
        """How many sessions were opened."""
        self._hosting = hosting
        self._offer = replace(offer, announce=self._announce)
        self._due = due
        self._to_log = announce
        self._clock = clock
        self._service: Service | None = None
        self._trouble: str | None = None
        self._again = _AGAIN_SECONDS
        self._not_before = clock()
        self._opened_at = clock()
        self._log = logger.bind(master=offer.keys.destination.b32)

    @property
    def trouble(self) -> str | None:
        """Why what should be served is not, or not well, in a sentence; None: all is well, or it is not our turn."""
        if self._service is not None and self._service.trouble is not None:
            return self._service.trouble
        return self._trouble

    @property
    def streams(self) -> int:
        """How many are open."""
        return 0 if self._service is None else self._service.streams

    @property
    def lease_set(self) -> LeaseSet2 | None:
        """What the router was given last; None while nothing is served."""
        return None if self._service is None else self._service.announced

    async def run(self) -> None:
        """Serve when due, stop when not, for ever. Cancelled, it breaks the open streams off and ends the session."""
        try:
            while True:
                await self._step()
        finally:
            await self._close()

    async def _step(self) -> None:
        service = self._service
        if service is None:
            if self._due() and self._clock() >= self._not_before:
                await self._open()
            else:
                self._become(FailoverState.IDLE)
                if not self._due():
                    self._trouble = None
                    self._again, self._not_before = _AGAIN_SECONDS, self._clock()
                await asyncio.sleep(_POLL_SECONDS)
        elif service.state is ServiceState.LOST:
            self._failed(service.trouble or "the router has ended the session")
            await self._close()
        elif not self._due():
            await self._drain(service)
        else:
            self._become(FailoverState.SERVING)
            if self._clock() - self._opened_at > _MAX_AGAIN_SECONDS:
                self._again = _AGAIN_SECONDS
            lost = asyncio.create_task(service.lost())
            await asyncio.wait([lost], timeout=_POLL_SECONDS)
            lost.cancel()

    async def _open(self) -> None:
        self._become(FailoverState.OPENING)
        opening = asyncio.create_task(self._hosting.open(self._offer))
        try:
            while not opening.done() and self._due():
                await asyncio.wait([opening], timeout=_POLL_SECONDS)
        finally:
            if not opening.done():
                opening.cancel()
                await asyncio.wait([opening])
            if not opening.cancelled() and opening.exception() is None:
                self._service = opening.result()  # however late: it is to be closed
        if self._service is not None:
            self._trouble = None
            self.opened += 1
            self._opened_at = self._clock()
            self._become(FailoverState.SERVING)
        elif not opening.cancelled() and self._due():
            error = opening.exception()
            assert error is not None
            if not isinstance(error, RouterError):
                self._log.error("a defect in serving", exc_info=error)
            self._failed(str(error) if isinstance(error, RouterError) else f"a defect of ours: {error!r}")

    async def _drain(self, service: Service) -> None:
        """Let the clients go; go on serving if it is our turn again meanwhile."""
        self._become(FailoverState.DRAINING)
        self._trouble = None
        draining = asyncio.create_task(service.drain(DRAIN_SECONDS))
        try:
            while not draining.done() and not self._due():
                await asyncio.wait([draining], timeout=_POLL_SECONDS)
            again = not draining.done()
        finally:
            draining.cancel()
            await asyncio.wait([draining])
        if again:
            service.resume()
        else:
            await self._close()

    async def _close(self) -> None:
        service, self._service = self._service, None
        if service is not None:
            await service.close()
        self._become(FailoverState.IDLE)

    async def _announce(self, lease_set: LeaseSet2) -> int:
        """Write a set into the log, and make sure that it is still our turn when it stands there."""
        if not self._due():
            raise NotDueError("it is another server's turn to serve")
        index = await self._to_log(lease_set)
        if not self._due():
            raise NotDueError("it is another server's turn to serve, since this one's lease set was announced")
        self.announced_at = index
        return index

    def _failed(self, reason: str) -> None:
        self._trouble = reason
        self._not_before = self._clock() + self._again
        self._again = min(2 * self._again, _MAX_AGAIN_SECONDS)
        self._log.warning("the master is not served", reason=reason)

    def _become(self, state: FailoverState) -> None:
        if state is not self.state:
            self._log.info("failover", state=str(state))
            self.state = state
