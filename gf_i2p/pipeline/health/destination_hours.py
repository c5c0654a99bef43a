"""The hours of each destination at each server: how long the server reported the destination as up, and the load.

A record about a destination counts until the next record of that server. A record that reports the destination as up
counts as up for `FRESH_MS` at most. A destination is up only when the router is up, too (`farm.posters`). A destination
that the next record does not name is gone. While a server is silent, the server's destinations stay for a day, counted
as down. After that day the destinations are gone until a record names them again. An hour has a row unless the
destination was gone for the whole hour.
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
    reports,
)

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_PLACE: Final = ("farm", "server", "destination")
DESTINATION_HOURS: Final = (
    "farm string, hour_ms bigint, server bigint, destination string, watched_ms bigint, records bigint, "
    "availability double, flaps bigint, connections double, load double, day string"
)
"""The columns of the table `destination_hours`."""


def destination_hours(entries: "DataFrame", extents: "DataFrame | None" = None, span: Span = ALL_DAYS) -> "DataFrame":
    """Return one row for each farm, server, destination and hour; the arguments are as for `server_hours`."""
    figures = _inner_figures(entries).join(_servers(entries, extents, span), ["farm", "server", "hour_ms"])
    in_order = Window.partitionBy(*_PLACE).orderBy("hour_ms")
    hour, first, last, reach = (fn.col(name) for name in ("hour_ms", "first_ms", "server_last_ms", "reach_ms"))
    recent = first - fn.col("past_ms") <= MEMORY_MS
    # End of the time for which the server's last record of the hour counts; null: that record omits the destination.
    stands_ms = fn.when(fn.col("stands"), fn.least("server_next_ms", reach, last + MEMORY_MS))
    figures = figures.withColumns(
        {"past_ms": fn.lag("last_ms").over(in_order), "past_up": fn.lag("last_up").over(in_order)}
    ).withColumns(
        {
            "stands_ms": stands_ms,
            "begin_ms": fn.when(recent, hour).otherwise(first),
            "flaps": fn.col("inner_flaps")
            + fn.when(recent & (fn.col("first_up") != fn.col("past_up")), 1).otherwise(0),
        }
    )
    # A piece for the hour itself, and one for each later hour in which the hour's last record still counts.
    to = fn.greatest(hour, hour_of(fn.col("stands_ms") - 1))  # greatest() leaves null out
    pieces = figures.withColumn("each_ms", fn.explode(fn.sequence(hour, to, fn.lit(HOUR_MS))))
    each = fn.col("each_ms")
    same_hour = each == hour
    covered_ms = fn.least(last + FRESH_MS, "stands_ms", each + HOUR_MS) - fn.greatest(last, each)
    up_ms = fn.when(fn.col("stands") & fn.col("last_up") & (covered_ms > 0), covered_ms).otherwise(0)
    rows = pieces.groupBy(*_PLACE, each.alias("hour_ms")).agg(
        fn.sum(_if(same_hour, "records", 0)).alias("records"),
        fn.sum(_if(same_hour, "up_records", 0)).alias("up_records"),
        fn.sum(up_ms + _if(same_hour, "inner_up_ms", 0)).alias("up_ms"),
        fn.sum(_if(same_hour, "flaps", 0)).alias("flaps"),
        fn.max(_if(same_hour, "connections", None)).alias("connections"),
        fn.max(_if(same_hour, "load", None)).alias("load"),
        fn.min(fn.when(same_hour, fn.col("begin_ms")).otherwise(each)).alias("begin_ms"),
        fn.max("reach_ms").alias("reach_ms"),
    )
    watched_ms = fn.least(hour + HOUR_MS, reach) - fn.col("begin_ms")
    availability = fn.coalesce(fn.try_divide("up_ms", watched_ms), fn.try_divide("up_records", "records"))
    hours = rows.withColumns({"watched_ms": watched_ms, "availability": availability, "day": day_of(hour)}).select(
        *(column.split()[0] for column in DESTINATION_HOURS.split(", "))
    )
    return hours if span.since_ms is None else hours.where(hour >= span.since_ms)


def _inner_figures(entries: "DataFrame") -> "DataFrame":
    """Return the figures of each destination and hour that follow from the records of that hour alone."""
    status = lasting_reports(entries, fn.col("record.destinations").alias("named"))
    leaves = status.withColumn("leaf", fn.explode(_each_once("named"))).withColumns(
        {
            "destination": fn.col("leaf.hash"),
            "up": fn.col("leaf.up") & fn.col("up"),
            "connections": number_column(fn.col("leaf.currentConnections")),
            "most": number_column(fn.col("leaf.configuredConnections")),
        }
    )
    return inner_figures(
        leaves,
        _PLACE,
        fn.max(fn.col("lasts_ms").isNull()).alias("stands"),
        fn.avg("connections").alias("connections"),
        fn.avg(fn.try_divide("connections", "most")).alias("load"),
    )


def _servers(entries: "DataFrame", extents: "DataFrame | None", span: Span) -> "DataFrame":
    """Return a row for each hour in which a server has records.

    The row has the time of the hour's last record, the time of the server's next record, and the time of the farm's
    last record.
    """
    times = reports(entries).groupBy("farm", "server", "hour_ms")
    hours = times.agg(fn.min("received_ms").alias("from_ms"), fn.max("received_ms").alias("server_last_ms"))
    if extents is None:
        hours = hours.withColumn("reach_ms", fn.max("server_last_ms").over(Window.partitionBy("farm")))
    else:
        hours = hours.join(extents.groupBy("farm").agg(fn.max("reach_ms").alias("reach_ms")), "farm")
    reach = fn.col("reach_ms")
    in_order = Window.partitionBy("farm", "server").orderBy("hour_ms")
    return hours.select(
        "farm",
        "server",
        "hour_ms",
        "server_last_ms",
        fn.lead("from_ms").over(in_order).alias("server_next_ms"),
        (reach if span.until_ms is None else fn.least(reach, fn.lit(span.until_ms))).alias("reach_ms"),
    )


def _each_once(name: str) -> "Column":
    """Return a column with the leaves of each record, each leaf once. `name`: the column of leaves.

    A leaf that the record names twice is up if the record says so at least once, as in `farm.posters`.
    """
    leaves = fn.transform(
        name,
        lambda leaf: fn.struct(
            fn.concat(fn.rtrim(leaf["hash"], fn.lit("=")), fn.lit("=")).alias("hash"),  # the padding may be missing
            fn.coalesce(leaf["up"], fn.lit(False)).alias("up"),
            leaf["currentConnections"].alias("currentConnections"),
            leaf["configuredConnections"].alias("configuredConnections"),
        ),
    )
    hashes = fn.array_distinct(fn.transform(leaves, lambda leaf: leaf["hash"]))
    in_order = fn.array_sort(leaves, _up_first)
    first = fn.transform(hashes, lambda hash_: fn.filter(in_order, lambda leaf: leaf["hash"] == hash_)[0])
    return fn.when(fn.size(hashes) == fn.size(leaves), leaves).otherwise(first)


def _up_first(one: "Column", other: "Column") -> "Column":
    return other["up"].cast("int") - one["up"].cast("int")


def _if(condition: "Column", name: str, otherwise: int | None) -> "Column":
    return fn.when(condition, fn.col(name)).otherwise(otherwise)
