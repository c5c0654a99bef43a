"""The load of a leaf moves the cost of the leaf, beside real i2pd routers; the records have all that a router tells."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import pytest
import pytest_asyncio

from bridges.sam.client import Sam, SamSession
from gf_i2p.cli.shared import local_client
from gf_i2p.farm.choice.cost import STAYS_WITHIN
from gf_i2p.netdb.encoding import from_base64, to_b32_address
from gf_i2p.netdb.meta_lease_set import MetaLeaseSet
from gf_i2p.netdb.private_keys import DestinationKeys
from gf_i2p.netdb.router_info import RouterInfo
from gf_i2p.node.files.file_names import CONFIG_FILE
from integration.harness.local_farm import NotSeenError, until
from integration.harness.processes import free_ports
from integration.testnet.i2p_farm import I2pFarm
from integration.testnet.router import SAM_PORT
from integration.testnet.router_files import LEAF_LINE, replace
from integration.testnet.router_network import RouterNetwork

pytestmark = [pytest.mark.timeout(1800), pytest.mark.slow]  # tunnels, and a minute or two between two sets

TUNNELS: Final = {"inbound.length": "1", "outbound.length": "1", "inbound.quantity": "4", "outbound.quantity": "2"}
"""With fewer than four inbound tunnels, i2pd may leave a destination unknown for ten minutes."""
LISTED_SECONDS: Final = 420.0
MOVED_SECONDS: Final = 300.0
"""The bandwidth is an average of 30 s, a record comes every 30 s, and costs and sets are made anew once a minute."""
POLL: Final = 1.0
CONNECTIONS: Final = 8
KIB: Final = 16
"""Limits of each leaf: this many connections, and so many KiB a second."""
PIECE: Final = bytes(16 << 10)
PAUSE_SECONDS: Final = 0.5
"""Each connection sends a piece and gets the piece back, and then pauses: 8 connections are far above the limit."""
BUSY: Final = 1
"""The server whose leaf gets the load."""
TWO: Final = 2
"""The server with two leaves."""
APART: Final = 64
"""A full leaf costs so much more than an idle leaf, at least; 192 at most, by `gf_i2p.farm.choice.cost`."""
ROUTER_FIELDS: Final = {
    "up", "uptime", "version", "reachability", "participatingTunnels", "configuredInboundBandwidth",
    "configuredOutboundBandwidth", "currentInboundBandwidth", "currentOutboundBandwidth", "knownPeers", "activePeers",
    "lastPublishedRI",
}  # fmt: skip
"""All that i2pd tells: `docs/status-record.md`."""
LEAF_FIELDS: Final = {
    "hash", "up", "destination", "uptime", "configuredBandwidth", "currentBandwidth", "configuredConnections",
    "currentConnections",
}  # fmt: skip


class Leaves:
    """A leaf for each server, and a second leaf for server `TWO`: SAM sessions, services, and forwarders' ports."""

    def __init__(self, farm: I2pFarm) -> None:
        self.farm = farm
        self.keys: list[tuple[int, DestinationKeys]] = [*farm.leaves.items(), (TWO, DestinationKeys.generate())]
        """Owner and keys of each leaf."""
        self.service, *self.forwards = free_ports(1 + len(self.keys))
        self._sessions: list[SamSession] = []
        self._echo: asyncio.Server | None = None

    def configure(self) -> None:
        """Write the settings of all leaves."""
        for (owner, keys), port in zip(self.keys, self.forwards, strict=True):
            address = keys.destination.b32
            settings = "\n".join(
                [
                    f'leaf = "{address}"',
                    f'leaf_service = "127.0.0.1:{self.service}"',
                    f'leaf_forward = "127.0.0.1:{port}"',
                    f"leaf_connections = {CONNECTIONS}",
                    f"leaf_bandwidth_kib = {KIB}",
                ]
            )
            if keys is self.farm.leaves[owner]:
                assert LEAF_LINE.startswith("# leaf = ")
                replace(self.farm.node(owner), {f'leaf = "{address}"': f"{settings}\n#"})
            else:
                path = self.farm.node(owner) / CONFIG_FILE
                path.write_text(f"{path.read_text()}\n[[publish.leaves]]\n{settings}\n")
        for owner, router in self.farm.routers.items():
            file = router.directory / "router.info"
            replace(self.farm.node(owner), {"[router]\n": f'[router]\ninfo_file = "{file}"\n'})

    async def start(self) -> None:
        """Start the service, and the destination of each leaf."""
        self._echo = await asyncio.start_server(_echo, "127.0.0.1", self.service)
        for owner, keys in self.keys:
            await until(f"a leaf of {owner} has a session", LISTED_SECONDS, lambda o=owner, k=keys: self._started(o, k))  # type: ignore[misc]

    async def _started(self, owner: int, keys: DestinationKeys) -> bool:
        try:
            session = await Sam(self.farm.routers[owner].address, SAM_PORT).session(keys, TUNNELS)
        except OSError:
            return False
        self._sessions.append(session)
        return True

    def close(self) -> None:
        for session in self._sessions:
            session.close()
        if self._echo is not None:
            self._echo.close()

    async def costs(self) -> dict[str, int]:
        """Give the cost of each listed leaf, by the address, in the explanation of a server that gets no load."""
        answer = await local_client.request(self.farm.node(TWO), "GET", "/v1/explain", seconds=30)
        return {leaf["leaf"]: leaf["cost"] for leaf in answer["farm"]["leaves"] if leaf["listed"]}

    async def published_costs(self) -> dict[str, int]:
        """Give the cost of each entry in the newest set that a router has got; empty before the first set."""
        metas = [record["meta"] for record in (await self.farm.records(TWO)).values()]
        sent = [meta for meta in metas if meta.get("sentTime")]
        if not sent:
            return {}
        newest = max(sent, key=lambda meta: int(meta["lastPublishedTime"]))
        lease_set = MetaLeaseSet.parse(from_base64(newest["lastPublishedLS"], 1 << 16))
        return {to_b32_address(entry.hash): entry.cost for entry in lease_set.entries}


