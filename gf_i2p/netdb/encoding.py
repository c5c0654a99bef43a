"""I2P's base64 and base32 (common structures; naming)."""

import base64
import binascii
from typing import Final

from gf_i2p.netdb.errors import StructureError

_ALTCHARS: Final = b"-~"
HASH_BYTES: Final = 32
"""Bytes of the hash of a destination or a router: SHA-256."""
_B32_SUFFIX: Final = ".b32.i2p"
_B32_CHARS: Final = 52


def to_base64(data: bytes) -> str:
    """Encode with `-` and `~` where the standard has `+` and `/`, padded with `=`."""
    return base64.b64encode(data, _ALTCHARS).decode("ascii")


def to_base64url(data: bytes) -> str:
    """Encode in the alphabet of URLs and file names, without padding (RFC 4648, 5)."""
    return base64.urlsafe_b64encode(data).decode("ascii").rstrip("=")


def from_base64url(text: str) -> bytes:
    """Decode what `to_base64url` writes. Raises `ValueError` for any other character."""
    return base64.b64decode(text + "=" * (-len(text) % 4), b"-_", validate=True)


def from_base64(text: str, max_bytes: int) -> bytes:
    """Decode base64 in I2P's alphabet. The padding may be missing.

    Raises `StructureError` for any other character, and for a text that is longer than the base64 of `max_bytes` bytes.
    """
    if len(text) > (max_bytes + 2) // 3 * 4:
        raise StructureError(f"a base64 text of {len(text)} characters is longer than {max_bytes} bytes need")
    padded = text + "=" * (-len(text) % 4)
    try:
        data = base64.b64decode(padded.encode("ascii"), _ALTCHARS, validate=True)
    except (UnicodeEncodeError, binascii.Error) as error:
        raise StructureError("this is not base64 as I2P writes it (letters, digits, - and ~)") from error
    if to_base64(data) != padded:  # with bits beyond the last byte, two texts would stand for the same bytes
        raise StructureError("this base64 text has bits beyond its last byte")
    return data


def to_b32_address(hash_: bytes) -> str:
    """Return the address of a destination by its 32-byte hash: 52 characters and `.b32.i2p`."""
    assert len(hash_) == HASH_BYTES
    return base64.b32encode(hash_).decode("ascii").rstrip("=").lower() + _B32_SUFFIX


def from_b32_address(address: str) -> bytes:
    """Return the hash of a b32 address; case does not matter.

    Raises `StructureError` for anything else, also for the longer addresses of encrypted lease sets.
    """
    name = address.lower()
    text = name.removesuffix(_B32_SUFFIX)
    if text == name or len(text) != _B32_CHARS:
        raise StructureError(f"{address[:80]!r} is no b32 address: expected {_B32_CHARS} characters and {_B32_SUFFIX}")
    try:
        data = base64.b32decode(text.upper().encode("ascii") + b"====")
    except (UnicodeEncodeError, binascii.Error) as error:
        raise StructureError(f"{address[:80]!r} is no b32 address: its letters are a to z and 2 to 7") from error
    if to_b32_address(data) != name:
        raise StructureError(f"{address[:80]!r} is no b32 address: it has bits beyond its last byte")
    return data
