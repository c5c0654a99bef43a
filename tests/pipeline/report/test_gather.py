"""The report's sums, on tables made by hand: exact figures, limits, missing tables."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gf_i2p.pipeline.days import HOUR_MS
from gf_i2p.pipeline.errors import PipelineError
from gf_i2p.pipeline.health.anomalies import EPISODES
from gf_i2p.pipeline.lake.paths import PARTITIONS, Lake
from gf_i2p.pipeline.report import gather as gather_module
from gf_i2p.pipeline.report.formats import day
from gf_i2p.pipeline.report.gather import gather
from gf_i2p.pipeline.report.job import make_report
from gf_i2p.pipeline.report.report_data import Period, Report, Turn
from tests.pipeline.entry_rows import Row, entries
from tests.pipeline.report.report_data import BEGAN_MS, HOSTILE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LISTED = "listed array<struct<hash: string, type: int, cost: int, owner: long, branch: int>>"
SCHEMAS = {
    "decisions": f"farm string, index long, received_ms long, publisher long, mode string, {LISTED}",
    "server_hours": "farm string, day string, hour_ms long, server long, watched_ms long, records long, "
    "availability double, flaps long, longest_gap_ms long",
    "destination_hours": "farm string, day string, hour_ms long, server long, destination string, watched_ms long, "
    "records long, availability double, load double",
    "anomalies": EPISODES,
    "backtest": "farm string, parameters string, in_force string, live boolean, farm_ms long, outage_ms long, "
    "changes long, unneeded long, stale_ms long, missing_ms long, set_changes long, imbalance_ms double, cost double, "
    "recommended boolean, gain double, gain_low double, gain_high double, saved_s double, advice string",
    "closest": "hash string, name string, day string, rank int, floodfill string, distance string, "
    "profile struct<heard_ms: long, speed: double, banned: boolean>",
    "quarantine": "source string, what string, farm string, index long, reason string, text string, length long",
}
HOURS = 30


def at(hours: float) -> int:
    return BEGAN_MS + int(hours * HOUR_MS)


def write(spark: "SparkSession", lake: Lake, name: str, rows: Sequence[tuple[Any, ...]]) -> None:
    frame = spark.createDataFrame(rows, SCHEMAS[name])
    frame.coalesce(1).write.partitionBy(*PARTITIONS.get(name, ())).parquet(lake.path(name))


@pytest.fixture(scope="module")
def lake(spark: "SparkSession", tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """Thirty hours of a farm "web", and two entries of a farm with a hostile name."""
    lake = Lake(str(tmp_path_factory.mktemp("lake")))
    rows = [
        Row(index=1, received_ms=at(0), kind="servers", servers=[1, 2], leader=1),
        Row(index=2, received_ms=at(1), kind="other", value="{}"),
        Row(index=3, received_ms=at(2), kind="servers", servers=[1, 2, 3], leader=1),
        Row(index=3, received_ms=at(2), kind="servers", servers=[1, 2, 3], leader=None, term=0, value="{}"),  # a gap
        Row(index=4, received_ms=at(12), kind="servers", servers=[1, 2, 3], leader=2, term=2),
        Row(index=5, received_ms=at(20), kind="servers", servers=[1, 2, 3], leader=None, term=3),
        Row(index=6, received_ms=at(HOURS), kind="other", value="{}"),
        Row(index=7, received_ms=5000, kind="other", value="{}"),
        *(Row(index=each, received_ms=at(each), kind="other", value="{}", farm=HOSTILE[:40]) for each in (1, 2)),
    ]
    rows = [
        Row(**{**{name: getattr(row, name) for name in Row.__slots__}, "farm": row.farm.replace("farm", "web")})
        for row in rows
    ]
    frame = entries(spark, rows)
    frame.coalesce(1).write.partitionBy("farm", "day").parquet(lake.path("entries"))
    one, two = ("leaf1", 3, 10, 1, None), ("leaf2", 3, 99, 2, None)
    write(
        spark,
        lake,
        "decisions",
        [
            ("web", 1, at(0), None, "off", []),
            ("web", 2, at(1), 2, "meta", [one]),
            ("web", 3, at(1.5), 2, "meta", [one, two]),
            ("web", 5, at(10), 2, "meta", [two]),
            ("web", 6, at(25), 3, "meta", [("leaf1", 3, 12, 1, None), two]),
        ],
    )
    write(
        spark,
        lake,
        "server_hours",
        [
            (
                "web",
                day(at(hour)),
                at(hour),
                server,
                HOUR_MS,
                120 if server == 1 else 9,
                1.0 if server == 1 else 0.5,
                server - 1,
                60_000 * hour,
            )
            for hour in range(HOURS)
            for server in (1, 2)
        ],
    )
    write(
        spark,
        lake,
        "destination_hours",
        [("web", day(at(hour)), at(hour), 1, "leaf1", HOUR_MS, 120, 1.0, hour / 100) for hour in range(HOURS)],
    )
    write(
        spark,
        lake,
        "anomalies",
        [
            (
                "web",
                "server",
                2,
                None,
                [2],
                "lag_ms",
                at(hour),
                at(hour + 1),
                1,
                at(hour),
                900.0,
                9.0,
                1.0,
                5.0 + hour,
                "",
            )
            for hour in range(3)
        ],
    )
    write(
        spark,
        lake,
        "backtest",
        [
            ("web", "{}", "{}", True, 10, 1, 9, 2, 1000, 2000, 30, 5.0, 1.0, False, None, None, None, None, "Because."),
            ("web", '{"margin":70}', "{}", False, 10, 1, 3, 1, 1, 2, 3, 5.0, 0.4, False, 0.6, 0.1, 0.9, 0.6, None),
            ("web", '{"margin":90}', "{}", False, 10, 1, 4, 1, 1, 2, 3, 5.0, 0.5, True, 0.5, 0.1, 0.9, 0.5, None),
        ],
    )
    write(
        spark,
        lake,
        "closest",
        [
            (
                hash_,
                f"web: {hash_}",
                f"2026-07-0{number}",
                rank,
                f"f{rank}",
                f"{rank:064x}",
                (5, 1.5, None) if rank == 1 else None,
            )
            for hash_ in ("h1", "h2")
            for number in (1, 2, 3, 4)
            for rank in (1, 2)
        ],
    )
    write(
        spark,
        lake,
        "quarantine",
        [("f", "line", None, None, HOSTILE, "x", 5)] * 3 + [("f", "file", None, None, "cut", "", 7)],
    )
    return lake


@pytest.fixture(scope="module")
def report(spark: "SparkSession", lake: Lake) -> Report:
    return gather(spark, lake)


def test_a_whole_lake(report: Report) -> None:
    assert [(farm.name, farm.entries) for farm in report.farms] == [("web", 6), (HOSTILE[:40], 2)]
    assert (report.farms_total, report.entries_total, report.strange_clocks) == (2, 8, 1)
    web = report.farms[0]
    assert web.period == Period(at(0), at(HOURS))
    assert web.led is not None
    assert web.published is not None
    assert web.led.turns == [Turn(at(0), 1), Turn(at(12), 2), Turn(at(20), None)]
    assert web.published.turns == [Turn(at(0), None), Turn(at(1), 2), Turn(at(25), 3)]
    assert (web.led.changes, web.published.changes) == (2, 2)
    assert web.episodes is not None
    assert [(each.score, each.servers) for each in web.episodes] == [(7.0, (2,)), (6.0, (2,)), (5.0, (2,))]
    assert web.silent == {(2, at(hour)) for hour in range(HOURS)}, "server 2 sent 9 records in each hour"
    assert web.trials is not None
    assert [(each.live, each.recommended, each.cost) for each in web.trials] == [
        (True, False, 1.0),
        (False, True, 0.5),
        (False, False, 0.4),
    ]
    assert [(each["what"], each["pieces"], each["length"]) for each in report.reasons or ()] == [
        ("line", 3, 15),
        ("file", 1, 7),
    ]
    sizes = {each.name: each for each in report.sizes}
    assert (sizes["entries"].is_there, sizes["routers"].is_there) == (True, False)
    assert (sizes["quarantine"].bytes or 0) > 0


def test_availability_and_loads(report: Report) -> None:
    web = report.farms[0]
    assert web.period.stretch_ms == HOUR_MS
    assert web.servers is not None
    assert [(server, *series) for server, series in web.servers.items()] == [(1, *range(HOURS)), (2, *range(HOURS))]
    cell = web.servers[2][3]
    assert [cell[name] for name in ("availability", "records", "flaps", "gap", "hours")] == [0.5, 9, 1, 180_000, 1]
    assert web.leaves is not None
    assert [cell["load"] for cell in web.leaves["leaf1"].values()] == [hour / 100 for hour in range(HOURS)]
    assert {cell["server"] for cell in web.leaves["leaf1"].values()} == {1}


def test_costs_are_carried_on_and_gaps_stay(report: Report) -> None:
    """Leaf 1 is listed from hour 1 to 10 and from 25 on; the last decision in an hour counts."""
    costs = report.farms[0].costs
    assert costs is not None
    assert costs["leaf1"] == [None, *[10] * 9, *[None] * 15, *[12] * 5]
    assert costs["leaf2"] == [None, *[99] * 29]


def test_a_period_knows_what_was_before_it(spark: "SparkSession", lake: Lake) -> None:
    """The hour in which the period begins has a place of its own."""
    [web] = gather(spark, lake, ("web",), at(15.1), at(24)).farms
    assert web.led is not None
    assert web.published is not None
    assert web.led.turns == [Turn(at(0), 1), Turn(at(12), 2), Turn(at(20), None)]
    assert web.published.turns == [Turn(at(0), None), Turn(at(1), 2)]
    assert (web.led.changes, web.published.changes) == (1, 0)
    assert web.costs is not None
    assert set(web.costs["leaf2"]) == {99}
    assert web.servers is not None
    assert web.period == Period(at(20), at(20) + 60_000), "the only entry in that time"
    assert [*web.servers[1]] == [0]


def test_the_last_three_days_of_floodfills(report: Report) -> None:
    assert report.closest is not None
    assert [(each["name"], each["hash"], each["day"]) for each in report.closest] == [
        (f"web: {hash_}", hash_, f"2026-07-0{number}") for hash_ in ("h1", "h2") for number in (2, 3, 4)
    ]
    names = ("floodfill", "nearest", "farthest", "floodfills")
    assert [report.closest[0][name] for name in names] == ["f1", f"{1:064x}", f"{2:064x}", 2]


def test_what_is_too_much_is_counted(spark: "SparkSession", lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MAX_SERVERS", "MAX_LEAVES", "MAX_EPISODES", "MAX_SETS", "MAX_TURNS", "MAX_HASHES", "MAX_REASONS"):
        monkeypatch.setattr(gather_module, name, 1)
    report = gather(spark, lake, ("web",))
    [web] = report.farms
    assert (list(web.servers or ()), web.servers_total) == ([1], 2)
    assert list(web.costs or ()) == ["leaf2"]
    assert (len(web.episodes or ()), web.episodes_total) == (1, 3)
    assert (len(web.trials or ()), web.trials_total) == (1, 3)
    assert web.led is not None
    assert (web.led.turns, web.led.changes) == ([Turn(at(20), None)], 2)
    assert (len({each["hash"] for each in report.closest or ()}), report.hashes_total) == (1, 2)
    assert (len(report.reasons or ()), report.quarantined) == (1, 4)


def test_what_is_not_there(spark: "SparkSession", lake: Lake, tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="begin with gf-i2p pipeline ingest"):
        gather(spark, Lake(str(tmp_path)))
    with pytest.raises(PipelineError, match="nothing of a farm 'wub'"):
        gather(spark, lake, ("web", "wub"))
    with pytest.raises(PipelineError, match="The period is empty"):
        gather(spark, lake, (), at(3), at(3))


@pytest.mark.slow  # four seconds of Spark
def test_the_file_is_replaced_and_says_what_is_missing(spark: "SparkSession", lake: Lake, tmp_path: Path) -> None:
    """The last backtest was of one farm only, and the other farm's name is hostile."""
    out = tmp_path / "report.html"
    out.write_text("old")
    figures = make_report(spark, lake, out)
    text = out.read_text("utf-8")
    assert (figures.bytes, figures.farms, figures.entries) == (len(text.encode()), 2, 8)
    assert figures.missing == ("files", "alerts", "backtest_days", "routers")
    assert text.count("The table backtest has nothing of this farm yet") == 1
    assert "<script" not in text
    assert [*tmp_path.iterdir()] == [out]


