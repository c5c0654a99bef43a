"""Carries streams to the operator's local service and back, over TCP."""

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncIterator, Callable
from typing import Final

import structlog

from bridges.byte_rate import ByteRate
from bridges.errors import system_text
from bridges.hosting_protocol import StreamLimits
from bridges.streaming.acceptor import Acceptor
from bridges.streaming.envelope import pack_packet
from bridges.streaming.errors import StreamingError
from bridges.streaming.http_headers import BAD_REQUEST, HttpRequest, RequestError
from bridges.streaming.http_response import BAD_GATEWAY, HttpResponse, ResponseError
from bridges.streaming.limits import IDLE, LONG_IDLE, MAX_PAYLOAD
from bridges.streaming.stream import Stream, StreamPeer, StreamState
from gf_i2p.netdb.private_keys import DestinationKeys

logger = structlog.get_logger()

CONNECT_SECONDS: Final = 10.0
"""Most seconds for the local service to accept a connection."""
DRAIN_SECONDS: Final = 300.0
"""Most seconds for the local service to take one piece of data."""
HEAD_SECONDS: Final = 60.0
"""Seconds for a client to send a request's head, before its stream gets a connection to the service."""
MAX_FED: Final = 16 * 1024
"""Most bytes of all requests that are read in one turn of the event loop. As tiny chunks they cost some 15 ms."""
_READ: Final = 32 * MAX_PAYLOAD

Send = Callable[[StreamPeer, bytes], None]
"""Sends a packed packet for a peer to the router, or drops the packet; never waits."""


class _Carrier:
    """One stream with its connection to the service."""

    __slots__ = ("changed", "stream", "task", "timer", "timer_at")

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.timer: asyncio.Handle | None = None
        self.timer_at = 0.0
        """Time at which the timer goes off, by the event loop's clock."""
        self.changed = asyncio.Event()
        """Set when data has come, when there is room, and when the stream has ended."""
        self.task: asyncio.Task[None] | None = None


