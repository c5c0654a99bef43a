"""Real routers: a listener behind one router's SAM, reached through another's proxy, and healing by itself."""

import contextlib
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any, Final

import aiohttp
import pytest
from structlog.testing import capture_logs

from bridges.errors import RouterRefusedError, RouterUnreachableError
from bridges.sam import Sam
from bridges.sam_inbound import SamInbound
from gf_i2p.netdb.keys import DestinationKeys
from gf_i2p.transport.gate import Gate
from gf_i2p.transport.i2p import I2pTransport, ProxySettings, Way
from gf_i2p.transport.link import Link
from gf_i2p.transport.server import Server, Session
from gf_i2p.wire.digest import Credentials
from gf_i2p.wire.endpoint import Endpoint
from integration.localfarm import until
from integration.testnet.client import Network, RouterPlace
from integration.testnet.router import HTTP_PORT, PROXY_PORT, SAM_PORT
from tests.transport.harness import CLUSTER, PASSWORD, USER, ask, authenticator, request, response

PORT: Final = 7001
SECONDS: Final = 300.0
"""A session takes 20 to 40 s, and i2pd forgets to publish some: then another one is made."""
TUNNELS: Final = {
    "inbound.length": "1",
    "outbound.length": "1",
    "inbound.quantity": "4",
    "outbound.quantity": "2",
}


def sam(router: RouterPlace) -> Sam:
    return Sam(router.address, SAM_PORT)


async def seen(what: str, condition: Callable[[], Any], *, poll: float = 0.05) -> float:
    """Wait until it holds; return and print how long that took."""

    async def holds() -> bool:
        return bool(condition())

    began = time.monotonic()
    await until(what, SECONDS, holds, poll=poll)
    seconds = time.monotonic() - began
    print(f"{seconds:6.1f} s  {what}", flush=True)
    return seconds


async def local_destinations(router: RouterPlace) -> str:
    """What its console shows of them."""
    address = f"http://{router.address}:{HTTP_PORT}/?page=local_destinations"
    async with aiohttp.ClientSession() as web, web.get(address) as answer:
        return await answer.text()


@dataclass
class Inside:
    """A server that is reached through a router's SAM."""

    keys: DestinationKeys
    server: Server
    said: list[Any]
    sessions: list[Session]

    @property
    def endpoint(self) -> Endpoint:
        return Endpoint(self.keys.destination.b32, PORT)

    @property
    def reasons(self) -> list[str]:
        """What the listener says, in short."""
        events = {"reachable through I2P", "not reachable through I2P"}
        return [line.get("reason", "reachable") for line in self.said if line["event"] in events]

    def link(self, through: RouterPlace, way: Way) -> Link:
        """Of a peer that uses this router."""
        transport = I2pTransport(ProxySettings(through.address, PROXY_PORT, way))
        credentials = Credentials(USER, PASSWORD)
        return Link(transport, self.endpoint, CLUSTER, credentials, request_seconds=30.0, handshake_seconds=15.0)


@contextlib.asynccontextmanager
async def serving(router: RouterPlace) -> AsyncIterator[Inside]:
    """A server behind this router, with keys that the router has made."""
    keys = await sam(router).generate()
    transport = I2pTransport(ProxySettings(), inbound=SamInbound(sam(router), keys, TUNNELS))
    sessions: list[Session] = []
    with capture_logs() as said:
        server = Server(
            transport,
            {CLUSTER: authenticator()},
            lambda _, asked, reply: reply(response(asked)),
            on_session=sessions.append,
            gate=Gate(handshake_seconds=60.0),
        )
        inside = Inside(keys, server, said, sessions)
        await server.start()
        try:
            yield inside
        finally:
            await server.close(1.0)
            print(*inside.reasons, sep="\n", flush=True)


async def round_trips(link: Link) -> float:
    """Ask ten times; return the fastest answer's seconds."""
    fastest = SECONDS
    for index in range(10):
        began = time.monotonic()
        assert await ask(link, request(index=index)) == response(request(index=index))
        fastest = min(fastest, time.monotonic() - began)
    return fastest


