"""The interface of a system under measurement: start a cluster, load, kill and watch its processes."""

import os
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol, runtime_checkable

from integration.bench.workloads import WORKLOADS, Sample, Workload

NODES: Final = 3
"""Nodes of each system."""


class BenchError(Exception):
    """The benchmark cannot go on; the text says how to mend that."""


def not_installed(program: str, package: str) -> BenchError:
    """Return the error that names a program of a Debian package, and the command that installs the package."""
    sudo = "" if os.geteuid() == 0 else "sudo "
    return BenchError(f"{program} is not installed. On Debian or Ubuntu run: {sudo}apt-get install -y {package}")


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
        """Store the values in order; return when the system says that the values are stored.

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
        """All running processes of the cluster, in a fixed order."""
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


@runtime_checkable
class OwnLoad(Protocol):
    """A cluster that a program of its own loads, in the place of our writers."""

    async def load(self, batch: int, writers: int, *, warmup: float, seconds: float) -> Sample:
        """Load the leader as `integration.bench.load.run` does; the sample needs no `cpu` and no `leader_moved`."""
        ...


@runtime_checkable
class Killable(Protocol):
    """A cluster whose nodes can be killed, started again and watched while they catch up."""

    def kill(self, node: ClusterProcess) -> None:
        """Send SIGKILL and wait for the end of the process."""
        ...

    def restart(self, node: ClusterProcess) -> ClusterProcess:
        """Start a killed node again; return its process, which may not yet answer."""
        ...

    async def position(self, node: ClusterProcess) -> int | None:
        """Return the position in the log up to which a node has applied; None while it does not answer."""
        ...

    async def connect_beside(self, leader: ClusterProcess) -> SystemClient:
        """Return a client that does not need `leader` and is connected already.

        A post that fails may be tried again with the same client, at once and as often as needed.
        """
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
    version: Callable[[], str]  # what is measured; asked after `check`
    cluster: ClusterFactory
    workloads: tuple[Workload, ...] = WORKLOADS
    has_measures: bool = True  # False: a second client of a system whose other figures stand in another column
