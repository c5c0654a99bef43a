"""Asks a router whether a destination's lease set is current now (I2CP specification, "HostLookup").

SAM's NAMING LOOKUP cannot tell: routers answer it from a cache of names that never expire (Java I2P 2.8.0, i2pd 2.45.1,
but not i2pd 2.58.0). For a HostLookup with a hash, the router looks among its lease sets that have not expired, and
otherwise asks the floodfills.
"""

import asyncio
import hashlib
from typing import Final

from bridges.errors import RouterError, RouterUnreachableError
from bridges.i2cp.connection import I2cpConnection
from bridges.i2cp.messages import Disconnect, HostReply, host_lookup
from bridges.i2cp.session import session_ended
from bridges.i2cp.settings import I2cpSettings

LOOKUP_SECONDS: Final = 45.0
"""Seconds for an answer. i2pd reports a missing lease set after 5 s at most, and Java after 36 s at most."""
_REQUEST: Final = 1
"""Number of the only request of a connection."""
_FOUND: Final = 0


async def has_lease_set(settings: I2cpSettings, hash_: bytes, *, seconds: float = LOOKUP_SECONDS) -> bool:
    """Return whether the router knows or finds a current lease set of the destination: see `find_destination`."""
    return await find_destination(settings, hash_, seconds=seconds) is not None


async def find_destination(settings: I2cpSettings, hash_: bytes, *, seconds: float = LOOKUP_SECONDS) -> bytes | None:
    """Return the destination if the router knows or finds its current lease set, of any type; otherwise None.

    A lease set stays current for up to ten minutes after its service has ended.

    Args:
        settings: the router's I2CP.
        hash_: hash of the destination, 32 bytes.
        seconds: time limit for the answer.

    Raises `RouterError` when the router does not answer the question.
    """
    connection = await I2cpConnection.open(settings)
    try:
        await connection.send(host_lookup(_REQUEST, hash_, milliseconds=int(seconds * 1000)))
        async with asyncio.timeout(seconds):
            while True:
                match await connection.receive():
                    case HostReply(request, result, found) if request == _REQUEST:
                        return _checked(settings, hash_, result, found)
                    case Disconnect(reason):
                        raise session_ended(settings, reason)
    except TimeoutError as error:
        raise RouterUnreachableError(
            f"{settings} did not answer a look-up within {seconds:g} s: see the load and the tunnels on the router's "
            "console"
        ) from error
    finally:
        connection.close()


def _checked(settings: I2cpSettings, hash_: bytes, result: int, found: bytes | None) -> bytes | None:
    if result != _FOUND or found is None:
        return None
    if hashlib.sha256(found).digest() != hash_:
        raise RouterError(f"{settings} answered a look-up with another destination: is the port I2CP's?")
    return found
