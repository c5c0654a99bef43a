"""One connection to a router's I2CP: TCP or TLS, the exchange of dates, then messages both ways."""

import asyncio
import contextlib
import socket
import ssl
import time
from collections.abc import Callable
from typing import Final, Self

from bridges.errors import LoginRefusedError, RouterError, RouterRefusedError, RouterUnreachableError, system_text
from bridges.i2cp.messages import (
    PROTOCOL_BYTE,
    Decoder,
    Disconnect,
    RouterMessage,
    SetDate,
    get_date,
)
from bridges.i2cp.settings import I2cpSettings
from bridges.i2cp.tls import check_certificate, server_name, tls_context, untrusted

_VERSION: Final = "0.9.57"
"""The I2CP version that the bridge claims. Java chooses messages by this version. Tested with both routers."""
_READ_BYTES: Final = 65_536
_KEEPALIVE: Final = (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3))
"""Seconds of silence before the first probe, seconds between probes, and number of probes.

A healthy router may be silent for ten minutes. The probes find a vanished machine within a minute.
"""
_STEP_SECONDS: Final = 1.0
"""Seconds by which this machine's clock must jump before the router's date is asked again."""
_WHAT_IS_IT: Final = (
    "check that the port is I2CP's and that the router has started; where Java's i2cp.SSL is true, set its "
    "certificate's fingerprint"
)


class I2cpConnection:
    """A connection on which the router has told its date. Make a connection with `open`; always call `close`."""

    def __init__(
        self,
        settings: I2cpSettings,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        clock: Callable[[], float],
    ) -> None:
        self.settings = settings
        self.ahead_ms = 0
        """How far the router's clock is ahead of this machine's clock, in ms; the router's answer time is included."""
        self._reader = reader
        self._writer = writer
        self._decoder = Decoder()
        self._clock = clock
        self._greeted = False
        self._offset = 0.0
        """Seconds by which this machine's clock differed from the event loop's clock when the router was last asked.

        The event loop's clock never jumps.
        """
        self._dated = asyncio.Event()
        """Clear while a question for the date has no answer."""

    @classmethod
    async def open(cls, settings: I2cpSettings, clock: Callable[[], float] = time.time) -> Self:
        """Connect, check a configured certificate, and ask for the date.

        `clock`: returns seconds since the epoch. Raises `RouterError`.
        """
        connection = cls(settings, *await _connect(settings), clock)
        try:
            await connection._greet()
        except BaseException:
            connection.close()
            raise
        return connection

    async def _greet(self) -> None:
        self._offset = self._offset_now()
        await self.send(PROTOCOL_BYTE + get_date(_VERSION, self.settings.login))
        try:
            async with asyncio.timeout(self.settings.deadlines.answer):
                while not isinstance(message := await self.receive(), SetDate):
                    if isinstance(message, Disconnect):
                        raise _refusal(self.settings, message)
        except TimeoutError as error:
            raise RouterUnreachableError(
                f"{self.settings} did not tell its date within {self.settings.deadlines.answer:g} s: {_WHAT_IS_IT}"
            ) from error
        self._greeted = True

    def router_ms(self) -> int:
        """Return the date of the router's clock now, in ms since the epoch.

        After this machine's clock has been set, the date is wrong until the router has answered a new question, which
        this call asks.
        """
        self._ask_after_step()
        return int(self._clock() * 1000) + self.ahead_ms

    async def follow_clock(self) -> None:
        """Wait for the router's date when this machine's clock has been set since the last answer.

        Another task must call `receive` meanwhile. Raises `RouterUnreachableError`.
        """
        self._ask_after_step()
        try:
            async with asyncio.timeout(self.settings.deadlines.answer):
                await self._dated.wait()
        except TimeoutError as error:
            raise RouterUnreachableError(
                f"{self.settings} did not tell its date within {self.settings.deadlines.answer:g} s after this "
                "machine's clock had been set: see the router's log"
            ) from error

    def _ask_after_step(self) -> None:
        offset = self._offset_now()
        if abs(offset - self._offset) > _STEP_SECONDS:
            self._offset = offset
            self._dated.clear()
            self._writer.write(get_date(_VERSION, self.settings.login))

    def _offset_now(self) -> float:
        return self._clock() - asyncio.get_running_loop().time()

    async def send(self, data: bytes) -> None:
        """Send whole messages. Raises `RouterUnreachableError`."""
        try:
            async with asyncio.timeout(self.settings.deadlines.answer):
                self._writer.write(data)
                await self._writer.drain()
        except TimeoutError as error:
            raise RouterUnreachableError(f"{self.settings} no longer takes data: restart the router") from error
        except OSError as error:
            raise self._hung_up_error() from error

    def post(self, data: bytes, backlog: int) -> bool:
        """Send whole messages, or drop them if more than `backlog` bytes still wait for the router. Never waits.

        Return whether the messages are sent. `receive` notices a broken connection.
        """
        transport = self._writer.transport
        if transport.is_closing() or transport.get_write_buffer_size() > backlog:
            return False
        transport.write(data)
        return True

    async def receive(self) -> RouterMessage:
        """Wait for the next message without a time limit. Raises `RouterError` when the connection has ended."""
        while (message := self._decoder.next()) is None:
            try:
                data = await self._reader.read(_READ_BYTES)
            except OSError as error:
                raise self._hung_up_error() from error
            if not data:
                raise self._hung_up_error()
            self._decoder.feed(data)
        if isinstance(message, SetDate):  # also unasked: Java tells its date when its clock changes
            self.ahead_ms = message.date_ms - int(self._clock() * 1000)
            self._dated.set()
        return message

    async def wait_for_end(self) -> None:
        """Wait until the router hangs up, at most `Deadlines.goodbye` seconds; messages until then are ignored."""
        with contextlib.suppress(RouterError, TimeoutError):
            async with asyncio.timeout(self.settings.deadlines.goodbye):
                while True:
                    await self.receive()

    def close(self) -> None:
        """Hang up at once. Unsent data is lost."""
        self._writer.transport.abort()

    def _hung_up_error(self) -> RouterUnreachableError:
        if self._greeted:
            return RouterUnreachableError(
                f"{self.settings} hung up: the router stops, or refuses a message; see its log"
            )
        return RouterUnreachableError(f"{self.settings} hung up before it told its date: {_WHAT_IS_IT}")


