"""Reads files that people name or put in place: never waits for one that is no file, and never reads without end."""

import os
import stat
from pathlib import Path
from typing import Final

from gf_i2p.node.files.errors import ConfigError

MAX_BYTES: Final = 16 * 1024 * 1024
"""Of settings: far more than they need."""


def read_regular(path: Path, limit: int) -> tuple[bytes, os.stat_result]:
    """Return at most the first `limit` bytes of a regular file, and what it was then.

    Raises `ConfigError` when it cannot be read, or is something else: to open a pipe would wait for a writer.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        try:
            status = os.fstat(descriptor)
            _check_file(path, status)
            with os.fdopen(descriptor, "rb", closefd=False) as file:
                return file.read(limit), status
        finally:
            os.close(descriptor)
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}.") from error


def check_mode(path: Path, status: os.stat_result) -> None:
    """Refuse a secret that others on this machine can read or change, or what is no file; raises `ConfigError`."""
    _check_file(path, status)
    if stat.S_IMODE(status.st_mode) & 0o077:
        raise ConfigError(
            f"{path} can be read by others on this machine (is it the right file?). Run: chmod 600 {path}"
        )
    if status.st_uid not in {os.geteuid(), 0}:
        raise ConfigError(
            f"{path} belongs to another user, who could change it. Run as that user, or: chown {os.geteuid()} {path}"
        )


def _check_file(path: Path, status: os.stat_result) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise ConfigError(f"{path} cannot be read: Is a directory.")
    if not stat.S_ISREG(status.st_mode):
        raise ConfigError(
            f"{path} cannot be read: it is a pipe or a device. Copy what it gives into a file, and name that one."
        )
