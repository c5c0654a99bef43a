"""The logins at a router's interfaces: the users stand in the router's table, the passwords in a private file."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Final, Self

from pydantic import SecretStr

from gf_i2p.node.files.checked_read import ConfigError, Table
from gf_i2p.node.files.file_names import SECRETS_FILE
from gf_i2p.node.files.router_settings import RouterTable, check_pair
from gf_i2p.transport.errors import TransportError
from gf_i2p.transport.i2p.i2p_transport import ProxySettings

PASSWORDS: Final = ("i2pcontrol_password", "i2cp_password", "sam_password", "proxy_password")


class RouterPasswords(Table):
    """The part of a private file with the passwords of the router's interfaces."""

    i2pcontrol_password: SecretStr | None = None
    """Password of the router's i2pcontrol."""
    i2cp_password: SecretStr | None = None
    """Password of `router.i2cp_user`."""
    sam_password: SecretStr | None = None
    """Password of `router.sam_user`."""
    proxy_password: SecretStr | None = None
    """Password of `router.proxy_user`."""

    file_name: ClassVar[str] = SECRETS_FILE
    """Name of the file, for errors."""

    @property
    def has_logins(self) -> bool:
        """Whether there is a password that needs a user."""
        return any((self.i2cp_password, self.sam_password, self.proxy_password))

    @property
    def router_passwords(self) -> Mapping[str, SecretStr | None]:
        """The passwords by their names in the file."""
        return {name: getattr(self, name) for name in PASSWORDS}


@dataclass(frozen=True, slots=True)
class RouterLogin:
    """A user and its password."""

    user: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class RouterLogins:
    """The logins at one router. None: the interface asks for no login."""

    i2cp: RouterLogin | None = None
    sam: RouterLogin | None = None
    proxy: RouterLogin | None = None

    @classmethod
    def of(cls, router: RouterTable, passwords: RouterPasswords) -> Self:
        """Bring users and passwords together. Raises `ConfigError`, which names the setting that is missing."""
        return cls(
            i2cp=_login(router.i2cp_user, passwords.i2cp_password, "i2cp", passwords),
            sam=_login(router.sam_user, passwords.sam_password, "sam", passwords),
            proxy=_login(router.proxy_user, passwords.proxy_password, "proxy", passwords),
        )


def _login(user: str | None, secret: SecretStr | None, name: str, passwords: RouterPasswords) -> RouterLogin | None:
    password = None if secret is None else secret.get_secret_value()
    try:
        check_pair(user, password, f"router.{name}_user", f"{passwords.file_name}: {name}_password")
    except ValueError as error:
        raise ConfigError(str(error)) from error
    return None if user is None or password is None else RouterLogin(user, password)


def proxy_settings(router: RouterTable, logins: RouterLogins) -> ProxySettings:
    """Return the router's proxy and the login there. Raises `ConfigError` for a login that the proxy cannot take."""
    login = logins.proxy
    try:
        return router.settings(None if login is None else login.password)
    except TransportError as error:
        raise ConfigError(f"router: {error}") from error