def _refusal(settings: I2cpSettings, message: Disconnect) -> RouterRefusedError:
    text = f"{settings} refuses the connection and says {message.reason!r}"
    if "auth" not in message.reason.lower():
        return RouterRefusedError(f"{text}: see the router's log")
    if settings.login is None:
        return LoginRefusedError(f"{text}: set the user name and password that Java has for I2CP (i2cp.auth is true)")
    return LoginRefusedError(f"{text}: check user {settings.login[0]} and its password, here and in Java (i2cp.auth)")


async def _connect(settings: I2cpSettings) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    # Reading the system's CAs takes up to 50 ms.
    context = await asyncio.to_thread(tls_context, settings) if settings.system_ca else tls_context(settings)
    name = server_name(settings)
    try:
        async with asyncio.timeout(settings.deadlines.connect):
            reader, writer = await asyncio.open_connection(
                settings.host, settings.port, ssl=context, server_hostname=name
            )
    except ssl.SSLCertVerificationError as error:
        raise untrusted(settings, error) from error
    except ssl.SSLError as error:
        raise RouterUnreachableError(
            f"{settings} does not speak TLS ({error.reason or error}): set Java's i2cp.SSL=true, or no TLS here"
        ) from error
    except (OSError, TimeoutError) as error:
        raise RouterUnreachableError(
            f"{settings} does not answer ({system_text(error) or 'too late'}): check that the router runs, that its "
            "I2CP is on (i2pd: [i2cp] enabled = true; Java: i2cp.disableInterface=false) and that address and port are "
            "right"
        ) from error
    try:
        _keep_alive(writer)
        check_certificate(settings, writer)
    except BaseException:
        writer.transport.abort()
        raise
    return reader, writer


def _keep_alive(writer: asyncio.StreamWriter) -> None:
    sock: socket.socket = writer.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEPALIVE:
        option = getattr(socket, name, None)  # not every system has every option
        if option is not None:
            sock.setsockopt(socket.IPPROTO_TCP, option, value)
