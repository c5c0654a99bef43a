"""How soon a farm of real nodes drops a dead leaf, and lists a leaf that is back, beside real routers of both kinds."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable
from pathlib import Path
from typing import Any, Final

import pytest
import pytest_asyncio

from bridges.errors import RouterError
from bridges.sam.client import Sam, SamSession
from integration.harness.local_farm import NotSeenError, until
from integration.harness.processes import free_ports
from integration.scenarios.lease_set_lookup import is_found
from integration.scenarios.router_choice import spare_routers
from integration.testnet.i2p_farm import I2pFarm
from integration.testnet.router import SAM_PORT
from integration.testnet.router_files import LEAF_LINE, replace
from integration.testnet.router_network import RouterNetwork, RouterPlace
from integration.testnet.server_tunnels import ServerTunnel

pytestmark = [pytest.mark.timeout(2400), pytest.mark.slow]  # lease sets, tunnels and the damping of leaves take minutes

TUNNELS: Final = {"inbound.length": "1", "outbound.length": "1", "inbound.quantity": "4", "outbound.quantity": "2"}
"""With fewer than four inbound tunnels, i2pd may leave a destination unknown for ten minutes."""
KNOWN_SECONDS: Final = 100.0
"""A destination that floodfills do not know by then is made anew. Once, one with four tunnels stayed unknown, too."""
LISTED_SECONDS: Final = 420.0
PINGED_SECONDS: Final = 180.0
"""A leaf that has answered no ping is not judged by pings. The session for pings needs tunnels first."""
DEAD_SECONDS: Final = 120.0
"""A leaf whose destination has ended leaves the set within these seconds."""
STOPPED_SECONDS: Final = 30.0
"""The same for a leaf whose service has stopped."""
ROUTER_SECONDS: Final = 150.0
"""The same for a leaf whose router has stopped: the leaf is in doubt for 90 s, and a question takes some seconds."""
ANSWERS: Final = "the leaf answers pings"
"""A node's log has this line then."""
POLL: Final = 0.5
SERVERS: Final = 3
ENDED: Final = 2
"""The server whose leaf's destination ends, and then the router."""
TUNNEL: Final = 3
"""The server whose leaf is a tunnel of the router."""


class Leaves:
    """The leaves of three servers, each with a local service. Leaf 3 is a tunnel of the router, the others are SAM
    sessions."""

    def __init__(self, farm: I2pFarm) -> None:
        self.farm = farm
        self.ports = dict(zip(farm.ids, free_ports(len(farm.ids)), strict=True))
        self.tunnel = ServerTunnel(farm.routers[TUNNEL], farm.leaves[TUNNEL], self.ports[TUNNEL])
        self._sessions: dict[int, SamSession] = {}
        self._services: dict[int, asyncio.Server] = {}

    async def start(self, server: int) -> None:
        """Start the destination of a server's leaf, and wait until the router of server 1 finds the leaf."""
        while True:
            await self._open(server)
            try:
                return await until(
                    f"server 1's router finds leaf {server}",
                    KNOWN_SECONDS,
                    lambda: is_found(self.farm.routers[1], self.farm.leaves[server]),
                    poll=2.0,
                )
            except NotSeenError as error:
                print(f"{error}: it is made anew", flush=True)
                self.end(server)

    async def _open(self, server: int) -> None:
        """Open a session for a server's leaf. A router may first have to forget an older session."""

        async def started() -> bool:
            try:
                self._sessions[server] = await Sam(self.farm.routers[server].address, SAM_PORT).session(
                    self.farm.leaves[server], TUNNELS
                )
            except (OSError, RouterError):
                return False
            return True

        await until(f"leaf {server} has a session", LISTED_SECONDS, started, poll=2.0)

    def end(self, server: int) -> None:
        """End the destination of a server's leaf, as when its program is killed."""
        self._sessions.pop(server).close()

    async def serve(self, server: int) -> None:
        """Start a server's local service."""
        self._services[server] = await asyncio.start_server(
            lambda _, writer: writer.close(), self.farm.routers[server].programs, self.ports[server]
        )

    def stop(self, server: int) -> None:
        """Stop a server's local service."""
        self._services.pop(server).close()

    def close(self) -> None:
        for server in list(self._sessions):
            self.end(server)
        for server in list(self._services):
            self.stop(server)

    async def have_answered(self) -> bool:
        """Whether each node has seen its leaf answer a ping."""
        return all(ANSWERS in self.farm.log(server).read_text() for server in self.farm.ids)

    async def are_listed(self, expected: set[int], observer: int) -> bool:
        """Whether the observer's farm lists the leaves of these servers, and no others."""
        status: dict[str, Any] | None = await self.farm.status(observer)
        addresses = {self.farm.leaves[server].destination.b32 for server in expected}
        return status is not None and set(status["farm"]["leaves"]) == addresses


