"""The tables of servers and users, which stand in several files of a node, and in those of clients."""

from typing import Annotated, Self

from pydantic import AfterValidator, Field, SecretStr, model_validator

from gf_i2p.node.files import templates
from gf_i2p.node.files.checked_read import Table
from gf_i2p.node.files.router_settings import check_fingerprint
from gf_i2p.wire.digest import Secret, Verifier
from gf_i2p.wire.endpoint import Endpoint
from gf_i2p.wire.errors import ProtocolError
from gf_i2p.wire.key_proof import PublicKey
from gf_i2p.wire.limits import MAX_ID
from gf_i2p.wire.messages import NOBODY
from gf_i2p.wire.names import check_name


def check_name_of_user(text: str) -> str:
    """Return the text if it can name a user; raises `ValueError` otherwise."""
    return check_name("user name", text)


def check_endpoint(text: str) -> str:
    """Return the text of an endpoint in its one form; raises `ValueError` for any other text."""
    try:
        return str(Endpoint.parse(text))
    except ProtocolError as error:
        raise ValueError(str(error)) from error


def _server_id(number: int) -> int:
    if number == NOBODY:
        raise ValueError(f"{NOBODY} means nobody: choose a smaller id")
    return number


def check_public_key(text: str) -> str:
    """Return the text if it is the public half of a key; raises `ValueError` otherwise."""
    return str(PublicKey.parse(text))


ServerId = Annotated[int, Field(ge=0, le=MAX_ID), AfterValidator(_server_id)]


class ServerTable(Table):
    """A table `[[servers]]`: one server of the farm, with its endpoint and its fingerprint."""

    id: ServerId
    """Id of the server."""
    endpoint: Annotated[str, AfterValidator(check_endpoint)]
    """Endpoint at which other servers reach the server: `tcp://HOST:PORT`. A HOST in `.i2p` is dialled through I2P."""
    fingerprint: Annotated[str, AfterValidator(check_fingerprint)] | None = None
    """SHA-256 of the server's certificate; outside I2P only. Absent: a CA must vouch for the certificate."""
    founder: bool = True
    """Whether the server belongs to the first Configuration of the farm."""


class RemovedTable(Table):
    """A table `[[removed]]`: a server that has left the farm, and whose endpoint belongs to a new server now.

    The farm never uses the removed server's id again.
    """

    id: ServerId
    """Id of the removed server."""


class UserTable(Table):
    """The verifier of one user: the public half of the user's key, or for a foreign peer HA1 of the password.

    HA1 (RFC 7616, 3.4.2) is as secret as the password. The public half is no secret.
    """

    key: Annotated[str, AfterValidator(check_public_key)] | None = None
    """The public half of the user's key."""
    md5: SecretStr | None = None
    """HA1 of the user's password by MD5, for a foreign peer."""
    sha256: SecretStr | None = None
    """HA1 of the same password by SHA-256."""

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        given = [self.md5 is not None, self.sha256 is not None]
        if (self.key is not None and any(given)) or (self.key is None and not all(given)):
            raise ValueError("give either key, or md5 and sha256: a user with a key cannot log in by a password, too")
        return self

    @classmethod
    def of(cls, verifier: Verifier) -> Self:
        """Make the table of a verifier."""
        if isinstance(verifier, PublicKey):
            return cls(key=str(verifier))
        return cls(md5=SecretStr(verifier.md5), sha256=SecretStr(verifier.sha256))

    @property
    def verifier(self) -> Verifier:
        """The verifier. Raises `ValueError` when HA1 is damaged."""
        if self.key is not None:
            return PublicKey.parse(self.key)
        assert self.md5 is not None
        assert self.sha256 is not None
        return Secret(md5=self.md5.get_secret_value(), sha256=self.sha256.get_secret_value())

    @property
    def values(self) -> str:
        """The values as lines of TOML."""
        verifier = self.verifier
        if isinstance(verifier, PublicKey):
            return templates.USER_KEY.format(key=verifier)
        return templates.USER_DIGEST.format(md5=verifier.md5, sha256=verifier.sha256)

    def as_text(self, user: str) -> str:
        """Return this table as TOML text for the user of this name."""
        return templates.USER.format(user=user, values=self.values)