def test_no_more_farms_than_a_report_has(spark: "SparkSession", lake: Lake) -> None:
    with pytest.raises(PipelineError, match="A report shows up to 20 farms, not 21"):
        gather(spark, lake, ("web", *(f"farm-{number}" for number in range(20))))


def test_a_lake_with_one_table_only(spark: "SparkSession", tmp_path: Path) -> None:
    lake = Lake(str(tmp_path / "lake"))
    write(spark, lake, "server_hours", [("web", day(at(0)), at(0), 1, HOUR_MS, 120, 1.0, 0, 0)])
    figures = make_report(spark, lake, tmp_path / "report.html")
    assert (figures.farms, figures.entries) == (1, 120)
    assert "entries" in figures.missing


@pytest.mark.slow  # one more lake
def test_a_period_ends_with_the_newest_entry(spark: "SparkSession", tmp_path: Path) -> None:
    """Hours go on for longer, also where there are only some minutes; one entry alone has a minute."""
    lake = Lake(str(tmp_path / "lake"))
    rows = [Row(index=index, received_ms=at(ended), kind="other", value="{}") for index, ended in ((1, 0.1), (2, 0.4))]
    rows += [Row(index=1, received_ms=at(3), kind="other", value="{}", farm="one")]
    entries(spark, rows).write.partitionBy("farm", "day").parquet(lake.path("entries"))
    write(spark, lake, "server_hours", [("farm", day(at(0)), at(0), 1, HOUR_MS, 48, 1.0, 0, 0)])
    report = gather(spark, lake)
    assert [each.period for each in report.farms] == [Period(at(0.1), at(0.4)), Period(at(3), at(3) + 60_000)]
    assert [*(report.farms[0].servers or {})[1]] == [0]
    with pytest.raises(PipelineError, match="nothing of a farm 'farm'"):
        gather(spark, lake, ("farm",), at(-1), at(0.1))  # the end is no part of a period
