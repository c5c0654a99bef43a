"""Whether a Java router holds a lease set in its own netDb, which no console shows here.

Java answers HostLookup from its netDb, and asks floodfills only when more than 500 ms are left (IterativeSearchJob of
2.8.0). So a question with less time is answered from the netDb alone. Two costs: a set counts until Java's sweep, up to
two minutes after the set's end. And after three such questions for an unknown set, the router finds that set for nobody
for up to two minutes, unless a floodfill brings the set. So ask only a floodfill that no client uses.
"""

import asyncio
from typing import Final

from bridges.errors import RouterError
from bridges.i2cp.connection import I2cpConnection
from bridges.i2cp.messages import HostReply, host_lookup
from bridges.i2cp.settings import I2cpSettings
from integration.testnet.router import I2CP_PORT

_LOCAL_MS: Final = 400
_ANSWER_SECONDS: Final = 20.0
"""Java answers a failed question when its time is over, and is late at that."""


async def java_holds(address: str, hash_: bytes) -> bool:
    """Whether the router at this address holds a lease set of the destination; False when the router is away."""
    try:
        connection = await I2cpConnection.open(I2cpSettings(address, I2CP_PORT, allow_plain=True))
    except RouterError:
        return False
    try:
        await connection.send(host_lookup(1, hash_, milliseconds=_LOCAL_MS))
        async with asyncio.timeout(_ANSWER_SECONDS):
            while True:
                answer = await connection.receive()
                if isinstance(answer, HostReply):
                    return answer.destination is not None
    except (RouterError, TimeoutError):
        return False
    finally:
        connection.close()
