"""PySyncObj: three Python nodes with a journal, which PySyncObj never syncs, and with the client inside the leader.

The most usual way to have Raft in Python, with every advantage that the farm does not take: no fsync, no TLS, no client
protocol, entries in pickle. The settings are the fastest measured; by default a lone writer waits 100 ms. Random values
are dear for PySyncObj: its nodes compress each message by zlib, which takes three quarters of the leader's time.
"""

import asyncio
import importlib.metadata
import json
import signal
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final

from integration.bench.systems.system import BenchError, Cluster, ClusterProcess, System, SystemClient
from integration.bench.workloads import PATIENCE, Sample
from integration.harness.processes import Processes, free_ports

NODES: Final = 3
MODULE: Final = "integration.bench.systems.pysyncobj_node"
START_SECONDS: Final = 20.0
STATUS_SECONDS: Final = 1.0
TRY_SECONDS: Final = 0.2
"""A command that a node forwarded to a dead leader is never answered."""
REQUEST_SECONDS: Final = 10.0
_LINE_BYTES: Final = 1 << 26


def check() -> None:
    """Raise BenchError with the command to run when PySyncObj is missing."""
    try:
        importlib.metadata.version("pysyncobj")
    except importlib.metadata.PackageNotFoundError:
        raise BenchError("PySyncObj is not installed. Run: .venv/bin/pip install '.[bench]'") from None


def version() -> str:
    """Return the installed version."""
    return f"PySyncObj {importlib.metadata.version('pysyncobj')}"


class NodeSocket:
    """A connection to one node's socket, used by one task at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, seconds: float) -> None:
        self._reader = reader
        self._writer = writer
        self._seconds = seconds

    @classmethod
    async def dial(cls, path: Path, seconds: float = REQUEST_SECONDS) -> "NodeSocket":
        """Connect to a node. `seconds`: how long a post of this client may take. Raises OSError."""
        return cls(*await asyncio.open_unix_connection(str(path), limit=_LINE_BYTES), seconds)

    async def ask(self, order: dict[str, Any]) -> dict[str, Any]:
        """Send an order; return its answer. Raises ConnectionError."""
        self._writer.write(json.dumps(order).encode() + b"\n")
        answer = await self._reader.readline()
        if not answer.endswith(b"\n"):
            raise ConnectionError("the node has ended")
        result: dict[str, Any] = json.loads(answer)
        return result

    async def post(self, values: Sequence[bytes]) -> int:
        """Let the node store as many values of 1 KiB; the values themselves are the node's own."""
        position = (await self.ask({"do": "put", "count": len(values), "seconds": self._seconds}))["position"]
        if position is None:
            raise BenchError(f"PySyncObj has stored nothing for {self._seconds} s.")
        return int(position)

    async def close(self) -> None:
        """Close the connection."""
        self._writer.close()


class PySyncObjCluster:
    """Three running nodes."""

    def __init__(self, processes: Processes, directory: Path) -> None:
        self._processes = processes
        self._directory = directory
        self._ports = free_ports(NODES)
        self._names = [f"pysyncobj-{number}" for number in range(1, NODES + 1)]
        self._running = {name: self._start(name) for name in self._names}

    def _start(self, name: str) -> ClusterProcess:
        number = str(self._names.index(name) + 1)
        command = [sys.executable, "-m", MODULE, number, str(self._directory), *map(str, self._ports)]
        return ClusterProcess(name, self._processes.start(name, command, self._directory / f"{name}.log"))

    @property
    def nodes(self) -> Sequence[ClusterProcess]:
        """See `integration.bench.systems.system.Cluster`."""
        return [self._running[name] for name in self._names if name in self._running]

    def _socket(self, node: ClusterProcess) -> Path:
        return self._directory / f"{node.name}.sock"

    async def _status(self, node: ClusterProcess) -> dict[str, Any] | None:
        with suppress(OSError, TimeoutError):
            async with asyncio.timeout(STATUS_SECONDS):
                client = await NodeSocket.dial(self._socket(node))
                try:
                    return await client.ask({"do": "status"})
                finally:
                    await client.close()
        return None

    async def leader(self) -> ClusterProcess:
        """Ask the nodes in turn until one says that it leads."""
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            self._processes.check()
            for node in self.nodes:
                status = await self._status(node)
                if status is not None and status["leader"]:
                    return node
            await asyncio.sleep(0.05)
        raise BenchError(f"PySyncObj has had no leader for {START_SECONDS:.0f} s. Is the machine overloaded?")

    async def connect(self, leader: ClusterProcess) -> SystemClient:
        """Return a client that lets the leader's inner client store values."""
        return await NodeSocket.dial(self._socket(leader))

    async def connect_beside(self, leader: ClusterProcess) -> SystemClient:
        """See `integration.bench.systems.system.Killable`."""
        follower = next(node for node in self.nodes if node != leader)
        return await NodeSocket.dial(self._socket(follower), TRY_SECONDS)

    async def load(self, batch: int, writers: int, *, warmup: float, seconds: float) -> Sample:
        """See `integration.bench.systems.system.OwnLoad`."""
        client = await NodeSocket.dial(self._socket(await self.leader()))
        order = {"do": "load", "batch": batch, "writers": writers, "warmup": warmup, "seconds": seconds}
        try:
            async with asyncio.timeout(warmup + seconds + PATIENCE):
                latencies = (await client.ask(order))["latencies"]
        except (TimeoutError, ConnectionError) as error:
            self._processes.check()
            raise BenchError("PySyncObj did not end its load.") from error
        finally:
            await client.close()
        return Sample(seconds, len(latencies) * batch, latencies)

    def kill(self, node: ClusterProcess) -> None:
        """See `integration.bench.systems.system.Killable`."""
        self._processes.kill(node.pid)
        del self._running[node.name]

    def restart(self, node: ClusterProcess) -> ClusterProcess:
        """See `integration.bench.systems.system.Killable`."""
        process = self._running[node.name] = self._start(node.name)
        return process

    async def position(self, node: ClusterProcess) -> int | None:
        """See `integration.bench.systems.system.Killable`."""
        status = await self._status(node)
        return None if status is None else int(status["applied"])


@asynccontextmanager
async def cluster(directory: Path, *, cprofile: bool = False) -> AsyncIterator[Cluster]:
    """Run three nodes with their journals below `directory`; `cprofile` has no effect."""
    del cprofile
    with Processes(stop_signal=signal.SIGKILL) as processes:
        running = PySyncObjCluster(processes, directory)
        await running.leader()
        yield running


PYSYNCOBJ = System(
    name="pysyncobj", title="PySyncObj (no fsync)", bulk_writers=4, check=check, version=version, cluster=cluster
)
