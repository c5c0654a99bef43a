"""A forwarder in front of the service behind a leaf, which counts connections and bytes for the status record.

No router tells how busy one of its server tunnels is. So the router's tunnel may lead here instead of to the service,
and the node passes every connection on. The bytes are not changed.
"""

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import structlog

from bridges.byte_rate import ByteRate

logger = structlog.get_logger()

CONNECT_SECONDS: Final = 10.0
"""Seconds for the service to take a connection."""
_PIECE_BYTES: Final = 64 << 10
"""Most bytes that wait in each direction of a connection."""


@dataclass(frozen=True, slots=True)
class ForwardLoad:
    """Load of a leaf, for its entry in the status record."""

    connections: int
    """Connections now."""
    max_connections: int
    """Most connections at a time."""
    bytes_per_second: int
    """Bytes to and from the service, on average over `byte_rate.WINDOW_SECONDS`."""
    max_bytes_per_second: int | None
    """The bandwidth at which the leaf counts as full, from the settings; None: not set."""


class LeafForward:
    """Passes connections on to the service, and counts connections and bytes. `run` does so until cancelled."""

    def __init__(
        self,
        listen: tuple[str, int],
        service: tuple[str, int],
        *,
        max_connections: int,
        max_bytes_per_second: int | None = None,
        leaf: str = "this router's leaf",
        table: str = "[publish]",
        clock: Callable[[], float] | None = None,
    ) -> None:
        """Listen nowhere yet.

        Args:
            listen: host and port to which the router's tunnel leads.
            service: host and port of the operator's service.
            max_connections: most connections at a time; further ones are closed at once.
            max_bytes_per_second: the bandwidth that counts as full; nothing is slowed down.
            leaf: names the leaf in messages.
            table: name of the table with these settings, for messages.
            clock: monotonic seconds; without it, the event loop's clock.
        """
        self.served = 0
        """Number of connections that were passed on."""
        self.refused = 0
        """Number of connections that were closed because there were too many."""
        self.failed = 0
        """Number of connections that the service did not take."""
        self.trouble: str | None = None
        """Why nothing is passed on: advice for the operator; None while the forwarder listens."""
        self._listen = listen
        self._service = service
        self._max_connections = max_connections
        self._max_bytes_per_second = max_bytes_per_second
        self._leaf = leaf
        self._table = table
        self._clock = clock
        self._rate: ByteRate | None = None
        """Rate of the bytes that pass; None until the forwarder listens."""
        self._open: set[asyncio.Task[None]] = set()

    @property
    def load(self) -> ForwardLoad:
        """The load now."""
        rate = 0 if self._rate is None else self._rate.per_second(self._now())
        return ForwardLoad(len(self._open), self._max_connections, rate, self._max_bytes_per_second)

    async def run(self) -> None:
        """Listen, and pass connections on. Return with `trouble` when listening fails; the caller then tries again."""
        try:
            server = await asyncio.start_server(self._accept, *self._listen, limit=_PIECE_BYTES)
        except OSError as error:
            host, port = self._listen
            self.trouble = (
                f"the forwarder of {self._leaf} cannot listen at {host}:{port} ({error.strerror or error}): stop the "
                f"program that listens there, or correct leaf_forward in {self._table}"
            )
            logger.warning("leaf_forward", trouble=self.trouble)
            return
        self.trouble = None
        self._rate = ByteRate(self._now())
        try:
            async with server:
                await server.serve_forever()
        finally:
            for task in self._open:
                task.cancel()
            await asyncio.gather(*self._open, return_exceptions=True)

    def _now(self) -> float:
        return asyncio.get_running_loop().time() if self._clock is None else self._clock()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._open) >= self._max_connections:
            self.refused += 1
            writer.transport.abort()
            return
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._open.add(task)
        task.add_done_callback(self._open.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self._pass_on(reader, writer)
        finally:
            writer.transport.abort()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                from_service, to_service = await asyncio.open_connection(*self._service, limit=_PIECE_BYTES)
        except (OSError, TimeoutError):
            self.failed += 1
            return
        self.served += 1
        try:
            async with asyncio.TaskGroup() as directions:
                directions.create_task(self._pump(reader, to_service))
                directions.create_task(self._pump(from_service, writer))
        except* OSError:
            pass  # one end has broken the connection off
        finally:
            to_service.transport.abort()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass bytes on until their end, and the end itself."""
        assert self._rate is not None, "there are connections only while the forwarder listens"
        while piece := await reader.read(_PIECE_BYTES):
            self._rate.add(len(piece), self._now())
            writer.write(piece)
            await writer.drain()
        with contextlib.suppress(OSError):
            writer.write_eof()
