"""How far away a destination is: what it takes to find its lease set, and to open a stream to it."""

import time

from bridges.errors import RouterRefusedError
from bridges.sam import Sam
from gf_i2p.farm.status import MeasuredStatus
from gf_i2p.netdb.keys import DestinationKeys


async def measure(router: Sam, address: str) -> MeasuredStatus:
    """Look a b32 address up and connect to it, from a destination of its own that nobody knows.

    Takes minutes: that destination's tunnels have to be built. Raises `RouterError` when our own router cannot be used.
    """
    session = await router.session(DestinationKeys.generate())
    try:
        began = time.monotonic()
        if await router.lookup(address) is None:
            return MeasuredStatus(lease_set_seconds=None, connect_seconds=None, error="its lease set was not found")
        found = time.monotonic()
        try:
            _, writer = await session.connect(address)
        except RouterRefusedError as error:
            return MeasuredStatus(lease_set_seconds=found - began, connect_seconds=None, error=str(error))
        connected = time.monotonic()
        writer.close()
    finally:
        session.close()
    return MeasuredStatus(lease_set_seconds=found - began, connect_seconds=connected - found)
