"""Makes histories of invented farms, for tests and for load tests of the jobs. Everything follows from a seed.

    OUT/FARM/server-ID/entries-….jsonl(.gz)   the export of that server
    OUT/manifest.json                         the facts of all farms: counts, absences, faults

There are a few kinds of farm. For each kind, some days are simulated: the *lives* (`farm_life`). Each day of a farm is
one of these lives, with another date and the farm's own name. The reason is speed: simulating takes a millisecond an
entry, and writing a few microseconds. So a farm's days repeat. At midnight, uptimes begin anew, and a new leader is
elected. Farms of one kind have the same destinations. Every day begins with a Configuration.
"""

import json
import multiprocessing
import os
import pickle
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import Any, Final, TypeVar

from gf_i2p.pipeline.errors import PipelineError
from gf_i2p.pipeline.synth.export_faults import FAULTY, write_faults
from gf_i2p.pipeline.synth.farm_life import Shape, SynthLife, simulate_life
from gf_i2p.pipeline.synth.history_generator import ROTATE_BYTES, HistoryGenerator, Template

MANIFEST: Final = "manifest.json"
FIRST_DAY: Final = date(2025, 1, 1)
MAX_DAYS: Final = 36_500
_SHAPES: Final = 4
"""Number of kinds of farm."""
_LIVES: Final = 3
"""Number of simulated lives of each kind."""
_SERVERS: Final = (3, 3, 3, 4, 5)
_MEMBERS: Final = (0, 0, 1, 3)
_LEAVES: Final = (1, 2, 2, 3)
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class SynthOptions:
    """Settings of one run of the job `synth`."""

    out: Path
    """A directory that is new, or empty."""
    farms: int = 4
    days: int = 7
    rows: int | None = None
    """Least number of entries of all farms, reached with whole days; replaces `days`. None: `days` counts."""
    seed: int = 1
    nodes: int = 1
    """Number of servers of each farm that export, or all servers if the farm has fewer."""
    faults: bool = False
    """Whether to make one more farm, `export_faults.FAULTY`, with broken files and lines."""
    level: int = 1
    """Compression level of gzip, 1 to 9."""
    processes: int | None = None
    """Number of worker processes; None: one for each core."""
    hours: float = 24.0
    """Hours of each day, from midnight on, that are simulated. Tests use fewer hours."""
    rotate: int = ROTATE_BYTES
    """Size of a plain history file at which the next file begins, in bytes."""


@dataclass(frozen=True, slots=True)
class SynthFigures:
    """Counts, bytes and durations of one run of the job `synth`."""

    farms: int
    days: int
    """Number of days of each farm."""
    entries: int
    """Number of entries in all farms. An entry that several servers export counts once."""
    status: int
    """Number of entries that are status records."""
    lines: int
    """Number of lines in all exports. An entry that several servers export counts once for each server."""
    files: int
    raw_bytes: int
    """Bytes of all lines before packing with gzip."""
    bytes: int
    """Bytes of all files on the disk."""
    life_seconds: float
    """Seconds that the simulation of the lives took."""
    seconds: float
    """Seconds that the writing of the exports took."""

    @property
    def rows_per_second(self) -> float:
        """Lines written in a second."""
        return self.lines / max(self.seconds, 1e-9)


@dataclass(frozen=True, slots=True)
class _Farm:
    """The plan of one farm: its kind, and the simulated life that each day repeats."""

    name: str
    lives: tuple[Path, ...]
    """Files with the lives of the farm's kind."""
    days: tuple[int, ...]
    """For each day, the number of the life that the day repeats."""