async def _echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while piece := await reader.read(len(PIECE)):
            writer.write(piece)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.close()


async def _load(port: int) -> None:
    """Keep a forwarder full: as many connections as it takes, and more bytes than its limit."""

    async def client() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            while True:
                writer.write(PIECE)
                await reader.readexactly(len(PIECE))
                await asyncio.sleep(PAUSE_SECONDS)
        finally:
            writer.close()

    async with asyncio.TaskGroup() as clients:
        for _ in range(CONNECTIONS):
            clients.create_task(client())


@pytest_asyncio.fixture
async def leaves(network: RouterNetwork, tmp_path: Path) -> AsyncIterator[Leaves]:
    routers = [router for router in network.routers if not router.floodfill][-3:]
    with I2pFarm(tmp_path, routers, password=network.password) as farm:
        farm.place()
        made = Leaves(farm)
        made.configure()
        try:
            await made.start()
            farm.start_all()
            await farm.leader(LISTED_SECONDS)
            yield made
        finally:
            print(farm.complaints())
            made.close()


async def test_a_busy_leaf_costs_more_until_the_load_ends(leaves: Leaves, capsys: pytest.CaptureFixture[str]) -> None:
    addresses = [keys.destination.b32 for _, keys in leaves.keys]
    busy = addresses[leaves.farm.ids.index(BUSY)]
    explained: dict[str, int] = {}
    published: dict[str, int] = {}

    async def seen(what: str, seconds: float, *, apart: bool) -> None:
        async def moved() -> bool:
            for costs, now in ((explained, await leaves.costs()), (published, await leaves.published_costs())):
                costs.clear()
                costs.update(now)
                if set(costs) != set(addresses):
                    return False
                lead = costs[busy] - max(cost for leaf, cost in costs.items() if leaf != busy)
                if lead < APART if apart else lead > STAYS_WITHIN:
                    return False
            return True

        try:
            await until(what, seconds, moved, poll=POLL)
        except NotSeenError:
            print(json.dumps(await leaves.farm.records(TWO), indent=1))
            raise
        finally:
            with capsys.disabled():
                for name, costs in (("explained", explained), ("published", published)):
                    print(f"\n  {what}, {name}: {[costs.get(leaf) for leaf in addresses]}", flush=True)

    await seen("four leaves of three servers are listed, and none is busy", LISTED_SECONDS, apart=False)
    load = asyncio.create_task(_load(leaves.forwards[leaves.farm.ids.index(BUSY)]))
    try:
        await seen("the busy leaf costs more than the others", MOVED_SECONDS, apart=True)
        assert not load.done()
        records = await leaves.farm.records(TWO)
    finally:
        load.cancel()
        await asyncio.wait([load])
    for server, record in records.items():
        assert record["router"].keys() == ROUTER_FIELDS, server
        info = RouterInfo.parse(from_base64(record["router"]["lastPublishedRI"], 1 << 16))
        assert info.verified
        owned = {keys.destination.b32: keys.destination.base64 for owner, keys in leaves.keys if owner == server}
        assert {each["destination"] for each in record["destinations"]} == set(owned.values())
        for each in record["destinations"]:
            assert each.keys() == LEAF_FIELDS, server
            assert (each["configuredConnections"], each["configuredBandwidth"]) == (CONNECTIONS, KIB << 10)
    assert records.keys() == set(leaves.farm.ids)
    assert len(records[TWO]["destinations"]) == 2
    (loaded,) = records[BUSY]["destinations"]
    assert loaded["currentConnections"] == CONNECTIONS
    assert loaded["currentBandwidth"] > KIB << 10
    await seen("the cost falls when the load has ended", MOVED_SECONDS, apart=False)
