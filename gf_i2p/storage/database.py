"""One farm's durable state in one SQLite file: the log, the term, the vote, the snapshot.

The cost of a transaction decided the shape. An fsync takes 0.2 ms here. sqlite3 releases and takes the GIL at every
step, which can cost as much again beside a busy event loop. So the usual transaction is one statement, which commits by
itself, and consecutive entries share a row. In groups of 800 entries of 1 KiB SQLite then takes 2.9 µs of CPU per
entry, against 4.9 µs with a row per entry in multi-row INSERTs and 7.0 µs with executemany.

The WAL is written in place, over and over: to sync a file that does not grow takes half the time. So the WAL is filled
with zeros once. A checkpoint moves its content into the database early and often: after the transaction that made the
WAL long was reported, preferably while there is nothing to write. The WAL stays below `CHECKPOINT_BYTES` plus one group
of writes with its snapshot, unless a foreign program reads the file for long.

This module has the work with files. `tables` says what is stored, how it is loaded, and in which transactions.
"""

import sqlite3
import weakref
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Final

from gf_i2p.storage import private_files, wal
from gf_i2p.storage.errors import REJOIN, LostError, StorageError, explaining, held
from gf_i2p.storage.loading import Loaded, load
from gf_i2p.storage.schema import check_header, connect, set_wal_mode
from gf_i2p.storage.tables import Tables
from gf_i2p.storage.write_group import WriteGroup
from gf_i2p.wire.entries import Entry

WAL_BYTES: Final = 8 << 20
"""Size of the WAL from the start, so that writes do not make the file grow."""
IDLE_CHECKPOINT_BYTES: Final = 2 << 20
"""WAL content that is moved when there is nothing to write: takes about 3 ms."""
CHECKPOINT_BYTES: Final = 4 << 20
"""WAL content that is moved whatever waits: takes about 6 ms."""


