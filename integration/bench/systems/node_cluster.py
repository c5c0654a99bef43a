"""The part that the rivals' clusters have in common: named processes that are started, killed and asked who leads."""

import asyncio
import signal
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Final

from integration.bench.systems.system import (
    NODES,
    BenchError,
    Cluster,
    ClusterFactory,
    ClusterProcess,
    SystemClient,
)
from integration.harness.processes import Processes

REQUEST_SECONDS: Final = 10.0
"""Time limit of a request to a cluster that has a leader."""
TRY_SECONDS: Final = 0.2
"""Time limit of a try while nobody leads. Some nodes never answer what they have forwarded to a dead leader."""
START_SECONDS: Final = 40.0
_POLL: Final = 0.05


class NodeCluster(ABC):
    """Three processes by their names, which end in their numbers from 1 on."""

    def __init__(self, program: str, processes: Processes, directory: Path) -> None:
        """Prepare; `start_all` starts the processes. Everything that they write goes below `directory`."""
        self.program = program
        self.processes = processes
        self.directory = directory
        self.names = [f"{program}-{number}" for number in range(1, NODES + 1)]
        self._running: dict[str, ClusterProcess] = {}

    @abstractmethod
    def command(self, name: str) -> Sequence[str]:
        """Return the command that starts a node, the first time and again."""

    @abstractmethod
    async def leads(self, node: ClusterProcess) -> bool:
        """Return whether a node says that it leads; False without an answer."""

    @abstractmethod
    async def connect(self, leader: ClusterProcess) -> SystemClient:
        """See `integration.bench.systems.system.Cluster`."""

    async def close(self) -> None:  # noqa: B027 -- most have nothing to close
        """Free what the clients share."""

    def environment(self) -> dict[str, str] | None:
        """Return the environment of the nodes; None: this process's."""
        return None

    def start_all(self) -> None:
        """Start all nodes."""
        for name in self.names:
            self._start(name)

    def _start(self, name: str) -> ClusterProcess:
        log = self.directory / f"{name}.log"
        pid = self.processes.start(name, self.command(name), log, self.environment())
        process = self._running[name] = ClusterProcess(name, pid)
        return process

    @property
    def nodes(self) -> Sequence[ClusterProcess]:
        """See `integration.bench.systems.system.Cluster`."""
        return [self._running[name] for name in self.names if name in self._running]

    async def leader(self) -> ClusterProcess:
        """Ask the nodes in turn until one says that it leads."""
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            self.processes.check()
            for node in self.nodes:
                if await self.leads(node):
                    return node
            await asyncio.sleep(_POLL)
        raise BenchError(f"{self.program} has had no leader for {START_SECONDS:.0f} s. Is the machine overloaded?")

    def kill(self, node: ClusterProcess) -> None:
        """See `integration.bench.systems.system.Killable`."""
        self.processes.kill(node.pid)
        del self._running[node.name]

    def restart(self, node: ClusterProcess) -> ClusterProcess:
        """See `integration.bench.systems.system.Killable`."""
        return self._start(node.name)


def factory(kind: Callable[[Processes, Path], NodeCluster]) -> ClusterFactory:
    """Return the factory of a kind of cluster. `cprofile` has no effect: the programs are not ours."""

    def cluster(directory: Path, *, cprofile: bool = False) -> AbstractAsyncContextManager[Cluster]:
        del cprofile
        return _running(kind, directory)

    return cluster


@asynccontextmanager
async def _running(kind: Callable[[Processes, Path], NodeCluster], directory: Path) -> AsyncIterator[Cluster]:
    # The data is thrown away, so an orderly end, which takes etcd seconds, gains nothing.
    with Processes(stop_signal=signal.SIGKILL) as processes:
        cluster = kind(processes, directory)
        try:
            await cluster.leader()
            yield cluster
        finally:
            await cluster.close()