def synth(options: SynthOptions, *, say: Callable[[str], None] = lambda _: None) -> SynthFigures:
    """Make all histories. `say`: called with each step. Raises `PipelineError` and `OSError`."""
    out = options.out
    make_empty(out)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="gf-i2p-synth-") as scratch, _pool(options) as pool:
        kinds = _simulate(pool, options, Path(scratch), say)
        simulated = time.monotonic()
        farms = _plan(options, kinds)
        facts = _finished([pool.submit(_write_farm, options, farm) for farm in farms], "farms written", say)
        truth: dict[str, Any] = {"seed": options.seed, "firstDay": FIRST_DAY.isoformat(), "days": len(farms[0].days)}
        truth["entries"] = sum(sum(farm["entries"].values()) for farm in facts)
        truth["farms"] = {farm.pop("name"): farm for farm in facts}
        if options.faults:
            truth["faults"] = write_faults(out / FAULTY, _load(kinds[0][0]), midnight_ms(0))
    (out / MANIFEST).write_text(json.dumps(truth, indent=1) + "\n", encoding="utf-8")
    exports = [each for farm in facts for each in farm["exports"].values()]
    return SynthFigures(
        farms=len(facts),
        days=len(farms[0].days),
        entries=truth["entries"],
        status=sum(farm["entries"]["status"] for farm in facts),
        lines=sum(each["lines"] for each in exports),
        files=sum(each["files"] for each in exports),
        raw_bytes=sum(each["rawBytes"] for each in exports),
        bytes=sum(each["bytes"] for each in exports),
        life_seconds=simulated - began,
        seconds=time.monotonic() - simulated,
    )


def make_empty(out: Path) -> None:
    """Make a directory for histories. Raises `PipelineError` if the directory holds something, and `OSError`."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise PipelineError(f"{out} exists already: give a directory that is new, or empty, for the histories.")
    out.mkdir(mode=0o700, parents=True, exist_ok=True)


def midnight_ms(day: int) -> int:
    """Return the start of a day, in milliseconds since the epoch. Day 0 is `FIRST_DAY`."""
    began = datetime.combine(FIRST_DAY + timedelta(days=day), datetime.min.time(), UTC)
    return int(began.timestamp()) * 1000


# Lives ----------------------------------------------------------------------------------------------------------------


def _simulate(pool: Executor, options: SynthOptions, scratch: Path, say: Callable[[str], None]) -> list[list[Path]]:
    """Simulate the lives of each kind of farm, and return the files with the lives."""
    lives = _LIVES if options.rows is not None else min(options.days, _LIVES)
    chance = Random(f"synth shapes {options.seed}")  # noqa: S311 -- must be repeatable, and keeps no secret
    shapes = [
        Shape(number, chance.choice(_SERVERS), chance.choice(_MEMBERS), chance.choice(_LEAVES))
        for number in range(min(options.farms, _SHAPES))
    ]
    paths = [[scratch / f"{shape.number}-{number}" for number in range(lives)] for shape in shapes]
    tasks = [
        pool.submit(_store_life, shape, options.seed * 1_000 + number, options.hours, path)
        for shape, of_shape in zip(shapes, paths, strict=True)
        for number, path in enumerate(of_shape)
    ]
    _finished(tasks, "days simulated", say)
    return paths


def _finished(tasks: Sequence[Future[_T]], done: str, say: Callable[[str], None]) -> list[_T]:
    """Wait for tasks, and return their results. `done`: says what was done, for the words of each step."""
    for number, task in enumerate(as_completed(tasks), 1):
        task.result()
        say(f"{number} of {len(tasks)} {done}")
    return [task.result() for task in tasks]


def _store_life(shape: Shape, seed: int, hours: float, path: Path) -> None:
    path.write_bytes(pickle.dumps(simulate_life(shape, seed, hours=hours)))


@lru_cache(maxsize=_SHAPES * _LIVES)
def _load(path: Path) -> SynthLife:
    life = pickle.loads(path.read_bytes())  # noqa: S301 -- this run has written the file
    assert isinstance(life, SynthLife)
    return life


# Farms ----------------------------------------------------------------------------------------------------------------


def _plan(options: SynthOptions, kinds: list[list[Path]]) -> list[_Farm]:
    """Draw at random which life each day of each farm repeats; return the plans. `kinds`: files with lives, by kind."""
    chances = [Random(f"synth days {options.seed} {number}") for number in range(options.farms)]  # noqa: S311
    drawn: list[list[int]] = [[] for _ in chances]
    rows = 0
    while rows < options.rows if options.rows is not None else len(drawn[0]) < options.days:
        for number, chance in enumerate(chances):
            of_kind = kinds[number % len(kinds)]
            drawn[number].append(chance.randrange(len(of_kind)))
            rows += len(_load(of_kind[drawn[number][-1]]).entries)
        if len(drawn[0]) > MAX_DAYS:
            raise PipelineError(f"So many rows take more than {MAX_DAYS:,} days: ask for more farms (--farms).")
    width = len(str(options.farms - 1))
    return [
        _Farm(f"farm-{number:0{width}}", tuple(kinds[number % len(kinds)]), tuple(days))
        for number, days in enumerate(drawn)
    ]


def _write_farm(options: SynthOptions, farm: _Farm) -> dict[str, Any]:
    """Write the exports of some servers of a farm; return the farm's facts for the manifest."""
    lives = [_load(path) for path in farm.lives]
    servers = range(1, min(lives[0].shape.servers, options.nodes) + 1)
    exports: dict[int, dict[str, Any]] = {}
    present: list[set[int]] = [set() for _ in lives]  # entries of each life that some server has
    for server in servers:
        templates = [Template.make(life, server, farm.name) for life in lives]
        for indexes, template in zip(present, templates, strict=True):
            indexes.update(template.present)
        writer = HistoryGenerator(
            options.out / farm.name / f"server-{server}", farm.name, server, level=options.level, rotate=options.rotate
        )
        index = term = 0
        kinds: Counter[str] = Counter()
        for day, number in enumerate(farm.days):
            template = templates[number]
            writer.day(template, midnight_ms(day), index, term)
            index += template.entries
            term += template.terms
            kinds += template.kinds
        writer.close()
        exports[server] = {
            "lines": kinds.total(),
            "missing": index - kinds.total(),
            "gaps": sum(templates[number].gaps for number in farm.days),
            "files": len(writer.files),
            "rawBytes": writer.raw_bytes,
            "bytes": writer.bytes,
            "lastIndex": index,
            "lastTerm": term,
        }
    return {"name": farm.name, **_truth(lives, farm.days, present), "exports": exports}


