"""Between a node and its router's I2CP: passes every byte on, and keeps the Meta lease sets that the router is given.

A router's console names a set and says when it expires; what is in it only those know that have seen it.
"""

import asyncio
import contextlib
from types import TracebackType
from typing import Final, Self

from integration.harness.lease_set_check import META, ByHand
from integration.testnet.client import RouterPlace
from integration.testnet.router import I2CP_PORT

_CREATE_LEASE_SET2: Final = 41
_READ_BYTES: Final = 65_536


class I2cpTap:
    """One router's. Use it as an asynchronous context manager."""

    def __init__(self, router: RouterPlace) -> None:
        self.given: list[ByHand] = []
        """All sets that the router was given, one after another; each is verified by hand."""
        self.address = ""
        """Where the node finds it: "host:port"."""
        self._router = router
        self._open: dict[asyncio.StreamWriter, set[bytes]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def kept(self) -> set[bytes]:
        """The hashes of the masters whose sets were given in connections that are still open."""
        return {master for masters in self._open.values() for master in masters}

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        host, port = self._server.sockets[0].getsockname()
        self.address = f"{host}:{port}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        for writer in tuple(self._open):
            writer.close()
        await asyncio.gather(*self._tasks)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        masters = self._open[writer] = set()
        try:
            far_reader, far_writer = await asyncio.open_connection(self._router.address, I2CP_PORT)
            try:
                there = asyncio.create_task(self._heard(reader, far_writer, masters))
                back = asyncio.create_task(_pass(far_reader, writer))
                try:
                    await asyncio.wait([there, back], return_when=asyncio.FIRST_COMPLETED)
                finally:
                    for each in (there, back):
                        each.cancel()
                    await asyncio.gather(there, back, return_exceptions=True)
                if not there.cancelled():
                    there.result()
            finally:
                far_writer.close()
        except OSError:
            pass  # the router is away; the node sees that, too
        finally:
            del self._open[writer]
            self._tasks.discard(task)
            writer.close()

    async def _heard(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, masters: set[bytes]) -> None:
        """Pass on what the node says: one byte first, then messages of four bytes of length, a type and a body."""
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            writer.write(await reader.readexactly(1))
            while True:
                head = await reader.readexactly(5)
                body = await reader.readexactly(int.from_bytes(head[:4]))
                if head[4] == _CREATE_LEASE_SET2 and body[2] == META:
                    found = ByHand.read(body[3:-1])  # the last byte is i2pd's: how many private keys follow
                    self.given.append(found)
                    masters.add(found.hash)
                writer.write(head + body)
                await writer.drain()


async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(_READ_BYTES):
            writer.write(data)
            await writer.drain()
