"""Targets for logins by key: the header with a proof, and keys in files and in the farm's state."""

from collections.abc import Iterator
from typing import Any, Final

from gf_i2p.farm.admin_entries import ServerKey
from gf_i2p.farm.strict_json import RecordError
from gf_i2p.node.access.login_keys import LoginKey, is_signed
from gf_i2p.wire.digest import Authenticator, Verified
from gf_i2p.wire.http_auth import quote
from gf_i2p.wire.key_credentials import KeyCredentials
from gf_i2p.wire.key_proof import Dialled, PublicKey
from integration.fuzz import samples
from integration.fuzz.target import Target

_USER: Final = "server-2"
_PATH: Final = "/GarlicFarm/farm/1/websocket"
_AT: Final = Dialled(1, "sha256:" + "ab" * 32)
_KEY: Final = LoginKey(bytes(range(32)))
_FIELDS: Final[tuple[dict[str, Any], ...]] = (
    {"key": "A" * 43 + "=", "index": 7},
    {"key": None, "index": 2**63},
    {"key": "=" * 44, "index": -1},
    {},
)


def _authenticator() -> Authenticator:
    return Authenticator("farm", {_USER: _KEY.public}, key=b"k" * 32, dialled=_AT, verify_signature=is_signed)


def _proof(data: bytes) -> None:
    """A proof that is right can only be in the seeds: the seed's own header is the proof."""
    _authenticator().verify(data.decode("latin-1"), "GET", _PATH, 0.0)


def _proofs() -> Iterator[bytes]:
    user = KeyCredentials(_USER, _AT.server, [_KEY])
    user.challenged(_authenticator().challenge(0.0, samples.Entropy("nonce")), 0.0)
    header = user.authorize_at(_AT.channel, "GET", _PATH, 0.0, samples.Entropy("cnonce"))
    assert header is not None
    assert isinstance(_authenticator().verify(header, "GET", _PATH, 0.0), Verified)
    yield header.encode("latin-1")
    yield f"GarlicFarm-Key username={quote(_USER)}, nonce=n, nc=0, cnonce=c, signature=00".encode()


def _keys(data: bytes) -> None:
    """Read both halves from one text; the round trip keeps the bytes."""
    text = data.decode("latin-1")
    if text.startswith("ed25519-private:"):
        assert LoginKey.parse(text).text == text
    else:
        key = PublicKey.parse(text)
        assert PublicKey.parse(str(key)) == key


def _server_key(data: bytes) -> None:
    """The input chooses one of the objects, and replaces the text of the key."""
    fields = dict(_FIELDS[data[0] % len(_FIELDS)]) if data else {}
    if len(data) > 1:
        fields["key"] = data[1:].decode("latin-1")
    key = ServerKey.parse(fields)
    assert ServerKey.parse(key.encode()) == key


TARGETS: Final = (
    Target("key-proof", _proof, (), _proofs, (b"GarlicFarm-Key ", b"signature=", b"nc=00000001", b'"')),
    Target("login-key", _keys, (ValueError,), lambda: (_KEY.text.encode(), str(_KEY.public).encode())),
    Target("server-key", _server_key, (RecordError,), lambda: (b"\0", b"\1", b"\2", b"\3")),
)
