"""A web server for as long as a test needs one."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from aiohttp import web

_TURNS: Final = 10
"""Of the event loop: a connection that it has accepted is the server's three later."""


@asynccontextmanager
async def web_server(app: web.Application, host: str = "127.0.0.1", port: int = 0) -> AsyncIterator[tuple[str, int]]:
    """Serve; give the address and port. No connection is left open afterwards. `port` 0: any."""
    loop = asyncio.get_running_loop()
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        with socket.create_server((host, port)) as listener:
            site = web.SockSite(runner, listener)
            await site.start()
            try:
                yield host, listener.getsockname()[1]
            finally:
                # A connection that was just accepted asyncio forgets when its server is closed: first accept no more.
                loop.remove_reader(listener)
                for _ in range(_TURNS):
                    await asyncio.sleep(0)
                await site.stop()
    finally:
        await runner.cleanup()
