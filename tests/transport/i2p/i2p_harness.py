"""Shared parts of the tests of I2P: a router's proxies, the streams of the proxies, and the way to a listener."""

import asyncio
import contextlib
import re
import socket
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from gf_i2p.netdb.private_keys import DestinationKeys
from gf_i2p.transport.connection_gate import Gate
from gf_i2p.transport.i2p.i2p_listener import I2pListener
from gf_i2p.transport.i2p.i2p_transport import I2pTransport, ProxyMethod, ProxySettings
from gf_i2p.transport.peer_link import PeerLink
from gf_i2p.transport.served import AuthenticatedConnection, Replier, Served
from gf_i2p.transport.server import Server
from gf_i2p.wire.digest import Credentials
from gf_i2p.wire.endpoint import Endpoint
from gf_i2p.wire.messages import Request
from gf_i2p.wire.upgrade import ToldConfiguration
from tests.transport.harness import (
    CLUSTER,
    PASSWORD,
    PATIENCE,
    USER,
    Behaviour,
    Farm,
    Identity,
    authenticator,
    close_server,
    hang_up,
    soon,
    until,
)

PEER = DestinationKeys.generate(lambda count: b"\x07" * count).destination
"""The peer from which every stream of these routers comes."""
PLACE = Endpoint("ukeu3k5oycgaauneqgtnvselmt4yemvoilkln7jpvamvfx7dnkdq.b32.i2p", 7001)
"""The farm's place inside I2P."""


@contextlib.asynccontextmanager
async def listening(behaviour: Behaviour, sock: socket.socket | None = None) -> AsyncIterator[int]:
    """Run a server on loopback that treats each connection by `behaviour`, and then hangs up; yield the port."""
    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
                await behaviour(reader, writer)
                writer.close()
                await writer.wait_closed()
        finally:
            with contextlib.suppress(asyncio.CancelledError):
                await hang_up(writer)
            tasks.discard(task)

    server = await asyncio.start_server(serve, sock=sock or socket.create_server(("127.0.0.1", 0)))
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        await close_server(server)
        for task in list(tasks):
            task.cancel()
        await until(lambda: not tasks)


# --- A router's proxies -----------------------------------------------------------------------------------

