"""Packs the history's ended files beside the writing: in a thread of the history process, one file at a time.

Packing a large file takes some seconds of a processor. Neither the writing nor a stop waits for the packing. While
entries come in, packing takes a tenth of a core at most: the processor is for the entries.
"""

import threading
import time
from collections.abc import Callable
from typing import Final

from gf_i2p.storage.history_writer import History

AGAIN_SECONDS: Final = 60.0
"""Seconds between attempts after a failure."""
BUSY_SECONDS: Final = 2.0
"""The farm counts as busy for so long after an entry."""
BUSY_SHARE: Final = 0.1
"""Most cores that packing takes while the farm is busy."""


class Packing:
    """Packs the files of one history, when `wake` says that there are some.

    `tell` is called in the thread, with the error when packing fails, and with None when packing goes on.
    """

    def __init__(self, history: History, tell: Callable[[OSError | None], None]) -> None:
        self._history = history
        self._tell = tell
        self._failed = False
        self._pace = Pace()
        self._work = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="packing")
        self._thread.start()

    def note_entries(self) -> None:
        """Note that entries have come in."""
        self._pace.note_entries()

    def wake(self) -> None:
        """Pack what is left to pack."""
        if self._history.packable() and not self._failed:
            self._work.set()

    def stop(self) -> None:
        """Leave the present file for the next start; return when the thread has ended."""
        self._stopping.set()
        self._work.set()
        self._thread.join()

    def _run(self) -> None:
        while True:
            self._work.wait(AGAIN_SECONDS if self._failed else None)
            self._work.clear()
            if self._stopping.is_set():
                return
            try:
                self._history.pack(self._interrupted)
            except OSError as error:
                self._failed = True
                self._tell(error)
            else:
                if self._failed:
                    self._failed = False
                    self._tell(None)

    def _interrupted(self) -> bool:
        """Pause between two pieces of a file as the pace demands; return whether to give up."""
        return self._stopping.wait(self._pace.pause())


class Pace:
    """The pauses that keep one thread's share of a core at `BUSY_SHARE` while the farm is busy."""

    def __init__(self) -> None:
        self._busy_until = 0.0
        self._used = 0.0

    def note_entries(self) -> None:
        """Note that entries have come in. Any thread may call this."""
        self._busy_until = time.monotonic() + BUSY_SECONDS

    def pause(self) -> float:
        """Return the seconds to pause, for the work of the calling thread since the last call."""
        used, self._used = self._used, time.thread_time()
        if time.monotonic() >= self._busy_until:
            return 0.0
        return (self._used - used) * (1 / BUSY_SHARE - 1)
