"""LeaseSet2, the lease set of a service: store type 3 (common structures, "LeaseSet2"; proposal 123)."""

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Self

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from gf_i2p.netdb.byte_reader import Reader
from gf_i2p.netdb.errors import LimitError, StructureError
from gf_i2p.netdb.lease_set_header import LeaseSet2Header, SignedSet, begin_set, end_set, sign_set
from gf_i2p.netdb.limits import (
    MAX_ENCRYPTION_KEY_BYTES,
    MAX_ENCRYPTION_KEYS,
    MAX_LEASES,
)
from gf_i2p.netdb.mapping import encode_mapping
from gf_i2p.netdb.private_keys import DestinationKeys

STORE_TYPE: Final = 3
"""Type in a DatabaseStore message and in CreateLeaseSet2; also the first byte of the signed bytes."""
X25519: Final = 4
"""The encryption type of the lease sets that this program makes: ECIES-X25519-AEAD-Ratchet."""
X25519_KEY_BYTES: Final = 32
"""Length of an X25519 key, private or public."""
_LEASE: Final = struct.Struct(">32sII")
_OLD_LEASE: Final = struct.Struct(">32sIQ")
_KEY_HEAD: Final = struct.Struct(">HH")


@dataclass(frozen=True, slots=True)
class Lease:
    """One tunnel that leads to the service."""

    gateway: bytes
    """SHA-256 of the identity of the router where the tunnel begins, 32 bytes."""
    tunnel: int
    """Number of the tunnel at the gateway, four bytes."""
    end: int
    """End of the tunnel, in seconds since the epoch."""

    def encode(self) -> bytes:
        """Return the lease's 40 bytes ("Lease2"). Raises `LimitError`."""
        if len(self.gateway) != 32 or not 0 <= self.tunnel < 2**32 or not 0 <= self.end < 2**32:
            raise LimitError(f"{self} has a field that does not fit: 32 bytes of gateway, 4 of tunnel, 4 of end")
        return _LEASE.pack(self.gateway, self.tunnel, self.end)

    @classmethod
    def read(cls, reader: Reader) -> Self:
        """Read a lease at the reader's position. Raises `StructureError`."""
        return cls(*_LEASE.unpack(reader.take(_LEASE.size)))


def read_offered(data: bytes) -> tuple[Lease, ...]:
    """Read the tunnels in a router's request for a lease set (common structures, "Lease": 44 bytes each).

    The request has end times in ms; the result has them in seconds, rounded down. Raises `StructureError` unless `data`
    is 1 to 16 whole leases.
    """
    if not data or len(data) % _OLD_LEASE.size or len(data) > MAX_LEASES * _OLD_LEASE.size:
        raise StructureError(f"a router names 1 to {MAX_LEASES} tunnels in 44 bytes each, not in {len(data)} bytes")
    return tuple(
        Lease(gateway, tunnel, min(end_ms // 1000, 2**32 - 1))
        for gateway, tunnel, end_ms in _OLD_LEASE.iter_unpack(data)
    )


def shortened(leases: Sequence[Lease], now: int, seconds: int) -> tuple[Lease, ...]:
    """Return the leases that have not ended at `now` (seconds since the epoch), each cut to end within `seconds`.

    A client keeps a lease set until its leases end. So after a change of the server, clients with short leases soon
    look up the next server's set.
    """
    return tuple(replace(lease, end=min(lease.end, now + seconds)) for lease in leases if lease.end > now)


@dataclass(frozen=True, slots=True)
class EncryptionKey:
    """A public key of a service: clients encrypt their messages to this key."""

    type: int
    """`X25519`, or another type. This program keeps a key of another type unchanged, and does not use that key."""
    key: bytes

    @classmethod
    def of(cls, private: bytes) -> Self:
        """Return the public key of an X25519 private key, 32 bytes."""
        return cls(X25519, X25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw())


@dataclass(frozen=True, slots=True)
class LeaseSet2(SignedSet):
    """A LeaseSet2 with a valid signature. Use `build` or `parse`."""

    encryption: tuple[EncryptionKey, ...]
    """The keys, the preferred one first."""
    leases: tuple[Lease, ...]

    @classmethod
    def build(
        cls,
        keys: DestinationKeys,
        *,
        published: int,
        encryption: Sequence[EncryptionKey],
        leases: Sequence[Lease],
        expires_at: int = 0,
        options: Mapping[str, str] | None = None,
    ) -> Self:
        """Build and sign a set.

        Args:
            keys: the service's keys. Delegated keys sign with the transient key, and the set shows its authorisation.
            published: now, in seconds since the epoch; greater than in every earlier set of this destination.
            encryption: 1 to 8 keys.
            leases: 1 to 16. Each ends after `published`, by 18.2 hours at most.
            expires_at: the time at which the set expires, in seconds since the epoch, where that time is later than the
                end of the last lease. Routers keep a set until the set expires, and use a lease until the lease ends.
            options: see `encode_mapping`.

        Raises:
            LimitError: a router would refuse the set; the message gives the reason.
        """
        if not 1 <= len(leases) <= MAX_LEASES:
            raise LimitError(f"a lease set has 1 to {MAX_LEASES} leases, not {len(leases)}")
        if not 1 <= len(encryption) <= MAX_ENCRYPTION_KEYS:
            raise LimitError(f"a lease set has 1 to {MAX_ENCRYPTION_KEYS} encryption keys, not {len(encryption)}")
        if any(not 1 <= len(each.key) <= MAX_ENCRYPTION_KEY_BYTES for each in encryption):
            raise LimitError(f"an encryption key has 1 to {MAX_ENCRYPTION_KEY_BYTES} bytes")
        header = LeaseSet2Header.of_set(
            keys, published, (lease.end for lease in leases), "a lease", expires_at=expires_at
        )
        options = dict(sorted((options or {}).items()))
        body = b"".join(
            [
                header.encode(),
                encode_mapping(options),
                bytes([len(encryption)]),
                *(_KEY_HEAD.pack(each.type, len(each.key)) + each.key for each in encryption),
                bytes([len(leases)]),
                *(lease.encode() for lease in leases),
            ]
        )
        return cls(sign_set(keys, STORE_TYPE, body), header, options, tuple(encryption), tuple(leases))

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """Read a set and verify its signature. Raises `StructureError` or `SignatureError`."""
        reader, header, options = begin_set(data, "a lease set")
        count = reader.number(1)
        if not 1 <= count <= MAX_ENCRYPTION_KEYS:
            raise StructureError(f"a lease set has 1 to {MAX_ENCRYPTION_KEYS} encryption keys, not {count}")
        encryption = tuple(_read_key(reader) for _ in range(count))
        count = reader.number(1)
        if not 1 <= count <= MAX_LEASES:
            raise StructureError(f"a lease set has 1 to {MAX_LEASES} leases, not {count}")
        leases = tuple(Lease.read(reader) for _ in range(count))
        end_set(reader, header, STORE_TYPE)
        return cls(data, header, options, encryption, leases)


def _read_key(reader: Reader) -> EncryptionKey:
    kind, length = _KEY_HEAD.unpack(reader.take(_KEY_HEAD.size))
    if not 1 <= length <= MAX_ENCRYPTION_KEY_BYTES:
        raise StructureError(f"an encryption key has 1 to {MAX_ENCRYPTION_KEY_BYTES} bytes, not {length}")
    if kind == X25519 and length != X25519_KEY_BYTES:
        raise StructureError(f"an X25519 key has {X25519_KEY_BYTES} bytes, not {length}")
    return EncryptionKey(kind, reader.take(length))
