"""Hours of servers: every rule with exact figures, and all rules against independent SQL."""

import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import duckdb
import pytest
from chispa import assert_df_equality
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from gf_i2p.farm.record.status_record import FIRST_LEAF_MEMBER_ID, Meta, StatusRecord
from gf_i2p.pipeline.days import Span
from gf_i2p.pipeline.health.server_hours import server_hours
from gf_i2p.pipeline.health.status_reports import extents, in_days
from tests.farm.strategies import MASTER, record
from tests.pipeline.entry_rows import Row, entries
from tests.pipeline.health.hours_of_tests import FRESH, HOUR, START, Hours, HoursOfTests
from tests.tier import mostly_slow

EVERY = 30_000


def reports(server: int, times: Iterable[int], *, down: Iterable[int] = (), **router: Any) -> list[Row]:
    """Make a server's records at these times after `START`; at the times in `down` the router is down."""
    without = frozenset(down)
    return [
        Row(
            index=1 + time * 10 + server % 10,
            record=record(server, date=START + time, up=time not in without, router=router),
        )
        for time in times
    ]


with_rows = HoursOfTests(server_hours, lambda made: made["server"])


@with_rows(reports(1, range(0, 2 * HOUR + 1, EVERY)))
def test_a_server_that_always_reports_is_there_all_the_time(hours: Hours) -> None:
    assert set(hours) == {(1, 0), (1, 1), (1, 2)}
    for hour in (0, 1):
        row = hours[1, hour]
        assert row["day"] == "2026-09-21"
        assert (row["records"], row["up_records"], row["watched_ms"]) == (120, 120, HOUR)
        assert (row["availability"], row["gaps"], row["longest_gap_ms"], row["flaps"]) == (1.0, 0, 0, 0)
    # The farm's last record begins an hour with nothing known but this record.
    assert (hours[1, 2]["records"], hours[1, 2]["watched_ms"], hours[1, 2]["availability"]) == (1, 0, 1.0)


@with_rows(reports(1, [0, HOUR - 5_000]), reports(2, range(0, 2 * HOUR + 1, EVERY)))
def test_a_record_covers_105_seconds_and_into_the_next_hour(hours: Hours) -> None:
    first, second = hours[1, 0], hours[1, 1]
    assert first["availability"] == (FRESH + 5_000) / HOUR
    assert (first["gaps"], first["longest_gap_ms"]) == (1, HOUR - 5_000 - FRESH)
    assert second["availability"] == (FRESH - 5_000) / HOUR
    assert (second["records"], second["gaps"], second["longest_gap_ms"]) == (0, 1, HOUR - (FRESH - 5_000))
    assert second["lag_ms"] is None
    assert second["skew_ms"] is None


@with_rows(reports(1, [0, FRESH]), reports(2, [0, FRESH + 1]))
def test_a_gap_begins_when_a_record_is_no_longer_fresh(hours: Hours) -> None:
    # The farm reaches one millisecond further than the last record of server 1, which is still fresh.
    assert [(hours[server, 0]["gaps"], hours[server, 0]["longest_gap_ms"]) for server in (1, 2)] == [(0, 0), (1, 1)]


@with_rows(reports(1, [0, 200_000, 600_000, 700_000]), reports(2, range(0, 900_001, EVERY)))
def test_gaps_are_counted_and_the_longest_is_told(hours: Hours) -> None:
    row = hours[1, 0]
    assert row["gaps"] == 3
    assert row["longest_gap_ms"] == 400_000 - FRESH
    assert row["availability"] == (FRESH * 3 + 100_000) / 900_000


@with_rows(reports(1, range(0, 2 * HOUR + 1, EVERY)), reports(2, range(HOUR + 900_000, 2 * HOUR, EVERY)))
def test_what_lies_before_the_first_record_is_nothing(hours: Hours) -> None:
    assert (2, 0) not in hours
    row = hours[2, 1]
    assert (row["watched_ms"], row["availability"], row["gaps"]) == (HOUR - 900_000, 1.0, 0)


