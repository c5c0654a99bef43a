"""Backtests of small lakes by Spark: the tables hold the same results as a run without Spark."""

import argparse
import json
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from gf_i2p.cli.pipeline import backtest as command
from gf_i2p.cli.shared.errors import Exit
from gf_i2p.farm.parameters import Parameters
from gf_i2p.pipeline.backtest.grid import Set, combined
from gf_i2p.pipeline.backtest.job import (
    _OUTPUT,
    _RESULT,
    _advise_farm,
    _chunks,
    _log,
    _rows_by_task,
    backtest,
    play,
    results,
)
from gf_i2p.pipeline.backtest.measures import Counts
from gf_i2p.pipeline.backtest.replay import ReplayedEntry
from gf_i2p.pipeline.days import DAY_MS
from gf_i2p.pipeline.errors import PipelineError
from gf_i2p.pipeline.lake.paths import Lake
from gf_i2p.simulator.registers import CLUSTER
from tests.farm.strategies import leaf, record
from tests.pipeline.backtest.replays import Life, decisions, measure, row
from tests.tier import is_everything

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETS: Sequence[Set] = combined({"freshMs": [35_000, 105_000], "leafDownMs": [0, 90_000] if is_everything() else [0]})
SCHEMA = (
    "farm string, day string, index long, term long, received_ms long, exporter long, kind string, value string, "
    "raw binary, servers array<long>, leader long"
)


def write(spark: "SparkSession", lake: Lake, farms: dict[str, Sequence[ReplayedEntry]]) -> None:
    """Make the table `entries`, with the rows in no order."""
    entries: list[tuple[Any, ...]] = []
    for farm, rows in farms.items():
        for each in rows:
            value, raw = None, None
            if each.kind != "servers":
                try:
                    value = (each.value or b"").decode()
                except UnicodeDecodeError:
                    raw = each.value
            day = f"2026-01-{1 + each.index * 3 // len(rows):02}"
            servers = list(each.servers) or None
            entries.append(
                (farm, day, each.index, each.term, each.received_ms, 1, each.kind, value, raw, servers, None)
            )
    table = spark.createDataFrame(entries[::-1], SCHEMA)
    table.write.partitionBy("farm", "day").parquet(lake.path("entries"))


@pytest.fixture(scope="module")
def log() -> list[ReplayedEntry]:
    life = Life(5)
    rows = [row(index, value) for index, value in enumerate(life.log, 1)]
    forgotten = [replace(each, index=len(rows) + place, term=0) for place, each in enumerate(rows[5:9])]
    return [*rows[:3], replace(rows[3], term=0), *rows[3:], *forgotten]


@pytest.fixture(scope="module")
def in_order(log: list[ReplayedEntry]) -> list[ReplayedEntry]:
    return sorted(log, key=lambda each: (each.index, -each.term))


@pytest.fixture(scope="module")
def lake(spark: "SparkSession", log: list[ReplayedEntry], tmp_path_factory: pytest.TempPathFactory) -> Lake:
    lake = Lake(str(tmp_path_factory.mktemp("lake")))
    small = [row(1, (1, 2)), row(2, b"\xff"), *(row(2 + each, record(each, leaf(each)).encode()) for each in (1, 2))]
    write(spark, lake, {CLUSTER: log, "farm": [replace(each, term=1) for each in small]})
    return lake


