"""Tables of the lake as data frames, whether they are there yet or not."""

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

_SIZES: Final = "path string, bytes bigint"


def read(spark: "SparkSession", lake: Lake, table: str) -> "DataFrame | None":
    """Return a table with all columns that any of its files has; None: nothing was written to it yet."""
    return _looked_at(lambda: spark.read.option("mergeSchema", "true").parquet(lake.path(table)))


def read_entries(spark: "SparkSession", lake: Lake) -> "DataFrame | None":
    """Return `entries` with the columns and the record's fields that this version has; None: nothing was written yet.

    A field is null in files that were written before there was one; what a later version has written more is left out.
    """
    made = columns(entries_schema(RecordSchema(farm_schema.text())))
    return _looked_at(lambda: spark.read.schema(made).parquet(lake.path("entries")))


def read_columns(spark: "SparkSession", lake: Lake, table: str, wanted: str) -> "DataFrame":
    """Return some columns of a table (`NAME TYPE, …`), without a look at each file's; no rows where there is none."""
    return read_path(spark, lake.path(table), wanted)


def read_path(spark: "SparkSession", path: str, wanted: str) -> "DataFrame":
    """Return the same of a directory that is no table."""
    found = _looked_at(lambda: spark.read.schema(wanted).parquet(path))
    return spark.createDataFrame([], wanted) if found is None else found


def _looked_at(made: Callable[[], "DataFrame"]) -> "DataFrame | None":
    """Have the table looked for now: a Connect server would do so only when rows are asked for. None: it is not there.

    Without a schema that we give, a table is not there either while it has no files.
    """
    from pyspark.errors import AnalysisException  # noqa: PLC0415 -- an extra, and it takes seconds

    try:
        frame = made()
        assert frame.schema is not None
    except AnalysisException as error:
        if error.getCondition() in {"PATH_NOT_FOUND", "UNABLE_TO_INFER_SCHEMA"}:
            return None
        raise
    return frame


def append(rows: "DataFrame", lake: Lake, table: str) -> None:
    """Add rows to a table, in the files' order that they have now."""
    rows.write.mode("append").partitionBy(*PARTITIONS.get(table, ())).parquet(lake.path(table))


def append_file(rows: "DataFrame", lake: Lake, table: str) -> None:
    """Add a few rows to a table that is whole, as one file that is there at once.

    So two threads of one job may add at a time, which Spark's own writing does not bear.
    """
    assert table not in PARTITIONS
    path = f"{lake.path(table)}/part-{uuid4()}.parquet"
    rows.coalesce(1).mapInArrow(partial(_written, path), "path string").count()


def for_worker(spark: "SparkSession", path: str) -> "DataFrame":
    """Return a path as the one row (`path`) of one task: a worker sees the file system that workers see."""
    return spark.createDataFrame([(path,)], "path string").coalesce(1)


def size(spark: "SparkSession", path: str) -> int:
    """Return how many bytes a directory has, 0 when it is not there."""
    asked = for_worker(spark, path)
    found = asked.mapInArrow(_sizes, _SIZES).agg({"bytes": "sum"}).first()
    return 0 if found is None else found[0] or 0


def delete(spark: "SparkSession", path: str) -> None:
    """Delete a directory, if it is there, where Spark's workers see it."""
    for_worker(spark, path).mapInArrow(_deleted, "path string").count()


def empty(spark: "SparkSession", path: str) -> None:
    """Delete what is in a directory, if it is there, where Spark's workers see it."""
    for_worker(spark, path).mapInArrow(_emptied, "path string").count()


def _written(path: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    found = [batch for batch in batches if batch.num_rows]
    if not found:
        return
    system, inside = file_system(path)
    directory, _, name = inside.rpartition("/")
    draft = f"{directory}/.{name}"  # which Spark leaves out
    system.create_dir(directory, recursive=True)
    pq.write_table(pa.Table.from_batches(found), draft, filesystem=system, compression="zstd")
    system.move(draft, inside)
    yield pa.RecordBatch.from_pydict({"path": [path]})


def _sizes(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for path in batch.column(0).to_pylist():
            system, inside = file_system(path)
            found = system.get_file_info(pafs.FileSelector(inside, recursive=True, allow_not_found=True))
            total = sum(each.size or 0 for each in found)
            yield pa.RecordBatch.from_pydict({"path": [path], "bytes": pa.array([total], pa.int64())})


def _deleted(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for path in batch.column(0).to_pylist():
            system, inside = file_system(path)
            if system.get_file_info(inside).type != pafs.FileType.NotFound:
                system.delete_dir(inside)
        yield batch


def _emptied(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for path in batch.column(0).to_pylist():
            system, inside = file_system(path)
            system.delete_dir_contents(inside, missing_dir_ok=True)
        yield batch
