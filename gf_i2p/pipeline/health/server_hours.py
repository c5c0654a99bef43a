"""Each server's hours: availability, clock skew, and the figures of the server's router.

A record covers the time from its reception to the next record of the same server, but at most `FRESH_MS`, as in the
farm's own decisions. Availability is the share of the hour that is covered by records with the router up. A gap is a
stretch that no record covers, with the router up or down. The time before a server's first record does not count. From
its last record to the farm's last record, `reach_ms`, the server counts as silent. So only a part of a server's first
hour counts, and a part of the farm's last hour: `watched_ms`.

The job has two steps. The first step reads the records of one server and one hour, and computes a few figures. The
second step joins the figures of consecutive hours. So no partition holds more records than one server posts in an hour.
"""

from typing import TYPE_CHECKING, Final

from pyspark.sql import Window
from pyspark.sql import functions as fn

from gf_i2p.pipeline.days import ALL_DAYS, HOUR_MS, Span
from gf_i2p.pipeline.health.status_reports import (
    FRESH_MS,
    MEMORY_MS,
    day_of,
    hour_of,
    inner_figures,
    lasting_reports,
    number_column,
)

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

MEANS: Final = {
    "lag_ms": "jobLag",
    "tunnels": "participatingTunnels",
    "in_bytes_s": "currentInboundBandwidth",
    "out_bytes_s": "currentOutboundBandwidth",
    "known_peers": "knownPeers",
}
"""The columns that are means of a router's number, and the number's name in the record."""
SERVER_HOURS: Final = (
    "farm string, hour_ms bigint, server bigint, watched_ms bigint, records bigint, up_records bigint, "
    "availability double, gaps bigint, longest_gap_ms bigint, flaps bigint, lag_ms double, skew_ms double, "
    "tunnels double, in_bytes_s double, out_bytes_s double, known_peers double, publishing double, day string"
)
"""The columns of the table `server_hours`."""


def server_hours(entries: "DataFrame", extents: "DataFrame | None" = None, span: Span = ALL_DAYS) -> "DataFrame":
    """Return one row for each farm, server and hour, from the server's first hour to the farm's last hour.

    `entries`: the entries of the days of `span`, and of the day before. `extents`: `status_reports.extents` of all
    entries of the lake; None: `entries` are all entries.
    """
    filled = _with_silent(_inner_figures(entries), extents, span)
    hour, first, last, before = (fn.col(name) for name in ("hour_ms", "first_ms", "last_ms", "before_ms"))
    begin = fn.greatest(hour, fn.col("born_ms"))
    end = fn.least(hour + HOUR_MS, fn.col("reach_ms"))
    heard = fn.coalesce(first, end)  # until then, the last record before this hour counts
    head_ms = _not_negative(fn.least(before + FRESH_MS, heard) - begin)
    head_gap_ms = _not_negative(heard - fn.greatest(begin, before + FRESH_MS))  # greatest() leaves nulls out
    tail_ms = fn.least(last + FRESH_MS, end) - last
    tail_gap_ms = _not_negative(end - (last + FRESH_MS))
    up_ms = (
        fn.col("inner_up_ms")
        + fn.when(fn.col("before_up"), head_ms).otherwise(0)
        + fn.when(fn.col("last_up"), tail_ms).otherwise(0)
    )
    turned = (first - before <= MEMORY_MS) & (fn.col("first_up") != fn.col("before_up"))
    watched = _not_negative(end - begin)
    ahead = fn.col("ahead_ms")
    hours = filled.withColumns(
        {
            "watched_ms": watched,
            "availability": fn.coalesce(fn.try_divide(up_ms, watched), fn.try_divide("up_records", "records")),
            "gaps": fn.col("inner_gaps") + _one_if(head_gap_ms > 0) + _one_if(tail_gap_ms > 0),
            "longest_gap_ms": fn.greatest(fn.lit(0), "inner_gap_ms", head_gap_ms, tail_gap_ms),
            "flaps": fn.col("inner_flaps") + _one_if(turned),
            "skew_ms": ahead - fn.median(ahead).over(Window.partitionBy("farm", "hour_ms")),
            "day": day_of(hour),
        }
    )
    names = [column.split()[0] for column in SERVER_HOURS.split(", ")]
    return hours.where((fn.col("watched_ms") > 0) | (fn.col("records") > 0)).select(*names)


