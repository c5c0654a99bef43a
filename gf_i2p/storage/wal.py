"""The file of the write-ahead log (WAL) beside the main file, and whether it is still there.

Between two checkpoints the newest entries, term and vote stand in the WAL alone, so whoever loses it after a kill would
go on from an older log without noticing. Therefore the main file says, in `ServerRow.wal_bytes`, how long the WAL
beside it is at least; 0 after a clean close, when the main file needs no WAL. `Storage.open` accepts a WAL that is so
long or longer and begins like one, and refuses any other.

That never refuses a log that a kill or a power cut left. When the main file says so, such a WAL is on the disk:

- its length is synced with the first write to it, its name before that;
- what the main file says went through it: SQLite syncs the WAL's header before its first frame, and its frames before
  a checkpoint copies them into the main file;
- nothing shortens it, and only a clean close deletes it, after 0 was synced in the main file. SQLite would delete it
  whenever its last connection is closed, so the last one is read-only and cannot, except after a clean close. (A
  foreign program that opens a killed server's log for writing, as a sqlite3 shell does, still can.)

No frame is asked for, nor the right checksum in the header. After a checkpoint SQLite starts the WAL over: it writes a
new header over the old one, syncs it, and writes new frames over the old ones. A power cut there leaves a WAL without
any valid frame beside a main file that has everything; of the header, only the first bytes are always the same.
"""

import struct
from pathlib import Path
from typing import Final

from gf_i2p.storage import private_files
from gf_i2p.storage.errors import REJOIN, LostError

_START: Final = struct.Struct(">II")
_MAGIC: Final = 0x377F0682
"""The last bit is the byte order of its checksums (https://www.sqlite.org/fileformat2.html#walformat)."""
_VERSION: Final = 3007000


def path_of(database: Path) -> Path:
    """Where SQLite keeps the WAL of `database`."""
    return database.with_name(database.name + "-wal")


def usable_bytes(database: Path) -> int:
    """Length of the WAL; 0 when there is none, or SQLite would find nothing in it whatever follows its first bytes."""
    path = path_of(database)
    try:
        start = private_files.read_start(path, _START.size)
    except FileNotFoundError:
        return 0
    if len(start) < _START.size:
        return 0
    magic, version = _START.unpack(start)
    return path.stat().st_size if (magic & ~1, version) == (_MAGIC, _VERSION) else 0


def lost(database: Path, least: int) -> LostError:
    """Say that the WAL, which had at least `least` bytes, is not what it was."""
    path = path_of(database)
    if not path.exists():
        what = "is missing"
    elif (length := usable_bytes(database)) > 0:
        what = f"has only {length} of at least {least} bytes"
    else:
        what = "is not the one that was written"
    return LostError(
        f"{path} {what}, and {database.name} was not closed before: its newest entries, its term and its vote may "
        "stand in that file only. Nothing was changed. If the log was moved or copied, bring the whole directory as it "
        f"is where its node ended, with the {path.name} that belongs to it; an older one would have forgotten votes "
        f"and acknowledged entries. If it is really gone (a sqlite3 shell deletes it, too), the log is lost. {REJOIN}"
    )
