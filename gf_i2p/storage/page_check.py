"""The check that all pages of a log file fit each other.

SQLite's pages have no checksum. A page that came back from an earlier time looks sound by itself, but rarely fits the
others: a tree may point to a page that another tree has, too, or an index may stand out of order. The worst such page
is the first, which lists the free pages. SQLite would write new rows over rows that it believes to be free.
"""

import re
import sqlite3
from pathlib import Path
from typing import Final

from gf_i2p.storage.errors import StorageError, damaged, is_damage
from gf_i2p.storage.schema import DAMAGED_PREFIX, LOG_TABLES, SNAPSHOT_TABLES

_CODE: Final = re.compile(r"error code=(\d+)")


def check_pages(path: Path, connection: sqlite3.Connection) -> str | None:
    """Raise `DamagedError` when pages contradict each other; return a sentence when only the snapshot's pages do.

    A damaged snapshot that was set aside (see `stored_snapshot`) hides a wrong list of free pages: nobody can tell
    which of the two is wrong.
    """
    fault = _fault(path, connection, "")
    if fault is None:
        return None
    for name in LOG_TABLES:
        if (inner := _fault(path, connection, f"'{name}'")) is not None:
            raise damaged(path, f"the pages of the table {name} contradict each other ({inner})")
    for name in SNAPSHOT_TABLES:
        if _fault(path, connection, f"'{name}'") is not None:
            return "its pages contradict each other"
    aside = connection.execute("SELECT 1 FROM sqlite_master WHERE name GLOB ?", (DAMAGED_PREFIX + "*",)).fetchone()
    if aside is None:
        raise damaged(path, f"its pages contradict each other ({fault})")
    return None


def _fault(path: Path, connection: sqlite3.Connection, table: str) -> str | None:
    """Return the first contradiction that SQLite finds in one table, or, without a name, in the whole file.

    Raises `StorageError` when a page could not be read: only SQLite's sentence tells such a failure from damage.
    """
    try:
        (found,) = connection.execute(f"PRAGMA quick_check({table or 1})").fetchone()
    except sqlite3.Error as error:
        if not is_damage(error):
            raise
        return str(error)
    if found == "ok":
        return None
    fault = " ".join(str(found).split())
    code = _CODE.search(fault)
    if "failed to get page" in fault or (code is not None and int(code[1]) & 0xFF == sqlite3.SQLITE_IOERR):
        raise StorageError(
            f"the disk under {path} failed ({fault}): look into the system log and check the disk, then start this "
            "node again"
        )
    return fault
