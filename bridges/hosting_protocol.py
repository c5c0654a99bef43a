"""Protocol of mode `failover`: the chosen node has its router serve the master destination.

The farm chooses one node. The bridge of that node runs the destination as an ordinary service with tunnels of its own,
and carries the clients' streams to the operator's local service.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Protocol

from bridges.errors import RouterError
from gf_i2p.farm.record.master_load import MasterLoad
from gf_i2p.netdb.lease_set import LeaseSet2
from gf_i2p.netdb.private_keys import DestinationKeys
from gf_i2p.netdb.session_config import SERVICE_OPTIONS

MAX_STREAMS: Final = 512
"""Most streams of all clients together, unless the settings have another number."""
MAX_STREAMS_PER_DESTINATION: Final = 256
"""Most streams of one destination. An HTTP proxy is one destination for all its users: 50 pages a second, each on its
way for five seconds, are 250 streams. More crowded destinations give way to less crowded ones anyway."""


@dataclass(frozen=True, slots=True)
class StreamLimits:
    """Limits of a service's streams. The same limits hold for first packets without data, which are counted apart."""

    streams: int = MAX_STREAMS
    """Most open streams."""
    per_destination: int = MAX_STREAMS_PER_DESTINATION
    """Most open streams of one client destination."""


class ServiceState(StrEnum):
    """State of a service."""

    SERVING = "serving"
    DRAINING = "draining"
    """The service publishes nothing more, and ends when its clients have gone."""
    LOST = "lost"
    """The router has ended the session, or the connection broke: open a new service."""
    CLOSED = "closed"


async def _announce_nowhere(lease_set: LeaseSet2) -> None:
    raise RouterError(
        f"the lease set published at {lease_set.published} was not announced: the offer has no `announce`"
    )


def _ignore(lease_set: LeaseSet2) -> None:
    """Ignore the lease set."""


@dataclass(frozen=True, slots=True)
class ServiceOffer:
    """A destination to serve, and the way to serve it. Raises `ValueError` with a sentence for the operator."""

    keys: DestinationKeys
    target: tuple[str, int]
    """Host and port of the local service."""
    next_published: Callable[[], int]
    """Returns `published` of the next lease set, in seconds since the epoch: later than in any set of any node."""
    announce: Callable[[LeaseSet2], Awaitable[object]] = _announce_nowhere
    """Awaited with each set before the router gets the set. After an error, the service soon announces another set.

    i2pd waits 10 s for a set that i2pd has asked for. So if the announcement takes more than 6 s, the router gets its
    last set once more. An error for the first set ends the opening.
    """
    on_given: Callable[[LeaseSet2], None] = _ignore
    """Called with each announced set after the router has got the set."""
    http: bool = False
    """Whether the service is a web server. Its requests name the client (`bridges.streaming.http_headers`), and its
    answers say nothing about the server (`bridges.streaming.http_response`)."""
    limits: StreamLimits = field(default_factory=StreamLimits)
    """Most streams, in all and of one client destination."""
    options: Mapping[str, str] = field(default_factory=lambda: dict(SERVICE_OPTIONS))
    """I2CP options of the session: length and number of tunnels."""
    signed_session: bytes | None = None
    """For delegated `keys`: a SessionConfig with these `options` that the destination's own key has signed once.

    i2pd takes no session from a transient key, and never looks at a config's date. Java takes only a fresh config.
    """

    def __post_init__(self) -> None:
        host, port = self.target
        if host.lower().rstrip(".").endswith(".i2p"):
            raise ValueError(
                f"the local service's host {host} lies inside I2P: give an address of this machine or network"
            )
        if not host or not 0 < port < 2**16:
            raise ValueError(f"the local service is at {host!r}, port {port}: give a host, and a port of 1 to 65535")


class HostedService(Protocol):
    """A destination that is being served."""

    @property
    def state(self) -> ServiceState:
        """The present state of the service."""
        ...

    @property
    def trouble(self) -> str | None:
        """The present fault, in a sentence for the operator; None while all is well."""
        ...

    @property
    def announced(self) -> LeaseSet2 | None:
        """The last lease set that was announced and that the router has got."""
        ...

    @property
    def streams(self) -> int:
        """Number of open streams."""
        ...

    @property
    def load(self) -> MasterLoad:
        """The load now, without the uptime."""
        ...

    async def lost(self) -> None:
        """Wait until the service is lost or closed."""
        ...

    async def drain(self, seconds: float) -> bool:
        """Publish no more, and wait until no client uses the service. Return whether that happened within `seconds`.

        New streams are still opened until 15 s after the end of the service's last lease set. Clients with that lease
        set find no other holder: i2pd repeats a stream's first packet to the same destination again and again. From
        then on, the drain waits until all open streams have ended.
        """
        ...

    def resume(self) -> None:
        """Serve again, after a drain or in the middle of a drain. Without a drain nothing happens."""
        ...

    async def close(self) -> None:
        """Break all streams off and end the session. The router has released the destination when this returns."""
        ...


class ServiceHosting(Protocol):
    """Access to one router that can serve destinations."""

    async def open(self, offer: ServiceOffer) -> HostedService:
        """Open a session; return when the router has its first lease set. May take minutes. Raises `RouterError`."""
        ...
