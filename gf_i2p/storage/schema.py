"""The tables of a log file, the marks of such a file, and the settings of SQLite."""

import sqlite3
import struct
import zlib
from pathlib import Path
from typing import Final, NamedTuple

from gf_i2p.storage import private_files
from gf_i2p.storage.errors import REJOIN, StorageError, damaged

APPLICATION_ID: Final = 0x47464932
"""Marks a file of this program ("GFI2") where SQLite keeps such marks: at offset 68 of the file's header."""
SCHEMA_VERSION: Final = 4
"""Version of the tables, at offset 60 of the header. It rises with every change that an older program would misread."""

# 16 KiB instead of 4 KiB: a third less CPU per entry in batches, and no slower for single entries.
PAGE_BYTES: Final = 16 << 10

PATIENCE_SECONDS: Final = 5.0
"""Time to wait for a foreign program that reads the file, and so blocks this program."""

SNAPSHOT_TABLES: Final = {
    "snapshot": """CREATE TABLE snapshot (
    log_index INTEGER NOT NULL, term INTEGER NOT NULL, configuration BLOB NOT NULL, size INTEGER NOT NULL,
    data_checksum INTEGER NOT NULL, checksum INTEGER NOT NULL
)""",
    "snapshot_block": "CREATE TABLE snapshot_block (position INTEGER PRIMARY KEY, data BLOB NOT NULL)",
}
DAMAGED_PREFIX: Final = "damaged_"
"""Prefix of the tables that keep a damaged snapshot."""
_SERVER_COLUMNS: Final = """(
    cluster TEXT NOT NULL, id INTEGER NOT NULL, term INTEGER NOT NULL, vote INTEGER NOT NULL,
    last_index INTEGER NOT NULL, base_index INTEGER NOT NULL, base_term INTEGER NOT NULL,
    wal_bytes INTEGER NOT NULL, wal_salt INTEGER NOT NULL, checkpointed INTEGER NOT NULL, written INTEGER NOT NULL,
    checksum INTEGER NOT NULL
)"""
SERVER_TABLES: Final = ("server", "server_copy")
"""Two tables with the same row. A table has pages of its own, so one lost write cannot bring back an old term and vote:
the checksum of an old row is right, but the two rows differ."""
LOG_TABLES: Final = (*SERVER_TABLES, "chunk", "term_run", "configuration")
TABLES: Final = (
    *[f"CREATE TABLE {name} {_SERVER_COLUMNS}" for name in SERVER_TABLES],
    """CREATE TABLE chunk (
    first_index INTEGER PRIMARY KEY, entry_count INTEGER NOT NULL, checksum INTEGER NOT NULL, entries BLOB NOT NULL
)""",
    "CREATE TABLE term_run (first_index INTEGER PRIMARY KEY, term INTEGER NOT NULL)",
    "CREATE TABLE configuration (log_index INTEGER PRIMARY KEY, value BLOB NOT NULL)",
    *SNAPSHOT_TABLES.values(),
)
"""The statements that create the tables. SQLite keeps these statements in the file word for word, in any order."""

SCHEMA: Final = f"""
PRAGMA page_size = {PAGE_BYTES};
PRAGMA auto_vacuum = NONE;
BEGIN;
PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = {SCHEMA_VERSION};
{"; ".join(TABLES)};
COMMIT;
"""

# The last column is the term of the row's last entry, by the term runs; NULL for a row of dropped entries. Two entries
# with the same index and term are the same, and so are all entries before them (Raft, "Log Matching"). So the term
# uncovers an old row that came back.
_CHUNK: Final = """SELECT first_index, entry_count, checksum, entries,
    (SELECT term FROM term_run WHERE term_run.first_index < chunk.first_index + chunk.entry_count
    AND chunk.first_index + chunk.entry_count - 1 > (SELECT base_index FROM server)
    ORDER BY term_run.first_index DESC LIMIT 1)
FROM chunk
"""
CHUNK_AT: Final = f"{_CHUNK} WHERE first_index <= ? ORDER BY first_index DESC LIMIT 1"
# Parameters: first index, last index, first index. One statement, so that rows and base are of the same moment: entries
# up to the base are not part of the log, though their rows may still be there.
CHUNKS_FROM: Final = f"""{_CHUNK}
WHERE first_index >= (SELECT max(first_index) FROM chunk WHERE first_index <= ?) AND first_index <= ?
AND ? > (SELECT base_index FROM server)
ORDER BY first_index
"""  # noqa: S608 -- made of constants
SERVERS: Final = tuple(f"SELECT * FROM {name}" for name in SERVER_TABLES)  # noqa: S608
INSERT_SERVERS: Final = tuple(
    f"INSERT INTO {name} VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"  # noqa: S608
    for name in SERVER_TABLES
)
UPDATE_SERVERS: Final = tuple(
    f"UPDATE {name} SET term = ?, vote = ?, last_index = ?, base_index = ?, base_term = ?, wal_bytes = ?, "  # noqa: S608
    "wal_salt = ?, checkpointed = ?, written = ?, checksum = ?"
    for name in SERVER_TABLES
)