async def test_a_router_makes_keys_and_finds_nobody_who_is_not_there(network: Network) -> None:
    router = sam(network.routers[0])
    await router.probe()
    keys, others = await router.generate(), await router.generate()
    assert keys.destination != others.destination
    began = time.monotonic()
    assert await router.lookup(keys.destination.b32) is None
    assert await router.lookup("nobody.i2p") is None
    print(f"{time.monotonic() - began:6.1f} s  nobody was found twice")


async def test_refusals_of_a_real_router(network: Network) -> None:
    router = sam(network.routers[1])
    keys = await router.generate()
    began = time.monotonic()
    session = await router.session(keys, TUNNELS)
    print(f"{time.monotonic() - began:6.1f} s  a session")
    with pytest.raises(RouterRefusedError, match="INVALID_KEY to STREAM CONNECT"):
        await session.connect("rubbish")
    with pytest.raises(RouterRefusedError, match="CANT_REACH_PEER to STREAM CONNECT"):
        await session.connect(DestinationKeys.generate().destination.b32)
    await session.forward("127.0.0.1", PORT)
    with pytest.raises(RouterRefusedError, match=r"I2P_ERROR \(Already accepting\) to STREAM FORWARD"):
        await session.forward("127.0.0.1", PORT)
    session.close()


async def test_streams_reach_the_listener_and_say_whom_they_are_from(network: Network) -> None:
    here, there, elsewhere = network.routers[2], network.routers[5], network.routers[6]
    async with serving(here) as inside:
        await seen("the listener says that it is reachable", lambda: inside.reasons[-1:] == ["reachable"])

        # From a destination that we know.
        caller = await sam(elsewhere).generate()
        session = await sam(elsewhere).session(caller, TUNNELS)
        lines = []
        for _ in range(2):
            reader, writer = await session.connect(inside.keys.destination.b32)
            writer.write(b"GET /nothing HTTP/1.1\r\nHost: x\r\n\r\n")
            lines.append(await reader.readline())
            writer.close()
        session.close()
        assert lines == [b"HTTP/1.1 404 Not Found\r\n"] * 2
        refused = [line["remote"] for line in inside.said if line["event"] == "connection refused"]
        assert refused == [caller.destination.b32]  # the second is not shown in the same ten seconds
        assert inside.server.counters.refused == {"not_found": 2}

        # From another router's proxy, by both ways that this network's have.
        known = await local_destinations(there)
        for way in (Way.GET, Way.CONNECT):
            link = inside.link(there, way)
            link.start()
            await seen(f"a link by {way} is up", lambda: link.connected)  # noqa: B023
            print(f"{1000 * await round_trips(link):6.1f} ms a round trip by {way}, the fastest of ten")
            await link.stop()
            source = inside.sessions[-1].remote
            assert source.endswith(".b32.i2p")
            assert source.removesuffix(".b32.i2p") in known
        assert len({session.remote for session in inside.sessions}) == 1


async def test_a_listener_heals_when_its_router_comes_back(network: Network) -> None:
    here, there = network.routers[3], network.routers[7]
    async with serving(here) as inside:
        await seen("the listener says that it is reachable", lambda: inside.reasons[-1:] == ["reachable"])
        link = inside.link(there, Way.GET)
        link.start()
        await seen("a link is up", lambda: link.connected)
        await network.stop(here)
        await seen("the listener says that the session is gone", lambda: "ended our session" in str(inside.reasons))
        await seen("and that the router is, too", lambda: "does not answer" in inside.reasons[-1])
        # Streams do not say that their other end has gone: the peer notices when it asks something.
        assert await ask(link, request(), seconds=10.0) is None
        await seen("the link is down", lambda: not link.connected)
        with pytest.raises(RouterUnreachableError):
            await sam(here).probe()
        before = len(inside.reasons)
        await network.start(here)
        await seen("the listener says that it is reachable again", lambda: inside.reasons[-1:] == ["reachable"])
        await seen("the link is up again", lambda: link.connected)
        await round_trips(link)
        assert all("check" in reason or "session" in reason for reason in inside.reasons[before:-1])
        await link.stop()
