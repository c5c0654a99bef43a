"""Measures the bytes that a node's log and history use on the disk, and compares them with the operator's budget."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import structlog
from structlog.contextvars import get_contextvars

CHECK_SECONDS: Final = 5.0
"""Seconds between two looks at the disk."""
MAKE_ROOM: Final = (
    "move packed files out of history/, the oldest first, or raise history.max_mib, or set history.when_full = "
    '"remove", and restart the node'
)
"""Advice for the operator."""


class DiskUse:
    """Measures the used bytes every `CHECK_SECONDS`. While the budget is used up, clients' posts are to be refused."""

    def __init__(self, database: Path, history: Path, budget: int) -> None:
        """`database`: the log's SQLite file; its files `-wal` and `-shm` count, too. `history`: a directory.

        `budget`: bytes; 0: no limit.
        """
        self._database = database
        self._history = history
        self.budget = budget
        """Bytes; 0: no limit."""
        self.used = measure(database, history)
        """Bytes at the last look."""
        self._log = structlog.get_logger(__name__).bind(**get_contextvars())

    @property
    def full(self) -> str | None:
        """Why clients' posts are to be refused, and what the operator can do; None while there is room."""
        if not self.budget or self.used < self.budget:
            return None
        return (
            f"log and history use {self.used >> 20} of {self.budget >> 20} MiB, so clients' posts are refused: "
            f"{MAKE_ROOM}"
        )

    async def run(self) -> None:
        """Look at the disk until cancelled, and log when the budget is used up and when there is room again."""
        was_full = False
        while True:
            self.used = await asyncio.to_thread(measure, self._database, self._history)
            why = self.full
            if why is not None and not was_full:
                self._log.error("the disk budget is used up, the farm goes on", reason=why)
            elif why is None and was_full:
                self._log.info("there is room in the disk budget again")
            was_full = why is not None
            await asyncio.sleep(CHECK_SECONDS)


def measure(database: Path, history: Path) -> int:
    """Return the bytes that the files of the log and of the history use together. A missing file counts as 0."""
    try:
        exported = tuple(history.iterdir())
    except OSError:  # no history, or moved away
        exported = ()
    return sum(map(_size, (*_beside(database), *exported)))


def _beside(database: Path) -> Sequence[Path]:
    return tuple(database.with_name(database.name + suffix) for suffix in ("", "-wal", "-shm"))


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0  # removed meanwhile: packing removes each file that is packed