_SQLITE_HEADER: Final = struct.Struct(">16s44xI4xI")  # magic; user_version at 60; application_id at 68


class ServerRow(NamedTuple):
    """The only row of `server` and of `server_copy`: the log's owner, and facts that uncover damage elsewhere."""

    cluster: str
    server_id: int
    term: int
    vote: int
    last_index: int
    """Last index of the log when this row was written: at the latest checkpoint, or after it.

    The WAL guards newer entries by checksums.
    """
    base_index: int
    """Index of the last dropped entry: the log begins after it. 0: the log begins at 1."""
    base_term: int
    """Term of the last dropped entry."""
    wal_bytes: int
    """Least length of the WAL; 0: the log was closed cleanly, and the main file needs no WAL (see `wal`)."""
    wal_salt: int
    """First salt of the WAL at the latest checkpoint; 0: there was no WAL. SQLite adds 1 when the WAL starts over."""
    checkpointed: int
    """`written` of the row that the latest complete checkpoint has moved into the main file; 0 before the first one."""
    written: int
    """How often this row was written: an older row has a lower number, and each row differs from the one before."""

    def checksum(self, runs: int, configurations: int) -> int:
        """Return the CRC-32 of this row, and of how many term runs and Configurations the log has."""
        return zlib.crc32(repr((*self, runs, configurations)).encode())


def connect(path: Path, query: str = "mode=rw") -> sqlite3.Connection:
    """Connect to the file at `path` without a change of the file. A missing file is not created.

    `query`: "mode=rw" reads and writes; "mode=ro" changes neither the log nor, at closing, the WAL; "immutable=1" reads
    the main file only, as if there were no WAL.
    """
    # isolation_level None: this code says where a transaction begins.
    connection = sqlite3.connect(
        f"{path.as_uri()}?{query}",
        timeout=PATIENCE_SECONDS,
        uri=True,
        isolation_level=None,
        check_same_thread=False,
    )
    try:
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA fullfsync = ON")  # macOS: a plain fsync stops at the disk's cache
        connection.execute("PRAGMA wal_autocheckpoint = 0")
        connection.execute("PRAGMA secure_delete = OFF")  # Debian's default would overwrite the truncated data
        connection.execute("PRAGMA cell_size_check = ON")
        connection.execute("PRAGMA cache_size = -8192")  # KiB: a whole group and the tree above it
    except BaseException:
        connection.close()
        raise
    return connection


def set_wal_mode(path: Path, connection: sqlite3.Connection) -> None:
    """Switch the database to the write-ahead log, if necessary. Raises `StorageError` when SQLite refuses."""
    (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
    if mode != "wal":
        raise StorageError(f"SQLite keeps no write-ahead log for {path}: put the file on a local disk")


def check_header(path: Path) -> None:
    """Check the header before SQLite opens the file, since SQLite might change another program's database.

    Raises `StorageError`.
    """
    start = private_files.read_start(path, _SQLITE_HEADER.size)
    if len(start) < _SQLITE_HEADER.size:
        raise damaged(path, f"it has only {len(start)} bytes")
    magic, version, application = _SQLITE_HEADER.unpack(start)
    if magic != b"SQLite format 3\0":
        raise damaged(path, "it is not an SQLite database")
    if application != APPLICATION_ID:
        raise StorageError(
            f"{path} is a database of another program and is left as it is: check which directory this node was given"
        )
    check_version(path, version)


def check_version(path: Path, version: int) -> None:
    """Raise `StorageError` for a format that this program cannot read, `DamagedError` for a format below 1."""
    if version < 1:
        raise damaged(path, f"it has the format {version}, which never existed")
    if version > SCHEMA_VERSION:
        raise StorageError(
            f"{path} was written by a newer gf-i2p (format {version}; this one knows {SCHEMA_VERSION}): install the "
            "newer version again"
        )
    if version < SCHEMA_VERSION:
        raise StorageError(
            f"{path} was written before gf-i2p 0.1.0 (format {version}; this program knows {SCHEMA_VERSION}). Nothing "
            f"was changed. Run the gf-i2p that wrote the file, or replace this server. {REJOIN}"
        )
