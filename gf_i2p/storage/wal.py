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
newest beginning of the WAL. SQLite numbers the WALs of a file, one more at each start-over. `check_number` compares
this number with `ServerRow.wal_number`. The row also counts its writes, so the main file alone tells when the WAL has
an older row (`loading.main_file_row`). `wal_frames` looks for a hole between the frames.
"""

import struct
from pathlib import Path
from typing import Final, NamedTuple

from gf_i2p.storage import private_files
from gf_i2p.storage.errors import REJOIN, DamagedError, LostError, damaged

_START: Final = struct.Struct(">II4xI")
_MAGIC: Final = 0x377F0682
"""The last bit is the byte order of the checksums (https://www.sqlite.org/fileformat2.html#walformat)."""
_VERSION: Final = 3007000


class WalFile(NamedTuple):
    """The facts at the beginning of a WAL."""

    bytes: int
    """Length of the WAL; 0 without a WAL, or when its first bytes are not a header that SQLite accepts."""
    number: int
    """SQLite's checkpoint sequence number: 0 in a new WAL, one more at each start-over, modulo 2^32."""


NONE: Final = WalFile(0, 0)


def wal_path(database: Path) -> Path:
    """Return the path where SQLite keeps the WAL of `database`."""
    return database.with_name(database.name + "-wal")


def wal_file(database: Path) -> WalFile:
    """Read the beginning of the WAL; return `NONE` for a WAL that SQLite would not use."""
    path = wal_path(database)
    try:
        start = private_files.read_start(path, _START.size)
    except FileNotFoundError:
        return NONE
    if len(start) < _START.size:
        return NONE
    magic, version, number = _START.unpack(start)
    return WalFile(path.stat().st_size, number) if (magic & ~1, version) == (_MAGIC, _VERSION) else NONE


def check_number(database: Path, number: int, stored: int) -> None:
    """Raise `DamagedError` unless a WAL with this number can stand beside a log that has stored the number `stored`.

    `stored`: the number in the main file, where the latest checkpoint has put the number of its WAL. After a checkpoint
    the WAL starts over once at most. So the number is the stored one or the next one. A lower number is an older WAL. A
    higher number means that the main file has lost a checkpoint, and that the WAL has no copy of it any more.
    """
    ahead = (number - stored) & 0xFFFFFFFF
    if ahead > 1:
        raise older(database) if ahead >> 31 else _older(database, database, wal_path(database))


def older(database: Path) -> DamagedError:
    """Return the error for a WAL that is older than the main file."""
    return _older(database, wal_path(database), database)


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
    elif (length := wal_file(database).bytes) > 0:
        state = f"has only {length} of at least {least_bytes} bytes"
    else:
        state = "has no WAL header"
    return LostError(
        f"{path} {state}, and {database.name} was not closed cleanly: the newest entries, the term and the vote may be "
        f"only in {path.name}. Nothing was changed. If the log was moved or copied, bring the whole directory, with "
        f"{path.name}, from where the node last ran. Do not use an older {path.name}: it lacks votes and acknowledged "
        f"entries. If the file is really gone (a sqlite3 shell deletes it, too), the log is lost. {REJOIN}"
    )
