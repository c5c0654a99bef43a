"""The job `health`: the written tables, a rerun, some days, and the output of the command."""

import argparse
import json
from collections.abc import Iterable
from contextlib import nullcontext
from datetime import date
from pathlib import Path

import pytest
from chispa import assert_df_equality
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import Row as SqlRow
from pyspark.sql import functions as fn

from gf_i2p.cli.pipeline import health as command
from gf_i2p.pipeline.days import ALL_DAYS, Span, spans_around
from gf_i2p.pipeline.errors import PipelineError
from gf_i2p.pipeline.health import job
from gf_i2p.pipeline.lake.paths import Lake
from tests.farm.strategies import leaf, record
from tests.pipeline.entry_rows import Row, entries

HOUR = 3_600_000
START = 1_789_999_200_000
ALWAYS = range(0, 3600, 100)
"""Seconds of an hour with so many records that no gap is between them."""


def lake_of(spark: SparkSession, root: Path, rows: list[Row]) -> Lake:
    lake = Lake(str(root))
    entries(spark, rows).write.mode("append").partitionBy("farm", "day").parquet(lake.path("entries"))
    return lake


def reports(
    server: int, first: int, last: int, *, farm: str = "farm", lag: int = 10, at_s: Iterable[int] = (0, 100, 600)
) -> list[Row]:
    """Make records from one hour after `START` to another. `at_s`: seconds of each hour with a record."""
    return [
        Row(
            index=at // 1000 * 10 + server,
            record=record(server, leaf(server), date=START + at, cluster=farm, router={"jobLag": lag}),
            farm=farm,
        )
        for hour in range(first, last)
        for at in (hour * HOUR + second * 1000 for second in at_s)
    ]


def table(spark: SparkSession, lake: Lake, name: str) -> DataFrame:
    frame = spark.read.parquet(lake.path(name))
    return frame.select(*sorted(frame.columns)).orderBy(*sorted(set(frame.columns) & {"farm", "server", "hour_ms"}))


@pytest.mark.slow  # each job's test of hours makes days one by one, too
def test_a_rerun_gives_the_same_and_so_does_day_by_day(spark: SparkSession, tmp_path: Path) -> None:
    rows = reports(1, 0, 36, at_s=ALWAYS) + reports(1, 36, 38, lag=900, at_s=ALWAYS) + reports(1, 38, 39)
    rows += reports(2, 3, 14) + reports(1, 20, 28, farm="2026")
    lake = lake_of(spark, tmp_path / "whole", rows)
    steps: list[str] = []
    figures = job.refresh(spark, lake, on_step=steps.append)
    assert (figures.records, figures.server_hours, figures.anomalies) == (len(rows), 39 + 36 + 8, 1)
    assert figures.destination_hours == 39 + 35 + 8, "a day after its server's last record, the leaf is forgotten"
    assert steps == ["hours of servers", "hours of destinations", "anomalies"]
    before = {name: table(spark, lake, name).toArrow() for name in ("server_hours", "destination_hours", "anomalies")}
    files = {*Path(lake.root).rglob("server_hours/**/*.parquet")}
    assert files
    for day in ("2026-09-21", "2026-09-22", "2026-09-23"):
        job.refresh(spark, lake, span=Span.parse(day, day))
    assert files.isdisjoint(Path(lake.root).rglob("server_hours/**/*.parquet")), "they were made anew"
    for name, rows_before in before.items():
        assert table(spark, lake, name).toArrow().equals(rows_before), name

    servers, odd = job.summarize(spark, lake)
    assert [(each.farm, each.server) for each in servers] == [("2026", 1), ("farm", 1), ("farm", 2)]
    assert [each.text[:16] for each in odd] == ["job lag of serve"]
    shown = command.show(figures, servers, odd)
    assert "farm" in shown
    assert "job lag of server 1 was 900 ms" in shown
    of_one, _ = job.summarize(spark, lake, "2026", Span.parse("2026-09-22", None))
    assert [each.server for each in of_one] == [1]
    assert of_one[0].availability == pytest.approx(
        (7 * 310 + 205) / (7 * 3600 + 600)
    )  # the farm ends with its last record


@pytest.mark.slow  # one more lake
def test_a_lake_of_another_version_is_read(spark: SparkSession, tmp_path: Path) -> None:
    """The records lack one field, have another type in a second field, and have an unknown third field."""
    rows = reports(1, 0, 3)
    record = fn.col("record")
    older = record.withField("router", record["router"].dropFields("jobLag").withField("uptime", fn.lit("a day")))
    lake = Lake(str(tmp_path / "lake"))
    other = older.withField("sensors", fn.struct(fn.lit(1).alias("disk")))
    entries(spark, rows).withColumn("record", other).write.partitionBy("farm", "day").parquet(lake.path("entries"))
    assert job.refresh(spark, lake).records == len(rows)
    assert {row["lag_ms"] for row in table(spark, lake, "server_hours").collect()} == {None}
    lake_of(spark, tmp_path / "lake", reports(1, 3, 4, lag=40))
    assert job.refresh(spark, lake).records == len(rows) + 3
    assert {row["lag_ms"] for row in table(spark, lake, "server_hours").collect()} == {None, 40.0}


