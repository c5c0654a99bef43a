"""A link tells its callers whether the peer is unreachable: the connection has ended, and no dial gets an answer."""

import asyncio
import math
import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from gf_i2p.transport.backoff import Backoff
from gf_i2p.transport.errors import DialError, UnreachableError
from gf_i2p.transport.peer_link import PeerLink
from gf_i2p.transport.stream_protocol import StreamProtocol
from gf_i2p.wire.digest import Credentials
from gf_i2p.wire.endpoint import Endpoint
from gf_i2p.wire.proxy_login import ProxyLogin
from tests.transport.harness import CLUSTER, PASSWORD, USER, Identity, authenticator, connected, echo, serving, until

pytestmark = pytest.mark.usefixtures("unhandled")

INSIDE = Endpoint("a" * 52 + ".b32.i2p", 80)
UP = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"


async def test_a_connection_that_broke_and_cannot_be_made_again_shows_as_unreachable(node: Identity) -> None:
    states: list[tuple[bool, bool]] = []
    link: PeerLink
    async with serving(node, echo) as farm:
        link = farm.link(on_down=lambda: states.append((link.unreachable, link.refused)))
        link.start()
        await until(lambda: link.connected)
        assert not link.unreachable
        assert not link.refused
        port = farm.endpoint.port
    try:
        await until(lambda: len(states) >= 3)
        assert states[0] == (False, False), "it broke, and nobody has dialled since"
        assert states[1:3] == [(True, True), (True, True)], "the machine answers that no process listens"
        async with serving(node, echo, port=port):
            await until(lambda: link.connected)
            assert not link.unreachable
            assert not link.refused
    finally:
        await link.stop()


async def test_a_peer_that_was_never_reached_was_not_lost(node: Identity) -> None:
    async with serving(node) as farm:
        link = farm.link()
    link.start()
    await until(lambda: "cannot be reached" in (link.last_error or ""))
    assert not link.unreachable
    await link.stop()


async def test_a_peer_that_refuses_us_is_there(node: Identity) -> None:
    async with serving(node, echo) as farm:
        port = farm.endpoint.port
        async with connected(farm) as link:
            await farm.server.close(0)
            await until(lambda: link.unreachable)
            others = {CLUSTER: authenticator({USER: "another password"})}
            async with serving(node, port=port, authenticators=others):
                await until(lambda: "refuses user" in (link.last_error or ""))
                assert not link.unreachable


async def test_the_round_trip_is_that_of_the_request_that_was_let_in(node: Identity) -> None:
    async with serving(node, echo) as farm:
        assert farm.link().round_trip is None
        async with connected(farm) as link:
            assert link.round_trip is not None
            assert 0 <= link.round_trip < 20, "uvloop's clock counts milliseconds"


class Tunnel(asyncio.Transport):
    """The part of an I2P stream that a link uses."""

    def __init__(self, protocol: StreamProtocol) -> None:
        super().__init__()
        self.protocol = protocol

    def write(self, data: Any) -> None:
        pass

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def abort(self) -> None:
        asyncio.get_running_loop().call_soon(self.protocol.connection_lost, None)


class Router:
    """Stands in for a transport. Each dial has the next outcome of `attempts`; later dials repeat the last outcome."""

    def __init__(self, *attempts: bytes | DialError | None) -> None:
        self._attempts: Iterator[bytes | DialError | None] = iter(attempts)
        self._present: bytes | DialError | None = None

    def proxied(self, endpoint: Endpoint, attempt: int = 0) -> bool:
        return True

    def proxy_login(self, endpoint: Endpoint, attempt: int = 0) -> ProxyLogin | None:
        return None

    def patience(self, endpoint: Endpoint) -> float:
        return math.inf

    async def dial(
        self, endpoint: Endpoint, factory: Callable[[], StreamProtocol], *, deadline: float, attempt: int = 0
    ) -> asyncio.Transport:
        self._present = next(self._attempts, self._present)
        if isinstance(self._present, DialError):
            raise self._present
        protocol = factory()
        tunnel = Tunnel(protocol)
        protocol.connection_made(tunnel)
        if self._present:
            protocol.data_received(self._present)
        if self._present is not UP:
            tunnel.abort()
        return tunnel

    async def listen(self, *_: object) -> Any:
        raise NotImplementedError


@pytest.mark.parametrize(
    ("attempt", "unreachable"),
    [
        (None, True),
        (b"HTTP/1.1 500 Internal Server Error\r\n\r\n", True),
        (b"HTTP/1.1 504 Gateway Timeout\r\n\r\n", True),
        (b"HTTP/1.1 503 Service Unavailable\r\n\r\n", False),
        (b"HTTP/1.1 404 Not Found\r\n\r\n", False),
        (b"HTTP/1.1 4", False),
        (UnreachableError("the peer's router is down"), True),
        (DialError("our router is down"), False),
    ],
    ids=str,
)
async def test_inside_i2p_it_counts_who_says_so(attempt: bytes | DialError | None, unreachable: bool) -> None:
    credentials = Credentials(USER, PASSWORD)
    now = asyncio.get_running_loop().time()
    credentials.challenged(list(authenticator().challenge(now, os.urandom, stale=False)), now)
    link = PeerLink(
        Router(UP, attempt),
        INSIDE,
        CLUSTER,
        credentials,
        backoff=Backoff(floor=0.001, ceiling=0.002),
        request_seconds=10,
    )
    link.start()
    await until(lambda: link.connected)
    link.reset("as if it broke")
    await until(lambda: link.last_error not in {None, "as if it broke"})
    assert link.unreachable is unreachable
    await link.stop()
