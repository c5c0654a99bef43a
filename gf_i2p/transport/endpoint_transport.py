"""A transport that chooses between TLS and I2P by the endpoint."""

import asyncio
from collections.abc import Callable

from gf_i2p.transport.connection_gate import Admission, Gate
from gf_i2p.transport.interface import Listener, Transport
from gf_i2p.transport.stream_protocol import StreamProtocol
from gf_i2p.wire.endpoint import Endpoint
from gf_i2p.wire.proxy_login import ProxyLogin


class MixedTransport:
    """Chooses by the endpoint's name: names in .i2p go through I2P, all others by TLS.

    `listening`: the transport, of the two, that accepts connections to this node.
    """

    def __init__(self, *, tls: Transport, i2p: Transport, listening: Transport) -> None:
        self._tls = tls
        self._i2p = i2p
        self._listening = listening

    def _transport_for(self, endpoint: Endpoint) -> Transport:
        return self._i2p if endpoint.is_i2p else self._tls

    async def dial(
        self, endpoint: Endpoint, factory: Callable[[], StreamProtocol], *, deadline: float, attempt: int = 0
    ) -> asyncio.Transport:
        """See `Transport.dial`."""
        return await self._transport_for(endpoint).dial(endpoint, factory, deadline=deadline, attempt=attempt)

    def proxied(self, endpoint: Endpoint, attempt: int = 0) -> bool:
        """See `Transport.proxied`."""
        return self._transport_for(endpoint).proxied(endpoint, attempt)

    def proxy_login(self, endpoint: Endpoint, attempt: int = 0) -> ProxyLogin | None:
        """See `Transport.proxy_login`."""
        return self._transport_for(endpoint).proxy_login(endpoint, attempt)

    def patience(self, endpoint: Endpoint) -> float:
        """See `Transport.patience`."""
        return self._transport_for(endpoint).patience(endpoint)

    async def listen(self, factory: Callable[[Admission], StreamProtocol], gate: Gate) -> Listener:
        """See `Transport.listen`."""
        return await self._listening.listen(factory, gate)
