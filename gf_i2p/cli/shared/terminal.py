"""Output of a command: a line of progress, foreign text, and the question before a change that nobody can undo."""

import asyncio
import re
import sys
import time
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Final, Self, TypeVar

from gf_i2p.cli.shared.errors import CommandError, Exit
from gf_i2p.cli.shared.fitting import columns_of, cut

QUIET_SECONDS: Final = 1.0
"""Seconds before the first progress line, and between two lines."""
SILENT_SECONDS: Final = 2.0
"""Seconds after which a command says what it waits for."""

_COUNT: Final = re.compile(r"\b(\d+) of (\d+)\b(?!:)")
"""A count of pieces. The number of a job has a colon, as in "2 of 4: health", and tells nothing of the time left."""

_T = TypeVar("_T")


class ProgressLine:
    """Shows one changing line on a terminal. Elsewhere nothing is shown, so that no log fills up.

    A text that counts, as "3 of 10 files" does, is followed by the time that is left.
    """

    def __init__(self) -> None:
        self._next = time.monotonic() + QUIET_SECONDS
        self._shown = False
        self._step: tuple[str, int] | None = None  # words before the last count, and number of pieces
        self._began = 0.0  # time of the step's first text
        self._first = 0  # number of pieces that were done then
        self._done = 0  # number of pieces that were done at the last text

    def __call__(self, text: str, *, at_once: bool = False) -> None:
        """Show the text, unless another text was shown in the last `QUIET_SECONDS`. `at_once`: always show the text."""
        left = self._time_left(text)
        if sys.stderr.isatty() and (at_once or time.monotonic() >= self._next):
            text = cut(text + left, columns_of(sys.stderr) - 1)
            # The cursor goes back to the start of the line, so a line from Spark overwrites the progress line.
            print(f"\r\x1b[K{text}\r", end="", file=sys.stderr, flush=True)
            self._next = time.monotonic() + QUIET_SECONDS
            self._shown = True

    def _time_left(self, text: str) -> str:
        """Return the words for the time that is left; empty when nothing is known of it."""
        found = _COUNT.search(text)
        if found is None:
            self._step = None
            return ""
        done, total, now = int(found[1]), int(found[2]), time.monotonic()
        step = text[: found.start()], total
        if step != self._step or done < self._done:
            self._step, self._began, self._first = step, now, done
        self._done = done
        taken = now - self._began
        if done <= self._first or done >= total or taken < SILENT_SECONDS:
            return ""
        left = timedelta(seconds=round(taken / (done - self._first) * (total - done)))
        return f", about {left} left"

    def end(self) -> None:
        """Remove the line."""
        if self._shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
            self._shown = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()


async def say_if_slow(work: Awaitable[_T], say: Callable[[], Awaitable[None] | None]) -> _T:
    """Await the work; call `say` once if the work takes longer than `SILENT_SECONDS`, and await what `say` returns."""
    task = asyncio.ensure_future(work)
    await asyncio.wait([task], timeout=SILENT_SECONDS)
    if not task.done() and (saying := say()) is not None:
        await saying
    return await task


def printable(text: str) -> str:
    """Escape all characters of a foreign text that could control the terminal."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def is_agreed(question: str) -> bool:
    """Ask a question on the terminal. Return whether the answer is yes; no answer (Ctrl-D) is no."""
    try:
        return input(f"{question} [y/N] ").strip().lower() in {"y", "yes"}
    except EOFError:
        print()  # the cursor stands behind the question
        return False


def ask_farm_name(farm: str) -> None:
    """Ask for the farm's name. Raises `CommandError` for any other answer, or for none (Ctrl-D)."""
    try:
        typed = input(f"Type the farm's name, {farm}, to go on: ")
    except EOFError as error:
        print()  # the cursor stands behind the question
        raise CommandError("the farm's name was not typed: nothing was changed", code=Exit.USAGE) from error
    check_farm_name(typed, farm)


def check_farm_name(name: str, farm: str) -> None:
    """Raise `CommandError` when `name` is not the farm's name, `farm`."""
    if name != farm:
        raise CommandError("that is not the farm's name: nothing was changed", code=Exit.USAGE)
