"""Makes rows of entries from lines of a stream, and rows of errors from bad lines.

A piece of a file comes as if the piece were a whole file (see `history_source`). So `ingest` and `stream` share code:
the same `Walk` goes through the piece, and the same `Typer` types the entries.
"""

from collections.abc import Iterator
from hashlib import md5
from typing import Any, Final

import pyarrow as pa

from gf_i2p.pipeline.ingest.entry_reader import BATCH_BYTES, BATCH_ROWS
from gf_i2p.pipeline.read.entry_columns import Typer, entries_schema
from gf_i2p.pipeline.read.history_files import first_index
from gf_i2p.pipeline.read.line_walk import FoundLine, Is, Walk
from gf_i2p.pipeline.read.record_schema import RecordSchema
from gf_i2p.pipeline.read.stored_file import HEAD_BYTES, Lines, Overlong

BAD: Final = pa.schema(
    {
        "source": pa.string(),
        "what": pa.string(),  # "file" or "line"; null: the row is an entry
        "reason": pa.string(),
        "text": pa.string(),
        "length": pa.int64(),
        "digest": pa.string(),
    }
)
"""More columns of the rows. All rows have `source`; only rows of errors have the others, as in the quarantine."""


def arrived_schema(schema_text: str) -> pa.Schema:
    """Return the columns of the rows that `arrived` yields: the columns of entries, and `BAD`."""
    return pa.schema([*entries_schema(RecordSchema(schema_text)), *BAD])


def arrived(schema_text: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Read lines (`history_source.LINES`), for `mapInArrow`; yield rows of entries and of errors.

    `schema_text`: the JSON Schema of the status record.
    """
    typer = Typer(schema_text)
    schema = arrived_schema(schema_text)
    rows = _Rows(batches)
    while rows.next is not None:
        first = rows.next
        if first["problem"] is not None:
            rows.advance()
            yield _error_batch(schema, {"source": first["path"], "what": "file", "reason": first["problem"]})
            continue
        yield from _piece(rows, typer, schema)


class _Rows:
    """Rows of batches, one by one; the next row can be seen before it is taken."""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._rows = (row for batch in batches for row in batch.to_pylist())
        self.next: dict[str, Any] | None = None
        self.advance()

    def advance(self) -> None:
        self.next = next(self._rows, None)


class _HistoryPiece(Lines):
    """The lines of one piece."""

    def __init__(self, rows: _Rows) -> None:
        super().__init__(())
        self._rows = rows
        assert rows.next is not None
        self.path: str = rows.next["path"]
        self.strict: bool = rows.next["strict"]
        self._header = 0  # bytes of the first line
        self._begin = 0  # place in the file of the bytes after the first line

    @property
    def is_beginning(self) -> bool:
        """Whether the piece begins where its file begins."""
        return self._begin in {0, self._header}

    def content_byte(self, at: int) -> int:
        """Turn a place in the piece, in bytes, into the place in the file's content, in bytes."""
        return max(at - self._header, 0) + self._begin

    def __iter__(self) -> Iterator[bytes | Overlong]:
        is_first = True
        while (row := self._rows.next) is not None:
            if not is_first and (row["at"] is None or row["path"] != self.path):
                return
            self._rows.advance()
            line = row["line"]
            if is_first:
                is_first = False
                self._header = len(line) + 1
            elif not self._begin:
                self._begin = row["at"]
            yield line if row["length"] is None else Overlong(line, row["length"], row["digest"])


def _piece(rows: _Rows, typer: Typer, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    piece = _HistoryPiece(rows)
    walk = Walk(piece, strict=piece.strict)
    batch: list[FoundLine] = []
    size = 0
    for line in walk:
        if line.what is Is.BAD:
            yield _error_batch(schema, _line_error(piece.path, walk, line))
            continue
        batch.append(line)
        size += len(line.text)
        if len(batch) == BATCH_ROWS or size >= BATCH_BYTES:
            yield _entries(schema, piece.path, walk, typer, batch)
            batch, size = [], 0
    if batch:
        yield _entries(schema, piece.path, walk, typer, batch)
    if (rest := walk.unlisted) is not None:
        yield _error_batch(schema, _line_error(piece.path, walk, rest))
    while rows.next is not None and rows.next["at"] is not None:  # skip the piece after a bad first line
        rows.advance()
    header = walk.header
    if header is None:
        yield _error_batch(schema, {"source": piece.path, "what": "file", "reason": walk.problem})
        return
    reason = None
    if walk.problem is not None:
        reason = f"{walk.problem}, at byte {piece.content_byte(walk.problem_at)} of its content"
    elif piece.is_beginning and first_index(piece.path) != header.first:
        reason = f"it begins with entry {header.first}, and its name says otherwise"
    if reason is not None:
        yield _error_batch(schema, {"source": piece.path, "what": "file", "farm": header.cluster, "reason": reason})


def _entries(schema: pa.Schema, path: str, walk: Walk, typer: Typer, lines: list[FoundLine]) -> pa.RecordBatch:
    assert walk.header is not None
    rows = typer.rows(walk.header.cluster, walk.header.server, lines)
    nothing = [pa.nulls(len(lines), each.type) for each in BAD]
    nothing[0] = pa.array([path] * len(lines), pa.string())
    return pa.RecordBatch.from_arrays([*rows.columns, *nothing], schema=schema)


def _line_error(path: str, walk: Walk, line: FoundLine) -> dict[str, Any]:
    text, overlong = line.text, line.overlong
    return {
        "source": path,
        "what": "line",
        "farm": None if walk.header is None else walk.header.cluster,
        "reason": line.reason,
        "text": text[:HEAD_BYTES].decode("utf-8", "replace").replace("\0", "\ufffd"),
        "length": len(text) if overlong is None else overlong.length,
        "digest": md5(text, usedforsecurity=False).hexdigest() if overlong is None else overlong.digest,
    }


def _error_batch(schema: pa.Schema, row: dict[str, Any]) -> pa.RecordBatch:
    if row["what"] == "file":  # a file may have several errors, at different times
        digest = md5((row["reason"] or "").encode(), usedforsecurity=False).hexdigest()
        row |= {"text": "", "length": 0, "digest": digest}
    return pa.RecordBatch.from_pylist([row], schema)
