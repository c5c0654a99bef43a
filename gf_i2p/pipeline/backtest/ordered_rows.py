"""A farm's rows in the order of the log, out of the Parquet files of the table `entries`.

The files are merged as streams. A file is opened when the merge reaches the file's smallest index, which the footer
tells; memory holds one batch of rows of each open file. Arrow sorts the rows that are merged at once, not Python row by
row. At most `MOST_OPEN` files are open at once: before one more is opened, all open files but the one with the most
rows are merged into a temporary file, which then counts as one of the open files. A file that is not sorted by index is
cut into pieces; each piece is sorted by itself, and kept in a temporary file if there are several pieces.
"""

import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from gf_i2p.pipeline.backtest.replay import SERVERS, Row
from gf_i2p.pipeline.ingest.entry_writer import ORDER
from gf_i2p.pipeline.read.entry_columns import is_gap
from gf_i2p.pipeline.read.stored_file import file_system

if TYPE_CHECKING:
    import numpy as np

BATCH_ROWS: Final = 1_000
"""Rows that are read of one file at a time: a record has up to 64 KiB, and most records have one."""
MOST_OPEN: Final = 16
"""Files that are open at once."""
_PIECE_ROWS: Final = 8 * BATCH_ROWS
"""Rows of a piece of an unsorted file: this many rows are sorted in memory."""
_SCAN_ROWS: Final = 64 << 10
"""Rows that are read at a time when only the column of indexes is read."""
_READ_BYTES: Final = 64 << 10
"""Stored bytes of a column that are read at a time."""
_FARM: Final = "farm="
_SUFFIX: Final = ".parquet"
_LEAST: Final = -(2**63)
"""The first index that is assumed for a file whose footer tells none."""
_FOR_GOOD: Final = pa.array([SERVERS, "admin"])
_STORED: Final = ("index", "term", "received_ms", "kind", "value", "raw", "servers")
_SCHEMA: Final = pa.schema(
    {
        "index": pa.int64(),
        "term": pa.int64(),
        "received_ms": pa.int64(),
        "kind": pa.string(),
        "value": pa.binary(),
        "servers": pa.list_(pa.int64()),
        "gap": pa.int8(),
    }
)
_ORDER: Final = [("index", "ascending"), ("gap", "ascending"), ("term", "descending")]


@dataclass(frozen=True, slots=True)
class Window:
    """The entries to replay."""

    farm: str | None = None
    since_ms: int | None = None
    """By the exporters' clocks. Older entries of administrators and older Configurations are replayed nevertheless."""
    until_ms: int | None = None


@dataclass(frozen=True, slots=True)
class FarmFiles:
    """The files that a table has of one farm."""

    farm: str
    path: str
    """The farm's directory."""
    bytes: int


def farms(path: str) -> list[FarmFiles]:
    """Return the farms of a table, by name. `path`: absolute, or an address."""
    system, inside = file_system(path)
    found: dict[str, int] = {}
    for name, size in _files(system, inside):
        directory = name.removeprefix(inside).strip("/").split("/")[0]
        if directory.startswith(_FARM):
            found[directory] = found.get(directory, 0) + size
    is_address = "://" in path  # an address escapes once more the characters that Spark has escaped in a name
    made = [
        FarmFiles(unquote(name.removeprefix(_FARM)), f"{path}/{quote(name, safe='=') if is_address else name}", size)
        for name, size in found.items()
    ]
    return sorted(made, key=lambda each: each.farm)


def rows(path: str, window: Window) -> Iterator[Row]:
    """Give the rows of a farm in order: by index, then rows that tell the servers behind a gap, then by falling term.

    `path`: the farm's directory, absolute or an address. `window.farm` is not looked at.
    """
    for batch in batches(path, window):
        columns = [batch.column(name).to_pylist() for name in ("index", "term", "received_ms", "kind", "value")]
        servers = batch.column("servers")
        if servers.null_count == len(servers):
            yield from map(Row, *columns)
        else:
            yield from map(Row, *columns, (tuple(each or ()) for each in servers.to_pylist()))


def batches(path: str, window: Window) -> Iterator[pa.RecordBatch]:
    """Give the rows of a farm, as `rows` does, as batches of Arrow."""
    system, inside = file_system(path)
    waiting = [each for name, _ in _files(system, inside) if (each := _footer(system, name, window)) is not None]
    # Spark tells its workers the directory for temporary files.
    scratch = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0] or None
    with tempfile.TemporaryDirectory(prefix="gf-i2p-backtest-", dir=scratch) as directory:
        yield from _Merge(Path(directory), waiting)


