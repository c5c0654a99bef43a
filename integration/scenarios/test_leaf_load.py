"""The load of one leaf moves the cost of that leaf alone, and the log has every value that a router tells.

Three nodes beside real i2pd routers. Server 1 has two leaves. Each leaf is a SAM session. In front of each leaf's echo
service stands a forwarder of the node. The load is TCP connections to the forwarder of one leaf.
"""

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
import pytest_asyncio

from bridges.sam.client import Sam, SamSession
from gf_i2p.cli.shared import local_client
from gf_i2p.cli.shared.errors import CommandError
from gf_i2p.farm.record.destinations import Leaf
from gf_i2p.farm.record.status_record import RecordError, StatusRecord
from gf_i2p.netdb.encoding import from_base64, to_b32_address
from gf_i2p.netdb.limits import MAX_LEASE_SET_BYTES, MAX_ROUTER_INFO_BYTES
from gf_i2p.netdb.meta_lease_set import MetaLeaseSet
from gf_i2p.netdb.private_keys import DestinationKeys
from gf_i2p.netdb.router_info import RouterInfo
from integration.harness.local_farm import NotSeenError, until
from integration.harness.processes import free_ports
from integration.scenarios.router_choice import spare_routers
from integration.testnet.i2p_farm import I2pFarm
from integration.testnet.router import SAM_PORT
from integration.testnet.router_files import replace
from integration.testnet.router_network import RouterNetwork

pytestmark = [pytest.mark.timeout(1800), pytest.mark.slow]  # lease sets and tunnels take minutes

TUNNELS: Final = {"inbound.length": "1", "outbound.length": "1", "inbound.quantity": "4", "outbound.quantity": "2"}
"""With fewer than four inbound tunnels, i2pd may leave a destination unknown for ten minutes."""
LISTED_SECONDS: Final = 420.0
MOVED_SECONDS: Final = 240.0
"""A cost follows the load after a record, and after the least time between two sets, 60 s."""
CONNECTIONS: Final = 6
MOST_CONNECTIONS: Final = 8
MOST_KIB: Final = 64
BUSY: Final = 144
"""The least cost of the busy leaf: 72 points for the connections, 96 for the bandwidth, in steps of 16."""
IDLE: Final = 16
"""The highest cost of an idle leaf."""
PIECE: Final = bytes(2048)
PIECE_SECONDS: Final = 0.1
"""Each connection sends a piece in this time, and gets the piece back: together 240 KiB/s, far over `MOST_KIB`."""
TOLD: Final = {
    "uptime", "version", "reachability", "participatingTunnels", "configuredInboundBandwidth",
    "configuredOutboundBandwidth", "currentInboundBandwidth", "currentOutboundBandwidth", "knownPeers", "activePeers",
    "lastPublishedRI",
}  # fmt: skip
"""The values of `router` that i2pd and its own file tell."""


@dataclass
class PlacedLeaf:
    """One leaf: its keys, its server, and the ports of the service and of the forwarder."""

    server: int
    keys: DestinationKeys
    service: int
    forward: int

    @property
    def address(self) -> str:
        return self.keys.destination.b32

    @property
    def settings(self) -> str:
        """The lines of the leaf's settings."""
        return "\n".join(
            (
                f'leaf = "{self.address}"',
                f'leaf_service = "127.0.0.1:{self.service}"',
                f'leaf_forward = "127.0.0.1:{self.forward}"',
                f"leaf_connections = {MOST_CONNECTIONS}",
                f"leaf_bandwidth_kib = {MOST_KIB}",
            )
        )


