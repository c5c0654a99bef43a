"""What a server knows of its own router and leaves, and of others': the facts behind its status record.

Proposal 150, "Application Data Contents". None always means: the router's interface does not tell.
"""

from dataclasses import dataclass
from enum import StrEnum


class Reachability(StrEnum):
    """What a router thinks of its own place in the network. The two routers' numbers for it differ; these are ours."""

    OK = "ok"
    TESTING = "testing"
    FIREWALLED = "firewalled"
    HIDDEN = "hidden"
    WARNING = "warning"
    ERROR = "error"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class RouterStatus:
    """The local router. Bandwidths are bytes per second, times milliseconds."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class LeafStatus:
    """One of the local router's destinations that serve the farm's service."""

    up: bool
    """Whether its lease set was found. Whether it answers, only a measurement shows: `MeasuredStatus`."""
    name: str | None = None
    """Of its tunnel, in the router's configuration."""
    connections: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredStatus:
    """What trying to reach a destination through I2P has shown."""

    lease_set_seconds: float | None
    """How long the router took to find its lease set; None: it found none."""
    connect_seconds: float | None
    """How long it took until something was heard from there; None: nothing was, or there was no lease set."""
    error: str | None = None
    """Why not, for people."""
