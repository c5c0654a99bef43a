"""Status records as reports: a server's state at a time by the exporter's clock. All figures of `health` use reports.

A superseded record is a report, too. A record with a `misfit` is not a report.
"""

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from pyspark.sql import Window
from pyspark.sql import functions as fn

from gf_i2p.farm.parameters import Parameters
from gf_i2p.farm.strict_json import MAX_DATE_MS
from gf_i2p.pipeline.days import DAY_MS, HOUR_MS, Span

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

FRESH_MS: Final = Parameters().fresh_ms
"""Milliseconds for which a record counts when no other record follows, as in `farm.choice.candidates`."""
MEMORY_MS: Final = DAY_MS
"""Most milliseconds between two records that are compared. So a day's figures need only the day before."""

_IN_ORDER: Final = ("received_ms", "index", "term")


def in_days(span: Span, *, before: int = 0) -> "Column":
    """Return a Spark condition: the row's `day` is in the span, or up to `before` days before the span."""
    condition = fn.lit(True)
    if span.since is not None:
        condition &= fn.col("day") >= (span.since - timedelta(days=before)).isoformat()
    if span.until is not None:
        condition &= fn.col("day") <= span.until.isoformat()
    return condition


def reports(entries: "DataFrame", *columns: "Column") -> "DataFrame":
    """Return the status records without `misfit`: farm, server, hour_ms, received_ms, index, term, up, and `columns`.

    Records of members count, too. `up` is the router's state.
    """
    believed = entries.where((fn.col("kind") == "status") & fn.col("misfit").isNull() & fn.col("record").isNotNull())
    received = fn.col("received_ms")
    return believed.select(
        "farm",
        fn.col("record.id").alias("server"),
        hour_of(received).alias("hour_ms"),
        received,
        "index",
        "term",
        fn.coalesce(fn.col("record.router.up"), fn.lit(False)).alias("up"),
        *columns,
    )


def lasting_reports(entries: "DataFrame", *columns: "Column") -> "DataFrame":
    """Return `reports`, with `lasts_ms`: the time to the server's next report in the same hour; null: there is none."""
    in_order = Window.partitionBy("farm", "server", "hour_ms").orderBy(*_IN_ORDER)
    lasts_ms = fn.lead("received_ms").over(in_order) - fn.col("received_ms")
    return reports(entries, *columns).withColumn("lasts_ms", lasts_ms)


def inner_figures(rows: "DataFrame", place: Sequence[str], *more: "Column") -> "DataFrame":
    """Return the figures of each place and hour that follow from the records of that hour alone.

    `rows`: `lasting_reports`, with the columns `place`. `more`: other sums.
    """
    by_hour = (*place, "hour_ms")
    in_order = Window.partitionBy(*by_hour).orderBy(*_IN_ORDER)
    up, was_up, next_up, lasts_ms = (fn.col(name) for name in ("up", "was_up", "next_up", "lasts_ms"))
    beside = rows.withColumns({"was_up": fn.lag("up").over(in_order), "next_up": fn.lead("up").over(in_order)})
    up_ms = fn.sum(fn.when(up & lasts_ms.isNotNull(), fn.least(lasts_ms, fn.lit(FRESH_MS))))
    return beside.groupBy(*by_hour).agg(
        fn.count("*").alias("records"),
        fn.count_if(up).alias("up_records"),
        fn.min("received_ms").alias("first_ms"),
        fn.max("received_ms").alias("last_ms"),
        fn.max(fn.when(was_up.isNull(), up)).alias("first_up"),
        fn.max(fn.when(next_up.isNull(), up)).alias("last_up"),
        fn.coalesce(up_ms, fn.lit(0)).alias("inner_up_ms"),
        fn.count_if(up != was_up).alias("inner_flaps"),
        *more,
    )


def number_column(value: "Column") -> "Column":
    """Return a number of a record as a double; null outside 0 to `MAX_DATE_MS`, so that sums stay finite."""
    return fn.when(value.between(0, MAX_DATE_MS), value.cast("double"))


def mean_availability() -> "Column":
    """Return the availability of several hours, 0 to 1: the mean, by the watched time."""
    covered, watched = fn.sum(fn.col("availability") * fn.col("watched_ms")), fn.sum("watched_ms")
    return fn.coalesce(fn.try_divide(covered, watched), fn.avg("availability")).alias("availability")


def extents(entries: "DataFrame") -> "DataFrame":
    """Return for each farm and server the times of its first report (`first_ms`) and of the farm's last (`reach_ms`).

    The time before a server's first report does not count. After its last report, the server counts as silent until the
    farm's last report. `entries`: all days, even when only some days are computed.
    """
    by_server = reports(entries).groupBy("farm", "server")
    servers = by_server.agg(fn.min("received_ms").alias("first_ms"), fn.max("received_ms").alias("last_ms"))
    farms = servers.groupBy("farm").agg(fn.max("last_ms").alias("reach_ms"))
    return servers.drop("last_ms").join(farms, "farm")


def hour_of(time_ms: "Column") -> "Column":
    """Return the start of the hour of a time, in ms since the epoch."""
    return time_ms - time_ms % HOUR_MS


def day_of(time_ms: "Column") -> "Column":
    """Return the UTC day, YYYY-MM-DD, of a time in ms since the epoch."""
    return fn.date_from_unix_date(fn.floor(time_ms / DAY_MS).cast("int")).cast("string")
