"""Packs what the history has ended, beside the exporter: in a thread of its own, one file at a time.

Packing a large file takes most of a minute, and neither exporting nor who stops the node is to wait for it.
"""

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from gf_i2p.storage.history_writer import History

AGAIN_SECONDS: Final = 60.0
"""Between attempts at what has failed."""


class Packing:
    """What is being packed, if anything. `on_end` is called in the loop when that has ended, or failed."""

    def __init__(self, on_end: Callable[[], None]) -> None:
        self.error: OSError | None = None
        """Why the last attempt failed; None: it did not."""
        self._on_end = on_end
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="packing")
        self._work: asyncio.Future[bool] | None = None
        self._interrupted = threading.Event()
        self._again_at = 0.0

    def go_on(self, history: History) -> None:
        """Take note of what has ended, and begin with what there is to pack, unless that has failed a moment ago."""
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
        """Leave what is being packed for later, and return when nobody touches it any more."""
        self._interrupted.set()
        if self._work is not None:
            await asyncio.wait([self._work])

    async def close(self) -> None:
        """Stop for good."""
        await self.stop()
        if self._work is not None:
            self._work.exception()  # nobody asks any more
        self._thread.shutdown()
