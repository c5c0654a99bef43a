"""The content of a log file at opening, and the checks of that content."""

import sqlite3
from collections.abc import Iterable
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from gf_i2p.raft.effects import CheckSnapshot, HardState, Snapshot
from gf_i2p.storage import wal
from gf_i2p.storage.entry_chunks import Chunk, TermRun, term_at, unpack_chunk
from gf_i2p.storage.errors import REJOIN, StorageError, damaged, is_damage
from gf_i2p.storage.page_check import check_pages
from gf_i2p.storage.schema import (
    CHUNK_AT,
    DAMAGED_PREFIX,
    SERVERS,
    TABLES,
    ServerRow,
    check_version,
    connect,
)
from gf_i2p.storage.stored_snapshot import StoredSnapshot, read_snapshot
from gf_i2p.storage.write_group import Base
from gf_i2p.wire.entries import Entry, ValueType
from gf_i2p.wire.limits import MAX_INTEGER
from gf_i2p.wire.log_values import Configuration


class Loaded(NamedTuple):
    """A log file's content at opening, without most entries."""

    hard_state: HardState
    """The server's term and vote: 0 and `NOBODY` in a new file."""
    last_index: int
    """Index of the last entry; the base's index when the log is empty."""
    terms: tuple[tuple[int, int], ...]
    """Runs (first index, term): index and term rise from run to run. The first run is the base, or begins at 1."""
    configurations: tuple[tuple[int, bytes], ...]
    """(index, value) of every Configuration in the log, in order."""
    written: int
    """Number of times that the server's row was written: see `ServerRow.written`."""
    checkpointed: int
    """See `ServerRow.checkpointed`."""
    base: tuple[int, int]
    """Index and term of the last dropped entry; (0, 0) for a log that begins at 1. The log begins after this index."""
    snapshot: Snapshot | None
    """The stored snapshot; None: none, or a damaged one. Its index is from the base's index to the last entry's."""
    snapshot_fault: str | None
    """The snapshot's damage, with advice; None: no damage. Log, term and vote are sound even beside such damage."""
    configuration: Configuration | None
    """The snapshot's Configuration, if known. A snapshot whose damage is only in the data still has one."""


def unpacked(path: Path, row: tuple[Any, ...]) -> tuple[Chunk, tuple[Entry, ...]]:
    """Return a row of the table `chunk`, and the row's entries. Raises `DamagedError`.

    `row`: a row of the statement `CHUNK_AT` or `CHUNKS_FROM`.
    """
    *columns, term = row
    chunk = Chunk(*columns)
    if [type(value) for value in columns] != [int, int, int, bytes]:
        raise damaged(path, f"the row of entries from index {chunk.first} has the wrong types")
    try:
        entries = unpack_chunk(chunk)
    except ValueError as error:
        raise damaged(path, str(error)) from error
    if term is not None and entries[-1].term != term:
        raise damaged(path, f"the entry {chunk.end - 1} should have the term {term}, but has {entries[-1].term}")
    return chunk, entries


def main_file_row(path: Path) -> ServerRow | None:
    """Return the server's row in the main file alone, as if there were no WAL.

    None when the main file alone is no log: a checkpoint was interrupted, and the WAL has the pages.
    """
    try:
        with closing(connect(path, "immutable=1")) as connection:
            ((*values, checksum),) = connection.execute(SERVERS[0]).fetchall()
            counts = connection.execute(
                "SELECT (SELECT count(*) FROM term_run), (SELECT count(*) FROM configuration)"
            ).fetchone()
            row = ServerRow(*values)
    except (TypeError, ValueError):  # another number of rows or columns, or text that is not UTF-8
        return None
    except sqlite3.Error as error:
        if not is_damage(error) and error.sqlite_errorcode != sqlite3.SQLITE_ERROR:  # "no such table"
            raise
        return None
    return row if checksum == row.checksum(*counts) else None


def load_stored_log(
    path: Path,
    connection: sqlite3.Connection,
    cluster: str,
    server_id: int,
    wal_bytes: int,
    check_snapshot: CheckSnapshot | None = None,
    *,
    pages: bool = False,
    main: ServerRow | None = None,
) -> Loaded:
    """Read and check a log's content. Of the entries, read only those that confirm the term runs and Configurations.

    The time depends on the number of terms, the size of the snapshot and the length of the WAL, not on the number of
    entries; with `pages`, which checks the structure of all pages, also on the size of the file (0.3 ms per MiB).
    Raises `StorageError` when the log belongs to another server, or needs a WAL longer than `wal_bytes`; `DamagedError`
    when its parts contradict each other. A damaged snapshot raises nothing: see `Loaded.snapshot_fault`. A snapshot
    that `check_snapshot` refuses counts as damaged. `main`: see `main_file_row`.
    """
    execute = connection.execute
    # The WAL may name another version than the main file's header.
    check_version(path, execute("PRAGMA user_version").fetchone()[0])
    statements = execute("SELECT sql FROM sqlite_master WHERE name NOT GLOB ?", (DAMAGED_PREFIX + "*",)).fetchall()
    if sorted(str(sql) for (sql,) in statements) != sorted(TABLES):
        raise damaged(path, "it does not have the tables of a log")
    snapshot_damage = check_pages(path, connection) if pages else None
    rows, copies = [execute(statement).fetchall() for statement in SERVERS]
    if len(rows) != 1:
        raise damaged(path, f"it names {len(rows)} servers instead of one")
    *values, checksum = rows[0]
    row = ServerRow(*values)
    runs = tuple(TermRun(*row) for row in execute("SELECT first_index, term FROM term_run ORDER BY first_index"))
    configurations = tuple(execute("SELECT log_index, value FROM configuration ORDER BY log_index").fetchall())
    if checksum != row.checksum(len(runs), len(configurations)):
        raise damaged(path, "its server, term and vote do not match their checksum")
    if rows != copies:
        raise damaged(path, "its server, term and vote differ from their copy: a page is older than the other pages")
    if row[:2] != (cluster, server_id):
        raise StorageError(
            f"{path} is the log of server {row.server_id} of the farm {row.cluster!r}, but the configuration says "
            f"server {server_id} of {cluster!r}: correct the configuration, or give this server a directory of its own"
        )
    if wal_bytes < row.wal_bytes:
        raise wal.lost(path, row.wal_bytes)
    if main is not None:
        wal.check_ages(path, row, main)
    base = Base(row.base_index, row.base_term)
    last_index = max(_last_index(path, connection), base.last)
    if last_index < row.last_index:
        raise damaged(path, f"the entries {last_index + 1} to {row.last_index} are missing")
    _check_terms(path, connection, row, base, last_index, runs, configurations)
    snapshot, fault = _snapshot(path, connection, base, last_index, runs, check_snapshot, snapshot_damage)
    return Loaded(
        HardState(row.term, row.vote),
        last_index,
        runs,
        configurations,
        row.written,
        row.checkpointed,
        base,
        snapshot if fault is None else None,
        fault,
        None if snapshot is None else snapshot.configuration,
    )


