"""Reads files of histories, from where an earlier run ended: rows of entries, of bad lines, and one row of each file.

A run remembers how far it has read each file: a number of bytes of the file's content, up to the end of a line, and a
checksum of these bytes. The bytes may change. At the next start, a node that was killed cuts the newest file after the
last synced byte, and then writes other bytes. A reader that finds another checksum reads the file from the beginning.
"""

import zlib
from collections.abc import Iterable, Iterator
from hashlib import md5
from itertools import chain
from typing import Any, Final

import pyarrow as pa

from gf_i2p.pipeline.read.entry_columns import EARLIEST_MS, LATEST_MS
from gf_i2p.pipeline.read.history_files import first_index
from gf_i2p.pipeline.read.line_walk import NO_END, FoundLine, Is, Walk
from gf_i2p.pipeline.read.stored_file import HEAD_BYTES, Lines, UnpackedFile, open_stored, packing_of
from gf_i2p.storage.history_lines import Header, header_line
from gf_i2p.wire.limits import MAX_INTEGER

LATE_MS: Final = 600_000
"""Milliseconds from a record's date until the exporter applied the entry. Above these, the entry is late."""
_LASTING: Final = 16
"""An exporter counts as late after this many late entries in a row, until as many timely entries follow in a row.

Fewer entries would prove nothing, because one server's clock may be wrong.
"""
_BATCH_ROWS: Final = 4_000
_BATCH_BYTES: Final = 8 << 20

_STATE: Final = {
    "opened_ms": pa.int64(),  # from the file's first line
    "place": pa.int64(),  # bytes of the content that were read: whole lines
    "check": pa.int64(),  # CRC-32 of these bytes
    "next": pa.int64(),  # index of the entry that should follow; null: the file has ended
}
"""How far a file was read; null: the file was not read yet, or its first line is wrong."""
WANTED: Final = pa.schema(
    {
        "path": pa.string(),
        "size": pa.int64(),
        "mtime_ms": pa.int64(),
        "farm": pa.string(),
        "exporter": pa.int64(),
        **_STATE,
    }
)
"""Files to read. `farm` and `exporter`: from the file's first line, null as in the state."""
_LINE: Final = pa.struct({"length": pa.int64(), "digest": pa.string(), "reason": pa.string()})
FILE: Final = pa.struct(
    {
        "size": pa.int64(),
        "mtime_ms": pa.int64(),
        "sha256": pa.string(),  # of the file as it is stored; null: it cannot be read
        "lines": pa.int64(),
        "entries": pa.int64(),
        "bad": pa.int64(),
        "bytes": pa.int64(),  # unpacked
        "reason": pa.string(),  # what is wrong with the file; null: nothing
        **_STATE,
    }
)
"""The account of one reading of a file."""
ARRIVED: Final = pa.schema(
    {
        "part": pa.string(),  # "entry", "bad" or "file"
        "path": pa.string(),
        "farm": pa.string(),
        "exporter": pa.int64(),
        # an entry, see `FoundLine`
        "what": pa.int64(),
        "index": pa.int64(),
        "term": pa.int64(),
        "received_ms": pa.int64(),
        "text": pa.binary(),  # also the beginning of a bad line
        "worth": pa.int64(),  # the exporter: 0: up to date; 1: late; 2: wrong clock
        "line": _LINE,  # of a bad line
        "file": FILE,
    }
)


