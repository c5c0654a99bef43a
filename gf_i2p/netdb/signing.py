"""Signature types, and Ed25519 keys."""

from enum import IntEnum
from typing import Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from gf_i2p.netdb.errors import SignatureError, StructureError

PUBLIC_KEY_BYTES: Final = 32
PRIVATE_KEY_BYTES: Final = 32
SIGNATURE_BYTES: Final = 64


class SignatureType(IntEnum):
    """The known signature types (common structures, "Certificate"). Both have keys of 32 and signatures of 64 bytes."""

    ED25519 = 7
    """EdDSA_SHA512_Ed25519."""
    RED_DSA = 11
    """RedDSA_SHA512_Ed25519: verified like Ed25519, but signed in another way. This program only reads this type."""


def signature_type(number: int) -> SignatureType:
    """Return the type with this number. Raises `StructureError` for an unknown number."""
    try:
        return SignatureType(number)
    except ValueError:
        supported = ", ".join(f"{each.value} ({each.name})" for each in SignatureType)
        raise StructureError(f"signature type {number} is not supported; supported are {supported}") from None


def verify(public_key: bytes, signature: bytes, data: bytes) -> None:
    """Check a signature of a known type. Raises `SignatureError`."""
    try:
        Ed25519PublicKey.from_public_bytes(public_key).verify(signature, data)
    except (InvalidSignature, ValueError) as error:
        raise SignatureError("the signature is not by this key over these bytes") from error


class SigningKey:
    """An Ed25519 private key. The `repr` does not show the key."""

    __slots__ = ("_key", "public")

    def __init__(self, private: bytes) -> None:
        """`private`: 32 bytes, the seed of RFC 8032. Raises `StructureError` for any other length."""
        if len(private) != PRIVATE_KEY_BYTES:
            raise StructureError(f"an Ed25519 private key has {PRIVATE_KEY_BYTES} bytes, not {len(private)}")
        self._key = Ed25519PrivateKey.from_private_bytes(private)
        self.public = self._key.public_key().public_bytes_raw()
        """The public key, 32 bytes."""

    @property
    def private(self) -> bytes:
        """The 32-byte private key, which must stay secret."""
        return self._key.private_bytes_raw()

    def sign(self, data: bytes) -> bytes:
        """Return the 64-byte signature (RFC 8032)."""
        return self._key.sign(data)

    def __repr__(self) -> str:
        return f"SigningKey(public={self.public.hex()})"
