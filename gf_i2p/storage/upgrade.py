"""Version 1 of the file, which knew no snapshots: its log began at index 1. It is read, and made version 2."""

import sqlite3
import zlib
from typing import Final

from gf_i2p.storage.schema import INSERT_SERVER, SCHEMA_VERSION, SNAPSHOT_TABLES, TABLES, ServerRow

TABLES_1: Final = (
    """CREATE TABLE server (
    cluster TEXT NOT NULL, id INTEGER NOT NULL, term INTEGER NOT NULL, vote INTEGER NOT NULL,
    last_index INTEGER NOT NULL, wal_bytes INTEGER NOT NULL, openings INTEGER NOT NULL,
    checksum INTEGER NOT NULL
)""",
    *TABLES[1:4],
)
"""Only `server` was another one, and there was no snapshot."""

SERVER_1: Final = """
SELECT cluster, id, term, vote, last_index, 0, 0, wal_bytes, openings, checksum FROM server
"""


def version_of(connection: sqlite3.Connection) -> int:
    """Return the version, as the WAL has it: the main file's header may still have an older one."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    return int(version)


def checksum_1(row: ServerRow, runs: int, configurations: int) -> int:
    """Checksum of the row in version 1, which had no base."""
    values = (*row[:5], row.wal_bytes, row.openings)
    return zlib.crc32(repr((*values, runs, configurations)).encode())


def upgrade(connection: sqlite3.Connection) -> None:
    """Make a file of version 1 that was found sound one of this version, in one transaction."""
    if version_of(connection) == SCHEMA_VERSION:
        return
    execute = connection.execute
    execute("BEGIN IMMEDIATE")
    *values, _ = execute(SERVER_1).fetchone()
    row = ServerRow(*values)
    (runs,) = execute("SELECT count(*) FROM term_run").fetchone()
    (configurations,) = execute("SELECT count(*) FROM configuration").fetchone()
    execute("DROP TABLE server")
    for statement in (TABLES[0], *SNAPSHOT_TABLES.values()):
        execute(statement)
    execute(INSERT_SERVER, (*row, row.checksum(runs, configurations)))
    execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
    execute("COMMIT")