def arrivals(live: bool, files: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Read files. For `mapInArrow`: takes rows of `WANTED`, and yields rows of `ARRIVED`.

    `live`: whether the nodes are writing now. Then an unfinished last line of a plain file is no error.
    """
    for batch in files:
        for wanted in batch.to_pylist():
            try:
                yield from _FileReading(wanted, live=live)
            except OSError as error:
                account = {"lines": 0, "entries": 0, "bad": 0, "bytes": 0, "reason": f"it cannot be read: {error}"}
                account |= {"size": wanted["size"], "mtime_ms": wanted["mtime_ms"]}
                yield _row("file", path=wanted["path"], file=account)


class _FileReading:
    """One reading of one file: an iterator, to use once, of rows of `ARRIVED`."""

    def __init__(self, wanted: dict[str, Any], *, live: bool) -> None:
        self._wanted = wanted
        self._live = live
        self._entries_read = 0
        self._unfinished = 0  # last lines that a node is writing now

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Yield rows of entries and of bad lines, then the row of the file. Raises `OSError`."""
        is_open = self._wanted["place"] and self._wanted["next"] is not None
        try:
            yield from self._read(self._wanted["place"] if is_open else 0)
        except _ChangedError:  # raised before the first row
            yield from self._read(0)

    def _read(self, place: int) -> Iterator[pa.RecordBatch]:
        path = self._wanted["path"]
        strict = not packing_of(path) or _damage(path) is not None
        header = header_line(self._header()) if place else b""
        file, opened = open_stored(path)
        with file:
            content = UnpackedFile(file, packing_of(opened))
            marked = _Marked(content, place, self._wanted["check"])
            lines = Lines(chain([header] if header else [], marked))
            walk = Walk(lines, strict=strict)
            yield from self._lines(walk, is_growing=self._live and not packing_of(opened))
            content.finish()
        if (rest := walk.unlisted) is not None:
            yield _bad_row(path, walk, rest)
        account = {
            "size": self._wanted["size"],
            "mtime_ms": self._wanted["mtime_ms"],
            "sha256": content.sha256,
            "lines": walk.lines - bool(header),
            "entries": self._entries_read,
            "bad": walk.bad - self._unfinished,
            "bytes": lines.bytes - len(header),
            "reason": _problem(path, walk, content, lines, place - len(header)),
        }
        if walk.header is None:
            yield _row("file", path=path, file=account)
            return
        account |= {
            "opened_ms": walk.header.opened_ms,
            "place": marked.place,
            "check": marked.check,
            "next": None if walk.closed or walk.next_index > MAX_INTEGER else walk.next_index,
        }
        yield _row("file", path=path, farm=walk.header.cluster, exporter=walk.header.server, file=account)

    def _header(self) -> Header:
        """Return the file's first line, changed as if the file began where this reading begins."""
        wanted = self._wanted
        return Header(wanted["farm"], wanted["exporter"], wanted["next"], wanted["opened_ms"])

    def _lines(self, walk: Walk, *, is_growing: bool) -> Iterator[pa.RecordBatch]:
        path = self._wanted["path"]
        late = _Lateness().worth
        batch: list[FoundLine] = []
        worths: list[int] = []
        size = 0
        for line in walk:
            if line.what is Is.BAD:
                if is_growing and line.reason == NO_END:
                    self._unfinished = 1
                else:
                    yield _bad_row(path, walk, line)
                continue
            received_ms = line.received_ms
            worths.append(late(line.text, received_ms) if EARLIEST_MS <= received_ms < LATEST_MS else 2)
            batch.append(line)
            size += len(line.text)
            if len(batch) == _BATCH_ROWS or size >= _BATCH_BYTES:
                yield self._entries(walk, batch, worths)
                batch, worths, size = [], [], 0
        if batch:
            yield self._entries(walk, batch, worths)

    def _entries(self, walk: Walk, lines: list[FoundLine], worths: list[int]) -> pa.RecordBatch:
        assert walk.header is not None
        count = len(lines)
        self._entries_read += count
        whats, indexes, terms, times, texts, *_ = zip(*lines, strict=True)
        values = {
            "part": pa.repeat("entry", count),
            "path": pa.repeat(self._wanted["path"], count),
            "farm": pa.repeat(walk.header.cluster, count),
            "exporter": pa.repeat(pa.scalar(walk.header.server, pa.int64()), count),
            "what": pa.array(whats, pa.int64()),
            "index": pa.array(indexes, pa.int64()),
            "term": pa.array(terms, pa.int64()),
            "received_ms": pa.array(times, pa.int64()),
            "text": pa.array(texts, pa.binary()),
            "worth": pa.array(worths, pa.int64()),
        }
        arrays = [values[field.name] if field.name in values else pa.nulls(count, field.type) for field in ARRIVED]
        return pa.RecordBatch.from_arrays(arrays, schema=ARRIVED)


class _ChangedError(Exception):
    """The file no longer begins with the bytes that were read."""


class _Marked:
    """An iterator of a file's content from a place on. `place` and `check` are then those of the last whole line."""

    def __init__(self, content: Iterable[bytes], begin: int, expected: int) -> None:
        """`expected`: the CRC-32 of the bytes before `begin`."""
        self._content = content
        self._begin = begin
        self._expected = expected
        self.place = begin
        self.check = expected if begin else 0

    def __iter__(self) -> Iterator[bytes]:
        """Yield the bytes from `begin` on. Raises `_ChangedError` before the first byte if the checksum is another."""
        before = running = 0  # bytes before the piece, and their checksum
        for piece in self._content:
            skipped = min(max(self._begin - before, 0), len(piece))
            running = zlib.crc32(piece[:skipped], running)
            before += skipped
            if before < self._begin:
                continue
            if skipped and running != self._expected:
                raise _ChangedError
            rest = piece[skipped:]
            cut = rest.rfind(b"\n") + 1
            if cut:
                self.place, self.check = before + cut, zlib.crc32(rest[:cut], running)
                running = self.check
            running = zlib.crc32(rest[cut:], running)
            before += len(rest)
            if rest:
                yield rest
        if before < self._begin:
            raise _ChangedError


def _damage(path: str) -> str | None:
    """Unpack a packed file, and return the error of its packing; None: its checksum vouches for each line."""
    file, opened = open_stored(path)
    with file:
        content = UnpackedFile(file, packing_of(opened))
        for _ in content:
            pass
    return content.damage


def _problem(path: str, walk: Walk, content: UnpackedFile, lines: Lines, offset: int) -> str | None:
    """Return the error of the file as a whole; None: the file has no such error.

    `offset`: bytes of the file's content before the walk's first byte.
    """
    if walk.header is None:
        return content.damage if content.damage and not lines.bytes else walk.problem
    if content.damage:
        return f"{content.damage}, by byte {content.damaged_at}; saved up to entry {walk.last_index}"
    if walk.problem:
        return f"{walk.problem}, at byte {walk.problem_at + offset} of its content"
    if offset <= 0 and first_index(path) != walk.header.first:
        return f"it begins with entry {walk.header.first}, and its name says otherwise"
    if packing_of(path) and not walk.closed:
        return f"its last line is missing, after entry {walk.last_index}, at byte {lines.bytes + offset}"
    return None


class _Lateness:
    """Tells whether an exporter applied entries long after the entries' dates, because the exporter had been away."""

    def __init__(self) -> None:
        self._late = 0
        self._contrary = 0  # entries in a row that say otherwise

    def worth(self, text: bytes, received_ms: int) -> int:
        """Take in the next entry; return 1 when the exporter is late, otherwise 0. `text`: the entry's value."""
        at = text.find(b'"date":', 0, 256)
        date = text[at + 7 : at + 20] if at >= 0 else b""
        if date.isdigit():
            if (received_ms - int(date) > LATE_MS) == bool(self._late):
                self._contrary = 0
            else:
                self._contrary += 1
                if self._contrary == _LASTING:
                    self._late, self._contrary = 1 - self._late, 0
        return self._late


def _bad_row(path: str, walk: Walk, line: FoundLine) -> pa.RecordBatch:
    text, overlong = line.text, line.overlong
    length, digest = (
        (len(text), md5(text, usedforsecurity=False).hexdigest())
        if overlong is None
        else (overlong.length, overlong.digest)
    )
    farm = None if walk.header is None else walk.header.cluster
    account = {"length": length, "digest": digest, "reason": line.reason}
    return _row("bad", path=path, farm=farm, text=text[:HEAD_BYTES], line=account)


def _row(part: str, **values: Any) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([{"part": part, **values}], ARRIVED)
