"""Out through the router's proxy: by GET, by CONNECT, by SOCKS5; and in through a listener."""

import asyncio
import os
import re
import socket
import struct
from collections.abc import Callable
from typing import cast

import pytest

from gf_i2p.transport.connection_gate import Admission, Gate
from gf_i2p.transport.endpoint_transport import MixedTransport
from gf_i2p.transport.errors import DialError, TransportError, UnreachableError
from gf_i2p.transport.i2p import i2p_transport
from gf_i2p.transport.i2p.i2p_listener import ConfiguredTunnel
from gf_i2p.transport.i2p.i2p_transport import I2pTransport, ProxyMethod, ProxySettings
from gf_i2p.transport.i2p.session_dialler import PATIENCE_SECONDS
from gf_i2p.transport.interface import Listener
from gf_i2p.transport.peer_link import PeerLink
from gf_i2p.transport.stream_protocol import StreamProtocol
from gf_i2p.transport.tls.tls_transport import TlsSettings, TlsTransport
from gf_i2p.wire.digest import Credentials
from gf_i2p.wire.endpoint import Endpoint
from gf_i2p.wire.limits import MAX_HTTP_HEAD_BYTES
from gf_i2p.wire.proxy_login import ProxyLogin
from tests.transport.harness import (
    CLUSTER,
    PASSWORD,
    PATIENCE,
    USER,
    Behaviour,
    ask,
    connected,
    echo,
    ends,
    request,
    response,
    soon,
    until,
)
from tests.transport.i2p.i2p_harness import (
    PEER,
    PLACE,
    Router,
    attempt,
    listening,
    serving_inside,
    socks_request,
    taken_port,
    through,
)

pytestmark = pytest.mark.usefixtures("unhandled")

LOGIN = ProxyLogin("user", "password", in_clear=True)
TUNNEL_WAYS = (ProxyMethod.CONNECT, ProxyMethod.SOCKS5)
every_way = pytest.mark.parametrize("way", ProxyMethod)


class Guest(StreamProtocol):
    """The protocol of a dialled connection: sends `first`, and keeps the received bytes."""

    def __init__(self, first: bytes = b"") -> None:
        self.first = first
        self.received = bytearray()
        self.made = 0
        self.lost = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.made += 1
        cast("asyncio.Transport", transport).write(self.first)

    def data_received(self, data: bytes) -> None:
        self.received += data

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.set()


# --- A farm inside I2P ------------------------------------------------------------------------------------


@every_way
@pytest.mark.parametrize("names_peers", [True, False])
async def test_requests_go_there_and_answers_come_back(way: ProxyMethod, names_peers: bool) -> None:
    router = Router(names_peers=names_peers)
    async with (
        serving_inside(router) as farm,
        listening(router.proxy(way)) as port,
        connected(farm, transport=through(port, way)) as link,
    ):
        answers = [ask(link, request(index=index)) for index in range(50)]
        await until(lambda: len(farm.requests) == 50)
        for _, received, reply in farm.requests:
            reply(response(received))
        assert [await soon(answer) for answer in answers] == [response(request(index=index)) for index in range(50)]
        caller = farm.requests[0][0]
        assert caller.user == USER
        # SAM's first line names the peer of a stream; a server tunnel of the router's cannot.
        assert caller.remote == PEER.b32 if names_peers else caller.remote.startswith("127.0.0.1:")
        assert len(router.requests) == 2, "the challenge, and the connection"


async def test_the_proxy_of_a_get_sees_the_whole_address_and_the_peer_the_path() -> None:
    router = Router()
    async with (
        serving_inside(router, echo) as farm,
        listening(router.get) as port,
        connected(farm, transport=through(port, ProxyMethod.GET)) as link,
    ):
        assert await soon(ask(link, request(index=3))) == response(request(index=3))
    line = f"GET http://{PLACE.host}:7001/GarlicFarm/farm/1/websocket HTTP/1.1\r\nHost: {PLACE.host}:7001\r\n"
    assert all(head.startswith(line.encode()) for head in router.requests)
    assert [head.split(b"\r\n", 1)[0] for head in router.passed_on] == [
        b"GET /GarlicFarm/farm/1/websocket HTTP/1.1"
    ] * 2
    # The changes of i2pd to the answer are harmless, and happened here.
    assert b"Connection: Upgrade\r\r\n" in router.answered[1]
    assert b"Proxy-Connection: close\r\n" in router.answered[1]