@pytest_asyncio.fixture(params=["i2pd", "java"])
async def leaves(request: pytest.FixtureRequest, network: RouterNetwork, tmp_path: Path) -> AsyncIterator[Leaves]:
    """Leaves that die beside routers of one kind, and server 1, which looks on, beside an i2pd."""
    routers = beside(network, request.param)
    with I2pFarm(tmp_path, routers, password=network.password) as farm:
        farm.place()
        made = Leaves(farm)
        for server in farm.ids:
            leaf = f'leaf = "{farm.leaves[server].destination.b32}"'
            assert LEAF_LINE.startswith("# leaf = ")
            service = f"{farm.routers[server].programs}:{made.ports[server]}"
            replace(farm.node(server), {leaf: f'{leaf}\nleaf_service = "{service}"\n#'})
            await made.serve(server)
        made.tunnel.add()
        await restart(network, routers[TUNNEL - 1])
        try:
            await asyncio.gather(*(made.start(server) for server in farm.ids if server != TUNNEL))
            farm.start_all()
            await farm.leader(LISTED_SECONDS)
            yield made
        finally:
            print(farm.complaints())
            made.close()
            made.tunnel.remove()
            await restart(network, routers[TUNNEL - 1])


def beside(network: RouterNetwork, kind: str) -> list[RouterPlace]:
    """Return a router for each server; all but the first are of this kind."""
    return [spare_routers(network, "i2pd")[0], *spare_routers(network, kind, SERVERS - 1)[1 - SERVERS :]]


async def restart(network: RouterNetwork, router: RouterPlace) -> None:
    """Restart a router, so that the tunnels in its configuration count."""
    await network.stop(router)
    await network.start(router)


async def test_dead_leaves_are_dropped_and_living_ones_listed_again(
    leaves: Leaves, network: RouterNetwork, capsys: pytest.CaptureFixture[str]
) -> None:
    everyone, kind = set(leaves.farm.ids), leaves.farm.routers[ENDED].kind

    async def measured(what: str, expected: set[int], seconds: float, *, after: Awaitable[None] | None = None) -> None:
        began = time.monotonic()
        if after is not None:
            await after
        try:
            await until(what, seconds, lambda: leaves.are_listed(expected, 1), poll=POLL)
        except NotSeenError:
            print(json.dumps(await leaves.farm.status(1), indent=1))
            raise
        with capsys.disabled():
            print(f"\n  beside {kind}: {what}: {time.monotonic() - began:.1f} s", flush=True)

    await measured("three leaves are listed", everyone, LISTED_SECONDS)
    await until("each leaf has answered a ping", PINGED_SECONDS, leaves.have_answered)
    leaves.end(ENDED)
    await measured("a leaf whose destination has ended is dropped", everyone - {ENDED}, DEAD_SECONDS)
    await measured("the leaf is listed again", everyone, LISTED_SECONDS, after=leaves.start(ENDED))
    leaves.stop(TUNNEL)
    await measured("a leaf whose service has stopped is dropped", everyone - {TUNNEL}, STOPPED_SECONDS)
    await leaves.serve(TUNNEL)
    await measured("the leaf whose service runs again is listed", everyone, LISTED_SECONDS)
    router = leaves.farm.routers[TUNNEL]
    leaves.tunnel.remove()
    await restart(network, router)
    await measured("a leaf whose router restarts without its tunnel is dropped", everyone - {TUNNEL}, ROUTER_SECONDS)
    leaves.tunnel.add()
    await restart(network, router)
    await measured("the leaf whose tunnel is there again is listed", everyone, LISTED_SECONDS)
    router = leaves.farm.routers[ENDED]
    await network.stop(router)
    await measured("a leaf whose router has stopped is dropped", everyone - {ENDED}, ROUTER_SECONDS)
    leaves.end(ENDED)
    await network.start(router)
    await measured("the leaf whose router runs again is listed", everyone, LISTED_SECONDS, after=leaves.start(ENDED))
