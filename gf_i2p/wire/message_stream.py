"""Messages out of a byte stream that arrives in pieces of any size.

A decoder keeps nothing but the rest of the piece that did not make a whole message. What it keeps is at most
the size which that message's header announced, and the header was checked before: a bad one is refused
without waiting for what it announces. Whole messages are decoded where they lie, without a copy of the piece;
a message in many pieces is collected in one buffer, so the work is linear however small the pieces are.
"""

from collections.abc import Callable
from typing import Generic, TypeVar

from gf_i2p.wire.errors import RemoteProtocolError
from gf_i2p.wire.messages import Request, Response, read_request, read_response

MessageT = TypeVar("MessageT", Request, Response)


class _Decoder(Generic[MessageT]):
    """What the two decoders share; `read` decodes one message at a position."""

    __slots__ = ("_buffer", "_due", "_failure", "_read", "before_error")

    def __init__(self, read: Callable[[bytes, int], tuple[MessageT | None, int]]) -> None:
        self._read: Callable[[bytes, int], tuple[MessageT | None, int]] = read
        self._buffer = bytearray()
        self._due = 0  # the length of _buffer from which on it is worth trying again
        self._failure: str | None = None
        # The whole messages that stood before the bad one in the piece that raised.
        self.before_error: list[MessageT] = []

    @property
    def buffered(self) -> int:
        """Bytes of a message that has begun and is not whole: over 0 at the end of a stream, it was cut."""
        return len(self._buffer)

    def feed(self, data: bytes) -> list[MessageT]:
        """Take the next piece of the stream and return the messages that are now whole, in order.

        Raises `RemoteProtocolError` at the first byte that shows a message to be illegal, and from then on
        at every call: the stream cannot find its place again. The messages before it are in `before_error`,
        so that what is handled does not depend on how the network cut the stream.
        """
        if self._failure is not None:
            raise RemoteProtocolError(self._failure)
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
        except RemoteProtocolError as error:
            self._failure = str(error)
            self.before_error = messages
            raise
        return messages


class RequestDecoder(_Decoder[Request]):
    """Requests out of a stream: the side that accepted the connection."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(read_request)


class ResponseDecoder(_Decoder[Response]):
    """Responses out of a stream: the side that made the connection."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(read_response)
