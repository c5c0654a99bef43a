"""How far the pipeline's jobs reach on this machine: made-up histories through ingest, health and backtest.

    python -m integration.runs.sizing [--rows 50000000] [--and-twice] [--memory 4096] [--farms 8] [--nodes 1]

The jobs run as `gf-i2p pipeline …` does, one after the other; --until ends with an earlier one. The backtest takes the
live parameters and one other set, for its time is about that of a set by their number: --set gives others. Printed for
each: seconds, rows a second, and what the JVM and Python's workers had of memory at most; and sizes on the disk. With
--and-twice all of it once more with twice the rows. Seen to hold, or exit 1: every job ends well, the lake has each
entry once, and twice the rows take at most 2.2 times as long.
"""

import argparse
import asyncio
import contextlib
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from integration.harness.local_farm import PROGRAM
from integration.harness.long_run import Figures, between, conclude, say
from integration.harness.processes import Processes, tail

MOST_RATIO: Final = 2.2
"""Of the times with twice the rows."""
TAKES: Final = ("ingest", "health", "backtest")
DEFAULT_SETS: Final = ("margin=50",)
"""What the backtest tries beside the live parameters."""
_POLL_SECONDS: Final = 0.2
_LIMIT_SECONDS: Final = 12 * 3600.0
_MB: Final = 1e6
_PROC: Final = Path("/proc")


@dataclass(slots=True)
class Memory:
    """What a job's processes had of the machine's memory at most, in bytes."""

    jvm: int = 0
    workers: int = 0
    """Python's, all together; memory that they share counts in each."""
    worker: int = 0
    """The largest of them."""
    count: int = 0
    """Of workers at a time."""

    def look(self, pid: int) -> None:
        """Take in what the process and those below it have now. Spark has started them, or its helpers have."""
        workers: list[int] = []
        for each in _family(pid):
            with contextlib.suppress(OSError, ValueError, StopIteration):  # it may end while it is looked at
                name = (_PROC / str(each) / "comm").read_text().strip()
                status = (_PROC / str(each) / "status").read_text().splitlines()
                resident = next(int(line.split()[1]) for line in status if line.startswith("VmRSS:")) * 1024
                if name == "java":
                    self.jvm = max(self.jvm, resident)
                elif each != pid and name.startswith("python"):
                    workers.append(resident)
        self.workers = max(self.workers, sum(workers))
        self.worker = max(self.worker, *workers, 0)
        self.count = max(self.count, len(workers))


def _family(pid: int) -> list[int]:
    """List a process and all that it and its children have started, and have not left to others."""
    found = [pid]
    for each in found:
        with contextlib.suppress(OSError):
            for task in (_PROC / str(each) / "task").iterdir():
                with contextlib.suppress(OSError):
                    found += map(int, (task / "children").read_text().split())
    return found


@dataclass(slots=True)
class Ran:
    """One job that has run."""

    job: str
    rows: int
    seconds: float
    """Of the whole process: Spark's start, too."""
    memory: Memory
    said: dict[str, Any] = field(default_factory=dict)
    """Its figures."""

    @property
    def own_seconds(self) -> float:
        """Those of its work, as it says itself; of the process where it does not."""
        own = self.said.get("seconds")
        return float(own) if isinstance(own, int | float) and own > 0 else self.seconds

    def shown(self) -> dict[str, Any]:
        """Give it as a line for people."""
        return {
            "job": self.job,
            "seconds": round(self.seconds, 1),
            "of which work": round(self.own_seconds, 1),
            "rows a second": round(self.rows / self.own_seconds),
            "JVM MB": round(self.memory.jvm / _MB),
            "workers MB": round(self.memory.workers / _MB),
            "largest worker MB": round(self.memory.worker / _MB),
            "workers": self.memory.count,
        }


class FailedError(Exception):
    """A job has failed; `str()` has the end of what it said."""


class Sizing:
    """Runs of the jobs on made-up histories below `directory`."""

    def __init__(self, directory: Path, options: argparse.Namespace) -> None:
        self._directory = directory
        self._options = options
        self.wrong: list[str] = []

    async def once(self, rows: int) -> Figures:
        """Take so many rows through all jobs. Raises `FailedError`."""
        directory = self._directory / str(rows)
        directory.mkdir(mode=0o700)
        exports, lake = directory / "exports", directory / "lake"
        options = self._options
        wanted = ("--rows", rows, "--farms", options.farms, "--nodes", options.nodes, "--seed", options.seed)
        say(f"{rows:,} rows: synth")
        made = await run_job("synth", [exports, *wanted], directory)
        made.rows = made.said["lines"]
        entries, status = made.said["entries"], made.said["status"]
        ran = [made]
        for job in TAKES[: TAKES.index(options.until) + 1]:
            say(f"{rows:,} rows: {job}")
            scratch = directory / "scratch"
            scratch.mkdir()
            more = [lake, *([exports] if job == "ingest" else []), "--memory", options.memory, "--scratch", scratch]
            if job == "backtest":
                more += [word for each in options.set or DEFAULT_SETS for word in ("--set", each)]
            one = await run_job(job, more, directory)
            shutil.rmtree(scratch)
            one.rows = made.said["lines"] if job == "ingest" else status if job == "health" else entries
            ran.append(one)
            say(", ".join(f"{name} {value}" for name, value in one.shown().items()))
            if job == "ingest" and (stored := await asyncio.to_thread(count_rows, lake / "entries")) != entries:
                self.wrong.append(f"{entries:,} entries were made, and the lake has {stored:,}")
            if job == "health" and (seen := one.said.get("records")) != status:
                self.wrong.append(f"{status:,} status records were made, and health has seen {seen}")
        figures = {
            "entries": entries,
            "status_records": status,
            "lines": made.said["lines"],
            "days": made.said["days"],
            "exports_raw_MB": round(made.said["raw_bytes"] / _MB, 1),
            "exports_MB": round(made.said["bytes"] / _MB, 1),
            "tables_MB": [{table.name: round(size(table) / _MB, 2)} for table in sorted(lake.glob("*"))],
            "jobs": [one.shown() for one in ran],
            "seconds": {one.job: one.own_seconds for one in ran},
        }
        if not options.keep:
            shutil.rmtree(directory)
        return figures


