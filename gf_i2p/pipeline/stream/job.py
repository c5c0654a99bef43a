"""The job `stream`: keeps entries, health and alerts up to date while histories grow.

Alerts need no Spark: this process reads what the histories have grown by, every few seconds. The tables need Spark, and
a batch for the tables costs seconds of a processor whatever its size. So batches are far apart. A request to end takes
effect between two batches.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from threading import Event as Flag
from typing import TYPE_CHECKING, Final

from pyspark.errors import PySparkException

from gf_i2p.farm import schema as farm_schema
from gf_i2p.node.clock import now_ms
from gf_i2p.pipeline.errors import NothingToDoError, PipelineError
from gf_i2p.pipeline.health.job import refresh_days
from gf_i2p.pipeline.ingest.batch import BatchFigures, BatchWriter
from gf_i2p.pipeline.ingest.job import batches, tasks_for
from gf_i2p.pipeline.ingest.read_files import FilesRead, listing
from gf_i2p.pipeline.lake import tables
from gf_i2p.pipeline.lake.paths import Lake, absolute
from gf_i2p.pipeline.spark_session import NO_SPACE, failed
from gf_i2p.pipeline.stream.alert_log import AlertLog
from gf_i2p.pipeline.stream.alerts import AlertChange, AlertLimits, FarmWatch, judge
from gf_i2p.pipeline.stream.silent_farms import SilentFarms
from gf_i2p.pipeline.stream.tail import HistoryTail, Report

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DEFAULT_EVERY: Final = 900
"""Seconds. A batch of few entries takes about ten CPU seconds: 1 % of a core."""
LOOK_SECONDS: Final = 5.0
"""Seconds between two looks at the histories for alerts, and most seconds until a request to end takes effect."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Counts of one batch of the stream."""

    batch: int
    """Number of the batch in this run, from 0 on."""
    lines: int
    entries: int
    """Entries in these lines, also entries that the lake had already."""
    new: int
    quarantined: int
    """New rows of the quarantine."""
    newest_ms: int | None
    """Time when the newest status record of the batch's farms was received; None: there was no such record."""
    ended_ms: int
    seconds: float

    @property
    def lag_seconds(self) -> float | None:
        """Age of the newest status record at the end of the batch; None: there was no such record."""
        return None if self.newest_ms is None else (self.ended_ms - self.newest_ms) / 1000


@dataclass(frozen=True, slots=True)
class Event(AlertChange):
    """The beginning or end of an alert, as the table `alerts` has it."""

    noticed_ms: int
    """Time when the stream noticed the event, in ms since the epoch."""


@dataclass(slots=True)
class StreamFigures:
    """Counts of all batches in one run of the stream."""

    batches: int = 0
    lines: int = 0
    entries: int = 0
    new: int = 0
    quarantined: int = 0
    events: int = 0
    """Alerts that have begun or ended."""
    lag_seconds: float | None = None
    """Lag of the last batch that had status records."""
    seconds: float = 0.0

    def add(self, batch: Batch) -> None:
        """Count a further batch."""
        self.batches += 1
        for name in ("lines", "entries", "new", "quarantined"):
            setattr(self, name, getattr(self, name) + getattr(batch, name))
        self.lag_seconds = self.lag_seconds if batch.lag_seconds is None else batch.lag_seconds


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """Settings of one run of the job `stream`."""

    once: bool = False
    """Take in the present entries, and end."""
    every_seconds: int = DEFAULT_EVERY
    """The least seconds between the beginnings of two batches."""
    limits: AlertLimits = field(default_factory=AlertLimits)
    noticed_ms: int | None = None
    """Time, in ms since the epoch, up to which events were noticed that an earlier run has reported.

    None: earlier runs have reported all events that the lake has when the run begins.
    """


def stream(
    spark: "SparkSession",
    lake: Lake,
    exports: Sequence[str],
    options: StreamOptions,
    *,
    on_batch: Callable[[Batch], None] = lambda _: None,
    on_event: Callable[[Event], None] = lambda _: None,
    stop: Flag | None = None,
    clock_ms: Callable[[], int] = now_ms,
    step: Callable[[str], None] = lambda _: None,
) -> StreamFigures:
    """Take in growing histories under directories, until `stop` is set. With `options.once`, end after present entries.

    `exports`: paths of directories, or addresses; this process and Spark's workers must reach them. `on_batch` and
    `on_event` are called for each batch and event. `clock_ms`: the clock by which farms fall silent, in milliseconds
    since the epoch. `step`: called with the name of each step. Raises `PipelineError`.
    """
    stage = f"{lake.root}/_stream/batch"
    try:
        run = _StreamRun(spark, lake, [absolute(path) for path in exports], options, on_batch, on_event, clock_ms, step)
        return run.until(Flag() if stop is None else stop)
    except PySparkException as error:
        if NO_SPACE in str(error):
            raise  # the session knows the disks
        raise failed(error, "taking a batch") from error
    finally:
        tables.delete(spark, stage)


