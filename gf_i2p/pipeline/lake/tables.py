"""Reads and extends the tables of a lake, and tells when a table does not exist yet."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Final
from uuid import uuid4

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from gf_i2p.farm import schema as farm_schema
from gf_i2p.pipeline.lake.paths import PARTITIONS, Lake
from gf_i2p.pipeline.read.entry_columns import entries_schema
from gf_i2p.pipeline.read.record_schema import RecordSchema, columns
from gf_i2p.pipeline.read.stored_file import file_system

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_SIZES: Final = "path string, bytes bigint"


def read_table(spark: "SparkSession", lake: Lake, table: str) -> "DataFrame | None":
    """Return a table with all columns of all its files; None: the table does not exist yet."""
    return _if_exists(lambda: spark.read.option("mergeSchema", "true").parquet(lake.path(table)))


def read_entries(spark: "SparkSession", lake: Lake) -> "DataFrame | None":
    """Return `entries` with this version's columns and record fields; None: the table does not exist yet.

    A field is null in the rows of files that are older than the field. Columns of a later version are left out.
    """
    schema = columns(entries_schema(RecordSchema(farm_schema.text())))
    return _if_exists(lambda: spark.read.schema(schema).parquet(lake.path("entries")))


def read_columns(spark: "SparkSession", lake: Lake, table: str, schema: "StructType | str") -> "DataFrame":
    """Return some columns of a table; no rows if the table does not exist.

    `schema`: the columns, or these in the form "NAME TYPE, …". So Spark need not open each file to find the schema.
    """
    return read_path(spark, lake.path(table), schema)


def read_path(spark: "SparkSession", path: str, schema: "StructType | str") -> "DataFrame":
    """Return some columns of a directory, as `read_columns` does of a table."""
    frame = _if_exists(lambda: spark.read.schema(schema).parquet(path))
    return spark.createDataFrame([], schema) if frame is None else frame


def _if_exists(make: Callable[[], "DataFrame"]) -> "DataFrame | None":
    """Return the frame that `make` returns; None: the table does not exist.

    A Connect server looks for a table only when the schema or a row is needed, so this function reads the schema. A
    table without files and without a given schema counts as missing, too.
    """
    from pyspark.errors import AnalysisException  # noqa: PLC0415 -- an extra, and it takes seconds

    try:
        frame = make()
        assert frame.schema is not None
    except AnalysisException as error:
        if error.getCondition() in {"PATH_NOT_FOUND", "UNABLE_TO_INFER_SCHEMA"}:
            return None
        raise
    return frame


def append(rows: "DataFrame", lake: Lake, table: str) -> None:
    """Add rows to a table, in the frame's order."""
    rows.write.mode("append").partitionBy(*PARTITIONS.get(table, ())).parquet(lake.path(table))


def append_file(rows: "DataFrame", lake: Lake, table: str) -> None:
    """Add a few rows to a table without partitions, as one file that appears at once.

    Two threads of one job may call this function at the same time. Spark's own writing does not allow that.
    """
    assert table not in PARTITIONS
    path = f"{lake.path(table)}/part-{uuid4()}.parquet"
    rows.coalesce(1).mapInArrow(partial(_written, path), "path string").count()


def for_worker(spark: "SparkSession", path: str) -> "DataFrame":
    """Return a frame with one row (`path`), for one task.

    Work on the lake's files is done in such tasks, because every worker reaches the files, and the driver perhaps not.
    """
    return spark.createDataFrame([(path,)], "path string").coalesce(1)


def size(spark: "SparkSession", path: str) -> int:
    """Return the bytes of all files in a directory; 0 if the directory does not exist."""
    request = for_worker(spark, path)
    total = request.mapInArrow(_sizes, _SIZES).agg({"bytes": "sum"}).first()
    return 0 if total is None else total[0] or 0


def delete(spark: "SparkSession", path: str) -> None:
    """Delete a directory, if it exists, in a Spark worker (see `for_worker`)."""
    for_worker(spark, path).mapInArrow(_deleted, "path string").count()


def _written(path: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    filled = [batch for batch in batches if batch.num_rows]
    if not filled:
        return
    system, inside = file_system(path)
    directory, _, name = inside.rpartition("/")
    draft = f"{directory}/.{name}"  # Spark ignores names that begin with a dot
    system.create_dir(directory, recursive=True)
    pq.write_table(pa.Table.from_batches(filled), draft, filesystem=system, compression="zstd")
    system.move(draft, inside)
    yield pa.RecordBatch.from_pydict({"path": [path]})


def _sizes(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for path in batch.column(0).to_pylist():
            system, inside = file_system(path)
            files = system.get_file_info(pafs.FileSelector(inside, recursive=True, allow_not_found=True))
            total = sum(each.size or 0 for each in files)
            yield pa.RecordBatch.from_pydict({"path": [path], "bytes": pa.array([total], pa.int64())})


def _deleted(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for path in batch.column(0).to_pylist():
            system, inside = file_system(path)
            if system.get_file_info(inside).type != pafs.FileType.NotFound:
                system.delete_dir(inside)
        yield batch
