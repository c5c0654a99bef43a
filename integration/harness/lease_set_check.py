"""Meta lease sets, read and verified without `gf_i2p.netdb`: by byte offsets alone, with OpenSSL's cryptography."""

import base64
import hashlib
import struct
from dataclasses import dataclass
from typing import Final, Self

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

META: Final = 7
"""The store type of a Meta lease set."""
_DESTINATION_BYTES: Final = 391
_SIGNATURE_BYTES: Final = 64
_ENTRY_BYTES: Final = 40


@dataclass(frozen=True, slots=True)
class HandEntry:
    """One entry of a set."""

    hash: bytes
    """Hash of the destination that the entry leads to, 32 bytes."""
    type: int
    """Store type of the destination's set: 3 (LeaseSet2) or 7 (Meta LeaseSet2)."""
    cost: int
    ends: int
    """Time at which the entry ends, in seconds since the epoch."""


@dataclass(frozen=True, slots=True)
class ByHand:
    """The parts of a Meta lease set, taken by their offsets (common structures; proposal 123), and verified."""

    hash: bytes
    """Hash of the destination."""
    published: int
    expires: int
    """Seconds since the epoch, as are `published` and `good_until`."""
    transient: bytes | None
    """The transient key that the destination has authorised; None: the destination signs itself."""
    good_until: int | None
    """End of that authorisation."""
    entries: tuple[HandEntry, ...]

    @classmethod
    def read(cls, data: bytes) -> Self:
        """Read all of `data`. Raises `AssertionError` or `InvalidSignature`."""
        destination, rest = data[:_DESTINATION_BYTES], data[_DESTINATION_BYTES:]
        assert destination[384:391] == bytes([5, 0, 4, 0, 7, 0, destination[390]]), "a key certificate for Ed25519"
        published, lifetime, flags = struct.unpack(">IHH", rest[:8])
        assert flags in {0, 1}, "no flag but that of an offline signature"
        signer, transient, good_until, place = destination[352:384], None, None, 8
        if flags:
            authorised, by_master = rest[8:46], rest[46:110]
            good_until, kind = struct.unpack(">IH", authorised[:6])
            assert kind == 7
            Ed25519PublicKey.from_public_bytes(signer).verify(by_master, authorised)
            signer = transient = authorised[6:]
            place = 110
        Ed25519PublicKey.from_public_bytes(signer).verify(
            data[-_SIGNATURE_BYTES:], bytes([META]) + data[:-_SIGNATURE_BYTES]
        )
        options = int.from_bytes(rest[place : place + 2])
        listed = rest[place + 2 + options : -_SIGNATURE_BYTES]
        count = listed[0]
        assert len(listed) == 1 + _ENTRY_BYTES * count + 1
        assert listed[-1] == 0, "no revocations"
        entries = tuple(_entry(listed[1 + _ENTRY_BYTES * number :][:_ENTRY_BYTES]) for number in range(count))
        return cls(
            hashlib.sha256(destination).digest(), published, published + lifetime, transient, good_until, entries
        )

    @property
    def b32(self) -> str:
        """The address of the destination."""
        return f"{base64.b32encode(self.hash).decode().rstrip('=').lower()}.b32.i2p"

    @property
    def leaves(self) -> tuple[bytes, ...]:
        """The hashes of the entries."""
        return tuple(entry.hash for entry in self.entries)


def _entry(data: bytes) -> HandEntry:
    hash_, flags, kind, cost, ends = struct.unpack(">32sHBBI", data)
    assert flags == 0
    return HandEntry(hash_, kind, cost, ends)
