"""Measures the round trip of values on one connection to an echo server."""

import asyncio
import os
import time
from typing import cast

from gf_i2p.transport.stream_protocol import StreamProtocol
from integration.bench.workloads import VALUE_BYTES


class Pinger(StreamProtocol):
    """Sends a value, and the next when all of the value has come back, for `seconds`. Then `done` has the times."""

    def __init__(self, *, seconds: float) -> None:
        self.done: asyncio.Future[list[float]] = asyncio.get_running_loop().create_future()
        """The round trips in seconds, in order."""
        self._seconds = seconds
        self._times: list[float] = []
        self._value = os.urandom(VALUE_BYTES)
        self._missing = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the first value."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's class is no subclass
        self._end = time.perf_counter() + self._seconds
        self._send()

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell who waits that the connection has ended before the time."""
        if not self.done.done():
            self.done.set_exception(exc or ConnectionError("the echo server ended the connection"))

    def _send(self) -> None:
        self._missing = VALUE_BYTES
        self._began = time.perf_counter()
        self._transport.write(self._value)

    def data_received(self, data: bytes) -> None:
        """Count the bytes of the value."""
        self._missing -= len(data)
        if self._missing:
            return
        now = time.perf_counter()
        self._times.append(now - self._began)
        if now < self._end:
            self._send()
        elif not self.done.done():
            self.done.set_result(self._times)
