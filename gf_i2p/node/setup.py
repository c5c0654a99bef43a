"""Makes the directories of a new farm: what `gf-i2p init` writes."""

import os
import secrets as randomness
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gf_i2p.node.errors import ConfigError
from gf_i2p.node.layout import CONFIG_FILE, DATABASE_FILE, SECRETS_FILE
from gf_i2p.storage.database import Storage
from gf_i2p.transport.certificates import fingerprint, make_certificate
from gf_i2p.wire.digest import Secret
from gf_i2p.wire.endpoint import Endpoint
from gf_i2p.wire.names import check_name

_PASSWORD_BYTES: Final = 24

_CONFIG: Final = """\
# A Garlic Farm node, written by `gf-i2p init`. What is marked "reloaded" is read again on SIGHUP; all else needs a
# restart of the node. Paths are relative to this directory. Passwords are in secrets.toml, never here.

[node]
id = {id}                        # this server's id in the farm; never reuse the id of a lost server
cluster = "{cluster}"               # the farm's name, the same on all servers
listen = "{endpoint}"  # where this node listens, always by TLS

[timing]                      # reloaded
profile = "{profile}"               # "lan": heartbeat 0.1 s, election 0.5 to 1 s; "i2p": 5 s, 20 to 50 s
# heartbeat = 0.1             # seconds; replaces the profile's value, as do the next two
# election_min = 0.5          # at least twice the heartbeat
# election_max = 1.0          # at least 1.2 times election_min

[tls]                         # reloaded
certificate = "certificate.pem"
key = "key.pem"               # mode 0600
# ca = "ca.pem"               # vouches for servers that have no fingerprint below

[logging]                     # reloaded
level = "info"                # debug, info, warning, error
format = "text"               # text or json

# The servers with which a new farm begins, this one included. Once the farm has elected its first leader the log says
# who belongs to it; endpoint and fingerprint here still say how to reach them. Fingerprints are reloaded.
"""

_SERVER: Final = """\

[[servers]]
id = {id}
endpoint = "{endpoint}"
fingerprint = "{fingerprint}"
"""

_SECRETS: Final = """\
# Secrets of server {id}: whoever reads this file can act as this server. Mode 0600.

password = "{password}"  # with which this server logs in to the others, as user server-{id}

# What checks the passwords of others (HA1 of RFC 7616): as secret as the passwords. Reloaded on SIGHUP; who is removed
# or changed here is disconnected.
"""

_USER: Final = """\

[users."{user}"]
md5 = "{md5}"
sha256 = "{sha256}"
"""

_CLIENT: Final = """\
# A client of the farm "{cluster}", for programs that post entries. Whoever reads this file can post. Mode 0600.

cluster = "{cluster}"
user = "{user}"
password = "{password}"
"""


@dataclass(frozen=True, slots=True)
class NewServer:
    """One server of a farm that is being made."""

    id: int
    endpoint: Endpoint
    password: str
    certificate: bytes
    key: bytes

    @property
    def user(self) -> str:
        """The name under which it logs in."""
        return f"server-{self.id}"


def make_farm(
    directory: Path, servers: Mapping[int, Endpoint], *, cluster: str, profile: str, clients: Sequence[str]
) -> list[Path]:
    """Write a directory for each server, `server-ID`, and a file for each client, `client-NAME.toml`.

    All or nothing: on an error nothing is left. Raises `ConfigError` when the directory holds any of them already.
    Returns what was written.
    """
    try:
        check_name("cluster name", cluster)
        users = [check_name("user name", f"client-{name}") for name in clients]
    except ValueError as error:
        raise ConfigError(str(error)) from error
    new = [_new_server(server_id, endpoint) for server_id, endpoint in sorted(servers.items())]
    passwords = {server.user: server.password for server in new} | {user: _password() for user in users}
    targets = [directory / server.user for server in new] + [directory / f"{user}.toml" for user in users]
    for target in targets:
        if target.exists():
            raise ConfigError(f"{target} exists already. Nothing was changed; choose another directory.")
    existed = directory.exists()
    directory.mkdir(parents=True, exist_ok=True)
    written: list[Path] = []
    try:
        for server in new:
            target = directory / server.user
            written.append(target)
            _write_server(target, server, new, passwords, cluster, profile)
        for user in users:
            target = directory / f"{user}.toml"
            written.append(target)
            text = _CLIENT.format(cluster=cluster, user=user, password=passwords[user])
            _write_private(target, text + _servers_text(new))
    except BaseException:
        for target in written:
            if target.is_dir():
                shutil.rmtree(target)
            else:
                target.unlink(missing_ok=True)
        if not existed:
            directory.rmdir()
        raise
    return written


def _password() -> str:
    return randomness.token_urlsafe(_PASSWORD_BYTES)


def _new_server(server_id: int, endpoint: Endpoint) -> NewServer:
    # Strangers see it, and learn nothing from it: others know it by its fingerprint, not by a name.
    certificate, key = make_certificate("node")
    return NewServer(server_id, endpoint, _password(), certificate, key)


def _servers_text(servers: Sequence[NewServer]) -> str:
    return "".join(
        _SERVER.format(id=server.id, endpoint=server.endpoint, fingerprint=fingerprint(server.certificate))
        for server in servers
    )


def _write_server(
    target: Path,
    server: NewServer,
    servers: Sequence[NewServer],
    passwords: Mapping[str, str],
    cluster: str,
    profile: str,
) -> None:
    target.mkdir(mode=0o700)
    config = _CONFIG.format(id=server.id, cluster=cluster, endpoint=server.endpoint, profile=profile)
    (target / CONFIG_FILE).write_text(config + _servers_text(servers), encoding="utf-8")
    (target / "certificate.pem").write_bytes(server.certificate)
    _write_private(target / "key.pem", server.key.decode("ascii"))
    text = _SECRETS.format(id=server.id, password=server.password)
    for user, password in passwords.items():
        secret = Secret.derive(user, cluster, password)
        text += _USER.format(user=user, md5=secret.md5, sha256=secret.sha256)
    _write_private(target / SECRETS_FILE, text)
    Storage.create(target / DATABASE_FILE, cluster=cluster, server_id=server.id)


def _write_private(path: Path, text: str) -> None:
    """Write a file that nobody else could read, not even for a moment."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
