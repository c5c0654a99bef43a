"""The farm under measurement: three `gf-i2p run` processes over TLS with fsync, asked through FarmClient.

All writers share one FarmClient, as etcd's writers share one channel: requests are pipelined on one connection.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from gf_i2p.cli.shared.logs import configure
from gf_i2p.node.files.client_file import ClientFile
from gf_i2p.transport.client.farm_client import FarmClient
from integration.bench.system import BenchError, Cluster, ClusterProcess, System, SystemClient
from integration.harness.local_farm import LocalFarm, NotSeenError


def check() -> None:
    """Do nothing: the farm is this checkout, and needs no installation."""


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
    """Three running gf-i2p nodes on loopback."""

    def __init__(self, farm: LocalFarm, nodes: dict[int, ClusterProcess]) -> None:
        self._farm = farm
        self._nodes = nodes
        self._clients: dict[ClusterProcess, FarmClient] = {}

    @property
    def nodes(self) -> Sequence[ClusterProcess]:
        """See `integration.bench.system.Cluster`."""
        return list(self._nodes.values())

    async def leader(self) -> ClusterProcess:
        """See `integration.bench.system.Cluster`."""
        try:
            return self._nodes[await self._farm.leader()]
        except NotSeenError as error:
            raise BenchError(f"The farm has no leader: {error}") from error

    async def connect(self, leader: ClusterProcess) -> SystemClient:
        """See `integration.bench.system.Cluster`."""
        client = self._clients.get(leader)
        if client is None:
            file = ClientFile.load(self._farm.client_file)
            server_id = next(i for i, node in self._nodes.items() if node == leader)
            only = tuple(server for server in file.servers if server.id == server_id)
            client = self._clients[leader] = file.model_copy(update={"servers": only}).open()
            await client.post([b"{}"])
        return SharedClient(client)

    async def close(self) -> None:
        """Close the connections."""
        for client in self._clients.values():
            await client.close()


@asynccontextmanager
async def cluster(directory: Path, *, cprofile: bool = False) -> AsyncIterator[Cluster]:
    """Run three nodes with their data below `directory`; see `integration.bench.system.ClusterFactory`."""
    configure("error", "text")
    with LocalFarm(directory) as farm:
        nodes = {}
        for server_id in farm.ids:
            profile = directory / f"server-{server_id}.cprofile" if cprofile else None
            farm.start(server_id, *([] if profile is None else ["-m", "cProfile", "-o", str(profile)]))
            nodes[server_id] = ClusterProcess(f"server-{server_id}", farm.pid(server_id), profile)
        running = FarmCluster(farm, nodes)
        try:
            await running.leader()
            yield running
        finally:
            await running.close()


FARM = System(name="farm", title="farm", bulk_writers=4, check=check, cluster=cluster)
