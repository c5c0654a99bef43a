"""Goes through one file of a history line by line, and tells the kind of each line.

A file accounts for every index from its first index on, in order. A line that is malformed, or out of order, is bad,
and the walk goes on with the next line. A line with too high an index is held back until the next line. If the next
line's index follows the held line's index, the file lacks lines before the held line. Otherwise the held line is bad.
"""

import hashlib
import json
from collections.abc import Generator, Iterable
from enum import IntEnum
from typing import Final, NamedTuple

from gf_i2p.pipeline.read.stored_file import Lines, Overlong
from gf_i2p.storage.history_lines import (
    MAX_DEPTH,
    ApplicationLine,
    ConfigurationLine,
    Gap,
    Header,
    LineError,
    Other,
    Restored,
    Trailer,
    json_depth,
    match_record,
    parse_line,
    read_json,
)
from gf_i2p.wire.names import check_name

MAX_BAD_LINES: Final = 1000
"""Most bad lines of one file that are given one by one. The other bad lines are counted: see `Walk.unlisted`."""
MAX_UNDATED: Final = 4096
"""Most lines about gaps that wait for the time of the next entry. A node writes one line for each of its long stops."""
NO_END: Final = "it has no end: the file was cut, or is being written"
"""The reason why a file's last line without a line break is bad."""
_LEAST_BYTES: Final = len(b'{"last":1}')
"""Bytes of the shortest line of a history."""
_DIGEST_PIECE: Final = 1 << 16
_NULL_PARTITION: Final = "__HIVE_DEFAULT_PARTITION__"
_TOO_DEEP: Final = f"it has lists and objects more than {MAX_DEPTH} deep inside each other"


class Is(IntEnum):
    """The kind of a line."""

    RECORD = 0
    """An entry; `text`: its value, as JSON."""
    RAW = 1
    """An entry; `text`: its value, which is not JSON."""
    SERVERS = 2
    """A Configuration entry; `text`: the line."""
    BAD = 3
    """A line that is malformed, or out of order; `text`: the line, or its beginning."""
    GAP = 4
    """The servers after missing entries; `at`: the last missing index; `text`: the line.

    `term`: the term in which the farm began anew from a snapshot, otherwise 0. So the line never passes for the missing
    entry. `received_ms`: of the next entry; if no entry follows soon, the time when the file was begun.
    """


class FoundLine(NamedTuple):
    """An entry, a gap with servers, or a bad line."""

    what: Is
    at: int
    """Index of the entry; 0 for a bad line."""
    term: int
    received_ms: int
    text: bytes
    reason: str = ""
    """The reason why the line is bad."""
    overlong: Overlong | None = None


class MissingRange(NamedTuple):
    """A range of indexes for which the file has no entries: a gap, or entries of kinds that are not exported."""

    first: int
    last: int
    servers: FoundLine | None = None
    """The line itself, if the line names the servers after the range."""


