"""The interface of a transport: what TLS and I2P offer to servers and links.

Every implementation encrypts, and makes sure of the identity of a dialled peer, or refuses. No implementation is plain
TCP, so no setting can make a node listen or dial without encryption.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

from gf_i2p.transport.connection_gate import Admission, Gate
from gf_i2p.transport.stream_protocol import StreamProtocol
from gf_i2p.wire.endpoint import Endpoint
from gf_i2p.wire.proxy_login import ProxyLogin


class Listener(Protocol):
    """Accepts connections until `close`."""

    @property
    def addresses(self) -> Sequence[str]:
        """Addresses of the listener, each as "host:port", for the log and the operator."""
        ...

    def close(self) -> None:
        """Accept no more connections. Accepted connections live on."""
        ...


class Transport(Protocol):
    """A way to reach endpoints and to be reached."""

    async def dial(
        self, endpoint: Endpoint, factory: Callable[[], StreamProtocol], *, deadline: float, attempt: int = 0
    ) -> asyncio.Transport:
        """Connect and check the peer's identity; only then call `factory` and send the protocol's data.

        `deadline`: seconds from now for the whole dial. `attempt`: number of failed attempts so far; a transport with
        several ways chooses the way by that number. When this returns, the protocol's `connection_made` has been
        called. Raises `DialError` with a sentence that says what to check.
        """
        ...

    def proxied(self, endpoint: Endpoint, attempt: int = 0) -> bool:
        """Whether the first bytes go to an HTTP proxy, and must be a request to a proxy (see `ClientHandshake`)."""
        ...

    def proxy_login(self, endpoint: Endpoint, attempt: int = 0) -> ProxyLogin | None:
        """Return the login at the HTTP proxy that gets the first bytes; None without such a proxy, or without login."""
        ...

    def patience(self, endpoint: Endpoint) -> float:
        """Return the most seconds for one attempt, handshake included, before another way should be tried.

        Infinite for a transport with only one way.
        """
        ...

    async def listen(self, factory: Callable[[Admission], StreamProtocol], gate: Gate) -> Listener:
        """Accept connections through `gate` until the listener is closed.

        `factory` is called when a connection is encrypted. From then on, the protocol that `factory` returns owns the
        admission: the protocol calls `authenticated`, `challenged` or `refuse`, and `closed` in `connection_lost`.
        Raises `TransportError` when the address cannot be listened on.
        """
        ...
