"""The guard of the speed: `python -m integration.bench.guard` fails when an entry costs a quarter more than it did.

The cost of an entry is processor time of the leader, of a follower and of a node's history process, under the three
loads; and of any node that reads and applies a server's record. The unit is the beat of `integration.bench.metronome`,
measured in the same moments, so the figures mean the same on another machine. `guard.json` keeps the figures of the
last release.

Exit codes: 0 no cost has grown by a quarter, 1 a cost has, or nothing could be measured.
"""

import argparse
import asyncio
import cProfile
import io
import json
import pstats
import statistics
import sys
import time
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

from gf_i2p.farm.record.status_record import Leaf, Meta, ReportedConfig, StatusRecord
from gf_i2p.farm.state import FarmState
from gf_i2p.transport.event_loop import loop_factory
from integration.bench import instructions, load, profile
from integration.bench.metronome import Beat, Metronome
from integration.bench.report import align
from integration.bench.suite import BUILD, scratch
from integration.bench.systems.farm import FARM
from integration.bench.systems.system import NODES, BenchError, Cluster
from integration.bench.workloads import VALUE_BYTES, WORKLOADS, Sample, Workload
from integration.harness.processes import ProcessEndedError

KEPT: Final = Path(__file__).with_name("guard.json")
ALLOWED: Final = {"leader": 1.25, "follower": 1.25, "history": 2.0, "node": 1.5}
"""A cost that is more than so many times the kept cost fails. The history works in bursts, so its cost varies."""
TRIES: Final = 3
"""A machine that does other work makes an entry dearer now and then, and never cheaper: the cheapest try counts."""
SECONDS: Final = 2.0
WARMUP: Final = 0.5
RECORDED: Final = 9
_RECORDS: Final = 1_000
_TURN: Final = 5
"""Records that a node applies between two units."""
_BEATS: Final = 3
"""Beats whose median is the unit of such a turn."""
_TITLES: Final = {workload.name: workload.title for workload in WORKLOADS} | {"records": "a server's record"}

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


def cheapest(tries: Sequence[Costs]) -> Costs:
    """Return the least of each cost."""
    return _summary(tries, min)


def _summary(tries: Sequence[Costs], choose: Callable[[list[float]], float]) -> Costs:
    return {name: {who: choose([one[name][who] for one in tries]) for who in tries[0][name]} for name in tries[0]}


def grown(found: Costs, kept: Costs) -> list[str]:
    """Return the names of the loads of which a cost has grown beyond what is allowed."""
    return [name for name, costs in found.items() if any(costs[who] > ALLOWED[who] * kept[name][who] for who in costs)]


def table(found: Costs, kept: Costs) -> str:
    """Return the figures as aligned text."""
    lines = [["Cost of an entry", "", "now", "kept", "ratio"]]
    for name, costs in found.items():
        for who, now in costs.items():
            before = kept[name][who]
            lines.append([_TITLES[name], who, f"{now:.3f}", f"{before:.3f}", f"{now / before:.2f}"])
    return align(lines, left=2)


async def compared(directory: Path, kept: Costs) -> Costs:
    """Measure until no cost has grown, at most `TRIES` times; return the least of each cost."""
    tries: list[Costs] = []
    while len(tries) < TRIES and (not tries or grown(cheapest(tries), kept)):
        tries.append(await _all(directory / str(len(tries))))
    return cheapest(tries)


async def recorded(directory: Path) -> Costs:
    """Return the median of each cost in nine measurements."""
    tries = [await _all(directory / str(number)) for number in range(RECORDED)]
    return _summary(tries, statistics.median)


async def _all(directory: Path) -> Costs:
    """Measure on a fresh farm: on another one, the history would still write what the last load left."""
    async with FARM.cluster(directory) as cluster:
        with Metronome(directory) as metronome:
            found = {workload.name: await _one(cluster, workload, metronome) for workload in WORKLOADS}
    return found | {"records": {"node": record_cost()}}


async def _load(cluster: Cluster, workload: Workload, seconds: float) -> Sample:
    writers = workload.writers or FARM.bulk_writers
    return await load.run(cluster, workload.batch, writers, warmup=WARMUP, seconds=seconds, values=json_values())


async def _one(cluster: Cluster, workload: Workload, metronome: Metronome) -> dict[str, float]:
    sample = await _load(cluster, workload, SECONDS)
    if not sample.entries or sample.leader_moved:
        raise BenchError(f"The leader changed under the load of {workload.title}. Is the machine overloaded?")
    return costs(sample, metronome.unit(sample.began, sample.began + sample.seconds))


async def profiled(directory: Path, workload: Workload) -> str:
    """Return the functions in which the leader spends its time under a load, as aligned text."""
    if profile.py_spy() is None:
        return "No profile: py-spy is not installed. Run: .venv/bin/pip install py-spy"
    output = directory / "profile.txt"
    async with FARM.cluster(directory / "farm") as cluster, asyncio.TaskGroup() as group:
        leader = await cluster.leader()
        group.create_task(_load(cluster, workload, 2 * SECONDS))
        await asyncio.sleep(WARMUP)
        await profile.sample(leader.pid, SECONDS, output)
    rows, _ = profile.read_folded(output)
    return f"The leader under {workload.title}:\n{profile.function_table(rows[: profile.TOP])}"


def _profiled_records() -> str:
    """Return the functions in which a node spends its time when it applies records, as text."""
    profiler, text = cProfile.Profile(), io.StringIO()
    profiler.runcall(record_cost)
    pstats.Stats(profiler, stream=text).sort_stats("tottime").print_stats(profile.TOP)
    return text.getvalue()


def _in_loop(work: Coroutine[Any, Any, T]) -> T:
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(work)


def main(line: Sequence[str] | None = None) -> int:
    """Run the guard; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m integration.bench.guard", description="Fail when an entry costs a quarter more than it did."
    )
    parser.add_argument("--record", action="store_true", help=f"keep the present costs in {KEPT.name}: at a release")
    options = parser.parse_args(line)
    BUILD.mkdir(exist_ok=True)
    try:
        with scratch(BUILD) as directory:
            return _record(directory) if options.record else _compare(directory)
    except (BenchError, ProcessEndedError) as error:
        print(f"guard: {error}", file=sys.stderr)
        return 1


def _record(directory: Path) -> int:
    found = _in_loop(recorded(directory))
    rounded = {name: {who: round(cost, 4) for who, cost in costs.items()} for name, costs in found.items()}
    KEPT.write_text(json.dumps(rounded, indent=2) + "\n")
    print(f"{table(found, rounded)}\nKept in {KEPT}.")
    return 0


def _compare(directory: Path) -> int:
    kept: Costs = json.loads(KEPT.read_text())
    found = _in_loop(compared(directory, kept))
    print(table(found, kept))
    counted = instructions.per_decode()
    print(
        "Instructions for a decoded AppendEntries: "
        + ("`perf` cannot count any here" if counted is None else f"{counted:,}")
    )
    worse = grown(found, kept)
    for workload in WORKLOADS:
        if workload.name in worse:
            place = directory / workload.name
            place.mkdir()
            print(f"\n{_in_loop(profiled(place, workload))}")
    if "records" in worse:
        print(f"\nA node that applies records:\n{_profiled_records()}")
    if worse:
        print(
            "\nAn entry costs a quarter more than it did, a record half more, or an entry's history twice as much: "
            f"{', '.join(worse)}. Find what the last changes added; or, when the cost is wanted: "
            "python -m integration.bench.guard --record"
        )
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
