"""Targets of the files that other machines make: invitations, clients' files, and a node's own settings."""

from collections.abc import Callable
from pathlib import Path
from typing import Final

from gf_i2p.node.files import templates
from gf_i2p.node.files.checked_read import ConfigError, Table, table_of
from gf_i2p.node.files.client_file import ClientFile
from gf_i2p.node.files.config import Config, Secrets
from gf_i2p.node.files.leaf_file import LeafFile
from gf_i2p.node.membership.invitation import Invitation
from gf_i2p.node.membership.leaf_invitation import LeafInvitation
from integration.fuzz.target import Target

_DIGEST: Final = templates.USER_DIGEST.format(md5="0" * 32, sha256="a" * 64)
_KEY: Final = templates.USER_KEY.format(key="ed25519:" + "a" * 64)
_SERVERS: Final = '[[servers]]\nid = 1\nendpoint = "tcp://127.0.0.1:9001"\nfingerprint = "sha256:' + "0a" * 32 + '"\n'
_CLIENT: Final = 'cluster = "farm"\nuser = "client-a"\npassword = "secret"\n' + _SERVERS
_LEAF: Final = '\n[router]\nkind = "i2pd"\n'
_CONFIG: Final = (
    '[node]\nid = 1\ncluster = "farm"\nlisten = "tcp://127.0.0.1:9001"\n\n[timing]\n'
    'profile = "auto"\nheartbeat = 0.5\n\n'
    "[history]\nrotate_mib = 64\n\n[limits]\nburst_mib = 32\n\n" + _SERVERS
)
_TOKENS: Final = (
    b"[[servers]]\n", b"[user]\n", b"[router]\n", b"[publish]\n", b"[i2p]\n", b"id = ", b'endpoint = "', b"= [",
    b"= {", b'"""', b"'''", b"1979-05-27T07:32:00Z", b"25:00:00", b"0x", b"1_000", b"inf", b"nan", b"true", b".",
    b"\\u0000", b"\\UFFFFFFFF", b"\n", b"#",
)  # fmt: skip

_SECONDS: Final = 2.0
"""tomllib needs 0.4 s for a key of 16,000 parts in 64 KiB. The operator's own command reads such a file, once."""


def _reads(model: type[Table]) -> Callable[[bytes], object]:
    def run(data: bytes) -> None:
        table_of(model, data.decode("utf-8", "replace"), Path("file.toml"))

    return run


def _target(name: str, model: type[Table], *texts: str) -> Target:
    seeds = [text.encode() for text in texts]
    return Target(name, _reads(model), (ConfigError,), lambda: seeds, _TOKENS, seconds=_SECONDS)


TARGETS: Final = (
    _target(
        "invitation",
        Invitation,
        *(
            templates.INVITATION.format(
                id=4, cluster="farm", endpoint="tcp://127.0.0.1:9004", fingerprint="", values=values
            )
            for values in (_KEY, _DIGEST)
        ),
    ),
    _target(
        "leaf-invitation", LeafInvitation, templates.LEAF_INVITATION.format(id=2**31 + 1, cluster="farm", values=_KEY)
    ),
    _target("client-file", ClientFile, _CLIENT),
    _target("node-settings", Config, _CONFIG),
    _target(
        "node-secrets",
        Secrets,
        *(
            'password = "secret"\n' + templates.USER.format(user="client-a", values=values)
            for values in (_KEY, _DIGEST)
        ),
    ),
    _target("leaf-settings", LeafFile, _CLIENT.replace("client-a", "leaf-2147483649") + _LEAF),
)
