"""Facts about a server's own router and leaves, and about other servers' leaves, for the status record.

Proposal 150, "Application Data Contents". None always means: the router's interface does not report the value.
"""

from dataclasses import dataclass
from enum import StrEnum


class Reachability(StrEnum):
    """A router's own opinion of its reachability. Java I2P and i2pd use different numbers; this program uses words."""

    OK = "ok"
    TESTING = "testing"
    FIREWALLED = "firewalled"
    HIDDEN = "hidden"
    WARNING = "warning"
    ERROR = "error"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class RouterStatus:
    """State of the local router. Bandwidths are bytes per second, times milliseconds."""

    uptime_ms: int | None = None
    version: str | None = None
    reachability: Reachability | None = None
    participating_tunnels: int | None = None
    exploratory_tunnels: int | None = None
    job_lag_ms: int | None = None
    configured_inbound: int | None = None
    configured_outbound: int | None = None
    current_inbound: float | None = None
    current_outbound: float | None = None
    known_peers: int | None = None
    active_peers: int | None = None
    last_published_ri: str | None = None
    """The router info that the router published last, in base64."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeafStatus:
    """State of a destination of the local router that serves the farm's service."""

    up: bool
    """Whether the destination's lease set is current. Only a measurement shows whether the destination answers, see
    `MeasuredStatus`."""
    destination: str | None = None
    """The destination in base64; None while the router does not find its lease set."""
    name: str | None = None
    """Name of the destination's tunnel in the router's configuration."""
    connections: int | None = None
    name_reason: str | None = None
    """Why the name is not known: a sentence for the caller of the router interface."""
    connections_reason: str | None = None
    """Why the number of connections is not known, as `name_reason`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredStatus:
    """Result of a try to reach a destination through I2P."""

    lease_set_seconds: float | None
    """Seconds until the router found the lease set; None: not found."""
    connect_seconds: float | None
    """Seconds until the first answer; None: no answer, or no lease set."""
    error: str | None = None
    """Why the try failed: a clause for the operator."""
