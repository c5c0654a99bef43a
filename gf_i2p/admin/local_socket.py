"""The common part of the administration API's server and clients: the socket's address, limits, and sentences."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ADDRESS_BYTES: Final = 107
"""Longest path of a Unix socket on Linux (unix(7))."""
_OPEN_FILES: Final = Path("/proc/self/fd")


@contextlib.contextmanager
def socket_address(path: Path) -> Iterator[str]:
    """Give a name for `path`, of any length, to bind or connect a socket while the context is open.

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


DEFAULT_TIMEOUT: Final = 30.0
"""Seconds that a post may take."""
MAX_TIMEOUT: Final = 3600.0
MAX_PAGE: Final = 1000
"""Entries in one answer."""
MAX_PAGE_BYTES: Final = 4 << 20
"""Bytes of entries in one answer, as on the wire; one larger entry comes alone."""


NO_LEADER: Final = (
    "no server leads, as far as this server knows. Wait a moment: an election may be under way. If no election "
    "succeeds, start the servers that are down (`gf-i2p members list DIR` shows which). When a majority is gone for "
    "good, make a farm of one server that is left: `gf-i2p recover DIR`"
)
LAST_SERVER: Final = (
    "the last server cannot leave its farm: stop it, and the farm has ended. Its directory keeps the log"
)
