"""Hours that differ from a server's own past."""

from collections.abc import Callable, Sequence
from typing import Any, Final

import pytest
from pyspark.sql import Row, SparkSession

from gf_i2p.pipeline.days import DAY_MS, HOUR_MS
from gf_i2p.pipeline.health.anomalies import LEAST_HOURS, LEAST_WATCHED_MS, MEASURES, HourlyFigure, anomalies

START: Final = 1_789_999_200_000
SCHEMA: Final = "farm string, server long, hour_ms long, watched_ms long, " + ", ".join(
    f"{measure.name} double" for measure in MEASURES
)

Judged = Callable[[str], list[Row]]


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


PAST = [960.0, 1000.0, 1040.0] * 8
"""Median 1000 and MAD 40: 59.304 is the spread, above the floors of 10 and 5 %."""
WEEK = 7 * 24


def after_a_week(server: int, farm: str) -> list[Any]:
    """Make 30 usual hours of a server, and an unusual hour more than seven days later."""
    last = hours([5000.0], server=server, farm=farm)
    return hours([1000.0] * 30, server=server, farm=farm) + [
        (*row[:2], row[2] + 30 * HOUR_MS + 7 * DAY_MS, *row[3:]) for row in last
    ]


def little_watched(farm: str) -> list[Any]:
    rows = []
    for server, watched in ((1, LEAST_WATCHED_MS), (2, LEAST_WATCHED_MS - 1)):
        rows += hours([1.0] * LEAST_HOURS, "availability", server=server, farm=farm)
        odd = [None] * LEAST_HOURS + [0.1]
        rows += hours(odd, "availability", server=server, watched_ms=watched, farm=farm)[-1:]
    return rows


def near_the_floor() -> list[Any]:
    """Make last hours near the floor of each measure. A farm for each measure, a server for each hour."""
    rows = []
    for measure in MEASURES:
        usual, floor, sign = level(measure)
        last = [6.0 * sign, 4.9 * sign, *([-6.0 * sign] if measure.only else [])]
        for server, floors in enumerate(last, 1):
            values = [*[usual] * LEAST_HOURS, usual + floors * floor]
            rows += hours(values, measure.name, server=server, farm=measure.name)
    return rows


@pytest.fixture(scope="module")
def judged(spark: SparkSession) -> Judged:
    """Judge the hours of all tests in one query; return a farm's anomalies."""
    rows = [
        # 296 is less than five spreads.
        *hours([*PAST, 1300.0], farm="unlike"),
        *hours([*PAST, 1296.0], farm="unlike", server=2),
        *hours([100.0] * 12 + [120.0] * 12 + [900.0], farm="even"),
        # Hours without values do not count as a past.
        *hours([1000.0] * (LEAST_HOURS - 1) + [5000.0], farm="short"),
        *hours([*[1000.0] * (LEAST_HOURS - 1), None, 5000.0], farm="short", server=2),
        *hours([*[1000.0] * 30, *[5000.0] * (WEEK + 1)], farm="week"),
        *after_a_week(2, "week"),
        *little_watched("little"),
        *hours([1000.0] * 30, farm="own"),
        *hours([5000.0] * 30, farm="own", server=2),
        *near_the_floor(),
    ]
    found = anomalies(spark.createDataFrame(rows, SCHEMA)).orderBy("hour_ms").collect()
    return lambda farm: [row for row in found if row["farm"] == farm]


def test_it_says_what_is_unlike_the_past_and_by_how_much(judged: Judged) -> None:
    (row,) = judged("unlike")
    assert (row["server"], row["hour_ms"]) == (1, START + 24 * HOUR_MS)
    assert (row["measure"], row["value"], row["usual"]) == ("tunnels", 1300.0, 1000.0)
    assert row["spread"] == pytest.approx(59.304)
    assert row["score"] == pytest.approx(300 / 59.304)
    assert row["text"] == (
        "participating tunnels of server 1 was 1,300 in the hour from 2026-09-22 14:00 UTC; "
        "usual is 1,000, give or take 59"
    )


def test_the_middle_of_an_even_number_lies_between_two(judged: Judged) -> None:
    (row,) = judged("even")
    assert row["usual"] == 110.0


def level(measure: HourlyFigure) -> tuple[float, float, int]:
    """Return a measure's usual value, the floor of its spread, and the sign of the direction that counts."""
    usual = 1.0 if measure.name == "availability" else 1e6
    return usual, max(measure.floor, measure.share * usual), -1 if measure.only == "low" else 1


@pytest.mark.parametrize("measure", MEASURES, ids=lambda measure: measure.name)
def test_the_spread_has_a_floor(judged: Judged, measure: HourlyFigure) -> None:
    """Six floors in the direction that counts are an anomaly. 4.9 floors are none, nor six in the other direction."""
    (row,) = judged(measure.name)
    assert (row["server"], row["measure"], row["spread"]) == (1, measure.name, pytest.approx(level(measure)[1]))
    assert row["score"] == pytest.approx(6)


def test_with_less_than_a_day_of_past_nothing_is_said(judged: Judged) -> None:
    assert judged("short") == []


def test_what_was_more_than_seven_days_ago_is_forgotten(judged: Judged) -> None:
    rows = judged("week")
    assert {row["server"] for row in rows} == {1}
    last = max(row["hour_ms"] for row in rows)
    assert last < START + (30 + WEEK // 2) * HOUR_MS  # when half of the past is on the new level, that level is usual
    assert {row["usual"] for row in rows} == {1000.0, 3000.0} or {row["usual"] for row in rows} == {1000.0}


def test_an_hour_of_which_little_was_watched_is_not_judged(judged: Judged) -> None:
    assert [row["server"] for row in judged("little")] == [1]


def test_each_server_has_its_own_past(judged: Judged) -> None:
    assert judged("own") == []