def test_the_tables_hold_what_the_rows_give_without_spark(
    spark: "SparkSession", lake: Lake, in_order: list[ReplayedEntry]
) -> None:
    steps: list[str] = []
    figures = backtest(spark, lake, SETS, tell=steps.append)
    assert steps
    truth = list(decisions(CLUSTER, in_order))
    assert (figures.farms, figures.sets, figures.inexact) == (2, len(SETS), 0)
    assert figures.entries == 4 + max(each.index for each in in_order if each.term)
    table = spark.read.parquet(lake.path("decisions"))
    assert figures.decisions == table.count() > len(truth) > 10
    rows = table.where(table["farm"] == CLUSTER).orderBy("index").collect()
    assert [(each["index"], each["publisher"], each["mode"]) for each in rows] == [
        (each["index"], each["publisher"], each["mode"]) for each in truth
    ]
    assert [[(entry["hash"], entry["cost"], entry["owner"]) for entry in each["listed"]] for each in rows] == [
        [(entry["hash"], entry["cost"], entry["owner"]) for entry in each["listed"]] for each in truth
    ]
    measured = measure(CLUSTER, in_order, SETS)
    farms = {each[0].farm: each for each in results(spark, lake)}
    assert list(farms) == ["farm", CLUSTER]
    found = {json.dumps(dict(each.parameters)): (each.counts, each.in_force, each.entries) for each in farms[CLUSTER]}
    assert found == {json.dumps(dict(each.parameters)): (each.total, each.in_force, each.entries) for each in measured}
    assert [each.cost for each in farms[CLUSTER]] == sorted(each.total.cost() for each in measured)
    assert [each.live for each in farms[CLUSTER]].count(True) == 1
    assert len(farms["farm"]) == len(SETS)
    assert [bool(each.advice) for each in farms["farm"]] == [each.live for each in farms["farm"]]
    days = spark.read.parquet(lake.path("backtest_days"))
    of_farm = days.where(days["farm"] == CLUSTER).orderBy("set", "day").collect()
    assert [(each["set"], json.loads(each["parameters"]), each["cost"]) for each in of_farm] == [
        (place, each.parameters, counts.seconds())
        for place, each in enumerate(measured)
        for counts in each.days.values()
    ]


