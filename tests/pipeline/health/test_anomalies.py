"""Hours that differ from a server's own past."""

from collections.abc import Sequence
from typing import Any, Final

import pytest
from pyspark.sql import Row, SparkSession

from gf_i2p.pipeline.days import DAY_MS, HOUR_MS
from gf_i2p.pipeline.health.anomalies import LEAST_HOURS, LEAST_WATCHED_MS, MEASURES, HourlyFigure, anomalies

START: Final = 1_789_999_200_000
SCHEMA: Final = "farm string, server long, hour_ms long, watched_ms long, " + ", ".join(
    f"{measure.name} double" for measure in MEASURES
)


def hours(values: Sequence[float | None], measure: str = "tunnels", *, server: int = 1, **others: Any) -> list[Any]:
    """Make the hours of a server with these values, one after the other."""
    plain: dict[str, Any] = {"farm": "farm", "server": server, "watched_ms": HOUR_MS, **others}
    return [
        tuple(
            {**plain, "hour_ms": START + number * HOUR_MS, measure: value}.get(name.split()[0])
            for name in SCHEMA.split(", ")
        )
        for number, value in enumerate(values)
    ]


def judged(spark: SparkSession, rows: Sequence[Any]) -> list[Row]:
    return anomalies(spark.createDataFrame(rows, SCHEMA)).orderBy("hour_ms").collect()


def test_it_says_what_is_unlike_the_past_and_by_how_much(spark: SparkSession) -> None:
    # Median 1000 and MAD 40 of the hours before: 59.304 is the spread, above the floors of 10 and 5 %.
    past = [960.0, 1000.0, 1040.0] * 8
    # 296 is less than five spreads.
    (row,) = judged(spark, hours([*past, 1300.0]) + hours([*past, 1296.0], server=2))
    assert (row["farm"], row["server"], row["hour_ms"]) == ("farm", 1, START + 24 * HOUR_MS)
    assert (row["measure"], row["value"], row["usual"]) == ("tunnels", 1300.0, 1000.0)
    assert row["spread"] == pytest.approx(59.304)
    assert row["score"] == pytest.approx(300 / 59.304)
    assert row["text"] == (
        "participating tunnels of server 1 was 1,300 in the hour from 2026-09-22 14:00 UTC; "
        "usual is 1,000, give or take 59"
    )


def test_the_middle_of_an_even_number_lies_between_two(spark: SparkSession) -> None:
    (row,) = judged(spark, hours([100.0] * 12 + [120.0] * 12 + [900.0]))
    assert row["usual"] == 110.0


@pytest.fixture(scope="module")
def near_the_floor(spark: SparkSession) -> list[Row]:
    """Judge last hours near the floor of each measure. A farm for each measure, a server for each hour."""
    rows = []
    for measure in MEASURES:
        usual, floor, sign = level(measure)
        last = [6.0 * sign, 4.9 * sign, *([-6.0 * sign] if measure.only else [])]
        for server, floors in enumerate(last, 1):
            values = [*[usual] * LEAST_HOURS, usual + floors * floor]
            rows += hours(values, measure.name, server=server, farm=measure.name)
    return judged(spark, rows)


def level(measure: HourlyFigure) -> tuple[float, float, int]:
    """Return a measure's usual value, the floor of its spread, and the sign of the direction that counts."""
    usual = 1.0 if measure.name == "availability" else 1e6
    return usual, max(measure.floor, measure.share * usual), -1 if measure.only == "low" else 1


@pytest.mark.parametrize("measure", MEASURES, ids=lambda measure: measure.name)
def test_the_spread_has_a_floor(near_the_floor: list[Row], measure: HourlyFigure) -> None:
    """Six floors in the direction that counts are an anomaly. 4.9 floors are none, nor six in the other direction."""
    (row,) = [each for each in near_the_floor if each["farm"] == measure.name]
    assert (row["server"], row["measure"], row["spread"]) == (1, measure.name, pytest.approx(level(measure)[1]))
    assert row["score"] == pytest.approx(6)


def test_with_less_than_a_day_of_past_nothing_is_said(spark: SparkSession) -> None:
    short = hours([1000.0] * (LEAST_HOURS - 1) + [5000.0])
    # Hours without values do not count as a past.
    assert judged(spark, short + hours([*[1000.0] * (LEAST_HOURS - 1), None, 5000.0], server=2)) == []


def test_what_was_more_than_seven_days_ago_is_forgotten(spark: SparkSession) -> None:
    before, week = [1000.0] * 30, 7 * 24
    silent = hours([1000.0] * 30, server=2) + [
        (*row[:2], row[2] + 30 * HOUR_MS + 7 * DAY_MS, *row[3:]) for row in hours([5000.0], server=2)
    ]
    rows = judged(spark, hours([*before, *[5000.0] * week, 5000.0]) + silent)
    assert {row["server"] for row in rows} == {1}
    last = max(row["hour_ms"] for row in rows)
    assert last < START + (30 + week // 2) * HOUR_MS  # when half of the past is on the new level, that level is usual
    assert {row["usual"] for row in rows} == {1000.0, 3000.0} or {row["usual"] for row in rows} == {1000.0}


def test_an_hour_of_which_little_was_watched_is_not_judged(spark: SparkSession) -> None:
    odd = [None] * LEAST_HOURS + [0.1]
    rows = []
    for server, watched in ((1, LEAST_WATCHED_MS), (2, LEAST_WATCHED_MS - 1)):
        rows += hours([1.0] * LEAST_HOURS, "availability", server=server)
        rows += hours(odd, "availability", server=server, watched_ms=watched)[-1:]
    assert [row["server"] for row in judged(spark, rows)] == [1]


def test_each_server_has_its_own_past(spark: SparkSession) -> None:
    rows = hours([1000.0] * 30) + hours([5000.0] * 30, server=2)
    assert judged(spark, rows) == []
