"""Invitations: the files by which a new server and the servers of a farm come to know each other.

The new server gets a directory of its own, with the verifiers of all other servers. A file tells each of the other
servers the endpoint of the new server and the public half of its key.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gf_i2p.node.files import admitted, committed_keys, templates
from gf_i2p.node.files.checked_read import ConfigError, Table, parse_toml, read_text, table_of
from gf_i2p.node.files.config import Config, Secrets, check_private
from gf_i2p.node.files.farm_setup import NewServer, check_absent, new_server, write_server
from gf_i2p.node.files.file_names import CONFIG_FILE, SECRETS_FILE
from gf_i2p.node.files.peer_removal import forget_servers, forget_users
from gf_i2p.node.files.server_tables import ServerTable, UserTable
from gf_i2p.node.files.stopped_log import voters_of_stopped
from gf_i2p.node.files.transaction import all_or_nothing, changing, replace_files
from gf_i2p.node.membership.endpoint_holder import former_holder
from gf_i2p.storage.private_files import write_private
from gf_i2p.transport.tls.certificates import fingerprint
from gf_i2p.wire.digest import Verifier
from gf_i2p.wire.endpoint import Endpoint

ACCEPT_FILE: Final = "accept-server-{id}.toml"


class Invitation(Table):
    """The file that tells the servers of the farm about a new server."""

    cluster: str
    server: ServerTable
    user: UserTable


@dataclass(frozen=True, slots=True)
class WrittenInvitation:
    """A written invitation: the new server's directory, and the file `accept` for the other servers."""

    server: Path
    accept: Path
    left_out: int | None
    """Id of the server that had this endpoint and has left the farm; None when there is no such server."""
    table: str | None
    """The new server's table for client files without a CA; None inside I2P, where the address is enough."""


@dataclass(frozen=True, slots=True)
class Accepted:
    """The result of an invitation that was accepted."""

    changed: bool
    dropped: int | None = None
    """Id of the server that had this endpoint and has left the farm; None when there is no such server."""


VotersOf = Callable[[Path], frozenset[int]]
"""Returns the ids of the farm's voters, from the committed Configuration that the node of a directory has.

Raises `ConfigError` or `StorageError`, with advice, when the voters are not known.
"""


def invite(
    existing: Path,
    into: Path,
    server_id: int,
    endpoint: Endpoint | None,
    *,
    voters_of: VotersOf = voters_of_stopped,
) -> WrittenInvitation:
    """Make a new server's directory below `into`, and the file for the other servers, from a server's own files.

    Without an endpoint, the new server gets a new address inside I2P. If a server that has left the farm is still
    listed with the endpoint, the new files leave out that server. Raises `ConfigError` when a part of the invitation
    exists already, or a member has the endpoint; then nothing was written.
    """
    with changing(existing), all_or_nothing(into) as new_paths:
        return _invite(existing, into, server_id, endpoint, voters_of, new_paths)


def _invite(
    existing: Path,
    into: Path,
    server_id: int,
    endpoint: Endpoint | None,
    voters_of: VotersOf,
    new_paths: list[Path],
) -> WrittenInvitation:
    config, secrets = Config.load(existing), Secrets.load(existing)
    if any(server.id == server_id for server in config.servers):
        raise ConfigError(f"server {server_id} is known already in {existing / CONFIG_FILE}; ids are never used twice")
    _check_unused(config, server_id, existing)
    former = None if endpoint is None else _former_holder(config, server_id, str(endpoint), existing, voters_of)
    new = new_server(server_id, endpoint)
    target, accept = into / new.user, into / ACCEPT_FILE.format(id=server_id)
    check_absent(target, accept)
    target.mkdir(mode=0o700)
    new_paths.append(target)
    own_user = f"server-{config.node.id}"
    verifiers = {
        **committed_keys.in_force(secrets.verifiers, committed_keys.load(existing)),
        own_user: secrets.own_verifier(config.node.id, config.node.cluster),
    }
    removed = [table.id for table in config.removed]
    if former is not None:
        verifiers.pop(f"server-{former}", None)
        removed.append(former)
    new_table = table_of_new(new)
    pin = new_table.fingerprint
    listed = [*(server for server in config.servers if server.id != former), new_table]
    write_joining(target, new, listed, removed, verifiers, config.node.cluster, config.timing.profile)
    text = templates.INVITATION.format(
        id=server_id,
        cluster=config.node.cluster,
        endpoint=new.endpoint,
        fingerprint="" if pin is None else templates.FINGERPRINT.format(fingerprint=pin),
        values=UserTable.of(new.login.verifier(new.user, config.node.cluster)).values,
    )
    write_private(accept, text)
    new_paths.append(accept)
    return WrittenInvitation(
        target, accept, former, None if pin is None else server_text(new_table, for_clients=True).lstrip()
    )


def accept(directory: Path, file: Path, *, voters_of: VotersOf = voters_of_stopped) -> Accepted:
    """Add the invited server to this directory's files; forget a former server that had the same endpoint.

    Raises `ConfigError` when the files have another server of that id, when a member has the endpoint, or when the
    invitation is for another farm; then nothing has changed.
    """
    with changing(directory):
        return _accept(directory, file, voters_of)


