"""Measures how late the event loop's timers are: the time that one step of any task keeps the others waiting."""

import asyncio
from typing import Final

from gf_i2p.storage.durations import Durations

EVERY_SECONDS: Final = 0.5


async def measure_lag(lag: Durations) -> None:
    """Observe a timer's delay every half second until cancelled."""
    loop = asyncio.get_running_loop()
    while True:
        due = loop.time() + EVERY_SECONDS
        await asyncio.sleep(EVERY_SECONDS)
        lag.observe(max(loop.time() - due, 0.0))
