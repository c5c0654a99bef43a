"""The secrets of a farm for safe keeping: gathered from a server's directory, and brought into a new farm's.

The secrets are the farm's users, and the keys with which the server publishes for the master. The identity of a server
is left out on purpose: login key, certificate, address inside I2P, log and vote. A server that came back with the old
identity and an empty log could vote a second time in a term, and two leaders could be elected. So a farm that is made
from these secrets has new servers.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, Self

from pydantic import AfterValidator, BaseModel, Field, SecretStr, model_validator

from gf_i2p.farm.choice.tree import BRANCHES
from gf_i2p.farm.strict_json import RecordError, decode_object
from gf_i2p.netdb.encoding import from_base64, to_base64
from gf_i2p.netdb.errors import NetDbError
from gf_i2p.netdb.private_keys import DestinationKeys
from gf_i2p.node.access.login_keys import LoginKey
from gf_i2p.node.access.roles import Role, User
from gf_i2p.node.files.checked_read import ConfigError, Table, check_mode, model_of, read_regular
from gf_i2p.node.files.client_file import ClientFile
from gf_i2p.node.files.config import Config, PrivateKeyText, Secrets
from gf_i2p.node.files.farm_setup import KnownUser, NewLogin
from gf_i2p.node.files.file_names import MASTER_FILE
from gf_i2p.node.files.sealed import MAX_BYTES
from gf_i2p.node.files.server_tables import ServerId, UserTable, check_name_of_user
from gf_i2p.node.files.transaction import changing
from gf_i2p.node.publish.branch_keys import branch_file
from gf_i2p.node.publish.publishing_keys import MAX_FILE_BYTES, PublishingKeys
from gf_i2p.storage.private_files import write_private
from gf_i2p.wire.digest import Secret, Verifier

_WITH_FILE: Final = (Role.CLIENT, Role.ADMIN, Role.VIEWER)
"""Roles of users whose files `gf-i2p init` writes."""
_MAX_OPENINGS: Final = 1 << 16
"""Most objects and lists in the sealed bytes: one for each user."""
_KNOWN: Final = (*_WITH_FILE, Role.LEAF)
"""Roles of users that a new farm knows. A server's own verifier belongs to the server's identity."""


def _role(name: str) -> Role | None:
    try:
        return User(name).role
    except ValueError:
        return None


def _checked_name(name: str) -> str:
    if _role(check_name_of_user(name)) not in _KNOWN:
        raise ValueError(f"{name} is no client, administrator, viewer or leaf member")
    return name


def _publishing(text: SecretStr) -> SecretStr:
    PublishingKeys.parse(from_base64(text.get_secret_value(), MAX_FILE_BYTES))
    return text


def _branch(text: SecretStr) -> SecretStr:
    DestinationKeys.parse(from_base64(text.get_secret_value(), MAX_FILE_BYTES))
    return text


class SealedUser(UserTable):
    """A user: the verifier in the servers' files; and all by which the user logs in, where the user's file lay."""

    name: Annotated[str, AfterValidator(_checked_name)]
    private_key: PrivateKeyText | None = None
    password: SecretStr | None = None

    @model_validator(mode="after")
    def _is_possible(self) -> Self:
        _ = self.verifier  # raises `ValueError` for a damaged HA1
        if self.has_login and _role(self.name) is Role.LEAF:
            raise ValueError("a leaf member's own key stays in the leaf member's directory")
        return self

    @property
    def has_login(self) -> bool:
        """Whether all by which the user logs in is here."""
        return self.private_key is not None or self.password is not None

    def known(self, cluster: str) -> KnownUser:
        """Return the user as a new farm of this name takes it. Raises `ConfigError` when login and verifier differ."""
        login = None
        if self.has_login:
            key = None if self.private_key is None else LoginKey.parse(self.private_key.get_secret_value())
            login = NewLogin(key, None if self.password is None else self.password.get_secret_value())
            if not _fits(self.name, login, self.verifier, cluster):
                raise ConfigError(f"user {self.name}: the servers' files do not know the user's key or password")
        return KnownUser(self.name, self.verifier, login)


class BranchTable(Table):
    """The keys of one branch of a tree of Meta lease sets."""

    number: Annotated[int, Field(ge=0, lt=BRANCHES)]
    keys: Annotated[SecretStr, AfterValidator(_branch)]


@dataclass(frozen=True, slots=True)
class Kinds:
    """The kinds of secrets, with the number of each; no secret, and no name."""

    users: int
    logins: int
    """Users with their own key or password."""
    publishing: str | None
    """"own": the master's own key, "delegated", or None."""
    branches: int

    def __str__(self) -> str:
        keys = {"own": "the master's own", "delegated": "delegated", None: "none"}[self.publishing]
        return (
            f"users: {self.users}, with their own key or password: {self.logins}; publishing keys: {keys}; keys of "
            f"branches: {self.branches}"
        )


