"""Invitations of leaf members: routers that report their leaf to a farm and have no vote.

The leaf member gets a directory with its key and the endpoints of the servers. A file gives each server the public half
of the leaf member's key. A leader that does not know the leaf member refuses its records.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

from pydantic import Field

from gf_i2p.farm.record.remote_sensing import MAX_SERVER_ID
from gf_i2p.farm.record.status_record import FIRST_LEAF_MEMBER_ID
from gf_i2p.node.access.login_keys import LoginKey
from gf_i2p.node.access.roles import Role, User
from gf_i2p.node.files import templates
from gf_i2p.node.files.checked_read import ConfigError, Table, parse_toml, read_text, table_of
from gf_i2p.node.files.config import Config, Secrets, check_private
from gf_i2p.node.files.farm_setup import check_absent
from gf_i2p.node.files.file_names import CONFIG_FILE, SECRETS_FILE
from gf_i2p.node.files.leaf_file import LEAF_FILE, LeafFile
from gf_i2p.node.files.peer_removal import forget_users
from gf_i2p.node.files.server_tables import UserTable
from gf_i2p.node.files.transaction import all_or_nothing, changing, replace_files
from gf_i2p.node.files.trust import knows_certificate
from gf_i2p.node.membership.invitation import server_text
from gf_i2p.storage.private_files import write_private
from gf_i2p.wire.endpoint import Endpoint

ACCEPT_FILE: Final = "accept-leaf-{id}.toml"
_CA_FILE: Final = "ca.pem"


class LeafMemberTable(Table):
    """The invited leaf member."""

    id: Annotated[int, Field(ge=FIRST_LEAF_MEMBER_ID, le=MAX_SERVER_ID)]


class LeafInvitation(Table):
    """The file that tells the servers of the farm about a leaf member."""

    cluster: str
    member: LeafMemberTable
    user: UserTable


@dataclass(frozen=True, slots=True)
class Invited:
    """The result of an invitation; `accept` is the path of the file for the servers."""

    id: int
    member: Path
    """The directory for the leaf member's machine."""
    accept: Path
    unknown: tuple[int, ...]
    """Servers outside I2P that the leaf member cannot verify, because their certificates are not known here."""


def user_of(member: int) -> str:
    """Return the user name of a leaf member."""
    return f"{Role.LEAF}-{member}"


def leaf_members_of(secrets: Secrets) -> list[int]:
    """Return the ids of the leaf members that a server knows."""
    members = []
    for name in secrets.users:
        try:
            member = User(name).member_id
        except ValueError:
            continue
        if member is not None:
            members.append(member)
    return sorted(members)


def invite(existing: Path, into: Path, member: int | None = None) -> Invited:
    """Make a leaf member's directory below `into`, and the file for all servers, from a server's own files.

    Without `member`, the id is above all ids known here, or a free lower one when no higher id is left. Raises
    `ConfigError` or `OSError`; then nothing was written.
    """
    with changing(existing), all_or_nothing(into) as new_paths:
        return _invite(existing, into, member, new_paths)


def invite_and_accept(existing: Path, into: Path, member: int | None = None) -> Invited:
    """Invite, and accept at the server of `existing`, so that no other command gets the id in between."""
    with changing(existing), all_or_nothing(into) as new_paths:
        invited = _invite(existing, into, member, new_paths)
        _accept(existing, invited.accept)
        return invited


