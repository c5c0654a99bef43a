"""The file of the write-ahead log (WAL) beside the main file, and the check that the WAL was not lost.

Between two checkpoints only the WAL has the newest entries, term and vote. A server that loses the WAL after a kill
would go on from an older log without noticing. Therefore the main file tells, in `ServerRow.wal_bytes`, the least
length of the WAL; 0 after a clean close, when the main file needs no WAL. `Storage.open` accepts a file of at least
that length with the header of a WAL, and refuses any other file.

`Storage.open` never refuses a log because of a kill or a power cut. When the main file tells a length, a WAL of that
length is on the disk:

- the WAL's length is synced with its first write, and its name before that;
- the length reached the main file through the WAL: SQLite syncs the WAL's header before its first frame, and its frames
  before a checkpoint copies these into the main file;
- nothing shortens the WAL, and only a clean close deletes it, after 0 was synced in the main file. SQLite would delete
  the WAL whenever its last connection is closed. So the last connection is read-only, which cannot delete the WAL,
  except after a clean close. (A foreign program that opens a killed server's log for writing, as a sqlite3 shell does,
  still can delete the WAL.)

The check asks for no frame. After a checkpoint SQLite starts the WAL over: it writes a new header over the old one,
syncs the header, and writes new frames over the old ones. A power cut there leaves a WAL without any valid frame beside
a complete main file.

A WAL of the right length may still be the wrong one: a disk that lies about a sync loses the newest checkpoint, or the
newest beginning of the WAL. `ServerRow` counts how often it was written, and remembers the count that the latest
checkpoint has moved into the main file. The row is the first transaction of every WAL that starts over. So `check_ages`
sees which of the two files is older than the other. A WAL that has a header and no frame yet tells by the header's
salt: the row in the main file knows the salt of the WAL before. `wal_frames` looks for a hole between the frames.

SQLite numbers the WALs of a file, too. This number does not help: each connection counts for itself, and begins again
at 1 after a kill.
"""

import struct
from pathlib import Path
from typing import Final

from gf_i2p.storage import private_files
from gf_i2p.storage.errors import REJOIN, DamagedError, LostError, damaged
from gf_i2p.storage.schema import ServerRow

_START: Final = struct.Struct(">II")
HEADER_BYTES: Final = 32
_MAGIC: Final = 0x377F0682
"""The last bit is the byte order of the checksums (https://www.sqlite.org/fileformat2.html#walformat)."""
_VERSION: Final = 3007000
_SALT: Final = slice(16, 20)
_LOST_AT_MOST: Final = 1000
"""Most lost checkpoints that the salt tells. A higher number would make a refusal by a new, random salt likelier."""


def wal_path(database: Path) -> Path:
    """Return the path where SQLite keeps the WAL of `database`."""
    return database.with_name(database.name + "-wal")


def header(database: Path) -> bytes:
    """Return the WAL's header, which is another one after each start-over; fewer bytes when the WAL is shorter."""
    try:
        return private_files.read_start(wal_path(database), HEADER_BYTES)
    except FileNotFoundError:
        return b""


def usable_bytes(database: Path) -> int:
    """Return the length of the WAL; 0 without a WAL, or when its first bytes are not a header that SQLite accepts."""
    start = header(database)[: _START.size]
    if len(start) < _START.size:
        return 0
    magic, version = _START.unpack(start)
    return wal_path(database).stat().st_size if (magic & ~1, version) == (_MAGIC, _VERSION) else 0


def salt(database: Path) -> int:
    """Return the first salt in the WAL's header; 0 without such a header. A new WAL has a random salt."""
    start = header(database)
    return int.from_bytes(start[_SALT], "big") if len(start) == HEADER_BYTES else 0


def check_ages(database: Path, row: ServerRow, main: ServerRow) -> None:
    """Raise `DamagedError` when one of the two files is older than the other.

    `row`: the server's row as SQLite reads it, with the WAL. `main`: the row in the main file alone. A checkpoint that
    was interrupted may have moved any row since the latest complete checkpoint.
    """
    # Only a complete checkpoint lets the WAL start over. The checkpoint's row names the salt before that.
    starts = (salt(database) - main.wal_salt) & 0xFFFFFFFF
    if row == main and main.wal_salt and 2 <= starts <= _LOST_AT_MOST:
        raise _older(database, database, wal_path(database))
    if main.written > row.written:
        raise _older(database, wal_path(database), database)
    if main.written < row.checkpointed:
        raise _older(database, database, wal_path(database))


def _older(database: Path, one: Path, other: Path) -> DamagedError:
    return damaged(
        database,
        f"{one.name} is older than {other.name}. One of the two was copied, or the disk has lost writes that it had "
        "reported as done",
    )


def lost(database: Path, least_bytes: int) -> LostError:
    """Return the error for a WAL that had at least `least_bytes` bytes, and is missing or shorter now."""
    path = wal_path(database)
    if not path.exists():
        state = "is missing"
    elif (length := usable_bytes(database)) > 0:
        state = f"has only {length} of at least {least_bytes} bytes"
    else:
        state = "has no WAL header"
    return LostError(
        f"{path} {state}, and {database.name} was not closed cleanly: the newest entries, the term and the vote may be "
        f"only in {path.name}. Nothing was changed. If the log was moved or copied, bring the whole directory, with "
        f"{path.name}, from where the node last ran. Do not use an older {path.name}: it lacks votes and acknowledged "
        f"entries. If the file is really gone (a sqlite3 shell deletes it, too), the log is lost. {REJOIN}"
    )
