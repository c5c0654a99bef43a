"""A terminal whose user types the next line whenever the program has asked and waits."""

import os
import re
import select
import time
from types import TracebackType
from typing import Final, Self

_QUIET_SECONDS: Final = 0.15
"""A program that has printed the beginning of a line, and then nothing for this time, waits for an answer."""
_CODES: Final = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|[^\n]*\r(?!\n)|\r")


class Terminal:
    """A pseudo-terminal, and the lines to type there. Without lines nothing is opened."""

    def __init__(self, lines: tuple[str, ...]) -> None:
        self._lines = list(lines)
        self._printed = b""
        self._heard = time.monotonic()
        self._ours, self._theirs = os.openpty() if lines else (-1, -1)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._ours >= 0:
            os.close(self._ours)
            os.close(self._theirs)

    @property
    def path(self) -> str:
        """The device, for the program. Empty without lines."""
        return os.ttyname(self._theirs) if self._theirs >= 0 else ""

    @property
    def text(self) -> str:
        """All that stands on the terminal: printed and typed, without codes and overwritten lines."""
        return _CODES.sub("", self._printed.decode(errors="replace").replace("\r\n", "\n"))

    def step(self) -> None:
        """Read what was printed; type the next line if the program waits."""
        while self._ours >= 0 and select.select([self._ours], [], [], 0)[0]:
            self._printed += os.read(self._ours, 65536)
            self._heard = time.monotonic()
        waits = self._printed and not self._printed.endswith(b"\n")
        if self._lines and waits and time.monotonic() > self._heard + _QUIET_SECONDS:
            os.write(self._ours, f"{self._lines.pop(0)}\n".encode())
            self._heard = time.monotonic()
