"""The attacker's connections: bytes over TCP and TLS, logins by the project's own handshake, floods of attempts."""

import asyncio
import contextlib
import itertools
import os
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Final, Self

from gf_i2p.node.files.client_file import ClientFile
from gf_i2p.node.files.config import Secrets
from gf_i2p.transport.login_channel import channel_to
from gf_i2p.wire.digest import Credentials
from gf_i2p.wire.endpoint import Endpoint
from gf_i2p.wire.errors import ProtocolError
from gf_i2p.wire.http_get import Retry
from gf_i2p.wire.messages import RESPONSE_BYTES, Request, Response, decode_response, encode_request
from gf_i2p.wire.upgrade import ClientHandshake, Upgraded
from integration.attack.attack import CLUSTER, HONEST, Scene

MOST_ATTEMPTS: Final = 20_000
"""Most attempts of one flood, to all servers together."""
_REFUSALS: Final = (OSError, EOFError, ProtocolError)
"""The errors by which a server, or its absence, ends an attempt."""

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


def _trusting() -> ssl.SSLContext:
    """Return a context that takes any certificate: the attacker has no need to know the server."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


_TLS: Final = _trusting()


def endpoints(scene: Scene) -> dict[int, Endpoint]:
    """Return the endpoint of each server, as any client's file has the endpoints."""
    servers = ClientFile.load(scene.client_file(HONEST)).servers
    return {server.id: Endpoint.parse(server.endpoint) for server in servers}


@contextlib.asynccontextmanager
async def connected(endpoint: Endpoint, *, tls: bool = True, source: str | None = None) -> AsyncIterator[Streams]:
    """Connect, by TLS or plainly; end the connection without a goodbye. `source`: this end's address."""
    reader, writer = await asyncio.open_connection(
        endpoint.host, endpoint.port, ssl=_TLS if tls else None, local_addr=None if source is None else (source, 0)
    )
    try:
        yield reader, writer
    finally:
        writer.transport.abort()


async def exchange(endpoint: Endpoint, data: bytes, *, tls: bool = True) -> bytes:
    """Send bytes, and return all bytes that come until the server ends the connection. Raises `OSError`."""
    async with connected(endpoint, tls=tls) as (reader, writer):
        writer.write(data)
        return await reader.read(-1)


def half_hello() -> bytes:
    """Return the first half of a TLS ClientHello."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    hello = _TLS.wrap_bio(incoming, outgoing)
    with contextlib.suppress(ssl.SSLWantReadError):
        hello.do_handshake()
    data = outgoing.read()
    return data[: len(data) // 2]


async def try_login(endpoint: Endpoint, credentials: Credentials) -> Streams | None:
    """Ask for the upgrade once. None: a challenge came. The caller ends the connection. Raises `OSError` and others."""
    loop = asyncio.get_running_loop()
    reader, writer = await asyncio.open_connection(endpoint.host, endpoint.port, ssl=_TLS)
    outcome: Retry | Upgraded | None = None
    try:
        handshake = ClientHandshake(
            host=endpoint.authority, cluster=CLUSTER, credentials=credentials, now=loop.time(), entropy=os.urandom
        )
        writer.write(handshake.request(channel_to(endpoint, writer.transport)))
        head = await reader.readuntil(b"\r\n\r\n")  # no answer to such a request has a body
        outcome = handshake.receive(head, loop.time())
    finally:
        if not isinstance(outcome, Upgraded):
            writer.transport.abort()
    return (reader, writer) if isinstance(outcome, Upgraded) else None


class Session:
    """A connection that has logged in, and sends any bytes."""

    def __init__(self, streams: Streams) -> None:
        self.reader, self.writer = streams

    @classmethod
    @contextlib.asynccontextmanager
    async def open(cls, endpoint: Endpoint, credentials: Credentials) -> AsyncIterator[Self]:
        """Log in with the right key or password. Raises `OSError`, or `ProtocolError` when the server refuses."""
        streams = await try_login(endpoint, credentials) or await try_login(endpoint, credentials)
        if streams is None:
            raise ConnectionRefusedError("the server asks for credentials again and again")
        session = cls(streams)
        try:
            yield session
        finally:
            session.writer.transport.abort()

    async def send(self, *data: bytes) -> None:
        """Send bytes, and wait until the kernel has taken most of them."""
        self.writer.writelines(data)
        await self.writer.drain()

    async def answers(self, count: int) -> list[Response]:
        """Return the next `count` responses. Raises `EOFError` when the server ends the connection before."""
        data = await self.reader.readexactly(count * RESPONSE_BYTES)
        return [decode_response(data[at : at + RESPONSE_BYTES]) for at in range(0, len(data), RESPONSE_BYTES)]

    async def ask(self, *requests: Request) -> list[Response]:
        """Send requests, and return their responses; see `answers`."""
        await self.send(*map(encode_request, requests))
        return await self.answers(len(requests))


def client_credentials(scene: Scene, name: str, server: int) -> Credentials:
    """Return a client's credentials at a server."""
    return ClientFile.load(scene.client_file(name)).login.at(server)


