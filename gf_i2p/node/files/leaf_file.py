"""The file of a leaf member, `leaf.toml`: credentials, the servers' endpoints, and the router."""

from pathlib import Path
from typing import Annotated, ClassVar, Final, Self

from pydantic import Field, model_validator

from gf_i2p.node.access.roles import User
from gf_i2p.node.files.checked_read import ConfigError
from gf_i2p.node.files.client_file import ClientFile
from gf_i2p.node.files.config import LoggingTable
from gf_i2p.node.files.router_logins import RouterLogins, RouterPasswords, proxy_settings
from gf_i2p.node.files.router_settings import LeavesTable, ProxyTable, RouterTable, check_leaves
from gf_i2p.transport.i2p.i2p_transport import ProxySettings

LEAF_FILE: Final = "leaf.toml"
"""The settings and the key of a leaf member. Mode 0600."""
MAX_LEAVES: Final = 4
"""Most leaves of a member: a farm takes a member's record up to `farm.posters.MAX_LEAF_MEMBER_BYTES`."""
REPORT_FILE: Final = "leaf-status.json"
"""The status of the leaf member's process, for `gf-i2p leaf status`. Mode 0600."""


class LeafTable(LeavesTable):
    """The leaves that the member reports."""

    status_seconds: Annotated[float, Field(ge=5, le=30)] = 10.0
    """Seconds between two questions to the router."""


class LeafFile(ClientFile, RouterPasswords):
    """All settings of a leaf member. The router's proxy also leads to servers inside I2P."""

    router: RouterTable
    """The table `[router]`: the router beside this member."""
    publish: LeafTable = LeafTable()
    """The table `[publish]`: the leaves that the member reports."""
    logging: LoggingTable = LoggingTable()
    """The table `[logging]`."""

    way_name: ClassVar[str] = "router"
    file_name: ClassVar[str] = LEAF_FILE

    @model_validator(mode="after")
    def _is_a_members(self) -> Self:
        if self.i2p is not None:
            raise ValueError("i2p: a member reaches servers inside I2P through its [router]: leave this table out")
        try:
            user = User(self.user)
        except ValueError as error:
            raise ValueError(f"user: {error}") from error
        if user.member_id is None:
            raise ValueError(f"user: {user.name} is no leaf member; `gf-i2p members invite-leaf` makes this file")
        check_leaves(self.publish, self.router, most=MAX_LEAVES)
        if self.router.info_file is not None:
            raise ValueError("router.info_file: is for servers, which may publish: leave this setting out")
        if self.router.i2pcontrol is not None and self.i2pcontrol_password is None:
            raise ValueError("i2pcontrol_password: is missing, and router.i2pcontrol needs it")
        try:
            proxy_settings(self.router, RouterLogins.of(self.router, self))
        except ConfigError as error:
            raise ValueError(str(error).removeprefix(f"{LEAF_FILE}: ").rstrip(".")) from error
        return self

    @property
    def id(self) -> int:
        """Id of this leaf member."""
        number = User(self.user).member_id
        assert number is not None
        return number

    @property
    def inside_proxy(self) -> ProxyTable:
        """The router's proxy, for servers inside I2P."""
        return self.router

    @property
    def proxy(self) -> ProxySettings:
        """The router's proxy, and the login there."""
        return proxy_settings(self.router, RouterLogins.of(self.router, self))

    @classmethod
    def find(cls, path: Path) -> Path:
        """Return the path of the leaf member's file; `path` names the file or its directory.

        Related files stand beside that file. Raises `ConfigError` when the file is missing.
        """
        file = path / LEAF_FILE if path.is_dir() else path
        if not file.exists():
            raise ConfigError(
                f"{file} does not exist: is this a leaf member's directory? `gf-i2p members invite-leaf` makes "
                "one, on a server's machine."
            )
        return file
