"""The certificates and passwords in a server's files: its own, and those of the servers that it trusts."""

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

from gf_i2p.node.files.config import Config, check_private
from gf_i2p.transport.login_channel import channel_inside
from gf_i2p.transport.tls.certificates import fingerprint_of_file
from gf_i2p.transport.tls.tls_transport import TlsSettings
from gf_i2p.wire.endpoint import Endpoint
from gf_i2p.wire.errors import EndpointError
from gf_i2p.wire.key_proof import Dialled
from gf_i2p.wire.log_values import ClusterServer


def tls_settings(directory: Path, config: Config) -> TlsSettings:
    """Return a node's own certificate and the trusted ones. Raises `ConfigError` when other users can read its key."""
    trusted = trusted_settings(directory, config)
    if config.own_endpoint.is_i2p:
        return trusted
    certificate, key = directory / config.tls.certificate, directory / config.tls.key
    check_private(key)
    return replace(trusted, certificate=certificate, key=key)


def trusted_settings(directory: Path, config: Config) -> TlsSettings:
    """Return only the certificates that a node trusts. That is enough for dialling, without the node's own key."""
    return TlsSettings(
        fingerprints={
            Endpoint.parse(server.endpoint): [server.fingerprint]
            for server in config.servers
            if server.fingerprint is not None
        },
        ca_file=None if config.tls.ca is None else directory / config.tls.ca,
    )


def dialled(directory: Path, config: Config) -> Dialled:
    """Return how other servers and clients dial this node. Raises `TransportError` when the certificate is unreadable.

    Only a proof of a login that names this server and this channel counts here.
    """
    own = config.own_endpoint
    channel = channel_inside(own) if own.is_i2p else fingerprint_of_file(directory / config.tls.certificate)
    return Dialled(config.node.id, channel)


def knows_certificate(config: Config, endpoint: Endpoint) -> bool:
    """Whether this endpoint's certificate can be checked: by a fingerprint, or by a CA."""
    pinned = any(each.endpoint == str(endpoint) and each.fingerprint is not None for each in config.servers)
    return pinned or config.tls.ca is not None


def lacking(config: Config, users: Collection[str], server: ClusterServer) -> str | None:
    """Return why the server of these files cannot speak with `server`, and what to do; None without an obstacle.

    `users`: the users whose keys or passwords the server can check. A fingerprint or a CA verifies a certificate;
    inside I2P the address is enough.
    """
    listed = next((each for each in config.servers if each.id == server.id), None)
    try:
        endpoint = Endpoint.parse(server.endpoint)
    except EndpointError as error:
        return f"server {server.id} cannot be reached: {error}"
    if endpoint.is_i2p and config.router is None:
        return f"{endpoint} lies inside I2P, and this server's gf-i2p.toml names no router: add a table [router]"
    verifiable = endpoint.is_i2p or knows_certificate(config, endpoint)
    trusted = f"server-{server.id}" in users
    if verifiable and trusted:
        return None
    if trusted and listed is not None and listed.endpoint != str(endpoint):
        return f"this server's gf-i2p.toml has server {server.id} at {listed.endpoint}: give that endpoint"
    missing = [] if verifiable else ["fingerprint"]
    missing += [] if trusted else ["login key"]
    return (
        f"this server's files lack the {' and the '.join(missing)} of server {server.id}, so the server cannot join. "
        f"Invite the server from a member's directory (gf-i2p members invite DIR {server.id}={endpoint} --into NEW), "
        "and run gf-i2p members accept DIR FILE on every server: then the new server asks to join by itself"
    )
