"""One farm's durable state in one SQLite file: the log, the term and the vote.

What a transaction costs decided the shape. An fsync takes 0.2 ms here, and sqlite3 gives the GIL away and takes it back
at every step, which can cost as much again beside a busy event loop. So the usual transaction is one statement, which
commits by itself, and consecutive entries share a row: in groups of 800 entries of 1 KiB SQLite then takes 2.9 µs of
CPU per entry, against 4.9 with a row per entry in multi-row INSERTs and 7.0 with executemany.

The WAL is written in place, over and over: syncing a file that does not grow takes half the time of one that does. So
it is filled with zeros once, and its content moved into the database (a checkpoint) early and often, after the
transaction that made it long was reported, preferably while there is nothing to write. It stays below
`CHECKPOINT_BYTES` plus one group of writes, unless a foreign program reads the file for long.
"""

import sqlite3
import struct
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, NamedTuple

from gf_i2p.raft.effects import HardState
from gf_i2p.storage import files
from gf_i2p.storage.chunks import Chunk, Run, pack, pack_chunk, term_at, unpack_chunk
from gf_i2p.storage.errors import StorageError, damaged, explained
from gf_i2p.storage.group import Group
from gf_i2p.wire.entries import ENTRY_HEADER_BYTES, Entry
from gf_i2p.wire.limits import MAX_INTEGER
from gf_i2p.wire.messages import NOBODY

APPLICATION_ID: Final = 0x47464932
"""Marks the file as ours ("GFI2") where SQLite keeps such marks: offset 68 of its header."""
SCHEMA_VERSION: Final = 1
"""Offset 60. Rises with every change that an older program would misunderstand."""

# 16 KiB instead of 4: a third less CPU per entry in batches, and no slower for single entries.
_PAGE_BYTES: Final = 16 << 10

WAL_BYTES: Final = 8 << 20
"""The WAL's size from the start, so that writing to it does not make it grow."""
IDLE_CHECKPOINT_BYTES: Final = 2 << 20
"""WAL content that is moved when there is nothing to write: about 3 ms."""
CHECKPOINT_BYTES: Final = 4 << 20
"""WAL content that is moved whatever waits: about 6 ms."""

_SCHEMA: Final = f"""
PRAGMA page_size = {_PAGE_BYTES};
PRAGMA auto_vacuum = NONE;
PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = {SCHEMA_VERSION};
CREATE TABLE server (cluster TEXT NOT NULL, id INTEGER NOT NULL, term INTEGER NOT NULL, vote INTEGER NOT NULL);
CREATE TABLE chunk (
    first_index INTEGER PRIMARY KEY, entry_count INTEGER NOT NULL, checksum INTEGER NOT NULL, entries BLOB NOT NULL
);
CREATE TABLE term_run (first_index INTEGER PRIMARY KEY, term INTEGER NOT NULL);
CREATE TABLE configuration (log_index INTEGER PRIMARY KEY, value BLOB NOT NULL);
"""

_CHUNK_AT: Final = """
SELECT first_index, entry_count, checksum, entries FROM chunk WHERE first_index <= ? ORDER BY first_index DESC LIMIT 1
"""
_CHUNKS: Final = """
SELECT first_index, entry_count, checksum, entries FROM chunk
WHERE first_index >= (SELECT max(first_index) FROM chunk WHERE first_index <= ?) AND first_index <= ?
ORDER BY first_index
"""

_SQLITE_HEADER: Final = struct.Struct(">16s44xI4xI")  # magic; user_version at 60; application_id at 68


class Loaded(NamedTuple):
    """What the file held when it was opened."""

    hard_state: HardState
    """Term 0 and `NOBODY` in a new file."""
    first_index: int
    """Index of the first stored entry; always 1 now."""
    last_index: int
    """0 when the log is empty."""
    terms: tuple[tuple[int, int], ...]
    """(first index, term) runs, both strictly ascending; the first run begins at index 1."""
    configurations: tuple[tuple[int, bytes], ...]
    """(index, value) of every Configuration in the log, ascending."""


