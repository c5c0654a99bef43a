"""Says what to do about a full or read-only disk, to a person whose command writes there."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from gf_i2p.cli.shared.errors import CommandError

_FAULTS: Final = {
    errno.ENOSPC: ("is full", "free some space"),
    errno.EDQUOT: ("has no room left in this user's quota", "free some space, or raise the quota"),
    errno.EROFS: ("is mounted read-only", "mount it for writing, or name a place on another disk"),
}
"""For each error that says so: the fault and the next step."""


def disk_fault(error: OSError, place: Path | None = None, *, unchanged: bool = False) -> str | None:
    """Return the sentence about a disk that takes no data; None for another error.

    `place`: where the command writes. The error of a failed write names no file. `unchanged`: nothing was changed.
    """
    if error.errno not in _FAULTS:
        return None
    fault, step = _FAULTS[error.errno]
    if isinstance(error.filename, str):
        place = Path(error.filename).absolute().parent  # the file itself may be a draft, which means nothing
    disk = "the disk" if place is None else f"the disk under {place}"
    return f"{disk} {fault}{'. Nothing was changed' if unchanged else ''}: {step}, then repeat the command"


@contextmanager
def all_or_nothing_on(place: Path) -> Iterator[None]:
    """Say of a full or read-only disk that nothing was changed: only for code that changes all or nothing below it."""
    try:
        yield
    except OSError as error:
        if (fault := disk_fault(error, place, unchanged=True)) is None:
            raise
        raise CommandError(fault) from error
