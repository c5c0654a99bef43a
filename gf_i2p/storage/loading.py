"""What a log file holds when it is opened, and whether that can be true."""

import sqlite3
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from gf_i2p.raft.effects import HardState
from gf_i2p.storage import wal
from gf_i2p.storage.chunks import Chunk, Run, unpack_chunk
from gf_i2p.storage.errors import StorageError, damaged
from gf_i2p.storage.schema import CHUNK_AT, TABLES, ServerRow
from gf_i2p.wire.entries import Entry, ValueType
from gf_i2p.wire.limits import MAX_INTEGER


class Loaded(NamedTuple):
    """What the file held when it was opened."""

    hard_state: HardState
    """Term 0 and `NOBODY` in a new file."""
    last_index: int
    """0 when the log is empty."""
    terms: tuple[tuple[int, int], ...]
    """(first index, term) runs, both strictly ascending; the first run begins at index 1."""
    configurations: tuple[tuple[int, bytes], ...]
    """(index, value) of every Configuration in the log, ascending."""
    openings: int
    """See `ServerRow.openings`."""


def unpacked(path: Path, row: tuple[Any, ...]) -> tuple[Chunk, tuple[Entry, ...]]:
    """Give the entries of a row of `chunk`. Raises `DamagedError`."""
    chunk = Chunk(*row)
    if [type(value) for value in row] != [int, int, int, bytes]:
        raise damaged(path, f"the row of entries from index {chunk.first} has the wrong types")
    try:
        return chunk, unpack_chunk(chunk)
    except ValueError as error:
        raise damaged(path, str(error)) from error


def load(path: Path, connection: sqlite3.Connection, cluster: str, server_id: int, wal_bytes: int) -> Loaded:
    """Read everything but the entries, and those entries that prove it.

    Takes time by the number of terms, not of entries. Raises `StorageError` when the log belongs to another server, or
    needs a longer WAL than one of `wal_bytes`; `DamagedError` when its parts contradict each other.
    """
    execute = connection.execute
    if [sql for (sql,) in execute("SELECT sql FROM sqlite_master ORDER BY rowid")] != list(TABLES):
        raise damaged(path, "it does not have the tables of a log")
    rows = execute("SELECT cluster, id, term, vote, last_index, wal_bytes, openings, checksum FROM server").fetchall()
    if len(rows) != 1:
        raise damaged(path, f"it names {len(rows)} servers instead of one")
    *values, checksum = rows[0]
    row = ServerRow(*values)
    runs = tuple(Run(*row) for row in execute("SELECT first_index, term FROM term_run ORDER BY first_index"))
    configurations = tuple(execute("SELECT log_index, value FROM configuration ORDER BY log_index").fetchall())
    if row.checksum(len(runs), len(configurations)) != checksum:
        raise damaged(path, "its server, term and vote do not match their checksum")
    if row[:2] != (cluster, server_id):
        raise StorageError(
            f"{path} is the log of server {row.server_id} of the farm {row.cluster!r}, but the configuration says "
            f"server {server_id} of {cluster!r}: correct the configuration, or give this server a directory of its own"
        )
    if wal_bytes < row.wal_bytes:
        raise wal.lost(path, row.wal_bytes)
    last_index = _last_index(path, connection)
    if last_index < row.last_index:
        raise damaged(path, f"the entries {last_index + 1} to {row.last_index} are missing")
    if bool(runs) != bool(last_index) or (runs and runs[0].first != 1):
        raise damaged(path, "its terms do not cover the log")
    if any(type(run.term) is not int for run in runs) or any(one.term >= other.term for one, other in pairwise(runs)):
        raise damaged(path, "its terms fall")
    if runs and runs[-1].term > row.term:
        raise damaged(path, f"it has entries of term {runs[-1].term}, but the server is only in term {row.term}")

    ends = [run.first - 1 for run in runs[1:]] + [last_index] * bool(runs)
    proof = {run.first for run in runs} | {index for index, _ in configurations} | set(ends)
    entries = _entries_at(path, connection, sorted(proof))
    for run, end in zip(runs, ends, strict=True):
        if entries[run.first].term != run.term or entries[end].term != run.term:
            raise damaged(path, f"the entries {run.first} to {end} should have the term {run.term} and do not")
    for index, value in configurations:
        if entries[index][1:] != (ValueType.CONFIGURATION, value):
            raise damaged(path, f"the entry {index} should be a Configuration and is another one or none")
    return Loaded(HardState(row.term, row.vote), last_index, runs, configurations, row.openings)


def _last_index(path: Path, connection: sqlite3.Connection) -> int:
    row = connection.execute(CHUNK_AT, (MAX_INTEGER,)).fetchone()
    return 0 if row is None else unpacked(path, row)[0].end - 1


def _entries_at(path: Path, connection: sqlite3.Connection, indexes: Iterable[int]) -> dict[int, Entry]:
    """Return the entries at these indexes, which ascend. Raises `DamagedError` when one is missing."""
    found: dict[int, Entry] = {}
    chunk = Chunk(0, 0, 0, b"")
    entries: tuple[Entry, ...] = ()
    for index in indexes:
        if index >= chunk.end:
            row = connection.execute(CHUNK_AT, (index,)).fetchone()
            if row is None:
                raise damaged(path, f"the entry {index} is missing")
            chunk, entries = unpacked(path, row)
        if not chunk.first <= index < chunk.end:
            raise damaged(path, f"the entry {index} is missing")
        found[index] = entries[index - chunk.first]
    return found
