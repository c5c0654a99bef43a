"""A tap between a node and the router's I2CP: passes every byte on, and keeps the Meta lease sets on the way.

A router's console shows only the name of a set and the time of expiry. The tap sees the entries, too.
"""

import asyncio
import contextlib
from types import TracebackType
from typing import Final, Self

from integration.harness.lease_set_check import META, ByHand
from integration.testnet.router import I2CP_PORT
from integration.testnet.router_network import RouterPlace

_CREATE_LEASE_SET2: Final = 41
_READ_BYTES: Final = 65_536


class I2cpTap:
    """Passes I2CP between nodes and one router, and keeps the Meta sets. Use as an asynchronous context manager."""

    def __init__(self, router: RouterPlace) -> None:
        self.given: list[ByHand] = []
        """All sets that the router was given, in order. Each set is verified by hand."""
        self.address = ""
        """The address that the node connects to: "host:port"."""
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
            pass  # the router is away, and the node notices
        finally:
            del self._open[writer]
            self._tasks.discard(task)
            writer.close()

    async def _heard(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, masters: set[bytes]) -> None:
        """Pass on the node's bytes: one byte, then frames of length, type and body. Keep each Meta set in `given`."""
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            writer.write(await reader.readexactly(1))
            while True:
                head = await reader.readexactly(5)
                body = await reader.readexactly(int.from_bytes(head[:4]))
                if head[4] == _CREATE_LEASE_SET2 and body[2] == META:
                    found = ByHand.read(body[3:-1])  # the last byte is for i2pd: the number of private keys that follow
                    self.given.append(found)
                    masters.add(found.hash)
                writer.write(head + body)
                await writer.drain()


async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(_READ_BYTES):
            writer.write(data)
            await writer.drain()
