"""The work of a stream on each batch: entries and quarantine, then the hours of the batch's days, then alerts.

A batch may come twice, when the run before ended in the middle of the batch. The second time, the work has the same
result: rows whose keys a table has already are not added, and hours are computed again from the entries.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from functools import partial
from typing import TYPE_CHECKING, Final

from pyspark.sql import Observation, Window
from pyspark.sql import functions as fn

from gf_i2p.node.clock import now_ms
from gf_i2p.pipeline.health.job import refresh_days
from gf_i2p.pipeline.lake import tables
from gf_i2p.pipeline.lake.paths import Lake
from gf_i2p.pipeline.lake.quarantine import KEY, RECORD_KEY, not_in_quarantine
from gf_i2p.pipeline.read.entry_columns import EARLIEST_MS, LATEST_MS, entries_schema
from gf_i2p.pipeline.read.record_schema import RecordSchema, columns
from gf_i2p.pipeline.read.stored_file import HEAD_BYTES
from gf_i2p.pipeline.read.survey import LATE_MS
from gf_i2p.pipeline.stream.alerts import AlertLimits, note_alerts
from gf_i2p.pipeline.stream.stream_rows import BAD, arrived, arrived_schema

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Row, SparkSession

BATCH: Final = (
    "batch bigint, lines bigint, entries bigint, new bigint, quarantined bigint, events bigint, newest_ms bigint, "
    "ended_ms bigint, farms map<string,bigint>"
)
"""`farms`: the farms in the batch, and when the newest status record of each was received; null: no such record."""
KEPT: Final = 16
"""Number of batches whose figures are kept."""
_ENTRY_KEY: Final = ("farm", "index", "term")


def stream_root(lake: Lake) -> str:
    """Return the directory for a stream's files besides the tables: the checkpoint, and figures of the last batches."""
    return f"{lake.root.rstrip('/')}/_stream"


def figures_path(lake: Lake, batch: int) -> str:
    """Return the path of a batch's figures (`BATCH`)."""
    return f"{batches_root(lake)}/{batch:09}"


def batches_root(lake: Lake) -> str:
    """Return the directory of the figures of a run's batches."""
    return f"{stream_root(lake)}/batches"


def ending_path(lake: Lake) -> str:
    """Return the path of the mark that lets no further batch begin."""
    return f"{stream_root(lake)}/ending"


