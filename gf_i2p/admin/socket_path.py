"""A Unix socket's address holds 107 bytes; a node's directory may be deeper than that."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ADDRESS_BYTES: Final = 107
"""Linux takes no longer path for a Unix socket (unix(7))."""
_OPEN_FILES: Final = Path("/proc/self/fd")


@contextlib.contextmanager
def socket_address(path: Path) -> Iterator[str]:
    """Give a name of `path`, of any length, by which a socket can be bound or connected while the context is open.

    A long path is named through its open directory, as /proc/self/fd/N/FILE. Raises `OSError` when there is no such
    directory, or no /proc.
    """
    if len(os.fsencode(path)) <= ADDRESS_BYTES:
        yield str(path)
        return
    if not _OPEN_FILES.is_dir():
        raise OSError(
            f"{path} is longer than {ADDRESS_BYTES} bytes, too long for a socket where /proc is not mounted: mount it, "
            "or use a shorter directory"
        )
    directory = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield str(_OPEN_FILES / str(directory) / path.name)
    finally:
        os.close(directory)
