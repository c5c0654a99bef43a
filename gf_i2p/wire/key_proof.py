"""Login by an Ed25519 key: the public half, the text that a proof signs, and the header that carries the proof.

The server offers nothing new. A client with a key takes the nonce of a Digest challenge, and answers instead of a
digest with (one line):

    Authorization: GarlicFarm-Key username="server-2", nonce="...", nc=00000001, cnonce="...", signature="..."

The signature (RFC 8032, Ed25519; 128 hexadecimal digits) is over `proof_text`. A verifier needs the public half only.
So the files of a server let nobody log in elsewhere as another user.

The text names the dialled server twice: by its id, and by the channel, which is what the client has checked when it
dialled (`Dialled`). A server that was dialled can therefore not pass the proof on to another server. RFC 5929
(tls-server-end-point) binds to the certificate in the same way. A stream inside I2P has no certificate; the address,
which is the hash of the key that ends the stream's encryption, stands in its place.

`wire/` computes no signatures: the caller hands in `Sign` and `Verify`.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol, Self

from gf_i2p.wire.errors import RemoteProtocolError
from gf_i2p.wire.http_auth import only_scheme, quote

SCHEME: Final = "GarlicFarm-Key"
_SCHEME: Final = SCHEME.lower()
_PURPOSE: Final = "gf-i2p: login by key, version 1"
PUBLIC_BYTES: Final = 32
SIGNATURE_BYTES: Final = 64
_PREFIX: Final = "ed25519:"
_PUBLIC = re.compile(r"(?:ed25519:)?([0-9a-f]{64})", re.ASCII)
_SIGNATURE = re.compile(r"[0-9a-f]{128}", re.ASCII)
_COUNT = re.compile(r"[0-9a-f]{8}", re.ASCII)

Verify = Callable[[bytes, bytes, bytes], bool]
"""Takes public half (32 bytes), signature (64 bytes) and text; returns whether the signature is right. Never raises."""


class ClientKey(Protocol):
    """A private key of a user."""

    def sign(self, data: bytes) -> bytes:
        """Return the 64 bytes of the signature (RFC 8032)."""
        ...


@dataclass(frozen=True, slots=True)
class PublicKey:
    """The value by which a server verifies a user with a key: the public half, 32 bytes. It is no secret.

    Raises:
        ValueError: the length is wrong.
    """

    raw: bytes

    def __post_init__(self) -> None:
        if len(self.raw) != PUBLIC_BYTES:
            raise ValueError(f"a public key has {PUBLIC_BYTES} bytes, not {len(self.raw)}")

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read "ed25519:" and 64 hexadecimal digits. Raises `ValueError` for any other text, which is not shown."""
        match = _PUBLIC.fullmatch(text)
        if match is None:
            raise ValueError("is no public key: expected ed25519: and 64 hexadecimal digits in lower case")
        return cls(bytes.fromhex(match[1]))

    def __str__(self) -> str:
        """Return the text that `parse` reads."""
        return _PREFIX + self.raw.hex()


NOBODY: Final = PublicKey(b"\x58" + b"\x66" * 31)
"""Stands in for the key of an unknown user, so that each check verifies one signature. It is the base point (RFC 8032,
5.1), a point like any other: a key that is no point would be refused sooner. No signature by it lets anybody in."""


@dataclass(frozen=True, slots=True)
class Dialled:
    """The server that a client has dialled, as both ends see it."""

    server: int
    """The server's id in the farm."""
    channel: str
    """The identity that the client has checked: outside I2P the fingerprint of the certificate ("sha256:..."), inside
    I2P the address in lower case."""


def proof_text(
    at: Dialled, *, realm: str, method: str, path: str, nonce: str, count: str, cnonce: str, user: str
) -> bytes:
    """Return the text that a proof signs: each part with its length (4 bytes, big-endian) before it.

    `path` is the request target in the path form, which names the cluster. Proxies may change the form. `count`: eight
    hexadecimal digits. In every text, each character stands for one byte (Latin-1).

    Raises:
        UnicodeEncodeError: a text has a character above U+00FF.
    """
    parts = (_PURPOSE, realm, method, path, nonce, count, cnonce, user, str(at.server), at.channel)
    encoded = [part.encode("latin-1") for part in parts]
    return b"".join(len(part).to_bytes(4, "big") + part for part in encoded)


@dataclass(frozen=True, slots=True)
class KeyAnswer:
    """The parameters of an Authorization header with a proof."""

    user: str
    nonce: str
    count: str
    """Eight hexadecimal digits, in lower case, not zero."""
    cnonce: str
    signature: bytes

    @classmethod
    def is_one(cls, header: str) -> bool:
        """Whether a header's value begins with the scheme's name."""
        return header[: len(SCHEME) + 1].lower() == f"{_SCHEME} "

    @classmethod
    def parse(cls, header: str) -> Self | None:
        """Read a header's value, of any content; None: it is no proof."""
        try:
            scheme = only_scheme(header)
            parameters = scheme.parameters
            answer = cls(
                parameters["username"],
                parameters["nonce"],
                parameters["nc"],
                parameters["cnonce"],
                bytes.fromhex(parameters["signature"] if _SIGNATURE.fullmatch(parameters["signature"]) else ""),
            )
        except (RemoteProtocolError, KeyError, ValueError):
            return None
        is_complete = len(answer.signature) == SIGNATURE_BYTES and _COUNT.fullmatch(answer.count) is not None
        return answer if scheme.name == _SCHEME and is_complete and int(answer.count, 16) else None

    def header(self) -> str:
        """Return the header's value."""
        return (
            f"{SCHEME} username={quote(self.user)}, nonce={quote(self.nonce)}, nc={self.count}, "
            f'cnonce="{self.cnonce}", signature="{self.signature.hex()}"'
        )
