"""Reads one POST of an unknown caller: pure protocol, no I/O. Any other request is refused before its body."""

from typing import Final

import h11

from bridges.http_head import HeadError, HeadReader

BAD_REQUEST: Final = 400
NOT_HERE: Final = 404
TOO_LARGE: Final = 413
_PIECE: Final = 512
"""Bytes of a body that h11 gets at once, and may keep of an unfinished line: h11 needs quadratic time for some lines
among the trailers of a chunked body."""


class BadPostError(Exception):
    """A request that is refused before the handler."""

    def __init__(self, status: int) -> None:
        """`status`: HTTP status of the answer."""
        super().__init__(f"status {status}")
        self.status = status


class PostReader:
    """Reads one request. Feed the caller's bytes until `feed` returns the body."""

    def __init__(self, *, head_bytes: int, body_bytes: int) -> None:
        """Set the limits of head and body, in bytes."""
        self._head = HeadReader(head_bytes)
        self._body_bytes = body_bytes
        self._body = bytearray()
        self._connection: h11.Connection | None = None
        """Set once the head is whole."""

    @property
    def wants_continue(self) -> bool:
        """Whether the caller waits for "100 Continue" before the caller sends the body."""
        return self._connection is not None and self._connection.they_are_waiting_for_100_continue

    def feed(self, data: bytes) -> bytes | None:
        """Take the next bytes; return the body once the body is whole. No bytes: the caller has hung up.

        Raises `BadPostError`, and `ConnectionResetError` for a caller who hangs up between requests.
        """
        if not data and self._connection is None:
            raise ConnectionResetError
        try:
            if self._connection is not None:
                return self._take(self._connection, data)
            head = self._head.feed(data)
            if head is None:
                return None
            self._connection = connection = h11.Connection(h11.SERVER, max_incomplete_event_size=_PIECE)
            connection.receive_data(head.text)
            request = connection.next_event()
            if not isinstance(request, h11.Request):
                raise BadPostError(BAD_REQUEST)
            self._check(request)
            return self._take(connection, head.rest) if head.rest else self._whole_body(connection)
        except (h11.RemoteProtocolError, HeadError) as error:
            raise BadPostError(BAD_REQUEST) from error

    def _check(self, request: h11.Request) -> None:
        """Refuse a request that need not be read further."""
        headers = dict(request.headers)
        if request.method != b"POST" or b"origin" in headers:
            raise BadPostError(NOT_HERE)
        if int(headers.get(b"content-length", b"0")) > self._body_bytes:
            raise BadPostError(TOO_LARGE)

    def _take(self, connection: h11.Connection, data: bytes) -> bytes | None:
        for start in range(0, max(1, len(data)), _PIECE):
            connection.receive_data(data[start : start + _PIECE])
            body = self._whole_body(connection)
            if body is not None:
                return body
        return None

    def _whole_body(self, connection: h11.Connection) -> bytes | None:
        while (event := connection.next_event()) is not h11.NEED_DATA:
            if isinstance(event, h11.EndOfMessage):
                return bytes(self._body)
            if not isinstance(event, h11.Data):
                raise ConnectionResetError
            self._body += event.data
            if len(self._body) > self._body_bytes:
                raise BadPostError(TOO_LARGE)
        return None