async def run_job(job: str, arguments: Sequence[object], directory: Path) -> Ran:
    """Run one job, its output into files of `directory`. Raises `FailedError`."""
    output, log = directory / f"{job}.json", directory / f"{job}.log"
    # Only its answer is on its standard output, and that goes to a file of its own by way of the shell.
    inner = [sys.executable, *PROGRAM, "pipeline", job, *map(str, arguments), "--json"]
    command = ["sh", "-c", 'output="$1"; shift; exec "$@" > "$output"', "sh", str(output), *inner]
    memory, began = Memory(), time.monotonic()
    with Processes(grace=20.0) as processes:
        process = processes.spawn(job, command, log)
        while process.poll() is None:
            memory.look(process.pid)
            await asyncio.sleep(_POLL_SECONDS)
    seconds = time.monotonic() - began
    said = _answer(output)
    if process.returncode != 0 or not said:
        raise FailedError(f"{job} failed ({process.returncode}): {said.get('error') or tail(log)}")
    return Ran(job, 0, seconds, memory, said)


def _answer(output: Path) -> dict[str, Any]:
    with contextlib.suppress(OSError, ValueError, IndexError):
        found = json.loads(output.read_text(encoding="utf-8"))
        return found if isinstance(found, dict) else {}
    return {}


def count_rows(table: Path) -> int:
    """Count the rows of a table by its files' ends."""
    from pyarrow import parquet  # noqa: PLC0415 -- an extra

    return sum(parquet.read_metadata(path).num_rows for path in table.rglob("*.parquet"))


def size(path: Path) -> int:
    """Give the bytes of a directory's files."""
    return sum(each.stat().st_size for each in path.rglob("*") if each.is_file())


async def measure(sizing: Sizing, rows: int, *, and_twice: bool) -> Figures:
    """Run it all."""
    found: Figures = {}
    try:
        first = await sizing.once(rows)
        found |= {name: value for name, value in first.items() if name != "seconds"}
        if and_twice:
            second = await sizing.once(2 * rows)
            found |= {f"twice_{name}": value for name, value in second.items() if name != "seconds"}
            ratios = {job: second["seconds"][job] / first["seconds"][job] for job in first["seconds"]}
            found["ratio_of_entries"] = round(second["entries"] / first["entries"], 3)
            found["ratios_of_times"] = {job: round(ratio, 2) for job, ratio in ratios.items()}
            sizing.wrong += [
                f"twice the rows take {job} {ratio:.2f} times as long: {MOST_RATIO} is allowed"
                for job, ratio in ratios.items()
                if job in TAKES and ratio > MOST_RATIO
            ]
    except FailedError as error:
        sizing.wrong.append(str(error))
    return {**found, "wrong": sizing.wrong}


@contextmanager
def _place(options: argparse.Namespace) -> Iterator[Path]:
    if options.directory is not None:
        options.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(prefix="gf-i2p-sizing-", dir=options.directory))
    try:
        yield made
    finally:
        if not options.keep:
            shutil.rmtree(made, ignore_errors=True)


def main(arguments: list[str] | None = None) -> int:
    """Run it; return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--rows", type=between(1_000, 10**9), default=50_000_000, metavar="N", help="default: 50 million"
    )
    parser.add_argument("--and-twice", action="store_true", help="once more with twice the rows, and compare the times")
    parser.add_argument("--memory", type=between(512, 1 << 20), default=4096, metavar="MB", help="of Spark's heap")
    parser.add_argument("--farms", type=between(1, 10_000), default=8, metavar="N", help="default: 8")
    parser.add_argument("--nodes", type=between(1, 9), default=1, metavar="K", help="that have exported, of each farm")
    parser.add_argument("--seed", type=between(1, 10**9), default=1, metavar="S", help="of the histories (default: 1)")
    parser.add_argument("--until", choices=TAKES, default=TAKES[-1], help="the last job that runs")
    parser.add_argument("--set", action="append", metavar="NAME=V1,V2,…", help="the backtest's (default: margin=50)")
    parser.add_argument("--directory", type=Path, metavar="DIR", help="where there is room: 500 bytes a row, and more")
    parser.add_argument("--keep", action="store_true", help="leave histories and lakes there, and say where")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    options = parser.parse_args(arguments)
    with _place(options) as directory:
        if options.keep:
            say(f"everything stays in {directory}")
        sizing = Sizing(directory, options)
        return conclude(
            options,
            "sizing",
            lambda: measure(sizing, options.rows, and_twice=options.and_twice),
            limit=_LIMIT_SECONDS,
        )


if __name__ == "__main__":
    sys.exit(main())