class Walk:
    """An iterator, to use once, of the lines of a file. After the last line the attributes tell the file's state."""

    def __init__(self, lines: Lines, *, strict: bool) -> None:
        """`strict`: parse each record, and call a line bad if its record is not JSON.

        A packed file without damage needs no strict walk: gzip has a checksum.
        """
        self._lines = lines
        self._strict = strict
        self.header: Header | None = None
        self.problem: str | None = None
        """The first error of the file itself; errors of single lines do not count."""
        self.problem_at = 0
        """Place of that error, in bytes of the content."""
        self.last_index = 0
        """The last index that the file accounts for."""
        self.next_index = 0
        """Index of the entry that should follow the last line. A last line with too high an index does not count."""
        self.closed = False
        """Whether the file has its last line."""
        self.lines = 0
        self.bad = 0
        """Number of all bad lines."""
        self._unlisted = bytearray()  # the newest bad lines that are not given, until the digest takes them
        self._unlisted_bytes = 0
        self._unlisted_digest = hashlib.md5(usedforsecurity=False)
        self._offset = 0
        self._undated: list[FoundLine] = []
        """Lines of kind `Is.GAP` that wait for the next entry, because they get the time of that entry."""

    def __iter__(self) -> Generator[FoundLine]:
        """Yield entries, gaps with servers, and bad lines; nothing if the first line is not a history's header.

        Of the bad lines, the first `MAX_BAD_LINES` come here.
        """
        # The line that is held back: as parsed, its offset, and its text.
        pending: tuple[FoundLine | MissingRange, int, bytes | Overlong] | None = None
        bad_lines = 0  # bad lines since the last good line
        for line in self._lines:
            if self.header is None:
                self._read_header(line)
                if self.header is None:
                    return
                self.lines, self._offset = 1, _length(line) + 1
                continue
            self.lines += 1
            line_offset, self._offset = self._offset, self._offset + _length(line) + 1
            if self.bad >= MAX_BAD_LINES and isinstance(line, bytes) and len(line) < _LEAST_BYTES:
                bad_lines += 1  # a packed file of some KiB can have millions of empty lines: no time for the reason
                self._leave_out(line)
                continue
            item = self._read_line(line)
            if item is None:
                continue
            if isinstance(item, FoundLine) and item.at == self.last_index + 1 and pending is None and not self.closed:
                self.last_index, bad_lines = item.at, 0
                if self._undated:
                    yield from self._dated(item.received_ms)
                yield item
                continue
            if isinstance(item, FoundLine) and item.what is Is.BAD:
                bad_lines += 1
                yield from self._listed(item)
                continue
            first = _first(item)
            if pending is not None:
                earlier, offset, text = pending
                pending = None
                if first == _last(earlier) + 1:
                    self._note_problem(f"after entry {self.last_index} comes {_first(earlier)}", offset)
                    self.last_index, bad_lines = _last(earlier), 0
                    yield from self._entries(earlier)
                else:
                    bad_lines += 1
                    yield from self._listed(_misplaced(earlier, text, self.last_index))
            if self.last_index < first <= self.last_index + 1 + bad_lines and not self.closed:
                self.last_index, bad_lines = _last(item), 0
                yield from self._entries(item)
            elif first > self.last_index and not self.closed:
                pending = item, line_offset, line
            else:
                bad_lines += 1
                yield from self._listed(_misplaced(item, line, self.last_index))
        if pending is not None:
            earlier, offset, _ = pending
            self._note_problem(f"after entry {self.last_index} comes {_first(earlier)}", offset)
            self.next_index = self.last_index + 1
            self.last_index = _last(earlier)
            yield from self._entries(earlier)
        else:
            self.next_index = self.last_index + 1
        if self.header is not None:
            yield from self._dated(self.header.opened_ms)
        if self.header is None:
            self._note_problem("it is empty, or its first line has no end", 0)
        elif self._lines.rest:
            yield from self._listed(_bad_line(self._lines.rest, NO_END))

    @property
    def unlisted(self) -> FoundLine | None:
        """One bad line that stands for all bad lines beyond the first `MAX_BAD_LINES`; None: there are no such lines.

        Length and digest are those of all these lines, each with a line break.
        """
        count = self.bad - MAX_BAD_LINES
        if count <= 0:
            return None
        digest = self._unlisted_digest.copy()
        digest.update(self._unlisted)
        reason = f"{count} more bad lines of the file have no rows of their own"
        return _bad_line(Overlong(b"", self._unlisted_bytes, digest.hexdigest()), reason)

    def _listed(self, line: FoundLine) -> tuple[FoundLine, ...]:
        """Count a bad line; return the line if the line is to be given."""
        if self.bad < MAX_BAD_LINES:
            self.bad += 1
            return (line,)
        self._leave_out(line.text if line.overlong is None else line.overlong.digest.encode())
        self._unlisted_bytes += 0 if line.overlong is None else line.overlong.length - len(line.overlong.digest)
        return ()

    def _leave_out(self, line: bytes) -> None:
        self.bad += 1
        self._unlisted += line
        self._unlisted += b"\n"
        self._unlisted_bytes += len(line) + 1
        if len(self._unlisted) >= _DIGEST_PIECE:
            self._unlisted_digest.update(self._unlisted)
            self._unlisted.clear()

    def _entries(self, item: FoundLine | MissingRange) -> Iterable[FoundLine]:
        if isinstance(item, FoundLine):
            return (*self._dated(item.received_ms), item)
        if item.servers is None:
            return ()
        self._undated.append(item.servers)
        if len(self._undated) < MAX_UNDATED or self.header is None:
            return ()
        return self._dated(self.header.opened_ms)

    def _dated(self, received_ms: int) -> list[FoundLine]:
        dated, self._undated = [each._replace(received_ms=received_ms) for each in self._undated], []
        return dated

    def _note_problem(self, what: str, offset: int) -> None:
        if self.problem is None:
            self.problem, self.problem_at = what, offset

    def _read_header(self, line: bytes | Overlong) -> None:
        try:
            if isinstance(line, Overlong):
                raise LineError("it is too long")
            header = parse_line(line)
            if not isinstance(header, Header):
                raise LineError("it should be the first line of a history's file")
            if check_name("cluster name", header.cluster) == _NULL_PARTITION:
                raise LineError(f"no farm of a lake can be called {_NULL_PARTITION}: Spark reads this name as null")
        except ValueError as error:
            self._note_problem(f"line 1: {error}", 0)
            return
        self.header = header
        self.last_index = header.first - 1

    def _read_line(self, line: bytes | Overlong) -> FoundLine | MissingRange | None:
        """Return an entry or bad line, or a range without entries; None for the last line of a rotated file."""
        if isinstance(line, Overlong):
            return _bad_line(line, "it is too long")
        if match := match_record(line):
            index, received_ms, text, term = match.groups()
            if self._strict and (reason := _json_error(text)):
                return _bad_line(line, reason)
            return FoundLine(Is.RECORD, int(index), int(term), int(received_ms), text)
        try:
            return self._parse_line(line)
        except LineError as error:
            return _bad_line(line, str(error))

    def _parse_line(self, line: bytes) -> FoundLine | MissingRange | None:
        match parse_line(line):
            case ApplicationLine(index, term, received_ms, value, raw):
                if raw is not None:
                    return FoundLine(Is.RAW, index, term, received_ms, raw)
                if json_depth(value) > MAX_DEPTH:
                    raise LineError(_TOO_DEEP)
                try:
                    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
                except ValueError:
                    raise LineError("it has text that is no Unicode, or a number that is too large") from None
                return FoundLine(Is.RECORD, index, term, received_ms, text)
            case ConfigurationLine(index, term, received_ms):
                return FoundLine(Is.SERVERS, index, term, received_ms, line)
            case Gap(first, last, servers=servers) as gap if servers is not None:
                term = gap.term if isinstance(gap, Restored) else 0
                return MissingRange(first, last, FoundLine(Is.GAP, last, term, 0, line))
            case Gap(first, last) | Other(first, last):
                return MissingRange(first, last)
            case Trailer(last):
                if last != self.last_index:
                    self._note_problem(f"its last line says {last}, after entry {self.last_index}", self._offset)
                self.closed = True
                return None
        raise LineError("it is a first line in the middle of a file")


