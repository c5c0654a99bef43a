"""Looks for live servers of a farm before a recovery: the recovered server must not be a second farm beside them."""

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gf_i2p.node.files.config import Config, Secrets
from gf_i2p.node.files.router_logins import RouterLogins, proxy_settings
from gf_i2p.node.files.router_settings import host_and_port
from gf_i2p.node.files.trust import knows_certificate, trusted_settings
from gf_i2p.transport.client.server_queries import fetch_configuration
from gf_i2p.transport.endpoint_transport import MixedTransport
from gf_i2p.transport.errors import ProxyAccessError, TransportError
from gf_i2p.transport.i2p.i2p_transport import I2pTransport
from gf_i2p.transport.interface import Transport
from gf_i2p.transport.tls.tls_transport import TlsTransport
from gf_i2p.wire.endpoint import Endpoint
from gf_i2p.wire.errors import EndpointError
from gf_i2p.wire.log_values import ClusterServer

ASK_SECONDS: Final = 3.0
"""Seconds for each server's answer; all servers are asked at the same time. A server that is down refuses at once, so
only a server that is cut off takes so long."""
I2P_ASK_SECONDS: Final = 10.0
"""Seconds for the answer of a server inside I2P, where the first connection to a peer takes that long."""


@dataclass(frozen=True, slots=True)
class Others:
    """The result of the questions to the other servers."""

    living: dict[int, str]
    """By server id: the answer of a live server, as a clause."""
    not_asked: dict[int, str]
    """By server id: why the server could not be asked, as a clause."""


async def ask_others(directory: Path, servers: tuple[ClusterServer, ...]) -> Others:
    """Ask all of these servers at once, with the key and the trusted certificates in a node's directory.

    `servers` comes from the log. If gf-i2p.toml names another endpoint for a server, that endpoint is dialled, as the
    node would do. Servers inside I2P are asked only if the router's proxy answers.

    Raises:
        ConfigError: the files in the directory cannot be used.
    """
    config, secrets = Config.load(directory), Secrets.load(directory)
    login = secrets.login(config.node.id)
    listed_endpoints = {server.id: server.endpoint for server in config.servers}
    living: dict[int, str] = {}
    not_asked: dict[int, str] = {}
    try:
        transport = _transport(directory, config, secrets)
    except TransportError as error:
        return Others({}, {server.id: str(error) for server in servers})

    async def ask(server: ClusterServer) -> None:
        try:
            endpoint = Endpoint.parse(listed_endpoints.get(server.id, server.endpoint))
        except EndpointError as error:
            not_asked[server.id] = str(error)
            return
        if endpoint.is_i2p and (why_not := await _why_no_i2p(config)) is not None:
            not_asked[server.id] = why_not
            return
        if not endpoint.is_i2p and not knows_certificate(config, endpoint):
            not_asked[server.id] = (
                f"gf-i2p.toml does not say which certificate {endpoint} has: add its fingerprint to [[servers]]"
            )
            return
        credentials = login.at(server.id)
        seconds = I2P_ASK_SECONDS if endpoint.is_i2p else ASK_SECONDS
        try:
            configuration = await fetch_configuration(
                transport, endpoint, config.node.cluster, credentials, seconds=seconds
            )
        except ProxyAccessError as error:
            not_asked[server.id] = str(error).rstrip(".")
            return
        except TransportError as error:
            if credentials.has_challenge:  # the server runs: it rejects the login, or was too slow
                living[server.id] = f"it answers, and does not tell who belongs to the farm: {error}".rstrip(".")
            return
        if configuration is None:
            living[server.id] = "it answers, but does not serve the farm's Configuration"
        else:
            ids = ", ".join(str(each.id) for each in configuration.servers) or "nobody"
            living[server.id] = f"it answers; by its log {ids} belong to the farm"

    await asyncio.gather(*map(ask, servers))
    return Others(living, not_asked)


def _transport(directory: Path, config: Config, secrets: Secrets) -> Transport:
    tls = TlsTransport(trusted_settings(directory, config))
    if config.router is None:
        return tls
    proxy = proxy_settings(config.router, RouterLogins.of(config.router, secrets))
    return MixedTransport(tls=tls, i2p=I2pTransport(proxy), listening=tls)


async def _why_no_i2p(config: Config) -> str | None:
    """Return why no server can be asked through I2P; None when the router's proxy takes connections."""
    if config.router is None:
        return "gf-i2p.toml names no I2P router: add a table [router]"
    proxy = config.router.proxy
    try:
        async with asyncio.timeout(ASK_SECONDS):
            _, writer = await asyncio.open_connection(*host_and_port(proxy))
    except (OSError, TimeoutError):
        return f"it is reached through I2P, and the router's proxy at {proxy} does not answer"
    writer.close()
    return None
