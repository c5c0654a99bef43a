"""The simulated SAM stops as a router does: no connection outlives it."""

import asyncio
import contextlib
import socket

import pytest

from tests.bridges.sam.scripted_sam import scripted
from tests.transport.harness import soon


@pytest.mark.parametrize("rounds", range(6))
async def test_a_connection_that_comes_right_before_the_stop_is_closed(rounds: int) -> None:
    """`rounds`: rounds of the event loop between the connection and the stop."""
    async with scripted() as there:
        with socket.create_connection((there.sam.host, there.sam.port)) as client:
            client.setblocking(False)
            for _ in range(rounds):
                await asyncio.sleep(0)
            await there.stop()
            with contextlib.suppress(ConnectionResetError):  # SAM had not accepted the connection
                assert await soon(asyncio.get_running_loop().sock_recv(client, 1)) == b""