class Storage:
    """An open log file, locked against every other process. Also a `raft.effects.LogReader`.

    Two threads may use it at a time: one the reading half (`read`), one the writing half (`group`, `store`,
    `checkpoint_due`, `checkpoint`; that is what `Writer` does). Readers see what is durable and nothing else, because
    SQLite shows a transaction only after its fsync.

    At opening, these are checked: SQLite's header with our marks, cluster and server id, the first and the last row of
    entries with their checksums, and that term runs and Configurations lie within the log and end as it does.
    The rest of a long log is checked where it is read: a `DamagedError` then.
    """

    def __init__(
        self,
        path: Path,
        writing: sqlite3.Connection,
        reading: sqlite3.Connection,
        loaded: Loaded,
        resources: ExitStack,
    ) -> None:
        """Use `Storage.open`. `resources` closes the connections and lets go of the lock."""
        self.path = path
        self._resources = resources
        self._writing = writing
        self._reading = reading
        self.loaded = loaded
        # What follows belongs to the writing half.
        self._hard_state = self.loaded.hard_state
        self._last_index = self.loaded.last_index
        self._runs = list(self.loaded.terms)
        self._wal_bytes = 0

    # Life ----------------------------------------------------------------------------------------------------------

    @staticmethod
    def create(path: Path, *, cluster: str, server_id: int) -> None:
        """Create an empty log for one server of one farm: mode 0600, complete or not at all, on the disk on return.

        Raises `StorageError` when `path` exists, or cannot be created.
        """
        path = path.absolute()
        with explaining(path), ExitStack() as stack:
            stack.callback(files.Lock(path).close)
            for taken in (path, _wal_of(path)):
                if taken.exists() or taken.is_symlink():
                    raise StorageError(
                        f"{taken} exists already and is left as it is: a server must not lose its log. Choose another "
                        "directory for a new server."
                    )
            # A create that was killed leaves this behind.
            unfinished = path.with_name(path.name + "-new")
            for suffix in ("", "-journal", "-wal", "-shm"):
                unfinished.with_name(unfinished.name + suffix).unlink(missing_ok=True)
            files.create_private(unfinished)
            with closing(_connect(unfinished)) as connection:
                connection.executescript(_SCHEMA)
                connection.execute("INSERT INTO server VALUES (?, ?, 0, ?)", (cluster, server_id, NOBODY))
                _set_wal_mode(unfinished, connection)
            files.sync_file(unfinished)
            unfinished.rename(path)  # the lock keeps others from creating `path` meanwhile
            files.sync_directory(path.parent)

    @classmethod
    def open(cls, path: Path, *, cluster: str, server_id: int) -> "Storage":
        """Open the log of this server, which must exist; what is in it is durable when this returns.

        Raises `StorageError` when the file is missing, in use, of another program, version, farm or server, or damaged;
        its content is never changed then.
        """
        path = path.resolve()
        with explaining(path):
            if not path.exists():
                raise StorageError(
                    f"{path} is missing. If this server is new, create it with `gf-i2p init`. If it has run before, "
                    "its log is lost: bring the file itself back if it was moved, but no older copy; otherwise remove "
                    "the server from the farm and let it join again under a new id."
                )
            with ExitStack() as stack:
                stack.callback(files.Lock(path).close)
                _check_header(path)
                if not _wal_of(path).exists():
                    files.create_private(_wal_of(path), WAL_BYTES)
                writing = stack.enter_context(closing(_connect(path)))
                reading = stack.enter_context(closing(_connect(path)))
                _set_wal_mode(path, writing)
                _check_owner(path, writing, cluster, server_id)
                # A killed process may have written to the WAL what it had no time to sync. We are about to build on it,
                # so it must be on the disk first; a checkpoint syncs the WAL before it moves anything.
                (busy, *_) = writing.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
                if busy:
                    raise sqlite3.OperationalError("another program moves the write-ahead log")
                files.sync_directory(path.parent)
                loaded = _load(path, reading)
                return cls(path, writing, reading, loaded, stack.pop_all())

    def close(self) -> None:
        """Close the file. The writer must have stopped before."""
        with explaining(self.path):
            self._resources.close()

    # The reading half ----------------------------------------------------------------------------------------------

    def read(self, first: int, last: int, max_bytes: int) -> list[Entry]:
        """Return consecutive durable entries from index `first`, at most up to `last`.

        At least one when `first <= last`; no more than fit into `max_bytes` (13 + value length each) otherwise.
        Raises `StorageError` when the log does not hold them, `DamagedError` when it should and does not.
        """
        entries: list[Entry] = []
        size = 0
        expected = 0
        with explaining(self.path):
            rows = self._reading.execute(_CHUNKS, (first, last))
            try:
                for row in rows:
                    chunk, found = _unpacked(self.path, row)
                    if expected and chunk.first != expected:
                        raise damaged(self.path, f"after the entry {expected - 1} comes {chunk.first}")
                    expected = chunk.end
                    for entry in found[max(first - chunk.first, 0) : last + 1 - chunk.first]:
                        size += ENTRY_HEADER_BYTES + len(entry.value)
                        if size > max_bytes and entries:
                            return entries
                        entries.append(entry)
            finally:
                rows.close()  # ends the read transaction: the WAL cannot start over beside one
        if len(entries) < last - first + 1:
            raise StorageError(f"{self.path} does not hold the entries {first + len(entries)} to {last}")
        return entries

    # The writing half ----------------------------------------------------------------------------------------------

    def group(self) -> Group:
        """Return an empty group of writes for the log as it is now."""
        return Group(self._last_index, self._hard_state)

    def store(self, group: Group) -> None:
        """Make a group durable, all of it or nothing. Raises `StorageError`; do not write on after that."""
        first = group.first_index
        truncates = first <= self._last_index
        packed = pack(first, group.entries, term_at(self._runs, first - 1))
        with explaining(self.path):
            if truncates or group.hard_state_changed or packed.runs or packed.configurations:
                execute = self._writing.execute
                execute("BEGIN IMMEDIATE")
                if truncates:
                    self._truncate(first)
                if group.hard_state_changed:
                    execute("UPDATE server SET term = ?, vote = ?", group.hard_state)
                self._insert(packed.chunks)
                self._writing.executemany("INSERT INTO term_run VALUES (?, ?)", packed.runs)
                self._writing.executemany("INSERT INTO configuration VALUES (?, ?)", packed.configurations)
                execute("COMMIT")
            else:
                self._insert(packed.chunks)
        self._hard_state = group.hard_state
        self._last_index = group.last_index
        if truncates:
            self._runs = [run for run in self._runs if run[0] < first]
        self._runs += packed.runs
        # Whole pages, a page around them, and the pages of tables and tree.
        self._wal_bytes += sum([len(chunk.data) for chunk in packed.chunks]) + 2 * _PAGE_BYTES

    def checkpoint_due(self, *, idle: bool) -> bool:
        """Whether the WAL is so long that `checkpoint` should run now, when there is something else to do or not."""
        return self._wal_bytes >= (IDLE_CHECKPOINT_BYTES if idle else CHECKPOINT_BYTES)

    def checkpoint(self) -> None:
        """Move what stands in the WAL into the database, so that the WAL is written from its beginning again.

        What a reader still needs stays; the next checkpoint takes it along.
        """
        with explaining(self.path):
            self._writing.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
        self._wal_bytes = 0

    def _insert(self, chunks: list[Chunk]) -> None:
        if chunks:
            values: list[int | bytes] = []
            for chunk in chunks:
                values += chunk
            self._writing.execute(
                "INSERT INTO chunk VALUES (?, ?, ?, ?)" + ", (?, ?, ?, ?)" * (len(chunks) - 1), values
            )

    def _truncate(self, first: int) -> None:
        """Remove everything stored at index `first` and above; a row that holds earlier entries, too, keeps those."""
        execute = self._writing.execute
        execute("DELETE FROM chunk WHERE first_index >= ?", (first,))
        execute("DELETE FROM term_run WHERE first_index >= ?", (first,))
        execute("DELETE FROM configuration WHERE log_index >= ?", (first,))
        row = execute(_CHUNK_AT, (first,)).fetchone()
        if row is not None:
            chunk, entries = _unpacked(self.path, row)
            if chunk.end > first:
                kept = pack_chunk(chunk.first, entries[: first - chunk.first])
                execute(
                    "UPDATE chunk SET entry_count = ?, checksum = ?, entries = ? WHERE first_index = ?",
                    (kept.count, kept.checksum, kept.data, kept.first),
                )