def _accept(directory: Path, file: Path, voters_of: VotersOf) -> Accepted:
    config, secrets = Config.load(directory), Secrets.load(directory)
    invitation = load(file)
    server, user = invitation.server, f"server-{invitation.server.id}"
    if invitation.cluster != config.node.cluster:
        raise ConfigError(
            f"{file} is for the farm {invitation.cluster!r}, and this server belongs to {config.node.cluster!r}"
        )
    listed = {each.id: each for each in config.servers}.get(server.id)
    if listed is not None and (listed.endpoint, listed.fingerprint) != (server.endpoint, server.fingerprint):
        raise ConfigError(f"{directory / CONFIG_FILE} has another server {server.id}; ids are never used twice")
    if user in secrets.users and secrets.users[user] != invitation.user:
        raise ConfigError(f"{directory / SECRETS_FILE} has another user {user}; ids are never used twice")
    if listed is not None and user in secrets.users:
        return Accepted(changed=False)
    former = None
    if listed is None:
        _check_unused(config, server.id, directory)
        former = _former_holder(config, server.id, server.endpoint, directory, voters_of)
    texts = {name: read_text(directory / name) for name in (SECRETS_FILE, CONFIG_FILE)}
    gone: set[int] = set()
    if former is not None:
        # The former server may have had the place of others by the log alone: their tables still stand in the file.
        gone = {former, *(table.id for table in config.removed)}
        listed_removed = {table.id for table in table_of(Config, texts[CONFIG_FILE], directory / CONFIG_FILE).removed}
        texts[SECRETS_FILE] = forget_users(texts[SECRETS_FILE], {f"server-{each}" for each in gone}.__contains__)
        texts[CONFIG_FILE] = forget_servers(texts[CONFIG_FILE], gone.__contains__)
        for each in sorted(gone - listed_removed):
            texts[CONFIG_FILE] = _appended(texts[CONFIG_FILE], templates.REMOVED.format(id=each))
    if user not in secrets.users:
        texts[SECRETS_FILE] = _appended(
            texts[SECRETS_FILE],
            invitation.user.as_text(user),
        )
    if listed is None:
        texts[CONFIG_FILE] = _appended(texts[CONFIG_FILE], server_text(server.model_copy(update={"founder": False})))
    try:
        Secrets.of_text(texts[SECRETS_FILE], directory / SECRETS_FILE)
        table_of(Config, texts[CONFIG_FILE], directory / CONFIG_FILE)
    except ConfigError as error:
        raise ConfigError(f"nothing was changed: with {file}, this node could not start: {error}") from error
    # If this process stops between the two writes, both files still load, and a second `accept` does the rest.
    replace_files(directory, texts)
    if former is not None:
        admitted.drop(directory, gone)
    return Accepted(changed=True, dropped=former)


def load(file: Path) -> Invitation:
    """Read an invitation that `invite` wrote. Raises `ConfigError`, also when other users could read the file."""
    text = read_text(file)
    tables = parse_toml(text, file)
    if not isinstance(tables.get("server"), dict) or not isinstance(tables.get("user"), dict):
        raise ConfigError(
            f"{file} is no invitation: give the file {ACCEPT_FILE.format(id='ID')} that `gf-i2p members invite` wrote "
            "beside the new server's directory"
        )
    check_private(file)
    return table_of(Invitation, text, file)


def _check_unused(config: Config, server_id: int, directory: Path) -> None:
    if any(table.id == server_id for table in config.removed):
        raise ConfigError(
            f"server {server_id} has left the farm, and ids are never used twice: choose another id "
            f"({directory / CONFIG_FILE}, [[removed]])"
        )


def _former_holder(config: Config, server_id: int, endpoint: str, directory: Path, voters_of: VotersOf) -> int | None:
    """Return the id of a former server listed with this endpoint; None when no server has the endpoint.

    Raises `ConfigError` when a member has the endpoint, or when membership is not known.
    """
    place = f" in {directory / CONFIG_FILE}"
    if str(config.own_endpoint) == endpoint and config.node.id != server_id:
        raise ConfigError(
            f"server {config.node.id} has the endpoint {endpoint}{place}, and is the server of this directory: choose "
            "another endpoint"
        )
    return former_holder(
        [(each.id, each.endpoint) for each in config.servers],
        server_id,
        endpoint,
        lambda: voters_of(directory),
        place=place,
        remove=f", on the leader's machine: gf-i2p members remove {directory}",
        if_unknown=f". If you know that it is out: in {CONFIG_FILE} replace its [[servers]] table by a [[removed]] "
        f"table with only its id, remove its user server-ID from {SECRETS_FILE}, and try again",
    )


def table_of_new(server: NewServer) -> ServerTable:
    """Return the table of a new server, as the files of other servers and of clients have it."""
    pin = None if server.certificate is None else fingerprint(server.certificate)
    return ServerTable(id=server.id, endpoint=str(server.endpoint), fingerprint=pin, founder=False)


def write_joining(
    target: Path,
    server: NewServer,
    listed: Sequence[ServerTable],
    removed: Sequence[int],
    verifiers: Mapping[str, Verifier],
    cluster: str,
    profile: str,
) -> None:
    """Fill the directory of a server that joins. `listed`: all servers, the new one included. See `write_server`."""
    tables = [server_text(each) for each in listed] + [templates.REMOVED.format(id=each) for each in removed]
    inside = any(Endpoint.parse(each.endpoint).is_i2p for each in listed)
    write_server(target, server, "".join(tables), verifiers, cluster, profile, inside=inside, join=True)


def server_text(server: ServerTable, *, for_clients: bool = False) -> str:
    """Return the TOML table of a server, for a server's file or for a client's file."""
    text = templates.SERVER.format(id=server.id, endpoint=server.endpoint)
    if server.fingerprint is not None:
        text += templates.FINGERPRINT.format(fingerprint=server.fingerprint)
    return text if server.founder or for_clients else text + templates.JOINED


def _appended(text: str, table: str) -> str:
    return text.rstrip("\n") + "\n" + table
