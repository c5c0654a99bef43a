"""The channel of a dialled connection: what a login by a key is bound to (`gf_i2p.wire.key_proof.Dialled`)."""

import asyncio

from gf_i2p.transport.tls.certificates import fingerprint
from gf_i2p.wire.endpoint import Endpoint


def channel_to(endpoint: Endpoint, transport: asyncio.BaseTransport) -> str:
    """Name what was checked when this endpoint was dialled: the address inside I2P, else the peer's certificate.

    Without a certificate the text is empty, and no server accepts a proof.
    """
    if endpoint.is_i2p:
        return channel_inside(endpoint)
    tls = transport.get_extra_info("ssl_object")
    certificate = None if tls is None else tls.getpeercert(binary_form=True)
    return "" if certificate is None else fingerprint(certificate)


def channel_inside(endpoint: Endpoint) -> str:
    """Name the channel to an address inside I2P, or to one's own address."""
    return endpoint.host.lower()
