"""A silent farm makes one alert: with or without new batches, and also after a restart of the stream."""

from collections.abc import Callable, Iterable
from pathlib import Path
from threading import Event as Flag

import pytest
from pyspark.sql import SparkSession

from gf_i2p.pipeline.lake import tables
from gf_i2p.pipeline.lake.paths import Lake
from gf_i2p.pipeline.stream.alerts import EVENTS
from gf_i2p.pipeline.stream.job import Batch, Event, StreamFigures, StreamOptions, stream
from gf_i2p.pipeline.stream.silent_farms import ALERT, SilentFarms
from tests.pipeline.entry_rows import Row, entries
from tests.pipeline.made_up_exports import BEAT_MS, at, content, lines, plain

pytestmark = pytest.mark.timeout(900)  # the first test waits for Spark to start

LIMIT_MS = 600_000
BEATS = LIMIT_MS // BEAT_MS


class Watch:
    """A lake, the test's clock, and the alerts about silent farms."""

    def __init__(self, spark: SparkSession, root: Path) -> None:
        self.spark = spark
        self.lake = Lake(str(root / "lake"))
        self.exports = root / "exports"
        self.exports.mkdir()
        self.now_ms = 0
        self.events_told: list[tuple[str, str]] = []
        self.stop = Flag()

    def hear(self, event: Event) -> None:
        """Keep an alert about a silent farm."""
        if event.alert == ALERT:
            assert event.server is None
            self.events_told.append((event.farm, event.event))

    def comes(self, indexes: Iterable[int], farm: str = "farm") -> None:
        """Add status records with these indexes to the lake, as a batch does."""
        rows = [Row(index=index, received_ms=at(index) + 40, farm=farm) for index in indexes]
        entries(self.spark, rows).write.mode("append").partitionBy("farm", "day").parquet(self.lake.path("entries"))

    def restarted(self, now_ms: int) -> list[tuple[str, str, str]]:
        """Start the watch anew at `now_ms`, as a restarted stream does, and look at the lake; return the new alerts."""
        before = len(self.events())
        events = SilentFarms(self.spark, self.lake, f"{self.lake.root}/_stream", LIMIT_MS, lambda: now_ms).look()
        events_of_run = self.events()[before:]
        assert events == len(events_of_run)
        return sorted(events_of_run)

    def events(self) -> list[tuple[str, str, str]]:
        """Return all alerts of the lake, in order."""
        rows = tables.read_columns(self.spark, self.lake, "alerts", EVENTS).orderBy("noticed_ms").collect()
        return [(row["farm"], row["event"], row["text"]) for row in rows]

    def stream(self, options: StreamOptions, on_batch: Callable[[Batch], None] = lambda _: None) -> StreamFigures:
        """Run the job `stream` on the watch's exports, by the test's clock."""
        return stream(
            self.spark,
            self.lake,
            [str(self.exports)],
            options,
            on_batch=on_batch,
            on_event=self.hear,
            stop=self.stop,
            clock_ms=lambda: self.now_ms,
        )


@pytest.fixture
def watch(spark: SparkSession, tmp_path: Path) -> Watch:
    """A watch with an empty lake, and without an export."""
    return Watch(spark, tmp_path)


def test_it_is_told_once_and_ends_with_a_current_record(watch: Watch) -> None:
    """One of two farms falls silent."""
    silent, again = "nothing was heard of the whole farm for 609 s", "there are records of the farm again"
    watch.comes(range(1, 11))
    watch.comes(range(1, 11), "lives")
    assert watch.restarted(at(10 + BEATS)) == []  # at the limit
    watch.comes([11, 12], "lives")
    assert watch.restarted(at(12 + BEATS)) == [("farm", "begins", silent)]
    assert watch.restarted(at(12 + BEATS)) == []
    watch.comes([11])
    assert watch.restarted(at(12 + BEATS)) == []  # the farm was heard, but too long ago
    watch.comes([100, 101])
    assert watch.restarted(at(102)) == [("farm", "ends", again)]
    assert watch.restarted(at(102)) == []
    assert [each[:2] for each in watch.restarted(at(102 + BEATS))] == [("farm", "begins"), ("lives", "begins")]