@dataclass
class _StreamRun:
    spark: "SparkSession"
    lake: Lake
    exports: Sequence[str]
    options: StreamOptions
    on_batch: Callable[[Batch], None]
    on_event: Callable[[Event], None]
    clock_ms: Callable[[], int]
    step: Callable[[str], None]

    def __post_init__(self) -> None:
        self._stage = f"{self.lake.root}/_stream/batch"
        self._figures = StreamFigures()
        listing(self.spark, self.exports)  # the workers must reach each export, too: else the run ends at once
        self._writer = BatchWriter(self.spark, self.lake, farm_schema.text(), self._stage, self.step)
        self._read = FilesRead.of_lake(self.spark, self.lake)
        self._log = AlertLog(self.spark, self.lake)
        self._silence = SilentFarms(self.spark, f"{self.lake.root}/_stream", self.options.limits.farm_silent_ms)
        self._tail = HistoryTail(self.exports)
        self._watches: dict[str, FarmWatch] = {}

    def until(self, stop: Flag) -> StreamFigures:
        """Look and take batches until the flag is set."""
        began = time.monotonic()
        if self.options.noticed_ms is not None:
            for row in self._log.since(self.options.noticed_ms):
                self.on_event(Event(**row.asDict()))
        due = began
        while True:
            self._look()
            now = time.monotonic()
            if now >= due and (self._tail.changed or self.options.once):
                due = now + self.options.every_seconds
                self._tail.changed = False
                self._take(stop)
                self.step("")
            if self.options.once or stop.wait(LOOK_SECONDS):
                break
        self._figures.seconds = time.monotonic() - began
        return self._figures

    def _look(self) -> None:
        """Read what the histories have grown by, and tell the alerts that begin and end."""
        now = self.clock_ms()
        heard = set()
        for news in self._tail.read():
            self._watches.setdefault(news.farm, FarmWatch()).add(news)
            if isinstance(news, Report):
                heard.add(news.farm)
                self._silence.hear(news.farm, news.received_ms, now)
        events: list[AlertChange] = []
        for farm in sorted(heard):
            events += judge(farm, self._watches[farm], self.options.limits, self._log.present)
        events += self._silence.look(self._log.present, now)
        if events:
            noticed_ms = self._log.add(events, now)
            self._figures.events += len(events)
            for each in events:
                self.on_event(Event(**asdict(each), noticed_ms=noticed_ms))

    def _take(self, stop: Flag) -> None:
        """Bring the tables up to date, batch by batch, until `stop` is set."""
        try:
            files, _ = listing(self.spark, self.exports)
        except PipelineError:  # an export is away for a moment
            self._tail.changed = True
            return
        for number, batch in enumerate(batches(self._read.news(files))):
            if number:
                if stop.is_set():
                    return
                self._look()
            began = time.monotonic()
            tasks = tasks_for(batch)
            taken = self._writer.take(batch, tasks, self._read, now_ms(), live=True, before_noted=self._refresh)
            self._report(taken, time.monotonic() - began)

    def _refresh(self, days_by_farm: Mapping[str, Sequence[str]]) -> None:
        """Bring the health tables up to date, before the batch counts as read."""
        entries = tables.read_entries(self.spark, self.lake)
        if entries is None or not days_by_farm:
            return
        self.step("bringing the health tables up to date")
        days = sorted({day for each in days_by_farm.values() for day in each})
        with suppress(NothingToDoError):  # the lake has no status record yet
            refresh_days(self.spark, self.lake, entries, sorted(days_by_farm), days, f"{self._stage}/extents")

    def _report(self, taken: BatchFigures, seconds: float) -> None:
        watches = [self._watches[farm] for farm in taken.days if farm in self._watches]
        batch = Batch(
            batch=self._figures.batches,
            lines=sum(file["lines"] for file in taken.files),
            entries=sum(file["entries"] for file in taken.files),
            new=taken.new,
            quarantined=taken.quarantined_rows,
            newest_ms=max((watch.at_ms for watch in watches if watch.at_ms), default=None),
            ended_ms=self.clock_ms(),
            seconds=seconds,
        )
        self._figures.add(batch)
        self.on_batch(batch)
