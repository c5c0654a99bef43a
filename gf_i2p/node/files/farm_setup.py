"""Makes the directories of a new farm, for `gf-i2p init`."""

import contextlib
import secrets as randomness
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Self

import tomlkit

from gf_i2p.farm.record.status_record import FIRST_LEAF_MEMBER_ID
from gf_i2p.netdb.private_keys import DestinationKeys
from gf_i2p.node.access.login_keys import LoginKey
from gf_i2p.node.access.roles import Role, User
from gf_i2p.node.files import templates
from gf_i2p.node.files.checked_read import ConfigError
from gf_i2p.node.files.config import Config
from gf_i2p.node.files.file_names import CONFIG_FILE, DATABASE_FILE, DESTINATION_FILE, SECRETS_FILE
from gf_i2p.node.files.server_tables import UserTable
from gf_i2p.node.files.transaction import all_or_nothing
from gf_i2p.storage.database import Storage
from gf_i2p.storage.private_files import write_private
from gf_i2p.transport.tls.certificates import fingerprint, make_certificate
from gf_i2p.wire.digest import Secret, Verifier
from gf_i2p.wire.endpoint import Endpoint
from gf_i2p.wire.names import check_name

OWNER: Final = "owner"
"""Name of the administrator whose file a farm gets when the operator names none."""
_PASSWORD_BYTES: Final = 24
_I2P_PORT: Final = 80
"""Port of a server inside I2P, where ports mean little. A Java router's proxy allows every `way` to this port."""
_INSIDE: Final = Endpoint("127.0.0.1", 4150)
"""Where a server inside I2P listens for streams from its router."""


@dataclass(frozen=True, slots=True)
class NewLogin:
    """The key of a new user; for a foreign peer a password. `repr` hides both."""

    key: LoginKey | None
    password: str | None = field(default=None, repr=False)
    """A user may have a password beside the key, for servers that know Digest only."""

    @classmethod
    def make(cls, *, digest: bool = False) -> Self:
        """Make a key, or with `digest` a random password, which nobody has to remember."""
        return cls(None, new_password()) if digest else cls(LoginKey.generate())

    def verifier(self, user: str, cluster: str) -> Verifier:
        """Return the value by which servers verify the user."""
        if self.key is not None:
            return self.key.public
        assert self.password is not None
        return Secret.derive(user, cluster, self.password)

    def client_lines(self) -> str:
        """Return the lines of a client's file."""
        lines = "" if self.key is None else templates.CLIENT_KEY.format(key=self.key.text)
        if self.password is None:
            return lines
        return lines + templates.CLIENT_DIGEST.format(password=tomlkit.item(self.password).as_string())

    def server_lines(self, server: int) -> str:
        """Return the lines of a server's file."""
        if self.key is not None:
            return templates.LOGIN_KEY.format(key=self.key.text, id=server)
        return templates.LOGIN_DIGEST.format(password=self.password, id=server)


@dataclass(frozen=True, slots=True)
class KnownUser:
    """A user of an earlier farm, whom the servers of the new farm are to know, too."""

    name: str
    verifier: Verifier
    login: NewLogin | None
    """All by which the user logs in, for the user's file; None: that file is elsewhere."""


@dataclass(frozen=True, slots=True)
class NewServer:
    """One server of a farm in the making."""

    id: int
    endpoint: Endpoint
    login: NewLogin
    certificate: bytes | None
    """PEM; None inside I2P, like the key."""
    key: bytes | None
    destination: DestinationKeys | None
    """Keys of the address inside I2P; None outside."""
    listen: Endpoint | None = None
    """Endpoint to listen at; None: its own endpoint, or inside I2P the usual place for the router's streams."""

    @property
    def user(self) -> str:
        """The name under which the server logs in."""
        return f"server-{self.id}"


