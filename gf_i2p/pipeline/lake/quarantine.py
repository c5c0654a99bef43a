"""The table `quarantine`: directories, files, lines and records with errors, each once."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

from gf_i2p.pipeline.lake import tables
from gf_i2p.pipeline.lake.paths import Lake

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

QUARANTINE: Final = (
    "source string, what string, farm string, index bigint, reason string, text string, length bigint, digest string, "
    "found_ms bigint"
)
"""`what`: "directory", "file", "line" or "record". `found_ms`: the time when the job found the error."""
KEY: Final = ("source", "what", "digest", "index")
"""Rows with the same values in these columns are about the same error of a file or line."""
RECORD_KEY: Final = ("what", "farm", "index", "digest")
"""Rows with the same values in these columns are about the same record, perhaps in the files of several exporters."""
ErrorRow: TypeAlias = "tuple[str, str, str | None, int | None, str, str, int, str]"
"""A row of the quarantine without `found_ms`."""
MAX_REASONS: Final = 50
"""Most reasons that `add_errors` returns, and that a job tells."""


def not_in_quarantine(spark: "SparkSession", lake: Lake, rows: "DataFrame", key: Sequence[str] = KEY) -> "DataFrame":
    """Return the rows that the quarantine does not have, by the columns `key`, so that a second run adds nothing."""
    from pyspark.sql import functions as fn  # noqa: PLC0415 -- an extra

    stored = tables.read_columns(spark, lake, "quarantine", QUARANTINE).select(*key)
    same = [fn.col(f"new.{name}").eqNullSafe(fn.col(f"stored.{name}")) for name in key]
    return rows.alias("new").join(stored.alias("stored"), same, "left_anti")


def add_errors(
    spark: "SparkSession",
    lake: Lake,
    errors: "Sequence[ErrorRow]",
    frames: "Sequence[DataFrame]",
    stage: str,
    now_ms: int,
) -> tuple[dict[str, int], int]:
    """Add the errors that the quarantine does not have; return the most frequent reasons, and the number of new rows.

    `errors`: of files and directories. `frames`: further rows, without `found_ms`. `stage`: a directory for temporary
    files.
    """
    from pyspark.sql import Window  # noqa: PLC0415
    from pyspark.sql import functions as fn  # noqa: PLC0415

    if not errors and not frames:
        return {}, 0
    schema = QUARANTINE.rpartition(", ")[0]
    rows = spark.createDataFrame(list(errors), schema)
    for frame in frames:
        rows = rows.unionByName(frame)
    new = not_in_quarantine(spark, lake, rows.dropDuplicates(list(KEY))).withColumn("found_ms", fn.lit(now_ms))
    new.coalesce(1).write.mode("overwrite").parquet(stage)
    new = spark.read.schema(QUARANTINE).parquet(stage)
    everything = fn.sum(fn.count("*")).over(Window.partitionBy())
    counts = new.groupBy("what", "reason").agg(fn.count("*").alias("rows"), everything.alias("all"))
    kinds = counts.orderBy(fn.desc("rows"), "what", "reason").limit(MAX_REASONS).collect()  # reasons contain numbers
    if not kinds:
        return {}, 0
    tables.append(new, lake, "quarantine")
    return {f"{row['what']}: {row['reason']}": row["rows"] for row in kinds}, kinds[0]["all"]