def _truth(lives: list[SynthLife], days: Iterable[int], present: list[set[int]]) -> dict[str, Any]:
    """Return a farm's facts for the manifest. `present`: the entries of each life that some export has."""
    kinds = [
        Counter(entry.kind for index, entry in enumerate(life.entries, 1) if index in indexes)
        for life, indexes in zip(lives, present, strict=True)
    ]
    total = Counter({"status": 0, "admin": 0, "servers": 0})
    for number in days:
        total.update(kinds[number])
    return {
        "shape": asdict(lives[0].shape),
        "entries": dict(total),
        "days": "".join(map(str, days)),
        "lives": [
            {
                "entries": dict(of_life),
                "terms": life.last_term,
                "faults": life.faults,
                "away": {
                    server: [[round(at, 1) for at in each] for each in all_] for server, all_ in life.away.items()
                },
            }
            for life, of_life in zip(lives, kinds, strict=True)
        ],
    }


@contextmanager
def _pool(options: SynthOptions) -> Iterator[Executor]:
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    processes = options.processes or usable
    if processes == 1:
        with ThreadPoolExecutor(1) as pool:  # spares the start of a process
            yield pool
        return
    with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as pool:
        try:
            yield pool
        except BaseException:  # Ctrl-C among others: the end of the block would wait for all tasks
            pool.shutdown(wait=False, cancel_futures=True)
            for process in multiprocessing.active_children():
                process.terminate()
            raise
