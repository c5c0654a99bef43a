"""The forwarder in front of a leaf's service: passes bytes on unchanged, and counts."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from bridges.byte_rate import WINDOW_SECONDS
from gf_i2p.node.report.leaf_forward import ForwardLoad, LeafForward
from integration.harness.processes import free_ports
from tests.transport.harness import soon, until

MOST = 3


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Forwarded:
    """A service that sends each byte back, behind a forwarder."""

    def __init__(self) -> None:
        self.port, self.service = free_ports(2)
        self.clock = Clock()
        self.forward = LeafForward(
            ("127.0.0.1", self.port),
            ("127.0.0.1", self.service),
            max_connections=MOST,
            max_bytes_per_second=5000,
            clock=self.clock,
        )

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.port)


async def _echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while piece := await reader.read(1 << 16):
        writer.write(piece)
        await writer.drain()
    writer.close()


@asynccontextmanager
async def forwarding() -> AsyncIterator[Forwarded]:
    made = Forwarded()
    task = asyncio.create_task(made.forward.run())
    await until(lambda: made.forward._rate is not None)
    async with await asyncio.start_server(_echo, "127.0.0.1", made.service):
        yield made
        task.cancel()
        await asyncio.wait([task])
        assert made.forward.load.connections == 0


async def closed(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Wait until the other end has closed the connection without a byte."""
    with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
        await soon(reader.readexactly(1))
    writer.close()


async def test_bytes_pass_unchanged_and_so_does_the_end() -> None:
    async with forwarding() as made:
        reader, writer = await made.connect()
        data = bytes(range(256)) * 4000
        writer.write(data)
        writer.write_eof()
        assert await soon(reader.read()) == data
        writer.close()
        await until(lambda: made.forward.load.connections == 0)
        assert (made.forward.served, made.forward.refused, made.forward.failed) == (1, 0, 0)


async def test_connections_are_counted_and_those_above_the_limit_are_closed() -> None:
    async with forwarding() as made:
        assert made.forward.load == ForwardLoad(0, MOST, 0, 5000)
        pairs = [await made.connect() for _ in range(MOST)]
        await until(lambda: made.forward.load.connections == MOST)
        await closed(*await made.connect())
        assert made.forward.refused == 1
        pairs[0][1].close()
        await until(lambda: made.forward.load.connections == MOST - 1)
        reader, writer = await made.connect()
        writer.write(b"x")
        assert await soon(reader.readexactly(1)) == b"x"
        for _, each in [*pairs, (reader, writer)]:
            each.close()


async def test_the_bandwidth_is_the_bytes_of_both_directions_over_the_window() -> None:
    async with forwarding() as made:
        reader, writer = await made.connect()
        writer.write(b"x" * 30_000)
        assert len(await soon(reader.readexactly(30_000))) == 30_000
        await until(lambda: made.forward._rate is not None and made.forward._rate.total == 60_000)
        made.clock.now += WINDOW_SECONDS / 2
        assert made.forward.load.bytes_per_second == 60_000 / (WINDOW_SECONDS / 2)
        made.clock.now += WINDOW_SECONDS / 2
        assert made.forward.load.bytes_per_second == 60_000 / WINDOW_SECONDS
        made.clock.now += WINDOW_SECONDS + 1
        assert made.forward.load.bytes_per_second == 0
        writer.close()


async def test_a_service_that_does_not_take_a_connection() -> None:
    made = Forwarded()
    task = asyncio.create_task(made.forward.run())
    await until(lambda: made.forward._rate is not None)
    await closed(*await made.connect())
    await until(lambda: made.forward.failed == 1)
    task.cancel()
    await asyncio.wait([task])


async def test_a_port_in_use_is_told() -> None:
    made = Forwarded()
    async with await asyncio.start_server(_echo, "127.0.0.1", made.port):
        await soon(made.forward.run())
    assert f"cannot listen at 127.0.0.1:{made.port}" in (made.forward.trouble or "")
    assert "leaf_forward in [publish]" in (made.forward.trouble or "")


async def test_connections_end_with_the_forwarder() -> None:
    async with forwarding() as made:
        connection = await made.connect()
        await until(lambda: made.forward.load.connections == 1)
    await closed(*connection)
