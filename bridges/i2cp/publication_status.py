"""What has become of a publication, for the node and for people."""

from dataclasses import dataclass
from enum import StrEnum

from bridges.i2cp.settings import RouterKind


class Phase(StrEnum):
    """How far it is."""

    IDLE = "idle"
    """Nothing is published, and nothing should be."""
    OPENING = "opening"
    """A session is being opened; its tunnels may still have to be built."""
    SENT = "sent"
    """The router has been given a set, and gets it whenever it asks."""
    STALE = "stale"
    """The router asked, and the last set was too old to be given: publish a fresh one."""
    LOST = "lost"
    """There is no session any more, or none could be opened: publish again."""


@dataclass(frozen=True, slots=True)
class PublicationStatus:
    """One master's publication at one router. Times are seconds since the epoch."""

    phase: Phase = Phase.IDLE
    reason: str = ""
    """Why it is stale or lost, in a sentence."""
    since: float | None = None
    """When `phase` and `reason` became what they are."""
    published: int | None = None
    """`published` of the set that the router was given last."""
    given_at: float | None = None
    """When that was."""
    given: int = 0
    """How many times a set was given, on our own and when the router asked."""
    sessions: int = 0
    """How many sessions were opened: over 1 the router has lost some."""
    kind: RouterKind | None = None
    """Which router it was, once that is known."""

    @property
    def kept(self) -> bool:
        """Whether the bridge is at it; otherwise the node must act, or nothing is to be published."""
        return self.phase in {Phase.OPENING, Phase.SENT}