_DOWN = b"""\
HTTP/1.1 500 Internal Server Error\r\nConnection: close\r\nContent-Length: 145\r
Content-Type: text/html; charset=UTF-8\r\nDate: Sat, 21 Nov 2026 17:34:37 GMT\r\n\r
<html>\r\n<head>\r\n  <title>I2Pd HTTP proxy</title>\r\n</head>\r\n<body><h1>Proxy error: Host is down</h1>\r
<p>Can't create connection.</p>\r\n</body>\r\n</html>\r\n"""
_GET = re.compile(rb"GET http://([^/:]+):(\d+)(/\S*) HTTP/1\.1\r\n")
_CONNECT = re.compile(rb"CONNECT ([^/:]+):(\d+) HTTP/1\.1\r\n")
_NAME = 3  # RFC 1928, 5: the address type of a domain name
_UPGRADE = b"Connection: Upgrade\r\n"

Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass
class Router:
    """Knows some destinations; the proxies repeat the observed answers of i2pd 2.45.1."""

    destinations: dict[str, int] = field(default_factory=dict)
    """Names, and the ports for the streams to each name."""
    requests: list[bytes] = field(default_factory=list)
    """The heads of HTTP requests, and SOCKS requests, unchanged."""
    passed_on: list[bytes] = field(default_factory=list)
    """Heads of the requests that the peer has got."""
    answered: list[bytes] = field(default_factory=list)
    """Heads of the answers that the client has got."""
    names_peers: bool = True

    def admitted(self, head: bytes, writer: asyncio.StreamWriter) -> bytes | None:
        """Give the head that the proxy goes on with; None: the proxy has answered and hangs up."""
        return head

    def proxy(self, way: ProxyMethod) -> Behaviour:
        return {ProxyMethod.GET: self.get, ProxyMethod.CONNECT: self.connect, ProxyMethod.SOCKS5: self.socks}[way]

    @contextlib.asynccontextmanager
    async def _stream(self, name: bytes) -> AsyncIterator[Stream | None]:
        # As in a router, a name in capital letters is unknown: an outproxy would look the name up.
        port = self.destinations.get(name.decode())
        if port is None:
            yield None
            return
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            if self.names_peers:
                writer.write(PEER.base64.encode() + b"\n")
            yield reader, writer
        finally:
            await hang_up(writer)

    async def get(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        whole = await reader.readuntil(b"\r\n\r\n")
        self.requests.append(whole)
        if (head := self.admitted(whole, writer)) is None:
            return
        line = _GET.match(head)
        async with self._stream(line[1] if line else b"") as stream:
            if line is None or stream is None:
                writer.write(_DOWN)
                return
            self.passed_on.append(b"GET " + line[3] + b" HTTP/1.1\r\n" + head[line.end() :])
            stream[1].write(self.passed_on[-1])
            answer = await stream[0].readuntil(b"\r\n\r\n")
            answer = answer.replace(_UPGRADE, b"Connection: Upgrade\r\r\n")
            self.answered.append(answer[:-2] + b"Proxy-Connection: close\r\n\r\n")
            writer.write(self.answered[-1])
            await splice((reader, writer), stream)

    async def connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        whole = await reader.readuntil(b"\r\n\r\n")
        self.requests.append(whole)
        if (head := self.admitted(whole, writer)) is None:
            return
        line = _CONNECT.match(head)
        async with self._stream(line[1] if line else b"") as stream:
            if stream is None:
                writer.write(_DOWN.replace(b"Host is down", b"CONNECT error"))
                return
            writer.write(b"HTTP/1.1 200 OK\r\nDate: Sat, 21 Nov 2026 17:48:40 GMT\r\n\r\n")
            await splice((reader, writer), stream)

    async def socks_login(self, methods: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Agree on a method (RFC 1928, 3), and let the client log in; give whether the client may go on."""
        assert 0 in methods
        writer.write(b"\x05\x00")
        return True

    async def socks(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        version, methods = await reader.readexactly(2)
        assert version == 5
        if not await self.socks_login(await reader.readexactly(methods), reader, writer):
            return
        request = await reader.readexactly(5)
        by_name = request[:4] == bytes([5, 1, 0, _NAME])
        if by_name:
            request += await reader.readexactly(request[4] + 2)
        self.requests.append(request)
        async with self._stream(request[5:-2] if by_name else b"") as stream:
            if stream is None:
                writer.write(b"\x05\x04\x00\x01" + bytes(6))
                return
            writer.write(b"\x05\x00" + request[2:])
            await splice((reader, writer), stream)


async def splice(here: Stream, there: Stream) -> None:
    """Carry bytes both ways until one side ends."""

    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65_536):
                writer.write(data)
                await writer.drain()

    ways = [asyncio.ensure_future(carry(here[0], there[1])), asyncio.ensure_future(carry(there[0], here[1]))]
    try:
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for way in ways:
            way.cancel()
        await asyncio.wait(ways)


def socks_request(name: bytes, port: int) -> bytes:
    """Return a SOCKS request to CONNECT to a name (RFC 1928, 4)."""
    return bytes([5, 1, 0, _NAME, len(name)]) + name + port.to_bytes(2)


# --- The source of a listener's streams -------------------------------------------------------------------


class OutOfOrderError(Exception):
    """A failure that a router can cause."""


class Inbound:
    """A session that brings streams; the test sets the answers, the errors and the times."""

    failure: type[Exception] = OutOfOrderError

    def __init__(self, *, names_peers: bool = True) -> None:
        self.names_peers = names_peers
        self.opened: list[tuple[str, int]] = []
        """Host and port to which each session was to bring streams."""
        self.looks = 0
        """Number of questions whether the netDb has the node's address."""
        self.is_open = False
        self.doing: set[str] = set()
        """The calls that are under way."""
        self.open_error: Exception | None = None
        self.look_error: Exception | None = None
        self.end_error: Exception | None = None
        self.is_published = True
        self.may_open = asyncio.Event()
        self.may_look = asyncio.Event()
        self.may_open.set()
        self.may_look.set()
        self._end = asyncio.Event()

    def end(self) -> None:
        """End the present session."""
        self._end.set()

    async def open(self, host: str, port: int) -> str:
        assert not self.is_open, "the session before was not closed"
        self.opened.append((host, port))
        with self._doing("open"):
            await self.may_open.wait()
        if self.open_error is not None:
            raise self.open_error
        self._end = asyncio.Event()
        self.is_open = True
        return PLACE.host

    async def published(self) -> bool:
        self.looks += 1
        with self._doing("published"):
            await self.may_look.wait()
        if self.look_error is not None:
            raise self.look_error
        return self.is_published

    async def ended(self) -> None:
        if self.end_error is not None:
            raise self.end_error
        with self._doing("ended"):
            await self._end.wait()

    def close(self) -> None:
        self.is_open = False

    @contextlib.contextmanager
    def _doing(self, what: str) -> Iterator[None]:
        self.doing.add(what)
        try:
            yield
        finally:
            self.doing.discard(what)


# --- A farm in there --------------------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def serving_inside(
    router: Router,
    on_request: Callable[[AuthenticatedConnection, Request, Replier], None] | None = None,
    *,
    inbound: Inbound | None = None,
    configurations: Mapping[str, ToldConfiguration] | None = None,
    gate: Gate | None = None,
    **options: Any,
) -> AsyncIterator[Farm]:
    """A server at `PLACE`, to which this router brings streams."""
    inbound = inbound or Inbound(names_peers=router.names_peers)
    transport = I2pTransport(ProxySettings(), inbound=inbound)
    requests: list[tuple[AuthenticatedConnection, Request, Replier]] = []
    handle = on_request or (lambda *each: requests.append(each))
    configuration = (configurations or {}).get(CLUSTER)
    server = Server(
        transport, {CLUSTER: Served(authenticator(), handle, configuration=configuration)}, gate=gate, **options
    )
    listener = await server.start()
    try:
        assert isinstance(listener, I2pListener)
        router.destinations[PLACE.host] = int(listener.addresses[0].rpartition(":")[2])
        yield Farm(server, PLACE, cast("Identity", None), requests)
    finally:
        await server.close(0)
        await until(lambda: not inbound.doing)


# --- Dialling ---------------------------------------------------------------------------------------------


def taken_port() -> socket.socket:
    """Take a port on which nobody listens, and on which nobody else can."""
    sock = socket.socket()
    sock.bind(("127.0.0.1", 0))
    return sock


def through(port: int, way: ProxyMethod, *login: str) -> I2pTransport:
    """`login`: user and password at the proxy."""
    return I2pTransport(ProxySettings("127.0.0.1", port, way, *login))


async def attempt(
    port: int, way: ProxyMethod, endpoint: Endpoint = PLACE, *login: str, deadline: float = PATIENCE
) -> str:
    """Have a link try once; return the reason of the failure."""
    down = asyncio.Event()
    link = PeerLink(
        through(port, way, *login),
        endpoint,
        CLUSTER,
        Credentials(USER, PASSWORD),
        on_up=lambda: pytest.fail("it came up"),
        on_down=down.set,
        request_seconds=PATIENCE,
        handshake_seconds=deadline,
    )
    link.start()
    await soon(down.wait())
    await link.stop()
    assert link.last_error is not None
    return link.last_error
