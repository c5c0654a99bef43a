"""One farm's durable state in one SQLite file: the log, the term, the vote, the snapshot.

The cost of a transaction decided the layout. On the machine of these measurements an fsync takes 0.2 ms. sqlite3
releases and takes the GIL at every step, which can take as long again while an event loop is busy. So the usual
transaction is one statement, which commits by itself, and consecutive entries share a row. In groups of 800 entries of
1 KiB SQLite then takes 2.9 µs of CPU per entry, against 4.9 µs with a row per entry in multi-row INSERTs and 7.0 µs
with executemany.

The WAL is written in place, over and over: to sync a file that does not grow takes half the time. So the WAL is filled
with zeros once. A checkpoint moves the WAL's content into the database early and often. The checkpoint runs after
the writer has reported the transaction that made the WAL long, preferably while no write waits. The WAL stays below
`CHECKPOINT_BYTES` plus one group of writes with its snapshot, unless a foreign program reads the file for long.

This module handles the files. `log_tables` defines the stored data, the loading, and the transactions.
"""

import sqlite3
import weakref
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Final

from gf_i2p.raft.effects import CheckSnapshot
from gf_i2p.storage import private_files, wal
from gf_i2p.storage.errors import REJOIN, LostError, StorageError, explaining, held_elsewhere
from gf_i2p.storage.loading import Loaded, load_stored_log, main_file_row
from gf_i2p.storage.log_tables import Tables
from gf_i2p.storage.schema import check_header, connect, set_wal_mode
from gf_i2p.storage.wal_frames import check_frames, is_empty
from gf_i2p.storage.write_group import WriteGroup
from gf_i2p.wire.entries import Entry

WAL_BYTES: Final = 8 << 20
"""Size of the WAL from the start, so that writes do not make the file grow."""
IDLE_CHECKPOINT_BYTES: Final = 2 << 20
"""Bytes of WAL content at which an idle writer runs a checkpoint; this takes about 3 ms."""
CHECKPOINT_BYTES: Final = 4 << 20
"""Bytes of WAL content at which even a busy writer runs a checkpoint; this takes about 6 ms."""