def _files(system: Any, inside: str) -> Iterator[tuple[str, int]]:
    """Give the data files below a directory, and their bytes. Hidden files and other files are left out."""
    for each in system.get_file_info(pafs.FileSelector(inside, recursive=True, allow_not_found=True)):
        parts = each.path.removeprefix(inside).strip("/").split("/")
        hidden = any(part.startswith(("_", ".")) for part in parts)
        if each.type == pafs.FileType.File and not hidden and each.path.endswith(_SUFFIX):
            yield each.path, each.size or 0


@dataclass(frozen=True, slots=True)
class _File:
    """A file that has not been opened yet."""

    system: Any
    path: str
    low: int
    """The smallest index in the file, or a lower number."""
    rows: int
    in_order: bool
    """Whether the footer says that the rows are in order: the writer of such a file has sorted the rows."""
    window: Window

    def open(self) -> pq.ParquetFile:
        return pq.ParquetFile(self.path, filesystem=self.system, buffer_size=_READ_BYTES, pre_buffer=False)

    def is_sorted(self) -> bool:
        """Whether the indexes never fall. Where the footer does not say so, the column of indexes is read."""
        if self.in_order:
            return True
        last = _LEAST
        with self.open() as file:
            for batch in file.iter_batches(_SCAN_ROWS, columns=["index"], use_threads=False):
                numbers = batch.column(0).to_numpy()
                if len(numbers) and (numbers[0] < last or (numbers[1:] < numbers[:-1]).any()):
                    return False
                last = numbers[-1] if len(numbers) else last
        return True

    def read(self, rows: int) -> Iterator[pa.RecordBatch]:
        """Give the rows of the file that are in the window."""
        with self.open() as file:
            columns = [name for name in _STORED if name in file.schema_arrow.names]
            for batch in file.iter_batches(rows, columns=columns, use_threads=False):
                yield _chosen(batch, self.window)


def _footer(system: Any, path: str, window: Window) -> _File | None:
    """Read a file's footer; None: the file has no rows."""
    with pq.ParquetFile(path, filesystem=system, pre_buffer=False) as file:
        about = file.metadata
        column = next(place for place in range(about.num_columns) if about.schema.column(place).path == "index")
        groups = [about.row_group(number) for number in range(about.num_row_groups)]
        counted = [each.column(column).statistics for each in groups if each.num_rows]
        known = all(each is not None and each.has_min_max for each in counted)
        low = min((each.min for each in counted), default=_LEAST) if known else _LEAST
        in_order = (about.metadata or {}).get(ORDER[0]) == ORDER[1]
        return _File(system, path, low, about.num_rows, in_order, window) if about.num_rows else None


def _chosen(batch: pa.RecordBatch, window: Window) -> pa.RecordBatch:
    """Give the rows in a window, by `_SCHEMA`."""
    columns = {name: batch.column(name) for name in batch.schema.names}
    nothing = pa.nulls(len(batch), pa.binary())
    value, raw = (columns[name].cast(pa.binary()) if name in columns else nothing for name in ("value", "raw"))
    columns["value"] = value if raw.null_count == len(raw) else pc.coalesce(value, raw)
    columns["gap"] = is_gap(columns["kind"], columns["value"])
    found = pa.RecordBatch.from_arrays(
        [
            columns[each.name].cast(each.type) if each.name in columns else pa.nulls(len(batch), each.type)
            for each in _SCHEMA
        ],
        schema=_SCHEMA,
    )
    if window.until_ms is not None:
        found = found.filter(pc.less(found.column("received_ms"), window.until_ms))
    if window.since_ms is not None:
        late = pc.greater_equal(found.column("received_ms"), window.since_ms)
        found = found.filter(pc.or_(late, pc.is_in(found.column("kind"), _FOR_GOOD)))
    return found


