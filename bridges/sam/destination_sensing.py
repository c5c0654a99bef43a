"""How far away a destination is: what it takes to find its lease set, and to open a stream to it."""

import asyncio
import time
from typing import Final

from bridges.errors import RouterRefusedError
from bridges.sam.client import Sam, SamSession
from gf_i2p.farm.record.router_facts import MeasuredStatus
from gf_i2p.netdb.private_keys import DestinationKeys

ANSWER_SECONDS: Final = 60.0
"""From the stream's opening to the first byte of an answer."""
_END_SECONDS: Final = 3.0
"""For the rest of the answer, and once more for the stream's end: i2pd 2.45.1 may crash when a session ends before its
streams have."""
_END_BYTES: Final = 64 << 10
"""Of the rest of the answer."""
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
        answered, error = await _answered(session, address, seconds)
    finally:
        session.close()
    connect = None if answered is None else answered - found
    return MeasuredStatus(lease_set_seconds=found - began, connect_seconds=connect, error=error)


async def _answered(session: SamSession, address: str, seconds: float) -> tuple[float | None, str | None]:
    """Say when something was heard from there; or None, and why nothing was."""
    try:
        reader, writer = await session.connect(address)
    except RouterRefusedError as error:
        return None, str(error)
    try:
        async with asyncio.timeout(seconds):
            writer.write(_PROBE)
            heard = await reader.read(1)
        return (time.monotonic(), None) if heard else (None, "the stream was closed without a word")
    except TimeoutError:
        return None, f"nothing was heard within {seconds:g} s"
    except OSError as error:
        return None, f"the stream broke ({error})"
    finally:
        await _end(reader, writer)


async def _end(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """End a stream so that the router has forgotten it when this returns."""
    try:
        async with asyncio.timeout(_END_SECONDS):
            await reader.readexactly(_END_BYTES)
    except asyncio.IncompleteReadError:
        return  # the peer has ended it
    except (TimeoutError, OSError):
        pass
    finally:
        writer.close()
    await asyncio.sleep(_END_SECONDS)  # nothing says that it has
