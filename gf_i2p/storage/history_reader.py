"""Reads the history: the files of a directory, in their order, each checked line by line.

Only the newest file may be unfinished: a process that was killed, or a power cut, leaves there what was not synced yet.
That is no damage, and is left out. It is told from damage by the space with which everything that was written at once
begins (see `history_lines`): what stands before such a line was on the disk.

A node may write meanwhile: what it adds while the newest file is read is read or not, but never by half.
"""

import gzip
import os
import re
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Final, cast

from gf_i2p.storage.errors import StorageError
from gf_i2p.storage.history_lines import (
    MAX_LINE_BYTES,
    FormatError,
    Gap,
    Header,
    Line,
    LineError,
    Other,
    Record,
    Restored,
    Sequence,
    Servers,
    Trailer,
    glance_line,
    parse_line,
)

BATCH_BYTES: Final = 2 << 20
"""What is written and synced at once ends with the line that reaches this."""
UNSYNCED_BYTES: Final = BATCH_BYTES + MAX_LINE_BYTES
"""More than this was never without a sync."""
_NAME: Final = re.compile(r"entries-([0-9]{20})\.jsonl(\.gz)?")


class HistoryError(StorageError):
    """The history cannot be used; `str()` says why and what to do next."""


def damaged(path: Path, what: str) -> HistoryError:
    """The file is not what was written."""
    return HistoryError(
        f"{path} is damaged: {what}. Nothing was changed. Keep the file for examination and check the disk. To export "
        f"again, move the whole directory {path.parent} away: a new one begins with what the log still holds. Other "
        "servers' histories have the same entries."
    )


def _of_another_version(path: Path, error: FormatError) -> HistoryError:
    return HistoryError(
        f"{path} cannot be used: {error}. Nothing was changed. To export with this program, move the whole directory "
        f"{path.parent} away: a new one begins with what the log still holds."
    )


def plain_name(first: int) -> str:
    """Name of the file that begins with the entry `first`, until it is packed."""
    return f"entries-{first:020}.jsonl"


def packed_name(first: int) -> str:
    """Name of the file that begins with the entry `first`, once it is packed."""
    return plain_name(first) + ".gz"


@dataclass(slots=True)
class HistoryFile:
    """One file of a history, in the forms in which it is there: both while it is being packed."""

    directory: Path
    first: int
    is_plain: bool = False
    is_packed: bool = False

    @property
    def plain(self) -> Path:
        """Where it is before it is packed."""
        return self.directory / plain_name(self.first)

    @property
    def packed(self) -> Path:
        """Where it is when it is packed."""
        return self.directory / packed_name(self.first)


def history_files(directory: Path) -> list[HistoryFile]:
    """List the files of a history, the oldest first; what has other names is nobody's business here.

    Raises `OSError`.
    """
    found: dict[int, HistoryFile] = {}
    for name in os.listdir(directory):  # noqa: PTH208 -- half the time of paths, and there may be thousands
        if match := _NAME.fullmatch(name):
            first = int(match[1])
            file = found.setdefault(first, HistoryFile(directory, first))
            if match[2]:
                file.is_packed = True
            else:
                file.is_plain = True
    return [found[first] for first in sorted(found)]


class Scan:
    """Goes through one file; afterwards tells how it ends. Use as an iterator of its lines, once."""

    def __init__(self, path: Path, file: BinaryIO, first: int, *, may_be_torn: bool, look_until: int = 0) -> None:
        """`first`: the index in the file's name. `may_be_torn`: whether what was not synced may stand at its end.

        Of the lines that begin in the first `look_until` bytes, the values of records are not looked at: see
        `glance_line`.
        """
        self._path = path
        self._look_until = look_until
        self._file = file
        self._may_be_torn = may_be_torn
        self.sequence = Sequence(first)
        self.end = 0
        """Bytes up to the end of the last good line."""
        self.batch = 0
        """Where what was written last begins; 0 when nothing but the first line is there."""
        self.torn = 0
        """Bytes after `end`, which were never synced."""
        self.number = 0
        """Lines."""

    def __iter__(self) -> Iterator[Line]:
        """Yield the lines. Raises `HistoryError` when the file is damaged."""
        while data := self._readline():
            try:
                line = self._take(data)
            except FormatError as error:
                raise _of_another_version(self._path, error) from None
            except LineError as error:
                rest = self._rest() if self._may_be_torn else b""
                if not data.endswith(b"\n") and rest.startswith(data) and len(rest) > len(data):
                    self._file.seek(self.end)  # it was being written, and now there is more of it
                    continue
                if self.sequence.header is None or not _is_torn(rest):
                    raise damaged(self._path, f"line {self.number + 1}: {error}") from None
                self.torn = len(rest)
                return
            if data.startswith(b" "):
                self.batch = self.end
            self.end += len(data)
            self.number += 1
            yield line
        if self.sequence.header is None:
            raise damaged(self._path, "it is empty")
        if not self._may_be_torn and not self.sequence.closed:
            raise damaged(self._path, f"its end is missing, after the entry {self.sequence.last_index}")

    def _take(self, data: bytes) -> Line:
        if not data.endswith(b"\n"):
            raise LineError("it has no end")
        line = glance_line(data) if self.end < self._look_until else parse_line(data)
        self.sequence.take(line)
        return line

    def _readline(self) -> bytes:
        try:
            return self._file.readline(MAX_LINE_BYTES + 2)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise damaged(self._path, f"after line {self.number}: {error}") from error

    def _rest(self) -> bytes:
        self._file.seek(self.end)
        return self._file.read(UNSYNCED_BYTES + 1)


