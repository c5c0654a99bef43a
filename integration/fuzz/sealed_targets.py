"""Targets of a farm's sealed secrets: the file with its sealed part, and the bytes that were sealed.

The key is fixed: scrypt takes a second on purpose, and its parameters are checked before the key is derived.
"""

from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Final

from pydantic import SecretStr

from gf_i2p.netdb.encoding import to_base64
from gf_i2p.node.access.login_keys import LoginKey
from gf_i2p.node.files.checked_read import ConfigError, table_of
from gf_i2p.node.files.farm_file import FarmFile
from gf_i2p.node.files.sealed import MAX_N, MAX_P, MIN_N, R, SealedTable
from gf_i2p.node.recovery.farm_secrets import BranchTable, FarmSecrets, SealedUser
from gf_i2p.wire.digest import Secret
from integration.fuzz import samples
from integration.fuzz.target import Target

_CLUSTER: Final = "farm"
_KEY: Final = bytes(range(32))
_TOKENS: Final = (
    b"[sealed]\n", b'kdf = "scrypt"\n', b"n = ", b"r = 8\n", b"p = ", b'salt = "', b'nonce = "', b'data = "',
    b"AES-256-GCM", b"131072", b"9223372036854775807", b"=", b"+", b"/",
)  # fmt: skip
_JSON_TOKENS: Final = (
    b'"users": [', b'"name": "', b'"key": "', b'"md5": "', b'"sha256": "', b'"private_key": "', b'"password": "',
    b'"publishing_keys": "', b'"branches": [', b'"number": ', b'"keys": "', b"{}", b"[", b"admin-", b"leaf-", b"null",
)  # fmt: skip


def _file(data: bytes) -> None:
    """No other bytes open than the seed's own: nobody forges the tag."""
    file = table_of(FarmFile, data.decode("utf-8", "replace"), Path("farm.toml"))
    if file.sealed is None:
        return
    table = file.sealed
    assert (MIN_N <= table.n <= MAX_N, table.r, 1 <= table.p <= MAX_P) == (True, R, True)
    assert table.open(_KEY, file.cluster) == _secrets().encode()


def _inside(data: bytes) -> None:
    """Secrets that were read are written and read again as they were."""
    secrets = FarmSecrets.parse(data, Path("farm.toml"))
    assert FarmSecrets.parse(secrets.encode(), Path("farm.toml")) == secrets
    secrets.known(_CLUSTER)
    str(secrets.kinds)


@cache
def _secrets() -> FarmSecrets:
    key, password = LoginKey(bytes(range(32))), "secret"
    ha1 = Secret.derive("viewer-a", _CLUSTER, password)
    return FarmSecrets(
        server=1,
        users=(
            SealedUser(name="admin-a", key=str(key.public), private_key=SecretStr(key.text)),
            SealedUser(
                name="viewer-a", md5=SecretStr(ha1.md5), sha256=SecretStr(ha1.sha256), password=SecretStr(password)
            ),
            SealedUser(name="leaf-2147483649", key=str(key.public)),
        ),
        publishing_keys=SecretStr(to_base64(samples.delegated_keys().encode())),
        branches=(BranchTable(number=3, keys=SecretStr(samples.keys("branch").base64)),),
    )


@cache
def _text() -> bytes:
    """A file whose sealed part opens with the fixed key."""
    table = SealedTable(
        kdf="scrypt",
        n=MIN_N,
        r=R,
        p=1,
        salt="A" * 22 + "==",
        cipher="AES-256-GCM",
        nonce="A" * 16,
        data="A" * 22 + "==",
    )
    sealed = table.encrypt(_secrets().encode(), _KEY, _CLUSTER)
    return FarmFile(format=1, cluster=_CLUSTER, sealed=sealed).encode(1, datetime.fromtimestamp(0, UTC)).encode()


TARGETS: Final = (
    Target("sealed-part", _file, (ConfigError,), lambda: [_text()], _TOKENS, seconds=2.0),
    Target("sealed-secrets", _inside, (ConfigError,), lambda: [_secrets().encode(), b'{"server": 1}'], _JSON_TOKENS),
)
