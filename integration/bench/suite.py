"""The whole measurement: repeats interleaved between the systems, fresh clusters each, one at a time.

One at a time, because an idle etcd of three nodes still uses about 5 % of a core (measured). Fresh, because a cluster
keeps all entries in memory and on disk, which makes each repeat slower than the one before.
"""

import asyncio
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gf_i2p.transport.event_loop import loop_factory
from integration.bench import h2load, load, profile
from integration.bench.etcd import EtcdCluster
from integration.bench.load import CONCURRENT, Sample, Workload
from integration.bench.report import BenchFigures, Document, Result, add_profile, document, figure_text, figures
from integration.bench.system import BenchError, Cluster, ClusterProcess, System

C_CLIENT = "etcd (C client)"
START_SECONDS = 2.0  # about the time of a cluster's start: for the forecast only


@dataclass(frozen=True, slots=True)
class Settings:
    """The choices of the command line. Times in seconds."""

    systems: tuple[System, ...]
    workloads: tuple[Workload, ...]
    directory: Path
    seconds: float = 5.0
    warmup: float = 1.0
    repeats: int = 3
    bulk_writers: int | None = None  # None: the best number for each system
    profile: Path | None = None


class Suite:
    """Runs the measurement of the settings and keeps the results."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._results: dict[tuple[str, str], Result] = {}
        self._started = time.monotonic()
        self._done = 0
        self._c_client = h2load.available() and CONCURRENT in settings.workloads
        runs = 0
        for system in settings.systems:
            runs += len(settings.workloads) + (self._c_client and system.name == "etcd")
        self._total = runs * settings.repeats + (settings.profile is not None)
        blocks = len(settings.systems) * settings.repeats + (settings.profile is not None)
        self._forecast = self._total * (settings.seconds + settings.warmup) + blocks * START_SECONDS

    def run(self) -> Document:
        """Measure everything. Raises BenchError; all processes are stopped and all files removed at the end."""
        settings = self._settings
        for system in settings.systems:
            system.check()
        settings.directory.mkdir(parents=True, exist_ok=True)
        machine = describe_machine(settings.directory)
        say(f"{self._total} runs, about {self._forecast:.0f} s. An fsync takes {figure_text(machine['fsync_ms'])} ms.")
        if machine["load"] > 0.3 * machine["cores"]:
            say(f"The machine is busy (load {machine['load']:.1f}): the figures will suffer. Stop what else runs.")
        for _ in range(settings.repeats):
            for system in settings.systems:
                self._in_loop(system, self._measure(system))
        report = document(
            sorted(self._results.values(), key=lambda result: settings.workloads.index(result.workload)),
            machine,
            {
                "seconds": settings.seconds,
                "warmup": settings.warmup,
                "repeats": settings.repeats,
                "value_bytes": load.VALUE_BYTES,
            },
        )
        if settings.profile is not None:
            farm = next(system for system in settings.systems if system.name == "farm")
            try:
                self._in_loop(farm, self._profile(farm, settings.profile, report))
            except BenchError as error:  # the figures are worth showing without a profile
                say(f"No profile: {error}")
        return report

    @staticmethod
    def _in_loop(system: System, work: Coroutine[Any, Any, None]) -> None:
        with asyncio.Runner(loop_factory=system.new_loop or loop_factory()) as runner:
            runner.run(work)

    async def _measure(self, system: System) -> None:
        """Run one repeat of all workloads on a fresh cluster."""
        settings = self._settings
        with scratch(settings.directory) as directory:
            async with system.cluster(directory) as cluster:
                for workload in settings.workloads:
                    writers = self._writers(system, workload)
                    sample = await self._load(cluster, workload.batch, writers)
                    self._keep(workload, system.title, writers, sample)
                    if self._c_client and workload is CONCURRENT and isinstance(cluster, EtcdCluster):
                        sample = await h2load.run(
                            cluster, directory, writers, warmup=settings.warmup, seconds=settings.seconds
                        )
                        self._keep(workload, C_CLIENT, writers, sample)

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
        self._progress(f"{column}, {workload.title}", one)

    def _progress(self, what: str, one: BenchFigures) -> None:
        self._done += 1
        elapsed = time.monotonic() - self._started
        say(
            f"[{self._done:2}/{self._total}, {elapsed:3.0f} s] {what}: "
            f"{figure_text(one.entries_per_second)} entries/s, "
            f"p50 {figure_text(one.p50_ms)} ms, p99 {figure_text(one.p99_ms)} ms"
        )

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
        self._progress(f"profile by {tool}", one)


def _cprofile(leader: ClusterProcess) -> Path:
    if leader.cprofile is None or not leader.cprofile.exists():
        raise BenchError("The leader wrote no cProfile file. Install py-spy: .venv/bin/pip install py-spy")
    return leader.cprofile


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


def describe_machine(directory: Path) -> dict[str, Any]:
    """Return the facts that explain the figures: cores, load, and the time of an fsync of 1 KiB on that disk."""
    with tempfile.TemporaryFile(dir=directory) as file:
        times = []
        for _ in range(200):
            file.write(bytes(load.VALUE_BYTES))
            file.flush()
            start = time.perf_counter()
            os.fdatasync(file.fileno())
            times.append(time.perf_counter() - start)
    return {
        "cores": len(os.sched_getaffinity(0)),
        "load": os.getloadavg()[0],
        "fsync_ms": statistics.median(times) * 1000,
        "python": sys.version.split()[0],
    }


def say(text: str) -> None:
    """Show progress."""
    print(text, file=sys.stderr, flush=True)
