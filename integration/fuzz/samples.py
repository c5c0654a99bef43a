"""Values from which the seeds are made: fixed keys and dates, and bytes that were recorded from real programs."""

import hashlib
import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

from gf_i2p.netdb.encoding import to_base64
from gf_i2p.netdb.lease_set import EncryptionKey, Lease, LeaseSet2
from gf_i2p.netdb.meta_lease_set import LeaseType, MetaLease, MetaLeaseSet
from gf_i2p.netdb.private_keys import DestinationKeys

NOW: Final = 1_790_000_000
"""Seconds since the epoch."""
NOW_MS: Final = NOW * 1000
_TESTS: Final = Path(__file__).parents[2] / "tests"


class Entropy:
    """Bytes that look random, and are the same in each run."""

    def __init__(self, seed: str) -> None:
        self._seed = seed
        self._calls = 0

    def __call__(self, count: int) -> bytes:
        """Return the next `count` bytes."""
        self._calls += 1
        return hashlib.shake_128(f"{self._seed} {self._calls}".encode()).digest(count)


@cache
def keys(name: str = "master") -> DestinationKeys:
    """Return the keys of a made-up destination."""
    return DestinationKeys.generate(Entropy(name))


@cache
def delegated_keys() -> DestinationKeys:
    """Return keys that the destination `keys()` has authorised."""
    return keys().delegate(NOW + 86_400, Entropy("transient"))


@cache
def meta_set() -> MetaLeaseSet:
    """Return a Meta lease set with two entries and an option."""
    entries = [
        MetaLease(keys("leaf").destination.hash, NOW + 500, 3),
        MetaLease(keys("branch").destination.hash, NOW + 600, 0, LeaseType.META),
    ]
    return MetaLeaseSet.build(keys(), published=NOW, entries=entries, options={"a": "1", "bb": "two"})


@cache
def lease_set() -> LeaseSet2:
    """Return the lease set of a service, signed with a delegated key."""
    leases = [Lease(bytes(range(32)), 7, NOW + 300), Lease(bytes(32), 2**32 - 1, NOW + 600)]
    encryption = [EncryptionKey.of(bytes(range(32))), EncryptionKey(0, bytes(256))]
    return LeaseSet2.build(delegated_keys(), published=NOW, encryption=encryption, leases=leases)


def recorded(path: str) -> Any:
    """Read recorded bytes, by a path below the tests."""
    return json.loads((_TESTS / path).read_text("utf-8"))


def recorded_files(folder: str, pattern: str) -> list[bytes]:
    """Read recorded files, by a folder below the tests."""
    return [file.read_bytes() for file in sorted((_TESTS / folder).glob(pattern))]


def jraft(kind: str) -> Iterator[bytes]:
    """Give the values or messages of one kind that JRaft's own classes have encoded."""
    for each in recorded("wire/vectors/jraft-wire.json"):
        if each["kind"] == kind:
            yield bytes.fromhex(each["hex"])


def to_text(data: bytes) -> str:
    """Return bytes in I2P's base64."""
    return to_base64(data)
