"""The whole measurement: repeats interleaved between the systems, fresh clusters each, one at a time.

One at a time, because an idle etcd of three nodes still uses about 5 % of a core (measured). Fresh, because a cluster
keeps all entries in memory and on disk, which makes each repeat slower than the one before.
"""

import asyncio
import os
import platform
import shutil
import sys
import tempfile
import time
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gf_i2p.transport.event_loop import loop_factory
from integration.bench import limits, load, measures, profile
from integration.bench.measures import BEHIND, FAILOVER, IDLE, KILLS, LOADED, MEASURES, START, Measure
from integration.bench.report import (
    BenchFigures,
    Document,
    Observations,
    Result,
    add_profile,
    document,
    figure_text,
    figures,
)
from integration.bench.systems.system import BenchError, Cluster, ClusterProcess, Killable, System
from integration.bench.workloads import CONCURRENT, VALUE_BYTES, Sample, Workload
from integration.harness.processes import ProcessEndedError

BUILD = Path(__file__).parents[2] / "build"  # on the checkout's disk, not in a /tmp that may be in memory
START_SECONDS = 2.0  # about the time of a cluster's start: for the forecast only
MEASURE_SECONDS = 4.0  # about the time of one measure: for the forecast only


@dataclass(frozen=True, slots=True)
class Settings:
    """The choices of the command line. Times in seconds."""

    systems: tuple[System, ...]
    workloads: tuple[Workload, ...]
    directory: Path
    measures: tuple[Measure, ...] = MEASURES
    limits: bool = True
    seconds: float = 5.0
    warmup: float = 1.0
    repeats: int = 5
    bulk_writers: int | None = None  # None: the best number for each system
    profile: Path | None = None


