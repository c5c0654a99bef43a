"""Destinations: addresses inside I2P (common structures, "KeysAndCert", "Certificate", "Destination")."""

import hashlib
import struct
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Self

from gf_i2p.netdb.byte_reader import Reader
from gf_i2p.netdb.encoding import from_base64, to_b32_address, to_base64
from gf_i2p.netdb.errors import StructureError
from gf_i2p.netdb.limits import MAX_DESTINATION_BYTES
from gf_i2p.netdb.signing import PUBLIC_KEY_BYTES, SignatureType, signature_type, verify

FILLER_BYTES: Final = 32
_CRYPTO_KEY_BYTES: Final = 256
_SIGNING_FIELD_BYTES: Final = 128
_KEYS_BYTES: Final = _CRYPTO_KEY_BYTES + _SIGNING_FIELD_BYTES
_KEY_CERTIFICATE: Final = 5
_CERTIFICATE: Final = struct.Struct(">BHHH")
"""Type, length of the rest, signature type, crypto type."""
_CRYPTO_TYPES: Final = {0: "ElGamal", 4: "X25519"}
"""Names of the crypto types. I2P no longer uses a destination's crypto key. Java accepts sessions of type 0 only."""


@dataclass(frozen=True)
class Destination:
    """A destination: its bytes, and the fields in these bytes. Use `parse`, `from_base64` or `build`."""

    data: bytes
    signature_type: SignatureType
    crypto_type: int
    """0 for every destination that can be used with a Java router."""
    signing_key: bytes
    """Ed25519 public key that verifies the destination's signatures, 32 bytes."""

    @classmethod
    def build(cls, signing_key: bytes, filler: bytes) -> Self:
        """Make the Ed25519 destination of this public key, 32 bytes. Raises `StructureError` for other lengths.

        `filler`: 32 random bytes, repeated in the place of keys that are no longer used (proposal 161).
        """
        if len(signing_key) != PUBLIC_KEY_BYTES or len(filler) != FILLER_BYTES:
            raise StructureError(f"the public key needs {PUBLIC_KEY_BYTES} bytes, and the filler {FILLER_BYTES}")
        padding = filler * ((_KEYS_BYTES - PUBLIC_KEY_BYTES) // FILLER_BYTES)
        return cls.parse(padding + signing_key + _CERTIFICATE.pack(_KEY_CERTIFICATE, 4, SignatureType.ED25519, 0))

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """Read a destination that is all of `data`. Raises `StructureError`."""
        reader = Reader(data, "a Destination")
        destination = cls.read(reader)
        reader.finish()
        return destination

    @classmethod
    def read(cls, reader: Reader) -> Self:
        """Read a destination at the reader's position. Raises `StructureError`."""
        start = reader.position
        keys = reader.take(_KEYS_BYTES)
        kind, length = reader.number(1), reader.number(2)
        if kind != _KEY_CERTIFICATE:
            raise StructureError(
                f"certificate type {kind} is not supported, only {_KEY_CERTIFICATE} (a key certificate)"
            )
        if length != _CERTIFICATE.size - 3:
            raise StructureError(f"a key certificate for the supported keys has 4 bytes, not {length}")
        signing, crypto = signature_type(reader.number(2)), reader.number(2)
        if crypto not in _CRYPTO_TYPES:
            raise StructureError(f"crypto type {crypto} is not supported in a Destination, only 0 and 4")
        return cls(reader.data[start : reader.position], signing, crypto, keys[-PUBLIC_KEY_BYTES:])

    @classmethod
    def from_base64(cls, text: str) -> Self:
        """Read a destination in base64, as in SAM and in configuration files. Raises `StructureError`."""
        return cls.parse(from_base64(text.strip(), MAX_DESTINATION_BYTES))

    @cached_property
    def hash(self) -> bytes:
        """SHA-256 of the whole destination: the key of its lease sets in the netDb."""
        return hashlib.sha256(self.data).digest()

    @property
    def base64(self) -> str:
        """The destination in I2P's base64: 524 characters."""
        return to_base64(self.data)

    @property
    def b32(self) -> str:
        """The b32 address: 52 characters and `.b32.i2p`."""
        return to_b32_address(self.hash)

    def verify(self, signature: bytes, data: bytes) -> None:
        """Check that this destination's key has signed `data`. Raises `SignatureError`."""
        verify(self.signing_key, signature, data)

    def __repr__(self) -> str:
        return f"Destination({self.b32})"


def address_of(text: str) -> str:
    """Return the b32 address of a destination in base64, also when the types of its keys are not supported.

    Raises `StructureError` when the text is not base64, or its length does not match its certificate.
    """
    data = from_base64(text.strip(), MAX_DESTINATION_BYTES)
    head = _KEYS_BYTES + 3
    if len(data) < head or len(data) != head + int.from_bytes(data[head - 2 : head]):
        raise StructureError(f"these {len(data)} bytes are no Destination: the length does not match the certificate")
    return to_b32_address(hashlib.sha256(data).digest())
