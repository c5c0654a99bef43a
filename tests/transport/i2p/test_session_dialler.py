"""Two ways to a peer inside I2P: the router's proxy, and streams of the node's own session."""

import asyncio
import math
import socket
from collections.abc import Callable

import pytest
from structlog.testing import capture_logs

from gf_i2p.transport.backoff import Backoff
from gf_i2p.transport.connection_gate import Admission, Gate
from gf_i2p.transport.errors import DialError, TransportError, UnreachableError
from gf_i2p.transport.i2p.session_dialler import GREETINGS, TwoWayTransport
from gf_i2p.transport.interface import Listener
from gf_i2p.transport.peer_link import PeerLink
from gf_i2p.transport.stream_protocol import StreamProtocol
from gf_i2p.wire.digest import Credentials
from gf_i2p.wire.endpoint import Endpoint
from gf_i2p.wire.proxy_login import ProxyLogin
from tests.transport.harness import CLUSTER, PASSWORD, PATIENCE, USER, echo, request, response, soon, until
from tests.transport.i2p.i2p_harness import PLACE, Router, listening, serving_inside

INSIDE = Endpoint("Peer.b32.i2p", 80)
HOST = "peer.b32.i2p"
OUTSIDE = Endpoint("192.0.2.1", 80)


class NoStreamError(Exception):
    """The error of a session that cannot open a stream."""


class Proxy:
    """Stands in for the transport through the proxy: keeps each dialled endpoint, and fails."""

    def __init__(self) -> None:
        self.dialled: list[Endpoint] = []

    async def dial(
        self, endpoint: Endpoint, factory: Callable[[], StreamProtocol], *, deadline: float, attempt: int = 0
    ) -> asyncio.Transport:
        self.dialled.append(endpoint)
        raise DialError("by the proxy: no")

    def proxied(self, endpoint: Endpoint, attempt: int = 0) -> bool:
        return True

    def proxy_login(self, endpoint: Endpoint, attempt: int = 0) -> ProxyLogin | None:
        return None

    def patience(self, endpoint: Endpoint) -> float:
        return math.inf

    async def listen(self, factory: Callable[[Admission], StreamProtocol], gate: Gate) -> Listener:
        raise TransportError("the proxy's transport listens")


class Session:
    """Stands in for a SAM session: each stream leads to a loopback port, or fails without a port."""

    failure: type[Exception] = NoStreamError

    def __init__(self, port: int | None = None) -> None:
        self.on_open: Callable[[], None] | None = None
        self.on_close: Callable[[], None] | None = None
        self.port = port
        self.dialled_hosts: list[str] = []
        self.gate = asyncio.Event()
        self.gate.set()

    async def connect(self, host: str) -> socket.socket:
        self.dialled_hosts.append(host)
        await self.gate.wait()
        if self.port is None:
            raise NoStreamError("nobody is there")
        sock = socket.socket()
        sock.setblocking(False)
        await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", self.port))
        return sock

    def open(self) -> None:
        assert self.on_open is not None
        self.on_open()

    def close(self) -> None:
        assert self.on_close is not None
        self.on_close()


async def reach(transport: TwoWayTransport, endpoint: Endpoint, attempt: int, deadline: float = PATIENCE) -> None:
    (await transport.dial(endpoint, StreamProtocol, deadline=deadline, attempt=attempt)).abort()


async def test_the_proxy_comes_first_and_both_take_turns() -> None:
    proxy, session = Proxy(), Session()
    transport = TwoWayTransport(proxy, session, CLUSTER)
    for attempt in range(4):
        with pytest.raises(DialError, match="by the proxy" if attempt % 2 == 0 else "nobody is there"):
            await reach(transport, INSIDE, attempt)
        assert transport.proxied(INSIDE, attempt) is (attempt % 2 == 0)
    assert proxy.dialled == [INSIDE, INSIDE]
    assert session.dialled_hosts == [HOST, HOST], "in small letters: only those are inside I2P for every router"
    assert transport.patience(INSIDE) == 20.0
    with pytest.raises(TransportError, match="the proxy's transport listens"):
        await transport.listen(lambda _: StreamProtocol(), Gate())


