"""Measures how reachable a destination is: the time to find the lease set, and the time to the first answer."""

import asyncio
import time
from typing import Final

from bridges.errors import RouterRefusedError
from bridges.i2cp.host_lookup import has_lease_set
from bridges.i2cp.settings import I2cpSettings
from bridges.sam.client import Sam, SamSession
from gf_i2p.farm.record.router_facts import MeasuredStatus
from gf_i2p.netdb.encoding import to_b32_address
from gf_i2p.netdb.private_keys import DestinationKeys

ANSWER_SECONDS: Final = 60.0
"""Most seconds for a stream to open, and again for the first byte of an answer."""
_END_SECONDS: Final = 3.0
"""Seconds for the rest of the answer, and again for the stream's end. i2pd 2.45.1 may crash when a session ends before
the session's streams have ended."""
_END_BYTES: Final = 64 << 10
"""Most bytes of the rest of the answer."""
_PROBE: Final = b"HEAD / HTTP/1.0\r\n\r\n"
"""A request that most services answer, if only with an error."""


async def measure(router: Sam, i2cp: I2cpSettings, target: bytes, *, seconds: float = ANSWER_SECONDS) -> MeasuredStatus:
    """Look for a destination's lease set, connect to the destination, and wait for a byte; all as a new destination.

    i2pd calls a stream open before the peer knows of the stream. So only a byte from the peer shows that the peer
    lives. A silent service looks the same as a dead service.

    Takes minutes: the router builds tunnels for the new destination.

    Args:
        router: the router's SAM, for the stream.
        i2cp: the same router's I2CP, for the lease set.
        target: hash of the destination, 32 bytes.
        seconds: time limit for the stream to open, and again for the first byte. Java goes on trying to open a stream
            for 333 s, and gives no sign before.

    Raises `RouterError` when this node's own router fails. For a peer that does not answer in time, the result has the
    reason.
    """
    session = await router.session(DestinationKeys.generate())
    try:
        began_at = time.monotonic()
        if not await has_lease_set(i2cp, target):
            return MeasuredStatus(lease_set_seconds=None, connect_seconds=None, error="its lease set was not found")
        found_at = time.monotonic()
        answered_at, error = await _first_byte_at(session, to_b32_address(target), seconds)
    finally:
        session.close()
    connect = None if answered_at is None else answered_at - found_at
    return MeasuredStatus(lease_set_seconds=found_at - began_at, connect_seconds=connect, error=error)


async def _first_byte_at(session: SamSession, address: str, seconds: float) -> tuple[float | None, str | None]:
    """Return the monotonic time at which the first byte came, and None; or None, and the reason why no byte came."""
    try:
        async with asyncio.timeout(seconds):
            reader, writer = await session.connect(address)
    except RouterRefusedError as error:
        return None, str(error)
    except TimeoutError:
        return None, f"no stream opened within {seconds:g} s"
    try:
        async with asyncio.timeout(seconds):
            writer.write(_PROBE)
            byte = await reader.read(1)
        return (time.monotonic(), None) if byte else (None, "the stream was closed without a word")
    except TimeoutError:
        return None, f"nothing was heard within {seconds:g} s"
    except OSError as error:
        return None, f"the stream broke ({error})"
    finally:
        await _end(reader, writer)


async def _end(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """End a stream so that the router has forgotten the stream when this returns."""
    try:
        async with asyncio.timeout(_END_SECONDS):
            await reader.readexactly(_END_BYTES)
    except asyncio.IncompleteReadError:
        return  # the peer has ended the stream
    except (TimeoutError, OSError):
        pass
    finally:
        writer.close()
    await asyncio.sleep(_END_SECONDS)  # the router does not report the stream's end