def servers_of(line: bytes) -> ConfigurationLine | Gap:
    """Parse the `FoundLine.text` of a line of kind `Is.SERVERS` or `Is.GAP`."""
    configuration = parse_line(line)
    assert isinstance(configuration, ConfigurationLine | Gap)
    return configuration


def _json_error(text: bytes) -> str:
    """Return the reason why this text is not a record; empty: the text is a record.

    `MAX_DEPTH` limits the depth, because Python's own limit depends on the caller's stack, and all readings must agree.
    """
    try:
        value = read_json(text)
    except (ValueError, RecursionError):
        return "it is not JSON in UTF-8"
    return _TOO_DEEP if text.count(b"[") + text.count(b"{") > MAX_DEPTH and json_depth(value) > MAX_DEPTH else ""


def _bad_line(line: bytes | Overlong, reason: str) -> FoundLine:
    if isinstance(line, Overlong):
        return FoundLine(Is.BAD, 0, 0, 0, line.head, reason, line)
    return FoundLine(Is.BAD, 0, 0, 0, line, reason)


def _misplaced(item: FoundLine | MissingRange, line: bytes | Overlong, last: int) -> FoundLine:
    return _bad_line(line, f"entry {_first(item)} does not belong after entry {last}")


def _first(item: FoundLine | MissingRange) -> int:
    return item.at if isinstance(item, FoundLine) else item.first


def _last(item: FoundLine | MissingRange) -> int:
    return item.at if isinstance(item, FoundLine) else item.last


def _length(line: bytes | Overlong) -> int:
    return line.length if isinstance(line, Overlong) else len(line)
