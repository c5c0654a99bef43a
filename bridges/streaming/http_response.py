"""Takes out of a web server's answer the headers that tell strangers about the server.

The HTTP server tunnels of the routers drop `Date`, `Server`, `X-Powered-By`, `X-Runtime` and `Proxy` (Java I2P 2.8,
`I2PTunnelHTTPServer`; i2pd 2.58, `I2PServerTunnelConnectionHTTP`, which drops every name that begins with `Proxy`). A
date shows how far a clock is off, by which somebody could recognize the machine elsewhere. h11 reads the heads. The
body passes unchanged, since the connection ends behind the body.
"""

from typing import Final

import h11

from bridges.http_head import HeadError, HeadReader
from bridges.streaming.errors import StreamingError
from bridges.streaming.http_headers import MAX_HEAD_BYTES

BAD_GATEWAY: Final = (
    b"HTTP/1.1 502 Bad Gateway\r\nConnection: close\r\nContent-Type: text/plain\r\nContent-Length: 12\r\n\r\n"
    b"Bad gateway\n"
)
"""The answer to a client when the service does not answer in HTTP."""
_DROPPED: Final = frozenset({b"date", b"server", b"x-powered-by", b"x-runtime"})
_DROPPED_KIND: Final = b"proxy"


class ResponseError(StreamingError):
    """An answer that is not passed on."""


class HttpResponse:
    """One answer on its way. Feed the service's bytes; the bytes that `feed` returns go to the client."""

    __slots__ = ("_connection", "_reader")

    def __init__(self) -> None:
        self._reader: HeadReader | None = HeadReader(MAX_HEAD_BYTES)
        """None once the head has passed."""
        self._connection = h11.Connection(h11.CLIENT)
        self._connection.send(h11.Request(method="GET", target="/", headers=[("Host", "h")]))  # h11 reads answers only

    @property
    def begun(self) -> bool:
        """Whether `feed` has returned the whole head of the answer."""
        return self._reader is None

    def feed(self, data: bytes) -> bytes:
        """Take the next bytes of the service. Return the bytes for the client. Raises `ResponseError`."""
        out = b""
        try:
            while self._reader is not None:
                head = self._reader.feed(data)
                if head is None:
                    return out
                self._connection.receive_data(head.text)
                event = self._connection.next_event()
                if not isinstance(event, h11.Response | h11.InformationalResponse):
                    raise ResponseError("the web server's answer does not begin with a head of HTTP/1.1")
                out += _head(event)
                data = head.rest
                self._reader = HeadReader(MAX_HEAD_BYTES) if isinstance(event, h11.InformationalResponse) else None
        except (h11.RemoteProtocolError, HeadError) as error:
            raise ResponseError(f"the web server's answer breaks HTTP/1.1: {error}") from error
        return out + data


def _head(event: h11.Response | h11.InformationalResponse) -> bytes:
    lines = [b"HTTP/%b %d %b" % (event.http_version, event.status_code, event.reason)]
    for name, value in event.headers.raw_items():
        if name.lower() not in _DROPPED and not name.lower().startswith(_DROPPED_KIND):
            lines.append(name + b": " + value)
    return b"\r\n".join([*lines, b"", b""])
