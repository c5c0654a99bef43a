"""A web server for as long as a test needs one."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from aiohttp import web

_TURNS: Final = 10
"""Turns of the event loop to wait: asyncio gives an accepted connection to the server after three turns."""


@asynccontextmanager
async def web_server(app: web.Application, host: str = "127.0.0.1", port: int = 0) -> AsyncIterator[tuple[str, int]]:
    """Serve `app`; yield address and port. No connection stays open afterwards. `port` 0: any free port."""
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
                # asyncio forgets a just accepted connection when the server closes. So stop accepting first, and wait.
                loop.remove_reader(listener)
                for _ in range(_TURNS):
                    await asyncio.sleep(0)
                await site.stop()
    finally:
        await runner.cleanup()
