"""The figures of a cluster beside loads: start, memory, a follower that catches up, and the end of the leader."""

import asyncio
import os
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Final, Protocol

from integration.bench.systems.system import BenchError, Cluster, ClusterProcess, Killable, SystemClient
from integration.bench.workloads import VALUE_BYTES
from integration.harness.processes import children, resident_bytes


@dataclass(frozen=True, slots=True)
class Measure:
    """One figure of a system. Less is better for all of them."""

    name: str  # value of --only
    title: str
    unit: str


START = Measure("start", "start of 3 nodes to the first accepted entry", "s")
IDLE = Measure("idle", "memory of a node, idle", "MB")
LOADED = Measure("loaded", "memory of a node after the loads", "MB")
BEHIND = Measure("behind", "a follower catches up on 100,000 entries", "s")
FAILOVER = Measure("fail-over", "leader killed to the next accepted entry", "s")
MEASURES: Final = (START, IDLE, LOADED, BEHIND, FAILOVER)

KILLS: Final = 3
"""Leaders that are killed in each repeat."""
_BEHIND_ENTRIES: Final = 100_000
_BATCH: Final = 100
_WRITERS: Final = 4
_PATIENCE: Final = 120.0
_POLL: Final = 0.02
_RETRY: Final = 0.005


class KillableCluster(Cluster, Killable, Protocol):
    """A cluster that can do both."""


def memory_mb(cluster: Cluster) -> float:
    """Return the mean resident memory of a node with its child processes, in MB (10^6 bytes)."""
    sizes = [sum(resident_bytes(pid) for pid in (node.pid, *children(node.pid))) for node in cluster.nodes]
    return sum(sizes) / len(sizes) / 1e6


async def post_once(cluster: Cluster) -> None:
    """Have the leader accept one entry."""
    client = await cluster.connect(await cluster.leader())
    await client.post([os.urandom(VALUE_BYTES)])
    await client.close()


async def catch_up(cluster: KillableCluster) -> float:
    """Kill a follower, store 100,000 entries, start the follower; return the seconds until it has applied all."""
    leader = await cluster.leader()
    follower = next(node for node in cluster.nodes if node != leader)
    cluster.kill(follower)
    await _store(cluster, leader, _BEHIND_ENTRIES)
    end = await cluster.position(leader)
    if end is None:
        raise BenchError(f"{leader.name} does not say how long its log is. Is the machine overloaded?")
    began = time.perf_counter()
    await _applied(cluster, cluster.restart(follower), end)
    return time.perf_counter() - began


async def _store(cluster: Cluster, leader: ClusterProcess, entries: int) -> None:
    values = [os.urandom(VALUE_BYTES) for _ in range(_BATCH)]
    async with AsyncExitStack() as stack, asyncio.TaskGroup() as group:

        async def write(client: SystemClient) -> None:
            for _ in range(entries // _BATCH // _WRITERS):
                await client.post(values)

        for _ in range(_WRITERS):
            client = await cluster.connect(leader)
            stack.push_async_callback(client.close)
            group.create_task(write(client))


async def _applied(cluster: KillableCluster, node: ClusterProcess, end: int) -> None:
    deadline = time.monotonic() + _PATIENCE
    while (await cluster.position(node) or 0) < end:
        if time.monotonic() > deadline:
            raise BenchError(f"{node.name} did not catch up within {_PATIENCE:.0f} s. Is the machine overloaded?")
        await asyncio.sleep(_POLL)


async def fail_over(cluster: KillableCluster) -> float:
    """Kill the leader; return the seconds until a client that knows the other nodes has an entry accepted.

    Afterwards the killed node runs again and has all entries.
    """
    leader = await cluster.leader()
    client = await cluster.connect_beside(leader)
    values = [os.urandom(VALUE_BYTES)]
    await client.post(values)
    began = time.perf_counter()
    cluster.kill(leader)
    await _post_again(client, values, began + _PATIENCE)
    spent = time.perf_counter() - began
    await client.close()
    restarted = cluster.restart(leader)
    end = await cluster.position(await cluster.leader())
    await _applied(cluster, restarted, end or 0)
    return spent


async def _post_again(client: SystemClient, values: Sequence[bytes], deadline: float) -> None:
    while True:
        try:
            await client.post(values)
        except Exception as error:  # whatever a client of this system raises while nobody leads
            if time.perf_counter() > deadline:
                raise BenchError(f"No entry was accepted within {_PATIENCE:.0f} s: {error}") from error
            await asyncio.sleep(_RETRY)
        else:
            return