def make_farm(
    directory: Path,
    servers: Mapping[int, Endpoint | None],
    *,
    cluster: str,
    profile: str,
    clients: Sequence[str],
    admins: Sequence[str] = (),
    viewers: Sequence[str] = (),
    digest: Collection[str] = (),
    known: Sequence[KnownUser] = (),
    beside: Path | None = None,
) -> list[Path]:
    """Write a directory `server-ID` for each server, and a file for each client, administrator and viewer.

    The files are `client-NAME.toml`, `admin-NAME.toml` and `viewer-NAME.toml`. A server without an endpoint gets a new
    address inside I2P.
    `digest`: names of those users that log in by a password, because they run other programs than this one. Their
    verifiers in the servers' files are as secret as the passwords.
    `known`: users of an earlier farm of the same name. A user whose login is known here gets a file, too.

    `beside`: the directory of another farm, whose servers are to run in the same processes as this farm's servers of
    the same ids. Where both have the same endpoint, the new server gets the same certificate. Where both are inside
    I2P, the new server gets another place for the router's streams.

    All or nothing: an error leaves no file behind. Raises `ConfigError` when the directory holds any of the files
    already. Returns the written paths.
    """
    try:
        check_name("cluster name", cluster)
        kinds = {Role.CLIENT: clients, Role.ADMIN: admins, Role.VIEWER: viewers}
        users = [check_name("user name", f"{role}-{name}") for role, names in kinds.items() for name in names]
    except ValueError as error:
        raise ConfigError(str(error)) from error
    if unknown := set(digest) - {*users, *(f"server-{server_id}" for server_id in servers)}:
        raise ConfigError(f"{', '.join(sorted(unknown))}: no such server, client, administrator or viewer is made here")
    if twice := {each.name for each in known} & {*users, *(f"server-{server_id}" for server_id in servers)}:
        raise ConfigError(f"{', '.join(sorted(twice))}: a new user cannot have the name of a known user")
    new_servers = [
        new_server(server_id, endpoint) if beside is None else _new_beside(beside, server_id, endpoint)
        for server_id, endpoint in sorted(servers.items())
    ]
    new_servers = [
        replace(server, login=NewLogin.make(digest=True)) if server.user in digest else server for server in new_servers
    ]
    logins = {server.user: server.login for server in new_servers}
    logins |= {user: NewLogin.make(digest=user in digest) for user in users}
    verifiers = {user: login.verifier(user, cluster) for user, login in logins.items()}
    verifiers |= {each.name: each.verifier for each in known}
    files = {user: logins[user] for user in users}
    files |= {each.name: each.login for each in known if each.login is not None}
    targets = [directory / server.user for server in new_servers] + [directory / f"{user}.toml" for user in files]
    _check_whole(directory / server.user for server in new_servers)
    check_absent(*targets)
    _check_no_farm_of_this_name(directory, cluster)
    with all_or_nothing(directory) as written:
        for server in new_servers:
            target = directory / server.user
            target.mkdir(mode=0o700)
            written.append(target)
            write_server(
                target,
                server,
                _servers_text(new_servers),
                verifiers,
                cluster,
                profile,
                inside=any(each.destination is not None for each in new_servers),
            )
        for user, login in files.items():
            target = directory / f"{user}.toml"
            written.append(target)
            write_private(target, _client_text(cluster, user, login, new_servers))
        _keep_out_of_git(directory, written)
    return targets


def _keep_out_of_git(directory: Path, written: list[Path]) -> None:
    """Write a `.gitignore` beside the new files, which hold keys, unless the operator has one there."""
    path = directory / ".gitignore"
    with contextlib.suppress(FileExistsError), path.open("x", encoding="utf-8") as file:
        written.append(path)
        file.write(templates.GITIGNORE)


def check_absent(*paths: Path) -> None:
    """Raise `ConfigError` when one of these paths exists."""
    for path in paths:
        if path.exists():
            raise ConfigError(f"{path} exists already. Nothing was changed; choose another directory.")


def _check_whole(servers: Iterable[Path]) -> None:
    """Raise `ConfigError` for a server's directory that an ended `init` has left half made: its log comes last."""
    for path in servers:
        if path.is_dir() and not (path / DATABASE_FILE).exists():
            raise ConfigError(
                f"{path} exists already, and has no {DATABASE_FILE}. Nothing was changed. If an `init` was ended while "
                "it made this directory, remove what that `init` has made; otherwise choose another directory."
            )


def _check_no_farm_of_this_name(directory: Path, cluster: str) -> None:
    """Raise `ConfigError` when a server in the directory belongs to a farm of this name.

    A new server would not belong to that farm: the new server would be a farm of its own, and elect itself.
    """
    for path in sorted(directory.glob(f"server-*/{CONFIG_FILE}")):
        try:
            found = Config.load(path.parent).node.cluster
        except ConfigError:
            continue  # whatever this is, the new server touches nothing of it
        if found == cluster:
            raise ConfigError(
                f"{path.parent} is a server of a farm {cluster} already. A new server would not belong to that farm. "
                "`gf-i2p members invite` brings a server into it; for another farm choose another directory"
            )


def new_password() -> str:
    """Make a random password, which nobody has to remember."""
    return randomness.token_urlsafe(_PASSWORD_BYTES)


