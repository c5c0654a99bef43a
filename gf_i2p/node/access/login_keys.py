"""The keys by which servers, clients and administrators log in: their text in files, and the check of signatures."""

import re
import secrets as randomness
from typing import Self

from gf_i2p.netdb.errors import SignatureError
from gf_i2p.netdb.signing import PRIVATE_KEY_BYTES, SigningKey, verify
from gf_i2p.wire.key_proof import PublicKey

_PREFIX = "ed25519-private:"
_PRIVATE = re.compile(rf"{_PREFIX}([0-9a-f]{{64}})", re.ASCII)


class LoginKey:
    """A user's private key. `repr` shows the public half only."""

    __slots__ = ("_key", "public")

    def __init__(self, private: bytes) -> None:
        """`private`: 32 bytes, the seed of RFC 8032."""
        self._key = SigningKey(private)
        self.public = PublicKey(self._key.public)
        """The public half, for the files of all servers."""

    @classmethod
    def generate(cls) -> Self:
        """Make a new key."""
        return cls(randomness.token_bytes(PRIVATE_KEY_BYTES))

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a key from a file. Raises `ValueError`, which does not show the text."""
        match = _PRIVATE.fullmatch(text)
        if match is None:
            raise ValueError(f"is no private key: expected {_PREFIX} and 64 hexadecimal digits in lower case")
        return cls(bytes.fromhex(match[1]))

    @property
    def text(self) -> str:
        """The private key as it stands in files of mode 0600: as secret as a password."""
        return _PREFIX + self._key.private.hex()

    def sign(self, data: bytes) -> bytes:
        """Return the 64 bytes of the signature."""
        return self._key.sign(data)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LoginKey) and self.public == other.public

    def __hash__(self) -> int:
        return hash(self.public)

    def __repr__(self) -> str:
        return f"LoginKey(public={self.public})"


def is_signed(public: bytes, signature: bytes, text: bytes) -> bool:
    """Whether a signature over a text is by the key with this public half; see `gf_i2p.wire.key_proof.Verify`."""
    try:
        verify(public, signature, text)
    except SignatureError:
        return False
    return True
