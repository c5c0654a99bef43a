"""Offline signatures: a transient key signs for a destination's own key (common structures, "OfflineSignature")."""

import struct
from dataclasses import dataclass
from typing import Final, Self

from gf_i2p.netdb.byte_reader import Reader
from gf_i2p.netdb.destination import Destination
from gf_i2p.netdb.errors import LimitError, SignatureError
from gf_i2p.netdb.signing import (
    PUBLIC_KEY_BYTES,
    SIGNATURE_BYTES,
    SignatureType,
    SigningKey,
    signature_type,
)

_HEAD: Final = struct.Struct(">IH")
OFFLINE_SIGNATURE_BYTES: Final = _HEAD.size + PUBLIC_KEY_BYTES + SIGNATURE_BYTES
_MAX_SECONDS: Final = 2**32 - 1


@dataclass(frozen=True, slots=True)
class OfflineSignature:
    """Until `expires`, a signature by `key` is as good as the destination's own."""

    expires: int
    """Time at which the transient key ends, in seconds since the epoch."""
    type: SignatureType
    key: bytes
    """The transient public key, 32 bytes."""
    signature: bytes
    """Signature of the destination's own key over the three fields before, in their encoded form."""

    @classmethod
    def create(cls, master: SigningKey, transient: bytes, expires: int) -> Self:
        """Sign a transient Ed25519 public key with the destination's own key.

        `expires`: seconds since the epoch. Raises `LimitError` for a date or a key that does not fit.
        """
        if not 0 < expires <= _MAX_SECONDS or len(transient) != PUBLIC_KEY_BYTES:
            raise LimitError(
                f"an offline signature needs a date up to {_MAX_SECONDS} and a key of {PUBLIC_KEY_BYTES} bytes"
            )
        signed = _HEAD.pack(expires, SignatureType.ED25519) + transient
        return cls(expires, SignatureType.ED25519, transient, master.sign(signed))

    @classmethod
    def read(cls, reader: Reader) -> Self:
        """Read an offline signature at the reader's position. Raises `StructureError`; nothing is verified yet."""
        expires, kind = reader.number(4), signature_type(reader.number(2))
        return cls(expires, kind, reader.take(PUBLIC_KEY_BYTES), reader.take(SIGNATURE_BYTES))

    def encode(self) -> bytes:
        """Encode expiry, type, key and signature: 102 bytes."""
        return self._signed() + self.signature

    def verify_authority(self, destination: Destination) -> None:
        """Check the destination's signature, and ignore the expiry. Raises `SignatureError`."""
        destination.verify(self.signature, self._signed())

    def verify(self, destination: Destination, now: int) -> None:
        """Check the destination's signature, and that `now` (seconds since the epoch) is before `expires`.

        Raises `SignatureError`.
        """
        self.verify_authority(destination)
        if now >= self.expires:
            raise SignatureError(f"the transient key was good until {self.expires}, and the time is {now}")

    def _signed(self) -> bytes:
        return _HEAD.pack(self.expires, self.type) + self.key
