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
import subprocess
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from integration.bench.systems import etcd_messages
from integration.bench.systems.node_cluster import REQUEST_SECONDS, TRY_SECONDS, NodeCluster, factory
from integration.bench.systems.system import NODES, BenchError, ClusterProcess, System, SystemClient, not_installed
from integration.harness.processes import Processes, free_ports

CHANNEL_OPTIONS = [
    ("grpc.enable_http_proxy", 0),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 200),
]


def check() -> None:
    """Raise BenchError with the command to run when etcd or grpcio is missing."""
    if shutil.which("etcd") is None:
        raise not_installed("etcd", "etcd-server")
    _grpc()


def version() -> str:
    """Return the first line of `etcd --version`, as words."""
    answer = subprocess.run(["etcd", "--version"], capture_output=True, text=True, check=True, timeout=10)
    return answer.stdout.splitlines()[0].replace(" Version:", "")


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

    def __init__(self, channel: Any, writer: int, seconds: float = REQUEST_SECONDS) -> None:
        """`seconds`: time limit of a post."""
        self._put = channel.unary_unary(etcd_messages.PUT)
        self._txn = channel.unary_unary(etcd_messages.TXN)
        self._writer = writer
        self._seconds = seconds
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
        return etcd_messages.revision(await call(request, timeout=self._seconds))

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


class EtcdCluster(NodeCluster):
    """Three running etcd nodes."""

    def __init__(self, processes: Processes, directory: Path) -> None:
        super().__init__("etcd", processes, directory)
        ports = free_ports(2 * NODES)
        self._ports = dict(zip(self.names, ports[:NODES], strict=True))
        self._peers = dict(zip(self.names, ports[NODES:], strict=True))
        grpc = _grpc()
        self._channels: dict[str, Any] = {
            name: grpc.insecure_channel(f"127.0.0.1:{port}", options=CHANNEL_OPTIONS)
            for name, port in self._ports.items()
        }
        self._writers = 0
        self.start_all()

    def command(self, name: str) -> Sequence[str]:
        """See `NodeCluster`. All settings that bear on durability are etcd's defaults."""
        client, peer = (f"http://127.0.0.1:{ports[name]}" for ports in (self._ports, self._peers))
        arguments = {
            "name": name,
            "data-dir": str(self.directory / name),
            "listen-client-urls": client,
            "advertise-client-urls": client,
            "listen-peer-urls": peer,
            "initial-advertise-peer-urls": peer,
            "initial-cluster": ",".join(f"{each}=http://127.0.0.1:{port}" for each, port in self._peers.items()),
            "initial-cluster-state": "new",
            "logger": "zap",
            "log-outputs": "stderr",
            "log-level": "error",
            "quota-backend-bytes": str(8 << 30),  # a long run must not reach the default of 2 GiB
        }
        return ["etcd", *(f"--{key}={value}" for key, value in arguments.items())]

    def environment(self) -> dict[str, str]:
        """Return this process's environment without settings for etcd."""
        return {key: value for key, value in os.environ.items() if not key.startswith("ETCD")}

    def address(self, node: ClusterProcess) -> str:
        """Return "host:port" of a node for clients."""
        return f"127.0.0.1:{self._ports[node.name]}"

    async def _status(self, node: ClusterProcess) -> bytes | None:
        """Return a node's answer to Status; None without an answer."""
        status = self._channels[node.name].unary_unary(etcd_messages.STATUS)
        try:
            return bytes(await status(b"", timeout=1.0, wait_for_ready=True))
        except importlib.import_module("grpc").RpcError:
            return None

    async def leads(self, node: ClusterProcess) -> bool:
        """See `NodeCluster`."""
        answer = await self._status(node)
        return answer is not None and etcd_messages.leads(answer)

    async def connect(self, leader: ClusterProcess) -> SystemClient:
        """Return a writer with keys of its own on the shared channel to the leader."""
        self._writers += 1
        return EtcdClient(self._channels[leader.name], self._writers)

    async def connect_alone(self, leader: ClusterProcess) -> SystemClient:
        """Return a writer with keys of its own on a synchronous channel of its own to the leader."""
        self._writers += 1
        grpc = importlib.import_module("grpc")
        channel = grpc.insecure_channel(self.address(leader), options=CHANNEL_OPTIONS)
        await asyncio.to_thread(grpc.channel_ready_future(channel).result, REQUEST_SECONDS)
        return LoneEtcdClient(channel, self._writers)

    async def connect_beside(self, leader: ClusterProcess) -> SystemClient:
        """Return a writer that asks a follower, which forwards the puts; see `integration.bench.systems.system`."""
        self._writers += 1
        follower = next(node for node in self.nodes if node != leader)
        client = EtcdClient(self._channels[follower.name], self._writers, TRY_SECONDS)
        await self._status(follower)
        return client

    async def position(self, node: ClusterProcess) -> int | None:
        """See `integration.bench.systems.system.Killable`."""
        answer = await self._status(node)
        return None if answer is None else etcd_messages.applied(answer)

    async def close(self) -> None:
        """Close the channels."""
        for channel in self._channels.values():
            await channel.close()


ETCD = System(name="etcd", title="etcd", bulk_writers=4, check=check, version=version, cluster=factory(EtcdCluster))
