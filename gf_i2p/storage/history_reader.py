"""Reads the history: the files of a directory, in order, each checked line by line.

Only the newest file may be unfinished: a killed process, or a power cut, leaves unsynced bytes at its end. These bytes
are not damage, and readers leave them out. The space at the beginning of every batch tells such bytes from damage (see
`history_lines`): everything before such a line was on the disk.

A node may write meanwhile. A reader gets a line that is added meanwhile either whole or not at all.
"""

import os
import re
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Final

from gf_i2p.storage.errors import StorageError
from gf_i2p.storage.history_lines import (
    MAX_LINE_BYTES,
    ApplicationLine,
    ConfigurationLine,
    FormatError,
    Gap,
    Header,
    Line,
    LineError,
    Other,
    Restored,
    Sequence,
    Trailer,
    parse_line,
)
from gf_i2p.storage.packed_files import DAMAGED, ZSTD, open_packed

BATCH_BYTES: Final = 2 << 20
"""A batch, which is written and synced at once, ends with the line that reaches this size."""
UNSYNCED_BYTES: Final = BATCH_BYTES + MAX_LINE_BYTES
"""Most bytes that a killed writer can leave without a sync."""
FILE_NAME: Final = re.compile(r"entries-([0-9]{20})\.jsonl(\.zst|\.gz)?")
"""The name of a history's file: the index of its first entry, and the suffix of a packed file."""


class HistoryError(StorageError):
    """The history cannot be used; `str()` says why and how to go on."""


def damaged_history(path: Path, fault: str) -> HistoryError:
    """Return the error for a file whose content is not what a node wrote."""
    return HistoryError(
        f"{path} is damaged: {fault}. Nothing was changed. Keep the file for examination and check the disk. To export "
        f"again, move the whole directory {path.parent} away: a new one begins with what the log still holds. Other "
        "servers' histories have the same entries."
    )


def _of_another_version(path: Path, error: FormatError) -> HistoryError:
    return HistoryError(
        f"{path} cannot be used: {error}. Nothing was changed. To export with this program, move the whole directory "
        f"{path.parent} away: a new one begins with what the log still holds."
    )


def plain_name(first: int) -> str:
    """Return the name, before packing, of the file that begins with the entry `first`."""
    return f"entries-{first:020}.jsonl"


def packed_name(first: int) -> str:
    """Return the name, after packing, of the file that begins with the entry `first`."""
    return plain_name(first) + ZSTD


@dataclass(slots=True)
class HistoryFile:
    """One file of a history: plain, packed, or both when packing has not yet removed the plain file."""

    directory: Path
    first: int
    is_plain: bool = False
    suffix: str = ZSTD
    """How the name of the packed file ends; that of the file that the node would write, if there is none."""

    @property
    def plain(self) -> Path:
        """Path before packing."""
        return self.directory / plain_name(self.first)

    @property
    def packed(self) -> Path:
        """Path after packing."""
        return self.directory / (plain_name(self.first) + self.suffix)


def history_files(directory: Path) -> list[HistoryFile]:
    """List the files of a history, the oldest first; files with other names are ignored.

    Raises `OSError`.
    """
    files: dict[int, HistoryFile] = {}
    for name in sorted(os.listdir(directory)):  # noqa: PTH208 -- half the time of paths, and there may be thousands
        if match := FILE_NAME.fullmatch(name):
            first = int(match[1])
            file = files.setdefault(first, HistoryFile(directory, first))
            if match[2]:
                file.suffix = match[2]  # of two packed forms, that of Zstandard comes last, and counts
            else:
                file.is_plain = True
    return list(files.values())


class Scan:
    """Iterates once over the lines of one file. After the last line the attributes tell how the file ends."""

    def __init__(self, path: Path, file: BinaryIO, first: int, *, may_be_torn: bool) -> None:
        """`first`: the index in the file's name. `may_be_torn`: unsynced bytes may stand at the end."""
        self._path = path
        self._file = file
        self._may_be_torn = may_be_torn
        self.sequence = Sequence(first)
        self.end = 0
        """Bytes up to the end of the last good line."""
        self.batch = 0
        """Byte at which the last batch begins; 0 when there is only the first line."""
        self.torn = 0
        """Number of unsynced bytes after `end` that are not a line."""
        self.number = 0
        """Number of lines."""

    def __iter__(self) -> Iterator[Line]:
        """Yield the lines. Raises `HistoryError` when the file is damaged."""
        while data := self._readline():
            try:
                line = self._take(data)
            except FormatError as error:
                raise _of_another_version(self._path, error) from None
            except LineError as error:
                tail = self._tail() if self._may_be_torn else b""
                if not data.endswith(b"\n") and tail.startswith(data) and len(tail) > len(data):
                    self._file.seek(self.end)  # the line was being written, and has grown since
                    continue
                if self.sequence.header is None or not _is_torn(tail):
                    raise damaged_history(self._path, f"line {self.number + 1}: {error}") from None
                self.torn = len(tail)
                return
            if data.startswith(b" "):
                self.batch = self.end
            self.end += len(data)
            self.number += 1
            yield line
        if self.sequence.header is None:
            raise damaged_history(self._path, "it is empty")
        if not self._may_be_torn and not self.sequence.closed:
            raise damaged_history(self._path, f"its end is missing, after the entry {self.sequence.last_index}")

    def _take(self, data: bytes) -> Line:
        if not data.endswith(b"\n"):
            raise LineError("it has no end")
        line = parse_line(data)
        self.sequence.take(line)
        return line

    def _readline(self) -> bytes:
        try:
            return self._file.readline(MAX_LINE_BYTES + 2)
        except DAMAGED as error:
            raise damaged_history(self._path, f"after line {self.number}: {error}") from error

    def _tail(self) -> bytes:
        self._file.seek(self.end)
        return self._file.read(UNSYNCED_BYTES + 1)