@contextmanager
def explaining(path: Path) -> Iterator[None]:
    """Turn the errors of SQLite and of the file system into sentences."""
    try:
        yield
    except sqlite3.Error as error:
        raise explained(path, error) from error
    except OSError as error:
        raise StorageError(
            f"{error.filename or path}: {error.strerror}. The directory must exist, have free space, and belong to the "
            "user that runs this node."
        ) from error


def _wal_of(path: Path) -> Path:
    return path.with_name(path.name + "-wal")


def _connect(path: Path) -> sqlite3.Connection:
    # isolation_level None: transactions begin where we say so. A file that is missing is never created.
    connection = sqlite3.connect(f"{path.as_uri()}?mode=rw", uri=True, isolation_level=None, check_same_thread=False)
    try:
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA wal_autocheckpoint = 0")
        connection.execute("PRAGMA secure_delete = OFF")  # Debian's default would overwrite what a truncation removes
        connection.execute("PRAGMA cell_size_check = ON")
        connection.execute("PRAGMA cache_size = -8192")  # KiB: a whole group and the tree above it
    except BaseException:
        connection.close()
        raise
    return connection


def _set_wal_mode(path: Path, connection: sqlite3.Connection) -> None:
    (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
    if mode != "wal":
        raise StorageError(f"SQLite keeps no write-ahead log for {path}: put it on a local disk")


def _check_header(path: Path) -> None:
    """Look at the file before SQLite does, which might change a database that is not ours."""
    start = files.read_start(path, _SQLITE_HEADER.size)
    if len(start) < _SQLITE_HEADER.size:
        raise damaged(path, f"it has only {len(start)} bytes")
    magic, version, application = _SQLITE_HEADER.unpack(start)
    if magic != b"SQLite format 3\0":
        raise damaged(path, "it is no SQLite database")
    if application != APPLICATION_ID:
        raise StorageError(
            f"{path} is a database of another program and is left as it is: check which directory this node was given"
        )
    if version > SCHEMA_VERSION:
        raise StorageError(
            f"{path} was written by a newer gf-i2p (format {version}; this one knows up to {SCHEMA_VERSION}): install "
            "the newer version again"
        )
    if version < 1:
        raise damaged(path, f"it has the format {version}, which never existed")


def _check_owner(path: Path, connection: sqlite3.Connection, cluster: str, server_id: int) -> None:
    rows = connection.execute("SELECT cluster, id FROM server").fetchall()
    if len(rows) != 1:
        raise damaged(path, f"it names {len(rows)} servers instead of one")
    if rows[0] != (cluster, server_id):
        raise StorageError(
            f"{path} is the log of server {rows[0][1]} of the farm {rows[0][0]!r}, but the configuration says server "
            f"{server_id} of {cluster!r}: correct the configuration, or give this server a directory of its own"
        )


def _unpacked(path: Path, row: tuple[Any, ...]) -> tuple[Chunk, tuple[Entry, ...]]:
    chunk = Chunk(*row)
    if [type(value) for value in row] != [int, int, int, bytes]:
        raise damaged(path, f"the row of entries from index {chunk.first} has the wrong types")
    try:
        return chunk, unpack_chunk(chunk)
    except ValueError as error:
        raise damaged(path, str(error)) from error


def _load(path: Path, connection: sqlite3.Connection) -> Loaded:
    execute = connection.execute
    term, vote = execute("SELECT term, vote FROM server").fetchone()
    runs = tuple(Run(*row) for row in execute("SELECT first_index, term FROM term_run ORDER BY first_index"))
    configurations = tuple(execute("SELECT log_index, value FROM configuration ORDER BY log_index").fetchall())
    last_index = last_term = 0
    row = execute(_CHUNK_AT, (MAX_INTEGER,)).fetchone()
    if row is not None:
        chunk, entries = _unpacked(path, row)
        last_index = chunk.end - 1
        last_term = entries[-1].term
        first = execute(_CHUNK_AT, (1,)).fetchone()
        if first is None or _unpacked(path, first)[0].first != 1:
            raise damaged(path, "its first entries are missing")
    if (runs[0].first if runs else 1) != 1 or bool(runs) != bool(last_index):
        raise damaged(path, "its terms do not cover the log")
    if any(one.term >= other.term for one, other in pairwise(runs)):
        raise damaged(path, "its terms fall")
    if runs and (runs[-1].first > last_index or runs[-1].term != last_term):
        raise damaged(path, f"its last entry, {last_index}, has the term {last_term}, its last term is {runs[-1].term}")
    if any(not 1 <= index <= last_index for index, _ in configurations):
        raise damaged(path, "it has a Configuration beyond its last entry")
    if not 0 <= last_term <= term:
        raise damaged(path, f"its last entry has the term {last_term}, but the server is only in term {term}")
    return Loaded(HardState(term, vote), 1, last_index, runs, configurations)