def _is_torn(rest: bytes) -> bool:
    """Whether bytes that make no sense can be the end of a write that was never synced."""
    return 0 < len(rest) <= UNSYNCED_BYTES and b"\n " not in rest


def scan(file: HistoryFile, *, newest: bool, look_until: int = 0) -> Iterator[Line]:
    """Yield the lines of one file; see `Scan` for the arguments.

    Raises `HistoryError`, and `OSError`: `FileNotFoundError` when it is gone.
    """
    if file.is_plain:
        with suppress(FileNotFoundError), file.plain.open("rb") as plain:
            yield from Scan(file.plain, plain, file.first, may_be_torn=newest, look_until=look_until)
            return
    # It was packed already, or is since the directory was read.
    with closing(cast(BinaryIO, gzip.open(file.packed, "rb"))) as packed:
        yield from Scan(file.packed, packed, file.first, may_be_torn=False, look_until=look_until)


def read_lines(directory: Path, *, on_file: Callable[[int, int], None] = lambda *_: None) -> Iterator[Line]:
    """Yield every line of a history, in order; `on_file(number, count)` hears which file comes next.

    Raises `HistoryError` when files are damaged, missing, or of different servers, `OSError` when they cannot be read.
    """
    files = history_files(directory)
    if not files:
        raise HistoryError(
            f"{directory} has no history: there is no file entries-….jsonl in it, nor one that is packed"
        )
    header: Header | None = None
    expected = 0
    for number, file in enumerate(files, 1):
        on_file(number, len(files))
        if expected and file.first != expected:
            raise _misplaced(file, expected)
        try:
            for line in scan(file, newest=number == len(files)):
                if isinstance(line, Header):
                    header = header or line
                    if (line.cluster, line.server) != (header.cluster, header.server):
                        raise mixed(directory, line, header.cluster, header.server)
                elif isinstance(line, Trailer):
                    expected = line.last + 1
                yield line
        except FileNotFoundError:
            if expected:
                raise
            # Its days were over, and it was removed before we came to it.


def _misplaced(file: HistoryFile, expected: int) -> HistoryError:
    if file.first > expected:
        return HistoryError(
            f"{file.directory} lacks the entries {expected} to {file.first - 1}: a file was removed, or has another "
            "name. Bring it back, or move the files before it away, too."
        )
    return HistoryError(
        f"{file.directory} has the entries from {file.first} on twice: a file of another server, or another copy, was "
        "put there. Take it away."
    )


def mixed(path: Path, found: Header, cluster: str, server: int) -> HistoryError:
    """The history of one server in the place of another's."""
    return HistoryError(
        f"{path} has the history of server {found.server} of farm {found.cluster!r}, where that of server {server} of "
        f"farm {cluster!r} belongs. Nothing was changed. Keep each server's history in a directory of its own: move "
        "this one to where it belongs."
    )


def read_history(directory: Path) -> Iterator[Record | Servers | Gap]:
    """Yield what a server has exported: each Application and Configuration entry once, in order, and the gaps.

    Raises as `read_lines` does. Nothing is written; a node may be at work on the files.
    """
    for line in read_lines(directory):
        if isinstance(line, Record | Servers | Gap):
            yield line


@dataclass(slots=True)
class Summary:
    """What a history holds, all of it read and checked."""

    cluster: str = ""
    server: int = 0
    files: int = 0
    first: int = 0
    """Index with which it begins: 1, unless old files were removed."""
    last: int = 0
    """The last index that it accounts for; below `first` when it is empty."""
    records: int = 0
    raw: int = 0
    """Those among the records that are not JSON."""
    configurations: int = 0
    """Configuration entries, as far as they are exported: see `Other`."""
    others: int = 0
    """Entries of other kinds, which are not exported."""
    gaps: list[tuple[int, int]] = field(default_factory=list)
    """First and last index of each; those that touch are one."""
    restored: list[tuple[int, int, int]] = field(default_factory=list)
    """First and last index, and the new term, where the farm went on from a snapshot (`Restored`)."""


def summarize(directory: Path, *, on_file: Callable[[int, int], None] = lambda *_: None) -> Summary:
    """Read a history to its end and count. Raises as `read_lines` does."""
    found = Summary()
    for line in read_lines(directory, on_file=on_file):
        match line:
            case Record(index, raw=raw):
                found.last = index
                found.records += 1
                found.raw += raw is not None
            case Servers(index):
                found.last = index
                found.configurations += 1
            case Restored(first, last, term):
                found.restored.append((first, last, term))
                found.last = last
            case Gap(first, last):
                if found.gaps and found.gaps[-1][1] == first - 1:
                    first, _ = found.gaps.pop()
                found.gaps.append((first, last))
                found.last = last
            case Other(first, last):
                found.others += last - first + 1
                found.last = last
            case Header():
                if not found.files:
                    found.cluster, found.server = line.cluster, line.server
                    found.first, found.last = line.first, line.first - 1
                found.files += 1
            case Trailer():
                pass
    return found
