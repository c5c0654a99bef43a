"""Keeps aiohttp quiet: its answers name neither the program nor the clock, and unreadable requests fill no log."""

import logging
from typing import Final

from aiohttp import web

SILENT: Final = logging.getLogger(f"{__name__}.unread")
"""The logger for aiohttp, which logs each unreadable request with a traceback. Otherwise anybody could fill the log."""
SILENT.disabled = True


async def without_banner(_: web.Request, response: web.StreamResponse) -> None:
    """Take out the headers that name the program and the clock."""
    for name in ("Server", "Date"):
        response.headers.pop(name, None)
