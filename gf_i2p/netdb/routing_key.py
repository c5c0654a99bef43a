"""Where in the netDb a hash is kept today: by its routing key, which changes every day (spec "netDb")."""

import hashlib
from typing import Final

HASH_BYTES: Final = 32
_DAY_CHARS: Final = 8


def routing_key(hash_: bytes, day: str) -> bytes:
    """Give the 32-byte key under which a lease set or a RouterInfo is looked for.

    `hash_`: of the destination or the router. `day`: in UTC, as yyyyMMdd. Floodfills have no such key: they stand where
    their hash is.
    """
    assert len(hash_) == HASH_BYTES
    assert len(day) == _DAY_CHARS
    assert day.isdigit()
    return hashlib.sha256(hash_ + day.encode("ascii")).digest()


def distance(key: bytes, floodfill: bytes) -> int:
    """Give how far a floodfill is from a routing key: the XOR of both, a number of 256 bits. Low is close."""
    assert len(key) == len(floodfill) == HASH_BYTES
    return int.from_bytes(key, "big") ^ int.from_bytes(floodfill, "big")
