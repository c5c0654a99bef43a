"""Shared parts of the tests of the transport: identities, a served farm, a foreign peer, waiting on conditions."""

import asyncio
import contextlib
import os
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar, cast

import pytest

from gf_i2p.transport.backoff import Backoff
from gf_i2p.transport.connection_gate import Gate
from gf_i2p.transport.peer_link import PeerLink
from gf_i2p.transport.served import AuthenticatedConnection, Replier, Served
from gf_i2p.transport.server import Server
from gf_i2p.transport.tls.certificates import fingerprint, make_certificate
from gf_i2p.transport.tls.tcp_sockets import TcpListener
from gf_i2p.transport.tls.tls_transport import TlsSettings, TlsTransport
from gf_i2p.wire.digest import Authenticator, Credentials, Secret
from gf_i2p.wire.endpoint import Endpoint
from gf_i2p.wire.messages import RESPONSE_BYTES, RESPONSE_TYPE, MessageType, Request, Response, decode_response
from gf_i2p.wire.upgrade import ClientHandshake, ServerHandshake, ToldConfiguration, Upgraded

T = TypeVar("T")

GET = b"GET /GarlicFarm/farm/1/websocket HTTP/1.1\r\nHost: farm.example:1\r\n"
CLUSTER = "farm"
USER = "server-1"
PASSWORD = "correct horse"
# No condition of these tests takes more than milliseconds on an idle machine; this only ends a test that has failed.
PATIENCE = 60.0


@dataclass(frozen=True)
class Identity:
    certificate: Path
    key: Path
    fingerprint: str

    @classmethod
    def make(cls, directory: Path, name: str, *, hosts: tuple[str, ...] = (), days: int = 30) -> "Identity":
        start = datetime.now(UTC) - timedelta(days=2 if days < 0 else 0)
        certificate, key = make_certificate(name, hosts=hosts, now=start, days=1 if days < 0 else days)
        paths = directory / f"{name}.crt", directory / f"{name}.key"
        paths[0].write_bytes(certificate)
        paths[1].write_bytes(key)
        return cls(*paths, fingerprint(certificate))


async def until(condition: Callable[[], Any]) -> None:
    """Return when the condition holds; fail when the condition never holds."""
    try:
        async with asyncio.timeout(PATIENCE):
            while not condition():  # noqa: ASYNC110 - what is waited for has no event
                await asyncio.sleep(0.001)
    except TimeoutError:
        raise AssertionError(f"this never came to hold: {condition}") from None


async def soon(what: Awaitable[T]) -> T:
    """Await `what`; fail after the time limit that all these tests share."""
    async with asyncio.timeout(PATIENCE):
        return await what


def authenticator(users: Mapping[str, str] | None = None, cluster: str = CLUSTER) -> Authenticator:
    users = {USER: PASSWORD} if users is None else users
    secrets = {user: Secret.derive(user, cluster, password) for user, password in users.items()}
    return Authenticator(cluster, secrets, key=os.urandom(32))


def request(
    *, index: int = 0, kind: MessageType = MessageType.APPEND_ENTRIES_REQUEST, entries: tuple[Any, ...] = ()
) -> Request:
    return Request(kind, 1, 2, 7, 6, index, 0, entries)


def response(to: Request, *, accepted: bool = True, destination: int = 1) -> Response:
    """Answer a request; the answer's next index is the request's, so that answers can be told apart."""
    return Response(RESPONSE_TYPE[to.type], 2, destination, 7, to.last_log_index, accepted)


@dataclass
class Farm:
    """One server and the requests to the server."""

    server: Server
    endpoint: Endpoint
    identity: Identity
    requests: list[tuple[AuthenticatedConnection, Request, Replier]] = field(default_factory=list)

    def client_transport(self) -> TlsTransport:
        return TlsTransport(TlsSettings(fingerprints={self.endpoint: [self.identity.fingerprint]}))

    def link(self, *, user: str = USER, password: str = PASSWORD, cluster: str = CLUSTER, **options: Any) -> PeerLink:
        options.setdefault("request_seconds", PATIENCE)
        options.setdefault("backoff", Backoff(floor=0.001, ceiling=0.002))
        credentials = options.pop("credentials", None) or Credentials(user, password)
        transport = options.pop("transport", None) or self.client_transport()
        return PeerLink(transport, self.endpoint, cluster, credentials, **options)


