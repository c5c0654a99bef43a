"""etcd: three nodes as Debian ships them, default durability, asked through grpcio with messages encoded by hand.

Several Python clients were measured: grpcio synchronous and asyncio, with one or many channels, aetcd, etcd3. grpcio's
asyncio channel stores the most entries per second as soon as there are several writers; a lone writer is answered about
5 % sooner through a synchronous channel. Each workload gets the better of the two. aetcd and etcd3 are slower by a
fifth to two thirds.

etcd uses plain TCP here, and the farm uses TLS: this is an advantage for etcd. A client puts its data under one set of
keys per writer; every put is one log entry and one revision.
"""

import asyncio
import importlib
import os
import shutil
import signal
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from integration.bench import etcd_messages
from integration.bench.system import BenchError, Cluster, ClusterProcess, System, SystemClient
from integration.harness.processes import Processes, free_ports

NODES = 3
INSTALL = "apt-get install -y etcd-server"
START_SECONDS = 20.0
REQUEST_SECONDS = 10.0
CHANNEL_OPTIONS = [("grpc.enable_http_proxy", 0), ("grpc.initial_reconnect_backoff_ms", 100)]


def check() -> None:
    """Raise BenchError with the command to run when etcd or grpcio is missing."""
    if shutil.which("etcd") is None:
        sudo = "" if os.geteuid() == 0 else "sudo "
        raise BenchError(f"etcd is not installed. On Debian or Ubuntu run: {sudo}{INSTALL}")
    _grpc()


def _grpc() -> ModuleType:
    """Import grpcio, which only the benchmark needs (extra `bench`); grpcio has no type stubs either."""
    # Without these settings grpcio writes a line on stderr whenever this process starts another.
    os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
    try:
        return importlib.import_module("grpc.aio")
    except ImportError:
        raise BenchError("grpcio is not installed. Run: .venv/bin/pip install '.[bench]'") from None


class EtcdClient:
    """One writer of etcd; all writers share the cluster's channel to a node: the fastest of the ways measured."""

    def __init__(self, channel: Any, writer: int) -> None:
        self._put = channel.unary_unary(etcd_messages.PUT)
        self._txn = channel.unary_unary(etcd_messages.TXN)
        self._writer = writer
        self._keys: list[bytes] = []

    def _request(self, values: Sequence[bytes]) -> tuple[Any, bytes]:
        """Return the call and its request: a put of one value, or a transaction with a key for each value."""
        while len(self._keys) < len(values):
            self._keys.append(b"bench/%d/%d" % (self._writer, len(self._keys)))
        if len(values) == 1:
            return self._put, etcd_messages.put_request(self._keys[0], values[0])
        return self._txn, etcd_messages.txn_request(self._keys[: len(values)], values)

    async def post(self, values: Sequence[bytes]) -> int:
        """Put the values; return the store's revision afterwards."""
        call, request = self._request(values)
        return etcd_messages.revision(await call(request, timeout=REQUEST_SECONDS))

    async def close(self) -> None:
        """Do nothing: the channel belongs to the cluster."""


class LoneEtcdClient(EtcdClient):
    """The only writer, on a synchronous channel: it blocks the event loop, in which no other task has work."""

    BREATH = 32  # posts after which the event loop may look at the clock

    def __init__(self, channel: Any, writer: int) -> None:
        super().__init__(channel, writer)
        self._channel = channel
        self._posts = 0

    async def post(self, values: Sequence[bytes]) -> int:
        """Put the values; return the store's revision afterwards."""
        call, request = self._request(values)
        revision = etcd_messages.revision(call(request, timeout=REQUEST_SECONDS))
        self._posts += 1
        if self._posts % self.BREATH == 0:
            await asyncio.sleep(0)
        return revision

    async def close(self) -> None:
        """Close the channel, which is this client's own."""
        self._channel.close()


