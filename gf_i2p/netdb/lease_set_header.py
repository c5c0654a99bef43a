"""The header that LeaseSet2 and MetaLeaseSet share (common structures, "LeaseSet2Header"; proposal 123)."""

import struct
from dataclasses import dataclass
from typing import Final, Self

from gf_i2p.netdb.byte_reader import Reader
from gf_i2p.netdb.destination import Destination
from gf_i2p.netdb.errors import LimitError, StructureError
from gf_i2p.netdb.limits import MAX_EXPIRES_SECONDS
from gf_i2p.netdb.offline_signature import OfflineSignature
from gf_i2p.netdb.signing import verify

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
