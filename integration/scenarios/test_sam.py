"""SAM requests to real routers: the refusals, and a listener that other routers reach, also after a restart."""

import contextlib
import re
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import aiohttp
import pytest
from structlog.testing import capture_logs

from bridges.errors import RouterRefusedError
from bridges.sam.client import Sam
from bridges.sam.inbound_session import SamInbound
from gf_i2p.netdb.private_keys import DestinationKeys
from gf_i2p.transport.connection_gate import Gate
from gf_i2p.transport.i2p.i2p_transport import I2pTransport, ProxyMethod, ProxySettings
from gf_i2p.transport.peer_link import PeerLink
from gf_i2p.transport.served import AuthenticatedConnection, Served
from gf_i2p.transport.server import Server
from gf_i2p.wire.digest import Credentials
from gf_i2p.wire.endpoint import Endpoint
from integration.harness.local_farm import NotSeenError, becomes, until
from integration.testnet.router import HTTP_PORT, PROXY_PORT, SAM_PORT
from integration.testnet.router_network import RouterNetwork, RouterPlace
from tests.transport.harness import CLUSTER, PASSWORD, USER, ask, authenticator, request, response

pytestmark = pytest.mark.timeout(3000)

PORT: Final = 7001
LEASE_SET_2: Final = 3
SECONDS: Final = 480.0
"""A session takes 20 to 50 s. i2pd forgets to publish one session of thirty; then the listener makes another."""
NEW_SECONDS: Final = 60.0
"""Time for the lease set of a new session to reach the floodfills."""
RESTARTS: Final = 3
AWAY: Final = "does not answer|did not answer|hung up"
TUNNELS: Final = {
    "inbound.length": "1",
    "outbound.length": "1",
    "inbound.quantity": "4",
    "outbound.quantity": "2",
}


def sam(router: RouterPlace) -> Sam:
    return Sam(router.address, SAM_PORT)


async def seen(what: str, condition: Callable[[], bool]) -> None:
    """Wait until the condition holds, and print the seconds."""
    began = time.monotonic()
    await becomes(what, condition, SECONDS, poll=0.1)
    print(f"{time.monotonic() - began:6.1f} s  {what}", flush=True)


@dataclass
class ServerBehindSam:
    """A server behind a router's SAM."""

    keys: DestinationKeys
    said: list[Any]
    callers: list[AuthenticatedConnection]

    @property
    def reasons(self) -> list[str]:
        """The listener's words for each change: "reachable", or the reason why the server is not reachable."""
        events = {"reachable through I2P", "not reachable through I2P"}
        return [line.get("reason", "reachable") for line in self.said if line["event"] in events]

    @property
    def reachable(self) -> bool:
        return self.reasons[-1:] == ["reachable"]

    @contextlib.asynccontextmanager
    async def linked(self, through: RouterPlace, way: ProxyMethod) -> AsyncIterator[PeerLink]:
        """Give a peer's link through this router, when the link is up and has had an answer."""
        link = PeerLink(
            I2pTransport(ProxySettings(through.address, PROXY_PORT, way)),
            Endpoint(self.keys.destination.b32, PORT),
            CLUSTER,
            Credentials(USER, PASSWORD),
            request_seconds=30.0,
            handshake_seconds=30.0,
        )
        link.start()
        try:
            await seen(f"a link by {way} through router {through.number} is up", lambda: link.connected)
            await until("it is answered", SECONDS, lambda: answered(link), poll=1.0)
            yield link
        finally:
            await link.stop()


async def answered(link: PeerLink) -> bool:
    """Ask once; return whether an answer came. A link may break at any time, and then connects anew."""
    answer = await ask(link, request(index=7))
    assert answer in {None, response(request(index=7))}
    return answer is not None


@contextlib.asynccontextmanager
async def serving(router: RouterPlace) -> AsyncIterator[ServerBehindSam]:
    """Run a server behind this router, with keys that the router has made."""
    inside = ServerBehindSam(await sam(router).generate(), [], [])
    server = Server(
        I2pTransport(ProxySettings(), inbound=SamInbound(sam(router), inside.keys, TUNNELS)),
        {CLUSTER: Served(authenticator(), lambda _, asked, reply: reply(response(asked)), inside.callers.append)},
        gate=Gate(handshake_seconds=60.0),
    )
    with capture_logs() as inside.said:
        await server.start()
        try:
            yield inside
        finally:
            await server.close(1.0)
            print(*inside.reasons, sep="\n", flush=True)