class EtcdCluster:
    """Three running etcd nodes."""

    def __init__(
        self, processes: Processes, nodes: dict[ClusterProcess, int], channels: dict[ClusterProcess, Any]
    ) -> None:
        """`nodes`: each node's client port; `channels`: a channel to each."""
        self._processes = processes
        self._ports = nodes
        self._channels = channels
        self._writers = 0

    @property
    def nodes(self) -> Sequence[ClusterProcess]:
        """All three processes."""
        return list(self._ports)

    def address(self, node: ClusterProcess) -> str:
        """Return "host:port" of a node for clients."""
        return f"127.0.0.1:{self._ports[node]}"

    async def leader(self) -> ClusterProcess:
        """Ask the nodes in turn until one says that it leads."""
        deadline = time.monotonic() + START_SECONDS
        grpc = importlib.import_module("grpc")
        while time.monotonic() < deadline:
            self._processes.check()
            for node, channel in self._channels.items():
                status = channel.unary_unary(etcd_messages.STATUS)
                try:
                    answer = await status(b"", timeout=1.0, wait_for_ready=True)
                except grpc.RpcError:
                    continue
                if etcd_messages.leads(answer):
                    return node
            await asyncio.sleep(0.05)
        raise BenchError(f"etcd has had no leader for {START_SECONDS:.0f} s. Is the machine overloaded?")

    async def connect(self, leader: ClusterProcess) -> SystemClient:
        """Return a writer with keys of its own on the shared channel to the leader."""
        self._writers += 1
        return EtcdClient(self._channels[leader], self._writers)

    async def connect_alone(self, leader: ClusterProcess) -> SystemClient:
        """Return a writer with keys of its own on a synchronous channel of its own to the leader."""
        self._writers += 1
        grpc = importlib.import_module("grpc")
        channel = grpc.insecure_channel(self.address(leader), options=CHANNEL_OPTIONS)
        await asyncio.to_thread(grpc.channel_ready_future(channel).result, REQUEST_SECONDS)
        return LoneEtcdClient(channel, self._writers)


@asynccontextmanager
async def cluster(directory: Path, *, cprofile: bool = False) -> AsyncIterator[Cluster]:
    """Run three etcd nodes with their data below `directory`; all settings that bear on durability are etcd's defaults.

    `cprofile` has no effect: etcd is a Go program.
    """
    del cprofile
    grpc = _grpc()
    names = [f"etcd-{number}" for number in range(1, NODES + 1)]
    ports = free_ports(2 * NODES)
    clients, peers = ports[:NODES], ports[NODES:]
    members = ",".join(f"{name}=http://127.0.0.1:{port}" for name, port in zip(names, peers, strict=True))
    environment = {key: value for key, value in os.environ.items() if not key.startswith("ETCD")}
    async with AsyncExitStack() as stack:
        # The data is thrown away, so an orderly end, which takes etcd seconds, gains nothing.
        processes = stack.enter_context(Processes(stop_signal=signal.SIGKILL))
        nodes: dict[ClusterProcess, int] = {}
        channels: dict[ClusterProcess, Any] = {}
        for name, client, peer in zip(names, clients, peers, strict=True):
            arguments = {
                "name": name,
                "data-dir": str(directory / name),
                "listen-client-urls": f"http://127.0.0.1:{client}",
                "advertise-client-urls": f"http://127.0.0.1:{client}",
                "listen-peer-urls": f"http://127.0.0.1:{peer}",
                "initial-advertise-peer-urls": f"http://127.0.0.1:{peer}",
                "initial-cluster": members,
                "initial-cluster-state": "new",
                "logger": "zap",
                "log-outputs": "stderr",
                "log-level": "error",
                "quota-backend-bytes": str(8 << 30),  # a long run must not reach the default of 2 GiB
            }
            command = ["etcd", *(f"--{key}={value}" for key, value in arguments.items())]
            node = ClusterProcess(name, processes.start(name, command, directory / f"{name}.log", environment))
            channel = grpc.insecure_channel(
                f"127.0.0.1:{client}",
                options=CHANNEL_OPTIONS,
            )
            stack.push_async_callback(channel.close)
            nodes[node], channels[node] = client, channel
        running = EtcdCluster(processes, nodes, channels)
        await running.leader()
        yield running


ETCD = System(name="etcd", title="etcd", bulk_writers=4, check=check, cluster=cluster)