def new_server(server_id: int, endpoint: Endpoint | None) -> NewServer:
    """Make a server with a new login key and a new certificate. Raises `ConfigError` for the id of a leaf member.

    Without an endpoint, the server has a new address inside I2P, and no certificate.
    """
    if server_id >= FIRST_LEAF_MEMBER_ID:
        raise ConfigError(
            f"server {server_id}: ids from {FIRST_LEAF_MEMBER_ID} on belong to leaf members: give the server "
            "a smaller id"
        )
    if endpoint is None:
        keys = DestinationKeys.generate()
        inside = Endpoint(keys.destination.b32, _I2P_PORT)
        return NewServer(server_id, inside, NewLogin.make(), None, None, keys)
    # Any stranger can read a certificate's name, so this name tells nothing. Other servers check the fingerprint.
    certificate, key = make_certificate("node")
    return NewServer(server_id, endpoint, NewLogin.make(), certificate, key, None)


def _new_beside(farm: Path, server_id: int, endpoint: Endpoint | None) -> NewServer:
    """Make a server that can run in one process with another farm's server of the same id. Raises `ConfigError`."""
    directory = farm / f"server-{server_id}"
    # Where no server is at all, `Config.load` says that the path of the farm is wrong.
    if not directory.exists() and any(farm.glob(f"server-*/{CONFIG_FILE}")):
        raise ConfigError(
            f"{directory} is not here, and the new server {server_id} would need its certificate. Where each server of "
            "the first farm is on its own machine, leave --beside out, and give the new servers ports of their own"
        )
    config, new = Config.load(directory), new_server(server_id, endpoint)
    listen = Endpoint.parse(config.node.listen)
    if config.own_endpoint.is_i2p and endpoint is None:
        return replace(new, listen=Endpoint(listen.host, listen.port + 1))
    if config.own_endpoint != endpoint:
        return new
    try:
        certificate = (directory / config.tls.certificate).read_bytes()
        key = (directory / config.tls.key).read_bytes()
    except OSError as error:
        raise ConfigError(f"{error.filename} cannot be read: {error.strerror}.") from error
    return replace(new, certificate=certificate, key=key, listen=listen)


def _servers_text(servers: Sequence[NewServer]) -> str:
    text = ""
    for server in servers:
        text += templates.SERVER.format(id=server.id, endpoint=server.endpoint)
        if server.certificate is not None:
            text += templates.FINGERPRINT.format(fingerprint=fingerprint(server.certificate))
    return text


def _client_text(cluster: str, user: str, login: NewLogin, servers: Sequence[NewServer]) -> str:
    by_tls = any(server.certificate is not None for server in servers)
    heads = {Role.ADMIN: templates.ADMIN, Role.VIEWER: templates.VIEWER}
    text = heads.get(User(user).role, templates.CLIENT).format(cluster=cluster, user=user)
    text += templates.CREDENTIALS.format(
        cluster=cluster, user=user, login=login.client_lines(), ca=templates.CLIENT_CA if by_tls else ""
    )
    if any(server.endpoint.is_i2p for server in servers):
        text += templates.CLIENT_I2P
    return text + _servers_text(servers)


def write_server(
    target: Path,
    server: NewServer,
    servers: str,
    verifiers: Mapping[str, Verifier],
    cluster: str,
    profile: str,
    *,
    inside: bool,
    join: bool = False,
) -> None:
    """Fill a server's new directory. `servers`: TOML tables of all servers. `verifiers`: by user name.

    `inside`: whether any server of the farm is inside I2P. `join`: whether the server joins an existing farm.
    """
    is_i2p = server.destination is not None
    config = templates.CONFIG.format(
        id=server.id,
        cluster=cluster,
        listen=server.listen or (_INSIDE if is_i2p else server.endpoint),
        listen_comment="where the router brings incoming streams"
        if is_i2p
        else "where this node listens, always by TLS",
        join=templates.JOIN if join else "",
        profile=profile,
        tls="" if is_i2p else templates.TLS,
        router=templates.ROUTER + templates.PUBLISH
        if inside
        else templates.commented(templates.ROUTER_OUTSIDE + templates.PUBLISH),
    )
    settings = target / CONFIG_FILE
    settings.write_text(config + servers, encoding="utf-8")
    settings.chmod(settings.stat().st_mode & ~0o022)  # whatever the umask says, nobody else writes a node's settings
    if server.certificate is not None and server.key is not None:
        (target / "certificate.pem").write_bytes(server.certificate)
        write_private(target / "key.pem", server.key)
    if server.destination is not None:
        write_private(target / DESTINATION_FILE, server.destination.encode())
    text = templates.SECRETS.format(id=server.id, login=server.login.server_lines(server.id))
    text += "".join(UserTable.of(verifier).as_text(user) for user, verifier in verifiers.items())
    write_private(target / SECRETS_FILE, text)
    Storage.create(target / DATABASE_FILE, cluster=cluster, server_id=server.id)
