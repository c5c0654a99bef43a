"""The snapshot in the database: a row that describes the snapshot, and its data in blocks of bounded size.

Another server can replace a damaged snapshot, so such damage must not make the log unusable. Therefore reading tells
damage from all other errors. Storing leaves the rows of a damaged snapshot alone: to delete these rows, SQLite would
follow their page numbers, which may be wrong, and could free pages of the log.

The row has a checksum of its own. So a server whose snapshot lost only the data still knows the farm's servers.
"""

import sqlite3
import zlib
from dataclasses import replace
from typing import Final, NamedTuple

from gf_i2p.raft.effects import Snapshot
from gf_i2p.storage.errors import is_damage
from gf_i2p.storage.schema import DAMAGED_PREFIX, SNAPSHOT_TABLES
from gf_i2p.wire.errors import ProtocolError
from gf_i2p.wire.limits import MAX_SNAPSHOT_BYTES
from gf_i2p.wire.log_values import Configuration

BLOCK_BYTES: Final = 256 << 10
"""Most bytes of the snapshot's data in a row of `snapshot_block`."""


class SnapshotRow(NamedTuple):
    """The only row of the table `snapshot`: the snapshot without its data."""

    log_index: int
    term: int
    configuration: bytes
    size: int
    """Bytes of data in all blocks."""
    data_checksum: int
    checksum: int
    """Checksum over the other columns."""


def describe_snapshot(snapshot: Snapshot) -> SnapshotRow:
    """Return the row that describes a snapshot. Raises `LocalProtocolError` for an illegal Configuration."""
    configuration = snapshot.configuration.encode()
    size = len(snapshot.data)
    values = snapshot.index, snapshot.term, configuration, size, zlib.crc32(snapshot.data)
    return SnapshotRow(*values, _checksum(*values))


def replace_snapshot(connection: sqlite3.Connection, row: SnapshotRow, data: bytes, *, set_aside: bool) -> None:
    """Replace the stored snapshot, inside the caller's transaction.

    `set_aside`: rename the tables of the stored snapshot, which is or may be damaged, instead of deleting their rows.
    """
    if set_aside:
        _set_aside(connection)
    else:
        connection.execute("DELETE FROM snapshot")
        connection.execute("DELETE FROM snapshot_block")
    connection.execute("INSERT INTO snapshot VALUES (?, ?, ?, ?, ?, ?)", row)
    view = memoryview(data)
    connection.executemany(
        "INSERT INTO snapshot_block VALUES (?, ?)",
        ((start, view[start : start + BLOCK_BYTES]) for start in range(0, row.size, BLOCK_BYTES)),
    )


class StoredSnapshot(NamedTuple):
    """The readable parts of the stored snapshot. Both fields are None when no snapshot is stored."""

    snapshot: Snapshot | None
    """The snapshot, without data when only the data are damaged."""
    fault: str | None
    """A sentence about the damage; None: no damage was found."""


def read_snapshot(connection: sqlite3.Connection) -> StoredSnapshot:
    """Read the stored snapshot; describe damage in the result. Raises `sqlite3.Error` for any other error."""
    snapshot = None
    try:
        row = _row(connection)
        if row is None:
            return StoredSnapshot(None, None)
        snapshot = Snapshot(row.log_index, row.term, Configuration.decode(row.configuration), b"")
        return StoredSnapshot(replace(snapshot, data=_data(connection, row)), None)
    except ProtocolError as error:
        return StoredSnapshot(None, f"its Configuration cannot be decoded: {error}")
    except ValueError as error:
        return StoredSnapshot(snapshot, str(error))
    except sqlite3.Error as error:
        if not is_damage(error):
            raise
        return StoredSnapshot(snapshot, f"SQLite says: {error}")


def _row(connection: sqlite3.Connection) -> SnapshotRow | None:
    """Return the row that describes the snapshot; None without a snapshot. Raises `ValueError` for a damaged row."""
    # A damaged page may give any type. The cast to a blob keeps sqlite3 from decoding text.
    rows = connection.execute(
        "SELECT log_index, term, CAST(configuration AS BLOB), size, data_checksum, checksum FROM snapshot LIMIT 2"
    ).fetchall()
    if not rows and connection.execute("SELECT 1 FROM snapshot_block LIMIT 1").fetchone() is None:
        return None
    if len(rows) != 1:
        raise ValueError(f"{len(rows)} rows describe the snapshot instead of one")
    row = SnapshotRow(*rows[0])
    if [type(value) for value in row] != [int, int, bytes, int, int, int]:
        raise ValueError("the row that describes the snapshot has the wrong types")
    if _checksum(*row[:-1]) != row.checksum:
        raise ValueError("the row that describes it does not match its checksum")
    return row


def _data(connection: sqlite3.Connection, row: SnapshotRow) -> bytes:
    """Return the data that this row describes. Raises `ValueError` for damaged data."""
    (size,) = connection.execute("SELECT total(length(data)) FROM snapshot_block").fetchone()
    if not 1 <= row.size <= MAX_SNAPSHOT_BYTES or row.size != size:
        raise ValueError(f"it has {size:.0f} bytes instead of {row.size}")
    # A damaged page may give NULL, too.
    blocks = connection.execute("SELECT CAST(coalesce(data, '') AS BLOB) FROM snapshot_block ORDER BY position")
    data = b"".join([block for (block,) in blocks])
    if zlib.crc32(data) != row.data_checksum:
        raise ValueError("it does not match its checksum")
    return data


def _checksum(index: int, term: int, configuration: bytes, size: int, data_checksum: int) -> int:
    return zlib.crc32(repr((index, term, configuration, size, data_checksum)).encode())


def _set_aside(connection: sqlite3.Connection) -> None:
    """Rename the snapshot's tables, without a change of their pages, and create new tables.

    The file never gets back the space of the renamed tables.
    """
    execute = connection.execute
    # The count of such tables is a new number each time, since they are never removed. Both new names get this number.
    (number,) = execute("SELECT count(*) FROM sqlite_master WHERE name GLOB ?", (DAMAGED_PREFIX + "*",)).fetchone()
    for name, statement in SNAPSHOT_TABLES.items():
        execute(f"ALTER TABLE {name} RENAME TO {DAMAGED_PREFIX}{number}_{name}")
        execute(statement)
