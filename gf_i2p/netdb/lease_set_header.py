"""The parts that LeaseSet2 and MetaLeaseSet share (common structures, "LeaseSet2Header"; proposal 123)."""

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Self

from gf_i2p.netdb.byte_reader import Reader
from gf_i2p.netdb.destination import Destination
from gf_i2p.netdb.errors import LimitError, StructureError
from gf_i2p.netdb.limits import MAX_EXPIRES_SECONDS, MAX_LEASE_SET_BYTES
from gf_i2p.netdb.mapping import read_mapping
from gf_i2p.netdb.offline_signature import OfflineSignature
from gf_i2p.netdb.private_keys import DestinationKeys
from gf_i2p.netdb.signing import SIGNATURE_BYTES, verify

_TIMES: Final = struct.Struct(">IHH")
_MAX_SECONDS: Final = 2**32 - 1
_OFFLINE: Final = 1
_UNPUBLISHED: Final = 2
_BLINDED: Final = 4


@dataclass(frozen=True, slots=True)
class LeaseSet2Header:
    """Destination and times of a lease set."""

    destination: Destination
    published: int
    """Seconds since the epoch. Also the version: routers replace a set only by one with a greater value."""
    expires: int
    """Seconds after `published`, up to 65,535."""
    offline: OfflineSignature | None = None
    """The authorisation of the transient key that signs; None when the destination's own key signs."""
    unpublished: bool = False
    """Whether the set stays out of the netDb: floodfills do not flood such a set."""
    blinded: bool = False
    """Whether the set is encrypted and blinded when published."""

    def encode(self) -> bytes:
        """Encode the header. Raises `LimitError` when a number does not fit."""
        if not 0 <= self.published <= _MAX_SECONDS or not 0 <= self.expires <= MAX_EXPIRES_SECONDS:
            raise LimitError(f"published {self.published} or expires {self.expires} does not fit into its 4 or 2 bytes")
        flags = _UNPUBLISHED * self.unpublished | _BLINDED * self.blinded
        offline = b""
        if self.offline is not None:
            flags |= _OFFLINE
            offline = self.offline.encode()
        return self.destination.data + _TIMES.pack(self.published, self.expires, flags) + offline

    @classmethod
    def of_set(
        cls, keys: DestinationKeys, published: int, ends: Iterable[int], part: str, *, expires_at: int = 0
    ) -> Self:
        """Make the header of a set whose leases or entries end at `ends`.

        The set expires with the last of these, or at `expires_at` where that is later. `part` names one of these in
        the error, as in "a lease". Raises `LimitError` when a router would refuse the set.
        """
        times = sorted(ends)
        first, last = times[0], max(times[-1], expires_at)
        if first <= published:
            raise LimitError(f"{part} ends at {first}, but must end after the set is published, at {published}")
        if last - published > MAX_EXPIRES_SECONDS:
            longest = part if last == times[-1] else "the set"
            raise LimitError(
                f"{longest} ends {last - published} s after the set is published; {MAX_EXPIRES_SECONDS} s are the most"
            )
        if keys.offline is not None and published >= keys.offline.expires:
            raise LimitError(
                f"the transient key was good until {keys.offline.expires}, and the set is published at {published}: "
                "delegate a new one with the destination's own key"
            )
        return cls(keys.destination, published, last - published, keys.offline)

    @classmethod
    def read(cls, reader: Reader) -> Self:
        """Read the header at the reader's position. Raises `StructureError`; nothing is verified yet."""
        destination = Destination.read(reader)
        published, expires, flags = _TIMES.unpack(reader.take(_TIMES.size))
        if flags & ~(_OFFLINE | _UNPUBLISHED | _BLINDED):
            raise StructureError(f"flags {flags:#06x} have bits that are not defined")
        offline = OfflineSignature.read(reader) if flags & _OFFLINE else None
        return cls(destination, published, expires, offline, bool(flags & _UNPUBLISHED), bool(flags & _BLINDED))

    @property
    def expires_at(self) -> int:
        """Time at which the set expires, in seconds since the epoch."""
        return self.published + self.expires

    def verify(self, signature: bytes, data: bytes) -> None:
        """Check the signature of the whole set. Raises `SignatureError`.

        A transient key must be authorised by the destination, and must not have expired when the set was published.
        `data`: the signed bytes, with the store type in front.
        """
        if self.offline is None:
            self.destination.verify(signature, data)
        else:
            self.offline.verify(self.destination, self.published)
            verify(self.offline.key, signature, data)


@dataclass(frozen=True, slots=True)
class SignedSet:
    """A lease set of either kind, with a valid signature."""

    data: bytes = field(repr=False)
    """The whole set, the signature last, as routers get it."""
    header: LeaseSet2Header
    options: Mapping[str, str]

    @property
    def destination(self) -> Destination:
        """The destination that the set belongs to."""
        return self.header.destination

    @property
    def published(self) -> int:
        """Time of publication, in seconds since the epoch; also the version of the set."""
        return self.header.published

    @property
    def expires_at(self) -> int:
        """End of the set, in seconds since the epoch: not before the end of the last lease or entry."""
        return self.header.expires_at

    @property
    def offline(self) -> OfflineSignature | None:
        """The authorisation of the transient key that signed; None when the destination's own key signed."""
        return self.header.offline


def sign_set(keys: DestinationKeys, store_type: int, body: bytes) -> bytes:
    """Return the bytes of a set: its body and the signature. Raises `LimitError` when the set is too large."""
    data = body + keys.key.sign(bytes([store_type]) + body)
    if len(data) > MAX_LEASE_SET_BYTES:
        raise LimitError(_too_large(data))
    return data


def begin_set(data: bytes, what: str) -> tuple[Reader, LeaseSet2Header, Mapping[str, str]]:
    """Read the beginning of a set, up to its options. Raises `StructureError`; nothing is verified yet."""
    if len(data) > MAX_LEASE_SET_BYTES:
        raise StructureError(_too_large(data))
    reader = Reader(data, what)
    return reader, LeaseSet2Header.read(reader), read_mapping(reader)


def end_set(reader: Reader, header: LeaseSet2Header, store_type: int) -> None:
    """Read the signature, which ends the set, and verify it. Raises `StructureError` or `SignatureError`."""
    signed = reader.data[: reader.position]
    signature = reader.take(SIGNATURE_BYTES)
    reader.finish()
    header.verify(signature, bytes([store_type]) + signed)


def _too_large(data: bytes) -> str:
    return f"a set of {len(data)} bytes is larger than the {MAX_LEASE_SET_BYTES} that i2pd takes"
