"""Decodes messages from a byte stream that arrives in pieces of any size.

A decoder keeps only an incomplete message at the end of a piece. The kept bytes never exceed the size that the
message's header announced. The header is checked first, so a bad message is refused before its entries arrive. A
leader's request over a limit (`OversizedRequest`) is returned at its header, and the decoder drops its entries.
Whole messages are decoded in place, without a copy of the piece. A message in many pieces is collected in one buffer,
so the work is linear however small the pieces are. The entries of a large request are decoded as they come, so its last
piece costs no more than the others.
"""

from collections.abc import Callable
from typing import Final, Generic, TypeVar

from gf_i2p.wire.errors import RemoteProtocolError
from gf_i2p.wire.messages import (
    REQUEST_HEADER_BYTES,
    Request,
    Response,
    UnfinishedRequest,
    read_request,
    read_response,
)

LARGE_BYTES: Final = 256 << 10
"""Requests of more bytes are decoded while they arrive."""

MessageT = TypeVar("MessageT", Request, Response)


class _Decoder(Generic[MessageT]):
    """The common part of the two decoders. `read`: `read_request` or `read_response`."""

    __slots__ = ("_buffer", "_due", "_failure", "_read", "before_error", "rest", "to_skip")

    def __init__(self, read: Callable[[bytes, int], tuple[MessageT | None, int]]) -> None:
        self._read: Callable[[bytes, int], tuple[MessageT | None, int]] = read
        self._buffer = bytearray()
        self._due = 0  # length of _buffer at which the message may be whole
        self._failure: str | None = None
        self.to_skip = 0
        """Bytes of an oversized request that are still to come. The decoder drops them."""
        self.rest = b""
        """Bytes of the last piece that `feed` did not look at; see `most` there."""
        # The whole messages before the bad message, in the piece for which `feed` raised.
        self.before_error: list[MessageT] = []

    @property
    def buffered(self) -> int:
        """Bytes of an incomplete message that the decoder keeps. Above 0 at the end of a stream: the stream was cut."""
        return len(self._buffer)

    def feed(self, data: bytes, most: int | None = None) -> list[MessageT]:
        """Take the next piece of the stream; return the messages that are now whole, in order.

        `most`: no message that begins after so many bytes is decoded. `rest` then has the bytes from that message on,
        and is the beginning of the next piece. The work of one call is bounded in this way. None: all are decoded.

        Raises `RemoteProtocolError` at the first byte that shows a message to be illegal, and at every later call: the
        stream cannot be resynchronised. The whole messages before the bad message are in `before_error`. So the
        caller gets the same messages, however the network cuts the stream.
        """
        if self._failure is not None:
            raise RemoteProtocolError(self._failure)
        if self.to_skip:
            skipped = min(self.to_skip, len(data))
            self.to_skip -= skipped
            data = data[skipped:]
        if self._buffer:
            self._buffer += data
            if len(self._buffer) < self._due:
                return []
            data = bytes(self._buffer)
            self._buffer = bytearray()
        messages: list[MessageT] = []
        read = self._read
        start, end = 0, len(data)
        until = end if most is None else min(most, end)
        self.rest = b""
        try:
            while start < until:
                message, stop = read(data, start)
                if message is None:
                    self._buffer += memoryview(data)[start:]
                    self._due = stop - start
                    break
                messages.append(message)
                start = stop
            else:
                self.to_skip += max(start - end, 0)
                self.rest = data[start:]
        except RemoteProtocolError as error:
            self._failure = str(error)
            self.before_error = messages
            raise
        return messages


class RequestDecoder(_Decoder[Request]):
    """Decodes requests from a stream, on the side that accepted the connection."""

    __slots__ = ("_unfinished",)

    def __init__(self) -> None:
        super().__init__(read_request)
        self._unfinished: UnfinishedRequest | None = None

    @property
    def buffered(self) -> int:
        """Bytes of an incomplete request that the decoder keeps, see the base class."""
        unfinished = self._unfinished
        if unfinished is None:
            return len(self._buffer)
        return REQUEST_HEADER_BYTES + unfinished.received

    def feed(self, data: bytes, most: int | None = None) -> list[Request]:
        """Take the next piece of the stream, see the base class."""
        requests: list[Request] = []
        if self._unfinished is not None:
            piece = data[: self._unfinished.left]
            self._take(piece, requests)
            data = data[len(piece) :]
            if not data:
                return requests
            most = most and max(most - len(piece), 1)
        try:
            requests += super().feed(data, most)
        except RemoteProtocolError:
            self.before_error = requests + self.before_error
            raise
        buffer = self._buffer
        if self._due > LARGE_BYTES and len(buffer) >= REQUEST_HEADER_BYTES:
            self._unfinished = UnfinishedRequest(bytes(buffer[:REQUEST_HEADER_BYTES]))
            self._buffer = bytearray()
            self._take(bytes(buffer[REQUEST_HEADER_BYTES:]), requests)
        return requests

    def _take(self, piece: bytes, requests: list[Request]) -> None:
        """Let the unfinished request take a piece. `requests`: the whole requests before; the request may be added."""
        unfinished = self._unfinished
        assert unfinished is not None
        try:
            request = unfinished.take(piece)
        except RemoteProtocolError as error:
            self._failure = str(error)
            self._unfinished = None
            self.before_error = requests
            raise
        if request is not None:
            requests.append(request)
            self._unfinished = None
            self.to_skip = unfinished.left


class ResponseDecoder(_Decoder[Response]):
    """Decodes responses from a stream, on the side that dialled."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(read_response)
