"""The health tables of days that have new entries, made anew from these days' entries: not from all there are.

What only older entries could tell, since when there is a server, is taken from the hours that were made of them.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql import functions as fn

from gf_i2p.pipeline.days import Span, spans_around
from gf_i2p.pipeline.health import job
from gf_i2p.pipeline.health.status_reports import extents, in_days
from gf_i2p.pipeline.lake import tables
from gf_i2p.pipeline.lake.paths import PARTITIONS, Lake

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_HOURS = "farm string, day string, server bigint, hour_ms bigint"


def refresh_days(
    spark: "SparkSession", lake: Lake, entries: "DataFrame", farms: Sequence[str], days: Sequence[str], scratch: str
) -> None:
    """Make the hours of these farms on these days (YYYY-MM-DD) and the days beside them anew, and all anomalies.

    There are status records of these days in `entries`, the lake's table. `scratch`: a directory, written over. A lake
    without hours yet gets those of all its entries.
    """
    if tables.read(spark, lake, "server_hours") is None:
        job.refresh(spark, lake)
        return
    rows = entries.where(fn.col("farm").isin(*farms))
    for span in spans_around(days):
        hours = tables.read_columns(spark, lake, "server_hours", _HOURS).where(fn.col("farm").isin(*farms))
        known = _extents(rows, hours, span)
        known.coalesce(1).write.mode("overwrite").parquet(scratch)  # the hours cannot be read while they are written
        known = spark.read.schema(known.schema).parquet(scratch)
        near = rows.where(in_days(span, before=1))
        _write(job.server_hours(near, known, span), lake, "server_hours")
        _write(job.destination_hours(near, known, span), lake, "destination_hours")
    made = tables.read(spark, lake, "server_hours")
    assert made is not None
    job.anomalies(made).write.mode("overwrite").parquet(lake.path("anomalies"))


def _extents(entries: "DataFrame", hours: "DataFrame", span: Span) -> "DataFrame":
    """Give what `reports.extents` gives, from the entries since the day before; older servers' first by the hour."""
    assert span.since is not None
    since = extents(entries.where(in_days(Span(span.since), before=1)))
    older = hours.where(fn.col("day") < span.since.isoformat()).groupBy("farm", "server")
    first = since.drop("reach_ms").unionByName(older.agg(fn.min("hour_ms").alias("first_ms")))
    reach = since.groupBy("farm").agg(fn.max("reach_ms").alias("reach_ms"))
    return first.groupBy("farm", "server").agg(fn.min("first_ms").alias("first_ms")).join(reach, "farm")


def _write(rows: "DataFrame", lake: Lake, table: str) -> None:
    """Write whole days over what is there, one file each."""
    parts = PARTITIONS[table]
    rows.repartition(*parts).write.mode("overwrite").partitionBy(*parts).parquet(lake.path(table))
