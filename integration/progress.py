"""Steps on a terminal: what is being waited for, for how long, and what was seen."""

import shutil
import sys
import time
from collections.abc import Callable
from typing import Final, TextIO

_MARKS: Final = "|/-\\"


class Progress:
    """One line a step. On a terminal the present one is redrawn by `tick`; elsewhere a line comes when it is over."""

    def __init__(self, stream: TextIO = sys.stdout, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream
        self._clock = clock
        self._began = clock()
        self._live = stream.isatty()
        self._doing: str | None = None
        self._since = self._began
        self._ticks = 0

    @property
    def seconds(self) -> float:
        """Since the start."""
        return self._clock() - self._began

    def doing(self, what: str) -> None:
        """Begin a step, or say more of the present one."""
        if self._doing is None:
            self._since = self._clock()
        self._doing = what
        self.tick()

    def done(self, what: str) -> None:
        """End the step: this was seen."""
        self._clear()
        self._doing = None
        print(f"{self.seconds:6.1f} s  {what}", file=self._stream, flush=True)

    def say(self, text: str = "") -> None:
        """Print lines of their own."""
        self._clear()
        print(text, file=self._stream, flush=True)

    def tick(self) -> None:
        """Redraw."""
        if not self._live or self._doing is None:
            return
        self._ticks += 1
        mark, waited = _MARKS[self._ticks % len(_MARKS)], self._clock() - self._since
        line = f"{self.seconds:6.1f} s {mark} {self._doing} ({waited:.0f} s)"
        self._stream.write("\r\x1b[K" + line[: shutil.get_terminal_size().columns - 1])
        self._stream.flush()

    def _clear(self) -> None:
        if self._live:
            self._stream.write("\r\x1b[K")
