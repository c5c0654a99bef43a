"""One HTTP/1.1 head, gathered from pieces, bounded and cleaned before h11 parses it.

Limits: 16,384 bytes up to and including the blank line, 64 header lines, 2 CRs before an LF. Work is linear in the
bytes received, in pieces of any size. Control characters and bare CRs never reach h11. h11's patterns for header lines
take quadratic time only on lines that fail to match; without those characters, every line with a colon matches.

Line ends are read as RFC 7230, 3.5 allows: LF, CRLF, and CRCRLF, which i2pd's HTTP proxy sends.
"""

import re
from typing import NamedTuple

from gf_i2p.wire.errors import RemoteProtocolError
from gf_i2p.wire.limits import MAX_HTTP_HEAD_BYTES, MAX_HTTP_HEADERS, MAX_LINE_END_CRS

_LINE_END = re.compile(rb"\r{0,%d}\n" % MAX_LINE_END_CRS)
_BLANK_LINE = re.compile(rb"\n\r{0,%d}\n" % MAX_LINE_END_CRS)
_ILLEGAL = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_AUTHORITY = re.compile(r"https?://[^/?#]*+", re.IGNORECASE)


class Head(NamedTuple):
    """`text`: one head, with CRLF after every line, and the blank line at its end. `rest`: the data after the head."""

    text: bytes
    rest: bytes


class HeadReader:
    """Gathers one head from pieces. The next head needs a new reader."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Head | None:
        """Take the next bytes; return the head, or None until the blank line has come.

        For the next head on the same connection, make a new reader, and feed it the `rest` of this head first.

        Raises:
            RemoteProtocolError: the head is too long, or has too many lines or illegal characters.
        """
        old_length = len(self._buffer)
        self._buffer += data
        # A blank line may have begun in the last bytes of the previous piece.
        overlap = max(0, old_length - MAX_LINE_END_CRS - 1)
        blank = _BLANK_LINE.search(self._buffer, overlap)
        length = blank.end() if blank else len(self._buffer)
        if length > MAX_HTTP_HEAD_BYTES:
            raise RemoteProtocolError(f"an HTTP head of more than {MAX_HTTP_HEAD_BYTES} bytes")
        if _ILLEGAL.search(self._buffer, old_length, length):
            raise RemoteProtocolError("control characters where an HTTP head should be")
        if blank is None:
            return None
        text = _LINE_END.sub(b"\r\n", self._buffer[:length])
        lines = text.count(b"\n")
        if text.count(b"\r") != lines:
            raise RemoteProtocolError("an HTTP head with a CR inside a line")
        if lines - 2 > MAX_HTTP_HEADERS:
            raise RemoteProtocolError(f"an HTTP head with more than {MAX_HTTP_HEADERS} header lines")
        return Head(text, bytes(self._buffer[length:]))


def path_of_target(target: str) -> str:
    """Return the path and query of a request target in the path form or the absolute form (RFC 7230, 5.3).

    Proxies change one form into the other and rewrite the authority, so only path and query can be compared.
    """
    authority = _AUTHORITY.match(target)
    return target[authority.end() :] or "/" if authority else target