@dataclass(frozen=True, slots=True)
class Taking:
    """Takes batches into a lake. Spark sends this object to the process that runs batches, perhaps a Connect server."""

    lake: Lake
    schema_text: str
    limits: AlertLimits
    adaptive: str
    """The session's setting of adaptive execution, "true" or "false"."""

    def __call__(self, lines: "DataFrame", batch: int) -> None:
        """Take a batch: write its entries and errors, the health tables, the alerts and the batch's figures.

        `lines`: rows of `history_source.LINES`. `batch`: the batch's number.
        """
        spark = lines.sparkSession
        # Spark turns this off in the stream's own session, for streams with state. This stream has no state.
        spark.conf.set("spark.sql.adaptive.enabled", self.adaptive)
        stage, schema = f"{stream_root(self.lake)}/arrived", columns(arrived_schema(self.schema_text))
        observation = Observation()  # Spark's own count is 0 when another process than the stream's runs the batch
        observed = lines.observe(observation, fn.count(fn.lit(1)).alias("lines"))
        observed.mapInArrow(partial(arrived, self.schema_text), schema).write.mode("overwrite").parquet(stage)
        rows = spark.read.schema(schema).parquet(stage)
        farms = _summary(rows)
        with_entries = [each for each in farms if each["entries"]]
        new = self._take(spark, rows.where("what is null"), with_entries) if with_entries else 0
        bad = self._quarantine(spark, rows) if any(each["bad"] for each in farms) else 0
        events = self._judge(spark, {each["farm"]: each["days"] for each in with_entries if each["days"]})
        newest_ms = max((each["newest_ms"] for each in with_entries if each["newest_ms"] is not None), default=None)
        newest_by_farm = {each["farm"]: each["newest_ms"] for each in farms if each["farm"] is not None}
        entries = sum(each["entries"] for each in farms)
        row = (batch, observation.get["lines"], entries, new, bad, events, newest_ms, now_ms(), newest_by_farm)
        spark.createDataFrame([row], BATCH).coalesce(1).write.mode("overwrite").parquet(figures_path(self.lake, batch))
        if batch >= KEPT:
            tables.delete(spark, figures_path(self.lake, batch - KEPT))

    def _take(self, spark: "SparkSession", batch_rows: "DataFrame", farms: "Sequence[Row]") -> int:
        """Add the entries that the lake does not have; return their number."""
        names = entries_schema(RecordSchema(self.schema_text)).names
        low, high = min(each["low"] for each in farms), max(each["high"] for each in farms)
        stored = (
            tables.read_columns(spark, self.lake, "entries", "farm string, index bigint, term bigint")
            .where(fn.col("farm").isin(*[each["farm"] for each in farms]))
            .where(fn.col("index").between(low, high))
        )
        # The exporter that applied the entry in time comes first, as in the plan of `ingest`.
        late = fn.coalesce(fn.col("received_ms") - fn.col("record.date") > LATE_MS, fn.lit(False))
        no_clock = ~fn.col("received_ms").between(EARLIEST_MS, LATEST_MS - 1)
        best = Window.partitionBy(*_ENTRY_KEY).orderBy(no_clock, late, "exporter", "received_ms")
        rows = (
            batch_rows.select(*names)
            .join(stored, list(_ENTRY_KEY), "left_anti")
            .withColumn("place", fn.row_number().over(best))
            .where("place = 1")
            .select(*names)
        )
        new, count = self._staged(spark, rows, "new")
        if count:
            tables.append(
                new.repartition("farm", "day").sortWithinPartitions("farm", "day", "index"), self.lake, "entries"
            )
        return count

    def _staged(self, spark: "SparkSession", rows: "DataFrame", name: str) -> tuple["DataFrame", int]:
        """Write rows that are used more than once; return the rows, as read from the files, and their number."""
        path = f"{stream_root(self.lake)}/{name}"
        rows.write.mode("overwrite").parquet(path)
        staged = spark.read.schema(rows.schema).parquet(path)
        return staged, staged.count()

    def _quarantine(self, spark: "SparkSession", batch_rows: "DataFrame") -> int:
        """Add the rows that the quarantine does not have; return their number."""
        nothing = fn.lit(None).cast("bigint").alias("index")
        lines = batch_rows.where("what is not null").select("source", "what", "farm", nothing, *BAD.names[2:])
        content = fn.coalesce(fn.col("value").cast("binary"), "raw")
        records = batch_rows.where("misfit is not null").select(
            "source",
            fn.lit("record").alias("what"),
            "farm",
            "index",
            fn.col("misfit").alias("reason"),
            fn.make_valid_utf8(fn.substring(content, 1, HEAD_BYTES).cast("string")).alias("text"),
            fn.octet_length(content).cast("bigint").alias("length"),
            fn.md5(content).alias("digest"),
        )
        new_lines = not_in_quarantine(spark, self.lake, lines.dropDuplicates(list(KEY)))
        new_records = not_in_quarantine(spark, self.lake, records.dropDuplicates(list(RECORD_KEY)), RECORD_KEY)
        rows = new_lines.unionByName(new_records).withColumn("found_ms", fn.lit(now_ms()))
        staged, count = self._staged(spark, rows.coalesce(1), "bad")
        if count:
            tables.append(staged, self.lake, "quarantine")
        return count

    def _judge(self, spark: "SparkSession", days_by_farm: Mapping[str, Collection[str]]) -> int:
        """Bring the health tables up to date, and note the alerts that begin and end; return the number of events.

        `days_by_farm`: the days (YYYY-MM-DD) of the batch's reports, by farm.
        """
        if not days_by_farm:
            return 0
        schema = columns(entries_schema(RecordSchema(self.schema_text)))
        entries = spark.read.schema(schema).parquet(self.lake.path("entries"))
        days = sorted({day for each in days_by_farm.values() for day in each})
        refresh_days(spark, self.lake, entries, sorted(days_by_farm), days, f"{stream_root(self.lake)}/extents")
        since = date.fromisoformat(min(max(each) for each in days_by_farm.values())) - timedelta(days=1)
        recent = entries.where(fn.col("farm").isin(*days_by_farm) & (fn.col("day") >= since.isoformat()))
        return note_alerts(spark, self.lake, recent, self.limits)


def _summary(batch_rows: "DataFrame") -> "list[Row]":
    """Sum up the lines of each farm, and the lines without a farm: counts, indexes, days and the newest record."""
    is_entry = fn.col("what").isNull()
    return (
        batch_rows.groupBy("farm")
        .agg(
            fn.count_if(is_entry).alias("entries"),
            fn.count_if(~is_entry | fn.col("misfit").isNotNull()).alias("bad"),
            fn.min("index").alias("low"),
            fn.max("index").alias("high"),
            fn.collect_set(fn.when(_believed_ms().isNotNull(), fn.col("day"))).alias("days"),
            fn.max(_believed_ms()).alias("newest_ms"),
        )
        .collect()
    )


def _believed_ms() -> "Column":
    """Return a column with the time when a status record without `misfit` was received; null for other entries."""
    believed = (fn.col("kind") == "status") & fn.col("misfit").isNull() & fn.col("record").isNotNull()
    return fn.when(believed, fn.col("received_ms"))
