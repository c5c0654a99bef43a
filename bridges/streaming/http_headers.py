"""Tells a web server who asks, as the routers' own HTTP server tunnels do, and lets nobody pretend to be another.

One request is passed on for each stream: its head with our three headers in place of any that the client has sent,
`Connection: close`, and exactly the body that the head announces. Whatever follows would reach the web server with
headers that nobody has looked at.
"""

import re
from typing import Final

from bridges.streaming.errors import StreamingError
from gf_i2p.netdb.destination import Destination
from gf_i2p.netdb.encoding import to_base64

MAX_HEAD_BYTES: Final = 32 * 1024
"""Of a request's head. Java's limit for all of it, too."""
MAX_HEAD_LINES: Final = 100
BAD_REQUEST: Final = (
    b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Type: text/plain\r\nContent-Length: 12\r\n\r\n"
    b"Bad request\n"
)
"""What the client gets when its request is not passed on."""

_END: Final = b"\r\n\r\n"
_REQUEST: Final = re.compile(rb"[!-~]+ [!-~]+ HTTP/1\.[01]\Z")
_HEADER: Final = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([^\x00-\x08\x0a-\x1f\x7f]*)\Z")
_DIGITS: Final = re.compile(rb"[0-9]{1,18}\Z")
_CHUNK: Final = re.compile(rb"([0-9A-Fa-f]{1,15})(?:[ \t]*;[\t\x20-\x7e\x80-\xff]*)?\Z")
_OURS: Final = b"x-i2p-"
_OF_ONE_HOP: Final = frozenset({b"connection", b"keep-alive", b"proxy-connection", b"upgrade", b"http2-settings"})
_MAX_LINE: Final = 4096


class RequestError(StreamingError):
    """A request that is not passed on."""


class Request:
    """One request, as it goes by. Feed what the client sends; what `feed` returns goes to the web server."""

    def __init__(self, client: Destination) -> None:
        self.finished = False
        """Whether the whole request has gone by; nothing after it does."""
        self._client = client
        self._head: bytearray | None = bytearray()
        self._left = 0
        """Bytes of the body, or of a chunk, that are passed on as they are."""
        self._chunked = False
        self._line = bytearray()
        self._after_chunk = False
        self._last_chunk = False
        self._trailer = 0

    def feed(self, data: bytes) -> bytes:
        """Take the next bytes. Raises `RequestError`."""
        out = b""
        if self._head is not None:
            self._head += data
            end = self._head.find(_END)
            if end > MAX_HEAD_BYTES or (end < 0 and len(self._head) > MAX_HEAD_BYTES):
                raise RequestError(f"a request's head has more than {MAX_HEAD_BYTES} bytes")
            if end < 0:
                return b""
            head, data = bytes(self._head[:end]), bytes(self._head[end + len(_END) :])
            self._head = None
            out = self._read_head(head)
        return out + (self._chunks(data) if self._chunked else self._body(data))

    # The head -------------------------------------------------------------------------------------------------------

    def _read_head(self, head: bytes) -> bytes:
        lines = head.split(b"\r\n")
        if len(lines) > MAX_HEAD_LINES or not _REQUEST.match(lines[0]):
            raise RequestError("a request has too many lines, or does not begin as one of HTTP/1.1")
        kept, lengths, codings = [lines[0]], [], []
        for line in lines[1:]:
            match = _HEADER.match(line)
            if match is None:
                raise RequestError("a request has a line that is no header")
            name, value = match[1].lower(), match[2].strip()
            if name.replace(b"_", b"-").startswith(_OURS) or name in _OF_ONE_HOP:
                continue
            if name == b"content-length":
                lengths.append(value)
            elif name == b"transfer-encoding":
                codings.append(value.lower())
            kept.append(line)
        self._frame(lengths, codings)
        kept += [
            b"X-I2P-DestHash: " + to_base64(self._client.hash).encode(),
            b"X-I2P-DestB64: " + self._client.base64.encode(),
            b"X-I2P-DestB32: " + self._client.b32.encode(),
            b"Connection: close",
        ]
        return b"\r\n".join(kept) + _END

    def _frame(self, lengths: list[bytes], codings: list[bytes]) -> None:
        if codings:
            if codings != [b"chunked"] or lengths:
                raise RequestError("a request's length is said in two ways, or in one that we do not know")
            self._chunked = True
        elif lengths:
            if len(lengths) > 1 or not _DIGITS.match(lengths[0]):
                raise RequestError("a request's length is no number")
            self._left = int(lengths[0])
        self.finished = not self._chunked and not self._left

    # The body -------------------------------------------------------------------------------------------------------

    def _body(self, data: bytes) -> bytes:
        out = data[: self._left]
        self._left -= len(out)
        self.finished = not self._left
        return out

    def _chunks(self, data: bytes) -> bytes:
        """Pass chunks on as they are, and see where the last one ends."""
        out = bytearray()
        position = 0
        while position < len(data) and not self.finished:
            if self._left:
                piece = data[position : position + self._left]
                self._left -= len(piece)
                out += piece
                position += len(piece)
                continue
            byte = data[position : position + 1]
            position += 1
            self._line += byte
            if len(self._line) > _MAX_LINE:
                raise RequestError("a chunk's first line is too long")
            if byte == b"\n":
                out += self._chunk_line(bytes(self._line))
                self._line.clear()
        return bytes(out)

    def _chunk_line(self, line: bytes) -> bytes:
        if not line.endswith(b"\r\n"):
            raise RequestError("a chunk's line does not end as it should")
        text = line[:-2]
        if self._after_chunk:
            if text:
                raise RequestError("a chunk is longer than it says")
            self._after_chunk = False
            return line
        if self._last_chunk:
            if text:
                self._trailer += 1
                if self._trailer > MAX_HEAD_LINES:
                    raise RequestError("a request has too many trailers")
                return b""  # trailers could pass for headers
            self.finished = True
            return line
        match = _CHUNK.match(text)
        if match is None:
            raise RequestError("a chunk does not say how long it is")
        size = int(match[1], 16)
        self._last_chunk = size == 0
        self._after_chunk = not self._last_chunk
        self._left = size
        return b"%x\r\n" % size