class GateClock:
    """Stands in for the event loop of a gate: time stands still until a test moves the clock."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._now = 1000.0
        self._alarms: list[GateAlarm] = []
        monkeypatch.setattr("gf_i2p.transport.connection_gate.asyncio", SimpleNamespace(get_running_loop=lambda: self))

    def time(self) -> float:
        return self._now

    def call_later(self, seconds: float, callback: Callable[..., object], *args: Any) -> "GateAlarm":
        alarm = GateAlarm(self._now + seconds, partial(callback, *args))
        self._alarms.append(alarm)
        return alarm

    def move(self, seconds: float) -> None:
        """Let `seconds` pass on this clock."""
        self._now += seconds
        due = [alarm for alarm in self._alarms if alarm.at <= self._now]
        self._alarms = [alarm for alarm in self._alarms if alarm.at > self._now]
        for alarm in due:
            if not alarm.cancelled:
                alarm.callback()


@dataclass
class GateAlarm:
    at: float
    callback: Callable[[], object]
    cancelled: bool = False

    def cancel(self) -> None:
        self.cancelled = True


def echo(_: AuthenticatedConnection, request: Request, reply: Replier) -> None:
    reply(response(request))


@contextlib.asynccontextmanager
async def serving(
    identity: Identity,
    on_request: Callable[[AuthenticatedConnection, Request, Replier], None] | None = None,
    *,
    gate: Gate | None = None,
    authenticators: Mapping[str, Authenticator] | None = None,
    on_caller: Callable[[AuthenticatedConnection], None] | None = None,
    on_stay: Callable[[AuthenticatedConnection, float], None] | None = None,
    configurations: Mapping[str, ToldConfiguration] | None = None,
    port: int = 0,
    **options: Any,
) -> AsyncIterator[Farm]:
    """Run a server on loopback. Without `on_request`, the server collects the requests in `Farm.requests`."""
    requests: list[tuple[AuthenticatedConnection, Request, Replier]] = []
    handle = on_request or (lambda *each: requests.append(each))
    configurations_by_cluster = configurations or {}
    users = authenticators or {CLUSTER: authenticator()}
    transport = TlsTransport(TlsSettings(identity.certificate, identity.key), port=port)
    server = Server(
        transport,
        {
            cluster: Served(each, handle, on_caller, on_stay, configurations_by_cluster.get(cluster))
            for cluster, each in users.items()
        },
        gate=gate,
        **options,
    )
    listener = await server.start()
    assert isinstance(listener, TcpListener)
    try:
        yield Farm(server, Endpoint("127.0.0.1", listener.port), identity, requests)
    finally:
        await server.close(0)


@contextlib.asynccontextmanager
async def connected(farm: Farm, **options: Any) -> AsyncIterator[PeerLink]:
    """Start a link to the farm's server, wait until the link is up, and yield the link."""
    up = asyncio.Event()
    link = farm.link(on_up=up.set, **options)
    link.start()
    try:
        await soon(up.wait())
        yield link
    finally:
        await link.stop()


def ask(link: PeerLink, message: Request, *, seconds: float | None = None) -> asyncio.Future[Response | None]:
    future: asyncio.Future[Response | None] = asyncio.get_running_loop().create_future()

    def done(answer: Response | None) -> None:
        assert not future.done(), "done was called twice"
        future.set_result(answer)

    link.send(message, done, seconds=seconds)
    assert not future.done(), "done was called within send"
    return future


# --- A foreign peer: the event loop's own TLS -------------------------------------------------------------


def foreign_client_context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


async def foreign_client(farm: Farm) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await soon(asyncio.open_connection(farm.endpoint.host, farm.endpoint.port, ssl=foreign_client_context()))


async def foreign_session(
    farm: Farm, *, user: str = USER, cluster: str = CLUSTER
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect and authenticate with asyncio's own TLS streams instead of the transport; yield reader and writer."""
    credentials = Credentials(user, PASSWORD)
    for _ in range(2):
        reader, writer = await foreign_client(farm)
        handshake = ClientHandshake(
            host="farm.example:1", cluster=cluster, credentials=credentials, now=0.0, entropy=os.urandom
        )
        writer.write(handshake.request())
        try:
            head = await soon(reader.readuntil(b"\r\n\r\n"))
            if isinstance(handshake.receive(head, 0.0), Upgraded):
                return reader, writer
            assert await soon(reader.read()) == b""
        except BaseException:
            await hang_up(writer)
            raise
        await hang_up(writer)
    raise AssertionError("challenged again and again")


async def exchange(farm: Farm, data: bytes) -> bytes:
    """Send over the event loop's TLS, and return all received bytes until the end."""
    reader, writer = await foreign_client(farm)
    writer.write(data)
    answer = await ends(reader)
    await hang_up(writer)
    return answer


async def read_responses(reader: asyncio.StreamReader, count: int) -> list[int]:
    """Return the next indexes of the next responses."""
    data = await soon(reader.readexactly(count * RESPONSE_BYTES))
    return [
        decode_response(data[start : start + RESPONSE_BYTES]).next_index
        for start in range(0, len(data), RESPONSE_BYTES)
    ]


async def hang_up(writer: asyncio.StreamWriter) -> None:
    writer.transport.abort()
    with contextlib.suppress(OSError, ssl.SSLError):
        await soon(writer.wait_closed())


async def close_server(server: asyncio.Server) -> None:
    """Stop listening. Each connection that was accepted before has its handler's task then.

    asyncio up to Python 3.12 never closes a connection whose server closes right after it accepted the connection.
    """
    loop = asyncio.get_running_loop()
    for listening in server.sockets:
        loop.remove_reader(listening.fileno())
    for _ in range(3):  # one round for the transport, one for `connection_made`, one for the task
        await asyncio.sleep(0)
    server.close()


async def ends(reader: asyncio.StreamReader) -> bytes:
    """Read to the end of the stream, whatever the end is."""
    received = b""
    try:
        while piece := await soon(reader.read(65_536)):
            received += piece
    except (ConnectionError, ssl.SSLError):
        pass
    return received


Behaviour = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@contextlib.asynccontextmanager
async def foreign_farm(identity: Identity, behaviour: Behaviour) -> AsyncIterator[Farm]:
    """Run a peer that accepts the handshake correctly, and then follows `behaviour`."""
    authenticators = {CLUSTER: authenticator()}
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(identity.certificate, identity.key)
    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
                handshake = ServerHandshake(authenticators, entropy=os.urandom)
                answer = handshake.receive(await reader.readuntil(b"\r\n\r\n"), 0.0)
                assert answer is not None
                writer.write(answer.data)
                await writer.drain()
                if answer.user is not None:
                    await behaviour(reader, writer)
            with contextlib.suppress(asyncio.CancelledError):  # the farm may end while this connection does
                await hang_up(writer)
        finally:
            tasks.discard(task)

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    try:
        port = server.sockets[0].getsockname()[1]
        yield Farm(cast("Server", None), Endpoint("127.0.0.1", port), identity)
    finally:
        await close_server(server)
        for task in list(tasks):
            task.cancel()
        await until(lambda: not tasks)