@pytest.mark.slow  # a second run over all days
def test_new_entries_change_the_days_around_them(spark: SparkSession, tmp_path: Path) -> None:
    early, late = reports(1, 0, 10), reports(1, 10, 20) + reports(2, 12, 15)
    lake = lake_of(spark, tmp_path / "one", early)
    job.refresh(spark, lake)
    lake_of(spark, tmp_path / "one", late)
    for span in spans_around(["2026-09-22"]):
        job.refresh(spark, lake, span=span)
    all_at_once = lake_of(spark, tmp_path / "two", early + late)
    job.refresh(spark, all_at_once)
    for name in ("server_hours", "destination_hours"):
        assert_df_equality(table(spark, lake, name), table(spark, all_at_once, name), ignore_nullable=True)


@pytest.mark.slow  # one more lake
def test_of_one_farm_only_that_is_made(spark: SparkSession, tmp_path: Path) -> None:
    lake = lake_of(spark, tmp_path, reports(1, 0, 2) + reports(1, 0, 2, farm="other"))
    assert job.refresh(spark, lake, "other").server_hours == 2
    assert [each.farm for each in job.summarize(spark, lake)[0]] == ["other"]


@pytest.mark.slow  # one more lake
def test_servers_without_destinations_are_no_error(spark: SparkSession, tmp_path: Path) -> None:
    lake = lake_of(spark, tmp_path, [Row(index=1, record=record(1, date=START))])
    figures = job.refresh(spark, lake)
    assert (figures.server_hours, figures.destination_hours, figures.anomalies) == (1, 0, 0)


@pytest.mark.slow  # four seconds of Spark
def test_it_says_what_is_missing(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="run `gf-i2p pipeline ingest` first"):
        job.refresh(spark, Lake(str(tmp_path / "nothing")))
    lake = lake_of(spark, tmp_path, [Row(index=1, kind="servers", servers=[1], received_ms=START)])
    with pytest.raises(PipelineError, match="no status records of any farm"):
        job.refresh(spark, lake)
    with pytest.raises(PipelineError, match="no status records of farm 'x'"):
        job.refresh(spark, lake, "x")


def test_days_are_read_and_wrong_ones_refused() -> None:
    assert Span.parse("2026-01-02", None) == Span(date(2026, 1, 2), None)
    assert Span.parse(None, None) == ALL_DAYS
    assert Span.parse("2026-01-02", "2026-01-02").until_ms == Span.parse("2026-01-03", None).since_ms
    for since, until in (("yesterday", None), ("2026-02-30", None), ("0001-01-01", None), ("2026-01-03", "2026-01-02")):
        with pytest.raises(PipelineError):
            Span.parse(since, until)


def test_days_that_are_beside_each_other_are_made_together() -> None:
    day = date.fromisoformat
    assert spans_around([]) == []
    assert spans_around(["2026-01-10", "2026-01-11", "2026-01-13", "2026-02-01", "2026-01-10"]) == [
        Span(day("2026-01-09"), day("2026-01-14")),
        Span(day("2026-01-31"), day("2026-02-02")),
    ]


def test_the_table_is_for_people() -> None:
    figures = job.HealthFigures(records=1_000_000, server_hours=10, destination_hours=5, anomalies=1, seconds=4.0)
    server = SqlRow("farm", "server", "hours", "availability", "gaps", "longest_gap_ms", "flaps", "lag_ms", "skew_ms",
                 "tunnels")  # fmt: skip
    good = server("farm", 1, 10, 0.99987, 2, 40_000, 3, 12.4, -1500.0, 800.0)
    bad = server("\x1b[31mfarm", 2**31, 10, 0.0, 10, HOUR, 0, None, None, None)
    lines = command.show(figures, [good, bad], []).splitlines()
    assert [line.split() for line in lines[:2]] == [
        ["farm", "server", "hours", "available", "gaps", "longest", "flaps", "lag", "skew", "tunnels"],
        ["farm", "1", "10", "99.99%", "2", "40", "s", "3", "12", "ms", "-1.5", "s", "800"],
    ]
    assert lines[2].startswith("\\x1b[31mfarm  2147483648 (member)     10      0.00%    10  1 h or more")
    assert len({len(line) for line in lines[:3]}) == 1
    assert (
        lines[4] == "1,000,000 records in 4.0 s, 250,000 a second: 10 hours of servers, 5 of destinations, 1 anomalies"
    )


def test_the_command_prints_json(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lake = lake_of(spark, tmp_path, reports(1, 0, 2))
    monkeypatch.setattr("gf_i2p.cli.pipeline.spark_job.session", lambda _: nullcontext(spark))
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    parser.add_argument("--json", action="store_true")
    answer = json.loads(json.dumps(command.run(parser.parse_args([lake.root, "--farm", "farm", "--json"])).data))
    assert (answer["records"], answer["servers"][0]["server"]) == (6, 1)
