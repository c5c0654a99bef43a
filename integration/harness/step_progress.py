"""Steps on a terminal: the awaited event, the waiting time, and the events that were seen."""

import shutil
import sys
import time
from collections.abc import Callable
from typing import Final, TextIO

_MARKS: Final = "|/-\\"
_QUIET_SECONDS: Final = 10.0
"""Without a terminal: seconds between two lines of a long step."""


class StepProgress:
    """One line a step. On a terminal `tick` redraws the present step.

    Elsewhere each step prints a line at its end, and a long step prints the awaited event every `_QUIET_SECONDS`.
    """

    def __init__(self, stream: TextIO = sys.stdout, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream
        self._clock = clock
        self._began = clock()
        self._live = stream.isatty()
        self._doing: str | None = None
        self._since = self._began
        self._ticks = 0
        self._last = self._began

    @property
    def seconds(self) -> float:
        """Seconds since the start."""
        return self._clock() - self._began

    def doing(self, what: str) -> None:
        """Begin a step, or change the text of the present one."""
        if self._doing is None:
            self._since = self._clock()
        self._doing = what
        self.tick()

    def done(self, what: str) -> None:
        """End the step: the event was seen."""
        self._clear()
        self._doing = None
        self._print(f"{self.seconds:6.1f} s  {what}")

    def say(self, text: str = "") -> None:
        """Print lines outside of steps."""
        self._clear()
        self._print(text)

    def tick(self) -> None:
        """Redraw the present step."""
        if self._doing is None:
            return
        if not self._live:
            if self._clock() - self._last >= _QUIET_SECONDS:
                self._print(f"{self.seconds:6.1f} s  ... {self._doing}")
            return
        self._ticks += 1
        mark, waited = _MARKS[self._ticks % len(_MARKS)], self._clock() - self._since
        line = f"{self.seconds:6.1f} s {mark} {self._doing} ({waited:.0f} s)"
        self._stream.write("\r\x1b[K" + line[: shutil.get_terminal_size().columns - 1])
        self._stream.flush()

    def _print(self, line: str) -> None:
        self._last = self._clock()
        print(line, file=self._stream, flush=True)

    def _clear(self) -> None:
        if self._live:
            self._stream.write("\r\x1b[K")
