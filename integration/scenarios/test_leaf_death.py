"""How soon a farm of real nodes drops a dead leaf, and lists a leaf that is back, beside real i2pd routers."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import pytest
import pytest_asyncio

from bridges.sam.client import Sam, SamSession
from integration.harness.local_farm import NotSeenError, until
from integration.harness.processes import free_ports
from integration.testnet.i2p_farm import I2pFarm
from integration.testnet.router import SAM_PORT
from integration.testnet.router_files import LEAF_LINE, replace
from integration.testnet.router_network import RouterNetwork

pytestmark = [pytest.mark.timeout(2400), pytest.mark.slow]  # lease sets, tunnels and the damping of leaves take minutes

TUNNELS: Final = {"inbound.length": "1", "outbound.length": "1", "inbound.quantity": "4", "outbound.quantity": "2"}
"""With fewer than four inbound tunnels, i2pd may leave a destination unknown for ten minutes."""
LISTED_SECONDS: Final = 420.0
PINGED_SECONDS: Final = 180.0
"""A leaf that has answered no ping is not judged by pings. The session for pings needs tunnels first."""
DEAD_SECONDS: Final = 120.0
"""A leaf whose destination has ended leaves the set within these seconds."""
STOPPED_SECONDS: Final = 30.0
"""The same for a leaf whose service has stopped."""
ANSWERS: Final = "the leaf answers pings"
"""A node's log has this line then."""
POLL: Final = 0.5


class Leaves:
    """The leaves of three servers: SAM sessions, each with a local service."""

    def __init__(self, farm: I2pFarm) -> None:
        self.farm = farm
        self.ports = dict(zip(farm.ids, free_ports(len(farm.ids)), strict=True))
        self._sessions: dict[int, SamSession] = {}
        self._services: dict[int, asyncio.Server] = {}

    async def start(self, server: int) -> None:
        """Start the destination of a server's leaf. A router may first have to forget an older session."""

        async def started() -> bool:
            try:
                self._sessions[server] = await Sam(self.farm.routers[server].address, SAM_PORT).session(
                    self.farm.leaves[server], TUNNELS
                )
            except OSError:
                return False
            return True

        await until(f"leaf {server} has a session", LISTED_SECONDS, started, poll=2.0)

    def end(self, server: int) -> None:
        """End the destination of a server's leaf, as when its program is killed."""
        self._sessions.pop(server).close()

    async def serve(self, server: int) -> None:
        """Start a server's local service."""
        self._services[server] = await asyncio.start_server(
            lambda _, writer: writer.close(), "127.0.0.1", self.ports[server]
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


@pytest_asyncio.fixture
async def leaves(network: RouterNetwork, tmp_path: Path) -> AsyncIterator[Leaves]:
    routers = [router for router in network.routers if not router.floodfill][-3:]
    with I2pFarm(tmp_path, routers, password=network.password) as farm:
        farm.place()
        made = Leaves(farm)
        for server in farm.ids:
            leaf = f'leaf = "{farm.leaves[server].destination.b32}"'
            assert LEAF_LINE.startswith("# leaf = ")
            replace(farm.node(server), {leaf: f'{leaf}\nleaf_service = "127.0.0.1:{made.ports[server]}"\n#'})
            await made.serve(server)
        await asyncio.gather(*(made.start(server) for server in farm.ids))
        farm.start_all()
        await farm.leader(LISTED_SECONDS)
        try:
            yield made
        finally:
            print(farm.complaints())
            made.close()


async def test_dead_leaves_are_dropped_and_living_ones_listed_again(
    leaves: Leaves, capsys: pytest.CaptureFixture[str]
) -> None:
    everyone = set(leaves.farm.ids)

    async def measured(what: str, expected: set[int], seconds: float) -> None:
        began = time.monotonic()
        try:
            await until(what, seconds, lambda: leaves.are_listed(expected, 1), poll=POLL)
        except NotSeenError:
            print(json.dumps(await leaves.farm.status(1), indent=1))
            raise
        with capsys.disabled():
            print(f"\n  {what}: {time.monotonic() - began:.1f} s", flush=True)

    await measured("three leaves are listed", everyone, LISTED_SECONDS)
    await until("each leaf has answered a ping", PINGED_SECONDS, leaves.have_answered)
    leaves.end(2)
    await measured("a leaf whose destination has ended is dropped", everyone - {2}, DEAD_SECONDS)
    await leaves.start(2)
    await measured("the leaf is listed again", everyone, LISTED_SECONDS)
    leaves.stop(3)
    await measured("a leaf whose service has stopped is dropped", everyone - {3}, STOPPED_SECONDS)
    await leaves.serve(3)
    await measured("the leaf whose service runs again is listed", everyone, LISTED_SECONDS)