@with_rows(reports(1, [0, *range(0, 4 * HOUR - 600_000, EVERY)]), reports(2, [0]))
def test_after_its_last_record_a_server_is_silent_as_far_as_the_farm_reaches(hours: Hours) -> None:
    reach = 4 * HOUR - 600_000 - EVERY
    assert [hours[2, each]["longest_gap_ms"] for each in range(4)] == [HOUR - FRESH, HOUR, HOUR, reach - 3 * HOUR]
    assert [hours[2, each]["availability"] for each in range(4)] == [FRESH / HOUR, 0.0, 0.0, 0.0]
    assert [hours[2, each]["gaps"] for each in range(4)] == [1, 1, 1, 1]
    assert max(hour for _, hour in hours) == 3


@with_rows(reports(1, [0, EVERY]))
def test_another_farm_does_not_prolong_this_one(hours: Hours) -> None:
    # Farms of other tests reach hours further.
    assert set(hours) == {(1, 0)}
    assert hours[1, 0]["watched_ms"] == EVERY


@with_rows(reports(1, [*range(0, HOUR, EVERY), HOUR], down=range(600_000, 900_000, EVERY)))
def test_a_router_that_is_down_is_not_available_and_no_gap(hours: Hours) -> None:
    row = hours[1, 0]
    assert (row["records"], row["up_records"]) == (120, 110)
    assert (row["availability"], row["gaps"], row["flaps"]) == ((HOUR - 300_000) / HOUR, 0, 2)


@with_rows(reports(1, [0, HOUR, 26 * HOUR], down=[HOUR]), reports(2, [0, HOUR, 25 * HOUR], down=[HOUR]))
def test_flaps_between_hours_count_in_the_later_one_for_a_day(hours: Hours) -> None:
    assert [hours[1, hour]["flaps"] for hour in (0, 1, 26)] == [0, 1, 0]  # after 25 hours no two records are compared
    assert hours[2, 25]["flaps"] == 1


@with_rows(reports(1, [HOUR - 10_000, HOUR + 20_000, HOUR + 50_000], down=[HOUR - 10_000]))
def test_an_hour_that_begins_down_is_down_until_the_next_record(hours: Hours) -> None:
    assert hours[1, 1]["availability"] == 30_000 / 50_000


@with_rows(
    reports(1, [0], jobLag=10, participatingTunnels=100, currentInboundBandwidth=1000, knownPeers=5),
    reports(1, [1000], jobLag=30, participatingTunnels=-1, currentOutboundBandwidth=4.5, knownPeers=1e300),
    reports(1, [2000]),
)
def test_numbers_are_means_of_what_can_be_a_number(hours: Hours) -> None:
    row = hours[1, 0]
    assert (row["lag_ms"], row["tunnels"], row["in_bytes_s"], row["out_bytes_s"]) == (20.0, 100.0, 1000.0, 4.5)
    assert row["known_peers"] == 5.0


@with_rows(
    Row(
        index=10 * each + server,
        record=record(server, date=START + each * EVERY + ahead),
        received_ms=START + each * EVERY,
    )
    for server, ahead in ((1, -400), (2, -300), (3, 40_000))
    for each in range(10)
)
def test_skew_is_the_distance_from_the_middle_server(hours: Hours) -> None:
    assert [hours[server, 0]["skew_ms"] for server in (1, 2, 3)] == [-100.0, 0.0, 40_300.0]


PUBLISHING = [Meta(MASTER.base64, "auto", publishing) for publishing in (True, False, False)]


@with_rows(
    Row(index=at, record=StatusRecord("farm", START + at, 1, True, meta=meta))
    for at, meta in enumerate([*PUBLISHING, None])
)
def test_publishing_is_a_share_of_records(hours: Hours) -> None:
    assert hours[1, 0]["publishing"] == 0.25


