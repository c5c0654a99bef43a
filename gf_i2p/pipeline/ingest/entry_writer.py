"""Writes the table `entries` by Arrow, in the Spark workers that read the entries. No row goes through the JVM.

A file has entries of one farm and day. A worker writes the file in a directory of unfinished files, and moves the
whole file into the table. The file's name tells the run, the task and the number of the file in the task. So a task
that Spark repeats replaces its own files, and no entry is in the table twice. (Arrow's `write_dataset` cannot replace
this module: it does not bound memory, and with a limit of open files each attempt divides the rows differently.)
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Final
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from gf_i2p.pipeline.lake.paths import PARTITIONS
from gf_i2p.pipeline.read.entry_columns import Typer
from gf_i2p.pipeline.read.line_walk import FoundLine, Is
from gf_i2p.pipeline.read.stored_file import file_system

KINDS: Final = ("status", "admin", "servers", "other")
WRITTEN: Final = pa.schema(
    {name: pa.int64() for name in ("new", "misfits", "files", "bytes", *(f"kind_{kind}" for kind in KINDS))}
)
"""The output of a task: entries, misfits, files, bytes on the disk, entries of each kind."""
_GROUP_BYTES: Final = 32 << 20
"""Bytes of rows in memory that make a row group."""
_HELD_BYTES: Final = 96 << 20
"""Most bytes of rows in memory, in all files together."""
_BATCH_OVERHEAD: Final = 16 << 10
"""Bytes that even a batch of few rows takes, because a batch has some hundred buffers."""
_OPEN: Final = 4
"""Most open files. Few files suffice, because days come in order, except where clocks were wrong."""
_APART: Final = PARTITIONS["entries"]
_WHATS: Final = tuple(Is)


@dataclass(frozen=True, slots=True)
class OutputDirectories:
    """The directories for a run's files."""

    table: str
    """The directory of the table, or its address."""
    unfinished: str
    """A directory for files that are not whole yet, on the same file system."""
    run: str
    """A name that no other run has."""


