"""Serves destinations through a router's I2CP: `ServiceHosting`, with its own lease sets and streaming.

With SAM, the router would make both, with leases of up to ten minutes. i2pd's HTTP proxy keeps a found lease set until
the leases end, even if the holder has died. The leases of this module end early. Their set ends later, so that the
floodfills always hold a set: see `lease_times`.
"""

import asyncio
import contextlib
import os
import time
from collections.abc import Callable
from functools import partial
from typing import Final

import structlog

from bridges.errors import RouterError, RouterUnreachableError
from bridges.hosting_protocol import HostedService, ServiceOffer, ServiceState
from bridges.i2cp.connection import I2cpConnection
from bridges.i2cp.lease_times import LEASES, GivingTimes
from bridges.i2cp.messages import (
    Disconnect,
    MessagePayload,
    RequestVariableLeaseSet,
    SessionStatus,
    Status,
    create_service_lease_set,
    send_message,
)
from bridges.i2cp.router_kind import router_kind
from bridges.i2cp.session import begin_session, end_session, no_request, read_config, session_ended
from bridges.i2cp.settings import I2cpSettings, RouterKind
from bridges.streaming.limits import MAX_BACKLOG
from bridges.streaming.stream import StreamPeer
from bridges.streaming.tcp_forward import Forwarder
from gf_i2p.farm.record.master_load import MasterLoad
from gf_i2p.netdb.errors import NetDbError
from gf_i2p.netdb.lease_set import (
    X25519,
    X25519_KEY_BYTES,
    EncryptionKey,
    Lease,
    LeaseSet2,
    read_offered,
    shortened,
)
from gf_i2p.netdb.session_config import SessionConfig, session_config

logger = structlog.get_logger()


_LATE_SECONDS: Final = 15.0
"""Seconds after a set's end for which a Java client may still use the set."""
_PATIENCE: float = 6.0
"""Seconds for announcing a new set. Then a router that has asked gets the last set again: i2pd waits only 10 s."""
_AGAIN: float = 3.0
"""Seconds between a failed announcement and the next try."""
_MESSAGE_MS = 60_000
"""Milliseconds for which a router may try to send a packet."""


class I2cpHosting:
    """Implements `ServiceHosting` at one router."""

    def __init__(self, settings: I2cpSettings, *, clock: Callable[[], float] = time.time) -> None:
        """`clock`: returns seconds since the epoch."""
        self._settings = settings
        self._clock = clock

    async def open(self, offer: ServiceOffer) -> HostedService:
        """See `ServiceHosting.open`."""
        kind = await router_kind(self._settings)
        config = _session_config(offer, kind, int(self._clock() * 1000))
        connection = await I2cpConnection.open(self._settings, self._clock)
        try:
            number = await begin_session(connection, kind, config)
        except BaseException:
            connection.close()
            raise
        service = I2cpService(offer, connection, kind, number, tunnels=_number(config.options.get("inbound.quantity")))
        try:
            await service.start()
        except BaseException:
            await asyncio.shield(service.close())
            raise
        return service


def _session_config(offer: ServiceOffer, kind: RouterKind, date_ms: int) -> SessionConfig:
    """Return the config that opens the session at this kind of router. Raises `RouterRefusedError`."""
    if offer.signed_session is None or kind is not RouterKind.I2PD:
        data = session_config(offer.keys, date_ms, offer.options)
    else:
        data = offer.signed_session
    return read_config(data, offer.keys.destination, subject="the keys are", owner="the destination of the service")


def _number(option: str | None) -> int | None:
    """Read a number from a session's option; None: the option is missing (the router has a default), or no number."""
    return int(option) if option is not None and option.isascii() and option.isdigit() and len(option) < 4 else None


