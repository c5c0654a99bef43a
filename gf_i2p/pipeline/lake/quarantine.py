"""The table `quarantine`: directories, files, lines and records with errors, each once."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

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


def not_in_quarantine(spark: "SparkSession", lake: Lake, rows: "DataFrame", key: Sequence[str] = KEY) -> "DataFrame":
    """Return the rows that the quarantine does not have, by the columns `key`, so that a second run adds nothing."""
    from pyspark.sql import functions as fn  # noqa: PLC0415 -- an extra

    stored = tables.read_columns(spark, lake, "quarantine", QUARANTINE).select(*key)
    same = [fn.col(f"new.{name}").eqNullSafe(fn.col(f"stored.{name}")) for name in key]
    return rows.alias("new").join(stored.alias("stored"), same, "left_anti")