async def local_destinations(router: RouterPlace) -> str:
    """Return the console's page of the local destinations."""
    address = f"http://{router.address}:{HTTP_PORT}/?page=local_destinations"
    async with aiohttp.ClientSession() as web, web.get(address) as answer:
        return await answer.text()


async def test_refusals_of_a_real_router(network: RouterNetwork) -> None:
    router = sam(network.routers[7])  # in no other test here: i2pd 2.45.1 may die when a session with streams ends
    keys = await router.generate()
    assert await router.lookup(keys.destination.b32) is None, "nobody has it yet"
    session = await router.session(keys, TUNNELS)
    with pytest.raises(RouterRefusedError, match="said INVALID_KEY to STREAM CONNECT: check the keys or the address"):
        await session.connect("rubbish")
    with pytest.raises(RouterRefusedError, match="said CANT_REACH_PEER to STREAM CONNECT: check the address"):
        await session.connect_socket(DestinationKeys.generate().destination.b32)
    await session.forward("127.0.0.1", PORT)
    with pytest.raises(RouterRefusedError, match=r"said I2P_ERROR \(Already accepting\) to STREAM FORWARD"):
        await session.forward("127.0.0.1", PORT)
    session.close()


@pytest.mark.slow  # restarts a router
async def test_a_listener_is_reached_through_other_routers_and_outlives_its_own(network: RouterNetwork) -> None:
    here, there, elsewhere = network.routers[4:7]
    async with serving(here) as inside:
        await seen("the listener says that it is reachable", lambda: inside.reachable)
        known = await local_destinations(there)
        for way in (ProxyMethod.GET, ProxyMethod.CONNECT):
            async with inside.linked(there, way):
                host, dot, domain = inside.callers[-1].remote.partition(".")
                assert dot + domain == ".b32.i2p"
                assert host in known, "it comes from the proxy's destination"

        for number in range(RESTARTS):
            if await restarted(network, here, inside, looks=number > 0):
                break
        async with inside.linked(elsewhere, ProxyMethod.GET):
            assert inside.callers[-1].remote.split(".")[0] in await local_destinations(elsewhere)


async def restarted(network: RouterNetwork, router: RouterPlace, inside: ServerBehindSam, *, looks: bool) -> bool:
    """Restart the router; the listener heals. Return whether other routers can find the listener's new session.

    i2pd may forget to publish the new session. Then the old lease set lives for up to ten minutes: the listener takes
    itself for reachable, and other routers fail to connect.

    `looks`: no stream has come yet, so the listener may look up its own address just when the router stops.
    """
    address = inside.keys.destination.b32
    known: list[datetime] = []

    async def is_held() -> bool:
        known[:] = [held.expires for held in (await network.holders(address, LEASE_SET_2)).values()]
        return bool(known)

    await until("floodfills have the lease set", SECONDS, is_held, poll=0.5)
    before = max(known)
    said = len(inside.reasons)
    await network.stop(router)
    await seen("the listener says that its session is gone", lambda: len(inside.reasons) > said)
    await network.start(router)
    await seen("the listener says that it is reachable again", lambda: inside.reachable)
    gone, *meanwhile, _ = inside.reasons[said:]
    ended = "the router has ended the node's session: a new one is made"
    assert gone == ended or (looks and re.search(AWAY, gone)), gone
    assert all(re.search(f"{AWAY}|has not published", reason) for reason in meanwhile), meanwhile

    async def is_new() -> bool:
        holders = (await network.holders(address, LEASE_SET_2)).values()
        return bool(holders) and all(held.expires > before for held in holders)

    try:
        await until("floodfills have the new lease set", NEW_SECONDS, is_new, poll=0.5)
    except NotSeenError as error:
        print(error)
        return False
    return True
