"""Writes files that only their owner can read, makes files and their names durable, and locks a database."""

import errno
import fcntl
import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from secrets import token_hex
from typing import Final

from gf_i2p.storage.errors import StorageError
from gf_i2p.storage.ownership import why_not_root

_POLL_SECONDS: Final = 0.02
_ZEROS: Final = bytes(1 << 20)
_LOCK_FLAGS: Final = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
"""A lock is a file of its own. A link could name the lock of another database, and a pipe would wait for a reader."""
_RUN: Final = token_hex(8)
"""Tells this run of the program from other runs: in a container each run has the same process id."""


def sync_directory(directory: Path) -> None:
    """Make the names in `directory` durable: a new or renamed file is durable only when this function returns."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_file(path: Path) -> None:
    """Make the content of `path` durable."""
    descriptor = os.open(path, os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def create_private(path: Path) -> None:
    """Create `path` with mode 0600, empty. Raises `FileExistsError`."""
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))


def write_private(path: Path, content: str | bytes) -> None:
    """Write a new file that no other user could ever read. An error leaves no file behind. Raises `OSError`."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content.encode("utf-8") if isinstance(content, str) else content)
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def write_durably(path: Path, data: bytes, *, force: bool) -> None:
    """Write a new file with mode 0600, all or nothing. On return the file is on the disk.

    `force`: replace an existing file. Raises `FileExistsError` without `force`, and `OSError`; both name `path`.
    """
    try:
        _write(path, data, force=force)
    except OSError as error:  # names the temporary file, which means nothing to the caller
        raise OSError(error.errno, error.strerror, str(path)) from error


def _write(path: Path, data: bytes, *, force: bool) -> None:
    if not force and os.path.lexists(path):
        raise FileExistsError(17, "it exists already", str(path))
    draft = path.with_name(f".{path.name}.{token_hex(8)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if not force:
            _reserve(path, draft)
        draft.replace(path)
        sync_directory(path.absolute().parent)
    finally:
        with suppress(FileNotFoundError):
            draft.unlink()


def _reserve(path: Path, draft: Path) -> None:
    """Create the name `path`, as a link to `draft` or as an empty file.

    Raises `FileExistsError` when another process has created the name meanwhile.
    """
    try:
        os.link(draft, path)
    except FileExistsError:
        raise
    except OSError:  # many file systems for backups have no hard links
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))


def lengthen(path: Path, size: int) -> int:
    """Append zeros until `path` has at least `size` bytes on the disk; create a missing file. Return the length."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        if (length := os.fstat(descriptor).st_size) >= size:
            return length
        while length < size:
            length += os.write(descriptor, memoryview(_ZEROS)[: size - length])
        os.fsync(descriptor)
        return length
    finally:
        os.close(descriptor)


def clear(path: Path, offset: int) -> None:
    """Overwrite all bytes from `offset` on by zeros, without a sync.

    The bytes before `offset` are first written anew and synced. Linux takes them for written even when a sync of an
    earlier process has failed.
    """
    descriptor = os.open(path, os.O_RDWR)
    try:
        os.pwrite(descriptor, os.pread(descriptor, offset, 0), 0)
        os.fsync(descriptor)
        length = os.fstat(descriptor).st_size
        while offset < length:
            offset += os.pwrite(descriptor, memoryview(_ZEROS)[: length - offset], offset)
    finally:
        os.close(descriptor)


def read_start(path: Path, size: int) -> bytes:
    """Return the first `size` bytes of `path`, fewer when the file is shorter."""
    with path.open("rb") as file:
        return file.read(size)


def lock_within(descriptor: int, seconds: float, *, give_up: Callable[[], None] = lambda: None) -> bool:
    """Wait up to `seconds` for an exclusive lock of an open file or directory; return whether this process has it now.

    `give_up` is called between two attempts, and may raise an error that ends the wait. Raises `OSError` where the file
    system has no locks.
    """
    until = time.monotonic() + seconds
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            give_up()
            if time.monotonic() >= until:
                return False
            time.sleep(_POLL_SECONDS)  # a system call that waits for the lock has no time limit
        else:
            return True


def holder(database: Path) -> str | None:
    """Return the process id, or "unknown", of the process that holds a database's `Lock`; None: no process does."""
    run = holding_run(database)
    return None if run is None else run.split()[0]


def holding_run(database: Path) -> str | None:
    """Return a text that identifies the run of a program that holds a database's `Lock`; None: no process holds it.

    The text has the process id and a random token. Older versions write the process id alone. Raises `StorageError`
    when the lock is a link, and when root asks about a database of another user.
    """
    path = _lock_of(database)
    try:
        descriptor = os.open(path, os.O_RDONLY | _LOCK_FLAGS)
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise StorageError(_lock_is_a_link(path)) from error
        raise
    try:
        # The lock is released at once: a node that starts now needs the lock.
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _run_in(descriptor)
    finally:
        os.close(descriptor)
    return None


class Lock:
    """Exclusive use of a database, from construction to `close()` or to the end of the process.

    The lock is on a file of its own, `<name>-lock`. A process loses SQLite's locks on the database when the process
    closes *any* descriptor of the database. So no other code may open the database while SQLite has it open.

    Raises `StorageError` when another process has the lock, or the file cannot be locked, also because the lock is a
    link, or root asks for the lock of another user.
    """

    def __init__(self, database: Path) -> None:
        path = _lock_of(database)
        try:
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | _LOCK_FLAGS, 0o600)
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise StorageError(_lock_is_a_link(path)) from error
            raise StorageError(
                f"{path} cannot be created or opened ({error.strerror}): its directory must exist and belong to the "
                "user that runs this node"
            ) from error
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(self._descriptor, 0)
            os.pwrite(self._descriptor, f"{os.getpid()} {_RUN}\n".encode(), 0)
        except BlockingIOError:
            process = _run_in(self._descriptor).split()[0]
            os.close(self._descriptor)
            raise StorageError(
                f"{database} is in use by process {process}: two nodes must never share one log. "
                "Stop that process, or give this node a directory of its own."
            ) from None
        except OSError as error:
            os.close(self._descriptor)
            raise StorageError(
                f"{path} cannot be locked ({error.strerror}): keep the log on a local disk with free space"
            ) from error

    def close(self) -> None:
        """Release the lock, so that another process may take the lock."""
        os.close(self._descriptor)


def _run_in(descriptor: int) -> str:
    """Return the text in a lock file: the process id, then the token that newer versions add. No text: "unknown"."""
    return os.pread(descriptor, 64, 0).decode("ascii", "replace").strip() or "unknown"


def _lock_of(database: Path) -> Path:
    """Return the path of a database's lock. A database that is a link has its lock beside the file that the link names.

    Raises `StorageError` when root would lock in a directory of another user, or would follow a link from there.
    """
    real = database.resolve()
    for place in (database, real):
        if (objection := why_not_root(place.parent)) is not None:
            raise StorageError(objection)
    return real.with_name(real.name + "-lock")


def _lock_is_a_link(path: Path) -> str:
    return f"{path} is a link, and a lock must be a file of its own: remove the link, if no node of this log runs"
