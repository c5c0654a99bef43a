"""Pings destinations through a router: shows that a destination itself is alive now, not only its lease set.

A lease set stays current for up to ten minutes after its destination's end. A ping is answered by the destination
itself. The session has a destination of its own that nobody knows, and tunnels of the router's usual length: through
shorter tunnels, the leaf's gateway would see which router pings the leaf.
"""

import asyncio
import os
import time
from collections.abc import Callable, Mapping
from typing import Final

import structlog

from bridges.errors import RouterError, RouterUnreachableError
from bridges.i2cp.connection import I2cpConnection
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
from bridges.i2cp.settings import I2cpSettings
from bridges.streaming.ping import TOKEN_BYTES, Echo, ping, read_echo
from gf_i2p.netdb.errors import NetDbError
from gf_i2p.netdb.lease_set import X25519, X25519_KEY_BYTES, EncryptionKey, LeaseSet2, read_offered
from gf_i2p.netdb.private_keys import DestinationKeys
from gf_i2p.netdb.session_config import SERVICE_OPTIONS, session_config

logger = structlog.get_logger()

PING_SECONDS: Final = 8.0
"""Seconds for an answer. Round trips inside I2P are seldom longer than 3 s."""
OPTIONS: Final = {**SERVICE_OPTIONS, "inbound.quantity": "2", "outbound.quantity": "2"}
"""Options of the session: one packet each way at a time needs few tunnels."""
_MESSAGE_MS: Final = 30_000
"""Milliseconds for which a router may try to send a ping."""