@with_rows(
    [
        Row(index=1, term=1, record=record(1, date=START)),
        Row(index=1, term=2, record=record(1, date=START + 1000)),  # the farm began anew: both were said
        Row(index=2, record=record(1, date=START + 2000), misfit="its date is a day off"),
        Row(index=3, kind="admin", value="{}", received_ms=START + 50_000),
        Row(index=4, kind="servers", servers=[1], leader=1, received_ms=START + 60_000),
    ]
)
def test_misfits_and_other_entries_are_no_reports_but_superseded_ones_are(hours: Hours) -> None:
    assert (hours[1, 0]["records"], hours[1, 0]["watched_ms"]) == (2, 1000)


@with_rows(reports(FIRST_LEAF_MEMBER_ID, [0, 60_000]))
def test_members_are_servers_equals(hours: Hours) -> None:
    assert hours[FIRST_LEAF_MEMBER_ID, 0]["availability"] == 1.0


@with_rows(
    [
        Row(index=index, record=record(1, date=START + 1000, up=up), received_ms=START + 1000)
        for index, up in ((3, False), (1, True), (2, False))
    ],
    reports(2, [0, 60_000]),
)
def test_records_of_one_time_are_taken_in_the_logs_order(hours: Hours) -> None:
    assert (hours[1, 0]["flaps"], hours[1, 0]["availability"]) == (1, 0.0)


# Some days ------------------------------------------------------------------------------------------------------------


@pytest.mark.slow  # four seconds of Spark
def test_each_day_alone_is_as_all_days_together(spark: SparkSession, tmp_path: Path) -> None:
    entries(spark, rambling(3, days=5, servers=2)).write.partitionBy("farm", "day").parquet(str(tmp_path / "entries"))
    rows = spark.read.parquet(str(tmp_path / "entries"))
    all_days, server_extents = [row.asDict() for row in rounded(server_hours(rows)).collect()], extents(rows)
    days = sorted({row["day"] for row in all_days})
    assert len(days) >= 5
    for day in (days[1], days[3]):
        span = Span.parse(day, day)
        alone = rounded(server_hours(rows.where(in_days(span, before=1)), server_extents, span)).collect()
        assert [row.asDict() for row in alone] == [row for row in all_days if row["day"] == day], day


# A second opinion -----------------------------------------------------------------------------------------------------


def rambling(seed: int, *, days: int, servers: int) -> list[Row]:
    """Make the reports of servers that come and go, are silent for minutes or days, and have falling routers."""
    print(f"seed {seed}")
    chance, rows = random.Random(seed), list[Row]()
    for farm in ("one", "2026"):
        for server in [*range(1, servers), FIRST_LEAF_MEMBER_ID + 7]:
            at, up, ahead = chance.randrange(days * 12 * HOUR), True, chance.gauss(0, 5000)
            while at < days * 24 * HOUR - chance.randrange(12) * HOUR:
                up = up if chance.random() < 0.9 else not up
                router = {"jobLag": chance.randrange(50), "knownPeers": chance.randrange(2000)}
                date = START + at + round(ahead + chance.gauss(0, 100))
                router = router if chance.random() < 0.9 else {}
                status = record(server, date=date, up=up, cluster=farm, router=router)
                rows.append(Row(index=len(rows), record=status, received_ms=START + at, farm=farm))
                at += chance.choice([0, 30_000, 60_000, 105_000, 105_001, 400_000, 2 * HOUR, 3 * HOUR])
                at += 0 if chance.random() < 0.98 else 50 * HOUR
    return rows


