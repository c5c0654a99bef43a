"""The stored data and their transactions: the log in open SQLite connections, in memory or on a disk."""

import sqlite3
from pathlib import Path
from typing import Final

from gf_i2p.storage.entry_chunks import Chunk, Packed, TermRun, pack_chunk, pack_entries, term_at
from gf_i2p.storage.errors import StorageError, damaged
from gf_i2p.storage.loading import Loaded, load_stored_log, unpacked
from gf_i2p.storage.schema import (
    CHUNK_AT,
    CHUNKS_FROM,
    INSERT_SERVERS,
    PAGE_BYTES,
    SCHEMA,
    UPDATE_SERVERS,
    ServerRow,
)
from gf_i2p.storage.stored_snapshot import SnapshotRow, describe_snapshot, replace_snapshot
from gf_i2p.storage.write_group import Base, WriteGroup
from gf_i2p.wire.entries import ENTRY_HEADER_BYTES, Entry
from gf_i2p.wire.messages import NOBODY

SWEEP_BYTES: Final = 1 << 20
"""A transaction removes dropped rows of up to so many bytes, plus twice the bytes that it stores.

The removal takes 1 to 4 ms.
"""
SWEEP_ROWS: Final = 256
"""A transaction removes up to so many dropped rows, plus twice the number of chunks that it stores.

Many small rows cost more time by their number than by their bytes.
"""


