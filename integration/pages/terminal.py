"""A terminal whose user types the next line whenever the program has asked and waits."""

import fcntl
import os
import re
import select
import struct
import time
from types import TracebackType
from typing import Final, Self

from integration.pages.place import HERE, Place

_QUIET_SECONDS: Final = 0.15
"""A program that has printed the beginning of a line, and then nothing for this time, waits for an answer."""
_UNLOCK: Final = 0x40045431
"""TIOCSPTLCK of Linux, which the module termios lacks: a program may open the other end."""
_NUMBER: Final = 0x80045430
"""TIOCGPTN of Linux: the number of the other end."""
_CODES: Final = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|[^\n]*\r(?!\n)|\r")


class Terminal:
    """A pseudo-terminal, and the lines to type there. Without lines nothing is opened."""

    def __init__(self, lines: tuple[str, ...], place: Place = HERE) -> None:
        self._lines = list(lines)
        self._printed = b""
        self._heard = time.monotonic()
        self._path = ""
        self._ours, self._theirs = -1, -1
        if lines:
            self._open(place)

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
        """The device, by its path in the place of the program. Empty without lines."""
        return self._path

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

    def _open(self, place: Place) -> None:
        """Open a pair of terminals of the place: a program there sees no terminal of this side."""
        self._ours = os.open(place.root / "dev/ptmx", os.O_RDWR | os.O_NOCTTY)
        fcntl.ioctl(self._ours, _UNLOCK, struct.pack("i", 0))
        (number,) = struct.unpack("i", fcntl.ioctl(self._ours, _NUMBER, bytes(4)))
        theirs = place.root / f"dev/pts/{number}"
        # Open on this side, too: without any program at their end, a read at our end fails.
        self._theirs = os.open(theirs, os.O_RDWR | os.O_NOCTTY)
        place.give(theirs)
        self._path = str(place.there(theirs))