class PingSession:
    """One session for pings, opened at the first ping, and again after the router has ended it."""

    def __init__(
        self,
        settings: I2cpSettings,
        *,
        options: Mapping[str, str] = OPTIONS,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`options`: I2CP options of the session's tunnels. `clock`: returns seconds since the epoch."""
        self._settings = settings
        self._options = options
        self._clock = clock
        self._open: _OpenSession | None = None
        self._opening: asyncio.Task[_OpenSession] | None = None

    async def ping(self, destination: bytes, *, seconds: float = PING_SECONDS) -> float | None:
        """Ping a destination; return the seconds until its answer, or None when there was none in time.

        The first ping of a session also waits for the session's tunnels, up to `Deadlines.tunnels`. A caller that stops
        waiting does not stop the opening: a later ping finds the session open. Raises `RouterError` when the router
        opens no session.
        """
        return await (await self._session()).ping(destination, seconds)

    async def reaches_itself(self, *, seconds: float = PING_SECONDS) -> bool:
        """Return whether a ping to the session's own destination arrives in time: the control of a ping without answer.

        With i2pd, this ping takes the way of every ping: the session's outbound tunnel, its lease set as a floodfill
        gives it, and its inbound tunnel. Java I2P hands the ping to the session directly, so there it always arrives.
        Raises `RouterError` as `ping` does.
        """
        return await (await self._session()).reaches_itself(seconds)

    async def _session(self) -> "_OpenSession":
        while self._open is None or self._open.ended:
            ended, self._open = self._open, None
            if ended is not None:
                await ended.close()
            if self._opening is None:
                self._opening = asyncio.get_running_loop().create_task(
                    _OpenSession.open(self._settings, self._options, self._clock)
                )
                self._opening.add_done_callback(self._opened)
            await asyncio.shield(self._opening)
        return self._open

    def _opened(self, opening: "asyncio.Task[_OpenSession]") -> None:
        self._opening = None
        if not opening.cancelled() and opening.exception() is None:
            self._open = opening.result()

    async def close(self) -> None:
        """End the session. A later ping opens another one."""
        if self._opening is not None:
            self._opening.cancel()
            await asyncio.wait([self._opening])
        session, self._open = self._open, None
        if session is not None:
            await session.close()


class _OpenSession:
    """A session whose tunnels are built."""

    def __init__(self, connection: I2cpConnection, keys: DestinationKeys, number: int) -> None:
        self.ended = False
        """Whether the router has ended the session."""
        self._connection = connection
        self._keys = keys
        self._number = number
        self._private = os.urandom(X25519_KEY_BYTES)
        self._encryption = (EncryptionKey.of(self._private),)
        self._published = 0
        self._ready = asyncio.Event()
        self._failure: RouterError | None = None
        self._waiting: dict[Echo, asyncio.Future[None]] = {}
        """For each ping on its way: what must arrive, and a future that is done when it arrives."""
        self._receiving = asyncio.create_task(self._receive())

    @classmethod
    async def open(
        cls, settings: I2cpSettings, options: Mapping[str, str], clock: Callable[[], float]
    ) -> "_OpenSession":
        """Open a session with a new destination, and wait for tunnels. Raises `RouterError`."""
        kind = await router_kind(settings)
        keys = DestinationKeys.generate()
        connection = await I2cpConnection.open(settings, clock)
        try:
            data = session_config(keys, int(clock() * 1000), options)
            config = read_config(data, keys.destination, subject="the keys are", owner="the session's destination")
            number = await begin_session(connection, kind, config)
        except BaseException:
            connection.close()
            raise
        session = cls(connection, keys, number)
        try:
            await session._until_ready()
        except BaseException:
            await asyncio.shield(session.close())
            raise
        return session

    async def _until_ready(self) -> None:
        settings = self._connection.settings
        try:
            async with asyncio.timeout(settings.deadlines.tunnels):
                await self._ready.wait()
        except TimeoutError as error:
            raise no_request(settings) from error
        if self._failure is not None:
            raise self._failure

    async def ping(self, destination: bytes, seconds: float) -> float | None:
        return await self._send(destination, seconds, await_answer=True)

    async def reaches_itself(self, seconds: float) -> bool:
        return await self._send(self._keys.destination.data, seconds, await_answer=False) is not None

    async def _send(self, destination: bytes, seconds: float, *, await_answer: bool) -> float | None:
        """Send a ping; return the seconds until the answer arrives, or the ping itself; None when nothing arrives."""
        number, token = int.from_bytes(os.urandom(4)) or 1, os.urandom(TOKEN_BYTES)
        arrived: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        awaited = Echo(number, token, is_answer=await_answer)
        self._waiting[awaited] = arrived
        await self._connection.follow_clock()
        expires_ms = self._connection.router_ms() + _MESSAGE_MS
        began = time.monotonic()
        try:
            await self._connection.send(
                send_message(self._number, destination, ping(self._keys, number, token), expires_ms)
            )
            async with asyncio.timeout(seconds):
                await arrived
        except TimeoutError:
            return None
        finally:
            self._waiting.pop(awaited, None)
        return time.monotonic() - began

    async def close(self) -> None:
        self.ended = True
        self._receiving.cancel()
        await asyncio.gather(self._receiving, return_exceptions=True)
        await end_session(self._connection, self._number)

    async def _receive(self) -> None:
        try:
            while True:
                match await self._connection.receive():
                    case MessagePayload(number, payload) if number == self._number:
                        self._take(payload)
                    case RequestVariableLeaseSet(number, leases) if number == self._number:
                        await self._give_lease_set(leases)
                    case SessionStatus(number, Status.DESTROYED) if number == self._number:
                        raise RouterUnreachableError(f"{self._connection.settings} ended the session for pings")
                    case Disconnect(reason):
                        raise session_ended(self._connection.settings, reason)
        except (RouterError, NetDbError) as error:
            self._failure = error if isinstance(error, RouterError) else RouterError(str(error))
        finally:
            self.ended = True
            self._ready.set()
            for arrived in self._waiting.values():
                if self._failure is not None and not arrived.done():
                    arrived.set_exception(self._failure)

    def _take(self, payload: bytes) -> None:
        echo = read_echo(payload)
        arrived = None if echo is None else self._waiting.get(echo)
        if arrived is not None and not arrived.done():
            arrived.set_result(None)

    async def _give_lease_set(self, offered: bytes) -> None:
        leases = read_offered(offered)
        router_now = self._connection.router_ms() // 1000
        self._published = max(router_now, self._published + 1)
        lease_set = LeaseSet2.build(self._keys, published=self._published, encryption=self._encryption, leases=leases)
        keys = [(X25519, self._private)]
        await self._connection.send(create_service_lease_set(self._number, lease_set.data, keys))
        self._ready.set()
