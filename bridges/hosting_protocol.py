"""What the node asks of a router to serve a destination itself: `failover` mode.

The node elects who holds the destination; the bridge runs it as an ordinary service with tunnels of its own, and
carries its streams to the operator's local service.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from bridges.errors import RouterError
from gf_i2p.netdb.lease_set import LeaseSet2
from gf_i2p.netdb.private_keys import DestinationKeys
from gf_i2p.netdb.session_config import SERVICE_OPTIONS


class ServiceState(StrEnum):
    """How a service does."""

    SERVING = "serving"
    DRAINING = "draining"
    """It publishes nothing more, and ends when its clients have gone."""
    LOST = "lost"
    """The router has ended the session, or was lost: open another one."""
    CLOSED = "closed"


async def _nobody(lease_set: LeaseSet2) -> None:
    raise RouterError(f"the lease set published at {lease_set.published} was to be announced by nobody")


def _unheard(lease_set: LeaseSet2) -> None:
    """Nobody wants to know."""


@dataclass(frozen=True, slots=True)
class ServiceOffer:
    """What is to be served, and how. Raises `ValueError` with a sentence for the operator."""

    keys: DestinationKeys
    target: tuple[str, int]
    """Host and port of the local service."""
    next_published: Callable[[], int]
    """Gives `published` of the next lease set, in seconds since the epoch: greater than all before, on any node."""
    announce: Callable[[LeaseSet2], Awaitable[object]] = _nobody
    """Is awaited with each set before the router gets it. If it raises, the router gets another one soon.

    A router that has asked waits 10 s (i2pd), and gets its last set once more when this takes longer than 6 s. What it
    raises for the first set ends the opening.
    """
    given: Callable[[LeaseSet2], None] = _unheard
    """Is called with each announced set when the router has got it."""
    http: bool = False
    """Whether the service is a web server that is to be told who asks: `bridges.streaming.http_headers`."""
    options: Mapping[str, str] = field(default_factory=lambda: dict(SERVICE_OPTIONS))
    """I2CP's, of the session: lengths and number of tunnels."""
    signed_session: bytes | None = None
    """A SessionConfig with these options that the destination's own key has signed once, when `keys` are delegated.

    i2pd takes no session from a transient key, and never looks at a config's date; Java takes only a fresh one.
    """

    def __post_init__(self) -> None:
        host, port = self.target
        if host.lower().rstrip(".").endswith(".i2p"):
            raise ValueError(f"the local service's host {host} lies inside I2P: it must be an address of our own")
        if not host or not 0 < port < 2**16:
            raise ValueError(f"the local service is at {host!r}, port {port}: give a host, and a port of 1 to 65535")


class Service(Protocol):
    """A destination that is served."""

    @property
    def state(self) -> ServiceState:
        """How it does."""
        ...

    @property
    def trouble(self) -> str | None:
        """What is wrong, in a sentence for the operator; None while all is well."""
        ...

    @property
    def announced(self) -> LeaseSet2 | None:
        """The last lease set that was announced and given to the router."""
        ...

    @property
    def streams(self) -> int:
        """How many are open."""
        ...

    async def lost(self) -> None:
        """Wait until it is lost or closed."""
        ...

    async def drain(self, seconds: float) -> bool:
        """Publish no more, and wait until nobody uses the service. Return whether that was within `seconds`.

        New streams are opened as long as our last lease set is good, for a client that has it finds nobody else: i2pd
        sends a stream's first packet again and again to whom it meant it for. After that, the open ones may end.
        """
        ...

    def resume(self) -> None:
        """Go on as before a drain that is over, or given up. Nothing happens if there was none."""
        ...

    async def close(self) -> None:
        """Break all streams off and end the session. The destination is free at the router when this returns."""
        ...


class ServiceHosting(Protocol):
    """A way to serve destinations through one router."""

    async def open(self, offer: ServiceOffer) -> Service:
        """Open a session and return when the router has its first lease set. May take minutes. Raises `RouterError`."""
        ...
