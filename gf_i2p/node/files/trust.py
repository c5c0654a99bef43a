"""What a server's files say of certificates and passwords: its own, and those of the servers that it trusts."""

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

from gf_i2p.node.files.config import Config, check_private
from gf_i2p.transport.tls.tls_transport import TlsSettings
from gf_i2p.wire.endpoint import Endpoint
from gf_i2p.wire.errors import EndpointError
from gf_i2p.wire.log_values import ClusterServer


def tls_settings(directory: Path, config: Config) -> TlsSettings:
    """Say who a node is and whom it trusts. Raises `ConfigError` when others could read its key."""
    trusted = trusted_settings(directory, config)
    if config.own_endpoint.is_i2p:
        return trusted
    certificate, key = directory / config.tls.certificate, directory / config.tls.key
    check_private(key)
    return replace(trusted, certificate=certificate, key=key)


def trusted_settings(directory: Path, config: Config) -> TlsSettings:
    """Say whom a node trusts, for who only dials: its own certificate is for who dials it, and may be lost."""
    return TlsSettings(
        fingerprints={
            Endpoint.parse(server.endpoint): [server.fingerprint]
            for server in config.servers
            if server.fingerprint is not None
        },
        ca_file=None if config.tls.ca is None else directory / config.tls.ca,
    )


def knows_certificate(config: Config, endpoint: Endpoint) -> bool:
    """Whether the certificate of this endpoint can be checked: by its fingerprint, or as a CA vouches for it."""
    pinned = any(each.endpoint == str(endpoint) and each.fingerprint is not None for each in config.servers)
    return pinned or config.tls.ca is not None


def lacking(config: Config, users: Collection[str], server: ClusterServer) -> str | None:
    """Say why the server of these files could not speak with that one, and the way out; None when it could.

    `users`: whose passwords it can check. A certificate is known by its fingerprint, or vouched for by a CA; inside I2P
    the address says who it is.
    """
    listed = next((each for each in config.servers if each.id == server.id), None)
    try:
        endpoint = Endpoint.parse(server.endpoint)
    except EndpointError as error:
        return f"server {server.id} cannot be reached: {error}"
    if endpoint.is_i2p and config.router is None:
        return f"{endpoint} lies inside I2P, and this server's gf-i2p.toml names no router: add a table [router]"
    known = endpoint.is_i2p or knows_certificate(config, endpoint)
    trusted = f"server-{server.id}" in users
    if known and trusted:
        return None
    if trusted and listed is not None and listed.endpoint != str(endpoint):
        return f"this server's gf-i2p.toml has server {server.id} at {listed.endpoint}: give that endpoint"
    missing = [] if known else ["which certificate it has"]
    missing += [] if trusted else ["what checks its password"]
    return (
        f"this server's files do not say of server {server.id} {' and '.join(missing)}, and cannot let it in. Invite "
        f"it by a member's directory (gf-i2p members invite DIR {server.id}={endpoint} --into NEW), and let all "
        "servers know it (gf-i2p members accept DIR FILE on each): then it asks by itself"
    )
