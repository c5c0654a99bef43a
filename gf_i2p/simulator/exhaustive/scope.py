"""The bounds of a search, the choices in it, and the scopes that `gf-i2p simulate --exhaustive` searches."""

from dataclasses import dataclass
from typing import Final, NamedTuple


@dataclass(frozen=True, slots=True)
class Scope:
    """The bounds of a search. A step that would leave the scope is not made.

    The numbers of choices are sums over all servers in one run.
    """

    servers: int = 3
    terms: int = 2
    """Highest term."""
    time_outs: int = 3
    """Ends of election time-outs, and of the pauses between heartbeats."""
    proposals: int = 0
    """Entries of clients."""
    reads: int = 0
    """Reads of clients."""
    crashes: int = 0
    """How often a process ends. At once, the next process begins from the disk."""
    slow_writes: int = 0
    """How often a write is not durable at once. Later writes of that server wait for the slow write."""
    late: int = 0
    """How many requests and answers arrive at any later time, or never, and not in the order of sending."""
    losses: int = 0
    """How many requests or answers are lost, or are given up before a late one arrives."""
    cuts: int = 0
    """How often all messages that are about to arrive from one server, or at that server, are lost."""
    duplicates: int = 0
    """How many requests arrive a second time, at any time."""

    @property
    def limits(self) -> dict[str, int]:
        """Most choices of each kind in one run; a kind that is not here has no limit of its own."""
        return {
            "time-out": self.time_outs,
            "propose": self.proposals,
            "read": self.reads,
            "crash": self.crashes,
            "slow": self.slow_writes,
            "late": self.late,
            "lose": self.losses,
            "cut": self.cuts,
            "duplicate": self.duplicates,
        }


class MachineChoice(NamedTuple):
    """One step of the farm."""

    kind: str
    server: int
    """The server that takes the step."""
    number: int = 0
    """By kind: a message, a slot, the number of writes that a crash leaves, the number of a proposal or read, or the
    servers that answer the question after a time-out, as bits."""
    slow: bool = False
    """Whether the server's writes are not durable at once."""


SCOPES: Final[dict[str, Scope]] = {
    "tiny": Scope(time_outs=3, proposals=1, losses=1),
    "elections": Scope(terms=3, time_outs=4, late=1),
    "links": Scope(time_outs=3, proposals=1, cuts=1, losses=1),
    "reads": Scope(time_outs=3, proposals=1, reads=1, late=1),
    "writes": Scope(time_outs=2, proposals=1, slow_writes=2, losses=1),
    "crashes": Scope(time_outs=3, proposals=1, slow_writes=1, crashes=1),
}
"""The scopes by name."""