def seized_credentials(scene: Scene, server: int) -> Credentials:
    """Return the seized server's credentials at another server."""
    return Secrets.load(scene.node(scene.seized)).login(scene.seized).at(server)


async def flood(
    scene: Scene, once: Callable[[int], Awaitable[object]], *, lanes: int = 8, servers: tuple[int, ...] | None = None
) -> int:
    """Attempt again and again until the time is over, on so many lanes for each server; return the number of attempts.

    `once` takes a server's id. An attempt that a server ends counts, and the lane goes on.
    """
    attempts = 0

    async def lane(server: int) -> None:
        nonlocal attempts
        while attempts < MOST_ATTEMPTS:
            attempts += 1
            with contextlib.suppress(*_REFUSALS):
                await once(server)
            await asyncio.sleep(0)

    lanes_of_all = [lane(server) for server in servers or scene.servers for _ in range(lanes)]
    await bounded(scene, asyncio.gather(*lanes_of_all))
    return attempts


async def flood_of_posts(
    scene: Scene,
    open_session: Callable[[int], contextlib.AbstractAsyncContextManager[Session]],
    request: Request,
    *,
    batch: int,
    most: int,
) -> tuple[int, int]:
    """Post to the leader at full speed, on four lanes; return the numbers of answers and of accepted posts.

    A lane sends `batch` requests at once, and then reads their answers. No lane begins a batch after `most` answers.
    """
    requests = [encode_request(request)] * batch
    answered = accepted = 0

    async def post(server: int) -> None:
        nonlocal answered, accepted
        async with open_session(server) as session:
            while answered < most:
                await session.send(*requests)
                answers = await session.answers(batch)
                answered += len(answers)
                accepted += sum(answer.accepted for answer in answers)

    await flood(scene, post, lanes=4, servers=(scene.leader,))
    return answered, accepted


async def flood_of_messages(
    scene: Scene,
    open_session: Callable[[int], contextlib.AbstractAsyncContextManager[Session]],
    requests: Sequence[bytes],
    *,
    servers: tuple[int, ...] | None = None,
) -> tuple[int, int]:
    """Send these requests in turn, each on a connection of its own; return the numbers of attempts and of answers."""
    turns, answered = itertools.cycle(requests), 0

    async def once(server: int) -> None:
        nonlocal answered
        async with open_session(server) as session:
            await session.send(next(turns))
            answered += len(await session.answers(1))

    return await flood(scene, once, servers=servers), answered


async def bounded(scene: Scene, work: Awaitable[object], *, least: float = 0.0) -> None:
    """Wait for the work until the attack's time is over, and `least` seconds at least; then the work is cancelled."""
    limit = asyncio.timeout(max(scene.seconds, least))
    try:
        async with limit:
            await work
    except TimeoutError:
        if not limit.expired():
            raise
