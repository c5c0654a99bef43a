"""Changes of a directory's files: one command at a time, and each change done whole or not at all."""

import contextlib
import os
import secrets as randomness
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from gf_i2p.node.files.checked_read import ConfigError, check_not_root
from gf_i2p.node.files.file_names import FILES_LOCK
from gf_i2p.storage.private_files import lock_within, sync_directory, sync_file, write_private

PATIENCE_SECONDS: Final = 10.0
"""Seconds that a command waits for the lock while another command holds it; most changes take milliseconds."""
_RANDOM_END: Final = "[0-9a-f]" * 16
"""Pattern for the end of a temporary file's name."""


@contextlib.contextmanager
def changing(directory: Path, *, seconds: float = PATIENCE_SECONDS) -> Iterator[None]:
    """Lock a node's directory for one command: enter before reading its files, leave after replacing them.

    Waits up to `seconds` for the lock. Raises `ConfigError` when another command still holds the lock, or when the
    directory cannot be written to, or root would write into a directory of another user. The lock is not reentrant. The
    lock ends with the process at the latest. A missing directory is not locked: the reader of its files will report
    that.
    """
    check_not_root(directory)
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
    try:
        has_lock = lock_within(descriptor, seconds)
    except OSError as error:
        raise ConfigError(
            f"{directory / FILES_LOCK} cannot be locked ({error.strerror}): keep the directory on a local disk. "
            "Nothing was changed."
        ) from error
    if not has_lock:
        pid = os.pread(descriptor, 32, 0).decode("ascii", "replace").strip()
        raise ConfigError(
            f"another command (process {pid or 'unknown'}) has been changing the files in {directory} for "
            f"{seconds:g} s. Nothing was changed: try again when it has ended."
        )


@contextlib.contextmanager
def all_or_nothing(into: Path) -> Iterator[list[Path]]:
    """Make the directory `into` if it is missing, and yield a list for the paths that the caller creates.

    On an error, all paths in the list are removed, and so is `into` if it was made here. The list must not name paths
    that existed before. Raises `ConfigError` when root would write into a directory of another user.
    """
    check_not_root(into)
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


def replace_files(directory: Path, texts: Mapping[str, str], backup: Path | None = None) -> None:
    """Replace the files by these texts, in this order; each file is replaced whole or not at all.

    `backup` gets a copy of each old file. All new files are on the disk before the first is replaced. The caller must
    have locked the directory (`changing`) before the old files were read. Raises `OSError`, and `ConfigError` when the
    files are replaced, but perhaps not durably.
    """
    new_files: dict[str, Path] = {}
    try:
        for name, text in texts.items():
            path = directory / name
            if backup is not None:
                shutil.copy2(path, backup / name)
                sync_file(backup / name)
            for stale in directory.glob(f"{name}-new-{_RANDOM_END}"):  # left by a command that was killed
                stale.unlink(missing_ok=True)
            new_file = directory / f"{name}-new-{randomness.token_hex(8)}"
            write_private(new_file, text)
            new_files[name] = new_file
            new_file.chmod(path.stat().st_mode & 0o777)
            sync_file(new_file)
        if backup is not None:
            sync_directory(backup)
        for name, new_file in new_files.items():
            new_file.replace(directory / name)
    finally:
        for new_file in new_files.values():
            new_file.unlink(missing_ok=True)
    try:
        sync_directory(directory)
    except OSError as error:  # no caller may say that nothing was changed
        raise ConfigError(
            f"files in {directory} were changed, and the disk does not confirm the change ({error.strerror}): check "
            "the disk, then see whether the change is there"
        ) from error


def free_path(directory: Path, name: str) -> Path:
    """Return a path in `directory` that does not exist: `name`, or `name` with a number.

    A name with the time in seconds is not enough: two commands may run within one second.
    """
    path, number = directory / name, 1
    while path.exists():
        number += 1
        path = directory / f"{name}-{number}"
    return path
