"""The stream: files that grow and are packed, a repeated batch, alerts, and the same entries as `ingest` finds."""

from pathlib import Path
from threading import Event as Flag
from typing import Any

import pytest
from chispa import assert_df_equality
from pyspark.sql import DataFrame, SparkSession

from gf_i2p.pipeline.errors import PipelineError
from gf_i2p.pipeline.health.job import refresh
from gf_i2p.pipeline.ingest.job import ingest
from gf_i2p.pipeline.lake import tables
from gf_i2p.pipeline.lake.paths import Lake
from gf_i2p.pipeline.stream import job
from gf_i2p.pipeline.stream.job import Batch, Event, StreamFigures, StreamOptions, stream
from gf_i2p.storage.history_lines import record_line
from tests.farm.strategies import NOW
from tests.pipeline.made_up_exports import at, content, lines, packed, plain, status
from tests.pipeline.stream.server_records import said

pytestmark = pytest.mark.timeout(900)  # the first test waits for Spark to start

ONCE = StreamOptions(once=True)


def go(spark: SparkSession, lake: Lake, *exports: Path, options: StreamOptions = ONCE) -> StreamFigures:
    """Run the stream until all present files are read."""
    return stream(spark, lake, [str(each) for each in exports], options)


def rows(spark: SparkSession, lake: Lake, table: str) -> DataFrame:
    """Read a table of the lake."""
    frame = tables.read_table(spark, lake, table)
    assert frame is not None
    return frame


def indexes(spark: SparkSession, lake: Lake) -> list[int]:
    """Return the indexes of the lake's entries, sorted."""
    return sorted(row["index"] for row in rows(spark, lake, "entries").select("index").collect())


@pytest.mark.slow  # test_read_files.py reads files that grow, turn and are packed, without Spark
def test_histories_that_grow_turn_and_are_packed(spark: SparkSession, tmp_path: Path) -> None:
    """At all times the entries are those that `ingest` finds in the same files, and health follows from the entries."""
    lake, exports = Lake(str(tmp_path / "lake")), tmp_path / "exports"
    path = plain(exports / "one", content(lines(range(1, 41))))
    plain(exports / "two" / "deeper", content(lines(range(11, 31), delay=900), first=11, server=2), first=11)
    first = go(spark, lake, exports)
    assert (first.batches, first.entries, first.new) == (1, 60, 40)
    with path.open("ab") as file:
        file.write(b" " + b"".join(lines(range(41, 51))) + b'{"index":51,"recei')
    second = go(spark, lake, exports)
    assert (second.entries, second.new) == (10, 10)
    path.unlink()
    bad = [b'{"wrong":1}\n', record_line(62, 1, at(62), status(62, cluster="other"))]
    packed(exports / "one", content([*lines(range(1, 41)), b" ", *lines(range(41, 61))], last=60))
    plain(exports / "one", content([*lines([61]), *bad, *lines(range(63, 71))], first=61), first=61)
    third = go(spark, lake, exports)
    assert (third.entries, third.new, third.quarantined) == (20, 20, 2)
    assert go(spark, lake, exports).batches == 0
    assert indexes(spark, lake) == [*range(1, 71)]

    other = Lake(str(tmp_path / "other"))
    ingest(spark, other, [str(exports)])
    refresh(spark, other)
    for table in ("entries", "server_hours", "destination_hours"):
        assert_df_equality(
            rows(spark, lake, table),
            rows(spark, other, table),
            ignore_row_order=True,
            ignore_column_order=True,
            ignore_nullable=True,
        )
    ignored = ("found_ms", "source")
    assert_df_equality(
        rows(spark, lake, "quarantine").drop(*ignored),
        rows(spark, other, "quarantine").drop(*ignored),
        ignore_row_order=True,
        ignore_nullable=True,
    )
    figures = ingest(spark, lake, [str(exports)])
    assert (figures.new, figures.quarantined_rows) == (0, 0)


@pytest.mark.slow  # many batches; ingest has a run that was killed half way
def test_a_batch_that_was_interrupted_comes_again_and_adds_nothing_twice(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake, exports = Lake(str(tmp_path / "lake")), tmp_path / "exports"
    path = plain(exports, content([*lines(range(1, 11)), b"none\n"]))

    def fail(*_: Any) -> None:
        raise PipelineError("the power went")

    with monkeypatch.context() as patch:
        patch.setattr(job, "refresh_days", fail)
        with pytest.raises(PipelineError, match="the power went"):
            go(spark, lake, exports)
    assert indexes(spark, lake) == [*range(1, 11)]  # the stream had read this much
    with path.open("ab") as file:
        file.write(b"".join(lines(range(11, 14))))
    again = go(spark, lake, exports)
    assert (again.batches, again.entries, again.new, again.quarantined) == (1, 13, 3, 0)
    assert indexes(spark, lake) == [*range(1, 14)]
    assert rows(spark, lake, "quarantine").count() == 1
    assert rows(spark, lake, "server_hours").agg({"records": "sum"}).collect()[0][0] == 13


@pytest.mark.slow  # test_alerts.py tells what was noticed
def test_what_was_noticed_and_not_told_is_told_by_the_next_run(spark: SparkSession, tmp_path: Path) -> None:
    lake, exports = Lake(str(tmp_path / "lake")), tmp_path / "exports"
    records = sorted([*said(1, range(0, 600, 30), publishing=True), *said(2, [5])], key=lambda each: each[0])
    body = [
        record_line(index, 1, NOW + time * 1000, posted.encode()) for index, (time, posted) in enumerate(records, 1)
    ]
    plain(exports, content(body))
    go(spark, lake, exports)
    events: list[Event] = []
    stream(spark, lake, [str(exports)], StreamOptions(once=True, noticed_ms=0), on_event=events.append)
    assert [(each.server, each.alert, each.event) for each in events] == [(2, "silent", "begins")]


@pytest.mark.slow  # one more stream; test_command.py asks for the end by a signal
def test_it_ends_after_a_batch_when_it_is_told_to(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job, "LOOK_SECONDS", 0.1)
    lake, exports = Lake(str(tmp_path / "lake")), tmp_path / "exports"
    path = plain(exports, content(lines(range(1, 13))))
    stop = Flag()
    batches: list[Batch] = []

    def hear(batch: Batch) -> None:
        batches.append(batch)
        if len(batches) == 2:
            stop.set()
            return
        with path.open("ab") as file:
            file.write(b"".join(lines(range(13, 16))))

    figures = stream(spark, lake, [str(exports)], StreamOptions(every_seconds=1), on_batch=hear, stop=stop)
    assert figures.batches == len(batches) == 2
    assert indexes(spark, lake) == [*range(1, 16)]
    assert batches[0].lag_seconds is not None
    assert not (tmp_path / "lake" / "_stream" / "batch").exists(), "nothing is left of what a batch needed"


@pytest.mark.slow  # one more stream
def test_entries_without_any_status_record_end_no_stream(spark: SparkSession, tmp_path: Path) -> None:
    lake, exports = Lake(str(tmp_path / "lake")), tmp_path / "exports"
    plain(exports, content([record_line(1, 1, at(1), b'{"action":"release","by":"admin-a","date":1790000000000}')]))
    assert go(spark, lake, exports).new == 1
    assert go(spark, lake, exports).batches == 0


def test_a_directory_that_is_not_there_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="nowhere"):
        go(spark, Lake(str(tmp_path / "lake")), tmp_path / "nowhere")
