"""How far away a destination is: what it takes to find its lease set, and to open a stream to it."""

import asyncio
import time
from typing import Final

from bridges.errors import RouterRefusedError
from bridges.sam import Sam, SamSession
from gf_i2p.farm.status import MeasuredStatus
from gf_i2p.netdb.keys import DestinationKeys

ANSWER_SECONDS: Final = 60.0
"""From the stream's opening to the first byte of an answer."""
_PROBE: Final = b"HEAD / HTTP/1.0\r\n\r\n"
"""Most services say something to it, if only that they do not understand."""


async def measure(router: Sam, address: str, *, seconds: float = ANSWER_SECONDS) -> MeasuredStatus:
    """Look a b32 address up, connect to it and have it say something, from a destination that nobody knows.

    i2pd calls a stream open before the peer has heard of it, so only a byte from there shows that it lives. A service
    that waits silently is not told from one that is gone.

    Takes minutes: that destination's tunnels have to be built. Raises `RouterError` when our own router cannot be used.
    """
    session = await router.session(DestinationKeys.generate())
    try:
        began = time.monotonic()
        if await router.lookup(address) is None:
            return MeasuredStatus(lease_set_seconds=None, connect_seconds=None, error="its lease set was not found")
        found = time.monotonic()
        error = await _silence(session, address, seconds)
        answered = time.monotonic()
    finally:
        session.close()
    connect = None if error else answered - found
    return MeasuredStatus(lease_set_seconds=found - began, connect_seconds=connect, error=error)


async def _silence(session: SamSession, address: str, seconds: float) -> str | None:
    """Say why nothing was heard from there; None: something was."""
    try:
        reader, writer = await session.connect(address)
    except RouterRefusedError as error:
        return str(error)
    try:
        async with asyncio.timeout(seconds):
            writer.write(_PROBE)
            return None if await reader.read(1) else "the stream was closed without a word"
    except TimeoutError:
        return f"nothing was heard within {seconds:g} s"
    except OSError as error:
        return f"the stream broke ({error})"
    finally:
        writer.close()