def _inner_figures(entries: "DataFrame") -> "DataFrame":
    """Return the figures of each hour for the time from that hour's first record to its last record."""
    numbers = (number_column(fn.col(f"record.router.{name}")).alias(column) for column, name in MEANS.items())
    rows = lasting_reports(
        entries,
        (fn.col("record.date") - fn.col("received_ms")).alias("ahead_ms"),
        fn.coalesce(fn.col("record.meta.publishing"), fn.lit(False)).cast("double").alias("publishing"),
        *numbers,
    )
    lasts_ms = fn.col("lasts_ms")
    return inner_figures(
        rows,
        ("farm", "server"),
        fn.count_if(lasts_ms > FRESH_MS).alias("inner_gaps"),
        fn.max(lasts_ms - FRESH_MS).alias("inner_gap_ms"),
        *(fn.avg(name).alias(name) for name in ("ahead_ms", "publishing", *MEANS)),
    )


def _with_silent(hours: "DataFrame", extents: "DataFrame | None", span: Span) -> "DataFrame":
    """Add the hours in which a server was silent. In each hour, columns `before_…` tell of the last earlier record."""
    if extents is None:
        hours = hours.withColumns({"known_ms": fn.col("first_ms"), "far_ms": fn.col("last_ms")})
    else:
        hours = hours.join(_stubs(extents, span), ["farm", "server", "hour_ms"], "full")
    of_server = Window.partitionBy("farm", "server")
    in_order = of_server.orderBy("hour_ms")
    past = in_order.rowsBetween(Window.unboundedPreceding, -1)
    reach = fn.max("far_ms").over(Window.partitionBy("farm"))
    hours = hours.withColumns(
        {
            "born_ms": fn.min("known_ms").over(of_server),
            "reach_ms": reach if span.until_ms is None else fn.least(reach, fn.lit(span.until_ms)),
            "next_hour_ms": fn.lead("hour_ms").over(in_order),
            "past_ms": fn.last("last_ms", ignorenulls=True).over(past),
            "past_up": fn.last("last_up", ignorenulls=True).over(past),
        }
    )
    last_hour = fn.greatest(fn.col("hour_ms"), hour_of(fn.col("reach_ms") - 1))
    to = fn.coalesce(fn.col("next_hour_ms") - HOUR_MS, last_hour)
    spread = hours.withColumn("each_ms", fn.explode(fn.sequence("hour_ms", to, fn.lit(HOUR_MS))))
    same_hour = fn.col("each_ms") == fn.col("hour_ms")
    of_hour = ("first_ms", "last_ms", "first_up", "last_up", "inner_gap_ms", "ahead_ms", "publishing")
    counts = ("records", "up_records", "inner_up_ms", "inner_gaps", "inner_flaps")
    filled = spread.select(
        "farm",
        "server",
        fn.col("each_ms").alias("hour_ms"),
        "born_ms",
        "reach_ms",
        fn.when(same_hour, fn.col("past_ms")).otherwise(fn.coalesce("last_ms", "past_ms")).alias("before_ms"),
        fn.when(same_hour, fn.col("past_up")).otherwise(fn.coalesce("last_up", "past_up")).alias("before_up"),
        *(fn.when(same_hour, fn.col(name)).alias(name) for name in (*of_hour, *MEANS)),
        *(fn.coalesce(fn.when(same_hour, fn.col(name)), fn.lit(0)).alias(name) for name in counts),
    )
    return filled if span.since_ms is None else filled.where(fn.col("hour_ms") >= span.since_ms)


def _stubs(extents: "DataFrame", span: Span) -> "DataFrame":
    """Return a row for the first hour of each server, even if no record of the server is among the wanted entries.

    The first hour is the hour of the server's first record, or `MEMORY_MS` before the wanted days if that is later.
    """
    first = fn.col("first_ms")
    start = first if span.since_ms is None else fn.greatest(first, fn.lit(span.since_ms - MEMORY_MS))
    servers = extents if span.until_ms is None else extents.where(first < span.until_ms)
    return servers.select(
        "farm", "server", hour_of(start).alias("hour_ms"), first.alias("known_ms"), fn.col("reach_ms").alias("far_ms")
    )


def _not_negative(value: "Column") -> "Column":
    """Return the value, with 0 in place of a negative value; null stays null."""
    return fn.when(value > 0, value).when(value <= 0, 0)


def _one_if(condition: "Column") -> "Column":
    return fn.when(condition, 1).otherwise(0)
