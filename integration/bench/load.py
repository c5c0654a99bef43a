"""The load: writers that each post, wait for the answer and post again; and the figures of the answers."""

import asyncio
import os
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import replace

from integration.bench.systems.system import BenchError, Cluster, ClusterProcess, LoneConnector, OwnLoad, SystemClient
from integration.bench.workloads import PATIENCE, VALUE_BYTES, Sample
from integration.harness.processes import children, cpu_seconds, machine_cpu_seconds


class _Window:
    """Counts the requests that are answered between `begin` and `end` (monotonic seconds)."""

    def __init__(self, begin: float, end: float) -> None:
        self.begin = begin
        self.end = end
        self.latencies: list[float] = []

    async def write(self, client: SystemClient, values: Sequence[bytes], batch: int, offset: int) -> None:
        position = 0
        start = time.perf_counter()
        while start < self.end:
            answer = await client.post(values[offset : offset + batch])
            now = time.perf_counter()
            if answer <= position:
                raise BenchError(
                    f"A writer was told position {answer} after {position}: entries are lost or out of order."
                )
            position = answer
            if self.begin <= now < self.end:
                self.latencies.append(now - start)
            offset = (offset + batch) % (len(values) - batch)
            start = time.perf_counter()


async def run(
    cluster: Cluster,
    batch: int,
    writers: int,
    *,
    warmup: float,
    seconds: float,
    values: Sequence[bytes] | None = None,
) -> Sample:
    """Load the leader of a cluster for `warmup` + `seconds` seconds; the warm-up is not counted.

    `values`: more than `batch` values, which the writers send in turns; by default random bytes.
    """
    leader = await cluster.leader()
    if isinstance(cluster, OwnLoad):
        begin = time.perf_counter() + warmup
        async with asyncio.TaskGroup() as group:
            load = group.create_task(cluster.load(batch, writers, warmup=warmup, seconds=seconds))
            cpu = group.create_task(_cpu(cluster, leader.pid, begin, seconds))
        sample = replace(load.result(), cpu=cpu.result(), began=begin)
    else:
        # Random bytes, so that no program gains by compressing; many, so that no value is always in a cache.
        values = values or [os.urandom(VALUE_BYTES) for _ in range(1024)]
        sample = await _load(cluster, leader, batch, writers, values, warmup=warmup, seconds=seconds)
    moved = (await cluster.leader()).name != leader.name
    return replace(sample, leader_moved=moved)


async def _load(
    cluster: Cluster,
    leader: ClusterProcess,
    batch: int,
    writers: int,
    values: Sequence[bytes],
    *,
    warmup: float,
    seconds: float,
) -> Sample:
    """Load the leader by writers of this process."""
    async with AsyncExitStack() as stack:
        clients: list[SystemClient] = []
        for _ in range(writers):
            if writers == 1 and isinstance(cluster, LoneConnector):
                client = await cluster.connect_alone(leader)
            else:
                client = await cluster.connect(leader)
            stack.push_async_callback(client.close)
            clients.append(client)
        begin = time.perf_counter() + warmup
        window = _Window(begin, begin + seconds)
        try:
            async with asyncio.timeout(warmup + seconds + PATIENCE), asyncio.TaskGroup() as group:
                for number, client in enumerate(clients):
                    group.create_task(window.write(client, values, batch, number * 7 % (len(values) // 2)))
                cpu = group.create_task(_cpu(cluster, leader.pid, begin, seconds))
        except TimeoutError:
            raise BenchError(
                f"A request was not answered for {PATIENCE:.0f} s. Is the disk full, or the machine overloaded?"
            ) from None
        except ExceptionGroup as failures:
            first = failures.exceptions[0]
            if isinstance(first, BenchError):
                raise first from None
            raise BenchError(
                f"{len(failures.exceptions)} of {writers} writers failed, the first with "
                f"{type(first).__name__}: {first}"
            ) from failures
    return Sample(seconds, len(window.latencies) * batch, window.latencies, cpu.result(), began=begin)


async def _cpu(cluster: Cluster, leader: int, begin: float, seconds: float) -> dict[str, float]:
    """Return the mean cores in use in the window: by client, leader, followers, the nodes' children, and others.

    A node's child writes the node's history.

    The other processes should use next to nothing: otherwise something disturbs the measurement.
    """

    def used() -> dict[str, float]:
        nodes = {node.pid: cpu_seconds(node.pid) for node in cluster.nodes}
        own = {
            "client": time.process_time(),
            "leader": nodes.pop(leader),
            "followers": sum(nodes.values()),
            "children": sum(cpu_seconds(child) for node in cluster.nodes for child in children(node.pid)),
        }
        return {"time": time.perf_counter(), **own, "others": machine_cpu_seconds() - sum(own.values())}

    await asyncio.sleep(begin - time.perf_counter())
    before = used()
    await asyncio.sleep(begin + seconds - time.perf_counter())
    spent = {what: now - before[what] for what, now in used().items()}
    elapsed = spent.pop("time")
    return {who: cores / elapsed for who, cores in spent.items()}
