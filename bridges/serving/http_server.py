"""HTTP server for unknown callers: one POST for each connection, and answers without extra information.

An answer has no Server and no Date header. Any request but a POST gets an empty 404, on any path; the path of a POST
does not matter, as with i2pd. A request with an Origin header comes from a page in a browser, and also gets the 404. No
page may call this server. The browser does not prevent that: a foreign page whose host name resolves to this machine
looks local.
"""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address, ip_network
from typing import Any, Final

import structlog

from bridges.i2pcontrol.extension import MAX_REQUEST_BYTES
from bridges.serving.post_reader import BadPostError, PostReader

logger = structlog.get_logger()

_READ_BYTES: Final = 16_384
_AGAIN_SECONDS: Final = 0.2
"""Pause before accepting again when this process has no file descriptors left."""
_LINGER_SECONDS: Final = 1.0
"""Most seconds for which a refused caller may go on sending. To hang up at once would hide the refusal."""
_QUIET_SECONDS: Final = 0.2
"""Seconds of silence after which the caller has probably finished sending, and reads the refusal."""
_BACKLOG: Final = 64
_REASONS: Final = {200: "OK", 400: "Bad Request", 404: "Not Found", 413: "Content Too Large"}
_SOURCE_BITS: Final = 64
"""Prefix length of an IPv6 source: the owner of one IPv6 address usually has a whole such network."""


@dataclass(frozen=True, slots=True)
class HttpLimits:
    """Limits for all callers."""

    connections: int = 64
    """Most connections at once. Beyond, the oldest connection without a good token is closed."""
    request_seconds: float = 10.0
    """Most seconds for TLS, head and body together."""
    reply_seconds: float = 10.0
    """Most seconds for the caller to take the answer."""
    head_bytes: int = 8192
    body_bytes: int = MAX_REQUEST_BYTES


@dataclass(slots=True)
class HttpCaller:
    """The caller of a connection."""

    source: str
    """The source by which wrong passwords are counted: an IPv4 address, or an IPv6 network."""
    authenticated: bool = False
    """Whether the caller has shown a good token. The handler sets this; then no new caller displaces the connection."""


Handler = Callable[[bytes, HttpCaller], Awaitable[bytes]]
"""Answers one body with another. Cancelled when the caller hangs up."""


class HttpServer:
    """Serves HTTP on one address. Use `start`, then `stop`."""

    def __init__(self, handler: Handler, tls: ssl.SSLContext | None, limits: HttpLimits | None = None) -> None:
        """`tls`: a server's TLS context with a certificate; None speaks plain HTTP."""
        self._handler = handler
        self._tls = tls
        self._limits = limits or HttpLimits()
        self._socket: socket.socket | None = None
        self._accepting: asyncio.Task[None] | None = None
        self._connections: dict[asyncio.Task[None], HttpCaller] = {}  # the oldest first

    @property
    def connections(self) -> int:
        """Number of open connections."""
        return len(self._connections)

    async def start(self, host: str, port: int) -> int:
        """Listen on an IP address; return the port, which the system chooses for 0. Raises `OSError`."""
        family = socket.AF_INET6 if isinstance(ip_address(host), IPv6Address) else socket.AF_INET
        self._socket = socket.create_server((host, port), family=family, backlog=_BACKLOG)
        self._socket.setblocking(False)
        self._accepting = asyncio.create_task(self._accept(self._socket))
        return int(self._socket.getsockname()[1])

    async def stop(self) -> None:
        """Listen no more, and break all connections."""
        tasks = [*self._connections, *([self._accepting] if self._accepting is not None else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._socket is not None:
            self._socket.close()

    # Connections ----------------------------------------------------------------------------------------------------

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                sock, address = await loop.sock_accept(listening)
            except OSError as error:
                logger.warning("cannot accept connections for now", reason=error.strerror)
                await asyncio.sleep(_AGAIN_SECONDS)
                continue
            if not self._make_room():
                sock.close()
                continue
            caller = HttpCaller(_source(address))
            task = asyncio.create_task(self._serve(sock, caller))
            self._connections[task] = caller
            task.add_done_callback(self._ended)

    def _make_room(self) -> bool:
        if len(self._connections) < self._limits.connections:
            return True
        stranger = next((task for task, caller in self._connections.items() if not caller.authenticated), None)
        if stranger is None:
            return False
        del self._connections[stranger]
        stranger.cancel()
        return True

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._connections.pop(task, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("a defect in a connection", exc_info=error)

    async def _serve(self, sock: socket.socket, caller: HttpCaller) -> None:
        writer = None
        try:
            async with asyncio.timeout(self._limits.request_seconds):
                reader, writer = await self._open(sock)
                try:
                    body = await self._request(reader, writer)
                except BadPostError as refusal:
                    writer.write(_answer(refusal.status, b""))
                    await writer.drain()
                    await _linger(reader, writer)
                    return
            answer = await self._handle(body, caller, reader)
            if answer is not None:
                async with asyncio.timeout(self._limits.reply_seconds):
                    writer.write(_answer(200, answer))
                    writer.close()
                    await writer.wait_closed()
        except (TimeoutError, OSError):
            pass  # slow, gone, or no TLS: there is nobody to tell
        finally:
            if writer is not None:
                writer.transport.abort()

    async def _open(self, sock: socket.socket) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=_READ_BYTES)
        protocol = asyncio.StreamReaderProtocol(reader)
        try:
            transport, _ = await loop.connect_accepted_socket(lambda: protocol, sock, ssl=self._tls)
        except BaseException:
            sock.close()
            raise
        return reader, asyncio.StreamWriter(transport, protocol, reader, loop)

    async def _handle(self, body: bytes, caller: HttpCaller, reader: asyncio.StreamReader) -> bytes | None:
        """Return the answer; None when the caller has gone before the answer."""
        call = asyncio.ensure_future(self._handler(body, caller))
        hang_up = asyncio.ensure_future(reader.read(1))
        try:
            await asyncio.wait([call, hang_up], return_when=asyncio.FIRST_COMPLETED)
            if not call.done() and (hang_up.exception() is not None or not hang_up.result()):
                return None
            return await call
        finally:
            for task in (call, hang_up):
                task.cancel()
            await asyncio.gather(call, hang_up, return_exceptions=True)

    async def _request(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        """Read head and body; return the body. Raises `BadPostError`."""
        post = PostReader(head_bytes=self._limits.head_bytes, body_bytes=self._limits.body_bytes)
        continue_sent = False
        while (body := post.feed(await reader.read(_READ_BYTES))) is None:
            if post.wants_continue and not continue_sent:
                continue_sent = True
                writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        return body


def _answer(status: int, body: bytes) -> bytes:
    kind = "Content-Type: application/json\r\n" if body else ""
    head = f"HTTP/1.1 {status} {_REASONS[status]}\r\n{kind}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    return head.encode() + body


async def _linger(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    if writer.can_write_eof():
        writer.write_eof()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_LINGER_SECONDS):
            while True:
                async with asyncio.timeout(_QUIET_SECONDS):
                    if not await reader.read(_READ_BYTES):
                        return


def _source(address: Any) -> str:
    """Return `HttpCaller.source` for a caller's address, a tuple as the socket module returns it."""
    host = ip_address(str(address[0]).partition("%")[0])
    if isinstance(host, IPv6Address):
        if host.ipv4_mapped is not None:
            return str(host.ipv4_mapped)
        return str(ip_network((host, _SOURCE_BITS), strict=False))
    return str(host)
