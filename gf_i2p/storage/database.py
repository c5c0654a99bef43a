"""One farm's durable state in one SQLite file: the log, the term, the vote, the snapshot.

What a transaction costs decided the shape. An fsync takes 0.2 ms here, and sqlite3 gives the GIL away and takes it back
at every step, which can cost as much again beside a busy event loop. So the usual transaction is one statement, which
commits by itself, and consecutive entries share a row: in groups of 800 entries of 1 KiB SQLite then takes 2.9 µs of
CPU per entry, against 4.9 with a row per entry in multi-row INSERTs and 7.0 with executemany.

The WAL is written in place, over and over: syncing a file that does not grow takes half the time of one that does. So
it is filled with zeros once, and its content moved into the database (a checkpoint) early and often, after the
transaction that made it long was reported, preferably while there is nothing to write. It stays below
`CHECKPOINT_BYTES` plus one group of writes, with its snapshot, unless a foreign program reads the file for long.

Here is what needs files. What is stored, how it is loaded and in which transactions, says `tables`.
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
from gf_i2p.storage.write_group import Group
from gf_i2p.wire.entries import Entry

WAL_BYTES: Final = 8 << 20
"""The WAL's size from the start, so that writing to it does not make it grow."""
IDLE_CHECKPOINT_BYTES: Final = 2 << 20
"""WAL content that is moved when there is nothing to write: about 3 ms."""
CHECKPOINT_BYTES: Final = 4 << 20
"""WAL content that is moved whatever waits: about 6 ms."""


class Storage:
    """An open log file, locked against every other process. Also a `raft.effects.LogReader`.

    Two threads may use it at a time: one the reading half (`read`), one the writing half (`group`, `store`,
    `checkpoint_due`, `checkpoint`; that is what `Writer` does). Readers see what is durable and nothing else, because
    SQLite shows a transaction only after its fsync.

    At opening, these are checked: SQLite's header with our marks, cluster and server id, term, vote and base by their
    checksum, every term run and Configuration against the entries, and the first and the last row of entries. The rest
    of a long log is checked where it is read: a `DamagedError` then. The snapshot is checked, too; one that is damaged
    does not keep the log from being opened (`Loaded.snapshot_fault`), since the leader can send another one.

    After a kill, a WAL that is missing, shortened or begins like none is noticed (see `wal`). Damage inside it is not:
    what stands behind the damage is lost without a word, because that is also what a power cut leaves behind the last
    write that was synced. Nor is an older WAL of this same log, unless what it holds contradicts the main file.
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
        # What follows belongs to the writing half.
        self._wal_bytes = 0
        self._sound = True
        """Whether the last change of the file succeeded; after one that failed, nothing is written any more."""

    @property
    def loaded(self) -> Loaded:
        """What the file held when it was opened; a snapshot's data only until a newer one is stored."""
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
            # A create that was killed leaves this behind.
            unfinished = path.with_name(path.name + "-new")
            for suffix in ("", "-journal", "-wal", "-shm"):
                unfinished.with_name(unfinished.name + suffix).unlink(missing_ok=True)
            private_files.create_private(unfinished)
            with closing(connect(unfinished)) as connection:
                Tables.create(connection, cluster=cluster, server_id=server_id)
                set_wal_mode(unfinished, connection)
            private_files.sync_file(unfinished)
            unfinished.rename(path)  # the lock keeps others from creating `path` meanwhile
            private_files.sync_directory(path.parent)

    @staticmethod
    def examine(path: Path, *, cluster: str, server_id: int) -> Loaded:
        """Check what `open` checks, and change nothing. Only for a log that no node has open (`files.holder`).

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
        """Read a log that no node has open, and let none open it meanwhile; nothing of it is changed.

        What `Tables` has to read may be used, nothing else. Raises as `open` does.
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
        """Open the log of this server, which must exist; what is in it is durable when this returns.

        `locked`: the caller holds its `files.Lock` already, and keeps it longer than this is open.

        Raises `StorageError` when the file is missing, in use, of another program, version, farm or server, or damaged,
        or when its WAL was lost; what they hold is never changed then.
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
                # A killed process may have written to the WAL what it had no time to sync, or could not. We are about
                # to build on it, so it must be on the disk first, in the main file: Linux forgets that pages were not
                # written when a sync has failed. With it goes `least`, without which the main file would still say
                # that it needs no WAL.
                complete = storage.checkpoint("FULL")
                # What stands in the WAL now may be on the disk in part; found there after a power cut, it would hide
                # what the main file has. Another write begins the WAL anew, and syncs its beginning.
                storage._tables.openings += 1
                complete = complete and storage.checkpoint("FULL")
                storage._resources = stack.pop_all()
                # The same order when the owner drops the storage, or the interpreter ends, without `close`.
                weakref.finalize(storage, storage._resources.close)
            if not complete:
                storage.close()  # or the reader, when it ends, would move `least` and delete the WAL
                raise held(path, "it is being read")
            return storage

    def close(self) -> None:
        """Close the file. The writer must have stopped before."""
        with explaining(self.path), self._resources:
            if self._sound:
                self.checkpoint()
                # Only now, with all else in the main file, may it say that it needs no WAL.
                self._tables.least_wal_bytes = 0
                self.checkpoint()
                self._sound = False
                self._reading.close()  # makes the writing connection the last one, with which SQLite deletes the WAL

    # The reading half ----------------------------------------------------------------------------------------------

    def read(self, first: int, last: int, max_bytes: int) -> list[Entry]:
        """Return consecutive durable entries from index `first`, at most up to `last`.

        At least one when `first <= last`; no more than fit into `max_bytes` (13 + value length each) otherwise.
        Raises `StorageError` when the log does not hold them (any more), `DamagedError` when it should and does not.
        """
        with explaining(self.path):
            return self._tables.read(first, last, max_bytes)

    # The writing half ----------------------------------------------------------------------------------------------

    def group(self) -> Group:
        """Return an empty group of writes for the log as it is now."""
        return self._tables.group()

    def store(self, group: Group) -> None:
        """Make a group durable, all of it or nothing. Raises `StorageError`; do not write on after that."""
        self._sound = False
        with explaining(self.path):
            self._wal_bytes += self._tables.store(group)
        self._sound = True

    def checkpoint_due(self, *, idle: bool) -> bool:
        """Whether the WAL is so long that `checkpoint` should run now, when there is something else to do or not."""
        return self._wal_bytes >= (IDLE_CHECKPOINT_BYTES if idle else CHECKPOINT_BYTES)

    def checkpoint(self, mode: str = "PASSIVE") -> bool:
        """Move what stands in the WAL into the database, so that the WAL is written from its beginning again.

        What a reader still needs stays; the next checkpoint takes it along. `mode` "FULL" waits for such a reader, up
        to `PATIENCE_SECONDS`. Return whether all was moved.
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
    """Read what the log says of itself, without writing."""
    check_header(path)
    usable = wal.usable_bytes(path)
    with closing(connect(path, _read_only(usable))) as first:
        return load(path, first, cluster, server_id, usable)


def _read_only(wal_bytes: int) -> str:
    """How to connect without a trace: where there is no WAL, SQLite would make one."""
    return "mode=ro" if wal_bytes else "immutable=1"
