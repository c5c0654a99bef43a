"""What carries connections: the face that TLS and I2P show to servers and links.

Whatever implements it encrypts and knows its peer's address, or refuses. There is no plain TCP among them, so
no setting can make a node listen or dial without.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

from gf_i2p.transport.connection_gate import Admission, Gate
from gf_i2p.wire.endpoint import Endpoint


class Listener(Protocol):
    """Something that accepts connections."""

    @property
    def addresses(self) -> Sequence[str]:
        """Where it listens, each as "host:port", for people and logs."""
        ...

    def close(self) -> None:
        """Accept nothing more. Connections that were accepted live on."""
        ...


class Transport(Protocol):
    """A way to reach endpoints and to be reached."""

    async def dial(
        self, endpoint: Endpoint, factory: Callable[[], asyncio.Protocol], *, deadline: float, attempt: int = 0
    ) -> asyncio.Transport:
        """Connect and make sure that it is the right peer; only then call `factory` and send what it writes.

        `deadline`: seconds from now for everything that happens here. `attempt`: how many have failed so far, for a
        transport that has several ways. When this returns, the protocol's
        `connection_made` has been called. Raises `DialError` with a sentence that says what to check.
        """
        ...

    def proxied(self, endpoint: Endpoint, attempt: int = 0) -> bool:
        """Whether what is written first goes to an HTTP proxy, and must be a request to one (see `ClientHandshake`)."""
        ...

    def patience(self, endpoint: Endpoint) -> float:
        """Seconds that an attempt should have at most, its handshake included: where another way is to be tried next.

        Infinite where there is only one.
        """
        ...

    async def listen(self, factory: Callable[[Admission], asyncio.Protocol], gate: Gate) -> Listener:
        """Accept connections through `gate` until the listener is closed.

        `factory` is called when a connection is encrypted. Its protocol owns the admission from then on: it says
        `authenticated`, `challenged` or `refuse`, and `closed` in `connection_lost`.
        Raises `TransportError` when it cannot listen there.
        """
        ...
