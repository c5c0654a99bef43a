"""What goes to standard output and to a terminal: JSON, a line of progress, the question before a command goes on."""

import json
import sys
import time
from typing import Any, Final, Self

from gf_i2p.cli.shared.errors import CommandError, Exit

QUIET_SECONDS: Final = 1.0
"""So long nothing is said, and between two lines."""


class Progress:
    """On a terminal one line that changes and goes; elsewhere nothing, so that no log is filled with it."""

    def __init__(self) -> None:
        self._next = time.monotonic() + QUIET_SECONDS
        self._shown = False

    def __call__(self, text: str, *, at_once: bool = False) -> None:
        """Say it, unless something was said a moment ago. `at_once`: in any case, for what surely takes longer."""
        if sys.stderr.isatty() and (at_once or time.monotonic() >= self._next):
            # The cursor goes back: what Spark says meanwhile takes the line's place, and does not stand behind it.
            print(f"\r\x1b[K{text}\r", end="", file=sys.stderr, flush=True)
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


def check_typed(farm: str) -> None:
    """Ask for the farm's name. Raises `CommandError` when something else is typed, or nothing (Ctrl-D)."""
    try:
        typed = input(f"Type the farm's name, {farm}, to go on: ")
    except EOFError as error:
        print()  # the cursor stands behind the question
        raise CommandError("the farm's name was not typed: nothing was changed", code=Exit.USAGE) from error
    check_name(typed, farm)


def check_name(given: str, farm: str) -> None:
    """Raise `CommandError` when this is not the farm's name."""
    if given != farm:
        raise CommandError("that is not the farm's name: nothing was changed", code=Exit.USAGE)


def print_json(value: Any) -> None:
    """Print one JSON object: in one line, or indented for a person on a terminal."""
    print(json.dumps(value, indent=None if not sys.stdout.isatty() else 2))