def _sorted(parts: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Make one batch of several, in order."""
    if len(parts) == 1:
        numbers = _numbers(parts[0])
        if (numbers[1:] > numbers[:-1]).all():
            return parts[0]
    together = pa.concat_batches(parts)
    return together.take(pc.sort_indices(together, sort_keys=_ORDER))


def _numbers(batch: pa.RecordBatch) -> "np.ndarray[Any, Any]":
    found: np.ndarray[Any, Any] = batch.column(0).to_numpy()
    return found


class _Source:
    """The rest of a sorted stream of rows."""

    def __init__(self, batches: Iterator[pa.RecordBatch], rows: int) -> None:
        self._batches = batches
        self._batch = pa.RecordBatch.from_pylist([], _SCHEMA)
        self.left = rows
        """About the number of rows that are left."""
        self.ended = False
        """Whether no rows follow those in memory."""
        self.first = self.last = 0
        """First and last index in memory."""

    def fill(self) -> bool:
        """Read until rows are in memory; return whether there are any."""
        while not self._batch.num_rows and not self.ended:
            self.more()
        return bool(self._batch.num_rows)

    def more(self) -> None:
        """Read one more batch into memory."""
        batch = next(self._batches, None)
        if batch is None:
            self.ended = True
        elif batch.num_rows:
            self._set(pa.concat_batches([self._batch, batch]) if self._batch.num_rows else batch)

    def take(self, below: int | None) -> pa.RecordBatch:
        """Take the rows with lower indexes; None: all rows in memory."""
        count = self._batch.num_rows if below is None else int(_numbers(self._batch).searchsorted(below))
        taken = self._batch.slice(0, count)
        self.left -= count
        self._set(self._batch.slice(count))
        return taken

    def _set(self, batch: pa.RecordBatch) -> None:
        self._batch = batch
        if batch.num_rows:
            numbers = batch.column(0)
            self.first, self.last = numbers[0].as_py(), numbers[-1].as_py()


class _Merge:
    """Merges files."""

    def __init__(self, scratch: Path, waiting: Iterable[_File], sources: Iterable[_Source] = ()) -> None:
        self._scratch = scratch
        self._waiting = sorted(waiting, key=lambda each: each.low, reverse=True)
        self._sources = list(sources)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Give the rows of all files, in order."""
        while True:
            self._sources = [source for source in self._sources if source.fill()]
            first = min((source.first for source in self._sources), default=None)
            if self._waiting and (first is None or self._waiting[-1].low <= first):
                self._open(self._waiting.pop())
                continue
            if first is None:
                return
            bounds = [source.last for source in self._sources if not source.ended]
            bounds += [each.low for each in self._waiting[-1:]]
            below = min(bounds, default=None)
            parts = [part for source in self._sources if (part := source.take(below)).num_rows]
            if parts:
                yield _sorted(parts)
                continue
            for source in self._sources:  # one index has more than a batch of rows
                if source.last == below and not source.ended:
                    source.more()

    def _open(self, file: _File) -> None:
        if file.is_sorted():
            self._add(_Source(file.read(BATCH_ROWS), file.rows))
            return
        piece: list[pa.RecordBatch] = []
        rows = 0
        for batch in file.read(BATCH_ROWS):
            piece.append(batch)
            rows += batch.num_rows
            if rows >= _PIECE_ROWS:
                self._add(self._kept([_sorted(piece)]))
                piece, rows = [], 0
        if rows:
            self._add(_Source(iter([_sorted(piece)]), rows))

    def _add(self, source: _Source) -> None:
        if len(self._sources) >= MOST_OPEN:
            self._sources.sort(key=lambda each: each.left, reverse=True)
            longest, *others = self._sources
            self._sources = [longest, self._kept(_Merge(self._scratch, (), others))]
        self._sources.append(source)

    def _kept(self, batches: Iterable[pa.RecordBatch]) -> _Source:
        """Keep sorted rows in a temporary file."""
        number, name = tempfile.mkstemp(dir=self._scratch)
        rows = 0
        options = pa.ipc.IpcWriteOptions(compression="zstd")
        with os.fdopen(number, "wb") as file, pa.ipc.new_stream(file, _SCHEMA, options=options) as writer:
            for batch in batches:
                writer.write_table(pa.Table.from_batches([batch]), max_chunksize=BATCH_ROWS)
                rows += batch.num_rows
        return _Source(_read_back(name), rows)


def _read_back(path: str) -> Iterator[pa.RecordBatch]:
    with pa.OSFile(path) as file, pa.ipc.open_stream(file) as reader:
        yield from reader
    Path(path).unlink()
