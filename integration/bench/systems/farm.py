"""The farm under measurement: `gf-i2p run` processes over TLS with fsync, asked through FarmClient.

All writers share one FarmClient, as etcd's writers share one channel: requests are pipelined on one connection.
"""

import platform
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from importlib.metadata import version as installed_version
from pathlib import Path

from gf_i2p.cli.shared.logs import configure
from gf_i2p.node.files.client_file import ClientFile
from gf_i2p.transport.client.farm_client import FarmClient
from integration.bench.systems.system import NODES, BenchError, Cluster, ClusterProcess, System, SystemClient
from integration.harness.local_farm import LocalFarm, NotSeenError


def check() -> None:
    """Do nothing: the farm is this checkout, and needs no installation."""


def version() -> str:
    """Return the program's name and version."""
    return f"gf-i2p {installed_version('gf-i2p')}, Python {platform.python_version()}"


class SharedClient:
    """One writer's share of the cluster's client."""

    def __init__(self, client: FarmClient) -> None:
        self._client = client

    async def post(self, values: Sequence[bytes]) -> int:
        """Append the values; return the index of the last."""
        return await self._client.post(values)

    async def close(self) -> None:
        """Do nothing: the connection belongs to the cluster."""


class FarmCluster:
    """Running gf-i2p nodes on loopback."""

    def __init__(self, farm: LocalFarm, *, cprofile: bool) -> None:
        self._farm = farm
        self._cprofile = cprofile
        self._nodes = {server_id: self._start(server_id) for server_id in farm.ids}
        self._clients: dict[frozenset[int], FarmClient] = {}

    def _start(self, server_id: int) -> ClusterProcess:
        profile = self._farm.directory / f"server-{server_id}.cprofile" if self._cprofile else None
        self._farm.start(server_id, *([] if profile is None else ["-m", "cProfile", "-o", str(profile)]))
        return ClusterProcess(f"server-{server_id}", self._farm.pid(server_id), profile)

    def _id(self, node: ClusterProcess) -> int:
        return int(node.name.removeprefix("server-"))

    @property
    def nodes(self) -> Sequence[ClusterProcess]:
        """See `integration.bench.systems.system.Cluster`."""
        return [self._nodes[server_id] for server_id in self._farm.ids if server_id in self._nodes]

    async def leader(self) -> ClusterProcess:
        """See `integration.bench.systems.system.Cluster`."""
        try:
            return self._nodes[await self._farm.leader()]
        except NotSeenError as error:
            raise BenchError(f"The farm has no leader: {error}") from error

    async def connect(self, leader: ClusterProcess) -> SystemClient:
        """See `integration.bench.systems.system.Cluster`."""
        return await self._client({self._id(leader)})

    async def _client(self, servers: Collection[int]) -> SharedClient:
        """Return a share of the one client that knows these servers."""
        known = frozenset(servers)
        client = self._clients.get(known)
        if client is None:
            file = ClientFile.load(self._farm.client_file)
            only = tuple(server for server in file.servers if server.id in known)
            client = self._clients[known] = file.model_copy(update={"servers": only}).open()
            await client.post([b"{}"])
        return SharedClient(client)

    async def connect_beside(self, leader: ClusterProcess) -> SystemClient:
        """Return a share of the client that an operator has: the client knows all servers and follows the leader."""
        del leader
        return await self._client(self._farm.ids)

    def kill(self, node: ClusterProcess) -> None:
        """See `integration.bench.systems.system.Killable`."""
        self._farm.kill(self._id(node))
        del self._nodes[self._id(node)]

    def restart(self, node: ClusterProcess) -> ClusterProcess:
        """See `integration.bench.systems.system.Killable`."""
        process = self._nodes[self._id(node)] = self._start(self._id(node))
        return process

    async def position(self, node: ClusterProcess) -> int | None:
        """See `integration.bench.systems.system.Killable`."""
        status = await self._farm.status(self._id(node))
        return None if status is None else int(status["log"]["applied"])

    async def close(self) -> None:
        """Close the connections."""
        for client in self._clients.values():
            await client.close()


@asynccontextmanager
async def cluster(directory: Path, *, cprofile: bool = False, servers: int = NODES) -> AsyncIterator[Cluster]:
    """Run nodes with their data below `directory`; see `integration.bench.systems.system.ClusterFactory`."""
    configure("error", "text")
    with LocalFarm(directory, servers=servers) as farm:
        running = FarmCluster(farm, cprofile=cprofile)
        try:
            await running.leader()
            yield running
        finally:
            await running.close()


FARM = System(name="farm", title="farm", bulk_writers=4, check=check, version=version, cluster=cluster)
LARGER = tuple(
    replace(FARM, name=f"farm-{servers}", title=f"farm of {servers}", cluster=partial(cluster, servers=servers))
    for servers in (5, 7)
)
"""Farms with more servers, which are no rivals: measured only when asked for."""
