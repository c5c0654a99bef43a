"""The history process as a thread: the same service and frames, where a test changes the files' code or clock."""

import asyncio
import socket
import threading
from asyncio import StreamReader, StreamWriter
from collections.abc import Callable
from contextlib import suppress
from io import RawIOBase
from typing import Self, cast

from gf_i2p.node.clock import now_ms
from gf_i2p.node.history.process import HistoryService
from gf_i2p.node.history.remote_history import StartProcess


class HistoryThread:
    """See `gf_i2p.node.history.remote_history.Process`."""

    def __init__(
        self, answers: StreamReader, requests: StreamWriter, end: socket.socket, clock: Callable[[], int]
    ) -> None:
        self.answers = answers
        self.requests = requests
        self._end = end
        self._how = "ended with code 0"
        self._thread = threading.Thread(target=self._serve, args=(clock,), name="history")
        self._thread.start()

    @classmethod
    async def start(cls, clock: Callable[[], int] = now_ms) -> Self:
        """Start the service in a thread."""
        ours, theirs = socket.socketpair()
        try:
            return cls(*await asyncio.open_connection(sock=ours), theirs, clock)
        except asyncio.CancelledError:
            ours.close()
            theirs.close()
            raise

    @classmethod
    def with_clock(cls, clock: Callable[[], int]) -> StartProcess:
        """Return what starts the service with this clock."""
        return lambda: cls.start(clock)

    def _serve(self, clock: Callable[[], int]) -> None:
        with self._end, self._end.makefile("rwb", buffering=0) as both:
            service = HistoryService(cast("RawIOBase", both), cast("RawIOBase", both), clock)
            try:
                service.run()
            except Exception:  # noqa: BLE001 -- a real process ends, too
                self._how = "ended with code 1"
            with suppress(OSError):  # the other end may be gone
                self._end.shutdown(socket.SHUT_RDWR)  # the end of the input, for the receiver
            service.receiver.join()

    async def wait(self) -> str:
        """See `Process`."""
        await asyncio.to_thread(self._thread.join)
        self.requests.close()
        with suppress(ConnectionError):
            await self.requests.wait_closed()
        return self._how

    def kill(self) -> None:
        """End the connection: nobody can kill a thread."""
        self.requests.close()
