"""The report's sums, on tables made by hand: exact figures, limits, missing tables."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gf_i2p.pipeline.errors import PipelineError
from gf_i2p.pipeline.health.anomalies import EPISODES
from gf_i2p.pipeline.lake.paths import PARTITIONS, Lake
from gf_i2p.pipeline.report import gather_farm
from gf_i2p.pipeline.report.chart_data import Period, Report, Turn
from gf_i2p.pipeline.report.formats import HOUR_MS, day
from gf_i2p.pipeline.report.gather import ReportScope, gather
from gf_i2p.pipeline.report.job import ReportOptions, make_report
from gf_i2p.pipeline.report.page import page
from tests.pipeline.entry_rows import Row, entries
from tests.pipeline.report.report_data import BEGAN_MS, HOSTILE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LISTED = "listed array<struct<hash: string, type: int, cost: int, owner: long, branch: int>>"
SCHEMAS = {
    "decisions": f"farm string, index long, received_ms long, publisher long, mode string, {LISTED}",
    "server_hours": "farm string, day string, hour_ms long, server long, records long, availability double, "
    "flaps long, longest_gap_ms long",
    "destination_hours": "farm string, day string, hour_ms long, server long, destination string, records long, "
    "availability double, load double",
    "anomalies": EPISODES,
    "backtest": "farm string, parameters string, in_force string, live boolean, farm_ms long, outage_ms long, "
    "changes long, unneeded long, stale_ms long, missing_ms long, set_changes long, imbalance_ms double, cost double, "
    "recommended boolean, gain double, gain_low double, gain_high double, saved_s double, advice string",
    "closest": "hash string, name string, day string, rank int, floodfill string, distance string, "
    "profile struct<heard_ms: long, speed: double, banned: boolean>",
    "quarantine": "source string, what string, farm string, index long, reason string, text string, length long",
}
HOURS = 30
END_MS = BEGAN_MS + HOURS * HOUR_MS


def at(hours: float) -> int:
    return BEGAN_MS + int(hours * HOUR_MS)


def write(spark: "SparkSession", lake: Lake, name: str, rows: Sequence[tuple[Any, ...]]) -> None:
    frame = spark.createDataFrame(rows, SCHEMAS[name])
    frame.coalesce(1).write.partitionBy(*PARTITIONS.get(name, ())).parquet(lake.path(name))


def read(spark: "SparkSession", lake: Lake, name: str) -> "DataFrame":
    return spark.read.parquet(lake.path(name)).where("farm = 'web'")


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
            ("web", day(at(hour)), at(hour), server, 120, 1.0 if server == 1 else 0.5, server - 1, 60_000 * hour)
            for hour in range(HOURS)
            for server in (1, 2)
        ],
    )
    write(
        spark,
        lake,
        "destination_hours",
        [("web", day(at(hour)), at(hour), 1, "leaf1", 120, 1.0, hour / 100) for hour in range(HOURS)],
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
    return gather(spark, lake, ReportScope())


def test_a_whole_lake(report: Report) -> None:
    assert [(farm.name, farm.entries) for farm in report.farms] == [("web", 6), (HOSTILE[:40], 2)]
    assert (report.farms_total, report.entries_total, report.strange_clocks) == (2, 8, 1)
    web = report.farms[0]
    assert web.period == Period(at(0), at(HOURS))
    assert web.timeline is not None
    assert web.timeline.led == [Turn(at(0), 1), Turn(at(12), 2), Turn(at(20), None)]
    assert web.timeline.published == [Turn(at(0), None), Turn(at(1), 2), Turn(at(25), 3)]
    assert (web.timeline.led_changes, web.timeline.published_changes) == (2, 2)
    assert web.anomalies is not None
    assert [each.score for each in web.anomalies.strongest] == [7.0, 6.0, 5.0]
    assert web.backtest is not None
    assert [(each.live, each.recommended, each.cost, each.imbalance) for each in web.backtest.trials] == [
        (True, False, 1.0, 0.5),
        (False, True, 0.5, 0.5),
        (False, False, 0.4, 0.5),
    ]
    assert [each.gain for each in web.backtest.trials] == ["", "50.0% (10.0% to 90.0%)", "60.0% (10.0% to 90.0%)"]
    assert web.backtest.trials[0].advice == "Because."
    assert report.quarantine is not None
    assert [(each.what, each.count, each.length) for each in report.quarantine.reasons] == [
        ("line", 3, 15),
        ("file", 1, 7),
    ]
    sizes = {each.name: each for each in report.sizes}
    assert (sizes["entries"].rows, sizes["routers"].rows) == (10, None)
    assert (sizes["quarantine"].bytes or 0) > 0


def test_availability_and_loads(report: Report) -> None:
    web = report.farms[0]
    assert web.heat is not None
    assert web.heat.stretch_ms == HOUR_MS
    assert [(row.server, row.availability, row.records, row.flaps) for row in web.heat.rows] == [
        (1, 1.0, 3600, 0),
        (2, 0.5, 3600, 30),
    ]
    assert sorted(web.heat.rows[0].cells) == list(range(HOURS))
    assert web.heat.rows[1].cells[3].availability == 0.5
    assert web.loads is not None
    assert web.loads.lines[0].values == [hour / 100 for hour in range(HOURS)]


def test_weights_are_carried_on_and_gaps_stay(report: Report) -> None:
    """Leaf 1 is listed from hour 1 to 10 and from 25 on; the last decision in an hour counts."""
    weights = report.farms[0].weights
    assert weights is not None
    lines = {line.name: line.values for line in weights.lines}
    assert lines["leaf1"] == [None, *[10.0] * 9, *[None] * 15, *[12.0] * 5]
    assert lines["leaf2"] == [None, *[99.0] * 29]


def test_a_period_knows_what_was_before_it(spark: "SparkSession", lake: Lake) -> None:
    period = Period(at(15), at(24))
    entries_of, decisions = read(spark, lake, "entries"), read(spark, lake, "decisions")
    timeline = gather_farm.timeline(entries_of, decisions, period)
    assert timeline.led == [Turn(at(0), 1), Turn(at(12), 2), Turn(at(20), None)]
    assert timeline.published == [Turn(at(0), None), Turn(at(1), 2)]
    assert (timeline.led_changes, timeline.published_changes) == (1, 0)
    weights = gather_farm.weights(decisions, period)
    assert {line.name: set(line.values) for line in weights.lines} == {"leaf2": {99.0}}


def test_of_turns_at_one_time_the_last_one_counts(spark: "SparkSession", lake: Lake) -> None:
    """A server that was away takes many entries in at once."""
    rows = [("web", index, at(1), publisher) for index, publisher in ((1, 3), (2, 1), (3, 2))]
    decisions = spark.createDataFrame(rows, "farm string, index long, received_ms long, publisher long")
    timeline = gather_farm.timeline(read(spark, lake, "entries"), decisions, Period(at(0), at(2)))
    assert timeline.published == [Turn(at(1), 3), Turn(at(1), 1), Turn(at(1), 2)]


def test_the_last_three_days_of_floodfills(report: Report) -> None:
    floodfills = report.floodfills
    assert floodfills is not None
    assert [(each.name, each.hash, sorted(each.days)) for each in floodfills.hashes] == [
        (f"web: {hash_}", hash_, ["2026-07-02", "2026-07-03", "2026-07-04"]) for hash_ in ("h1", "h2")
    ]
    first, second = floodfills.hashes[0].days["2026-07-02"]
    assert (first.floodfill, first.equal_bits, first.profile) == ("f1", 255, {"heard_ms": "5", "speed": "1.5"})
    assert (second.rank, second.profile) == (2, {})


def test_what_is_too_much_is_summed_up(spark: "SparkSession", lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MAX_SERVERS", "MAX_LEAVES", "MAX_ANOMALIES", "MAX_SETS", "MAX_TURNS"):
        monkeypatch.setattr(gather_farm, name, 1)
    period = Period(at(0), at(HOURS))
    heat = gather_farm.heat(read(spark, lake, "server_hours"), period)
    assert ([row.server for row in heat.rows], heat.others, heat.others_availability) == ([2], 1, 1.0)
    assert (heat.servers, heat.servers_availability) == (2, 0.75)
    weights = gather_farm.weights(read(spark, lake, "decisions"), period)
    assert ([line.name for line in weights.lines], weights.others) == (["leaf2"], 1)
    anomalies = gather_farm.anomalies(read(spark, lake, "anomalies"), period)
    assert anomalies is not None
    assert (len(anomalies.strongest), anomalies.total) == (1, 3)
    older = read(spark, lake, "anomalies").drop("begin_ms")
    assert gather_farm.anomalies(older, period) is None
    trials = gather_farm.backtest(read(spark, lake, "backtest"), period)
    assert trials is not None
    assert gather_farm.backtest(read(spark, lake, "backtest").drop("outage_ms"), period) is None  # an older version's
    assert ([each.live for each in trials.trials], trials.total) == ([True], 3)
    timeline = gather_farm.timeline(read(spark, lake, "entries"), None, period)
    assert (timeline.led, timeline.led_changes, timeline.published) == ([Turn(at(20), None)], 2, None)


def test_what_is_not_there(spark: "SparkSession", lake: Lake, tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="begin with gf-i2p pipeline ingest"):
        gather(spark, Lake(str(tmp_path)), ReportScope())
    with pytest.raises(PipelineError, match="nothing of a farm 'wub'"):
        gather(spark, lake, ReportScope(("web", "wub")))
    with pytest.raises(PipelineError, match="The period is empty"):
        gather(spark, lake, ReportScope((), at(3), at(3)))


def test_of_a_farm_that_was_not_replayed_nothing_is_said_that_a_replay_shows(report: Report) -> None:
    """The last backtest was of one farm only."""
    web, other = report.farms
    assert (web.weights is None, web.backtest is None) == (False, False)
    assert (other.weights, other.backtest) == (None, None)
    assert other.timeline is not None
    assert other.timeline.published is None
    text = page(report)
    assert text.count("The publishers are not known") == 1
    assert "The table backtest has nothing of this yet: <code>gf-i2p pipeline backtest</code>" in text


@pytest.mark.slow  # one more lake
def test_a_period_ends_with_the_newest_entry(spark: "SparkSession", tmp_path: Path) -> None:
    """Hours go on for longer, also where there are only some minutes; one entry alone has a minute."""
    lake = Lake(str(tmp_path / "lake"))
    rows = [Row(index=index, received_ms=at(ended), kind="other", value="{}") for index, ended in ((1, 0.1), (2, 0.4))]
    rows += [Row(index=1, received_ms=at(3), kind="other", value="{}", farm="one")]
    entries(spark, rows).write.partitionBy("farm", "day").parquet(lake.path("entries"))
    write(spark, lake, "server_hours", [("farm", day(at(0)), at(0), 1, 48, 1.0, 0, 0)])
    report = gather(spark, lake, ReportScope())
    assert [each.period for each in report.farms] == [Period(at(0.1), at(0.4)), Period(at(3), at(3) + 60_000)]
    assert report.farms[0].heat is not None
    assert [*report.farms[0].heat.rows[0].cells] == [0]
    assert "NaN" not in page(report)
    with pytest.raises(PipelineError, match="nothing of a farm 'farm'"):
        gather(spark, lake, ReportScope(("farm",), at(-1), at(0.1)))  # the end is no part of a period


def test_the_hour_in_which_a_period_begins_has_a_place_of_its_own(spark: "SparkSession", lake: Lake) -> None:
    period = Period(at(3.1), at(6))
    heat = gather_farm.heat(read(spark, lake, "server_hours"), period)
    assert [sorted(row.cells) for row in heat.rows] == [[0, 1, 2]] * 2
    assert [heat.rows[0].cells[each].records for each in range(3)] == [120] * 3
    loads = gather_farm.loads(read(spark, lake, "destination_hours"), period)
    assert [line.values for line in loads.lines] == [[0.03, 0.04, 0.05]]
    [line] = gather_farm.loads(read(spark, lake, "destination_hours"), Period(at(3.1), at(3.4))).lines
    assert line.values == [0.03], "a farm that has lived for some minutes"


def test_members_are_not_counted_as_servers(
    spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = Lake(str(tmp_path / "lake"))
    rows = [("web", day(at(0)), at(0), server, 9, 0.5, 0, 0) for server in (1, 1 << 31, (1 << 31) + 1)]
    write(spark, lake, "server_hours", rows)
    monkeypatch.setattr(gather_farm, "MAX_SERVERS", 2)
    heat = gather_farm.heat(read(spark, lake, "server_hours"), Period(at(0), at(1)))
    assert (len(heat.rows), heat.others, heat.servers, heat.servers_availability) == (2, 1, 1, 0.5)


def test_no_more_farms_than_a_report_has(spark: "SparkSession", lake: Lake) -> None:
    with pytest.raises(PipelineError, match="A report shows up to 8 farms, not 9"):
        gather(spark, lake, ReportScope(("web", *(f"farm-{number}" for number in range(8)))))


def test_a_lake_with_one_table_only(spark: "SparkSession", tmp_path: Path) -> None:
    lake = Lake(str(tmp_path / "lake"))
    write(spark, lake, "server_hours", [("web", day(at(0)), at(0), 1, 120, 1.0, 0, 0)])
    figures = make_report(spark, lake, ReportOptions(tmp_path / "report.html"))
    text = (tmp_path / "report.html").read_text()
    assert "gf-i2p pipeline ingest" in text
    assert "gf-i2p pipeline floodfills" in text
    assert (figures.farms, figures.rows, figures.bytes) == (1, 1, len(text.encode()))
    assert "entries" in figures.missing
    assert [each.name for each in tmp_path.glob("*.html*")] == ["report.html"]
