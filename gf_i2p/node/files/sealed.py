"""The sealed part of a farm's file: bytes that only the holder of a passphrase can read.

scrypt (RFC 7914) derives a key from the passphrase and a salt, and AES-256-GCM encrypts the bytes under that key. Each
seal has a new salt, so no key is used twice. The associated data binds the farm's name, the version of the format, and
the parameters of the derivation: the sealed part of one farm's file opens in no other farm's file.
"""

import json
import os
import unicodedata
from typing import Annotated, Final, Literal, Self

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt
from pydantic import AfterValidator, Field

from gf_i2p.netdb.encoding import from_base64, to_base64
from gf_i2p.netdb.errors import StructureError
from gf_i2p.node.files.checked_read import ConfigError, Table

FORMAT: Final = 1
"""Version of the sealed bytes and of the associated data."""
N: Final = 1 << 17
"""Cost of a new seal. One try of a passphrase takes 128 MiB of memory, and about a second of a processor."""
MIN_N: Final = 1 << 14
MAX_N: Final = 1 << 18
"""Greatest cost that a file may ask for: 256 MiB of memory."""
R: Final = 8
"""Block size: the only one that a file may ask for."""
MAX_P: Final = 2
"""Greatest parallelisation that a file may ask for: a factor of the time, and not of the memory."""
MAX_BYTES: Final = 4 << 20
"""Most bytes that are sealed: the keys of some 10,000 users."""

_SALT_BYTES: Final = 16
_NONCE_BYTES: Final = 12
_TAG_BYTES: Final = 16
_KEY_BYTES: Final = 32
_PURPOSE: Final = "gf-i2p: sealed secrets of a farm"


def _base64_length(size: int) -> int:
    return (size + 2) // 3 * 4


def _bytes(text: str) -> bytes:
    """Decode base64 in the one form for each value. Raises `ValueError`."""
    try:
        data = from_base64(text, MAX_BYTES + _TAG_BYTES)
    except StructureError as error:
        raise ValueError(str(error)) from error
    if to_base64(data) != text:  # without its padding, a second text would stand for the same bytes
        raise ValueError("this base64 text lacks its padding")
    return data


def _checked_salt(text: str) -> str:
    return _of_size(text, _SALT_BYTES)


def _checked_nonce(text: str) -> str:
    return _of_size(text, _NONCE_BYTES)


def _of_size(text: str, size: int) -> str:
    if len(text) != _base64_length(size) or len(_bytes(text)) != size:
        raise ValueError(f"expected {size} bytes in base64")
    return text


def _checked_data(text: str) -> str:
    if len(_bytes(text)) < _TAG_BYTES:
        raise ValueError(f"expected {_TAG_BYTES} bytes in base64 at least")
    return text


def _checked_cost(number: int) -> int:
    if number & (number - 1):
        raise ValueError("expected a power of two")
    return number


class SealedTable(Table):
    """The table `[sealed]`. Each value has a limit here, so a hostile file costs neither memory nor time."""

    kdf: Literal["scrypt"]
    n: Annotated[int, Field(ge=MIN_N, le=MAX_N), AfterValidator(_checked_cost)]
    """scrypt's cost: a try takes 1,024 times as many bytes of memory."""
    r: Annotated[int, Field(ge=R, le=R)]
    p: Annotated[int, Field(ge=1, le=MAX_P)]
    salt: Annotated[str, AfterValidator(_checked_salt)]
    cipher: Literal["AES-256-GCM"]
    nonce: Annotated[str, AfterValidator(_checked_nonce)]
    data: Annotated[str, Field(max_length=_base64_length(MAX_BYTES + _TAG_BYTES)), AfterValidator(_checked_data)]
    """The encrypted bytes and the tag."""

    @classmethod
    def seal(cls, data: bytes, passphrase: str, cluster: str, *, n: int = N) -> Self:
        """Encrypt bytes for one farm. `n`: scrypt's cost, for tests.

        Raises `ConfigError` for more than `MAX_BYTES` bytes, and when the memory for scrypt is missing.
        """
        if len(data) > MAX_BYTES:
            raise ConfigError(f"the secrets have {len(data)} bytes, and at most {MAX_BYTES} can be sealed")
        empty = cls(
            kdf="scrypt",
            n=n,
            r=R,
            p=1,
            salt=to_base64(os.urandom(_SALT_BYTES)),
            cipher="AES-256-GCM",
            nonce=to_base64(os.urandom(_NONCE_BYTES)),
            data=to_base64(bytes(_TAG_BYTES)),
        )
        return empty.encrypt(data, empty.key(passphrase), cluster)

    def key(self, passphrase: str) -> bytes:
        """Derive the key from a passphrase. Raises `ConfigError` when the memory for scrypt is missing."""
        words = unicodedata.normalize("NFC", passphrase).encode("utf-8", "surrogateescape")
        try:
            return Scrypt(salt=_bytes(self.salt), length=_KEY_BYTES, n=self.n, r=self.r, p=self.p).derive(words)
        except MemoryError as error:
            needed = 128 * self.n * self.r >> 20
            raise ConfigError(
                f"the passphrase's key needs {needed} MiB of memory, which this machine does not have"
            ) from error

    def encrypt(self, data: bytes, key: bytes, cluster: str) -> Self:
        """Return this table with these bytes, encrypted. A key and a nonce seal once only: use `seal`."""
        encrypted = AESGCM(key).encrypt(_bytes(self.nonce), data, self.bound(cluster))
        return self.model_copy(update={"data": to_base64(encrypted)})

    def open(self, key: bytes, cluster: str) -> bytes:
        """Decrypt the bytes that were sealed for this farm. `key`: see `key`.

        Raises `ConfigError` for another key, and for any change of the table or of the farm's name. Nobody can tell
        these apart.
        """
        try:
            return AESGCM(key).decrypt(_bytes(self.nonce), _bytes(self.data), self.bound(cluster))
        except InvalidTag as error:
            raise ConfigError(
                "the passphrase is wrong, or the file is damaged: the sealed part opens with the passphrase and the "
                "`cluster` of the export only"
            ) from error

    def bound(self, cluster: str) -> bytes:
        """Return the associated data: all that the seal depends on, beside the passphrase and the bytes."""
        parts = {
            "purpose": _PURPOSE,
            "format": FORMAT,
            "cluster": cluster,
            "kdf": self.kdf,
            "n": self.n,
            "r": self.r,
            "p": self.p,
            "salt": self.salt,
            "cipher": self.cipher,
        }
        return json.dumps(parts, sort_keys=True).encode("ascii")
