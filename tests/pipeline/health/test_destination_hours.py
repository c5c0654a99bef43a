"""Hours of destinations: a server's record about a destination stands until the server's next record."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as fn

from gf_i2p.farm.record.destinations import Leaf
from gf_i2p.netdb.encoding import to_base64
from gf_i2p.pipeline.days import Span
from gf_i2p.pipeline.health.destination_hours import destination_hours
from gf_i2p.pipeline.health.status_reports import extents, in_days
from tests.farm.strategies import leaf, record
from tests.pipeline.entry_rows import Row, entries
from tests.pipeline.health.hours_of_tests import FRESH, HOUR, START, Hours, HoursOfTests


def records_of(leaves_by_time: Mapping[int, Iterable[Leaf]], *, server: int = 1, down: Iterable[int] = ()) -> list[Row]:
    """Make a server's records; `told`: the named leaves by the milliseconds after `START`."""
    without = frozenset(down)
    return [
        Row(index=1 + at * 10 + server, record=record(server, *leaves, date=START + at, up=at not in without))
        for at, leaves in leaves_by_time.items()
    ]


def speaks(until: int) -> list[Row]:
    """Make the farm go on until this time by another server, without leaves."""
    return records_of({0: (), until: ()}, server=2)


NUMBERS = {to_base64(number.to_bytes(32)): number for number in range(10)}
with_rows = HoursOfTests(destination_hours, lambda made: NUMBERS[made["destination"]])


@with_rows(
    records_of(
        {
            0: [leaf(1)],
            60_000: [leaf(1), leaf(2)],
            120_000: [leaf(1, up=False), leaf(2)],
            180_000: [leaf(1)],
        }
    ),
    speaks(HOUR),
)
def test_a_destination_is_up_while_its_server_says_so(hours: Hours) -> None:
    one, two = hours[1, 0], hours[2, 0]
    assert (one["records"], one["watched_ms"], one["flaps"]) == (4, HOUR, 2)
    assert one["availability"] == (120_000 + FRESH) / HOUR
    # The second destination was new after a minute, and a later record without this destination ends the time.
    assert (two["records"], two["watched_ms"], two["flaps"]) == (2, HOUR - 60_000, 0)
    assert two["availability"] == 120_000 / (HOUR - 60_000)
    assert (one["day"], one["server"]) == ("2026-09-21", 1)
    assert (2, 1) not in hours


@with_rows(records_of({0: [leaf(1)], 60_000: [leaf(1)], 120_000: [leaf(1)]}, down=[60_000]), speaks(120_000))
def test_one_whose_router_is_down_is_not_up(hours: Hours) -> None:
    assert (hours[1, 0]["availability"], hours[1, 0]["flaps"]) == (0.5, 2)


@with_rows(
    records_of({0: [leaf(1), leaf(2)], HOUR - 20_000: [leaf(1), leaf(2)], HOUR + 10_000: [leaf(2)]}),
    speaks(2 * HOUR),
)
def test_what_stands_goes_on_in_the_next_hour_until_the_server_speaks(hours: Hours) -> None:
    assert hours[1, 1]["records"] == 0
    assert hours[1, 1]["availability"] == 10_000 / HOUR
    assert hours[2, 1]["records"] == 1
    assert hours[2, 1]["availability"] == (10_000 + FRESH) / HOUR


@with_rows(records_of({0: [leaf(1)]}), speaks(40 * HOUR))
def test_one_behind_a_silent_server_is_down_for_a_day_and_then_forgotten(hours: Hours) -> None:
    assert [hour for _, hour in sorted(hours)] == list(range(24))
    assert hours[1, 0]["availability"] == FRESH / HOUR
    assert {hours[1, hour]["availability"] for hour in range(1, 24)} == {0.0}


@with_rows(records_of({0: [leaf(1)], HOUR: [leaf(1, up=False)], 2 * HOUR: [leaf(1, up=False)]}))
def test_flaps_between_hours_count_in_the_later_one(hours: Hours) -> None:
    assert [hours[1, hour]["flaps"] for hour in range(3)] == [0, 1, 0]


@with_rows(
    records_of({0: [leaf(1, up=False), leaf(1), leaf(2)], 60_000: [leaf(1, up=False), leaf(1, up=False)]}),
    speaks(120_000),
)
def test_one_that_is_named_twice_counts_once_and_is_up_when_either_says_so(hours: Hours) -> None:
    assert (hours[1, 0]["records"], hours[1, 0]["availability"], hours[1, 0]["flaps"]) == (2, 0.5, 1)
    assert hours[2, 0]["records"] == 1


def busy(now: int | None, most: int | None) -> list[Leaf]:
    return [Leaf((1).to_bytes(32), up=True, current_connections=now, configured_connections=most)]


@with_rows(
    records_of({0: busy(10, 100), 1000: busy(30, 100), 2000: busy(None, 100), 3000: busy(2, None), 4000: busy(2, 0)})
)
def test_load_is_what_it_has_of_what_it_takes(hours: Hours) -> None:
    assert (hours[1, 0]["connections"], hours[1, 0]["load"]) == ((10 + 30 + 2 + 2) / 4, 0.2)


def test_a_hash_without_its_padding_is_the_same_hash(spark: SparkSession) -> None:
    rows = entries(spark, records_of({0: [leaf(1)], 60_000: [leaf(1)]}))
    bare = fn.transform(
        "record.destinations", lambda each: each.withField("hash", fn.regexp_replace(each["hash"], "=", ""))
    )
    cut = fn.when(fn.col("index") > 100, bare).otherwise(fn.col("record.destinations"))
    hours = destination_hours(rows.withColumn("record", fn.col("record").withField("destinations", cut))).collect()
    assert [(row["destination"], row["records"]) for row in hours] == [(to_base64((1).to_bytes(32)), 2)]


@pytest.mark.slow  # the hours of servers have the same test
def test_each_day_alone_is_as_all_days_together(spark: SparkSession, tmp_path: Path) -> None:
    leaves_by_time: dict[int, list[Leaf]] = {}
    for number in range(80):
        # Leaf 3 is gone for days, leaf 2 for some hours; for a day and a half nobody speaks.
        leaves = [leaf(1, up=number % 7 > 2)]
        leaves += [leaf(2, up=number % 2 == 0)] if number % 9 < 5 else []
        leaves += [leaf(3)] if not 10 < number < 79 else []
        leaves_by_time[number * 2_000_000 + (36 * HOUR if number > 40 else 0)] = leaves
    entries(spark, records_of(leaves_by_time) + speaks(83 * HOUR)).coalesce(1).write.parquet(str(tmp_path / "entries"))
    rows = spark.read.parquet(str(tmp_path / "entries"))
    server_extents = extents(rows)
    all_days = [row.asDict() for row in destination_hours(rows).collect()]
    days = sorted({row["day"] for row in all_days})
    assert len(days) == 5
    for day in (days[1], days[3]):
        span = Span.parse(day, day)
        alone = destination_hours(rows.where(in_days(span, before=1)), server_extents, span).collect()
        assert in_order(row.asDict() for row in alone) == in_order(row for row in all_days if row["day"] == day), day


def in_order(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: (row["destination"], row["hour_ms"]))
