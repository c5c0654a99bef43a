"""PySyncObj: three Python nodes with a journal, which PySyncObj never syncs, and with the client inside the leader.

The most usual way to have Raft in Python, with every advantage that the farm does not take: no fsync, no TLS, no client
protocol, entries in pickle. The settings are the fastest measured; by default a lone writer waits 100 ms. Random values
are dear for PySyncObj: its nodes compress each message by zlib, which takes three quarters of the leader's time.
"""

import asyncio
import importlib.metadata
import json
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from integration.bench.systems.node_cluster import REQUEST_SECONDS, TRY_SECONDS, NodeCluster, factory
from integration.bench.systems.system import NODES, BenchError, ClusterProcess, System, SystemClient
from integration.bench.workloads import PATIENCE, Sample
from integration.harness.processes import Processes, free_ports

MODULE: Final = "integration.bench.systems.pysyncobj_node"
STATUS_SECONDS: Final = 1.0
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


class PySyncObjCluster(NodeCluster):
    """Three running nodes."""

    def __init__(self, processes: Processes, directory: Path) -> None:
        super().__init__("pysyncobj", processes, directory)
        self._ports = free_ports(NODES)
        self.start_all()

    def command(self, name: str) -> Sequence[str]:
        """See `NodeCluster`."""
        number = str(self.names.index(name) + 1)
        return [sys.executable, "-m", MODULE, number, str(self.directory), *map(str, self._ports)]

    def _socket(self, node: ClusterProcess) -> Path:
        return self.directory / f"{node.name}.sock"

    async def _status(self, node: ClusterProcess) -> dict[str, Any] | None:
        with suppress(OSError, TimeoutError):
            async with asyncio.timeout(STATUS_SECONDS):
                client = await NodeSocket.dial(self._socket(node))
                try:
                    return await client.ask({"do": "status"})
                finally:
                    await client.close()
        return None

    async def leads(self, node: ClusterProcess) -> bool:
        """See `NodeCluster`."""
        status = await self._status(node)
        return status is not None and bool(status["leader"])

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
            self.processes.check()
            raise BenchError("PySyncObj did not end its load. Is the machine overloaded?") from error
        finally:
            await client.close()
        return Sample(seconds, len(latencies) * batch, latencies)

    async def position(self, node: ClusterProcess) -> int | None:
        """See `integration.bench.systems.system.Killable`."""
        status = await self._status(node)
        return None if status is None else int(status["applied"])


PYSYNCOBJ = System(
    name="pysyncobj",
    title="PySyncObj (no fsync)",
    bulk_writers=4,
    check=check,
    version=version,
    cluster=factory(PySyncObjCluster),
)
