"""The job `stream`: reads histories while they grow, and keeps entries, health and alerts up to date.

Spark keeps in the lake how far the stream has read. A request to end takes effect between two batches. After an
interruption in the middle of a batch, the next run takes that batch again, and adds nothing twice.
"""

import json
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from threading import Event as Flag
from typing import TYPE_CHECKING, Any, Final

from pyspark.errors import PySparkException
from pyspark.sql import functions as fn

from gf_i2p.farm import schema as farm_schema
from gf_i2p.node.clock import now_ms
from gf_i2p.pipeline.errors import PipelineError
from gf_i2p.pipeline.lake import tables
from gf_i2p.pipeline.lake.paths import Lake, absolute
from gf_i2p.pipeline.read.history_files import LISTED, listed
from gf_i2p.pipeline.read.record_schema import columns
from gf_i2p.pipeline.stream.alerts import EVENTS, MAX_EVENTS, AlertLimits
from gf_i2p.pipeline.stream.batch import BATCH, Taking, batches_root, ending_path, figures_path, stream_root
from gf_i2p.pipeline.stream.history_source import DEFAULT_BYTES, FORMAT, HistorySource
from gf_i2p.pipeline.stream.silent_farms import SilentFarms

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

DEFAULT_EVERY: Final = 60
_LOOK_SECONDS: Final = 0.5
"""Seconds between two looks at the batch and at the request to end."""
_QUIET_LOOKS: Final = 2
"""Looks in a row without a batch, after which the run ends. A batch planned before the mark has begun by then."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Counts of one batch of the stream."""

    batch: int
    lines: int
    entries: int
    """Entries in these lines, also entries that the lake had already."""
    new: int
    quarantined: int
    """New rows of the quarantine."""
    events: int
    newest_ms: int | None
    """Time when the newest status record of the batch was received; None: the batch had none."""
    ended_ms: int
    seconds: float

    @property
    def lag_seconds(self) -> float | None:
        """Age of the batch's newest status record at the end of the batch; None: the batch had no such record."""
        return None if self.newest_ms is None else (self.ended_ms - self.newest_ms) / 1000


@dataclass(frozen=True, slots=True)
class Event:
    """The beginning or end of an alert; see `alerts.EVENTS`."""

    farm: str
    server: int | None
    alert: str
    event: str
    at_ms: int
    value: float | None
    text: str
    noticed_ms: int


@dataclass(slots=True)
class StreamFigures:
    """Counts of all batches in one run of the stream."""

    batches: int = 0
    lines: int = 0
    entries: int = 0
    new: int = 0
    quarantined: int = 0
    events: int = 0
    lag_seconds: float | None = None
    """Lag of the last batch that had status records."""
    seconds: float = 0.0

    def add(self, batch: Batch) -> None:
        """Count a further batch."""
        self.batches += 1
        for name in ("lines", "entries", "new", "quarantined", "events"):
            setattr(self, name, getattr(self, name) + getattr(batch, name))
        self.lag_seconds = self.lag_seconds if batch.lag_seconds is None else batch.lag_seconds


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """Settings of one run of the job `stream`."""

    once: bool = False
    """Take in the present entries, and end."""
    every_seconds: int = DEFAULT_EVERY
    """The least seconds between the beginnings of two batches."""
    batch_bytes: int = DEFAULT_BYTES
    """Approximate size of a batch, in unpacked bytes."""
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
) -> StreamFigures:
    """Take in growing histories under directories, until `stop` is set. With `options.once`, end after present entries.

    `exports`: paths of directories, or addresses. `on_batch` and `on_event` are called for each batch and event.
    `clock_ms`: the clock by which farms fall silent, in milliseconds since the epoch. Raises `PipelineError`.
    """
    run = _StreamRun(spark, lake, options, on_batch, on_event, clock_ms)
    try:
        return run.stream_exports([absolute(path) for path in exports], Flag() if stop is None else stop)
    except PySparkException as error:
        raise _failed(error) from error