class I2cpService:
    """Implements `HostedService` in one session. `I2cpHosting` makes objects of this class."""

    def __init__(
        self,
        offer: ServiceOffer,
        connection: I2cpConnection,
        kind: RouterKind,
        number: int,
        *,
        tunnels: int | None = None,
    ) -> None:
        """`tunnels`: inbound tunnels that the session asks for; None: not known."""
        self.state = ServiceState.SERVING
        self.reason = ""
        """Why the service is lost, in a sentence."""
        self.announced: LeaseSet2 | None = None
        """See `HostedService.announced`."""
        self.unannounced: str | None = None
        """Why the latest announcement failed, in a sentence; None: the router has the latest set."""
        self.sets_given = 0
        """Number of lease sets that the router has got."""
        self.dropped = 0
        """Number of packets that the router did not take in time."""
        self._offer = offer
        self._connection = connection
        self._times = LEASES[kind]
        self._number = number
        self._tunnels = tunnels
        self._log = logger.bind(destination=offer.keys.destination.b32)
        self._private = os.urandom(X25519_KEY_BYTES)
        self._encryption = (EncryptionKey.of(self._private),)
        self._leases: tuple[Lease, ...] = ()
        self._requested = asyncio.Event()
        self._set_given = asyncio.Event()
        self._giving = GivingTimes(self._times)
        self._ended = asyncio.Event()
        self._forwarder = Forwarder(offer.keys, offer.target, self._send, http=offer.http, most=offer.limits)
        self._tasks: list[asyncio.Task[None]] = []
        self._failure: RouterError | None = None

    async def start(self) -> None:
        """Wait until the router has asked for the lease set and has got the set. Raises `RouterError`."""
        for work in (self._receive(), self._renew()):
            task = asyncio.create_task(work)
            task.add_done_callback(partial(self._task_ended))
            self._tasks.append(task)
        ended = asyncio.create_task(self._ended.wait())
        first_set = asyncio.create_task(self._set_given.wait())
        try:
            async with asyncio.timeout(self._connection.settings.deadlines.tunnels):
                await asyncio.wait([ended, first_set], return_when=asyncio.FIRST_COMPLETED)
        except TimeoutError as error:
            raise no_request(self._connection.settings) from error
        finally:
            ended.cancel()
            first_set.cancel()
        if self._failure is not None:
            raise self._failure
        self._log.info("service_opened")

    @property
    def streams(self) -> int:
        """See `HostedService.streams`."""
        return self._forwarder.open

    @property
    def load(self) -> MasterLoad:
        """See `HostedService.load`."""
        return MasterLoad(
            configured_tunnels=self._tunnels,
            current_tunnels=sum(lease.end > self._router_now for lease in self._leases),
            configured_connections=self._offer.limits.streams,
            current_connections=self._forwarder.open,
            current_bandwidth=self._forwarder.bytes_per_second,
        )

    @property
    def _router_now(self) -> int:
        """The router's time now, in seconds since the epoch. The router's tunnels end by this clock."""
        return self._connection.router_ms() // 1000

    @property
    def served(self) -> int:
        """Number of streams that were ever opened."""
        return self._forwarder.served

    @property
    def trouble(self) -> str | None:
        """See `HostedService.trouble`."""
        return self.reason or self.unannounced or self._forwarder.trouble

    async def lost(self) -> None:
        """See `HostedService.lost`."""
        await self._ended.wait()

    async def drain(self, seconds: float) -> bool:
        """See `HostedService.drain`."""
        if self.state is ServiceState.SERVING:
            self.state = ServiceState.DRAINING
        draining = asyncio.create_task(self._drain())
        ended = asyncio.create_task(self._ended.wait())
        try:
            await asyncio.wait([draining, ended], timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            return draining.done()
        finally:
            draining.cancel()
            ended.cancel()

    async def _drain(self) -> None:
        if self.announced is not None:
            await asyncio.sleep(max(self.announced.expires_at + _LATE_SECONDS - self._router_now, 0))
        self._forwarder.accepts_streams = False
        await self._forwarder.wait_until_idle()

    def resume(self) -> None:
        """See `HostedService.resume`."""
        if self.state is ServiceState.DRAINING:
            self.state = ServiceState.SERVING
            self._forwarder.accepts_streams = True
            if self._leases:
                self._requested.set()

    async def close(self) -> None:
        """See `HostedService.close`."""
        if self.state is ServiceState.CLOSED:
            return
        self.state = ServiceState.CLOSED
        try:
            await self._forwarder.close()  # this tells the clients while there is still a session
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            await end_session(self._connection, self._number)
        finally:
            self._connection.close()
            self._ended.set()
        self._log.info("service_closed")

    # The session ----------------------------------------------------------------------------------------------------

    async def _receive(self) -> None:
        while True:
            match await self._connection.receive():
                case MessagePayload(number, payload) if number == self._number:
                    self._forwarder.receive(payload)
                case RequestVariableLeaseSet(number, leases) if number == self._number:
                    self._leases = read_offered(leases)
                    self._requested.set()
                case SessionStatus(number, Status.DESTROYED) if number == self._number:
                    raise RouterUnreachableError(
                        f"{self._connection.settings} ended the session: the router stops; see its log"
                    )
                case Disconnect(reason):
                    raise session_ended(self._connection.settings, reason)

    async def _renew(self) -> None:
        """Give the router a lease set when the router asks, and a fresh set before the last set is old."""
        await self._requested.wait()
        while True:
            requested = self._requested.is_set()
            self._requested.clear()
            pause = self._times.renew
            if self.state is ServiceState.SERVING:
                pause = await self._give_fresh(requested=requested)
            elif requested:
                await self._give_again()  # a draining service publishes no new set
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._requested.wait()

    async def _give_fresh(self, *, requested: bool) -> float:
        """Announce and give a fresh set; return the seconds until the next one."""
        await self._connection.follow_clock()
        fresh = self._build()
        if fresh is None:
            self.unannounced = (
                "there is no lease set to give: all tunnels have ended, or the clock of this machine or of another "
                "server is far ahead of the router's. See the router's tunnels, and check the clocks"
            )
            return self._times.renew  # the router asks when it has new tunnels
        announcing = asyncio.ensure_future(self._offer.announce(fresh))
        try:
            while not announcing.done():
                await asyncio.wait([announcing], timeout=_PATIENCE)
                if not announcing.done() and (requested or self._requested.is_set()):
                    self._requested.clear()
                    requested = False
                    await self._give_again()
                if self.state is not ServiceState.SERVING:
                    return self._times.renew
        finally:
            announcing.cancel()
        error = announcing.exception()
        if error is not None:
            self.unannounced = f"the lease set was not announced: {error}"
            if self.announced is None:
                raise RouterError(self.unannounced) from error
            self._log.warning("service_unannounced", reason=str(error))
            if requested:
                await self._give_again()
            return _AGAIN
        await self._give(fresh)
        self.unannounced = None
        self.announced = fresh
        self._offer.on_given(fresh)
        self._set_given.set()
        now = asyncio.get_running_loop().time()
        return self._giving.given(now) - now

    def _build(self) -> LeaseSet2 | None:
        published = self._offer.next_published()
        now = max(self._router_now, published)
        leases = shortened(self._leases, now, self._times.lease)
        if not leases:
            return None
        return LeaseSet2.build(
            self._offer.keys,
            published=published,
            encryption=self._encryption,
            leases=leases,
            expires_at=now + self._times.expires,
        )

    async def _give_again(self) -> None:
        if self.announced is not None:
            await self._give(self.announced)

    async def _give(self, lease_set: LeaseSet2) -> None:
        keys = [(X25519, self._private)]
        await self._connection.send(create_service_lease_set(self._number, lease_set.data, keys))
        self.sets_given += 1

    def _send(self, peer: StreamPeer, payload: bytes) -> None:
        expires_ms = self._connection.router_ms() + _MESSAGE_MS
        message = send_message(self._number, peer.destination.data, payload, expires_ms)
        if not self._connection.post(message, MAX_BACKLOG):
            self.dropped += 1

    def _task_ended(self, task: "asyncio.Task[None]") -> None:
        """Handle the end of a task. A task ends only when the service is closed or lost."""
        if task.cancelled() or self.state in {ServiceState.CLOSED, ServiceState.LOST}:
            return
        error = task.exception()
        if not isinstance(error, RouterError):
            if not isinstance(error, NetDbError):
                self._log.error("service_defect", exc_info=error)
            error = RouterError(f"no lease set can be given to the router: {error}")
        self._failure = error
        self.reason = str(error)
        self.state = ServiceState.LOST
        self._log.warning("service_lost", reason=self.reason)
        self._ended.set()