def written(schema_text: str, target: OutputDirectories, rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Type and write entries. For `mapInArrow`: takes rows as `typed` does, and yields one row of `WRITTEN`.

    `schema_text`: the JSON Schema of the status record. Raises `OSError`.
    """
    from pyspark import TaskContext  # noqa: PLC0415 -- only workers have this module for sure

    context = TaskContext.get()
    yield write_entries(target, 0 if context is None else context.partitionId(), typed(schema_text, rows))


def typed(schema_text: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Make rows of `entries`. Takes farm, index, term, exporter, received_ms, what and text."""
    typer = Typer(schema_text)
    for batch in batches:
        for farm in batch.column("farm").unique():
            part = batch.filter(pc.equal(batch.column("farm"), farm))
            whats = [_WHATS[what] for what in part.column("what").to_pylist()]
            values = (part.column(name).to_pylist() for name in ("index", "term", "received_ms", "text"))
            lines = [*map(FoundLine, whats, *values)]
            yield typer.rows(farm.as_py(), part.column("exporter"), lines)


def write_entries(target: OutputDirectories, task: int, batches: Iterable[pa.RecordBatch]) -> pa.RecordBatch:
    """Write batches of rows of `entries`, and return one row of `WRITTEN`. Raises `OSError`.

    Each batch has rows of one farm only.
    """
    writer = EntryWriter(target, task)
    counts = dict.fromkeys(WRITTEN.names, 0)
    for batch in batches:
        counts["new"] += batch.num_rows
        counts["misfits"] += batch.num_rows - batch.column("misfit").null_count
        for each in batch.column("kind").value_counts().to_pylist():
            counts[f"kind_{each['values']}"] += each["counts"]
        writer.add(batch)
    writer.close()
    counts["files"], counts["bytes"] = writer.files, writer.bytes
    return pa.RecordBatch.from_pylist([counts], WRITTEN)


@dataclass(slots=True)
class _Part:
    """An unfinished file with entries of a farm and day, and entries in memory for the file's next row group."""

    number: int
    batches: list[pa.RecordBatch] = field(default_factory=list)
    held_bytes: int = 0
    path: str = ""
    """Path of the unfinished file; empty: there is no file yet."""
    stream: Any = None
    writer: Any = None


class EntryWriter:
    """Writes the files of one task, in limited memory for any number of days."""

    def __init__(self, target: OutputDirectories, task: int) -> None:
        """`task`: the task's number in the run."""
        self._system, self._table = file_system(target.table)
        _, self._unfinished = file_system(target.unfinished)
        self._name = f"part-{task:05}-{target.run}"
        self._attempt = uuid4().hex
        self._parts: dict[tuple[str, str], _Part] = {}  # in the order in which parts last got rows
        self._numbers = count(1)
        self.held_bytes = 0
        """Bytes of rows in memory."""
        self.files = 0
        """Number of finished files in the table."""
        self.bytes = 0
        """Bytes of the finished files in the table."""

    @property
    def open(self) -> int:
        """Number of open files."""
        return sum(part.writer is not None for part in self._parts.values())

    def add(self, rows: pa.RecordBatch) -> None:
        """Take rows of one farm; write rows to files when enough rows are in memory.

        If the rows are of another farm than the rows before, all open files are finished first.
        """
        if not rows.num_rows:
            return
        farm = rows.column("farm")[0].as_py()
        if self._parts and next(iter(self._parts))[0] != farm:
            self.close()
        for day, of_day in _by_day(rows):
            self._add((farm, day), of_day.drop_columns(list(_APART)))

    def close(self) -> None:
        """Write the rows in memory, and move all files into the table."""
        while self._parts:
            self._finish(next(iter(self._parts)))

    def _add(self, key: tuple[str, str], rows: pa.RecordBatch) -> None:
        part = self._parts.pop(key, None) or _Part(next(self._numbers))
        self._parts[key] = part
        size = rows.nbytes + _BATCH_OVERHEAD
        part.batches.append(rows)
        part.held_bytes += size
        self.held_bytes += size
        if part.held_bytes >= _GROUP_BYTES:
            self._flush(key)
        while self.held_bytes > _HELD_BYTES:
            self._flush(max(self._parts, key=lambda each: self._parts[each].held_bytes))

    def _flush(self, key: tuple[str, str]) -> None:
        """Write the rows in memory as a row group of their file. `key`: the farm and day of the rows."""
        part = self._parts[key]
        if not part.batches:
            return
        if part.writer is None:
            if self.open >= _OPEN:
                self._finish(next(each for each, other in self._parts.items() if other.writer is not None))
            self._begin(part, part.batches[0].schema)
        part.writer.write_table(pa.Table.from_batches(part.batches), row_group_size=1 << 30)
        self.held_bytes -= part.held_bytes
        part.batches, part.held_bytes = [], 0

    def _begin(self, part: _Part, schema: pa.Schema) -> None:
        self._system.create_dir(self._unfinished, recursive=True)
        part.path = f"{self._unfinished}/{self._name}-{part.number:04}.{self._attempt}"
        part.stream = self._system.open_output_stream(part.path)
        part.writer = pq.ParquetWriter(
            part.stream,
            schema,
            compression="zstd",
            use_dictionary=_dictionary_columns(schema),
            store_schema=False,  # Arrow's copy of Parquet's schema takes kilobytes in each file
        )

    def _finish(self, key: tuple[str, str]) -> None:
        """Write the rows in memory to their file, and move the file into the table. `key`: the file's farm and day."""
        self._flush(key)
        part = self._parts.pop(key)
        part.writer.close()
        self.bytes += part.stream.tell()
        part.stream.close()
        directory = "/".join([self._table, *(f"{name}={value}" for name, value in zip(_APART, key, strict=True))])
        self._system.create_dir(directory, recursive=True)
        self._move(part.path, f"{directory}/{self._name}-{part.number:04}.zstd.parquet")
        self.files += 1

    def _move(self, path: str, place: str) -> None:
        try:
            self._system.move(path, place)
        except OSError:  # some file systems replace no file: an earlier attempt of the task has moved the file there
            if self._system.get_file_info(place).type != pafs.FileType.File:
                raise
            self._system.delete_file(path)


def _by_day(rows: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Yield each day with the day's rows, in the order in which the days first occur."""
    days = rows.column("day")
    for day in pc.unique(days):
        yield day.as_py(), rows.filter(pc.equal(days, day))  # a copy: a slice would hold all rows


def _dictionary_columns(schema: pa.Schema) -> list[str]:
    """Return the columns, by Parquet's names, for which a dictionary saves space: all but `value`."""
    pq.write_table(schema.empty_table(), empty := pa.BufferOutputStream())
    return [leaf.path for leaf in pq.read_metadata(pa.BufferReader(empty.getvalue())).schema if leaf.path != "value"]
