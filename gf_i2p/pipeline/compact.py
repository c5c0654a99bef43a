"""Merges small files of the lake: afterwards each directory of a table to which jobs only add has one file."""

import shutil
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Final

import pyarrow.parquet as pq

from gf_i2p.pipeline.errors import PipelineError
from gf_i2p.pipeline.lake.locks import table_locked
from gf_i2p.pipeline.lake.paths import PARTITIONS, Lake
from gf_i2p.pipeline.lake.replaced_files import STAGE, decide, roll_forward, table_files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ORDER: Final = {
    "entries": ("index", "term"),
    "files": ("read_ms", "path"),
    "quarantine": ("found_ms", "source"),
    "alerts": ("noticed_ms",),
}
"""The tables to which jobs only add, and the order of the rows in a merged file."""


@dataclass(frozen=True, slots=True)
class CompactFigures:
    """Files of the tables that the job merges, before the job and afterwards."""

    files_before: int
    files_after: int
    bytes_before: int
    bytes_after: int
    seconds: float


def crowded(root: Path) -> dict[str, list[Path]]:
    """Return for each table the files of the directories that have more than one file; no tables without such files."""
    tables = {}
    for table in _ORDER:
        directories = defaultdict(list)
        for path in table_files(root, table):
            directories[path.parent].append(path)
        if files := [path for each in directories.values() if len(each) > 1 for path in each]:
            tables[table] = files
    return tables


def sizes(root: Path) -> tuple[int, int]:
    """Return the number and the bytes of the files of the tables that the job merges."""
    each = [path.stat().st_size for table in _ORDER for path in table_files(root, table)]
    return len(each), sum(each)


def compact(
    spark: "SparkSession", lake: Lake, root: Path, step: Callable[[str], None] = lambda _: None
) -> CompactFigures:
    """Merge the files of each directory that has more than one. `root`: the lake's directory on this machine.

    `step`: called with the name of each step. The caller has locked the tables. Raises `PipelineError` and `OSError`.
    """
    began = monotonic()
    with table_locked(root, STAGE, "compact", waits=True):  # a job may finish what a killed process has left
        roll_forward(root)
        before = sizes(root)
        new: list[Path] = []
        old: list[Path] = []
        try:
            for table, files in crowded(root).items():
                step(f"merging {len(files):,} files of {table}")
                new += _merged(spark, lake, root, table, files)
                old += files
        except BaseException:
            shutil.rmtree(root / STAGE, ignore_errors=True)  # on a full disk, nobody should wait for the next job
            raise
        if new:
            step(f"moving {len(new):,} files")
            decide(root, new, old)
            roll_forward(root)
        after = sizes(root)
    return CompactFigures(before[0], after[0], before[1], after[1], monotonic() - began)


def _merged(spark: "SparkSession", lake: Lake, root: Path, table: str, files: Sequence[Path]) -> list[Path]:
    """Write the rows of these files to `LAKE/_compact`, with all columns of all files; return the new files."""
    directories = sorted({f"{lake.root}/{path.parent.relative_to(root)}" for path in files})
    rows = spark.read.option("mergeSchema", "true").option("basePath", lake.path(table)).parquet(*directories)
    partitions = PARTITIONS.get(table, ())
    rows = rows.repartition(*partitions or (1,)).sortWithinPartitions(*partitions, *_ORDER[table])
    rows.write.partitionBy(*partitions).parquet(f"{lake.root}/{STAGE}/{table}")
    merged = table_files(root / STAGE, table)
    if _rows(merged) != _rows(files):
        raise PipelineError(
            f"The merged files of {table} have not the rows of the old files: nothing was changed. "
            "Run compact again when no other job runs. If it fails again, make a new lake of the exports."
        )
    return merged


def _rows(files: Sequence[Path]) -> int:
    return sum(pq.read_metadata(path).num_rows for path in files)
