"""The file of a farm's client, `client-NAME.toml`: credentials, and the servers' endpoints and fingerprints."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, ClassVar, Self

from pydantic import AfterValidator, Field, SecretStr, model_validator

from gf_i2p.node.access.login_keys import LoginKey
from gf_i2p.node.access.roles import User
from gf_i2p.node.files.checked_read import PathText, Table, load_table
from gf_i2p.node.files.config import (
    PrivateKeyText,
    check_login,
    check_name_of_cluster,
    check_private,
    login_of,
)
from gf_i2p.node.files.router_settings import ClientProxyTable, ProxyTable
from gf_i2p.node.files.server_tables import ServerTable, check_name_of_user
from gf_i2p.transport.backoff import Backoff
from gf_i2p.transport.client.farm_client import FarmClient
from gf_i2p.transport.client.known_servers import ServerEndpoint
from gf_i2p.transport.endpoint_transport import MixedTransport
from gf_i2p.transport.errors import TransportError
from gf_i2p.transport.i2p.i2p_transport import I2pTransport, ProxySettings
from gf_i2p.transport.interface import Transport
from gf_i2p.transport.tls.tls_transport import TlsSettings, TlsTransport
from gf_i2p.wire.endpoint import Endpoint
from gf_i2p.wire.key_credentials import Login
from gf_i2p.wire.messages import Request


class ClientFile(Table):
    """All settings that a program needs to post to a farm. One live server is enough to find the others."""

    cluster: Annotated[str, AfterValidator(check_name_of_cluster)]
    """Name of the farm."""
    user: Annotated[str, AfterValidator(check_name_of_user)]
    """Name of the user, as `client-NAME`, `admin-NAME`, `viewer-NAME`; of a leaf member `leaf-ID`."""
    key: PrivateKeyText | None = None
    """The user's private key."""
    password: SecretStr | None = None
    """The user's password, in the place of a key, or for servers that know Digest only."""
    ca: PathText | None = None
    """File with CA certificates for servers without a fingerprint. Its path is relative to this file."""
    i2p: ClientProxyTable | None = None
    """The proxy for servers inside I2P."""
    way_name: ClassVar[str] = "i2p"
    """Name of the table that describes the proxy, for errors."""
    servers: Annotated[tuple[ServerTable, ...], Field(strict=False, min_length=1)]
    """Tables `[[servers]]`: one or more servers of the farm."""

    @model_validator(mode="after")
    def _can_log_in(self) -> Self:
        check_login(self.key, self.password)
        return self

    @property
    def login(self) -> Login:
        """All by which the user logs in."""
        keys = () if self.key is None else (LoginKey.parse(self.key.get_secret_value()),)
        return login_of(self.user, keys, self.password)

    @model_validator(mode="after")
    def _servers_fit(self) -> Self:
        ids = [server.id for server in self.servers]
        if len(set(ids)) != len(ids):
            raise ValueError("servers: two of them have the same id")
        for number, server in enumerate(self.servers, 1):
            if not Endpoint.parse(server.endpoint).is_i2p:
                continue
            if server.fingerprint is not None:
                raise ValueError(f"servers[{number}].fingerprint: inside I2P the address is enough; leave it out")
            if self.inside_proxy is None:
                raise ValueError(
                    f"{self.way_name}: is missing, and {server.endpoint} can be reached through an I2P router only"
                )
        return self

    @property
    def inside_proxy(self) -> ProxyTable | None:
        """The proxy for servers inside I2P; None when there is none."""
        return self.i2p

    @property
    def proxy(self) -> ProxySettings | None:
        """The proxy for servers inside I2P, and the login there; None when there is no proxy."""
        return None if self.i2p is None else self.i2p.settings(self.i2p.password)

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read and check the file. Raises `ConfigError`, also when other users could read the file."""
        check_private(path)
        file = load_table(cls, path)
        return file if file.ca is None else file.model_copy(update={"ca": str(path.parent / file.ca)})

    def open(self, *, backoff: Callable[[], Backoff] = Backoff) -> FarmClient:
        """Make a client, which dials when first used. Raises `TransportError` when the CA file cannot be used.

        `backoff`: makes the delays between attempts to connect, one object for each server.
        """
        ways = _Ways(self)
        endpoints = {server.id: Endpoint.parse(server.endpoint) for server in self.servers}
        return FarmClient(
            ways.transport,
            endpoints,
            self.cluster,
            self.login,
            prepare=ways.prepare,
            objection=self._objection,
            backoff=backoff,
        )

    def _objection(self, request: Request) -> str | None:
        """Return why the servers would refuse this request; None when they would not. Servers check the same rule."""
        try:
            user = User(self.user)
        except ValueError as error:
            return f"Nothing was sent: {error}."
        if user.objection(request) is None:
            return None
        return (
            f"Nothing was sent: {user.name} is a {user.role}, and only an administrator may change the servers. Use an "
            "admin-NAME.toml (gf-i2p init --admin NAME)."
        )


class _Ways:
    """A client's transports, and the check whether the client can verify the servers that the farm names.

    Inside I2P, the address verifies a server. Outside I2P, the fingerprint in the client's file verifies the server of
    that id, even at a new endpoint. The file's CA verifies any server. A client never takes a fingerprint from a
    server.
    """

    def __init__(self, file: ClientFile) -> None:
        self._inside = file.inside_proxy is not None
        self._ca = None if file.ca is None else Path(file.ca)
        self._fingerprints = {
            server.id: server.fingerprint for server in file.servers if server.fingerprint is not None
        }
        self._pins = {
            Endpoint.parse(server.endpoint): [server.fingerprint]
            for server in file.servers
            if server.fingerprint is not None
        }
        self._tls = TlsTransport(TlsSettings(fingerprints=self._pins, ca_file=self._ca))
        self.transport: Transport = self._tls
        if file.proxy is not None:
            inside = I2pTransport(file.proxy)
            self.transport = MixedTransport(tls=self._tls, i2p=inside, listening=self._tls)

    def prepare(self, places: Sequence[ServerEndpoint]) -> Mapping[ServerEndpoint, str]:
        """Trust the fingerprints that the file has for these servers.

        Return, by server, why the client cannot dial the others. See `Prepare`.
        """
        pins = dict(self._pins)
        for place in places:
            fingerprint = self._fingerprints.get(place.server)
            if fingerprint is not None and not place.endpoint.is_i2p:
                pins.setdefault(place.endpoint, [fingerprint])
        try:
            self._tls.reload(TlsSettings(fingerprints=pins, ca_file=self._ca))
        except TransportError as error:  # the CA file cannot be read: known servers stay usable
            return {place: str(error) for place in places if not place.endpoint.is_i2p}
        objections = {place: self._objection(place, pins) for place in places}
        return {place: objection for place, objection in objections.items() if objection is not None}

    def _objection(self, place: ServerEndpoint, pins: Mapping[Endpoint, object]) -> str | None:
        server, endpoint = place
        if endpoint.is_i2p:
            if self._inside:
                return None
            return (
                f"The client's file names no I2P router, and {endpoint} is inside I2P: add a table [i2p] with "
                'proxy = "127.0.0.1:4444", or the address of the router\'s HTTP proxy.'
            )
        if endpoint in pins or self._ca is not None:
            return None
        return (
            f"The client's file does not say which certificate {endpoint} has. Add the [[servers]] table of server "
            f"{server} with its fingerprint, as in any server's gf-i2p.toml, or set ca to the file of a CA that "
            "vouches for the server."
        )
