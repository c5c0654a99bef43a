"""Routing keys: the position of a hash in the netDb, which changes every day (spec "netDb")."""

import hashlib
from typing import Final

HASH_BYTES: Final = 32
_DAY_CHARS: Final = 8


def routing_key(hash_: bytes, day: str) -> bytes:
    """Give the 32-byte key under which routers look for a lease set or a RouterInfo.

    `hash_`: the destination's or the router's. `day`: in UTC, as yyyyMMdd. A floodfill's position is its hash, without
    a routing key.
    """
    assert len(hash_) == HASH_BYTES
    assert len(day) == _DAY_CHARS
    assert day.isdigit()
    return hashlib.sha256(hash_ + day.encode("ascii")).digest()


def distance(key: bytes, floodfill: bytes) -> int:
    """Give the distance of a floodfill from a routing key: the XOR of both, a number of 256 bits. Low is close."""
    assert len(key) == len(floodfill) == HASH_BYTES
    return int.from_bytes(key, "big") ^ int.from_bytes(floodfill, "big")
