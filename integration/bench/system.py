"""The interface of a system under measurement: start a cluster, name its processes, take requests."""

from asyncio import AbstractEventLoop
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable


class BenchError(Exception):
    """The benchmark cannot go on; the text says how to mend that."""


@dataclass(frozen=True, slots=True)
class ClusterProcess:
    """One running process of a cluster.

    `cprofile`: the file that a process under cProfile writes when it stops.
    """

    name: str
    pid: int
    cprofile: Path | None = None


class SystemClient(Protocol):
    """The client of one writer: one object per writer, used by one task at a time."""

    async def post(self, values: Sequence[bytes]) -> int:
        """Store the values in order; return when all values are durable on a majority.

        Returns a position in the system's log (farm: index of the last entry; etcd: revision) that rises strictly from
        answer to answer of one writer: the load checks that. Raises anything: the run ends.
        """
        ...

    async def close(self) -> None:
        """Free the client's resources; called once, with no request under way."""
        ...


class Cluster(Protocol):
    """A running cluster that has a leader."""

    @property
    def nodes(self) -> Sequence[ClusterProcess]:
        """All processes of the cluster, in a fixed order."""
        ...

    async def leader(self) -> ClusterProcess:
        """Return the present leader; wait a few seconds for one, then raise BenchError."""
        ...

    async def connect(self, leader: ClusterProcess) -> SystemClient:
        """Return a new client with a connection to `leader`."""
        ...


@runtime_checkable
class LoneConnector(Protocol):
    """A cluster with a faster kind of client for a lone writer."""

    async def connect_alone(self, leader: ClusterProcess) -> SystemClient:
        """Return a client, as `Cluster.connect` does. The client has the event loop for itself."""
        ...


class ClusterFactory(Protocol):
    """Starts three fresh nodes on loopback and stops them again, whatever happens inside."""

    def __call__(self, directory: Path, *, cprofile: bool = False) -> AbstractAsyncContextManager[Cluster]:
        """Return the context in which the cluster runs.

        Everything that the nodes write goes below `directory`, which is empty, and which the caller removes. With
        `cprofile` each node runs under cProfile and `ClusterProcess.cprofile` names its file.
        """
        ...


@dataclass(frozen=True, slots=True)
class System:
    """One column of the table."""

    name: str  # value of --only
    title: str  # heading of the column
    bulk_writers: int  # best number of writers that send requests of 100 entries
    check: Callable[[], None]  # raises BenchError with the command to run when a program is not installed
    cluster: ClusterFactory
    new_loop: Callable[[], AbstractEventLoop] | None = None  # None: uvloop's when installed, else asyncio's