def _is_torn(tail: bytes) -> bool:
    """Return whether bytes that are not a line can be the end of a write that was never synced."""
    return 0 < len(tail) <= UNSYNCED_BYTES and b"\n " not in tail


def scan(file: HistoryFile, *, newest: bool) -> Iterator[Line]:
    """Yield the lines of one file. `newest`: whether the file is the history's newest, and so may be unfinished.

    Raises `HistoryError`, and `OSError`: `FileNotFoundError` when the file is gone.
    """
    if file.is_plain:
        with suppress(FileNotFoundError), file.plain.open("rb") as plain:
            yield from Scan(file.plain, plain, file.first, may_be_torn=newest)
            return
    # The file was packed before, or since the directory was read.
    with closing(open_packed(file.packed)) as packed:
        yield from Scan(file.packed, packed, file.first, may_be_torn=False)


def read_lines(directory: Path, *, on_file: Callable[[int, int], None] = lambda *_: None) -> Iterator[Line]:
    """Yield every line of a history, in order.

    `on_file(number, count)`: called before each file, with the file's number, from 1, and the number of all files.
    Raises `HistoryError` when files are damaged, missing, or of different servers, `OSError` when files are unreadable.
    """
    files = history_files(directory)
    if not files:
        raise HistoryError(f"{directory} has no history: it has no file entries-….jsonl, .jsonl.zst or .jsonl.gz")
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
            # The node has removed the file meanwhile, because the file was older than the limit.


def _misplaced(file: HistoryFile, expected: int) -> HistoryError:
    if file.first > expected:
        return HistoryError(
            f"{file.directory} lacks the entries {expected} to {file.first - 1}: a file was removed or renamed. "
            "Bring that file back, or move the files before it away, too."
        )
    return HistoryError(
        f"{file.directory} has the entries from {file.first} on twice: somebody put another server's file, or another "
        "copy, there. Take that file away."
    )


def mixed(path: Path, header: Header, cluster: str, server: int) -> HistoryError:
    """Return the error for the history of one server in the place of another server's."""
    return HistoryError(
        f"{path} has the history of server {header.server} of farm {header.cluster!r}, where that of server {server} "
        f"of farm {cluster!r} belongs. Nothing was changed. Keep each server's history in a directory of its own, and "
        "move this history to its own directory."
    )


def read_history(directory: Path) -> Iterator[ApplicationLine | ConfigurationLine | Gap]:
    """Yield a server's export: each Application and Configuration entry once, in order, and the gaps.

    Raises as `read_lines` does. Nothing is written; a node may write to the files meanwhile.
    """
    for line in read_lines(directory):
        if isinstance(line, ApplicationLine | ConfigurationLine | Gap):
            yield line


@dataclass(slots=True)
class HistorySummary:
    """Counts of a history that was read and checked whole."""

    cluster: str = ""
    server: int = 0
    files: int = 0
    first: int = 0
    """First index of the history: 1, unless old files were removed."""
    last: int = 0
    """Last index of the history; below `first` for an empty one."""
    records: int = 0
    raw: int = 0
    """Records that are not JSON."""
    configurations: int = 0
    """Configuration entries that were exported."""
    others: int = 0
    """Entries that are not exported: entries of other kinds, and unreadable Configurations."""
    gaps: list[tuple[int, int]] = field(default_factory=list)
    """First and last index of each gap; adjacent gaps are joined."""
    restored: list[tuple[int, int, int]] = field(default_factory=list)
    """First index, last index and new term of each `Restored`: a gap where the farm went on from a snapshot."""


def summarize(directory: Path, *, on_file: Callable[[int, int], None] = lambda *_: None) -> HistorySummary:
    """Read a whole history, and count its files, entries and gaps. Raises as `read_lines` does."""
    summary = HistorySummary()
    for line in read_lines(directory, on_file=on_file):
        match line:
            case ApplicationLine(index, raw=raw):
                summary.last = index
                summary.records += 1
                summary.raw += raw is not None
            case ConfigurationLine(index):
                summary.last = index
                summary.configurations += 1
            case Restored(first, last, term):
                summary.restored.append((first, last, term))
                summary.last = last
            case Gap(first, last):
                if summary.gaps and summary.gaps[-1][1] == first - 1:
                    first, _ = summary.gaps.pop()
                summary.gaps.append((first, last))
                summary.last = last
            case Other(first, last):
                summary.others += last - first + 1
                summary.last = last
            case Header():
                if not summary.files:
                    summary.cluster, summary.server = line.cluster, line.server
                    summary.first, summary.last = line.first, line.first - 1
                summary.files += 1
            case Trailer():
                pass
    return summary
