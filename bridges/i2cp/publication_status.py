"""Status of a publication, for the node and the operator."""

from dataclasses import dataclass
from enum import StrEnum

from bridges.i2cp.settings import RouterKind


class I2cpPhase(StrEnum):
    """Progress of a publication."""

    IDLE = "idle"
    """Nothing is published, and nothing should be."""
    OPENING = "opening"
    """A session is being opened; its tunnels may still have to be built."""
    SENT = "sent"
    """The router has a set. The bridge gives the set again when the router asks."""
    STALE = "stale"
    """The router asked when the last set was too old: publish a fresh set."""
    LOST = "lost"
    """There is no session any more, or no session could be opened: publish again."""


@dataclass(frozen=True, slots=True)
class PublicationStatus:
    """One master's publication at one router. Times are seconds since the epoch."""

    phase: I2cpPhase = I2cpPhase.IDLE
    reason: str = ""
    """Why the publication is stale or lost, in a sentence."""
    since: float | None = None
    """Time at which `phase` or `reason` last changed."""
    published: int | None = None
    """`published` of the last set that the router got."""
    sets_given: int = 0
    """How many times the router got a set, asked or unasked."""
    sessions: int = 0
    """Number of sessions that were opened: above 1 the router has lost sessions."""
    kind: RouterKind | None = None
    """The kind of router; None while the kind is not known."""

    @property
    def is_active(self) -> bool:
        """Whether the bridge keeps the publication alive. Otherwise publish again, if anything is to be published."""
        return self.phase in {I2cpPhase.OPENING, I2cpPhase.SENT}
