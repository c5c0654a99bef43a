"""The job `stream`: reads on where histories grow, so that entries, health and alerts are those of now.

Spark keeps in the lake how far it has read. It ends between two batches when it is asked to; whatever ends it in the
middle of one, the next run takes that batch again, which adds nothing twice.
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
from gf_i2p.pipeline.errors import PipelineError
from gf_i2p.pipeline.lake import tables
from gf_i2p.pipeline.lake.paths import Lake, absolute
from gf_i2p.pipeline.read.record_schema import columns
from gf_i2p.pipeline.read.stored_file import now_ms
from gf_i2p.pipeline.read.survey import LISTED, listed
from gf_i2p.pipeline.stream.alerts import EVENTS, MAX_EVENTS, Limits
from gf_i2p.pipeline.stream.batch import BATCH, Taking, batches_root, ending_path, figures_path, stream_root
from gf_i2p.pipeline.stream.history_source import DEFAULT_BYTES, FORMAT, HistorySource
from gf_i2p.pipeline.stream.silent_farms import Silence

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

DEFAULT_EVERY: Final = 60
_LOOK_SECONDS: Final = 0.5
"""Between two looks whether a batch has ended, or we are to end."""
_QUIET_LOOKS: Final = 2
"""A batch that was planned before it was told that none may begin has begun until the second look."""


@dataclass(frozen=True, slots=True)
class Batch:
    """What a batch has done."""

    batch: int
    lines: int
    entries: int
    """In these lines, whether the lake had them or not."""
    new: int
    quarantined: int
    """New rows there."""
    events: int
    newest_ms: int | None
    """When the newest status record among them was received; None: there was none."""
    ended_ms: int
    seconds: float

    @property
    def lag_seconds(self) -> float | None:
        """How old its newest record was at the end."""
        return None if self.newest_ms is None else (self.ended_ms - self.newest_ms) / 1000


@dataclass(frozen=True, slots=True)
class Event:
    """An alert begins or ends; see `alerts.EVENTS`."""

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
    """What a run has done."""

    batches: int = 0
    lines: int = 0
    entries: int = 0
    new: int = 0
    quarantined: int = 0
    events: int = 0
    lag_seconds: float | None = None
    """Of the last batch that had status records."""
    seconds: float = 0.0

    def add(self, batch: Batch) -> None:
        """Count one more."""
        self.batches += 1
        for name in ("lines", "entries", "new", "quarantined", "events"):
            setattr(self, name, getattr(self, name) + getattr(batch, name))
        self.lag_seconds = self.lag_seconds if batch.lag_seconds is None else batch.lag_seconds


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """How it goes."""

    once: bool = False
    """Take what is there, and end."""
    every_seconds: int = DEFAULT_EVERY
    """From the beginning of a batch to that of the next one, at least."""
    batch_bytes: int = DEFAULT_BYTES
    """About how much of the files, unpacked, a batch has."""
    limits: Limits = field(default_factory=Limits)
    noticed_ms: int | None = None
    """Events up to this one have been told; None: all that the lake has when the run begins."""


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
    """Take in histories under directories, or addresses of such, as they grow, until `stop` is set.

    `on_batch` and `on_event` hear of what was done and noticed. `clock_ms`: by which farms fall silent, in ms since the
    epoch. Raises `PipelineError`.
    """
    run = _Run(spark, lake, options, on_batch, on_event, clock_ms)
    try:
        return run.go([absolute(path) for path in exports], Flag() if stop is None else stop)
    except PySparkException as error:
        raise _failed(error) from error


class _Run:
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
        self._told_ms = 0
        self._seen = -1  # the last batch of which was told
        self._looked_at: Collection[tuple[int, str]] = ()  # which of Spark's words
        self._of_last: frozenset[str] = frozenset()  # the farms that were in it

    def go(self, exports: Sequence[str], stop: Flag) -> StreamFigures:
        began = time.monotonic()
        self._check(exports)
        self._told_ms = self._last_event() if self.options.noticed_ms is None else self.options.noticed_ms
        self._tell_events()
        self._silence = Silence(
            self.spark, self.lake, stream_root(self.lake), self.options.limits.farm_silent_ms, self._clock_ms
        )
        query = self._start(exports)
        try:
            while not query.awaitTermination(_LOOK_SECONDS):  # type: ignore[arg-type]  # it takes parts of seconds
                self._look(query)
                if stop.is_set():
                    self._end(query)
                    break
            self._tell(query)
        finally:
            query.stop()
        if (error := query.exception()) is not None:
            raise _failed(error)
        if self.options.once:  # all that was there has been read
            self._note_silence()
        self.figures.seconds = time.monotonic() - began
        return self.figures

    def _check(self, exports: Sequence[str]) -> None:
        asked = self.spark.createDataFrame([(path,) for path in exports], "path string")
        lost = asked.mapInArrow(listed, columns(LISTED)).where("error is not null").select("error").first()
        if lost is not None:
            raise PipelineError(f"{lost[0]}. Give the directories in which nodes' histories are.")

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
        writer = (
            lines.writeStream.queryName("gf-i2p")
            .foreachBatch(Taking(self.lake, farm_schema.text(), self.options.limits))
            .option("checkpointLocation", f"{stream_root(self.lake)}/checkpoint")
        )
        if self.options.once:
            return writer.trigger(availableNow=True).start()
        return writer.trigger(processingTime=f"{self.options.every_seconds} seconds").start()

    def _end(self, query: "StreamingQuery") -> None:
        """Have no further batch begin, and wait for the end of the one that is being taken, if there is one.

        Spark itself would begin the next one at once when batches take longer than they may, and stop in its middle.
        """
        self.spark.range(1).coalesce(1).write.mode("overwrite").parquet(ending_path(self.lake))
        quiet = 0
        while quiet < _QUIET_LOOKS and not query.awaitTermination(_LOOK_SECONDS):  # type: ignore[arg-type]
            self._tell(query)
            status = query.status
            quiet = 0 if status["isTriggerActive"] and status["isDataAvailable"] else quiet + 1

    def _look(self, query: "StreamingQuery") -> None:
        """Tell of batches; and look whether farms are silent, when one has just ended, or none is being taken."""
        status, before = query.status, self._seen  # asked first: of a batch that ended before, `_tell` knows
        self._tell(query)
        is_idle = not status["isTriggerActive"] and status["message"].startswith("Waiting")
        if self._seen != before or is_idle:
            self._note_silence(self._of_last if self._seen != before or status["isDataAvailable"] else frozenset())

    def _note_silence(self, unsure: frozenset[str] = frozenset()) -> None:
        if events := self._silence.look(unsure):
            self.figures.events += events
            self._tell_events()

    def _tell(self, query: "StreamingQuery") -> None:
        recent = {(progress["batchId"], progress["timestamp"]): progress for progress in query.recentProgress}
        for (number, at), progress in recent.items():
            if number <= self._seen or (number, at) in self._looked_at:
                continue
            # Spark speaks of the next batch, too, while there is nothing for it; then it has no figures.
            row = tables.read_path(self.spark, figures_path(self.lake, number), BATCH).first()
            if row is None:
                continue
            self._seen = number
            seconds = progress["batchDuration"] / 1000
            values = row.asDict()
            farms = values.pop("farms") or {}
            self._silence.hear(farms)
            self._of_last = frozenset(farms)
            batch = Batch(seconds=seconds, **values)
            self.figures.add(batch)
            if batch.events:
                self._tell_events()
            self._on_batch(batch)
        self._looked_at = recent.keys()

    def _events(self) -> Any:
        return tables.read_columns(self.spark, self.lake, "alerts", EVENTS)

    def _last_event(self) -> int:
        found = self._events().agg(fn.max("noticed_ms")).first()
        return 0 if found is None or found[0] is None else int(found[0])

    def _tell_events(self) -> None:
        news = self._events().where(fn.col("noticed_ms") > self._told_ms)
        for row in news.orderBy("noticed_ms", "farm", "server", "alert").limit(MAX_EVENTS).collect():
            event = Event(**row.asDict())
            self._told_ms = max(self._told_ms, event.noticed_ms)
            self._on_event(event)


def _failed(error: BaseException) -> PipelineError:
    lines = str(error).strip().splitlines() or [type(error).__name__]
    why = next((line for line in reversed(lines) if "Error: " in line and not line.startswith("\tat ")), lines[0])
    return PipelineError(f"The stream has failed: {why.strip()[:1000]}. Run it again: it goes on where it was.")
