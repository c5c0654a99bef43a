"""The parts that the administration API's server and clients share: the socket's address, limits, and messages."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from gf_i2p.wire.limits import MAX_ENTRIES_BYTES

ADDRESS_BYTES: Final = 107
"""Most bytes in the path of a Unix socket on Linux (unix(7))."""
_OPEN_FILES: Final = Path("/proc/self/fd")


@contextlib.contextmanager
def socket_address(path: Path) -> Iterator[str]:
    """Yield an address by which a socket at `path` can be bound or connected while the context is open.

    `path` may have any length. A path of more than `ADDRESS_BYTES` gets the address /proc/self/fd/N/FILE, through its
    open directory. Then `OSError` is raised when the directory does not exist, or when /proc is not mounted.
    """
    if len(os.fsencode(path)) <= ADDRESS_BYTES:
        yield str(path)
        return
    if not _OPEN_FILES.is_dir():
        raise OSError(
            f"{path} is longer than {ADDRESS_BYTES} bytes, too long for a socket without /proc: mount /proc, or "
            "use a directory with a shorter path"
        )
    directory = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield str(_OPEN_FILES / str(directory) / path.name)
    finally:
        os.close(directory)


MAX_POST_BYTES: Final = MAX_ENTRIES_BYTES // 2
"""Most bytes of the values of one post, in UTF-8."""
DEFAULT_TIMEOUT: Final = 30.0
"""Seconds that a post may take, unless the client asks for another time."""
MAX_TIMEOUT: Final = 3600.0
"""Most seconds that a client may ask for."""
MAX_WAIT: Final = 60.0
"""Most seconds that a question for entries may wait for the first of them."""
MAX_PAGE: Final = 1000
"""Most entries in one answer."""
MAX_REMOTE_PAGE_BYTES: Final = 64 << 10
"""Most bytes of entries in one answer to another machine, as for `MAX_PAGE_BYTES`. JSON may make them six times as
long."""
MAX_PAGE_BYTES: Final = 4 << 20
"""Most bytes of entries in one answer, as on the wire; a larger entry comes alone."""


NO_LEADER: Final = (
    "no server leads, as far as this server knows. Wait a moment: an election may be under way. If no election "
    "succeeds, start the servers that are down (`gf-i2p members list DIR` shows which). When a majority is gone for "
    "good, make a farm of one server that is left: `gf-i2p recover DIR`"
)
LAST_SERVER: Final = (
    "the last server cannot leave its farm: stop the node to end the farm. The node's directory keeps the log"
)
