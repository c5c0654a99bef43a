"""The history: every committed entry of the log once and in order, in files that outlive the log's compaction.

A history is a directory of JSON Lines (see `history_lines`). The newest file, `entries-<first index, 20 digits>.jsonl`,
grows by batches; a batch is one write and one fsync. A large or old file gets a last line, and the next file is begun.
Another thread packs the old file into a temporary file, syncs that file, renames it to `….jsonl.zst`, and syncs the
directory. Only then that thread removes the plain file.

So only the files themselves tell the last exported entry: a second record could disagree. After any interruption, the
next opening cuts the newest file behind its last good line, and completes unfinished work. The cut entries are
exported again: the log keeps its entries until `History.durable_index` says that the history has them. An entry
counts as exported only while the newest file is found under its name: each sync checks that.

Application entries are exported whole, Configurations as the ids of the servers and the leader.

Opening reads the newest file whole, which takes up to a second. That file has no checksums: a flipped bit inside a
value goes unnoticed until the file is packed; from then on a checksum of Zstandard guards it.
"""

import os
import re
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO, Final

from gf_i2p.storage import private_files
from gf_i2p.storage.history_lines import (
    MAX_TIME_MS,
    Header,
    LineError,
    Trailer,
    gap_line,
    header_line,
    other_line,
    parse_line,
    record_line,
    restored_line,
    servers_line,
    trailer_line,
)
from gf_i2p.storage.history_reader import (
    BATCH_BYTES,
    HistoryError,
    HistoryFile,
    Scan,
    damaged_history,
    history_files,
    mixed,
    packed_name,
    plain_name,
    scan,
)
from gf_i2p.storage.packed_files import packer
from gf_i2p.wire.entries import Entry, ValueType
from gf_i2p.wire.errors import RemoteProtocolError
from gf_i2p.wire.log_values import Configuration

LOCK_SECONDS: Final = 10.0
"""Most seconds for which `History.open` waits for another process that writes the same history."""
_NEW: Final = ".new"
_UNFINISHED: Final = re.compile(r"entries-[0-9]{20}\.jsonl(\.zst|\.gz)?\.new")
_PIECE_BYTES: Final = 1 << 20
"""Bytes that are packed between two calls of `interrupted`: a few milliseconds."""
_SYNC_BYTES: Final = 8 << 20
"""Packed bytes between two syncs: a single sync at the end could delay the log's syncs, and a stop, for seconds."""


@dataclass(frozen=True, slots=True)
class Rotation:
    """Limits at which files are ended and removed."""

    bytes: int = 64 << 20
    """Size at which a file is ended, in bytes. A file may have `BATCH_BYTES` more."""
    ms: int = 24 * 3_600_000
    """Age at which a file with entries is ended, in milliseconds."""
    keep_ms: int = 0
    """Milliseconds from packing to removing a packed file, the oldest first; 0: never remove."""
    keep_bytes: int = 0
    """Bytes of all files beyond which packed files are removed, the oldest first; 0: never remove."""


def check_owner(directory: Path, *, cluster: str, server_id: int) -> None:
    """Check the first line of the newest file, if the file is plain and readable.

    Raises `HistoryError` when the file is another server's, or another farm's.
    """
    try:
        newest = history_files(directory)[-1]
        with newest.plain.open("rb") as file:
            line = parse_line(file.readline(1024))
    except (OSError, IndexError, LineError):
        return
    if isinstance(line, Header) and (line.cluster, line.server) != (cluster, server_id):
        raise mixed(directory, line, cluster, server_id)


