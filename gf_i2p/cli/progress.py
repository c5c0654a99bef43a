"""A line that says how far a command is, when it takes longer."""

import sys
import time
from typing import Final, Self

QUIET_SECONDS: Final = 1.0
"""So long nothing is said, and between two lines."""


class Progress:
    """On a terminal one line that changes and goes; elsewhere nothing, so that no log is filled with it."""

    def __init__(self) -> None:
        self._next = time.monotonic() + QUIET_SECONDS
        self._shown = False

    def __call__(self, text: str) -> None:
        """Say it, unless something was said a moment ago."""
        if sys.stderr.isatty() and time.monotonic() >= self._next:
            print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)
            self._next = time.monotonic() + QUIET_SECONDS
            self._shown = True

    def end(self) -> None:
        """Take the line away."""
        if self._shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
            self._shown = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()
