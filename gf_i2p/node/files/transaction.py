"""Changes of a directory's files: one command at a time, and each change done whole or not at all."""

import contextlib
import fcntl
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from gf_i2p.node.files.checked_read import ConfigError
from gf_i2p.node.files.layout import FILES_LOCK

PATIENCE_SECONDS: Final = 10.0
"""Seconds that a command waits for the lock while another command holds it; most changes take milliseconds."""
_POLL_SECONDS: Final = 0.02


@contextlib.contextmanager
def changing(directory: Path, *, seconds: float = PATIENCE_SECONDS) -> Iterator[None]:
    """Lock a node's directory for one command: enter before reading its files, leave after replacing them.

    Waits up to `seconds` for the lock. Raises `ConfigError` when another command still holds the lock, or when the
    directory cannot be written to. The lock is not reentrant. The lock ends with the process at the latest. A missing
    directory is not locked: the reader of its files will report that.
    """
    path = directory / FILES_LOCK
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW, 0o600)
    except (FileNotFoundError, NotADirectoryError):
        yield
        return
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be opened ({error.strerror}): run this as the user that runs the node, in a directory "
            "that can be written to. Nothing was changed."
        ) from error
    try:
        _lock(descriptor, directory, seconds)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, b"%d\n" % os.getpid(), 0)
        yield
    finally:
        os.close(descriptor)


def _lock(descriptor: int, directory: Path, seconds: float) -> None:
    end = time.monotonic() + seconds
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() < end:
                time.sleep(_POLL_SECONDS)
                continue
            pid = os.pread(descriptor, 32, 0).decode("ascii", "replace").strip()
            raise ConfigError(
                f"another command (process {pid or 'unknown'}) has been changing the files in {directory} for "
                f"{seconds:g} s. Nothing was changed: try again when it has ended."
            ) from None
        except OSError as error:
            raise ConfigError(
                f"{directory / FILES_LOCK} cannot be locked ({error.strerror}): keep the directory on a local disk. "
                "Nothing was changed."
            ) from error
        return


@contextlib.contextmanager
def all_or_nothing(into: Path) -> Iterator[list[Path]]:
    """Make the directory `into` if it is missing, and give a list for the paths that the caller creates.

    On an error, all paths in the list are removed, and so is `into` if it was made here. The list must not name paths
    that existed before.
    """
    absolute = into.absolute()
    new_directories = [parent for parent in (absolute, *absolute.parents) if not parent.exists()]
    new_paths: list[Path] = []
    try:
        into.mkdir(parents=True, exist_ok=True)
        yield new_paths
    except BaseException:
        for path in new_paths:
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # another process may have put a file there
            for parent in new_directories:
                parent.rmdir()
        raise
