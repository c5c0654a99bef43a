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
from gf_i2p.pipeline.health.destination_hours import destination_hours
from gf_i2p.pipeline.health.server_hours import server_hours
from gf_i2p.pipeline.health.status_reports import extents, in_days
from gf_i2p.pipeline.lake import tables
from gf_i2p.pipeline.lake.paths import PARTITIONS, Lake

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["anomalies", "destination_hours", "extents", "refresh", "server_hours", "summarize"]

MAX_SERVERS: Final = 1000
"""Most servers in a summary."""
MAX_ANOMALIES: Final = 1000
_HOURS: Final = "farm string, day string, server bigint, hour_ms bigint"
_LEAVES: Final = f"{_HOURS}, watched_ms bigint, destination string, availability double, flaps bigint, load double"


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


@dataclass(frozen=True, slots=True)
class ServerSummary:
    """Figures of a server or member over the wanted hours. None: no record has such a value."""

    farm: str
    server: int
    hours: int
    records: int
    availability: float
    """0 to 1, of the watched time."""
    gaps: int
    """Number of gaps; a gap that lasts over several hours counts in each hour."""
    longest_gap_ms: int
    """Longest part of a gap within one hour."""
    flaps: int
    lag_ms: float | None
    """Mean of the router's job lag."""
    skew_ms: float | None
    """Clock skew in the hour in which the clock was furthest from the farm's."""
    tunnels: float | None
    in_bytes_s: float | None
    out_bytes_s: float | None


@dataclass(frozen=True, slots=True)
class Anomaly:
    """A row of the table `anomalies`: an episode. See `episodes.Episode`."""

    farm: str
    subject: str
    server: int | None
    destination: str | None
    servers: list[int]
    measure: str
    begin_ms: int
    end_ms: int
    hours: int
    worst_ms: int
    value: float
    usual: float
    spread: float
    score: float
    text: str


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
    entries = _of_farm(_existing(tables.read_entries(spark, lake), lake, "entries", "ingest"), farm)
    limited = span != ALL_DAYS
    past_extents = extents(entries) if limited else None
    rows = entries.where(in_days(span, before=1)) if limited else entries
    on_step("hours of servers")
    _write(server_hours(rows, past_extents, span), lake, "server_hours")
    on_step("hours of destinations")
    _write(destination_hours(rows, past_extents, span), lake, "destination_hours")
    on_step("anomalies")
    hours = tables.read_table(spark, lake, "server_hours")
    counts = (
        None
        if hours is None
        else _of_farm(hours, farm).where(in_days(span)).agg(fn.count("*"), fn.sum("records")).head()
    )
    if hours is None or counts is None or not counts[0]:
        farms = "any farm" if farm is None else f"farm {farm!r}"
        raise NothingToDoError(f"The lake has no status records of {farms} on these days: check what ingest has read.")
    _write_anomalies(spark, lake, hours)
    leaves = tables.read_table(spark, lake, "destination_hours")
    return HealthFigures(
        records=counts[1],
        server_hours=counts[0],
        destination_hours=0 if leaves is None else _of_farm(leaves, farm).where(in_days(span)).count(),
        anomalies=_of_farm(spark.read.parquet(lake.path("anomalies")), farm).count(),
        seconds=time.monotonic() - began,
    )


def summarize(
    spark: "SparkSession", lake: Lake, farm: str | None = None, span: Span = ALL_DAYS
) -> tuple[list[ServerSummary], list[Anomaly]]:
    """Return the summaries of servers, in the order of farm and id, and the newest anomalies. Raises `PipelineError`.

    The lists have up to `MAX_SERVERS` and `MAX_ANOMALIES` rows, and one row more if the tables have more.
    """
    all_hours = _existing(tables.read_table(spark, lake, "server_hours"), lake, "server_hours", "health")
    hours = _of_farm(all_hours, farm).where(in_days(span))
    watched, records = fn.sum("watched_ms"), fn.sum("records")
    by_server = hours.groupBy("farm", "server").agg(
        fn.count("*").alias("hours"),
        records.alias("records"),
        fn.coalesce(
            fn.try_divide(fn.sum(fn.col("availability") * fn.col("watched_ms")), watched), fn.avg("availability")
        ).alias("availability"),
        fn.sum("gaps").alias("gaps"),
        fn.max("longest_gap_ms").alias("longest_gap_ms"),
        fn.sum("flaps").alias("flaps"),
        fn.max_by("skew_ms", fn.abs("skew_ms")).alias("skew_ms"),
        *(fn.avg(name).alias(name) for name in ("lag_ms", "tunnels", "in_bytes_s", "out_bytes_s")),
    )
    servers = by_server.orderBy("farm", "server").limit(MAX_SERVERS + 1).collect()
    unusual = _of_farm(tables.read_columns(spark, lake, "anomalies", EPISODES), farm)
    if span.since_ms is not None:
        unusual = unusual.where(fn.col("end_ms") > span.since_ms)
    if span.until_ms is not None:
        unusual = unusual.where(fn.col("begin_ms") < span.until_ms)
    in_order = (fn.desc("end_ms"), fn.desc("score"), "farm", "servers", "destination", "measure")
    newest = unusual.orderBy(*in_order).limit(MAX_ANOMALIES + 1)
    return (
        [ServerSummary(**row.asDict()) for row in servers],
        [Anomaly(**row.asDict()) for row in newest.collect()],
    )


def _existing(frame: "DataFrame | None", lake: Lake, table: str, job: str) -> "DataFrame":
    if frame is None:
        raise PipelineError(f"{lake.root} has no table {table}: run `gf-i2p pipeline {job}` first.")
    return frame


def _of_farm(rows: "DataFrame", farm: str | None) -> "DataFrame":
    return rows if farm is None else rows.where(fn.col("farm") == farm)


def _write(rows: "DataFrame", lake: Lake, table: str) -> None:
    """Replace the days that `rows` has in a table, one file for each day."""
    parts = PARTITIONS[table]
    rows.repartition(*parts).write.mode("overwrite").partitionBy(*parts).parquet(lake.path(table))


def _write_anomalies(spark: "SparkSession", lake: Lake, hours: "DataFrame") -> None:
    """Make the table `anomalies` anew, from all hours. `hours`: the table `server_hours`."""
    leaves = tables.read_columns(spark, lake, "destination_hours", _LEAVES)
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
        hours = tables.read_columns(spark, lake, "server_hours", _HOURS).where(fn.col("farm").isin(*farms))
        near_extents = _extents(rows, hours, span)
        near_extents.coalesce(1).write.mode("overwrite").parquet(scratch)  # Spark cannot read a table that it writes
        near_extents = spark.read.schema(near_extents.schema).parquet(scratch)
        near = rows.where(in_days(span, before=1))
        _write(server_hours(near, near_extents, span), lake, "server_hours")
        _write(destination_hours(near, near_extents, span), lake, "destination_hours")
    all_hours = tables.read_table(spark, lake, "server_hours")
    assert all_hours is not None
    _write_anomalies(spark, lake, all_hours)


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