class History:
    """The history of one server, open for writing. One thread at a time may use it; one more thread may call `pack`.

    The directory is locked as long as the history is open.

    When a method raises `OSError` (a full disk, say), no exported entry is lost. Close the history then, and open it
    again later: opening completes unfinished work.
    """

    def __init__(
        self,
        directory: Path,
        owner: tuple[str, int],
        rotation: Rotation,
        clock: Callable[[], int],
        interrupted: Callable[[], bool],
    ) -> None:
        """Only for `History.open`. `owner`: cluster and server id."""
        self.directory = directory
        self.durable_index = 0
        """All entries up to this one are in the history, on the disk. Any thread may read this.

        0 again after somebody has taken the newest file away: only another opening finds out which entries are left.
        """
        self.last_term: tuple[int, int] | None = None
        """Index and term of the newest entry that opening found in the newest file; None: the file had none."""
        self.cut_bytes = 0
        """Unsynced bytes that opening cut off the newest file."""
        self._owner = owner
        self._rotation = rotation
        self._clock = clock
        self._interrupted = interrupted
        self._lock = -1
        self._descriptor = -1
        self._first = 0  # of the newest file, like the next three
        self._size = 0
        self._opened_ms = 0
        self._ended = False  # whether the file has its last line
        self._unpacked: deque[HistoryFile] = deque()  # ended files that wait for packing

    @classmethod
    def open(
        cls,
        directory: Path,
        *,
        cluster: str,
        server_id: int,
        rotation: Rotation,
        clock: Callable[[], int],
        interrupted: Callable[[], bool] = lambda: False,
    ) -> "History":
        """Open the history of this server, or begin one. A missing `directory` is made, with mode 0700.

        Wait up to `LOCK_SECONDS` for another process that writes here: the process of a killed node, for instance.

        `clock`: returns ms since the epoch. `interrupted`: returns whether to give up; called often, because large
        files take long. Raises `HistoryError`, and changes nothing, when files are damaged or belong to another server
        or farm. Raises `OSError` when files cannot be read or written, and `InterruptedError` soon after
        `interrupted()` is true.
        """
        history = cls(directory, (cluster, server_id), rotation, clock, interrupted)
        try:
            history._open()
        except BaseException:
            history.close()
            raise
        return history

    def close(self) -> None:
        """Close the file, and unlock the directory."""
        self._close_file()
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def _close_file(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _now(self) -> int:
        return min(max(self._clock(), 0), MAX_TIME_MS)

    # Writing --------------------------------------------------------------------------------------------------------

    def append(self, entries: Sequence[Entry], led: tuple[int, int] | None = None) -> None:
        """Export `entries`, which follow the entry `durable_index`. On return all of `entries` are durable.

        `led`: a term and its leader, by this server's knowledge; Configurations of that term are exported with the
        leader. Raises `OSError`; `durable_index` tells the progress. Raises `HistoryError` as `check_place` does.
        """
        for _ in self.append_in_steps(entries, led):
            pass

    def append_in_steps(self, entries: Sequence[Entry], led: tuple[int, int] | None = None) -> Iterator[None]:
        """Do what `append` does, one entry in each step. The entries are durable when the iterator ends."""
        now = self._now()
        index = self.durable_index
        lines: list[bytes] = []
        size = 0
        others = 0  # entries of other kinds since the last line
        for entry in entries:
            index += 1
            servers = None
            if entry.value_type is not ValueType.APPLICATION:
                servers = _servers_of(entry)
                if servers is None:
                    others += 1
                    yield
                    continue
            if others:
                lines.append(other_line(index - others, index - 1))
                others = 0
            if servers is None:
                lines.append(record_line(index, entry.term, now, entry.value))
            else:
                leader = led[1] if led is not None and led[0] == entry.term else None
                lines.append(servers_line(index, entry.term, now, servers, leader))
            size += len(lines[-1])
            if size >= BATCH_BYTES:
                self._write(b"".join(lines), index)
                lines, size = [], 0
            yield
        if others:
            lines.append(other_line(index - others + 1, index))
        if lines:
            self._write(b"".join(lines), index)

    def gap(self, last: int, servers: Collection[int] | None = None) -> None:
        """Note that this history will never have the entries after `durable_index`, up to `last`. Raises as `append`.

        `servers`: ids of the farm's servers after the gap, None when these are not known.
        """
        assert last > self.durable_index
        self._write(gap_line(self.durable_index + 1, last, servers), last)

    def restored(self, last: int, term: int, servers: Collection[int] | None = None) -> None:
        """Note that the farm begins anew in this term, from a snapshot up to the entry `last`. Raises as `append`.

        `servers`: ids of the servers in the snapshot's Configuration, None when these are not known.
        """
        assert last > self.durable_index
        self._write(restored_line(self.durable_index + 1, last, term, servers), last)

    def _write(self, lines: bytes, last: int) -> None:
        """Append a batch of lines to the newest file, and sync the file. `last`: the new `durable_index`."""
        if self._ended:
            self._begin(self.durable_index + 1)
        data = b" " + lines
        try:
            _write_at(self._descriptor, data, self._size)
            os.fsync(self._descriptor)
            self.check_place()
        except OSError:
            with suppress(OSError):  # frees space on a full disk; if this fails, opening does the same
                os.ftruncate(self._descriptor, self._size)
            raise
        self._size += len(data)
        self.durable_index = last

    def check_place(self) -> None:
        """Check that the open file still has its name in the directory, where readers find the file.

        Otherwise set `durable_index` to 0, since the file's content is lost, and raise `HistoryError`.
        """
        path = self.directory / plain_name(self._first)
        try:
            if os.path.samestat(path.stat(), os.fstat(self._descriptor)):
                return
        except (FileNotFoundError, NotADirectoryError):
            pass
        self.durable_index = 0
        raise _removal_error(path)

    # Rotation -------------------------------------------------------------------------------------------------------

    def due(self) -> bool:
        """Return whether `rotate` has something to do."""
        return self._ended or self._full()

    def _full(self) -> bool:
        old = self._clock() - self._opened_ms >= self._rotation.ms
        return (old or self._size >= self._rotation.bytes) and self.durable_index >= self._first

    def rotate(self) -> None:
        """End the newest file if it is large or old; begin the next. Raises as `append` does."""
        if not self._ended and self._full():
            self._write(trailer_line(self.durable_index), self.durable_index)
            self._ended = True
            self._unpacked.append(HistoryFile(self.directory, self._first, is_plain=True))
        if self._ended:
            self._begin(self.durable_index + 1)

    def packable(self) -> bool:
        """Return whether `pack` has something to do."""
        return bool(self._unpacked)

    def pack(self, interrupted: Callable[[], bool] = lambda: False) -> bool:
        """Pack the ended files, and remove the old ones. May take minutes; the history can be written meanwhile.

        Return True when all ended files are packed; False soon after `interrupted()` is true. An interrupted call
        removes its unfinished packed file, and the next call begins with that file again. Do not open the history again
        before this method has returned. Raises `OSError`.
        """
        while self._unpacked:
            if not _pack(self._unpacked[0], interrupted):
                return False
            self._unpacked.popleft()
        self._remove_old()
        return True

    def _begin(self, first: int) -> None:
        """Begin a new file, whose first entry is `first`."""
        opened_ms = self._now()
        header = header_line(Header(*self._owner, first, opened_ms))
        path = self.directory / plain_name(first)
        draft = path.with_name(path.name + _NEW)
        descriptor = _create(draft)
        try:
            _write_at(descriptor, header, 0)
            os.fsync(descriptor)
            draft.rename(path)
            private_files.sync_directory(self.directory)
        except BaseException:
            os.close(descriptor)
            raise
        self._close_file()
        self._descriptor = descriptor
        self._first, self._size, self._opened_ms, self._ended = first, len(header), opened_ms, False

    def _remove_old(self) -> None:
        keep_ms, keep_bytes = self._rotation.keep_ms, self._rotation.keep_bytes
        if not keep_ms and not keep_bytes:
            return
        files = history_files(self.directory)
        limit = self._clock() - keep_ms
        excess = sum(_size_of(file) for file in files) - keep_bytes
        for file in files:
            old = keep_ms and not file.is_plain and file.packed.stat().st_mtime_ns // 1_000_000 <= limit
            if file.is_plain or not (old or (keep_bytes and excess > 0)):
                break
            excess -= _size_of(file)
            file.packed.unlink()

    # Opening --------------------------------------------------------------------------------------------------------

    def _open(self) -> None:
        if not self.directory.exists():
            self.directory.mkdir(mode=0o700)
            private_files.sync_directory(self.directory.parent)
        self._lock_directory()
        files = history_files(self.directory)
        check_owner(self.directory, cluster=self._owner[0], server_id=self._owner[1])
        # An interrupted rotation leaves the ended file, perhaps with the packed file beside it.
        self._unpacked.extend(file for file in files[:-1] if file.is_plain)
        for file, successor in pairwise(files):
            if file.is_plain and self._last_index_of(file) != successor.first - 1:
                raise damaged_history(file.plain, f"it does not end where {plain_name(successor.first)} begins")
        if not files:
            self._begin(1)
        elif files[-1].is_plain:
            self._resume(files[-1])
        else:  # somebody has removed the file that was begun after this one
            self.durable_index = self._last_index_of(files[-1])
            self._begin(self.durable_index + 1)
        for name in os.listdir(self.directory):  # noqa: PTH208 -- see `history_files`
            if _UNFINISHED.fullmatch(name):
                (self.directory / name).unlink()

    def _lock_directory(self) -> None:
        self._lock = os.open(self.directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        if not private_files.lock_within(self._lock, LOCK_SECONDS, give_up=self._stop_if_interrupted):
            raise HistoryError(
                f"another process writes to {self.directory}: stop that process, a node or `gf-i2p snapshot "
                "restore`, or give each node a directory of its own"
            )

    def _last_index_of(self, file: HistoryFile) -> int:
        """Read a file that has ended, and return its last index."""
        last_index = 0
        for line in scan(file, newest=False):
            self._stop_if_interrupted()
            match line:
                case Header():
                    self._check(line)
                case Trailer():
                    last_index = line.last
        return last_index

    def _resume(self, newest: HistoryFile) -> None:
        """Check the newest file, cut its unsynced end, and go on writing behind its last good line."""
        if newest.plain.is_symlink():
            raise HistoryError(f"{newest.plain} is a link: put the file itself there, which the node goes on writing")
        self._descriptor = os.open(newest.plain, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        with open(self._descriptor, "rb", closefd=False) as file:
            scan = Scan(newest.plain, file, newest.first, may_be_torn=True)
            for line in scan:
                self._stop_if_interrupted()
                if isinstance(line, Header):
                    self._check(line)
                    self._opened_ms = line.opened_ms
        sequence = scan.sequence
        self._first, self._size, self._ended = newest.first, scan.end, sequence.closed
        self.durable_index, self.last_term, self.cut_bytes = sequence.last_index, sequence.last_term, scan.torn
        if scan.torn:
            os.ftruncate(self._descriptor, self._size)
        if scan.batch:
            # The last writer's sync may have been interrupted, or may have failed. After a failed sync Linux regards
            # the pages as written, so only another write brings them to the disk.
            _write_at(self._descriptor, os.pread(self._descriptor, self._size - scan.batch, scan.batch), scan.batch)
        os.fsync(self._descriptor)
        private_files.sync_directory(self.directory)
        if self._ended:
            self._unpacked.append(newest)

    def _stop_if_interrupted(self) -> None:
        if self._interrupted():
            raise InterruptedError

    def _check(self, header: Header) -> None:
        if (header.cluster, header.server) != self._owner:
            raise mixed(self.directory, header, *self._owner)


def _size_of(file: HistoryFile) -> int:
    try:
        return (file.plain if file.is_plain else file.packed).stat().st_size
    except FileNotFoundError:
        return 0  # somebody has taken the file away, or it was packed meanwhile


def _servers_of(entry: Entry) -> list[int] | None:
    """Return the servers' ids in a Configuration entry; None for other kinds, and for an unreadable entry."""
    if entry.value_type is not ValueType.CONFIGURATION:
        return None
    try:
        return [server.id for server in Configuration.decode(entry.value).servers]
    except RemoteProtocolError:
        return None


def _create(path: Path) -> int:
    """Open a new file for writing; replace a file that an interrupted call has left."""
    path.unlink(missing_ok=True)
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)


def _write_at(descriptor: int, data: bytes, offset: int) -> None:
    view = memoryview(data)
    while view:
        written = os.pwrite(descriptor, view, offset)
        view, offset = view[written:], offset + written


def _removal_error(path: Path) -> HistoryError:
    directory = path.parent
    if directory.is_dir():
        return HistoryError(
            f"{path} was removed or replaced while the node wrote to it. The node continues the history after the "
            f"files left in {directory}, with the entries that the log still holds, and marks all others as a gap. "
            "Take only packed files away, the oldest first. To put the file back, stop the node first."
        )
    return HistoryError(
        f"{directory} was removed or moved away while the node wrote to it. The node makes a new directory, begins "
        "with the entries that the log still holds, and marks all others as a gap. If you have the old directory, stop "
        "the node, put the old directory back in place of the new one, and start the node. Other servers' histories "
        "have the same entries."
    )


def _pack(file: HistoryFile, interrupted: Callable[[], bool]) -> bool:
    """Replace an ended file by its packed form; return False, and keep the plain file, when interrupted."""
    packed = file.directory / packed_name(file.first)
    draft = packed.with_name(packed.name + _NEW)
    try:
        source = file.plain.open("rb")
    except FileNotFoundError:
        return True  # somebody has taken the file away; readers will report the missing entries
    complete = False
    try:
        with source:
            descriptor = _create(draft)
            try:
                complete = _compress(source, descriptor, interrupted)
            finally:
                os.close(descriptor)
    finally:
        if not complete:
            with suppress(OSError):  # frees space on a full disk; if this fails, opening does the same
                draft.unlink(missing_ok=True)
    if complete:
        draft.rename(packed)
        private_files.sync_directory(file.directory)
        # If the plain file comes back after a power cut, it is packed once more.
        file.plain.unlink(missing_ok=True)
        if file.packed != packed:
            file.packed.unlink(missing_ok=True)  # an earlier version's packed form
    return complete


def _compress(source: BinaryIO, descriptor: int, interrupted: Callable[[], bool]) -> bool:
    """Write and sync the packed content of `source`; return False when interrupted."""
    compressor = packer()
    offset = synced = 0
    while piece := source.read(_PIECE_BYTES):
        if interrupted():
            return False
        data = compressor.compress(piece)
        _write_at(descriptor, data, offset)
        offset += len(data)
        if offset - synced >= _SYNC_BYTES:
            os.fsync(descriptor)
            synced = offset
    _write_at(descriptor, compressor.flush(), offset)
    os.fsync(descriptor)
    return True