def _invite(existing: Path, into: Path, member: int | None, new_paths: list[Path]) -> Invited:
    config, secrets = Config.load(existing), Secrets.load(existing)
    members = leaf_members_of(secrets)
    if member is None:
        member = _free_id({*members, *(server.id for server in config.servers)})
    if not FIRST_LEAF_MEMBER_ID <= member <= MAX_SERVER_ID:
        raise ConfigError(f"a leaf member's id is from {FIRST_LEAF_MEMBER_ID} to {MAX_SERVER_ID}, not {member}")
    if member in members or any(server.id == member for server in config.servers):
        raise ConfigError(f"{member} is known already in {existing}: choose another id")
    user, cluster = user_of(member), config.node.cluster
    target, accept = into / user, into / ACCEPT_FILE.format(id=member)
    check_absent(target, accept)
    ca = None if config.tls.ca is None else read_text(existing / config.tls.ca)
    servers = [server for server in config.servers if _can_verify(config, server.endpoint)]
    if not servers:
        raise ConfigError(
            f"{existing / CONFIG_FILE} has no fingerprint of any server, and no CA: a member could verify none of them"
        )
    login = LoginKey.generate()
    text = templates.LEAF.format(
        cluster=cluster, user=user, key=login.text, ca="" if ca is None else templates.LEAF_CA
    ) + "".join(server_text(server, for_clients=True) for server in servers)
    table_of(LeafFile, text, target / LEAF_FILE)  # finds a mistake here, before the file is on the other machine
    target.mkdir(mode=0o700)
    new_paths.append(target)
    write_private(target / LEAF_FILE, text)
    if ca is not None:
        (target / _CA_FILE).write_text(ca, encoding="utf-8")
    write_private(
        accept,
        templates.LEAF_INVITATION.format(cluster=cluster, id=member, values=UserTable.of(login.public).values),
    )
    new_paths.append(accept)
    return Invited(member, target, accept, tuple(each.id for each in config.servers if each not in servers))


def _free_id(taken: set[int]) -> int:
    """Return the id above all taken ids, so that no id is soon used again; if it is too large, the lowest free id."""
    above = max((each for each in taken if each >= FIRST_LEAF_MEMBER_ID), default=FIRST_LEAF_MEMBER_ID - 1) + 1
    if above <= MAX_SERVER_ID:
        return above
    return next(each for each in range(FIRST_LEAF_MEMBER_ID, MAX_SERVER_ID + 1) if each not in taken)


def invites_leaf_member(file: Path) -> bool:
    """Whether a file invites a leaf member, and not a server. Raises `ConfigError` when the file cannot be read."""
    return "member" in parse_toml(read_text(file), file)


def load(file: Path) -> LeafInvitation:
    """Read an invitation that `invite` wrote. Raises `ConfigError`, also when other users could read the file."""
    check_private(file)
    return table_of(LeafInvitation, read_text(file), file)


def accept(directory: Path, file: Path) -> bool:
    """Add the invited leaf member to this directory's files; return whether the member is new.

    Raises `ConfigError` when the files have another user of that id, or belong to another farm; then nothing has
    changed.
    """
    with changing(directory):
        return _accept(directory, file)


def _accept(directory: Path, file: Path) -> bool:
    config, secrets = Config.load(directory), Secrets.load(directory)
    invitation = load(file)
    member = invitation.member.id
    if invitation.cluster != config.node.cluster:
        raise ConfigError(
            f"{file} is for the farm {invitation.cluster!r}, and this server belongs to {config.node.cluster!r}"
        )
    if any(server.id == member for server in config.servers):
        raise ConfigError(f"{directory / CONFIG_FILE} has a server {member}: invite the member with another id")
    user = user_of(member)
    if user in secrets.users:
        if secrets.users[user] == invitation.user:
            return False
        raise ConfigError(
            f"{directory / SECRETS_FILE} has another user {user}. If that user has left for good: gf-i2p members "
            f"remove-leaf {directory} {member}, and accept again"
        )
    text = read_text(directory / SECRETS_FILE).rstrip("\n") + "\n"
    _replace_secrets(directory, text + invitation.user.as_text(user))
    return True


def remove(directory: Path, member: int) -> bool:
    """Take a leaf member out of this directory's files; return whether the member was there. Raises `ConfigError`."""
    user = user_of(member)
    with changing(directory):
        if user not in Secrets.load(directory).users:
            return False
        _replace_secrets(directory, forget_users(read_text(directory / SECRETS_FILE), user.__eq__))
    return True


def _replace_secrets(directory: Path, text: str) -> None:
    Secrets.of_text(text, directory / SECRETS_FILE)
    replace_files(directory, {SECRETS_FILE: text})


def _can_verify(config: Config, endpoint: str) -> bool:
    place = Endpoint.parse(endpoint)
    return place.is_i2p or knows_certificate(config, place)