class Suite:
    """Runs the measurement of the settings and keeps the results."""

    def __init__(self, settings: Settings) -> None:
        """Raises BenchError when a program is missing."""
        for system in settings.systems:
            system.check()
        self._settings = settings
        self._results: dict[tuple[str, str], Result] = {}
        self._observed: dict[tuple[str, str], Observations] = {}
        self._failures: list[str] = []
        self._started = time.monotonic()
        self._done = 0
        profiles = int(settings.profile is not None)
        runs = settings.repeats * sum(len(self._workloads(system)) for system in settings.systems) + profiles
        observed = settings.repeats * len(settings.measures) * sum(system.has_measures for system in settings.systems)
        clusters = len(settings.systems) * settings.repeats + profiles
        self._total = runs + observed
        self._forecast = (
            runs * (settings.seconds + settings.warmup) + clusters * START_SECONDS + observed * MEASURE_SECONDS
        )

    def _workloads(self, system: System) -> list[Workload]:
        return [workload for workload in self._settings.workloads if workload in system.workloads]

    def run(self) -> Document:
        """Measure everything. Raises BenchError; all processes are stopped and all files removed at the end."""
        settings = self._settings
        settings.directory.mkdir(parents=True, exist_ok=True)
        machine = describe_machine(settings.systems)
        say(f"{self._total} runs, about {self._forecast / 60:.0f} minutes.")
        if machine["load"] > 0.3 * machine["cores"]:
            say(f"The machine is busy (load {machine['load']:.1f}): the figures will suffer. Stop what else runs.")
        found = self._limits() if settings.limits else {}
        for _ in range(settings.repeats):
            for system in settings.systems:
                self._repeat(system)
        report = document(
            sorted(self._results.values(), key=lambda result: settings.workloads.index(result.workload)),
            machine,
            {
                "seconds": settings.seconds,
                "warmup": settings.warmup,
                "repeats": settings.repeats,
                "value_bytes": VALUE_BYTES,
            },
            sorted(self._observed.values(), key=lambda each: settings.measures.index(each.measure)),
            found,
            self._failures,
        )
        if settings.profile is not None:
            farm = next(system for system in settings.systems if system.name == "farm")
            try:
                self._in_loop(self._profile(farm, settings.profile, report))
            except BenchError as error:  # the figures are worth showing without a profile
                say(f"No profile: {error}")
        return report

    def _repeat(self, system: System) -> None:
        """Run one repeat. A failure of a system costs this repeat the rest of its figures, and is told at the end."""
        try:
            self._in_loop(self._measure(system))
        except* (BenchError, ProcessEndedError) as group:  # a load's writers fail as a group
            self._failures.append(f"{system.title}: {_first(group)}")
            say(f"FAILED, and goes on without: {self._failures[-1]}")

    def _limits(self) -> dict[str, float]:
        with scratch(self._settings.directory) as directory, asyncio.Runner(loop_factory=loop_factory()) as runner:
            return runner.run(limits.measure(directory))

    @staticmethod
    def _in_loop(work: Coroutine[Any, Any, None]) -> None:
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            runner.run(work)

    async def _measure(self, system: System) -> None:
        """Run one repeat of all workloads and measures on a fresh cluster."""
        with scratch(self._settings.directory) as directory:
            began = time.perf_counter()
            async with system.cluster(directory) as cluster:
                await measures.post_once(cluster)
                self._observe(system, START, time.perf_counter() - began)
                self._observe(system, IDLE, measures.memory_mb(cluster))
                for workload in self._workloads(system):
                    writers = self._writers(system, workload)
                    sample = await self._load(cluster, workload.batch, writers)
                    self._keep(workload, system.title, writers, sample)
                if self._workloads(system):
                    self._observe(system, LOADED, measures.memory_mb(cluster))
                if not isinstance(cluster, Killable):
                    return
                if self._wants(system, BEHIND):
                    self._observe(system, BEHIND, await measures.catch_up(cluster))
                if self._wants(system, FAILOVER):
                    self._observe(system, FAILOVER, *[await measures.fail_over(cluster) for _ in range(KILLS)])

    def _wants(self, system: System, measure: Measure) -> bool:
        return system.has_measures and measure in self._settings.measures

    async def _load(self, cluster: Cluster, batch: int, writers: int) -> Sample:
        settings = self._settings
        return await load.run(cluster, batch, writers, warmup=settings.warmup, seconds=settings.seconds)

    def _writers(self, system: System, workload: Workload) -> int:
        if workload.writers is not None:
            return workload.writers
        return self._settings.bulk_writers or system.bulk_writers

    def _keep(self, workload: Workload, column: str, writers: int, sample: Sample) -> None:
        one = _figures(sample)
        result = self._results.setdefault((workload.name, column), Result(workload, column, writers, []))
        result.repeats.append(one)
        self._progress(f"{column}, {workload.title}: {_rate(one)}")

    def _observe(self, system: System, measure: Measure, *values: float) -> None:
        if self._wants(system, measure):
            key = measure.name, system.title
            self._observed.setdefault(key, Observations(measure, system.title, [])).values.extend(values)
            shown = ", ".join(map(figure_text, values))
            self._progress(f"{system.title}, {measure.title}: {shown} {measure.unit}")

    def _progress(self, what: str) -> None:
        self._done += 1
        say(f"[{self._done:2}/{self._total}, {time.monotonic() - self._started:3.0f} s] {what}")

    async def _profile(self, farm: System, output: Path, report: Document) -> None:
        """Load a fresh farm by 64 writers once more, not counted, and profile its leader meanwhile."""
        settings = self._settings
        writers = self._writers(farm, CONCURRENT)
        tool = "py-spy" if profile.py_spy() else "cProfile"
        output.parent.mkdir(parents=True, exist_ok=True)
        with scratch(settings.directory) as directory:
            async with farm.cluster(directory, cprofile=tool == "cProfile") as cluster:
                leader = await cluster.leader()
                async with asyncio.TaskGroup() as group:
                    work = group.create_task(self._load(cluster, CONCURRENT.batch, writers))
                    if tool == "py-spy":
                        await asyncio.sleep(settings.warmup)
                        group.create_task(profile.sample(leader.pid, settings.seconds, output))
            # The nodes have stopped only here, so that cProfile's files are whole.
            if tool == "py-spy":
                summary = profile.read_folded(output)
            else:
                shutil.copyfile(_cprofile(leader), output)
                summary = profile.read_cprofile(output), {}
        one = _figures(work.result())
        add_profile(report, tool, str(output), summary, one.entries_per_second)
        self._progress(f"profile by {tool}: {_rate(one)}")


def _cprofile(leader: ClusterProcess) -> Path:
    if leader.cprofile is None or not leader.cprofile.exists():
        raise BenchError("The leader wrote no cProfile file. Install py-spy: .venv/bin/pip install py-spy")
    return leader.cprofile


def _first(error: BaseException) -> BaseException:
    """Return the first error of a group of groups."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _rate(one: BenchFigures) -> str:
    times = f"p50 {figure_text(one.p50_ms)} ms, p99 {figure_text(one.p99_ms)} ms"
    return f"{figure_text(one.entries_per_second)} entries/s, {times}"


def _figures(sample: Sample) -> BenchFigures:
    try:
        return figures(sample)
    except ValueError:
        raise BenchError(f"No request was answered in {sample.seconds:.1f} s. Try more --seconds.") from None


@contextmanager
def scratch(parent: Path) -> Iterator[Path]:
    """Make a directory for one repeat; remove it afterwards, and sync the disk."""
    with tempfile.TemporaryDirectory(prefix="bench-", dir=parent) as directory:
        yield Path(directory)
    os.sync()  # the next repeat must not pay for this one's unwritten data


def describe_machine(systems: tuple[System, ...]) -> dict[str, Any]:
    """Return the facts that explain the figures: cores, load, versions."""
    return {
        "cores": len(os.sched_getaffinity(0)),
        "load": os.getloadavg()[0],
        "kernel": platform.release(),
        "python": platform.python_version(),
        "versions": {system.title: system.version() for system in systems},
    }


def say(text: str) -> None:
    """Show progress."""
    print(text, file=sys.stderr, flush=True)
