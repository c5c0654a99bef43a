"""Knows which files were read, and how far, from the table `files`; finds the files that have something new."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Self

from pyspark.sql import functions as fn

from gf_i2p.pipeline.lake import tables
from gf_i2p.pipeline.lake.paths import Lake
from gf_i2p.pipeline.read.history_files import LISTED, listed, not_listed
from gf_i2p.pipeline.read.record_schema import columns
from gf_i2p.pipeline.read.stored_file import packing_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FILES: Final = (
    "path string, size bigint, mtime_ms bigint, sha256 string, farm string, exporter bigint, lines bigint, "
    "entries bigint, bad bigint, bytes bigint, reason string, read_ms bigint, opened_ms bigint, place bigint, "
    "check bigint, next bigint"
)
"""The table `files`: a row for each reading of a file. The last row of a file tells how far the file was read."""
_STATE: Final = ("farm", "exporter", "opened_ms", "place", "check", "next")


def listing(spark: "SparkSession", exports: Sequence[str]) -> tuple[list[dict[str, Any]], list[tuple[str, str]]]:
    """Return the files of histories under directories, as values of `LISTED`.

    The second list has the directories that cannot be read, with the reasons. Raises `PipelineError` when one of
    `exports` cannot be read.
    """
    # In a worker, because the driver perhaps does not reach the files.
    rows = spark.createDataFrame([(path,) for path in exports], "path string").mapInArrow(listed, columns(LISTED))
    found = {row["path"]: row for row in rows.collect()}.values()
    unreadable = [(row["path"], row["error"]) for row in found if row["error"] is not None]
    for path, error in unreadable:
        if path in exports:
            raise not_listed(error)
    return [row.asDict() for row in found if row["size"] is not None], unreadable


class FilesRead:
    """The files that were read, by path, and how far."""

    def __init__(self, last: Mapping[str, Mapping[str, Any]]) -> None:
        """`last`: for each path the values of the last row of `FILES`."""
        self._last = dict(last)

    @classmethod
    def of_lake(cls, spark: "SparkSession", lake: Lake) -> Self:
        """Read the table `files` of a lake."""
        rows = tables.read_columns(spark, lake, "files", FILES)
        last = fn.max_by(fn.struct("size", "mtime_ms", "sha256", *_STATE), "read_ms").alias("last")
        return cls({row["path"]: row["last"].asDict() for row in rows.groupBy("path").agg(last).collect()})

    def news(self, files: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Return the files that are new or changed, as values of `arrivals.WANTED`, in the order of their names.

        A packed file goes on where the reading of the plain file ended. `files`: values of `history_files.LISTED`.
        """
        wanted = []
        for file in sorted(files, key=lambda each: (each["path"].rpartition("/")[2], each["path"])):
            path, last = file["path"], self._last.get(file["path"])
            if last is not None and (last["size"], last["mtime_ms"]) == (file["size"], file["mtime_ms"]):
                continue
            state = last or self._last.get(path.removesuffix(packing_of(path)), {})
            wanted.append({**file, **{name: state.get(name) for name in _STATE}})
        return wanted

    def add(self, read_files: Sequence[Mapping[str, Any]]) -> dict[str, str]:
        """Note files that were read; return, for each copy among them, the path of the file with the same content.

        `read_files`: values of `FILES`, perhaps without `read_ms`.
        """
        reread = {file["path"] for file in read_files}
        first = {last["sha256"]: path for path, last in sorted(self._last.items(), reverse=True) if path not in reread}
        originals = {}
        for file in sorted(read_files, key=lambda each: str(each["path"])):
            if file["sha256"] is None:
                continue
            original = first.setdefault(file["sha256"], file["path"])
            plain = file["path"].removesuffix(packing_of(file["path"]))  # a node may pack a file before it is read
            if original not in (file["path"], plain):
                originals[file["path"]] = original
            self._last[file["path"]] = file
        return originals
