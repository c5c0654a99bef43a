"""The web server of tests leaves nothing open."""

import asyncio
import contextlib
import gc
import socket

import pytest
from aiohttp import web

from integration.harness.web_server import web_server


@pytest.mark.parametrize("turns", range(6))
async def test_a_connection_that_is_just_being_accepted_is_closed(turns: int) -> None:
    async with web_server(web.Application()) as place:
        made = socket.create_connection(place)  # by the kernel; the server learns of the connection in a later turn
        for _ in range(turns):
            await asyncio.sleep(0)
    with made, contextlib.suppress(ConnectionResetError):
        assert made.recv(1) == b""
    gc.collect()  # an open connection is a warning, and a warning is an error