class FarmSecrets(Table):
    """The secrets of a farm, as far as one server's directory has them."""

    server: ServerId
    """The server to which the publishing keys belong."""
    users: Annotated[tuple[SealedUser, ...], Field(strict=False)] = ()
    publishing_keys: Annotated[SecretStr, AfterValidator(_publishing)] | None = None
    """The file of the master's keys, own or delegated, in I2P's base64."""
    branches: Annotated[tuple[BranchTable, ...], Field(strict=False, max_length=BRANCHES)] = ()

    @model_validator(mode="after")
    def _none_twice(self) -> Self:
        for what, values in (
            ("users", [user.name for user in self.users]),
            ("branches", [str(branch.number) for branch in self.branches]),
        ):
            if len(set(values)) != len(values):
                raise ValueError(f"{what}: one of them stands there twice")
        return self

    @property
    def kinds(self) -> Kinds:
        """The kinds of secrets that are here."""
        publishing = None
        if self.publishing_keys is not None:
            publishing = "delegated" if PublishingKeys.parse(_data(self.publishing_keys)).delegated else "own"
        return Kinds(len(self.users), sum(user.has_login for user in self.users), publishing, len(self.branches))

    @classmethod
    def parse(cls, data: bytes, path: Path) -> Self:
        """Read what `encode` writes. Raises `ConfigError`, which names `path`, and shows no secret."""
        try:
            values = decode_object(data, "the sealed part", max_bytes=MAX_BYTES, max_openings=_MAX_OPENINGS)
        except (RecordError, RecursionError) as error:  # so many openings may also stand within one another
            raise ConfigError(f"{path}: {error}") from error
        return model_of(cls, values, path)

    def encode(self) -> bytes:
        """Return the bytes that are to be sealed: JSON with all secrets."""
        tables = {name: [_plain(each) for each in getattr(self, name)] for name in ("users", "branches")}
        return json.dumps(_plain(self) | tables).encode("ascii")

    def known(self, cluster: str) -> list[KnownUser]:
        """Return the users for a new farm of this name. Raises `ConfigError`."""
        return [user.known(cluster) for user in self.users]

    def place_keys(self, directory: Path) -> None:
        """Write the publishing keys into a server's new directory, with mode 0600. Raises `OSError`."""
        master = directory / MASTER_FILE
        if self.publishing_keys is not None:
            write_private(master, _data(self.publishing_keys))
        for branch in self.branches:
            write_private(branch_file(master, branch.number), _data(branch.keys))


@dataclass(frozen=True, slots=True)
class Gathered:
    """The secrets of a directory, and the files of users that were left out, each with the reason."""

    secrets: FarmSecrets
    left_out: tuple[str, ...]


def gather(directory: Path) -> Gathered:
    """Gather the secrets of a server's directory, and of the users' files in and beside that directory.

    `gf-i2p init` writes the users' files beside the servers' directories. A user's file counts when the server knows
    the user by the key or password in that file. So a user who lost the right does not come back. A user's file that
    others could read is left out, with the reason. Raises `ConfigError`, also when others could read a server's key.
    """
    with changing(directory):
        config, secrets = Config.load(directory), Secrets.load(directory)
        cluster, verifiers = config.node.cluster, secrets.verifiers
        logins: dict[str, NewLogin] = {}
        left_out: list[str] = []
        for path in _user_files(directory):
            try:
                file = ClientFile.load(path)
            except ConfigError as error:
                left_out.append(f"{path}: it cannot be used: {error}")
                continue
            if file.cluster != cluster:
                continue
            login = NewLogin(
                None if file.key is None else LoginKey.parse(file.key.get_secret_value()),
                None if file.password is None else file.password.get_secret_value(),
            )
            if file.user not in verifiers or not _fits(file.user, login, verifiers[file.user], cluster):
                left_out.append(f"{path}: the server does not know {file.user} by the key or password in this file")
            else:
                logins.setdefault(file.user, login)
        path = directory / config.publish.keys
        branches = [(number, branch_file(path, number)) for number in range(BRANCHES)]
        return Gathered(
            FarmSecrets(
                server=config.node.id,
                users=tuple(
                    _sealed(name, verifier, logins.get(name))
                    for name, verifier in verifiers.items()
                    if _role(name) in _KNOWN
                ),
                publishing_keys=_key_file(path, PublishingKeys.parse),
                branches=tuple(
                    BranchTable(number=number, keys=text)
                    for number, file in branches
                    if (text := _key_file(file, DestinationKeys.parse)) is not None
                ),
            ),
            tuple(left_out),
        )


def _user_files(directory: Path) -> Iterator[Path]:
    for folder in (directory, directory.absolute().parent):
        for role in _WITH_FILE:
            yield from sorted(folder.glob(f"{role}-*.toml"))


def _key_file(path: Path, parse: Callable[[bytes], object]) -> SecretStr | None:
    """Return a key file's bytes in base64; None when there is no file. `parse`: raises `NetDbError`."""
    if not path.exists():
        return None
    data, status = read_regular(path, MAX_FILE_BYTES + 1)
    try:
        parse(data)
    except NetDbError as error:
        raise ConfigError(f"{path} is no file of keys that a server uses: {error}.") from error
    check_mode(path, status)
    return SecretStr(to_base64(data))


def _data(text: SecretStr) -> bytes:
    return from_base64(text.get_secret_value(), MAX_FILE_BYTES)


def _fits(user: str, login: NewLogin, verifier: Verifier, cluster: str) -> bool:
    """Whether the servers know the user by this key or this password."""
    if not isinstance(verifier, Secret):
        return login.key is not None and login.key.public == verifier
    try:
        return login.password is not None and Secret.derive(user, cluster, login.password) == verifier
    except ValueError:  # an empty password, or one that cannot be encoded
        return False


def _sealed(name: str, verifier: Verifier, login: NewLogin | None) -> SealedUser:
    user = SealedUser(name=name, **UserTable.of(verifier).model_dump())
    if login is None:
        return user
    more = {"private_key": None if login.key is None else login.key.text, "password": login.password}
    return user.model_copy(update={name: None if text is None else SecretStr(text) for name, text in more.items()})


def _plain(table: BaseModel) -> dict[str, Any]:
    """Return the values of a table for JSON, with the secrets, and without what is not set."""
    return {
        name: value.get_secret_value() if isinstance(value, SecretStr) else value
        for name, value in table
        if value is not None
    }