@pytest.mark.slow  # three replays
def test_one_farm_and_a_time_may_be_chosen(spark: "SparkSession", lake: Lake, in_order: list[ReplayedEntry]) -> None:
    middle = in_order[len(in_order) // 2].received_ms
    figures = backtest(spark, lake, SETS[:1], CLUSTER, since_ms=middle)
    assert (figures.farms, figures.sets, figures.inexact) == (1, 1, 1)
    all_days = backtest(spark, lake, SETS[:1], CLUSTER)
    before = backtest(spark, lake, SETS[:1], CLUSTER, until_ms=middle)
    assert before.entries < all_days.entries
    assert before.inexact == all_days.inexact == 0
    assert figures.entries < all_days.entries
    assert [len(each) for each in results(spark, lake)] == [1]


def test_the_command_writes_what_it_recommends_for_one_farm(
    spark: "SparkSession", lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gf_i2p.cli.pipeline.spark_job.session", lambda _: nullcontext(spark))
    parser = argparse.ArgumentParser()
    parser.add_argument("--json", action="store_true")
    command.add_arguments(parser)
    out = tmp_path / "recommended.toml"
    arguments = [lake.root, "--set", "margin=0,100", "--out", str(out), "--json"]
    with pytest.raises(PipelineError, match="add --farm"):
        command.run(parser.parse_args(arguments))
    answer = command.run(parser.parse_args([*arguments, "--farm", CLUSTER]))
    assert answer.exit is Exit.OK
    data = answer.data
    assert (data["farms"], data["sets"], data["more_farms"]) == (1, 3, False)
    [only] = data["results"]
    assert only["farm"] == CLUSTER
    assert [each["parameters"] for each in only["sets"] if each["live"]] == [{}]
    assert "days are too few" in only["advice"]
    assert only["advice"] in out.read_text()
    assert json.loads(json.dumps(data)) == data
    assert [path.name for path in tmp_path.iterdir()] == [out.name]


def test_what_is_not_there_is_said(spark: "SparkSession", lake: Lake, tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="pipeline ingest"):
        backtest(spark, Lake(str(tmp_path / "none")), SETS)
    with pytest.raises(PipelineError, match="nothing to replay"):
        backtest(spark, lake, SETS, "another")


def test_a_task_gets_a_farms_rows_in_the_order_of_its_log(spark: "SparkSession", tmp_path: Path) -> None:
    """The highest term first, who is behind a gap last; in a window what administrators and Configurations said."""
    lake, servers = Lake(str(tmp_path)), "servers"
    rows = [
        ("a", "2026-01-01", 1, 1, 10, 1, servers, None, None, [1, 2], None),
        ("a", "2026-01-01", 2, 1, 20, 1, "admin", "{}", None, None, None),
        ("a", "2026-01-01", 3, 1, 30, 1, "status", "early", None, None, None),
        ("a", "2026-01-02", 4, 1, 40, 1, "status", "old", None, None, None),
        ("a", "2026-01-02", 4, 2, 41, 1, "other", None, b"\xff", None, None),
        ("a", "2026-01-03", 4, 3, 42, 1, servers, "gap", None, [1], None),
        ("a", "2026-01-03", 5, 3, 50, 1, "status", "late", None, None, None),
        ("b", "2026-01-03", 1, 1, 45, 1, "status", "other", None, None, None),
    ]
    spark.createDataFrame(rows[::-1], SCHEMA).write.partitionBy("farm", "day").parquet(lake.path("entries"))
    log = _log(spark, lake, None, since_ms=35, until_ms=50)
    task_rows = _rows_by_task(log, [("b", 0), ("a", 0), ("a", 1)], 2).toLocalIterator()
    of_a = [(1, 1, None), (2, 1, b"{}"), (4, 2, b"\xff"), (4, 1, b"old"), (4, 3, b"gap")]
    assert [(row["farm"], row["chunk"], row["index"], row["term"], row["value"]) for row in task_rows] == [
        ("b", 0, 1, 1, b"other"),
        *(("a", 1, *each) for each in of_a),
        *(("a", 0, *each) for each in of_a),
    ], "tasks 0 and 2 are in the first partition"


def test_the_results_of_a_farm_in_any_order_become_rows_with_a_recommendation() -> None:
    total = asdict(Counts(farm_ms=20 * DAY_MS))
    in_force = json.dumps(Parameters().all())
    rows: list[dict[str, Any]] = []
    for number, (parameters, cost) in enumerate(
        [("{}", 900.0), ('{"freshMs":75000}', 400.0), ('{"margin":70}', 900.0)]
    ):
        of_set = {"farm": "farm", "set": number, "parameters": parameters, "cost": cost}
        rows.append(of_set | total | {"what": "result", "live": not number, "in_force": in_force})
        rows += [
            of_set | {"what": "day", "day": f"2026-01-{day:02}", "farm_ms": DAY_MS, "cost": cost + day}
            for day in range(1, 21)
        ]
    schema = pa.schema([_OUTPUT.field(name) for name in ("what", "day", *_RESULT)])
    advised = _advise_farm(pa.Table.from_pylist(rows[::-1], schema=schema)).to_pylist()
    assert [(each["set"], each["recommended"]) for each in advised] == [(0, False), (1, True), (2, False)]
    assert [each["gain"] for each in advised] == [None, pytest.approx(0.55, abs=0.01), 0]
    assert 0 < advised[1]["gain_low"] <= advised[1]["gain"] <= advised[1]["gain_high"]
    assert advised[1]["saved_s"] == pytest.approx(500)
    assert "freshMs=75000 saves 54." in advised[0]["advice"]
    assert "freshMs=75000 is the least value that was tried" in advised[0]["advice"]
    assert [each["advice"] for each in advised[1:]] == [None, None]


def test_a_worker_keeps_farms_and_parts_of_the_grid_apart(in_order: list[ReplayedEntry]) -> None:
    chunks = _chunks(SETS, 2)
    rows = [each for farm in ("a", CLUSTER) for chunk in (0, 1) for each in play(farm, chunks, chunk, in_order)]
    assert list(play(CLUSTER, chunks, 0, ())) == []
    results = [each for each in rows if each["what"] == "result"]
    assert [(each["farm"], each["live"]) for each in results] == [
        (farm, place == 0) for farm in ("a", CLUSTER) for place in range(len(SETS))
    ]
    assert {each["farm"] for each in rows if each["what"] == "decision"} == {CLUSTER}, "nothing in it is of farm a"
    together = [
        (place, json.dumps(dict(each.parameters), separators=(",", ":"), sort_keys=True), each.total.cost())
        for place, each in enumerate(measure(CLUSTER, in_order, SETS))
    ]
    alone = [(each["set"], each["parameters"], each["cost"]) for each in results[len(SETS) :]]
    assert sorted(alone) == together
