"""Tells a web server which client sends a request, as the routers' HTTP server tunnels do. Removes forged identities.

Each stream carries one request. The web server gets the request's head with three headers in place of any that
the client sent, `Connection: close`, and exactly the body that the head announces. Bytes after that body could be a
second request with unchecked headers, so nothing after the body is passed on. Headers of one hop are dropped, and so
are the headers that `Connection` names (RFC 9110, 7.6.1), and statements of proxies about a client's address.

h11 reads the request, and the web server gets a request written anew from h11's result. h11 accepts some heads that two
programs may read differently. The checks here come first, and refuse such heads. Refused are, in a head, a line that
ends with a bare LF, a folded line (RFC 9112, 5.2), and a control character. A second header about the body's length is
refused, too (RFC 9112, 6.1 and 6.3). Chunks are framed anew, so a bare LF around chunks does not reach the web server.
"""

import re
from typing import Final

import h11

from bridges.streaming.errors import StreamingError
from gf_i2p.netdb.destination import Destination
from gf_i2p.netdb.encoding import to_base64

MAX_HEAD_BYTES: Final = 32 * 1024
"""Most bytes of a request's head; also Java's limit for the whole head."""
MAX_HEAD_LINES: Final = 100
BAD_REQUEST: Final = (
    b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Type: text/plain\r\nContent-Length: 12\r\n\r\n"
    b"Bad request\n"
)
"""The answer to a client whose request is not passed on."""

_END: Final = b"\r\n\r\n"
_HEAD: Final = re.compile(rb"(?:[!-~\x80-\xff][^\x00-\x08\x0a-\x1f\x7f]*\r\n)+\r\n")
_FRAMING: Final = re.compile(rb"(?im)^(content[^a-z0-9]length|transfer[^a-z0-9]encoding):(.*)")
_NO_LETTER: Final = re.compile(rb"[^a-z0-9]")
_OURS: Final = b"x-i2p-"
_FORWARDED: Final = b"x-forwarded-"
_OF_ONE_HOP: Final = frozenset(
    {b"connection", b"keep-alive", b"proxy-connection", b"upgrade", b"http2-settings", b"te", b"trailer"}
)
_OF_PROXIES: Final = frozenset({b"forwarded", b"x-real-ip", b"proxy", b"proxy-authorization", b"x-accept-encoding"})
"""Headers that proxies and gateways set. A web program would believe them, although the client may have forged them:
addresses (RFC 7239), a proxy for the program's own requests (CVE-2016-5385), and the mark of a Java proxy that unpacks
`x-i2p-gzip`."""
_NEEDED: Final = frozenset({b"host", b"content-length", b"transfer-encoding"})
"""Headers that a client cannot remove by naming them in `Connection`: these headers say where the request ends, and
which host the request is for."""
_MAX_DIGITS: Final = 18
"""Most digits of a body's length: a web server that counts with 64 bits reads the same length."""
_PIECE: Final = 512
"""Bytes that h11 gets at once, and may keep of an unfinished line after the head. h11 needs quadratic time for some
lines that are not headers; 1,024 bytes of trailers take three milliseconds at most."""


class RequestError(StreamingError):
    """A request that is not passed on."""


class HttpRequest:
    """One request on its way. Feed the client's bytes; the bytes that `feed` returns go to the web server."""

    def __init__(self, client: Destination) -> None:
        self.finished = False
        """Whether the whole request has been passed on; bytes behind it are dropped."""
        self._client = client
        self._head = bytearray()
        self._reader: h11.Connection | None = None
        """Set once the head is whole."""
        self._chunked = False

    def feed(self, data: bytes) -> bytes:
        """Take the next bytes of the client. Return the bytes for the service. Raises `RequestError`."""
        try:
            if self._reader is not None:
                return self._body(self._reader, data)
            searched = max(0, len(self._head) - len(_END) + 1)
            self._head += data
            end = self._head.find(_END, searched)
            if (len(self._head) if end < 0 else end) > MAX_HEAD_BYTES:
                raise RequestError(f"a request's head has more than {MAX_HEAD_BYTES} bytes")
            if end < 0:
                return b""
            end += len(_END)
            head, data = bytes(self._head[:end]), bytes(self._head[end:])
            self._reader = h11.Connection(h11.SERVER, max_incomplete_event_size=_PIECE)
            return self._read_head(self._reader, head) + self._body(self._reader, data)
        except h11.RemoteProtocolError as error:
            raise RequestError(f"a request breaks HTTP/1.1: {error}") from error

    def _read_head(self, reader: h11.Connection, head: bytes) -> bytes:
        if not _HEAD.fullmatch(head) or head.count(b"\n") > MAX_HEAD_LINES + 1:
            raise RequestError(
                "a request's head has too many lines, or a line that another program could read otherwise"
            )
        framing = _FRAMING.findall(head)
        if len(framing) > 1 or any(b"-" not in name or b"," in value for name, value in framing):
            raise RequestError("a request gives the length of its body twice, or in a header that only looks like one")
        reader.receive_data(head)
        request = reader.next_event()
        assert isinstance(request, h11.Request)
        lines = [b"%b %b HTTP/%b" % (request.method, request.target, request.http_version)]
        options = b",".join(value.lower() for name, value in request.headers if name == b"connection").split(b",")
        dropped = _OF_ONE_HOP | _OF_PROXIES | {_NO_LETTER.sub(b"-", option.strip()) for option in options} - _NEEDED
        for name, value in request.headers.raw_items():
            plain = _NO_LETTER.sub(b"-", name.lower())  # the same for equal names in a CGI program (RFC 3875, 4.1.18)
            if plain == b"content-length" and len(value) > _MAX_DIGITS:
                raise RequestError(f"the length of a request's body has more than {_MAX_DIGITS} digits")
            if not plain.startswith((_OURS, _FORWARDED)) and plain not in dropped:
                lines.append(name + b": " + (b"%d" % int(value) if plain == b"content-length" else value))
            self._chunked |= plain == b"transfer-encoding"
        if request.http_version not in ({b"1.1"} if self._chunked else {b"1.0", b"1.1"}):
            raise RequestError("a request's version of HTTP is neither 1.0 nor 1.1, or is 1.0 with chunks")
        lines += [
            b"X-I2P-DestHash: " + to_base64(self._client.hash).encode(),
            b"X-I2P-DestB64: " + self._client.base64.encode(),
            b"X-I2P-DestB32: " + self._client.b32.encode(),
            b"Connection: close",
        ]
        return b"\r\n".join(lines) + _END

    def _body(self, reader: h11.Connection, data: bytes) -> bytes:
        """Take bytes of the body, and return the body's bytes for the web server.

        A chunked body stays chunked, without extensions of chunks and without trailers.
        """
        if self.finished:
            return b""
        body = bytearray()
        pieces = iter([data[start : start + _PIECE] for start in range(0, len(data), _PIECE)])
        while True:
            event = reader.next_event()
            if isinstance(event, h11.Data):
                body += event.data
            elif isinstance(event, h11.EndOfMessage):
                self.finished = True
                break
            elif piece := next(pieces, None):
                reader.receive_data(piece)
            else:
                break
        if not self._chunked:
            return bytes(body)
        return (b"%x\r\n%b\r\n" % (len(body), bytes(body)) if body else b"") + (b"0\r\n\r\n" if self.finished else b"")
