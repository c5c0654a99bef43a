"""What the benchmark asks of a system that it measures: start a cluster, name its processes, take requests."""

from asyncio import AbstractEventLoop
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable


class BenchError(Exception):
    """The benchmark cannot go on; the text says what to do."""


@dataclass(frozen=True, slots=True)
class Node:
    """One running process of a cluster.

    `cprofile` is the file that the process writes when it stops, if it was started under cProfile.
    """

    name: str
    pid: int
    cprofile: Path | None = None


class Client(Protocol):
    """What one writer posts through; one object per writer, used by one task at a time."""

    async def post(self, values: Sequence[bytes]) -> int:
        """Store the values in order, all of them durable on a majority when this returns.

        Returns a position in the system's log (farm: index of the last entry; etcd: revision) that rises
        strictly from one answer to the next of one writer: the load checks it. Raises anything: the run ends.
        """
        ...

    async def close(self) -> None:
        """Give up what this client holds; called once, with no request under way."""
        ...


class Cluster(Protocol):
    """A running cluster that has a leader."""

    @property
    def nodes(self) -> Sequence[Node]:
        """All processes of the cluster, in a fixed order."""
        ...

    async def leader(self) -> Node:
        """Return the present leader; waits a few seconds for one, then raises BenchError."""
        ...

    async def connect(self, leader: Node) -> Client:
        """Return a new client that talks to `leader` directly, its connection already made."""
        ...


@runtime_checkable
class LoneConnector(Protocol):
    """A cluster that has a faster kind of client for a writer that is the only one."""

    async def connect_alone(self, leader: Node) -> Client:
        """Return a client as `Cluster.connect` does; while it is in use nothing else happens in the event loop."""
        ...


class ClusterFactory(Protocol):
    """Starts three fresh nodes on loopback and stops them again, whatever happens inside."""

    def __call__(self, directory: Path, *, cprofile: bool = False) -> AbstractAsyncContextManager[Cluster]:
        """Return the context in which the cluster runs.

        Everything that the nodes write goes below `directory`, which exists, is empty, and is removed by the
        caller. With `cprofile` each node runs under cProfile and `Node.cprofile` names its file.
        """
        ...


@dataclass(frozen=True, slots=True)
class System:
    """One column of the table."""

    name: str  # what --only takes
    title: str  # heading of the column
    bulk_writers: int  # how many writers send requests of 100 entries: the number that suits this system best
    check: Callable[[], None]  # raises BenchError with the command to run when something is not installed
    cluster: ClusterFactory
    new_loop: Callable[[], AbstractEventLoop] | None = None  # None: uvloop's when installed, else asyncio's
