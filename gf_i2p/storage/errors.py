"""Errors of a log file, in sentences that tell the operator how to go on."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

# SQLite's primary result codes (the low byte of `sqlite_errorcode`).
_BUSY: Final = frozenset((sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL))
_DAMAGED: Final = frozenset((sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB))
_DENIED: Final = frozenset((sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM))
_START_AGAIN: Final = "start this node again"

REJOIN: Final = (
    "This server must not come back under its id: remove the server from the farm and add a new one, with a new id and "
    "a new, empty directory (`gf-i2p members remove … --force`, then `invite`). The other servers go on meanwhile. "
    "When the logs of all servers are lost, `gf-i2p snapshot restore` begins anew from a saved snapshot."
)
"""Advice to the operator of a server whose log is lost."""


class StorageError(Exception):
    """The log file cannot be used; `str()` says why and how to go on."""


class DamagedError(StorageError):
    """The log file does not hold the data that were written, or the file is not a log file at all."""


class LostError(StorageError):
    """The log file, or the WAL that belongs to the log, is missing."""


def damaged(path: Path, fault: str) -> DamagedError:
    """Return the error for a file whose content is not what this program wrote; `fault` names the difference."""
    # An older copy lacks votes and acknowledged entries: with such a copy the farm could commit two histories.
    return DamagedError(
        f"{path} is damaged: {fault}. Nothing was changed. Keep the file for examination and check the disk. Do not "
        f"put an older copy in its place: an older copy lacks votes and acknowledged entries. {REJOIN}"
    )


def unreadable(path: Path, fault: str) -> DamagedError:
    """Return the error for a file that SQLite calls damaged. SQLite says the same when a disk fails for a moment."""
    return DamagedError(
        f"{path} is damaged, or its disk failed to read ({fault}). Nothing was changed. Look into the system log for "
        "I/O errors, and start this node again. If this error comes again on a healthy disk, the log is lost: keep the "
        "file for examination, and do not put an older copy in its place (an older copy lacks votes and acknowledged "
        f"entries). {REJOIN}"
    )


def defect(fault: str) -> StorageError:
    """Return the error for a write that no correct server issues: a defect of this program."""
    return StorageError(
        f"{fault}: this is a defect of gf-i2p. Nothing was stored. Report the defect, and start this node again."
    )


def held_elsewhere(path: Path, reason: str) -> StorageError:
    """Return the error for a file that another program holds."""
    return StorageError(
        f"{path} is held by another program ({reason}): end that program (a sqlite3 shell, a backup), then start this "
        "node"
    )


def is_damage(error: sqlite3.Error) -> bool:
    """Return whether the error means damaged data. An error without a code does: sqlite3 could not decode a text."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in {0, *_DAMAGED}


def explained(path: Path, error: sqlite3.Error, then: str = _START_AGAIN) -> StorageError:
    """Return the `StorageError` that explains an error of SQLite to the operator of the log at `path`.

    `then`: the step after the operator has mended the disk.
    """
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in _DAMAGED:
        return unreadable(path, f"SQLite says: {error}")
    if code == sqlite3.SQLITE_FULL:
        return StorageError(f"the disk under {path} is full: free some space, then {then}")
    if code == sqlite3.SQLITE_IOERR:
        return StorageError(
            f"the disk under {path} failed ({error}): look into the system log and check disk and free space, "
            f"then {then}"
        )
    if code in _DENIED:
        return StorageError(
            f"{path} cannot be opened for reading and writing ({error}): the file, the files beside it (-wal, -shm, "
            "-lock) and the directory must belong to the user that runs this node"
        )
    if code in _BUSY:
        return held_elsewhere(path, str(error))
    return StorageError(f"{path} cannot be used: SQLite says: {error}")


@contextmanager
def explaining(path: Path, then: str = _START_AGAIN) -> Iterator[None]:
    """Turn each error of SQLite or of the file system into a `StorageError` that advises the operator.

    `then`: as for `explained`.
    """
    try:
        yield
    except sqlite3.Error as error:
        raise explained(path, error, then) from error
    except UnicodeDecodeError as error:  # from text of a damaged file, which sqlite3 decodes
        raise damaged(path, "it has text that is not UTF-8") from error
    except OSError as error:
        raise StorageError(
            f"{error.filename or path}: {error.strerror}. The directory must exist, have free space, and belong to the "
            "user that runs this node."
        ) from error
