"""The SQL by which a catalog of Spark or Hive learns the lake's tables. Nothing here needs Spark."""

from collections.abc import Sequence

import pyarrow as pa

from gf_i2p.pipeline.errors import PipelineError
from gf_i2p.pipeline.lake.parquet_files import parquet_sizes
from gf_i2p.pipeline.lake.paths import PARTITIONS, TABLES, Lake


def existing_tables(lake: Lake) -> list[str]:
    """Return the tables that have a file. Raises `PipelineError` when the lake has no table, or cannot be read."""
    try:
        tables = [table for table in TABLES if parquet_sizes(lake.path(table))]
    except (pa.ArrowException, OSError) as error:
        raise PipelineError(
            f"{lake.root} is not a lake that can be read: {error}. Check the path or the address."
        ) from None
    if not tables:
        raise PipelineError(f"{lake.root} has no table yet: run `gf-i2p pipeline ingest` first.")
    return tables


def script(lake: Lake, tables: Sequence[str], database: str | None = None) -> str:
    """Return statements for Spark SQL that create these tables over the lake's files, and find the partitions.

    `database`: the database of the tables, which the script creates, too; None: the current database.
    """
    lines = ["SET spark.sql.sources.partitionColumnTypeInference.enabled = false;"]  # a farm may be called 2026
    if database is not None:
        lines.append(f"CREATE DATABASE IF NOT EXISTS {_name(database)};")
    for table in tables:
        name = _name(table) if database is None else f"{_name(database)}.{_name(table)}"
        location = lake.path(table).replace("\\", "\\\\").replace("'", "\\'")
        options = "OPTIONS (mergeSchema 'true')"  # files from before a column existed lack that column
        lines.append(f"CREATE TABLE IF NOT EXISTS {name} USING parquet {options} LOCATION '{location}';")
        if table in PARTITIONS:
            lines.append(f"MSCK REPAIR TABLE {name};")
    return "\n".join(lines)


def _name(name: str) -> str:
    return f"`{name.replace('`', '``')}`"