@dataclass
class LoadedFarm:
    """Three nodes, and four leaves with their services."""

    farm: I2pFarm
    leaves: list[PlacedLeaf]
    records: dict[int, StatusRecord] = field(default_factory=dict)
    """The newest record of each server in the log, as far as `read` has read the log."""
    sets: list[MetaLeaseSet] = field(default_factory=list)
    """The announced sets in the log."""
    _first: int = 1

    @property
    def addresses(self) -> set[str]:
        return {leaf.address for leaf in self.leaves}

    async def read(self) -> None:
        """Read the log's new entries at server 1."""
        path = f"/v1/entries?first={self._first}&limit=1000&stale=1"
        with contextlib.suppress(CommandError):
            entries = (await local_client.request(self.farm.node(1), "GET", path, seconds=60))["entries"]
            for entry in entries:
                self._first = entry["index"] + 1
                with contextlib.suppress(RecordError):
                    self._take(StatusRecord.parse(entry.get("value", "").encode()))

    def _take(self, record: StatusRecord) -> None:
        self.records[record.id] = record
        data = None if record.meta is None else record.meta.last_published_set
        if data is not None:
            found = MetaLeaseSet.parse(from_base64(data, MAX_LEASE_SET_BYTES))
            if not self.sets or found.published > self.sets[-1].published:
                self.sets.append(found)

    def announced(self) -> dict[str, int]:
        """Give the cost of each leaf in the newest announced set."""
        entries = self.sets[-1].entries if self.sets else ()
        return {to_b32_address(entry.hash): entry.cost for entry in entries}

    async def explained(self) -> dict[str, int]:
        """Give the cost of each listed leaf, as `gf-i2p explain` shows the costs at server 3."""
        try:
            answer: dict[str, Any] = await local_client.request(self.farm.node(3), "GET", "/v1/explain", seconds=20)
        except CommandError:
            return {}
        return {leaf["leaf"]: leaf["cost"] for leaf in answer["farm"]["leaves"] if leaf["listed"]}


@pytest_asyncio.fixture
async def loaded(network: RouterNetwork, tmp_path: Path) -> AsyncIterator[LoadedFarm]:
    routers = spare_routers(network, "i2pd", 3)[-3:]
    with I2pFarm(tmp_path, routers, password=network.password) as farm:
        farm.place()
        keys = [farm.leaves[1], DestinationKeys.generate(), farm.leaves[2], farm.leaves[3]]
        ports = free_ports(2 * len(keys))
        leaves = [
            PlacedLeaf(server, each, *ports[2 * number : 2 * number + 2])
            for number, (server, each) in enumerate(zip((1, 1, 2, 3), keys, strict=True))
        ]
        for server, router in farm.routers.items():
            first, *more = (leaf for leaf in leaves if leaf.server == server)
            tables = "\n".join(f"[[publish.leaves]]\n{leaf.settings}" for leaf in more)
            changes = {
                f'leaf = "{first.address}"': f"{first.settings}\nstatus_seconds = 5.0\n#",
                '# info_file = "/var/lib/i2pd/router.info"': f'info_file = "{router.directory / "router.info"}"\n#',
                "# [[publish.leaves]]": f"{tables}\n#",
            }
            replace(farm.node(server), changes)
        async with contextlib.AsyncExitStack() as stack:
            for leaf in leaves:
                await stack.enter_async_context(await asyncio.start_server(echo, "127.0.0.1", leaf.service))
            sessions = await asyncio.gather(*(session(farm, leaf) for leaf in leaves))
            for each in sessions:
                stack.callback(each.close)
            farm.start_all()
            await farm.leader(LISTED_SECONDS)
            try:
                yield LoadedFarm(farm, leaves)
            finally:
                print(farm.complaints())


async def session(farm: I2pFarm, leaf: PlacedLeaf) -> SamSession:
    """Run the leaf's destination on the router of the leaf's server."""
    return await Sam(farm.routers[leaf.server].address, SAM_PORT).session(leaf.keys, TUNNELS)


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Send every byte back."""
    with contextlib.suppress(OSError):
        while piece := await reader.read(1 << 16):
            writer.write(piece)
            await writer.drain()
    writer.close()


@contextlib.asynccontextmanager
async def load(leaf: PlacedLeaf) -> AsyncIterator[None]:
    """Keep connections through the leaf's forwarder busy."""

    async def use() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", leaf.forward)
        try:
            while True:
                writer.write(PIECE)
                await reader.readexactly(len(PIECE))
                await asyncio.sleep(PIECE_SECONDS)
        finally:
            writer.close()

    tasks = [asyncio.create_task(use()) for _ in range(CONNECTIONS)]
    try:
        yield
        assert not any(task.done() for task in tasks), "each connection lasts"
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


