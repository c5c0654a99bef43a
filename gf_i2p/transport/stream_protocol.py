"""The base of all protocols of this package: what asyncio calls when bytes arrive.

asyncio's own `Protocol` gets its bytes from TLS in a new buffer of 256 KiB for each read. The memory allocator maps,
shrinks and unmaps each such buffer: three system calls and a page fault, 17 µs for a message of 1 KiB. Here all
connections of an event loop read into one buffer, and a protocol gets a copy of the bytes that came.
"""

import asyncio
import threading
from typing import Final

_BUFFER_BYTES: Final = 256 << 10


class _Buffer(threading.local):
    """The buffer of one thread, and so of one event loop.

    The bytes of a read lie in the buffer from `get_buffer` to `buffer_updated`. Between these two, the loop calls no
    other protocol.
    """

    def __init__(self) -> None:
        self.view = memoryview(bytearray(_BUFFER_BYTES))


_buffer: Final = _Buffer()


class StreamProtocol(asyncio.BufferedProtocol):
    """A protocol that overrides `data_received`, as a subclass of `asyncio.Protocol` does."""

    __slots__ = ()

    def data_received(self, data: bytes) -> None:
        """Take the bytes that came, at most 256 KiB."""

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 -- one read takes what there is
        """Return the buffer for the next read."""
        return _buffer.view

    def buffer_updated(self, nbytes: int) -> None:
        """Pass the bytes of the read to `data_received`."""
        self.data_received(bytes(_buffer.view[:nbytes]))
