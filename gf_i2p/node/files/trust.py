"""What a server's files say of certificates: its own, and those of whom it trusts outside I2P."""

from dataclasses import replace
from pathlib import Path

from gf_i2p.node.files.config import Config, check_private
from gf_i2p.transport.tls.tls_transport import TlsSettings
from gf_i2p.wire.endpoint import Endpoint


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
