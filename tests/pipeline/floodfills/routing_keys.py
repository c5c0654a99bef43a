"""Routing keys and distances, one at a time: the columns of the pipeline are compared with these."""

import hashlib


def routing_key(hash_: bytes, day: str) -> bytes:
    return hashlib.sha256(hash_ + day.encode("ascii")).digest()


def distance(key: bytes, floodfill: bytes) -> int:
    return int.from_bytes(key) ^ int.from_bytes(floodfill)
