"""What is stored and read, and in which transactions: the log in open SQLite connections, wherever they lead."""

import sqlite3
from pathlib import Path

from gf_i2p.storage.chunks import Chunk, Packed, Run, pack, pack_chunk, term_at
from gf_i2p.storage.errors import StorageError, damaged
from gf_i2p.storage.group import Group
from gf_i2p.storage.loading import Loaded, load, unpacked
from gf_i2p.storage.schema import CHUNK_AT, CHUNKS_FROM, PAGE_BYTES, SCHEMA, ServerRow
from gf_i2p.wire.entries import ENTRY_HEADER_BYTES, Entry
from gf_i2p.wire.messages import NOBODY


class Tables:
    """One farm's durable state in SQLite: storing and loading, without files, locks and checkpoints.

    `Storage` adds those. By itself, on `sqlite3.connect(":memory:", isolation_level=None)`, it runs what a node really
    runs, for a simulator: `create` once, then `on` it. A crash there is to forget the object, in the middle of a
    `store` or not, and to be `on` the same connection again: what was stored whole is there, and nothing else.

    Two threads may use it at a time when it has two connections: one `read`, one the rest. After an exception of
    `store`, nothing may be stored any more.
    """

    def __init__(
        self,
        path: Path,
        writing: sqlite3.Connection,
        reading: sqlite3.Connection,
        owner: tuple[str, int],
        loaded: Loaded,
    ) -> None:
        """Connections and what was loaded from them. `path` is for messages only; `owner`: cluster and server id."""
        self.loaded = loaded
        self.openings = loaded.openings
        """See `ServerRow`; stored with the next `store_server`."""
        self.least_wal_bytes = 0
        """The same."""
        self._path = path
        self._owner = owner
        self._writing = writing
        self._reading = reading
        self._hard_state = loaded.hard_state
        self._last_index = loaded.last_index
        self._runs: list[Run] = [Run(*run) for run in loaded.terms]
        self._configurations = [index for index, _ in loaded.configurations]

    @staticmethod
    def create(connection: sqlite3.Connection, *, cluster: str, server_id: int) -> None:
        """Make the tables of an empty log in an empty database."""
        connection.executescript(SCHEMA)
        row = ServerRow(cluster, server_id, 0, NOBODY, 0, 0, 0)
        connection.execute("INSERT INTO server VALUES (?, ?, ?, ?, ?, ?, ?, ?)", (*row, row.checksum(0, 0)))

    @classmethod
    def on(cls, connection: sqlite3.Connection, *, cluster: str, server_id: int) -> "Tables":
        """Load what a database in memory holds, after `rollback` of what a crash left half done.

        Raises as `Storage.open` does.
        """
        connection.rollback()
        path = Path(":memory:")
        return cls(path, connection, connection, (cluster, server_id), load(path, connection, cluster, server_id, 0))

    # Reading -------------------------------------------------------------------------------------------------------

    def read(self, first: int, last: int, max_bytes: int) -> list[Entry]:
        """Return consecutive stored entries: see `Storage.read`."""
        entries: list[Entry] = []
        size = 0
        expected = 0
        rows = self._reading.execute(CHUNKS_FROM, (first, last))
        try:
            for row in rows:
                chunk, found = unpacked(self._path, row)
                if expected and chunk.first != expected:
                    raise damaged(self._path, f"after the entry {expected - 1} comes {chunk.first}")
                expected = chunk.end
                for entry in found[max(first - chunk.first, 0) : last + 1 - chunk.first]:
                    size += ENTRY_HEADER_BYTES + len(entry.value)
                    if size > max_bytes and entries:
                        return entries
                    entries.append(entry)
        finally:
            rows.close()  # ends the read transaction: the WAL cannot start over beside one
        if len(entries) < last - first + 1:
            raise StorageError(f"{self._path} does not hold the entries {first + len(entries)} to {last}")
        return entries

    # Writing -------------------------------------------------------------------------------------------------------

    def group(self) -> Group:
        """Return an empty group of writes for the log as it is now."""
        return Group(self._last_index, self._hard_state)

    def store(self, group: Group) -> int:
        """Store a group in one transaction, all of it or nothing; return about how many bytes SQLite wrote for it."""
        first = group.first_index
        packed = pack(first, group.entries, term_at(self._runs, first - 1))
        if first <= self._last_index or group.hard_state_changed or packed.runs or packed.configurations:
            self._store_all(group, packed)
        else:
            self._insert(packed.chunks)
            self._last_index = group.last_index
        # Whole pages, a page around them, and the pages of tables and tree.
        return sum([len(chunk.data) for chunk in packed.chunks]) + 2 * PAGE_BYTES

    def store_server(self) -> None:
        """Store the row of `server` as it should be now."""
        row = ServerRow(*self._owner, *self._hard_state, self._last_index, self.least_wal_bytes, self.openings)
        self._writing.execute(
            "UPDATE server SET term = ?, vote = ?, last_index = ?, wal_bytes = ?, openings = ?, checksum = ?",
            (*row[2:], row.checksum(len(self._runs), len(self._configurations))),
        )

    def _store_all(self, group: Group, packed: Packed) -> None:
        """Store what is more than entries at the end of the log."""
        first = group.first_index
        execute = self._writing.execute
        execute("BEGIN IMMEDIATE")
        if first <= self._last_index:
            self._truncate(first)
        self._insert(packed.chunks)
        self._writing.executemany("INSERT INTO term_run VALUES (?, ?)", packed.runs)
        self._writing.executemany("INSERT INTO configuration VALUES (?, ?)", packed.configurations)
        self._runs = [run for run in self._runs if run.first < first] + packed.runs
        self._configurations = [index for index in self._configurations if index < first]
        self._configurations += [index for index, _ in packed.configurations]
        self._hard_state = group.hard_state
        self._last_index = group.last_index
        self.store_server()
        execute("COMMIT")

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
        row = execute(CHUNK_AT, (first,)).fetchone()
        if row is not None:
            chunk, entries = unpacked(self._path, row)
            if chunk.end > first:
                kept = pack_chunk(chunk.first, entries[: first - chunk.first])
                execute(
                    "UPDATE chunk SET entry_count = ?, checksum = ?, entries = ? WHERE first_index = ?",
                    (kept.length, kept.checksum, kept.data, kept.first),
                )