class _StreamRun:
    def __init__(
        self,
        spark: "SparkSession",
        lake: Lake,
        options: StreamOptions,
        on_batch: Callable[[Batch], None],
        on_event: Callable[[Event], None],
        clock_ms: Callable[[], int],
    ) -> None:
        self.spark = spark
        self.lake = lake
        self.options = options
        self.figures = StreamFigures()
        self._on_batch = on_batch
        self._on_event = on_event
        self._clock_ms = clock_ms
        self._reported_ms = 0
        self._last_batch = -1  # number of the last batch that was reported
        self._old_progress: Collection[tuple[int, str]] = ()  # the newest progress reports of Spark that were read
        self._last_farms: frozenset[str] = frozenset()  # the farms of the last batch

    def stream_exports(self, exports: Sequence[str], stop: Flag) -> StreamFigures:
        began = time.monotonic()
        self._check(exports)
        self._reported_ms = self._last_event() if self.options.noticed_ms is None else self.options.noticed_ms
        self._report_events()
        self._silence = SilentFarms(
            self.spark, self.lake, stream_root(self.lake), self.options.limits.farm_silent_ms, self._clock_ms
        )
        query = self._start(exports)
        try:
            while not query.awaitTermination(_LOOK_SECONDS):  # type: ignore[arg-type]  # Spark takes parts of seconds
                self._poll(query)
                if stop.is_set():
                    self._end(query)
                    break
            self._report_batches(query)
        finally:
            query.stop()
        if (error := query.exception()) is not None:
            raise _failed(error)
        if self.options.once:  # every file has been read
            self._note_silence()
        self.figures.seconds = time.monotonic() - began
        return self.figures

    def _check(self, exports: Sequence[str]) -> None:
        directories = self.spark.createDataFrame([(path,) for path in exports], "path string")
        found = directories.mapInArrow(listed, columns(LISTED)).where("error is not null").select("path", "error")
        unreadable = next((row for row in found.collect() if row["path"] in exports), None)
        if unreadable is not None:
            raise PipelineError(f"{unreadable['error']}. Give directories that contain nodes' histories.")

    def _start(self, exports: Sequence[str]) -> "StreamingQuery":
        for left_over in (ending_path(self.lake), batches_root(self.lake)):
            tables.delete(self.spark, left_over)
        self.spark.dataSource.register(HistorySource)
        lines = (
            self.spark.readStream.format(FORMAT)
            .option("directories", json.dumps(sorted(exports)))
            .option("maxBytesPerTrigger", self.options.batch_bytes)
            .option("ending", ending_path(self.lake))
            .load()
        )
        adaptive = str(self.spark.conf.get("spark.sql.adaptive.enabled"))
        writer = (
            lines.writeStream.queryName("gf-i2p")
            .foreachBatch(Taking(self.lake, farm_schema.text(), self.options.limits, adaptive))
            .option("checkpointLocation", f"{stream_root(self.lake)}/checkpoint")
        )
        if self.options.once:
            return writer.trigger(availableNow=True).start()
        return writer.trigger(processingTime=f"{self.options.every_seconds} seconds").start()

    def _end(self, query: "StreamingQuery") -> None:
        """Let no further batch begin, and wait for the end of the present batch.

        Without the mark, Spark would begin the next batch at once if batches take too long, and `stop` would interrupt
        that batch.
        """
        self.spark.range(1).coalesce(1).write.mode("overwrite").parquet(ending_path(self.lake))
        quiet = 0
        while quiet < _QUIET_LOOKS and not query.awaitTermination(_LOOK_SECONDS):  # type: ignore[arg-type]
            self._report_batches(query)
            status = query.status
            quiet = 0 if status["isTriggerActive"] and status["isDataAvailable"] else quiet + 1

    def _poll(self, query: "StreamingQuery") -> None:
        """Report batches; look for silent farms when a batch has just ended, or when no batch runs."""
        # The status comes first: then `_report_batches` knows all batches that had ended.
        status, before = query.status, self._last_batch
        self._report_batches(query)
        is_idle = not status["isTriggerActive"] and status["message"].startswith("Waiting")
        if self._last_batch != before or is_idle:
            is_unsure = self._last_batch != before or status["isDataAvailable"]
            self._note_silence(self._last_farms if is_unsure else frozenset())

    def _note_silence(self, unsure: frozenset[str] = frozenset()) -> None:
        if events := self._silence.look(unsure):
            self.figures.events += events
            self._report_events()

    def _report_batches(self, query: "StreamingQuery") -> None:
        recent = {(progress["batchId"], progress["timestamp"]): progress for progress in query.recentProgress}
        for (number, at), progress in recent.items():
            if number <= self._last_batch or (number, at) in self._old_progress:
                continue
            # Spark also reports the next batch while it has no data; such a batch has no figures.
            row = tables.read_path(self.spark, figures_path(self.lake, number), BATCH).first()
            if row is None:
                continue
            self._last_batch = number
            seconds = progress["batchDuration"] / 1000
            values = row.asDict()
            farms = values.pop("farms") or {}
            self._silence.hear(farms)
            self._last_farms = frozenset(farms)
            batch = Batch(seconds=seconds, **values)
            self.figures.add(batch)
            if batch.events:
                self._report_events()
            self._on_batch(batch)
        self._old_progress = recent.keys()

    def _events(self) -> Any:
        return tables.read_columns(self.spark, self.lake, "alerts", EVENTS)

    def _last_event(self) -> int:
        row = self._events().agg(fn.max("noticed_ms")).first()
        return 0 if row is None or row[0] is None else int(row[0])

    def _report_events(self) -> None:
        news = self._events().where(fn.col("noticed_ms") > self._reported_ms)
        for row in news.orderBy("noticed_ms", "farm", "server", "alert").limit(MAX_EVENTS).collect():
            event = Event(**row.asDict())
            self._reported_ms = max(self._reported_ms, event.noticed_ms)
            self._on_event(event)


def _failed(error: BaseException) -> PipelineError:
    lines = str(error).strip().splitlines() or [type(error).__name__]
    why = next((line for line in reversed(lines) if "Error: " in line and not line.startswith("\tat ")), lines[0])
    return PipelineError(
        f"The stream has failed: {why.strip()[:1000]}. Run the stream again: the job goes on where it stopped."
    )
