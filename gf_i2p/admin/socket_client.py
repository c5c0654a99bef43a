"""One request to the administration API on the node's Unix socket, by h11.

aiohttp's client would do the same, but its import takes longer than all else that a command like `gf-i2p status` does.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import h11

_PIECE_BYTES: Final = 1 << 18


class NoListenerError(Exception):
    """No node listens on the socket."""


class SocketClosedError(Exception):
    """The node has closed the connection before the end of its answer, or its answer is not HTTP with JSON."""


class SocketResponse:
    """The answer to one request: the status, and the body while it comes."""

    def __init__(self, status: int, exchange: "_Exchange") -> None:
        self.status = status
        self._exchange = exchange

    async def pieces(self) -> AsyncIterator[bytes]:
        """Yield the body as it comes. Raises `SocketClosedError` when the connection ends before the body does."""
        while isinstance(event := await self._exchange.next_event(), h11.Data):
            yield bytes(event.data)

    async def json(self) -> Any:
        """Return the body as JSON. Raises `SocketClosedError` as `pieces` does, and for a body that is not JSON."""
        body = b"".join([piece async for piece in self.pieces()])
        try:
            return json.loads(body)
        except ValueError as error:
            raise SocketClosedError("the answer is not JSON") from error


@asynccontextmanager
async def open_response(address: str, method: str, path: str, body: object = None) -> AsyncIterator[SocketResponse]:
    """Send a request to the socket at `address`, with `body` as JSON unless it is None; yield the answer.

    Raises `NoListenerError` and `SocketClosedError`. The caller sets the limits of time and bytes.
    """
    try:
        reader, writer = await asyncio.open_unix_connection(address)
    except OSError as error:
        raise NoListenerError(error.strerror or str(error)) from error
    try:
        exchange = _Exchange(reader)
        # Nothing waits until all is written: a node that refuses a body answers before it has read all of the body.
        writer.write(exchange.request(method, path, None if body is None else json.dumps(body).encode()))
        response = await exchange.next_event()
        while isinstance(response, h11.InformationalResponse):
            response = await exchange.next_event()
        if not isinstance(response, h11.Response):
            raise SocketClosedError("no answer")
        yield SocketResponse(response.status_code, exchange)
    finally:
        writer.transport.abort()  # `close` would wait for a node that reads no more


class _Exchange:
    """The state of HTTP in one connection."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader
        self._connection = h11.Connection(h11.CLIENT)

    def request(self, method: str, path: str, body: bytes | None) -> bytes:
        """Return the bytes of a request."""
        headers = [("Host", "node"), ("Connection", "close")]
        if body is not None:
            headers += [("Content-Type", "application/json"), ("Content-Length", str(len(body)))]
        data = self._connection.send(h11.Request(method=method, target=path, headers=headers)) or b""
        if body is not None:
            data += self._connection.send(h11.Data(data=body)) or b""
        return data + (self._connection.send(h11.EndOfMessage()) or b"")

    async def next_event(self) -> h11.Event | type[h11.NEED_DATA | h11.PAUSED]:
        """Return the next part of the answer."""
        try:
            while (event := self._connection.next_event()) is h11.NEED_DATA:
                self._connection.receive_data(await self._reader.read(_PIECE_BYTES))
        except (h11.RemoteProtocolError, OSError) as error:
            raise SocketClosedError(str(error) or type(error).__name__) from error
        return event
