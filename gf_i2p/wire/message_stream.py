"""Decodes messages from a byte stream that arrives in pieces of any size.

A decoder keeps only an incomplete message at the end of a piece. The kept bytes never exceed the size that the
message's header announced. The header is checked first, so a bad message is refused before its entries arrive. A
leader's request over a limit (`OversizedRequest`) is returned at its header, and the decoder drops its entries.
Whole messages are decoded in place, without a copy of the piece. A message in many pieces is collected in one buffer,
so the work is linear however small the pieces are.
"""

from collections.abc import Callable
from typing import Generic, TypeVar

from gf_i2p.wire.errors import RemoteProtocolError
from gf_i2p.wire.messages import Request, Response, read_request, read_response

MessageT = TypeVar("MessageT", Request, Response)


class _Decoder(Generic[MessageT]):
    """The common part of the two decoders. `read`: `read_request` or `read_response`."""

    __slots__ = ("_buffer", "_due", "_failure", "_read", "before_error", "to_skip")

    def __init__(self, read: Callable[[bytes, int], tuple[MessageT | None, int]]) -> None:
        self._read: Callable[[bytes, int], tuple[MessageT | None, int]] = read
        self._buffer = bytearray()
        self._due = 0  # length of _buffer at which the message may be whole
        self._failure: str | None = None
        self.to_skip = 0
        """Bytes of an oversized request that are still to come. The decoder drops them."""
        # The whole messages before the bad message, in the piece for which `feed` raised.
        self.before_error: list[MessageT] = []

    @property
    def buffered(self) -> int:
        """Bytes of an incomplete message that the decoder keeps. Above 0 at the end of a stream: the stream was cut."""
        return len(self._buffer)

    def feed(self, data: bytes) -> list[MessageT]:
        """Take the next piece of the stream; return the messages that are now whole, in order.

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
        try:
            while start < end:
                message, stop = read(data, start)
                if message is None:
                    self._buffer += memoryview(data)[start:]
                    self._due = stop - start
                    break
                messages.append(message)
                start = stop
            self.to_skip += max(start - end, 0)
        except RemoteProtocolError as error:
            self._failure = str(error)
            self.before_error = messages
            raise
        return messages


class RequestDecoder(_Decoder[Request]):
    """Decodes requests from a stream, on the side that accepted the connection."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(read_request)


class ResponseDecoder(_Decoder[Response]):
    """Decodes responses from a stream, on the side that dialled."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(read_response)
