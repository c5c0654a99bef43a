"""Gathers one HTTP/1.1 head from pieces, bounded and checked before h11 parses it.

h11's pattern for a header line takes quadratic time on a line that it cannot match: a colon, spaces, and a control
character. 8 KiB of that took half a second. Without control characters, and without a CR inside a line, every line with
a legal name matches. Line ends are read as h11 reads them: CRLF, or a bare LF (RFC 9112, 2.2).
"""

import re
from typing import Final, NamedTuple

_BLANK_LINE: Final = re.compile(rb"\n\r?\n")
_ILLEGAL: Final = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]|\r(?!\n)")
_OVERLAP: Final = 2
"""Bytes before a piece in which a blank line may have begun."""


class HeadError(Exception):
    """The bytes are no head, or exceed the limit; `str()` says why."""


class Head(NamedTuple):
    """One head with its blank line, and the bytes after the head."""

    text: bytes
    rest: bytes


class HeadReader:
    """Gathers one head. The next head on the connection needs a new reader."""

    __slots__ = ("_buffer", "_max_bytes")

    def __init__(self, max_bytes: int) -> None:
        """`max_bytes`: limit of the head, with its blank line."""
        self._buffer = bytearray()
        self._max_bytes = max_bytes

    def feed(self, data: bytes) -> Head | None:
        """Take the next bytes; return the head, or None until the blank line has come. Raises `HeadError`."""
        searched = max(0, len(self._buffer) - _OVERLAP)
        self._buffer += data
        blank = _BLANK_LINE.search(self._buffer, searched)
        length = blank.end() if blank else len(self._buffer)
        if length > self._max_bytes:
            raise HeadError(f"a head has more than {self._max_bytes} bytes")
        # The last byte may be a CR whose LF is still to come.
        known = length if blank else length - self._buffer.endswith(b"\r")
        if _ILLEGAL.search(self._buffer, max(0, searched - 1), known):
            raise HeadError("a head has a control character, or a CR inside a line")
        if blank is None:
            return None
        return Head(bytes(self._buffer[:length]), bytes(self._buffer[length:]))
