"""Invitations: what a new server and the servers of a farm must know of each other before it can join.

The new server gets a directory of its own, with what checks the passwords of all others. Each of them is told, by a
file, where the new one is and what checks its password.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gf_i2p.node import templates
from gf_i2p.node.config import Config, Secrets, ServerTable, UserTable
from gf_i2p.node.errors import ConfigError
from gf_i2p.node.layout import CONFIG_FILE, SECRETS_FILE
from gf_i2p.node.setup import new_server, write_private, write_server
from gf_i2p.node.table import Table, load_table
from gf_i2p.transport.certificates import fingerprint
from gf_i2p.wire.digest import Secret
from gf_i2p.wire.endpoint import Endpoint

ACCEPT_FILE: Final = "accept-server-{id}.toml"


class Invitation(Table):
    """What the servers of the farm are told of a new one."""

    cluster: str
    server: ServerTable
    user: UserTable


@dataclass(frozen=True, slots=True)
class Written:
    """Where an invitation was written."""

    server: Path
    accept: Path


def invite(existing: Path, into: Path, server_id: int, endpoint: Endpoint | None) -> Written:
    """Make a new server's directory below `into`, and the file for the others, by what a server of the farm knows.

    Without an endpoint it gets a new address inside I2P. Raises `ConfigError` when anything of it exists already.
    """
    config, secrets = Config.load(existing), Secrets.load(existing)
    if any(server.id == server_id for server in config.servers):
        raise ConfigError(f"server {server_id} is known already in {existing / CONFIG_FILE}; ids are never used twice")
    new = new_server(server_id, endpoint)
    target, accept = into / new.user, into / ACCEPT_FILE.format(id=server_id)
    for path in (target, accept):
        if path.exists():
            raise ConfigError(f"{path} exists already. Nothing was changed; choose another directory.")
    into.mkdir(parents=True, exist_ok=True)
    own = f"server-{config.node.id}"
    verifiers = {
        **secrets.verifiers,
        own: Secret.derive(own, config.node.cluster, secrets.password.get_secret_value()),
    }
    listed = "".join(_server_text(server) for server in config.servers)
    pin = None if new.certificate is None else fingerprint(new.certificate)
    mine = ServerTable(id=server_id, endpoint=str(new.endpoint), fingerprint=pin, founder=False)
    write_server(
        target,
        new,
        listed + _server_text(mine),
        verifiers,
        config.node.cluster,
        config.timing.profile,
        inside=any(Endpoint.parse(server.endpoint).is_i2p for server in (*config.servers, mine)),
        join=True,
    )
    secret = Secret.derive(new.user, config.node.cluster, new.password)
    text = templates.INVITATION.format(
        id=server_id,
        cluster=config.node.cluster,
        endpoint=new.endpoint,
        fingerprint="" if pin is None else templates.FINGERPRINT.format(fingerprint=pin),
        md5=secret.md5,
        sha256=secret.sha256,
    )
    write_private(accept, text)
    return Written(target, accept)


def accept(directory: Path, file: Path) -> bool:
    """Let the server of this directory know the invited one; return whether anything has changed.

    Raises `ConfigError` when it knows another one of that id, or belongs to another farm.
    """
    config, secrets = Config.load(directory), Secrets.load(directory)
    invitation = load_table(Invitation, file)
    server, user = invitation.server, f"server-{invitation.server.id}"
    if invitation.cluster != config.node.cluster:
        raise ConfigError(
            f"{file} is for the farm {invitation.cluster!r}, and this server is of {config.node.cluster!r}"
        )
    known = {each.id: each for each in config.servers}.get(server.id)
    if known is not None and (known.endpoint, known.fingerprint) != (server.endpoint, server.fingerprint):
        raise ConfigError(f"{directory / CONFIG_FILE} has another server {server.id}; ids are never used twice")
    if user in secrets.users and secrets.users[user] != invitation.user:
        raise ConfigError(f"{directory / SECRETS_FILE} has another user {user}; ids are never used twice")
    if user not in secrets.users:
        _append(
            directory / SECRETS_FILE,
            templates.USER.format(
                user=user,
                md5=invitation.user.md5.get_secret_value(),
                sha256=invitation.user.sha256.get_secret_value(),
            ),
        )
    if known is None:
        _append(directory / CONFIG_FILE, _server_text(server.model_copy(update={"founder": False})))
    return known is None or user not in secrets.users


def _server_text(server: ServerTable) -> str:
    text = templates.SERVER.format(id=server.id, endpoint=server.endpoint)
    if server.fingerprint is not None:
        text += templates.FINGERPRINT.format(fingerprint=server.fingerprint)
    return text if server.founder else text + templates.JOINED


def _append(path: Path, text: str) -> None:
    """Add to a file, all of it or nothing: a new one takes its place, with the same rights."""
    new = path.with_name(path.name + "-new")
    new.unlink(missing_ok=True)
    write_private(new, path.read_text(encoding="utf-8").rstrip("\n") + "\n" + text)
    new.chmod(path.stat().st_mode & 0o777)
    new.replace(path)