def test_a_history_that_was_never_current_raises_nothing(watch: Watch) -> None:
    watch.comes(range(1, 11))
    assert watch.restarted(at(12 + BEATS)) == []
    assert watch.restarted(at(12 + 2 * BEATS)) == []
    assert not (Path(watch.lake.root) / "_stream" / "watched").exists()


@pytest.mark.slow  # one more stream
@pytest.mark.usefixtures("without_health")
def test_it_is_noticed_while_no_batch_comes(watch: Watch) -> None:
    """While the stream runs, a farm falls silent and later posts again: two events from a single batch of entries."""
    body = lines(range(1, 11))
    plain(watch.exports, content(body))
    watch.now_ms = at(10)
    watch.stream(StreamOptions(once=True))
    assert watch.events_told == []
    watch.now_ms = at(1000)

    def comes_back(event: Event) -> None:
        Watch.hear(watch, event)
        if watch.events_told == [("farm", "begins")]:
            plain(watch.exports, content([*body, *lines(range(999, 1001))]))
        elif len(watch.events_told) == 2:
            watch.stop.set()

    watch.hear = comes_back  # type: ignore[method-assign]
    figures = watch.stream(StreamOptions(every_seconds=1))
    assert watch.events_told == [("farm", "begins"), ("farm", "ends")]
    assert figures.batches == 1
    assert figures.events == 2


@pytest.mark.slow  # one more stream
@pytest.mark.usefixtures("without_health")
def test_who_is_behind_is_not_silent(watch: Watch) -> None:
    """A stream that was stopped for two hours reads the missed entries in several batches.

    Until the last batch the lake's newest record is old, but the farm is not silent, and no alert may begin.
    """
    watch.comes(range(1, 11))
    assert watch.restarted(at(10)) == []  # from now on the farm is watched
    last = 10 + 2 * BEATS
    plain(watch.exports, content(lines(range(1, last))))
    watch.now_ms = at(last)
    counts: list[int] = []

    def took(batch: Batch) -> None:
        counts.append(batch.entries)
        if sum(counts) == last - 1:
            watch.stop.set()

    watch.stream(StreamOptions(every_seconds=1, batch_bytes=70_000), took)
    assert len(counts) > 1
    assert watch.events_told == []
    assert watch.restarted(at(last)) == []


@pytest.mark.slow  # one more lake
def test_clocks_that_are_ahead_do_not_hide_it(spark: SparkSession, tmp_path: Path) -> None:
    """Wrong clocks change nothing, neither in the lake's records nor in new records: the arrival of a record counts."""
    lake, now = Lake(str(tmp_path)), at(10)
    day = 24 * 3_600_000
    rows = [
        *(Row(index=index, received_ms=now + ahead, kind="status") for index, ahead in enumerate((-1000, day), 1)),
        Row(index=1, received_ms=now - 7 * day, kind="status", farm="old"),
        Row(index=2, received_ms=now, kind="other", farm="old"),
        Row(index=3, received_ms=now, kind="status", misfit="no", farm="old"),
    ]
    entries(spark, rows).write.partitionBy("farm", "day").parquet(lake.path("entries"))

    def at_that_time() -> int:
        return now

    def made() -> SilentFarms:
        return SilentFarms(spark, lake, f"{tmp_path}/_stream", LIMIT_MS, at_that_time)

    first = made()
    assert first.look() == 0
    now += LIMIT_MS
    assert made().look({"farm"}) == 0
    assert made().look({"old"}) == 1  # an alert about "farm", and none about "old"
    again = made()
    again.hear({"farm": now + day, "old": None, "new": now - LIMIT_MS - 1})
    assert again.look({"farm"}) == 1
    now += LIMIT_MS + 1
    assert again.look() == 1
    assert again.look() == 0
    events = spark.read.parquet(lake.path("alerts")).orderBy("noticed_ms").collect()
    assert [(row["farm"], row["event"]) for row in events] == [("farm", "begins"), ("farm", "ends"), ("farm", "begins")]
    assert len({row["noticed_ms"] for row in events}) == 3