SECOND_OPINION = """
WITH r AS (
  SELECT farm, record.id AS server, received_ms AS t, record.router.up AS up, record.date - received_ms AS d,
         record.router.jobLag AS lag, record.router.knownPeers AS peers,
         lag(record.router.up) OVER w AS was_up, lag(received_ms) OVER w AS was_t,
         lead(received_ms) OVER w AS next_t, min(received_ms) OVER (PARTITION BY farm, record.id) AS born,
         max(received_ms) OVER (PARTITION BY farm) AS reach
  FROM entries WHERE kind = 'status' AND misfit IS NULL
  WINDOW w AS (PARTITION BY farm, record.id ORDER BY received_ms, index, term)),
-- Each record covers a stretch, and leaves one uncovered.
stretches AS (
  SELECT farm, server, up, t AS a, least(t + 105000, coalesce(next_t, reach), reach) AS b, false AS gap FROM r
  UNION ALL
  SELECT farm, server, false, t + 105000, coalesce(next_t, reach), true FROM r
  WHERE coalesce(next_t, reach) > t + 105000),
grid AS (
  SELECT farm, server, born, reach, unnest(range(born - born % 3600000, reach + 1, 3600000)) AS hour_ms
  FROM (SELECT DISTINCT farm, server, born, reach FROM r)),
pieces AS (
  SELECT g.farm, g.server, g.hour_ms, s.up, s.gap, least(s.b, g.hour_ms + 3600000) - greatest(s.a, g.hour_ms) AS ms
  FROM grid g JOIN stretches s ON g.farm = s.farm AND g.server = s.server
   AND s.a < g.hour_ms + 3600000 AND s.b > g.hour_ms),
covered AS (
  SELECT farm, server, hour_ms, sum(ms) FILTER (up) AS up_ms, count(*) FILTER (gap) AS gaps,
         max(ms) FILTER (gap) AS longest FROM pieces GROUP BY ALL),
told AS (
  SELECT farm, server, t - t % 3600000 AS hour_ms, count(*) AS records, count(*) FILTER (up) AS up_records,
         count(*) FILTER (up != was_up AND t - was_t <= 86400000) AS flaps, avg(lag) AS lag_ms, avg(d) AS d,
         avg(peers) AS known_peers
  FROM r GROUP BY ALL),
middle AS (SELECT farm, hour_ms, median(d) AS m FROM told GROUP BY ALL),
figures AS (
  SELECT g.farm, g.hour_ms, g.server, least(g.hour_ms + 3600000, reach) - greatest(g.hour_ms, born) AS watched_ms,
         coalesce(records, 0) AS records, coalesce(up_records, 0) AS up_records, coalesce(up_ms, 0) AS up_ms,
         coalesce(gaps, 0) AS gaps, coalesce(longest, 0) AS longest_gap_ms, coalesce(flaps, 0) AS flaps, lag_ms,
         d - m AS skew_ms, known_peers
  FROM grid g LEFT JOIN covered USING (farm, server, hour_ms) LEFT JOIN told USING (farm, server, hour_ms)
  LEFT JOIN middle USING (farm, hour_ms))
SELECT farm, hour_ms, server, watched_ms, records, up_records, gaps, longest_gap_ms, flaps,
       CASE WHEN watched_ms > 0 THEN up_ms / watched_ms ELSE up_records / records END AS availability,
       lag_ms, skew_ms, known_peers
FROM figures WHERE watched_ms > 0 OR records > 0
"""


COLUMNS = (
    "farm string, hour_ms long, server long, watched_ms long, records long, up_records long, gaps long, "
    "longest_gap_ms long, flaps long, availability double, lag_ms double, skew_ms double, known_peers double"
)


@pytest.mark.parametrize("seed", mostly_slow(range(2), 0))
def test_sql_that_was_written_apart_finds_the_same(spark: SparkSession, seed: int) -> None:
    rows = entries(spark, rambling(seed, days=4, servers=3))
    with duckdb.connect() as database:
        database.register("entries", rows.drop("raw").toArrow())
        # Rows, and no pandas frame, which PySpark 4.2.0 cannot take with pyarrow 18.
        expected = spark.createDataFrame(database.sql(SECOND_OPINION).fetchall(), COLUMNS)
    made = server_hours(rows).select(*expected.columns)
    assert made.count() > 100
    assert_df_equality(rounded(made), rounded(expected), ignore_nullable=True)


def rounded(rows: DataFrame) -> DataFrame:
    """Sums of floats depend on the order of the addition."""
    real = [name for name, kind in rows.dtypes if kind == "double"]
    return rows.withColumns({name: fn.round(name, 6) for name in real}).orderBy("farm", "server", "hour_ms")
