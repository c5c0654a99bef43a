"""The file of a farm's client, `client-NAME.toml`: credentials, and the servers with their certificates."""

from pathlib import Path
from typing import Annotated, Self

from pydantic import AfterValidator, Field, SecretStr

from gf_i2p.node.config import ServerTable, check_name_of_cluster, check_name_of_user, check_private
from gf_i2p.node.table import Table, load_table
from gf_i2p.transport.client import FarmClient
from gf_i2p.transport.tls import TlsSettings, TlsTransport
from gf_i2p.wire.endpoint import Endpoint


class ClientFile(Table):
    """Everything that a program needs to post to a farm."""

    cluster: Annotated[str, AfterValidator(check_name_of_cluster)]
    user: Annotated[str, AfterValidator(check_name_of_user)]
    password: SecretStr
    servers: Annotated[tuple[ServerTable, ...], Field(strict=False, min_length=1)]

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read and check the file; raises `ConfigError`, also when others could read it."""
        check_private(path)
        return load_table(cls, path)

    def open(self) -> FarmClient:
        """Make a client; it dials when it is first used."""
        endpoints = {server.id: Endpoint.parse(server.endpoint) for server in self.servers}
        pins = {endpoints[server.id]: [server.fingerprint] for server in self.servers if server.fingerprint is not None}
        transport = TlsTransport(TlsSettings(fingerprints=pins))
        return FarmClient(transport, endpoints, self.cluster, self.user, self.password.get_secret_value())
