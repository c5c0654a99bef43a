"""Private keys of a destination, in the file format of both routers and SAM."""

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Self

from gf_i2p.netdb.byte_reader import Reader
from gf_i2p.netdb.destination import FILLER_BYTES, Destination
from gf_i2p.netdb.encoding import from_base64, to_base64
from gf_i2p.netdb.errors import SignatureError, StructureError
from gf_i2p.netdb.limits import MAX_DESTINATION_BYTES
from gf_i2p.netdb.offline_signature import OFFLINE_SIGNATURE_BYTES, OfflineSignature
from gf_i2p.netdb.signing import PRIVATE_KEY_BYTES, SignatureType, SigningKey

_CRYPTO_PRIVATE_BYTES: Final = 256
_NO_KEY: Final = bytes(PRIVATE_KEY_BYTES)
_MAX_BYTES: Final = MAX_DESTINATION_BYTES + _CRYPTO_PRIVATE_BYTES + 2 * PRIVATE_KEY_BYTES + OFFLINE_SIGNATURE_BYTES


@dataclass(frozen=True, slots=True)
class DestinationKeys:
    """A destination with its signing key: its own key, or a transient key that the destination has authorised.

    The holder of these keys can act as the destination, until `offline.expires` when there is an offline signature.
    `repr` does not show the keys. Raises `SignatureError` when key, authorisation and destination do not belong
    together, and `StructureError` for a type of key with which this program cannot sign.
    """

    destination: Destination
    key: SigningKey
    offline: OfflineSignature | None = None
    """Authorisation of a transient `key`; None when `key` is the destination's own."""
    crypto_private: bytes = field(default=bytes(_CRYPTO_PRIVATE_BYTES), repr=False)
    """256 bytes that no program uses any more; kept unchanged."""

    def __post_init__(self) -> None:
        offline = self.offline
        if offline is None:
            if self.destination.signature_type is not SignatureType.ED25519:
                raise StructureError("a destination's own key must be Ed25519: this program signs with no other type")
            expected = self.destination.signing_key
        else:
            if offline.type is not SignatureType.ED25519:
                raise StructureError("a transient key must be Ed25519: this program signs with no other type")
            offline.verify_authority(self.destination)
            expected = offline.key
        if self.key.public != expected:
            raise SignatureError(f"the private key does not belong to {self.destination}")

    @classmethod
    def generate(cls, entropy: Callable[[int], bytes] = os.urandom) -> Self:
        """Make a new Ed25519 destination with its keys. `entropy(n)` returns n random bytes."""
        key = SigningKey(entropy(PRIVATE_KEY_BYTES))
        return cls(Destination.build(key.public, entropy(FILLER_BYTES)), key)

    def delegate(self, expires: int, entropy: Callable[[int], bytes] = os.urandom) -> Self:
        """Make keys with which another machine signs for this destination until `expires` (seconds since the epoch).

        `entropy(n)` returns n random bytes. Raises `SignatureError` for delegated keys, because a transient key
        authorises nobody. Raises `LimitError` for a date that does not fit into four bytes.
        """
        if self.offline is not None:
            raise SignatureError(
                "a transient key cannot authorise another key: delegate where the destination's own key is"
            )
        transient = SigningKey(entropy(PRIVATE_KEY_BYTES))
        return type(self)(self.destination, transient, OfflineSignature.create(self.key, transient.public, expires))

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """Read the content of a router's key file, or of SAM's PRIV. Raises `StructureError` or `SignatureError`."""
        reader = Reader(data, "a private key file")
        destination = Destination.read(reader)
        if destination.crypto_type != 0:
            raise StructureError("the private keys of destinations with another crypto type than 0 are not supported")
        crypto_private, private = reader.take(_CRYPTO_PRIVATE_BYTES), reader.take(PRIVATE_KEY_BYTES)
        offline = None
        if private == _NO_KEY:
            offline = OfflineSignature.read(reader)
            private = reader.take(PRIVATE_KEY_BYTES)
        reader.finish()
        return cls(destination, SigningKey(private), offline, crypto_private)

    @classmethod
    def from_base64(cls, text: str) -> Self:
        """Read SAM's PRIV. Raises the errors of `parse`."""
        return cls.parse(from_base64(text.strip(), _MAX_BYTES))

    def encode(self) -> bytes:
        """Return the bytes of a router's key file: 679 for an Ed25519 destination's own keys."""
        head = self.destination.data + self.crypto_private
        if self.offline is None:
            return head + self.key.private
        return head + _NO_KEY + self.offline.encode() + self.key.private

    @property
    def base64(self) -> str:
        """The keys in base64, for SAM's SESSION CREATE. A secret."""
        return to_base64(self.encode())