async def test_connect_tells_the_proxy_the_name_and_nothing_else() -> None:
    router = Router()
    async with (
        serving_inside(router, echo) as farm,
        listening(router.connect) as port,
        connected(farm, transport=through(port, ProxyMethod.CONNECT)) as link,
    ):
        assert await soon(ask(link, request())) is not None
    authority = f"{PLACE.host}:7001"
    assert router.requests == [f"CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\n".encode()] * 2


async def test_a_socks_proxy_is_given_the_name() -> None:
    router = Router()
    async with (
        serving_inside(router, echo) as farm,
        listening(router.socks) as port,
        connected(farm, transport=through(port, ProxyMethod.SOCKS5)) as link,
    ):
        assert await soon(ask(link, request())) is not None
    assert router.requests == [socks_request(PLACE.host.encode(), 7001)] * 2


@every_way
async def test_a_name_in_capitals_reaches_the_proxy_in_small_letters(way: ProxyMethod) -> None:
    # i2pd takes NAME.I2P for a name outside I2P, and hands the name to the outproxy.
    router = Router()
    endpoint = Endpoint(PLACE.host.replace(".b32.i2p", ".B32.I2p").replace("u", "U"), PLACE.port)
    async with serving_inside(router, echo) as farm, listening(router.proxy(way)) as port:
        farm.endpoint = endpoint
        async with connected(farm, transport=through(port, way)) as link:
            assert await soon(ask(link, request())) is not None
    names = [name for head in router.requests for name in re.findall(rb"(?i)[a-z2-7]{52}\.b32\.i2p", head)]
    assert set(names) == {PLACE.host.encode()}


@every_way
async def test_the_link_comes_up_when_the_router_does(way: ProxyMethod) -> None:
    router = Router()
    async with serving_inside(router, echo) as farm:
        with taken_port() as sock:
            link = farm.link(transport=through(sock.getsockname()[1], way))
            link.start()
            await until(lambda: "check that the router runs" in (link.last_error or ""))
            async with listening(router.proxy(way), sock.dup()):
                await until(lambda: link.connected)
                assert await soon(ask(link, request(index=5))) == response(request(index=5))
                await link.stop()


# --- Routers and peers that fail --------------------------------------------------------------------------


@every_way
async def test_a_proxy_that_is_not_there_is_named(way: ProxyMethod) -> None:
    with taken_port() as sock:
        port = sock.getsockname()[1]
        message = await attempt(port, way)
    assert f"The router's proxy at 127.0.0.1:{port} does not answer (Connection refused)" in message
    assert "check that the router runs" in message
    assert ("[socksproxy]" if way is ProxyMethod.SOCKS5 else "[httpproxy]") in message


@every_way
async def test_a_peer_that_the_router_does_not_reach_is_named(way: ProxyMethod) -> None:
    router = Router()
    async with listening(router.proxy(way)) as port:
        message = await attempt(port, way)
    assert PLACE.host in message
    assert ("Host unreachable" if way is ProxyMethod.SOCKS5 else "500 Internal Server Error") in message
    assert "heck the address" in message
    assert "router is up" in message
    assert len(router.requests) == 1