class Storage:
    """An open log file, locked against every other process. Also a `raft.effects.LogReader`.

    Two threads may use a storage at a time. One thread calls the reading half (`read`); the other thread calls the
    writing half (`group`, `store`, `checkpoint_due`, `checkpoint`), as `LogWriter` does. Readers see only durable
    entries, because SQLite shows a transaction only after its fsync.

    Opening checks:

    - SQLite's header, and this program's marks in the header;
    - the frames of the WAL (see `wal_frames`), and that the WAL and the main file are of the same time (see `wal`);
    - the structure of all pages (see `page_check`);
    - cluster, server id, term, vote and base, by their checksum and by a copy on another page;
    - every term run and Configuration, against the entries;
    - the first and the last row of entries (`read` checks the other rows, and raises `DamagedError`);
    - the snapshot. A log with a damaged snapshot opens nevertheless (`Loaded.snapshot_fault`), since the leader can
      send another snapshot.

    Opening cannot notice the loss of the WAL's last two transactions: after a power cut, transactions without a sync
    are missing in the same way. docs/design/storage.md says what is noticed by what.
    """

    def __init__(
        self,
        path: Path,
        writing: sqlite3.Connection,
        reading: sqlite3.Connection,
        owner: tuple[str, int],
        loaded: Loaded,
        least_wal_bytes: int,
    ) -> None:
        """Only for `Storage.open`. `owner`: cluster and server id."""
        self.path = path
        self._resources = ExitStack()
        self._writing = writing
        self._reading = reading
        self._tables = Tables(path, writing, reading, owner, loaded)
        self._tables.least_wal_bytes = least_wal_bytes
        # The fields below belong to the writing half.
        self._wal_bytes = 0
        self._begun = True
        """Whether the WAL begins with the server's row (see `wal`). False: the next write may start the WAL over."""
        self._sound = True
        """Whether the last change of the file succeeded. After a failure this object never changes the file again."""

    @property
    def loaded(self) -> Loaded:
        """The content at opening. `snapshot` becomes None when a newer snapshot is stored."""
        return self._tables.loaded

    # Life ----------------------------------------------------------------------------------------------------------

    @staticmethod
    def create(path: Path, *, cluster: str, server_id: int) -> None:
        """Create an empty log, with mode 0600, for one server of one farm.

        On return the complete log is on the disk. Raises `StorageError` when `path` exists, or cannot be created.
        """
        path = path.absolute()
        with explaining(path, then="repeat the command"), ExitStack() as stack:
            stack.callback(private_files.Lock(path).close)
            for file in (path, wal.wal_path(path)):
                if file.exists() or file.is_symlink():
                    raise StorageError(
                        f"{file} exists already and is left as it is: a server must not lose its log. Choose another "
                        "directory for a new server."
                    )
            # Files that a killed `create` has left.
            unfinished = path.with_name(path.name + "-new")
            for suffix in ("", "-journal", "-wal", "-shm"):
                unfinished.with_name(unfinished.name + suffix).unlink(missing_ok=True)
            private_files.create_private(unfinished)
            with closing(connect(unfinished)) as connection:
                Tables.create(connection, cluster=cluster, server_id=server_id)
                set_wal_mode(unfinished, connection)
            private_files.sync_file(unfinished)
            unfinished.rename(path)  # the lock keeps other processes from creating `path` meanwhile
            private_files.sync_directory(path.parent)

    @staticmethod
    def examine(path: Path, *, cluster: str, server_id: int, check_snapshot: CheckSnapshot | None = None) -> Loaded:
        """Check everything that `open` checks, change nothing, and return the content. Raises as `open` does.

        Only for a log that no node has open (`private_files.holder`).
        """
        path = path.resolve()
        with explaining(path):
            if not path.exists():
                raise _missing(path)
            with _loaded(path, cluster, server_id, check_snapshot) as (_, loaded):
                return loaded

    @staticmethod
    @contextmanager
    def reading(
        path: Path, *, cluster: str, server_id: int, check_snapshot: CheckSnapshot | None = None
    ) -> Iterator[Tables]:
        """Yield the tables of a log that no node has open. Nothing is changed, and no node can open the log meanwhile.

        Use only the reading methods of `Tables`. Raises as `open` does.
        """
        named, path = path, path.resolve()
        with explaining(path), ExitStack() as stack:
            if not path.exists():
                raise _missing(path)
            stack.callback(private_files.Lock(named).close)
            connection, loaded = stack.enter_context(_loaded(path, cluster, server_id, check_snapshot))
            yield Tables(path, connection, connection, (cluster, server_id), loaded)

    @classmethod
    def open(
        cls,
        path: Path,
        *,
        cluster: str,
        server_id: int,
        locked: bool = False,
        check_snapshot: CheckSnapshot | None = None,
    ) -> "Storage":
        """Open the existing log of this server. On return the log's content is on the disk.

        `locked`: the caller holds the log's `private_files.Lock`, and keeps the lock longer than the log is open.
        A snapshot that `check_snapshot` refuses counts as damaged.

        Raises `StorageError` when the file is missing, in use, of another program, version, farm or server, or damaged,
        or when the WAL was lost. Nothing in the files is changed in these cases.
        """
        named, path = path, path.resolve()
        with explaining(path):
            if not path.exists():
                raise _missing(path)
            with ExitStack() as stack:
                if not locked:
                    stack.callback(private_files.Lock(named).close)
                with _loaded(path, cluster, server_id, check_snapshot) as (_, loaded):
                    pass
                least = private_files.lengthen(wal.wal_path(path), WAL_BYTES)
                if wal.usable_bytes(path) and is_empty(path):
                    private_files.clear(wal.wal_path(path), wal.HEADER_BYTES)
                # A frame behind others says that these are on the disk (see `wal_frames`). A killed process may have
                # left its last frames without a sync.
                private_files.sync_file(wal.wal_path(path))
                private_files.sync_directory(path.parent)
                # Connected first and closed last, so that the WAL stays, whatever fails (see `wal`).
                reading = stack.enter_context(closing(connect(path, "mode=ro")))
                writing = stack.enter_context(closing(connect(path)))
                set_wal_mode(path, writing)
                storage = cls(path, writing, reading, (cluster, server_id), loaded, least)
                # A killed process may have written to the WAL without a sync. New writes will build on that content, so
                # it must first be on the disk, in the main file: after a failed sync Linux forgets that pages were not
                # written. The row with `least` goes there, too: otherwise the main file would still say that no WAL is
                # needed. The checkpoint also begins the WAL anew, and syncs its beginning: of the present content only
                # a part may be on the disk, which would hide the main file's content after a power cut.
                complete = storage.checkpoint("FULL")
                storage._resources = stack.pop_all()
                # Close in the same order when the owner drops the storage, or the interpreter ends, without `close`.
                weakref.finalize(storage, storage._resources.close)
            if not complete:
                storage.close()  # otherwise the foreign reader, when it ends, would store `least` and delete the WAL
                raise held_elsewhere(path, "the log is being read")
            return storage

    def close(self) -> None:
        """Close the file. The writer must have stopped before."""
        with explaining(self.path), self._resources:
            if self._sound:
                self.checkpoint()
                # Only now, with everything in the main file, may the main file say that no WAL is needed.
                self._sound = False
                self._tables.least_wal_bytes = 0
                self._tables.store_server()
                self._move_wal("PASSIVE")
                self._reading.close()  # so the writing connection is the last, and SQLite deletes the WAL

    # The reading half ----------------------------------------------------------------------------------------------

    def read(self, first: int, last: int, max_bytes: int) -> list[Entry]:
        """Return consecutive durable entries from index `first`, at most up to `last`.

        The entries have at most `max_bytes` together; an entry counts as 13 bytes and its value. The first entry is
        returned even if larger. Raises `StorageError` when the log has dropped the entries or does not have them yet,
        `DamagedError` when rows are damaged or missing.
        """
        with explaining(self.path):
            return self._tables.read(first, last, max_bytes)

    # The writing half ----------------------------------------------------------------------------------------------

    def group(self) -> WriteGroup:
        """Return an empty group of writes for the log as it is now."""
        return self._tables.group()

    def store(self, group: WriteGroup) -> None:
        """Make a group durable, all or nothing. Raises `StorageError`; after that, store no other group."""
        self._sound = False
        with explaining(self.path):
            if not self._begun:
                self._begin_wal()
            self._wal_bytes += self._tables.store(group)
        self._sound = True

    def checkpoint_due(self, *, idle: bool) -> bool:
        """Return whether the WAL is long enough for a `checkpoint` now. `idle`: there is nothing else to write."""
        return self._wal_bytes >= (IDLE_CHECKPOINT_BYTES if idle else CHECKPOINT_BYTES)

    def checkpoint(self, mode: str = "PASSIVE") -> bool:
        """Move the content of the WAL into the database, so that the WAL is written from its beginning again.

        Content that a reader still needs stays until the next checkpoint. `mode` "FULL" waits for such a reader, up to
        `PATIENCE_SECONDS`. Return whether all content was moved. Raises `StorageError`.
        """
        self._sound = False
        with explaining(self.path):
            if not wal.usable_bytes(self.path):
                self._begin_wal()  # a new WAL has no salt before its first frame
            self._tables.wal_salt = wal.salt(self.path)
            self._tables.store_server()  # so that the main file alone tells its last index
            complete = self._move_wal(mode)
            if complete:
                self._begin_wal()
        self._sound = True
        return complete

    def _move_wal(self, mode: str) -> bool:
        """Run a checkpoint. Return whether all content was moved."""
        busy, frames, moved = self._writing.execute(f"PRAGMA wal_checkpoint({mode})").fetchone()
        self._wal_bytes = 0
        if busy or not 0 <= frames == moved:
            return False
        self._tables.note_checkpoint()
        self._begun = False
        return True

    def _begin_wal(self) -> None:
        """Write the server's row. After a complete checkpoint this starts the WAL over, unless a reader prevents it."""
        before = wal.header(self.path)
        self._tables.store_server()
        self._begun = wal.header(self.path) != before


def _missing(path: Path) -> LostError:
    return LostError(
        f"{path} is missing. If this server is new, create the log with `gf-i2p init`. If the server's directory was "
        f"moved, bring that directory back, but no older copy. Otherwise the log is lost. {REJOIN}"
    )


@contextmanager
def _loaded(
    path: Path, cluster: str, server_id: int, check_snapshot: CheckSnapshot | None
) -> Iterator[tuple[sqlite3.Connection, Loaded]]:
    """Check and load a log without a change of its files."""
    check_header(path)
    wal_bytes = wal.usable_bytes(path)
    if wal_bytes:
        check_frames(path)
    main = main_file_row(path) if wal_bytes else None
    with closing(connect(path, _read_only(wal_bytes))) as connection:
        loaded = load_stored_log(path, connection, cluster, server_id, wal_bytes, check_snapshot, pages=True, main=main)
        yield connection, loaded


def _read_only(wal_bytes: int) -> str:
    """Return the `query` with which `connect` creates no file. `wal_bytes`: 0 without a usable WAL.

    "mode=ro" would create a missing WAL.
    """
    return "mode=ro" if wal_bytes else "immutable=1"
