"""Packs the history's ended files while the exporter goes on: in a thread of its own, one file at a time.

Packing a large file takes most of a minute. Neither the exporter nor a stopping node waits for the packing.
"""

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from gf_i2p.storage.history_writer import History

AGAIN_SECONDS: Final = 60.0
"""Seconds between attempts after a failure."""


class Packing:
    """Packs files in the background. The event loop calls `on_end` after each attempt to pack, also after a failure."""

    def __init__(self, on_end: Callable[[], None]) -> None:
        self.error: OSError | None = None
        """Why the last attempt failed; None after a success, or before the first attempt."""
        self._on_end = on_end
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="packing")
        self._work: asyncio.Future[bool] | None = None
        self._interrupted = threading.Event()
        self._again_at = 0.0

    def go_on(self, history: History) -> None:
        """Take the result of an ended attempt, and begin the next one if a file is left to pack.

        Do nothing while an attempt is under way. After a failure, begin no attempt for `AGAIN_SECONDS`.
        """
        if self._work is not None:
            if not self._work.done():
                return
            work, self._work = self._work, None
            try:
                if work.result():
                    self.error = None
            except OSError as error:
                self.error = error
                self._again_at = time.monotonic() + AGAIN_SECONDS
        if not history.packable():
            self.error = None
        elif self.error is None or time.monotonic() >= self._again_at:
            self._interrupted = threading.Event()
            loop = asyncio.get_running_loop()
            self._work = loop.run_in_executor(self._thread, history.pack, self._interrupted.is_set)
            self._work.add_done_callback(lambda _: self._on_end())

    async def stop(self) -> None:
        """Leave the present file for later; return when no thread touches it any more."""
        self._interrupted.set()
        if self._work is not None:
            await asyncio.wait([self._work])

    async def close(self) -> None:
        """Stop the packing thread for good."""
        await self.stop()
        if self._work is not None:
            self._work.exception()  # marks the error as seen
        self._thread.shutdown()