class Forwarder:
    """All streams of one destination. Give each payload to `receive`, and call `close` at the end."""

    def __init__(
        self,
        keys: DestinationKeys,
        target: tuple[str, int],
        send: Send,
        *,
        http: bool = False,
        most: StreamLimits | None = None,
        entropy: Callable[[int], bytes] = os.urandom,
        wall: Callable[[], float] = time.time,
    ) -> None:
        """Serve no stream yet.

        Args:
            keys: of the destination.
            target: host and port of the service.
            send: gives a packet to the router.
            http: whether the service is a web server: requests name the client, and heads are filtered.
            most: the limits of streams; None: the defaults.
            entropy: `entropy(n)` returns n random bytes.
            wall: returns seconds since the epoch.
        """
        self.trouble: str | None = None
        """Why the last stream did not reach the service, in a sentence; None when it did."""
        self.served = 0
        """Number of streams that were opened."""
        self._acceptor = Acceptor(keys, entropy, wall, idle=IDLE if http else LONG_IDLE, most=most)
        self._target = target
        self._http = http
        self._send = send
        self._carriers: dict[Stream, _Carrier] = {}
        self._turn = asyncio.Lock()
        """Held while a request reads bytes, until the loop's next turn."""
        self._idle = asyncio.Event()
        self._idle.set()
        self._loop = asyncio.get_running_loop()
        self._rate = ByteRate(self._loop.time())

    @property
    def bytes_per_second(self) -> int:
        """Payload of all streams in both directions, on average over `byte_rate.WINDOW_SECONDS`."""
        return self._rate.per_second(self._loop.time())

    @property
    def open(self) -> int:
        """Number of open streams."""
        return len(self._carriers)

    @property
    def refused(self) -> int:
        """Number of streams that were not opened."""
        return self._acceptor.refused

    @property
    def evicted(self) -> int:
        """Number of streams that were reset to make room for others."""
        return self._acceptor.evicted

    def receive(self, payload: bytes) -> None:
        """Take an I2CP payload. A bad payload is dropped."""
        try:
            outcome = self._acceptor.receive(payload, self._loop.time())
        except StreamingError as error:
            logger.debug("streaming_dropped", reason=str(error))
            outcome = None
        for peer, data in self._acceptor.take():
            self._post(peer, data)
        for evicted in self._acceptor.take_evicted():
            self._flush(evicted)
            self._break_off(evicted)
        if outcome is None:
            return
        stream, new = outcome
        if new:
            carrier = self._carriers[stream] = _Carrier(stream)
            self._idle.clear()
            self.served += 1
            carrier.task = asyncio.create_task(self._carry(carrier))
        self._flush(stream)
        self._break_off(stream)

    @property
    def accepts_streams(self) -> bool:
        """Whether new streams are opened; otherwise clients of new streams get no answer."""
        return self._acceptor.accepts_streams

    @accepts_streams.setter
    def accepts_streams(self, value: bool) -> None:
        self._acceptor.accepts_streams = value

    async def wait_until_idle(self) -> None:
        """Wait until no stream is open."""
        await self._idle.wait()

    async def close(self) -> None:
        """Break all streams off."""
        self._acceptor.accepts_streams = False
        tasks = []
        for carrier in list(self._carriers.values()):
            carrier.stream.reset("the service is closed")
            self._flush(carrier.stream)
            assert carrier.task is not None
            carrier.task.cancel()
            tasks.append(carrier.task)
        await asyncio.gather(*tasks, return_exceptions=True)

    # A stream's packets and timer -----------------------------------------------------------------------------------

    def _flush(self, stream: Stream) -> None:
        """Send the stream's packets, and set its timer."""
        for data in stream.take():
            self._post(stream.peer, data)
        carrier = self._carriers.get(stream)
        if carrier is None:
            return
        carrier.changed.set()
        due = stream.due
        if carrier.timer is not None:
            if due is not None and carrier.timer_at <= due:
                return  # the present timer goes off earlier, and `_tick` sets the next timer
            carrier.timer.cancel()
            carrier.timer = None
        if due is not None:
            carrier.timer_at = due
            carrier.timer = self._loop.call_at(due, self._tick, carrier)

    def _tick(self, carrier: _Carrier) -> None:
        carrier.timer = None
        carrier.stream.tick(self._loop.time())
        self._flush(carrier.stream)
        self._break_off(carrier.stream)

    def _post(self, peer: StreamPeer, data: bytes) -> None:
        self._send(peer, pack_packet(data, peer.local_port, peer.port))

    def _break_off(self, stream: Stream) -> None:
        """End the connection of a stream that was reset, also while the service takes no data."""
        carrier = self._carriers.get(stream)
        if carrier is not None and stream.state is StreamState.RESET:
            assert carrier.task is not None
            carrier.task.cancel()
            self._forget(carrier)

    # To the service and back ----------------------------------------------------------------------------------------

    async def _carry(self, carrier: _Carrier) -> None:
        stream = carrier.stream
        try:
            await self._connect(carrier)
        except (OSError, TimeoutError) as error:
            stream.reset(f"the connection to the local service broke: {error!r}")
        except Exception as error:
            logger.exception("streaming_defect")
            stream.reset(f"a defect of gf-i2p: {error!r}")
        finally:
            stream.reset("the stream was given up")
            self._flush(stream)
            self._forget(carrier)

    def _forget(self, carrier: _Carrier) -> None:
        if carrier.timer is not None:
            carrier.timer.cancel()
            carrier.timer = None
        if self._carriers.pop(carrier.stream, None) is None:
            return
        self._acceptor.ended(carrier.stream, self._loop.time())
        if not self._carriers:
            self._idle.set()
        if carrier.stream.state is StreamState.RESET:
            logger.debug("streaming_reset", reason=carrier.stream.reason)

    async def _connect(self, carrier: _Carrier) -> None:
        stream = carrier.stream
        request = HttpRequest(stream.peer.destination) if self._http else None
        first = b""
        if request is not None:
            try:
                async with asyncio.timeout(HEAD_SECONDS):
                    first = await self._read_head(carrier, request)
            except RequestError as error:
                logger.debug("streaming_bad_request", reason=str(error))
                await self._answer(carrier, BAD_REQUEST)
                return
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                reader, writer = await asyncio.open_connection(*self._target)
        except (OSError, TimeoutError) as error:
            host, port = self._target
            reason = system_text(error) or "too late"
            self.trouble = (
                f"the local service at {host}:{port} does not answer ({reason}): start it, or mend the address"
            )
            logger.warning("service_unreachable", reason=self.trouble)
            stream.reset(self.trouble)
            return
        self.trouble = None
        stream.served = True
        try:
            writer.write(first)
            to_service = asyncio.create_task(self._carry_to_service(carrier, writer, request))
            try:
                await self._carry_to_client(carrier, reader, HttpResponse() if self._http else None)
            except ResponseError as error:
                logger.warning("service_bad_response", reason=str(error))
                await self._answer(carrier, BAD_GATEWAY)
            finally:
                to_service.cancel()
                await asyncio.gather(to_service, return_exceptions=True)
            await self._until_ended(carrier)
        finally:
            writer.transport.abort()

    async def _read_head(self, carrier: _Carrier, request: HttpRequest) -> bytes:
        """Wait for the whole head of a request; return the bytes for the service."""
        while True:
            data = await self._next_bytes(carrier)
            if not data:
                raise RequestError("a request ends inside its head")
            if first := b"".join([piece async for piece in self._feed(request, data)]):
                return first

    async def _feed(self, request: HttpRequest | None, data: bytes) -> AsyncIterator[bytes]:
        """Have the request read the bytes, `MAX_FED` in one turn of the loop; yield the bytes for the service."""
        if request is None:
            yield data
            return
        for start in range(0, len(data), MAX_FED):
            async with self._turn:
                piece = request.feed(data[start : start + MAX_FED])
                await asyncio.sleep(0)
            yield piece

    async def _answer(self, carrier: _Carrier, text: bytes) -> None:
        stream = carrier.stream
        if stream.state is StreamState.OPEN:
            stream.write(text, self._loop.time())
            stream.close(self._loop.time())
            self._flush(stream)
            await self._until_ended(carrier)

    async def _carry_to_service(
        self, carrier: _Carrier, writer: asyncio.StreamWriter, request: HttpRequest | None
    ) -> None:
        """Carry data from the client to the service. The stream's end is passed on; a reset breaks the connection."""
        try:
            while request is None or not request.finished:
                data = await self._next_bytes(carrier)
                if not data:
                    break
                async for piece in self._feed(request, data):
                    writer.write(piece)
                    async with asyncio.timeout(DRAIN_SECONDS):
                        await writer.drain()
            while not carrier.stream.ended:
                await self._next_bytes(carrier)  # bytes after the request are not passed on
            if request is None and writer.can_write_eof() and carrier.stream.state is StreamState.OPEN:
                writer.write_eof()
            while carrier.stream.state is StreamState.OPEN:
                carrier.changed.clear()
                await carrier.changed.wait()
            if carrier.stream.state is StreamState.RESET:
                writer.transport.abort()
        except (RequestError, OSError, TimeoutError) as error:
            carrier.stream.reset(str(error) or "the local service no longer takes data")
            self._flush(carrier.stream)
            writer.transport.abort()
        except Exception as error:
            logger.exception("streaming_defect")
            carrier.stream.reset(f"a defect of gf-i2p: {error!r}")
            self._flush(carrier.stream)
            writer.transport.abort()

    async def _carry_to_client(
        self, carrier: _Carrier, reader: asyncio.StreamReader, response: HttpResponse | None
    ) -> None:
        """Carry data from the service to the client, until the service has ended. Raises `ResponseError`."""
        stream = carrier.stream
        while await self._has_room(carrier):
            data = await reader.read(min(stream.room, _READ))
            if not data:
                break
            self._rate.add(len(data), self._loop.time())
            if response is not None:
                data = response.feed(data)
            while data and await self._has_room(carrier):
                piece, data = data[: stream.room], data[stream.room :]
                stream.write(piece, self._loop.time())
                self._flush(stream)
        if response is not None and not response.begun and stream.state is StreamState.OPEN:
            raise ResponseError("the web server's answer ends inside its head")
        stream.close(self._loop.time())
        self._flush(stream)

    async def _has_room(self, carrier: _Carrier) -> bool:
        """Wait until the stream takes data. Return whether the stream is open."""
        while carrier.stream.state is StreamState.OPEN and not carrier.stream.room:
            carrier.changed.clear()
            await carrier.changed.wait()
        return carrier.stream.state is StreamState.OPEN

    async def _next_bytes(self, carrier: _Carrier) -> bytes:
        """Wait for bytes of the stream and return these bytes; b"" at the end of the stream."""
        stream = carrier.stream
        while not stream.readable:
            if stream.ended:
                return b""
            carrier.changed.clear()
            await carrier.changed.wait()
        data = stream.read()
        self._rate.add(len(data), self._loop.time())
        self._flush(stream)
        return data

    async def _until_ended(self, carrier: _Carrier) -> None:
        """Wait until the client has all data."""
        stream = carrier.stream
        while stream.state is StreamState.OPEN:
            stream.read()
            self._flush(stream)
            carrier.changed.clear()
            if stream.state is StreamState.OPEN:
                await carrier.changed.wait()
        with contextlib.suppress(StreamingError):
            self._flush(stream)
