"""Messages on plain TCP, in JRaft's form: both ends of a connection, for loopback and these scenarios only."""

import asyncio
import contextlib
import struct
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Final

from gf_i2p.node.consensus.peer import Done
from gf_i2p.wire.entries import Entry
from gf_i2p.wire.errors import RemoteProtocolError
from gf_i2p.wire.message_stream import RequestDecoder, ResponseDecoder
from gf_i2p.wire.messages import (
    NOBODY,
    REQUEST_HEADER_BYTES,
    RESPONSE_TYPE,
    MessageType,
    Request,
    Response,
    encode_request,
    encode_response,
)

HOST: Final = "127.0.0.1"
_REDIAL_SECONDS: Final = 0.1
_PIECE_BYTES: Final = 1 << 16


class PlainPeer:
    """The connection to one server, made again and again; a `gf_i2p.node.consensus.driver.Peer`."""

    def __init__(self, port: int, on_up: Callable[[], None], *, request_seconds: float) -> None:
        self.sent: Counter[MessageType] = Counter()
        self.deaf = False
        """Whether the link drops all answers. A scenario sets this, and then calls `reset`."""
        self._port = port
        self._on_up = on_up
        self._seconds = request_seconds
        self._writer: asyncio.StreamWriter | None = None
        self._in_flight: deque[tuple[MessageType, Done, float]] = deque()
        self._task = asyncio.get_running_loop().create_task(self._run())

    @property
    def connected(self) -> bool:
        """Whether a request can be sent now."""
        return self._writer is not None

    def send(self, request: Request, done: Done, *, seconds: float | None = None) -> None:
        """Send a request; see the driver's protocol."""
        loop = asyncio.get_running_loop()
        if self._writer is None:
            loop.call_soon(done, None)
            return
        self.sent[request.type] += 1
        self._in_flight.append((request.type, done, loop.time() + (self._seconds if seconds is None else seconds)))
        self._writer.write(encode_request(request))

    def reset(self, reason: str) -> None:  # noqa: ARG002 -- the driver's protocol has it
        """End the connection."""
        if self._writer is not None:
            self._writer.transport.abort()

    async def stop(self) -> None:
        """End the connection for good."""
        self._task.cancel()
        await asyncio.wait([self._task])

    async def _run(self) -> None:
        while True:
            with contextlib.suppress(OSError, RemoteProtocolError, TimeoutError):
                reader, writer = await asyncio.open_connection(HOST, self._port)
                self._writer = writer
                try:
                    self._on_up()
                    await self._read(reader)
                finally:
                    self._writer = None
                    writer.transport.abort()
                    in_flight, self._in_flight = self._in_flight, deque()
                    for _, done, _ in in_flight:
                        asyncio.get_running_loop().call_soon(done, None)
            await asyncio.sleep(_REDIAL_SECONDS)

    async def _read(self, reader: asyncio.StreamReader) -> None:
        decoder = ResponseDecoder()
        while True:
            piece: bytes | None = None
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._seconds / 4):
                    piece = await reader.read(_PIECE_BYTES)
            if piece == b"":
                return
            if self.deaf:
                continue
            for response in decoder.feed(piece or b""):
                expected, done, _ = self._in_flight.popleft()
                if response.type is not RESPONSE_TYPE[expected]:
                    raise RemoteProtocolError(f"{response.type.name} in answer to {expected.name}")
                done(response)
            if self._in_flight and self._in_flight[0][2] < asyncio.get_running_loop().time():
                return


class PlainListener:
    """Accepts connections, and answers in the order of the requests."""

    def __init__(self, port: int, on_request: Callable[[Request, Done], None]) -> None:
        self.received: Counter[MessageType] = Counter()
        self._port = port
        self._on_request = on_request
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Listen."""
        self._server = await asyncio.start_server(self._serve, HOST, self._port)

    async def stop(self) -> None:
        """End every connection, and accept no more."""
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        decoder = RequestDecoder()
        due: deque[list[Response | None]] = deque()

        def answer(place: list[Response | None], response: Response | None) -> None:
            place.append(response)
            while due and due[0]:
                first = due.popleft()[0]
                if first is None:
                    writer.transport.abort()
                    return
                if not writer.is_closing():
                    writer.write(encode_response(first))

        try:
            while piece := await reader.read(_PIECE_BYTES):
                for request in decoder.feed(piece):
                    self.received[request.type] += 1
                    due.append([])
                    self._on_request(request, partial(answer, due[-1]))
        except (OSError, RemoteProtocolError, asyncio.CancelledError):
            pass
        finally:
            writer.transport.abort()


def encode_without_limits(request: Request, entries: bytes) -> bytes:
    """Encode a request with entries of any size, as JRaft does. `request` has none; `entries`: the encoded entries."""
    head = encode_request(request)
    return head[: REQUEST_HEADER_BYTES - 4] + struct.pack(">I", len(entries)) + entries


def encode_entry_without_limits(entry: Entry) -> bytes:
    """Encode an entry with a value of any size, as JRaft does (proposal 150, "Log Entries")."""
    return struct.pack(">qBI", entry.term, entry.value_type, len(entry.value)) + entry.value


async def ask_jraft(port: int, kind: MessageType, entries: tuple[Entry, ...], seconds: float = 5.0) -> Response:
    """Send one request as a client of a JRaft server; a post has any size. Raises `OSError`, also without an answer."""
    request = Request(kind, NOBODY, NOBODY, 0, 0, 0, 0)
    if kind is MessageType.CLIENT_REQUEST:
        data = encode_without_limits(request, b"".join(map(encode_entry_without_limits, entries)))
    else:
        data = encode_request(replace(request, entries=entries))
    try:
        async with asyncio.timeout(seconds):
            reader, writer = await asyncio.open_connection(HOST, port)
            try:
                writer.write(data)
                decoder = ResponseDecoder()
                while piece := await reader.read(_PIECE_BYTES):
                    for response in decoder.feed(piece):
                        return response
            finally:
                writer.transport.abort()
    except TimeoutError:
        raise OSError(f"no answer to {kind.name} within {seconds:g} s") from None
    raise OSError(f"the server closed the connection instead of answering {kind.name}")
