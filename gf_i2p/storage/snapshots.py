"""The snapshot as it stands in the database: a row that describes it, and its data in blocks of bounded size.

A snapshot that is damaged can be had again from another server, so it must not take the log down with it. Reading one
therefore tells damage from everything else, and storing one does not touch the rows of a damaged one: to delete them
SQLite would follow their page numbers, which may be anything, and free pages of the log.
"""

import sqlite3
import zlib
from typing import Final, NamedTuple

from gf_i2p.raft.effects import Snapshot
from gf_i2p.storage.errors import is_damage
from gf_i2p.storage.schema import DAMAGED_PREFIX, SNAPSHOT_TABLES
from gf_i2p.wire.errors import ProtocolError
from gf_i2p.wire.limits import MAX_SNAPSHOT_BYTES
from gf_i2p.wire.values import Configuration

BLOCK_BYTES: Final = 256 << 10
"""A row of `snapshot_block` has at most this much data."""


class SnapshotRow(NamedTuple):
    """The only row of `snapshot`."""

    log_index: int
    term: int
    configuration: bytes
    size: int
    """Bytes of data, over all blocks."""
    checksum: int
    """Over all of the above and the data."""


def describe(snapshot: Snapshot) -> SnapshotRow:
    """Make the row of a snapshot. Raises `LocalProtocolError` when its Configuration cannot be encoded."""
    configuration = snapshot.configuration.encode()
    size = len(snapshot.data)
    checksum = _checksum(snapshot.index, snapshot.term, configuration, size, snapshot.data)
    return SnapshotRow(snapshot.index, snapshot.term, configuration, size, checksum)


def replace_snapshot(connection: sqlite3.Connection, row: SnapshotRow, data: bytes, *, set_aside: bool) -> None:
    """Store a snapshot in the place of the stored one. `set_aside`: that one is damaged, or may be.

    Belongs into a transaction.
    """
    if set_aside:
        _set_aside(connection)
    else:
        connection.execute("DELETE FROM snapshot")
        connection.execute("DELETE FROM snapshot_block")
    connection.execute("INSERT INTO snapshot VALUES (?, ?, ?, ?, ?)", row)
    view = memoryview(data)
    connection.executemany(
        "INSERT INTO snapshot_block VALUES (?, ?)",
        ((start, view[start : start + BLOCK_BYTES]) for start in range(0, row.size, BLOCK_BYTES)),
    )


def read_snapshot(connection: sqlite3.Connection) -> Snapshot | None:
    """Return the stored snapshot, None when there is none. Raises `ValueError` when it is not what was written."""
    try:
        return _read(connection)
    except sqlite3.Error as error:
        if not is_damage(error):
            raise
        raise ValueError(f"SQLite says: {error}") from error


def _read(connection: sqlite3.Connection) -> Snapshot | None:
    # As blobs, whatever a damaged page says that they are: text would be decoded.
    rows = connection.execute(
        "SELECT log_index, term, CAST(configuration AS BLOB), size, checksum FROM snapshot LIMIT 2"
    ).fetchall()
    blocks, size = connection.execute("SELECT count(*), total(length(data)) FROM snapshot_block").fetchone()
    if not rows and not blocks:
        return None
    if len(rows) != 1:
        raise ValueError(f"{len(rows)} rows describe it instead of one")
    row = SnapshotRow(*rows[0])
    if [type(value) for value in row] != [int, int, bytes, int, int]:
        raise ValueError("the row that describes it has the wrong types")
    if not 1 <= row.size <= MAX_SNAPSHOT_BYTES or row.size != size:
        raise ValueError(f"it has {size:.0f} bytes instead of {row.size}")
    found = connection.execute("SELECT CAST(data AS BLOB) FROM snapshot_block ORDER BY position")
    data = b"".join([block for (block,) in found])
    if _checksum(*row[:4], data) != row.checksum:
        raise ValueError("it does not match its checksum")
    try:
        configuration = Configuration.decode(row.configuration)
    except ProtocolError as error:
        raise ValueError(f"its Configuration makes no sense: {error}") from error
    return Snapshot(row.log_index, row.term, configuration, data)


def _checksum(index: int, term: int, configuration: bytes, size: int, data: bytes) -> int:
    return zlib.crc32(data, zlib.crc32(repr((index, term, configuration, size)).encode()))


def _set_aside(connection: sqlite3.Connection) -> None:
    """Give the tables other names, which touches none of their pages, and make new ones.

    Their space is lost: that of one snapshot for each that was damaged.
    """
    execute = connection.execute
    # No number comes twice, since none of them is ever removed; two tables bear the same.
    (number,) = execute("SELECT count(*) FROM sqlite_master WHERE name GLOB ?", (DAMAGED_PREFIX + "*",)).fetchone()
    for name, statement in SNAPSHOT_TABLES.items():
        execute(f"ALTER TABLE {name} RENAME TO {DAMAGED_PREFIX}{number}_{name}")
        execute(statement)