class Tables:
    """Stores and loads one farm's durable state in SQLite. `Storage` adds the files, locks and checkpoints.

    Alone, on `sqlite3.connect(":memory:")`, this class gives a simulator the real code of a node: call `create` once,
    then `on`. To simulate a crash, even in the middle of a `store`, forget the object and call `on` for the same
    connection again. The database then has exactly the groups that were stored whole. Storing one small entry in memory
    takes about 25 µs.

    Two threads may use an object with two connections at a time: one thread calls `read`, the other all other
    methods. After an exception of `store`, store no other group.

    A change of the base drops entries at once. Later transactions remove their rows, a few at a time: removing a
    hundred MiB at once would delay a write for long. A row with entries on both sides of the base stays whole until
    the base has passed the row's last entry.
    """

    def __init__(
        self,
        path: Path,
        writing: sqlite3.Connection,
        reading: sqlite3.Connection,
        owner: tuple[str, int],
        loaded: Loaded,
    ) -> None:
        """`loaded`: the connections' content. `path`: for messages only. `owner`: cluster and server id."""
        self.loaded = loaded
        """The content at opening. The snapshot's data are released when a newer snapshot is stored."""
        self.least_wal_bytes = 0
        """Least length of the WAL, which the next `store_server` stores: see `ServerRow`."""
        self.wal_salt = 0
        """Salt of the WAL, which the next `store_server` stores: see `ServerRow`."""
        self._written = loaded.written
        self._checkpointed = loaded.checkpointed
        self._path = path
        self._owner = owner
        self._writing = writing
        self._reading = reading
        self._latest: tuple[object, tuple[Chunk, tuple[Entry, ...]]] | None = None
        """The row that `read` unpacked last. A reader with a small `max_bytes` asks next for the rest of this row."""
        self._hard_state = loaded.hard_state
        self._last_index = loaded.last_index
        self._runs: list[TermRun] = [TermRun(*run) for run in loaded.terms]
        self._configurations = [index for index, _ in loaded.configurations]
        self._base = Base(*loaded.base)
        self._covered = loaded.snapshot.index if loaded.snapshot is not None else 0
        self._lost = loaded.snapshot_fault is not None
        self._unswept = self._base.last > 0
        """Whether rows of dropped entries may be left, even from a process that crashed before the last removal."""

    @staticmethod
    def create(connection: sqlite3.Connection, *, cluster: str, server_id: int) -> None:
        """Create the tables of an empty log in an empty database."""
        connection.isolation_level = None
        connection.executescript(SCHEMA)
        row = ServerRow(cluster, server_id, 0, NOBODY, 0, 0, 0, 0, 0, 0, 0)
        for statement in INSERT_SERVERS:
            connection.execute(statement, (*row, row.checksum(0, 0)))

    @classmethod
    def on(cls, connection: sqlite3.Connection, *, cluster: str, server_id: int) -> "Tables":
        """Open the log in a database that is in memory, also after a simulated crash. Raises as `Storage.open` does."""
        connection.rollback()
        connection.isolation_level = None  # this code says where a transaction begins
        path = Path(":memory:")
        return cls(
            path,
            connection,
            connection,
            (cluster, server_id),
            load_stored_log(path, connection, cluster, server_id, 0),
        )

    # Reading -------------------------------------------------------------------------------------------------------

    def read(self, first: int, last: int, max_bytes: int) -> list[Entry]:
        """Return consecutive stored entries, with the limits and errors of `Storage.read`."""
        entries: list[Entry] = []
        size = 0
        expected = 0
        rows = self._reading.execute(CHUNKS_FROM, (first, last, first))
        try:
            for row in rows:
                if self._latest is None or self._latest[0] != row:  # compare whole rows: a row may have been replaced
                    self._latest = row, unpacked(self._path, row)
                chunk, chunk_entries = self._latest[1]
                if expected and chunk.first != expected:
                    raise damaged(self._path, f"after entry {expected - 1} comes entry {chunk.first}")
                expected = chunk.end
                for entry in chunk_entries[max(first - chunk.first, 0) : last + 1 - chunk.first]:
                    size += ENTRY_HEADER_BYTES + len(entry.value)
                    if size > max_bytes and entries:
                        return entries
                    entries.append(entry)
        finally:
            rows.close()  # ends the read transaction: the WAL cannot start over beside a reader
        if len(entries) < last - first + 1:
            raise StorageError(f"{self._path} does not hold the entries {first + len(entries)} to {last}")
        return entries

    # Writing -------------------------------------------------------------------------------------------------------

    def group(self) -> WriteGroup:
        """Return an empty group of writes for the log as it is now."""
        return WriteGroup(
            self._last_index,
            self._hard_state,
            terms=self._runs,
            base=self._base,
            covered=self._covered,
            lost=self._lost,
        )

    def store(self, group: WriteGroup) -> int:
        """Store a group in one transaction; return roughly how many bytes SQLite wrote to the WAL."""
        first, base = group.first_index, group.base
        before = base.term if first - 1 == base.last else term_at(self._runs, first - 1)
        packed = pack_entries(first, group.entries, before)
        written = sum([len(chunk.data) for chunk in packed.chunks])
        if (
            first <= self._last_index
            or group.hard_state_changed
            or packed.runs
            or packed.configurations
            or group.snapshot is not None
            or base != self._base
            or self._unswept
        ):
            if group.snapshot is not None:
                written += len(group.snapshot.data)
            written += self._store_all(group, packed, written)
        else:
            self._insert(packed.chunks)
            self._last_index = group.last_index
        # SQLite writes whole pages: the table's last page again, and, when that page is full, a new and an inner page.
        return written + PAGE_BYTES + min(2 * written, PAGE_BYTES)

    def note_checkpoint(self) -> None:
        """Note that a checkpoint has moved all transactions so far into the main file."""
        self._checkpointed = self._written

    def store_server(self) -> None:
        """Write the current values to the rows of `server` and `server_copy`, in one transaction."""
        self._written += 1
        row = ServerRow(
            *self._owner,
            *self._hard_state,
            self._last_index,
            *self._base,
            self.least_wal_bytes,
            self.wal_salt,
            self._checkpointed,
            self._written,
        )
        values = (*row[2:], row.checksum(len(self._runs), len(self._configurations)))
        execute = self._writing.execute
        alone = not self._writing.in_transaction
        if alone:
            execute("BEGIN IMMEDIATE")
        for statement in UPDATE_SERVERS:
            execute(statement, values)
        if alone:
            execute("COMMIT")

    def _store_all(self, group: WriteGroup, packed: Packed, written: int) -> int:
        """Store a group that changes more than the end of the log; return roughly how many bytes its sweep wrote."""
        first = group.first_index
        row = None if group.snapshot is None else describe_snapshot(group.snapshot)
        execute = self._writing.execute
        execute("BEGIN IMMEDIATE")
        if first <= self._last_index:
            self._truncate(first)
        if group.base != self._base:
            self._begin_after(group.base)
        self._insert(packed.chunks)
        self._writing.executemany("INSERT INTO term_run VALUES (?, ?)", packed.runs)
        self._writing.executemany("INSERT INTO configuration VALUES (?, ?)", packed.configurations)
        self._runs += packed.runs
        self._configurations += [index for index, _ in packed.configurations]
        self._hard_state = group.hard_state
        self._last_index = group.last_index
        if group.snapshot is not None and row is not None:
            self._replace_snapshot(row, group.snapshot.data)
        self.store_server()
        swept = 0
        if self._unswept:
            swept = self._sweep(SWEEP_BYTES + 2 * written, SWEEP_ROWS + 2 * len(packed.chunks))
        execute("COMMIT")
        return swept

    def _insert(self, chunks: list[Chunk]) -> None:
        if chunks:
            values: list[int | bytes] = []
            for chunk in chunks:
                values += chunk
            self._writing.execute(
                "INSERT INTO chunk VALUES (?, ?, ?, ?)" + ", (?, ?, ?, ?)" * (len(chunks) - 1), values
            )

    def _truncate(self, first: int) -> None:
        """Remove all entries from index `first` on. A row that also has earlier entries keeps the earlier ones."""
        execute = self._writing.execute
        row = execute(CHUNK_AT, (first - 1,)).fetchone()  # with the term runs as they are
        execute("DELETE FROM chunk WHERE first_index >= ?", (first,))
        execute("DELETE FROM term_run WHERE first_index >= ?", (first,))
        execute("DELETE FROM configuration WHERE log_index >= ?", (first,))
        self._runs = [run for run in self._runs if run.first < first]
        self._configurations = [index for index in self._configurations if index < first]
        if row is not None:
            chunk, entries = unpacked(self._path, row)
            if chunk.end > first:
                self._unswept = self._unswept or first <= self._base.last + 1  # all that stays of the row is dropped
                remainder = pack_chunk(chunk.first, entries[: first - chunk.first])
                execute(
                    "UPDATE chunk SET entry_count = ?, checksum = ?, entries = ? WHERE first_index = ?",
                    (remainder.length, remainder.checksum, remainder.data, remainder.first),
                )

    def _begin_after(self, base: Base) -> None:
        """Let the log begin after `base`; sweeps remove the rows of earlier entries."""
        execute = self._writing.execute
        execute("DELETE FROM term_run WHERE first_index <= ?", (base.last,))
        execute("INSERT INTO term_run VALUES (?, ?)", base)
        execute("DELETE FROM configuration WHERE log_index <= ?", (base.last,))
        self._runs = [TermRun(*base), *[run for run in self._runs if run.first > base.last]]
        self._configurations = [index for index in self._configurations if index > base.last]
        self._base = base
        self._unswept = True

    def _replace_snapshot(self, row: SnapshotRow, data: bytes) -> None:
        replace_snapshot(self._writing, row, data, set_aside=self._lost)
        self._covered = row.log_index
        self._lost = False
        self.loaded = self.loaded._replace(snapshot=None)

    def _sweep(self, max_bytes: int, max_rows: int) -> int:
        """Remove rows of dropped entries, the oldest first: at least one row, if such rows exist.

        Return roughly how many bytes SQLite writes for the removal. A row's overflow pages do not count.
        """
        execute = self._writing.execute
        # SQLite keeps a blob's length beside the index, and reads no blob for this query.
        rows = execute(
            "SELECT first_index, entry_count, length(entries) FROM chunk ORDER BY first_index LIMIT ?", (max_rows,)
        ).fetchall()
        size = written = last = 0
        for first, count, length in rows:
            if first + count > self._base.last + 1:
                self._unswept = False
                break
            size += length
            if size > max_bytes and last:
                break
            written += min(length, PAGE_BYTES)
            last = first
        else:
            self._unswept = len(rows) == max_rows
        if last:
            execute("DELETE FROM chunk WHERE first_index <= ?", (last,))
        return written
