"""A farm of real nodes in the test's own process: real disks, real TLS on loopback."""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from bridges.hosting_protocol import ServiceHosting
from bridges.router_protocol import RouterBridge
from gf_i2p.netdb.private_keys import DestinationKeys
from gf_i2p.node.files.client_file import ClientFile
from gf_i2p.node.files.config import Config, Secrets
from gf_i2p.node.files.farm_setup import make_farm
from gf_i2p.node.files.file_names import CONFIG_FILE, MASTER_FILE
from gf_i2p.node.node import Node
from gf_i2p.node.publish.publishing_keys import PublishingKeys
from gf_i2p.raft.settings import Timing
from gf_i2p.storage.private_files import write_private
from gf_i2p.transport.client.farm_client import FarmClient
from gf_i2p.wire.endpoint import Endpoint
from gf_i2p.wire.entries import Entry
from integration.harness.local_farm import until
from integration.harness.processes import free_ports
from tests.node.threaded_history import HistoryThread

CALM = Timing(heartbeat=0.1, election_min=60, election_max=120)
"""Time-outs that are too long for any election while a test runs."""


class NodeFarm:
    """Servers 1 to n, as long as the asynchronous context lasts. A thread stands for each history process.

    With `keys`, each server in `bridges` publishes for that master when chosen, and posts a record every
    `status_seconds`. A server in `services` has the mode `failover`, with a hosting and the port of the local service.
    """

    def __init__(
        self,
        directory: Path,
        servers: int = 3,
        *,
        bridges: Mapping[int, RouterBridge] | None = None,
        services: Mapping[int, tuple[ServiceHosting, int]] | None = None,
        keys: DestinationKeys | None = None,
        profile: str = "lan",
        status_seconds: float = 1.0,
        digest: Sequence[str] = (),
    ) -> None:
        self.directory = directory
        self.bridges = bridges or {}
        self.services = services or {}
        self.keys = keys
        endpoints = {i: Endpoint("127.0.0.1", port) for i, port in enumerate(free_ports(servers), 1)}
        self.endpoints = endpoints
        make_farm(
            directory, endpoints, cluster="farm", profile=profile, clients=["test"], admins=["test"], digest=digest
        )
        if servers == 1:  # no other candidate can collide: no need to wait
            path = self.path(1) / CONFIG_FILE
            quick = "[timing]\nheartbeat = 0.01\nelection_min = 0.02\nelection_max = 0.04\n"
            path.write_text(path.read_text().replace("[timing]", quick, 1))
        for server in self.bridges:
            with (self.path(server) / CONFIG_FILE).open("a") as file:
                mode = "failover" if server in self.services else "meta"
                file.write(f'[router]\n[publish]\nmode = "{mode}"\nstatus_seconds = {status_seconds}\n')
                if server in self.services:
                    file.write(f'[publish.service]\ntarget = "127.0.0.1:{self.services[server][1]}"\n')
            if keys is not None:
                write_private(self.path(server) / MASTER_FILE, keys.encode())
        self.nodes: dict[int, Node] = {}
        self.halted: list[BaseException] = []
        self._alone = servers == 1
        self._calm = False

    def path(self, server: int) -> Path:
        return self.directory / f"server-{server}"

    async def start(self, server: int, *, calm: bool = True) -> Node:
        """Start one server. After a call of `calm()` the server has calm time-outs, too, unless `calm` is false."""
        config, secrets = Config.load(self.path(server)), Secrets.load(self.path(server))
        bridge = self.bridges.get(server)
        node = Node(
            self.path(server),
            config,
            secrets,
            bridge=bridge,
            keys=None if bridge is None or self.keys is None else PublishingKeys(self.keys),
            hosting=self.services[server][0] if server in self.services else None,
            start_history=HistoryThread.start,
            on_halt=self.halted.append,
        )
        core = node.driver.core
        if self._calm and calm:  # otherwise a newcomer that gets no heartbeat in time would depose the leader
            core.timing = CALM
            core._await_election()
        elif self._alone and server == 1:
            core.timing = CALM  # the first election is soon; a slower disk causes no second one
        await node.start()
        self.nodes[server] = node
        return node

    async def stop(self, server: int, *, resigns: bool = False) -> None:
        """Stop one server. Unless `resigns` is true, the server does not announce the stop, as after a death."""
        node = self.nodes.pop(server)
        if not resigns:
            setattr(node.farm_tasks, "resign", _silently)  # noqa: B010
        self._calm = self._calm and self.nodes != {}
        await node.stop()

    async def leader(self) -> Node:
        def leaders() -> list[int]:
            return [node.driver.core.leader for node in self.nodes.values()]

        async def agreed() -> bool:
            return len(set(leaders())) == 1 and leaders()[0] in self.nodes

        await until("one leader that all know", 20, agreed)
        leader = self.nodes[leaders()[0]]
        if self._alone and not self._calm:
            leader.driver.core.timing = leader.driver.timeouts.timing
        return leader

    async def follower(self) -> Node:
        leader = await self.leader()
        return next(node for node in self.nodes.values() if node is not leader)

    async def calm(self) -> Node:
        """Make all time-outs so long that the leader stays on a busy machine, too; return the leader.

        A server that starts from now on has the same patience, until all servers are stopped.
        """
        leader = await self.leader()
        self._calm = True
        for node in self.nodes.values():
            core = node.driver.core
            core.timing = CALM
            if node is not leader:
                core._await_election()  # a wait under way may end before the next heartbeat is read
        return leader

    def lively(self) -> None:
        """Undo `calm`: when the leader stops, the other servers elect a leader soon."""
        self._calm = False
        for node in self.nodes.values():
            core = node.driver.core
            core.timing = node.driver.timeouts.timing
            core.redraw(asyncio.get_running_loop().time())
            node.driver._arm()

    async def equal(self) -> None:
        async def same() -> bool:
            cores = [node.driver.core for node in self.nodes.values()]
            return len({(c.log.last_index, c.log.stored, c.commit) for c in cores}) == 1 and cores[0].commit > 0

        await until("equal logs", 20, same)

    def values(self, server: int) -> list[bytes]:
        log = self.nodes[server].driver.core.log
        entries: list[Entry] = []
        while len(entries) < log.last_index:  # a slice ends where memory begins
            entries += log.slice(len(entries) + 1, log.last_index, max_entries=1 << 20, max_bytes=1 << 30)
        return [entry.value for entry in entries if entry.value_type.name == "APPLICATION"]

    def client(self) -> FarmClient:
        return ClientFile.load(self.directory / "client-test.toml").open()

    async def __aenter__(self) -> Self:
        for server in self.endpoints:
            await self.start(server)
        return self

    async def __aexit__(self, *_: object) -> None:
        for server in list(self.nodes):
            await self.stop(server)


async def _silently() -> None:
    """Replaces `FarmTasks.resign`: the server ends without a last record."""
