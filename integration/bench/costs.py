"""The cost of an entry, in this checkout: `python -m integration.bench.costs` prints it as JSON.

The cost is processor time of the leader, of a follower and of a node's history process, under the three loads; and of
any node that reads and applies a server's record. The unit is the beat of `integration.bench.metronome`, measured in
the same moments.

`integration.bench.guard` runs this module in two checkouts. So the module imports nothing from outside its checkout,
and what it prints keeps its meaning: after a change of the loads, of the records or of the beat, the guard needs a new
`BASE`.
"""

import asyncio
import json
import statistics
import sys
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, Final, TypeVar

from gf_i2p.farm.record.status_record import Leaf, Meta, ReportedConfig, StatusRecord
from gf_i2p.farm.state import FarmState
from gf_i2p.transport.event_loop import loop_factory
from integration.bench import load
from integration.bench.metronome import Beat, Metronome
from integration.bench.suite import BUILD, scratch
from integration.bench.systems.farm import FARM
from integration.bench.systems.system import NODES, BenchError, Cluster
from integration.bench.workloads import VALUE_BYTES, WORKLOADS, Sample, Workload
from integration.harness.processes import ProcessEndedError

SECONDS: Final = 2.0
WARMUP: Final = 0.5
_RECORDS: Final = 1_000
_TURN: Final = 5
"""Records that a node applies between two units."""
_BEATS: Final = 3
"""Beats whose median is the unit of such a turn."""

T = TypeVar("T")
Costs = dict[str, dict[str, float]]
"""Cost of an entry, in beats, by load and by process."""


def record_cost() -> float:
    """Return the cost in which a node reads and applies one record of a server, in beats.

    The caches are warm. With a pause before each turn, as between two records of a farm, a record took the same 36 to
    44 µs, but the beat took 60 to 113 µs on one machine, so unchanged code had ratios from 1.3 to 2.1.
    """
    values = record_values()
    state = FarmState("farm")
    state.configure(tuple(range(1, NODES + 1)))
    beat, turns = Beat(), []
    for start in range(0, len(values), _TURN):
        unit = statistics.median(beat() for _ in range(_BEATS))
        began = time.thread_time()
        for index, value in enumerate(values[start : start + _TURN], start + 1):
            state.apply(value, index)
        turns.append((time.thread_time() - began) / _TURN / unit)
    beat.close()
    return statistics.median(turns)


def record_values() -> list[bytes]:
    """Return records of a farm's servers, as they stand in the log."""
    leaf = Leaf(bytes(range(32)), up=True)
    config, meta = ReportedConfig("meta", 30_000, "0.1.0"), Meta("A" * 524, "auto", publishing=False)
    router = {"uptime": 3_600_000, "participatingTunnels": 40, "bandwidthIn": 1000, "bandwidthOut": 1000}
    values = []
    for number in range(_RECORDS):
        date_ms, server = 1_790_000_000_000 + number, 1 + number % NODES
        record = StatusRecord(
            "farm", date_ms, server, router_up=True, router=router, meta=meta, leaves=(leaf,), config=config
        )
        values.append(record.encode())
    return values


def json_values() -> list[bytes]:
    """Return 1,024 JSON objects of 1 KiB, which are no records: a node sees that without a parse."""
    values = []
    for number in range(1024):
        fields = {f"field{place}": (number * 2654435761 + place) % 2**32 for place in range(40)}
        text = json.dumps({"number": number, "fields": fields, "padding": ""}, separators=(",", ":"))
        values.append(f"{text[:-2]}{'x' * (VALUE_BYTES - len(text))}{text[-2:]}".encode())
    return values


def costs(sample: Sample, unit: float) -> dict[str, float]:
    """Return the cost of an entry by process. `unit`: seconds of a beat. The sample is of a farm of three nodes."""
    each = {"leader": 1, "follower": NODES - 1, "history": NODES}
    cores = {name: sample.cpu[key] for name, key in zip(each, ("leader", "followers", "children"), strict=True)}
    rate = sample.entries / sample.seconds
    return {name: cores[name] / each[name] / rate / unit for name in each}


async def run_load(cluster: Cluster, workload: Workload, seconds: float) -> Sample:
    """Put a load on the cluster for some seconds, after `WARMUP`."""
    writers = workload.writers or FARM.bulk_writers
    return await load.run(cluster, workload.batch, writers, warmup=WARMUP, seconds=seconds, values=json_values())


async def _measured(directory: Path) -> Costs:
    """Measure on a fresh farm: on another one, the history would still write what the last load left."""
    async with FARM.cluster(directory) as cluster:
        with Metronome(directory) as metronome:
            found = {workload.name: await _cost_under(cluster, workload, metronome) for workload in WORKLOADS}
    return found | {"records": {"node": record_cost()}}


async def _cost_under(cluster: Cluster, workload: Workload, metronome: Metronome) -> dict[str, float]:
    sample = await run_load(cluster, workload, SECONDS)
    if not sample.entries or sample.leader_moved:
        raise BenchError(f"The leader changed under the load of {workload.title}. Is the machine overloaded?")
    return costs(sample, metronome.unit(sample.began, sample.began + sample.seconds))


def in_loop(work: Coroutine[Any, Any, T]) -> T:
    """Run the work in the event loop that a node uses."""
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(work)


def main() -> int:
    """Print the costs; return the exit code."""
    BUILD.mkdir(exist_ok=True)
    try:
        with scratch(BUILD) as directory:
            print(json.dumps(in_loop(_measured(directory / "farm"))))
    except (BenchError, ProcessEndedError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