async def test_an_address_outside_is_never_given_to_the_session() -> None:
    proxy, session = Proxy(), Session()
    transport = TwoWayTransport(proxy, session, CLUSTER)
    with pytest.raises(DialError, match="by the proxy"):
        await reach(transport, OUTSIDE, 1)
    session.open()
    assert session.dialled_hosts == []


async def test_a_stream_that_does_not_open_in_time_is_given_up() -> None:
    session = Session()
    session.gate.clear()
    with pytest.raises(UnreachableError, match="was not reached by the own session within 0 s"):
        await reach(TwoWayTransport(Proxy(), session, CLUSTER), INSIDE, 1, deadline=0.02)


async def test_a_link_whose_proxy_reaches_nobody_comes_up_by_the_session() -> None:
    router = Router(names_peers=False)
    async with serving_inside(router, echo) as farm:
        proxy, session = Proxy(), Session(router.destinations[PLACE.host])
        link = farm.link(transport=TwoWayTransport(proxy, session, CLUSTER))
        link.start()
        await until(lambda: link.connected)
        assert len(proxy.dialled) == 1
        assert session.dialled_hosts == [PLACE.host, PLACE.host], "once for the challenge, once to be let in"
        answer: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        link.send(request(index=5), answer.set_result)
        assert await soon(answer) == response(request(index=5))
        await link.stop()


async def test_reasons_that_take_turns_are_told_once_each() -> None:
    proxy, session = Proxy(), Session()
    link = PeerLink(
        TwoWayTransport(proxy, session, CLUSTER),
        INSIDE,
        CLUSTER,
        Credentials(USER, PASSWORD),
        backoff=Backoff(floor=0.001, ceiling=0.002),
        request_seconds=PATIENCE,
    )
    with capture_logs() as lines:
        link.start()
        await until(lambda: len(session.dialled_hosts) >= 5)
        await link.stop()
    reasons = [line["reason"] for line in lines if line["event"] == "no connection"]
    assert len(reasons) == len(set(reasons)) == 2


# --- Introductions ----------------------------------------------------------------------------------------


async def test_with_a_new_session_every_peer_is_told_until_it_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    sleep = asyncio.sleep
    # An answer has enough time on a busy machine, and the pause before the next greeting takes none.
    monkeypatch.setattr(asyncio, "sleep", lambda seconds: sleep(min(seconds, 0.01)))
    greetings: list[bytes] = []

    async def peer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        greetings.append(await reader.readuntil(b"\r\n\r\n"))
        if len(greetings) > 1:
            writer.write(b"HTTP/1.1 401 Unauthorized\r\n\r\n")

    async with listening(peer) as port:
        session = Session(port)
        transport = TwoWayTransport(Proxy(), session, CLUSTER, patience=PATIENCE)
        with pytest.raises(DialError):
            await reach(transport, INSIDE, 0)
        session.open()
        await until(lambda: len(greetings) == 2)
        await until(lambda: not asyncio.all_tasks() - known_tasks())
    assert session.dialled_hosts == [HOST, HOST]
    assert greetings[0].startswith(f"GET /GarlicFarm/{CLUSTER}/1/websocket HTTP/1.1\r\nHost: {HOST}\r\n".encode())
    assert b"uthorization" not in greetings[0]


async def test_who_never_answers_is_told_a_few_times_only() -> None:
    session = Session()
    transport = TwoWayTransport(Proxy(), session, CLUSTER, patience=0.001)
    with pytest.raises(DialError):
        await reach(transport, INSIDE, 0)
    session.open()
    await until(lambda: len(session.dialled_hosts) == GREETINGS)
    await until(lambda: not asyncio.all_tasks() - known_tasks())
    assert len(session.dialled_hosts) == GREETINGS


async def test_nobody_is_told_of_a_session_that_is_over() -> None:
    session = Session()
    transport = TwoWayTransport(Proxy(), session, CLUSTER)
    with pytest.raises(DialError):
        await reach(transport, INSIDE, 0)
    session.gate.clear()
    session.open()
    await until(lambda: session.dialled_hosts)
    session.close()
    await until(lambda: not asyncio.all_tasks() - known_tasks())


def known_tasks() -> set[asyncio.Task[object]]:
    """Give the tasks that belong to no introduction."""
    return {task for task in asyncio.all_tasks() if not task.get_name().startswith("introduction")}