async def costs_become(loaded: LoadedFarm, what: str, busy: set[str]) -> dict[str, int]:
    """Wait until the explained and the announced costs are high for these leaves, and low for all others."""
    seen: list[dict[str, int]] = []
    began = time.monotonic()

    def fits(costs: dict[str, int]) -> bool:
        return set(costs) == loaded.addresses and all(
            cost >= BUSY if leaf in busy else cost <= IDLE for leaf, cost in costs.items()
        )

    async def seen_everywhere() -> bool:
        loaded.farm.check()
        await loaded.read()
        seen[:] = [await loaded.explained(), loaded.announced()]
        return all(fits(costs) for costs in seen)

    try:
        await until(what, MOVED_SECONDS, seen_everywhere, poll=1.0)
    except NotSeenError:
        print(json.dumps([seen, await loaded.farm.status(1)], indent=1))
        raise
    print(f"{what}: {time.monotonic() - began:.0f} s, {sorted(seen[1].values())}")
    return seen[1]


async def test_the_load_of_a_leaf_moves_its_cost_and_the_log_has_all_values(loaded: LoadedFarm) -> None:
    async def are_all_listed() -> bool:
        return set(await loaded.explained()) == loaded.addresses

    await until("four leaves are listed", LISTED_SECONDS, are_all_listed, poll=1.0)
    before = await costs_become(loaded, "all leaves are idle", set())
    busy = loaded.leaves[1]
    assert busy.server == 1, "the other leaf of server 1 stays idle"
    async with load(busy):
        under_load = await costs_become(loaded, "the busy leaf costs more", {busy.address})
        await until("the load is in the record", MOVED_SECONDS, partial(has_load, loaded, busy), poll=1.0)
    after = await costs_become(loaded, "the leaf costs less again", set())
    for costs in (before, after):
        assert costs[busy.address] < under_load[busy.address]
    for server in loaded.farm.ids:
        await until(f"all values of server {server}", MOVED_SECONDS, partial(has_all, loaded, server), poll=1.0)


async def has_load(loaded: LoadedFarm, leaf: PlacedLeaf) -> bool:
    """Whether the newest record has the load of this leaf, and none of the server's other leaf."""
    await loaded.read()
    found = {each.hash: each for each in loaded.records[leaf.server].leaves}
    busy = found.pop(leaf.keys.destination.hash)
    return (
        busy.current_connections == CONNECTIONS
        and (busy.current_bandwidth or 0) > MOST_KIB << 10
        and all((each.current_connections, each.current_bandwidth) == (0, 0) for each in found.values())
    )


async def has_all(loaded: LoadedFarm, server: int) -> bool:
    """Whether the newest record of a server in the log has all values that its router, its file and its node tell."""
    await loaded.read()
    record = loaded.records.get(server)
    if record is None or set(record.router) != TOLD or not record.router_up:
        return False
    info = RouterInfo.parse(from_base64(record.router["lastPublishedRI"], MAX_ROUTER_INFO_BYTES))
    own = RouterInfo.parse((loaded.farm.routers[server].directory / "router.info").read_bytes())
    expected = {leaf.keys.destination.base64 for leaf in loaded.leaves if leaf.server == server}
    return (
        info.verified
        and info.hash == own.hash
        and {leaf.destination for leaf in record.leaves} == expected
        and all(tells_all(leaf) for leaf in record.leaves)
    )


def tells_all(leaf: Leaf) -> bool:
    """Whether a leaf is up, and has all values that the node knows of a leaf with a forwarder, and no others."""
    return (
        leaf.up
        and (leaf.uptime_ms or 0) > 0
        and (leaf.configured_connections, leaf.current_connections) == (MOST_CONNECTIONS, 0)
        and leaf.configured_bandwidth == MOST_KIB << 10
        and leaf.current_bandwidth is not None
        and (leaf.configured_tunnels, leaf.current_tunnels, leaf.blacklisted) == (None, None, None)
    )