@every_way
async def test_a_proxy_that_hangs_is_given_up_at_the_deadline(way: ProxyMethod) -> None:
    came = went = 0

    async def hanging(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal came, went
        came += 1
        await ends(reader)
        went += 1

    async with listening(hanging) as port:
        message = await attempt(port, way, deadline=0.1)
        await until(lambda: came == went)
    assert str(PLACE) in message
    assert "within 0.1 s" in message
    assert "its router is up and has tunnels" in message


async def test_what_says_nothing_to_a_socks_greeting_is_named_before_the_peer(monkeypatch: pytest.MonkeyPatch) -> None:
    # As an HTTP proxy, which waits for the rest of a request.
    monkeypatch.setattr(i2p_transport, "SOCKS_GREETING_SECONDS", 0.05)
    router = Router()
    async with listening(router.get) as port:
        with pytest.raises(DialError) as caught:
            await soon(through(port, ProxyMethod.SOCKS5).dial(PLACE, Guest, deadline=2 * PATIENCE))
    message = str(caught.value)
    assert f"The router's SOCKS proxy at 127.0.0.1:{port} does not speak SOCKS5" in message
    assert "no answer to a greeting within 0.05 s" in message
    assert "heck that the port is not the HTTP proxy's" in message
    assert "[socksproxy] enabled = true" in message
    assert not isinstance(caught.value, UnreachableError), "it is not the peer's fault"
    assert PLACE.host not in message


async def test_a_slow_peer_has_longer_than_a_socks_greeting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(i2p_transport, "SOCKS_GREETING_SECONDS", 2.0)
    loop = asyncio.get_running_loop()

    async def slow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(3)
        writer.write(b"\x05\x00")
        await reader.readexactly(len(socks_request(PLACE.host.encode(), PLACE.port)))
        asked_at = loop.time()
        await until(lambda: loop.time() > asked_at + 1.1 * i2p_transport.SOCKS_GREETING_SECONDS)
        writer.write(b"\x05\x00\x00\x01" + bytes(6) + b"hello")
        await ends(reader)

    guest = Guest()
    async with listening(slow) as port:
        transport = await through(port, ProxyMethod.SOCKS5).dial(PLACE, lambda: guest, deadline=PATIENCE)
        await until(lambda: guest.received == b"hello")
        transport.abort()
        await soon(guest.lost.wait())


def test_a_greeting_has_less_time_than_one_way_of_two() -> None:
    assert i2p_transport.SOCKS_GREETING_SECONDS <= PATIENCE_SECONDS / 2


def answering(*pieces: bytes) -> Behaviour:
    async def behave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for piece in pieces:
            if not await reader.read(1000):
                return
            writer.write(piece)

    return behave


@pytest.mark.parametrize(
    ("way", "pieces"),
    [
        (ProxyMethod.GET, [b""]),
        (ProxyMethod.GET, [b"HTTP/1.1 500 Internal"]),
        (ProxyMethod.CONNECT, [b""]),
        (ProxyMethod.CONNECT, [b"HTTP/1.1 200 O"]),
        (ProxyMethod.CONNECT, [b"HTTP/1.1 200 OK\r\n"]),
        (ProxyMethod.SOCKS5, [b""]),
        (ProxyMethod.SOCKS5, [b"\x05"]),
        (ProxyMethod.SOCKS5, [b"\x05\x00", b""]),
        (ProxyMethod.SOCKS5, [b"\x05\x00", b"\x05\x00\x00"]),
        (ProxyMethod.SOCKS5, [b"\x05\x00", b"\x05\x00\x00\x03\x10half"]),
    ],
)
async def test_a_proxy_that_closes_early_is_named(way: ProxyMethod, pieces: list[bytes]) -> None:
    async with listening(answering(*pieces)) as port:
        message = await attempt(port, way)
    assert str(PLACE) in message
    assert "closed" in message
    assert "check" in message


@pytest.mark.parametrize(
    ("way", "pieces", "expected"),
    [
        (
            ProxyMethod.CONNECT,
            [b"SSH-2.0-OpenSSH\r\n\r\n"],
            "does not answer as an HTTP proxy does (no answer of HTTP/1.1)",
        ),
        (ProxyMethod.CONNECT, [b"\x05\x00"], "does not answer as an HTTP proxy does (control characters"),
        (
            ProxyMethod.CONNECT,
            [b"HTTP/1.1 200 OK\r\n" + b"x" * MAX_HTTP_HEAD_BYTES],
            "(an HTTP head of more than 16384 bytes)",
        ),
        (ProxyMethod.CONNECT, [b"HTTP/1.1 503 Not\x85 yet\r\n\r\n"], "says '503 Not yet'"),
        (
            ProxyMethod.CONNECT,
            [b"HTTP/1.1 407\r\n\r\n"],
            "the answer is 407: the router's HTTP proxy asks for a user",
        ),
        (
            ProxyMethod.SOCKS5,
            [b"HTTP/1.1 400 Bad Request\r\n\r\n"],
            "does not answer as a SOCKS5 proxy does (Unexpected SOCKS",
        ),
        (ProxyMethod.SOCKS5, [b"\x05\xff"], "asks for a user and a password: set proxy_user and proxy_password"),
        (ProxyMethod.SOCKS5, [b"\x05\x02"], "does not answer as a SOCKS5 proxy does"),
        (ProxyMethod.SOCKS5, [b"\x05\x00", b"\x05\x63\x00"], "does not answer as a SOCKS5 proxy does"),
        (
            ProxyMethod.SOCKS5,
            [b"\x05\x00", b"\x05\x00\x00\x03\x01\xff\x00\x50"],
            "does not answer as a SOCKS5 proxy does",
        ),
        (ProxyMethod.SOCKS5, [b"\x05\x00", b"\x05\x02\x00\x01" + bytes(6)], "says 'Connection not allowed by ruleset'"),
    ],
)
async def test_what_is_no_proxy_or_refuses_is_named(way: ProxyMethod, pieces: list[bytes], expected: str) -> None:
    async with listening(answering(*pieces)) as port:
        guest = Guest()
        with pytest.raises(DialError) as caught:
            await through(port, way).dial(PLACE, lambda: guest, deadline=PATIENCE)
    assert expected in str(caught.value)
    assert guest.made == 0


@every_way
async def test_a_connection_that_breaks_is_named(way: ProxyMethod) -> None:
    async def breaking(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1000)
        # socket(7), SO_LINGER: on, 0 s. The end is a reset then.
        with socket.socket(fileno=os.dup(writer.get_extra_info("socket").fileno())) as sock:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()

    async with listening(breaking) as port:
        message = await attempt(port, way)
    assert str(PLACE) in message
    assert "onnection reset" in message
    assert "check" in message


# --- The tunnel of CONNECT --------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 7, 1000])
@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.1 200 OK\r\nDate: Sat, 21 Nov 2026 17:48:40 GMT\r\n\r\n",
        b"HTTP/1.0 200\r\n\r\n",
        b"HTTP/1.1 299 Any will do\r\n\r\n",
        b"HTTP/1.1 200 Connection established\r\r\nProxy-agent: Privoxy\r\n\r\n",
    ],
)
async def test_the_answer_may_come_in_pieces_and_with_the_peers_first_bytes(head: bytes, size: int) -> None:
    answer = head + b"\r\n the peer\n\n speaks first"

    async def in_pieces(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        for start in range(0, len(answer), size):
            writer.write(answer[start : start + size])
            await asyncio.sleep(0)
        message.extend(await reader.readexactly(2))

    message = bytearray()
    guest = Guest(b"hi")
    async with listening(in_pieces) as port:
        transport = await through(port, ProxyMethod.CONNECT).dial(PLACE, lambda: guest, deadline=PATIENCE)
        await until(lambda: guest.received == answer[len(head) :] and message == b"hi")
        assert guest.made == 1
        transport.abort()
        await soon(guest.lost.wait())


# --- Hosts that are never dialled, or never that way ------------------------------------------------------


@every_way
@pytest.mark.parametrize("host", ["127.0.0.1", "example.org", "example.i2p.org", "i2p", "::1"])
async def test_an_address_outside_i2p_is_refused_before_anything_is_sent(way: ProxyMethod, host: str) -> None:
    router = Router()
    connections = 0

    async def counting(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        await router.proxy(way)(reader, writer)

    async with listening(counting) as port:
        endpoint = Endpoint(host, 7001)
        with pytest.raises(DialError, match=f"{re.escape(str(endpoint))} is no address inside I2P"):
            await through(port, way).dial(endpoint, Guest, deadline=PATIENCE)
        await attempt(port, way)  # after this attempt, an earlier connection would have been counted
    assert connections == (2 if way is ProxyMethod.SOCKS5 else 1)  # a greeting first
    assert all(PLACE.host.encode() in head for head in router.requests)


@pytest.mark.parametrize("host", [PLACE.host, "FARM.I2P", "a.b.i2p"])
async def test_tls_does_not_dial_into_i2p(host: str) -> None:
    endpoint = Endpoint(host, 7001)
    transport = TlsTransport(TlsSettings(fingerprints={endpoint: ["ab" * 32]}))
    with pytest.raises(DialError, match=r"lies inside I2P\. It is never looked up in DNS nor dialled by TCP"):
        await transport.dial(endpoint, Guest, deadline=PATIENCE)


@pytest.mark.parametrize("host", ["localhost", "router.i2p", "", "127.1", "127.0.0.1:4444"])
def test_a_proxy_has_an_address_and_no_name(host: str) -> None:
    with pytest.raises(TransportError, match="is no IP address, which the router's proxy needs"):
        ProxySettings(host)


class Carrier:
    """A transport that notes each dial."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.dialled: list[Endpoint] = []

    async def dial(
        self, endpoint: Endpoint, factory: Callable[[], StreamProtocol], *, deadline: float, attempt: int = 0
    ) -> asyncio.Transport:
        self.dialled.append(endpoint)
        raise DialError(f"{self.name} {deadline} {attempt}")

    def proxied(self, endpoint: Endpoint, attempt: int = 0) -> bool:
        return self.name == "i2p" and attempt == 2

    def proxy_login(self, endpoint: Endpoint, attempt: int = 0) -> ProxyLogin | None:
        return LOGIN if self.proxied(endpoint, attempt) else None

    def patience(self, endpoint: Endpoint) -> float:
        return 5.0 if self.name == "i2p" else 6.0

    async def listen(self, factory: Callable[[Admission], StreamProtocol], gate: Gate) -> Listener:
        raise TransportError(f"{self.name} listens")


@pytest.mark.parametrize("listening_name", ["tls", "i2p"])
async def test_with_both_the_name_decides(listening_name: str) -> None:
    carriers = {name: Carrier(name) for name in ("tls", "i2p")}
    mixed = MixedTransport(tls=carriers["tls"], i2p=carriers["i2p"], listening=carriers[listening_name])
    inside = [PLACE, Endpoint("Farm.I2P", 1)]
    outside = [Endpoint("farm.example", 1), Endpoint("192.0.2.1", 1), Endpoint("x.i2p.example", 1)]
    for name, endpoints in (("i2p", inside), ("tls", outside)):
        for endpoint in endpoints:
            with pytest.raises(DialError, match=f"{name} 7.5 3"):
                await mixed.dial(endpoint, Guest, deadline=7.5, attempt=3)
            assert mixed.proxied(endpoint, 2) is (name == "i2p")
            assert mixed.proxy_login(endpoint, 2) is (LOGIN if name == "i2p" else None)
            assert mixed.patience(endpoint) == (5.0 if name == "i2p" else 6.0)
        assert carriers[name].dialled == endpoints
    with pytest.raises(TransportError, match=f"{listening_name} listens"):
        await mixed.listen(lambda _: Guest(), Gate())


@pytest.mark.parametrize(
    ("way", "proxied"), [(ProxyMethod.GET, True), (ProxyMethod.CONNECT, False), (ProxyMethod.SOCKS5, False)]
)
def test_only_a_get_is_a_request_to_the_proxy(way: ProxyMethod, proxied: bool) -> None:
    assert through(4444, way).proxied(PLACE) is proxied


# --- Listening --------------------------------------------------------------------------------------------


async def test_without_anything_that_brings_streams_nobody_listens() -> None:
    with pytest.raises(TransportError, match="configure a SAM session or a server tunnel"):
        await I2pTransport(ProxySettings()).listen(lambda _: Guest(), Gate())


@pytest.mark.parametrize("host", ["localhost", "farm.i2p", "", "example.org"])
async def test_one_listens_on_an_address_and_on_no_name(host: str) -> None:
    transport = I2pTransport(ProxySettings(), inbound=ConfiguredTunnel(), host=host)
    with pytest.raises(TransportError, match="is no IP address"):
        await transport.listen(lambda _: Guest(), Gate())


async def test_a_port_that_is_taken_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        transport = I2pTransport(ProxySettings(), inbound=ConfiguredTunnel(), port=port)
        with pytest.raises(TransportError, match=f"Cannot listen on 127.0.0.1:{port}"):
            await transport.listen(lambda _: Guest(), Gate())


# --- Giving up --------------------------------------------------------------------------------------------


@every_way
@pytest.mark.parametrize("answers", [[], [b"\x05\x00"], [b"HTTP/1.1 200 O"]])
async def test_a_link_that_is_stopped_while_it_dials_leaves_no_connection(
    way: ProxyMethod, answers: list[bytes]
) -> None:
    asked, gone = asyncio.Event(), asyncio.Event()

    async def slow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for answer in answers:
            await reader.read(1000)
            writer.write(answer)
        asked.set()
        await ends(reader)
        gone.set()

    async with listening(slow) as port:
        link = PeerLink(through(port, way), PLACE, CLUSTER, Credentials(USER, PASSWORD), request_seconds=PATIENCE)
        link.start()
        await soon(asked.wait())
        await soon(link.stop())
        await soon(gone.wait())


@pytest.mark.parametrize("way", TUNNEL_WAYS)
async def test_the_protocol_is_connected_once_the_stream_stands(way: ProxyMethod) -> None:
    router = Router(names_peers=False)

    async def greeting(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert await reader.readexactly(5) == b"hello"
        writer.write(b"welcome")
        await ends(reader)

    async with listening(greeting) as farm, listening(router.proxy(way)) as port:
        router.destinations[PLACE.host] = farm
        guest = Guest(b"hello")
        transport = await through(port, way).dial(PLACE, lambda: guest, deadline=PATIENCE)
        assert guest.made == 1
        await until(lambda: guest.received == b"welcome")
        transport.close()
        await soon(guest.lost.wait())
