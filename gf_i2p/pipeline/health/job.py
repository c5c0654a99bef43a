"""The job `health`: figures of servers and destinations, hour by hour, and the episodes unlike their past.

The job computes whole days, from the entries of these days and of the day before, so a rerun gives the same rows. Each
hour is summed up alone, and then the sums of consecutive hours are joined: see `server_hours` and `destination_hours`.
A stream recomputes only the days near new entries (`refresh_days`).
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as fn

from gf_i2p.pipeline.days import ALL_DAYS, Span, spans_around
from gf_i2p.pipeline.errors import NothingToDoError, PipelineError
from gf_i2p.pipeline.health.anomalies import EPISODES, anomalies
from gf_i2p.pipeline.health.destination_hours import DESTINATION_HOURS, destination_hours
from gf_i2p.pipeline.health.server_hours import SERVER_HOURS, server_hours
from gf_i2p.pipeline.health.status_reports import extents, in_days, mean_availability
from gf_i2p.pipeline.lake import tables
from gf_i2p.pipeline.lake.paths import PARTITIONS, Lake

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

MAX_SERVERS: Final = 1000
"""Most servers in a summary."""
MAX_ANOMALIES: Final = 1000


@dataclass(frozen=True, slots=True)
class HealthFigures:
    """Figures of one run, for the wanted days. Only `anomalies` counts all days."""

    records: int
    """Status records in the wanted hours."""
    server_hours: int
    destination_hours: int
    anomalies: int
    seconds: float

    @property
    def records_per_second(self) -> float:
        """Status records, divided by the seconds of the run."""
        return self.records / self.seconds if self.seconds else 0.0


def refresh(
    spark: "SparkSession",
    lake: Lake,
    farm: str | None = None,
    span: Span = ALL_DAYS,
    on_step: Callable[[str], None] = lambda _: None,
) -> HealthFigures:
    """Recompute the hours of the days in `span`, and the anomalies of all days. Raises `PipelineError`.

    `farm`: None for all farms. `span`: for new entries, the days of these entries, the days before and the days after
    (`days.spans_around`). A record may cover time of the next day, and the farm's last record ends the hours of the day
    before. `on_step`: called with the name of each step.
    """
    began = time.monotonic()
    all_entries = tables.read_entries(spark, lake)
    if all_entries is None:
        raise PipelineError(f"{lake.root} has no table entries: run `gf-i2p pipeline ingest` first.")
    entries = _of_farm(all_entries, farm)
    limited = span != ALL_DAYS
    past_extents = extents(entries) if limited else None
    rows = entries.where(in_days(span, before=1)) if limited else entries
    on_step("hours of servers")
    _write(server_hours(rows, past_extents, span), lake, "server_hours")
    on_step("hours of destinations")
    _write(destination_hours(rows, past_extents, span), lake, "destination_hours")
    on_step("anomalies")
    hours, leaves = (
        _of_farm(tables.read_columns(spark, lake, table, schema), farm).where(in_days(span))
        for table, schema in (("server_hours", SERVER_HOURS), ("destination_hours", DESTINATION_HOURS))
    )
    counts = hours.agg(fn.count("*"), fn.sum("records")).head()
    if counts is None or not counts[0]:
        farms = "any farm" if farm is None else f"farm {farm!r}"
        raise NothingToDoError(f"The lake has no status records of {farms} on these days: check what ingest has read.")
    _write_anomalies(spark, lake)
    return HealthFigures(
        records=counts[1],
        server_hours=counts[0],
        destination_hours=leaves.count(),
        anomalies=_of_farm(spark.read.parquet(lake.path("anomalies")), farm).count(),
        seconds=time.monotonic() - began,
    )


def summarize(
    spark: "SparkSession", lake: Lake, farm: str | None = None, span: Span = ALL_DAYS
) -> tuple[list["Row"], list["Row"]]:
    """Return the summaries of servers, in the order of farm and id, and the newest rows of `anomalies`.

    The lists have up to `MAX_SERVERS` and `MAX_ANOMALIES` rows, and one row more if the tables have more. A summary has
    the sums of the columns `records`, `gaps` and `flaps` of `server_hours`, the greatest `longest_gap_ms`, the skew of
    the hour in which the clock was furthest from the farm's, and the means of the router's numbers (None: not known).
    `hours` is the number of hours, and `availability` (0 to 1) is of the watched time.
    """
    hours = _of_farm(tables.read_columns(spark, lake, "server_hours", SERVER_HOURS), farm).where(in_days(span))
    by_server = hours.groupBy("farm", "server").agg(
        fn.count("*").alias("hours"),
        fn.sum("records").alias("records"),
        mean_availability(),
        fn.sum("gaps").alias("gaps"),
        fn.max("longest_gap_ms").alias("longest_gap_ms"),
        fn.sum("flaps").alias("flaps"),
        fn.avg("lag_ms").alias("lag_ms"),
        fn.max_by("skew_ms", fn.abs("skew_ms")).alias("skew_ms"),
        *(fn.avg(name).alias(name) for name in ("tunnels", "in_bytes_s", "out_bytes_s")),
    )
    unusual = _of_farm(tables.read_columns(spark, lake, "anomalies", EPISODES), farm)
    if span.since_ms is not None:
        unusual = unusual.where(fn.col("end_ms") > span.since_ms)
    if span.until_ms is not None:
        unusual = unusual.where(fn.col("begin_ms") < span.until_ms)
    in_order = (fn.desc("end_ms"), fn.desc("score"), "farm", "servers", "destination", "measure")
    return (
        by_server.orderBy("farm", "server").limit(MAX_SERVERS + 1).collect(),
        unusual.orderBy(*in_order).limit(MAX_ANOMALIES + 1).collect(),
    )


def _of_farm(rows: "DataFrame", farm: str | None) -> "DataFrame":
    return rows if farm is None else rows.where(fn.col("farm") == farm)


def _write(rows: "DataFrame", lake: Lake, table: str) -> None:
    """Replace the days that `rows` has in a table, one file for each day."""
    parts = PARTITIONS[table]
    rows.repartition(*parts).write.mode("overwrite").partitionBy(*parts).parquet(lake.path(table))


def _write_anomalies(spark: "SparkSession", lake: Lake) -> None:
    """Make the table `anomalies` anew, from all hours."""
    hours = tables.read_columns(spark, lake, "server_hours", SERVER_HOURS)
    leaves = tables.read_columns(spark, lake, "destination_hours", DESTINATION_HOURS)
    anomalies(hours, leaves).write.mode("overwrite").parquet(lake.path("anomalies"))


def refresh_days(
    spark: "SparkSession", lake: Lake, entries: "DataFrame", farms: Sequence[str], days: Sequence[str], scratch: str
) -> None:
    """Recompute the hours of these farms on these days (YYYY-MM-DD), the days before and after, and all anomalies.

    `entries`: the lake's table, with status records of these days. `scratch`: a directory whose content is replaced.
    In a lake without the table `server_hours`, compute the hours of all entries.
    """
    if tables.read_table(spark, lake, "server_hours") is None:
        refresh(spark, lake)
        return
    rows = entries.where(fn.col("farm").isin(*farms))
    for span in spans_around(days):
        hours = tables.read_columns(spark, lake, "server_hours", SERVER_HOURS).where(fn.col("farm").isin(*farms))
        near_extents = _extents(rows, hours, span)
        near_extents.coalesce(1).write.mode("overwrite").parquet(scratch)  # Spark cannot read a table that it writes
        near_extents = spark.read.schema(near_extents.schema).parquet(scratch)
        near = rows.where(in_days(span, before=1))
        _write(server_hours(near, near_extents, span), lake, "server_hours")
        _write(destination_hours(near, near_extents, span), lake, "destination_hours")
    _write_anomalies(spark, lake)


def _extents(entries: "DataFrame", hours: "DataFrame", span: Span) -> "DataFrame":
    """Return the same table as `status_reports.extents` of all entries, but read only the entries of the last days.

    Those are the entries from the day before `span` on. The rows of `hours` tell of earlier time. If only a row tells
    of a server's first report, that report counts from the beginning of the row's hour.
    """
    assert span.since is not None
    since = extents(entries.where(in_days(Span(span.since), before=1)))
    older = hours.where(fn.col("day") < span.since.isoformat()).groupBy("farm", "server")
    first = since.drop("reach_ms").unionByName(older.agg(fn.min("hour_ms").alias("first_ms")))
    reach = since.groupBy("farm").agg(fn.max("reach_ms").alias("reach_ms"))
    return first.groupBy("farm", "server").agg(fn.min("first_ms").alias("first_ms")).join(reach, "farm")