def _check_terms(
    path: Path,
    connection: sqlite3.Connection,
    row: ServerRow,
    base: Base,
    last_index: int,
    runs: tuple[TermRun, ...],
    configurations: tuple[tuple[int, bytes], ...],
) -> None:
    """Raise `DamagedError` when runs and Configurations do not fit the entries after `base`."""
    if bool(runs) != bool(last_index) or (runs and runs[0] != (base if base.last else (1, runs[0].term))):
        raise damaged(path, "its terms do not cover the log")
    if any(type(run.term) is not int for run in runs) or any(run.term >= later.term for run, later in pairwise(runs)):
        raise damaged(path, "its terms do not rise")
    if runs and runs[-1].term > row.term:
        raise damaged(path, f"it has entries of term {runs[-1].term}, but the server is only in term {row.term}")

    ends = [run.first - 1 for run in runs[1:]] + [last_index] * bool(runs)
    # The first run begins with the base, whose entry is gone; that run may have no other entry.
    spans = [(max(run.first, base.last + 1), end, run.term) for run, end in zip(runs, ends, strict=True)]
    spans = [span for span in spans if span[0] <= span[1]]
    stored = {index for index, _ in configurations}
    # A transaction with a Configuration also writes the server's row, and so does the first one of each WAL.
    since_row = range(max(row.last_index, base.last) + 1, last_index + 1)
    indexes = stored.union(since_row, (index for first, end, _ in spans for index in (first, end)))
    entries = _entries_at(path, connection, sorted(indexes))
    for first, end, term in spans:
        if entries[first].term != term or entries[end].term != term:
            raise damaged(path, f"the entries {first} to {end} should have the term {term}, but do not")
    for index, value in configurations:
        if index <= base.last or entries[index][1:] != (ValueType.CONFIGURATION, value):
            raise damaged(path, f"the entry {index} should be a Configuration, but differs from the stored one")
    for index in since_row:
        if entries[index].value_type is ValueType.CONFIGURATION and index not in stored:
            raise damaged(path, f"the entry {index} is a Configuration, and is not stored as one: some pages are older")


def _snapshot(
    path: Path,
    connection: sqlite3.Connection,
    base: Base,
    last_index: int,
    runs: tuple[TermRun, ...],
    check: CheckSnapshot | None,
    damage: str | None,
) -> StoredSnapshot:
    """Read the snapshot, or describe its damage. `damage`: the damage that is known already."""
    snapshot, fault = read_snapshot(connection)
    fault = fault or damage
    if snapshot is None and fault is None and base.last:
        fault = "it is missing"
    elif snapshot is not None and snapshot.index < base.last:
        fault = f"it covers the entries up to {snapshot.index} only"
        snapshot = None
    # The checksums of log and snapshot are right, so a contradiction means that the two are from different times.
    if snapshot is not None and (snapshot.index > last_index or term_at(runs, snapshot.index) != snapshot.term):
        raise damaged(path, f"the entry {snapshot.index}, with which its snapshot ends, is not in the log")
    advice = (
        f"The log begins at {base.last + 1}: the leader has to send another snapshot."
        if base.last
        else "The log still has all entries."
    )
    if fault is not None:
        fault = f"the snapshot in {path} is damaged: {fault}. {advice} Check the disk."
    elif snapshot is not None and check is not None and (why := check(snapshot.data)) is not None:
        fault = f"the snapshot in {path} cannot be used: {why}. {advice}"
        if base.last:
            fault += f" If no leader sends one, the log is lost. {REJOIN}"
    return StoredSnapshot(snapshot, fault)


def _last_index(path: Path, connection: sqlite3.Connection) -> int:
    row = connection.execute(CHUNK_AT, (MAX_INTEGER,)).fetchone()
    return 0 if row is None else unpacked(path, row)[0].end - 1


def _entries_at(path: Path, connection: sqlite3.Connection, indexes: Iterable[int]) -> dict[int, Entry]:
    """Return the entries at these rising indexes. Raises `DamagedError` when an entry is missing."""
    located: dict[int, Entry] = {}
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
        located[index] = entries[index - chunk.first]
    return located