class Storage:
    """An open log file, locked against every other process. Also a `raft.effects.LogReader`.

    Two threads may use a storage at a time: one the reading half (`read`), one the writing half (`group`, `store`,
    `checkpoint_due`, `checkpoint`), as `LogWriter` does. Readers see only durable entries, because SQLite shows a
    transaction only after its fsync.

    Opening checks SQLite's header with our marks; cluster, server id, term, vote and base by their checksum; every term
    run and Configuration against the entries; and the first and the last row of entries. The rest of a long log is
    checked when it is read: a `DamagedError` then. The snapshot is checked, too. A damaged snapshot does not keep the
    log from being opened (`Loaded.snapshot_fault`), since the leader can send another snapshot.

    After a kill, a WAL that is missing, too short, or without a WAL's beginning is noticed (see `wal`). Damage inside
    the WAL is not noticed: the content behind the damage is lost without a message, for a power cut leaves the same
    behind the last synced write. An older WAL of this same log is noticed only if it contradicts the main file.
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
        """Use `Storage.open`. `owner`: cluster and server id."""
        self.path = path
        self._resources = ExitStack()
        self._writing = writing
        self._reading = reading
        self._tables = Tables(path, writing, reading, owner, loaded)
        self._tables.openings += 1
        self._tables.least_wal_bytes = least_wal_bytes
        # The fields below belong to the writing half.
        self._wal_bytes = 0
        self._sound = True
        """Whether the last change of the file succeeded; after a failure nothing is written any more."""

    @property
    def loaded(self) -> Loaded:
        """The content at opening; the snapshot's data only until a newer snapshot is stored."""
        return self._tables.loaded

    # Life ----------------------------------------------------------------------------------------------------------

    @staticmethod
    def create(path: Path, *, cluster: str, server_id: int) -> None:
        """Create an empty log for one server of one farm: mode 0600, complete or not at all, on the disk on return.

        Raises `StorageError` when `path` exists, or cannot be created.
        """
        path = path.absolute()
        with explaining(path), ExitStack() as stack:
            stack.callback(private_files.Lock(path).close)
            for taken in (path, wal.path_of(path)):
                if taken.exists() or taken.is_symlink():
                    raise StorageError(
                        f"{taken} exists already and is left as it is: a server must not lose its log. Choose another "
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
    def examine(path: Path, *, cluster: str, server_id: int) -> Loaded:
        """Check everything that `open` checks, and change nothing. Only for a log without a node (`files.holder`).

        Raises as `open` does.
        """
        path = path.resolve()
        with explaining(path):
            if not path.exists():
                raise _missing(path)
            return _look(path, cluster, server_id)

    @staticmethod
    @contextmanager
    def reading(path: Path, *, cluster: str, server_id: int) -> Iterator[Tables]:
        """Read a log that no node has open, and keep nodes from opening the log meanwhile; nothing is changed.

        Use only the reading methods of `Tables`. Raises as `open` does.
        """
        path = path.resolve()
        with explaining(path), ExitStack() as stack:
            if not path.exists():
                raise _missing(path)
            stack.callback(private_files.Lock(path).close)
            check_header(path)
            usable = wal.usable_bytes(path)
            connection = stack.enter_context(closing(connect(path, _read_only(usable))))
            loaded = load(path, connection, cluster, server_id, usable)
            yield Tables(path, connection, connection, (cluster, server_id), loaded)

    @classmethod
    def open(cls, path: Path, *, cluster: str, server_id: int, locked: bool = False) -> "Storage":
        """Open the log of this server, which must exist; its content is durable when this returns.

        `locked`: the caller holds the log's `private_files.Lock`, and keeps the lock longer than the log is open.

        Raises `StorageError` when the file is missing, in use, of another program, version, farm or server, or damaged,
        or when the WAL was lost. Nothing in the files is changed in these cases.
        """
        path = path.resolve()
        with explaining(path):
            if not path.exists():
                raise _missing(path)
            with ExitStack() as stack:
                if not locked:
                    stack.callback(private_files.Lock(path).close)
                loaded = _look(path, cluster, server_id)
                least = private_files.lengthen(wal.path_of(path), WAL_BYTES)
                private_files.sync_directory(path.parent)
                reading = stack.enter_context(
                    closing(connect(path, "mode=ro"))
                )  # closed last, keeps the WAL (see `wal`)
                writing = stack.enter_context(closing(connect(path)))
                set_wal_mode(path, writing)
                storage = cls(path, writing, reading, (cluster, server_id), loaded, least)
                # A killed process may have written to the WAL without a sync. New writes will build on that content, so
                # it must first be on the disk, in the main file: after a failed sync Linux forgets that pages were not
                # written. The checkpoint also stores `least`, without which the main file would still say that no WAL
                # is needed.
                complete = storage.checkpoint("FULL")
                # The present content of the WAL may be on the disk only in part; after a power cut it would hide the
                # main file's content. Another write begins the WAL anew, and syncs its beginning.
                storage._tables.openings += 1
                complete = complete and storage.checkpoint("FULL")
                storage._resources = stack.pop_all()
                # The same order when the owner drops the storage, or the interpreter ends, without `close`.
                weakref.finalize(storage, storage._resources.close)
            if not complete:
                storage.close()  # otherwise the reader, at its end, would move `least` and delete the WAL
                raise held(path, "it is being read")
            return storage

    def close(self) -> None:
        """Close the file. The writer must have stopped before."""
        with explaining(self.path), self._resources:
            if self._sound:
                self.checkpoint()
                # Only now, with everything in the main file, may the main file say that no WAL is needed.
                self._tables.least_wal_bytes = 0
                self.checkpoint()
                self._sound = False
                self._reading.close()  # makes the writing connection the last one, with which SQLite deletes the WAL

    # The reading half ----------------------------------------------------------------------------------------------

    def read(self, first: int, last: int, max_bytes: int) -> list[Entry]:
        """Return consecutive durable entries from index `first`, at most up to `last`.

        At least one entry when `first <= last`; otherwise no more than fit into `max_bytes` (13 + value length each).
        Raises `StorageError` when the log does not have these entries (any more), `DamagedError` when it should.
        """
        with explaining(self.path):
            return self._tables.read(first, last, max_bytes)

    # The writing half ----------------------------------------------------------------------------------------------

    def group(self) -> WriteGroup:
        """Return an empty group of writes for the log as it is now."""
        return self._tables.group()

    def store(self, group: WriteGroup) -> None:
        """Make a group durable, all or nothing. Raises `StorageError`; write nothing after an error."""
        self._sound = False
        with explaining(self.path):
            self._wal_bytes += self._tables.store(group)
        self._sound = True

    def checkpoint_due(self, *, idle: bool) -> bool:
        """Whether the WAL is long enough for a `checkpoint` now. `idle`: there is nothing else to write."""
        return self._wal_bytes >= (IDLE_CHECKPOINT_BYTES if idle else CHECKPOINT_BYTES)

    def checkpoint(self, mode: str = "PASSIVE") -> bool:
        """Move the content of the WAL into the database, so that the WAL is written from its beginning again.

        Content that a reader still needs stays until the next checkpoint. `mode` "FULL" waits for such a reader, up to
        `PATIENCE_SECONDS`. Return whether everything was moved.
        """
        self._sound = False
        with explaining(self.path):
            self._tables.store_server()
            busy, frames, moved = self._writing.execute(f"PRAGMA wal_checkpoint({mode})").fetchone()
        self._sound = True
        self._wal_bytes = 0
        return not busy and 0 <= frames == moved


def _missing(path: Path) -> LostError:
    return LostError(
        f"{path} is missing. If this server is new, create it with `gf-i2p init`. If it has run before, its log is "
        f"lost: bring its directory itself back if it was moved, but no older copy. Otherwise: {REJOIN}"
    )


def _look(path: Path, cluster: str, server_id: int) -> Loaded:
    """Check and load a log without writing."""
    check_header(path)
    usable = wal.usable_bytes(path)
    with closing(connect(path, _read_only(usable))) as first:
        return load(path, first, cluster, server_id, usable)


def _read_only(wal_bytes: int) -> str:
    """Return the way to connect without a trace: where there is no WAL, SQLite would make one."""
    return "mode=ro" if wal_bytes else "immutable=1"
