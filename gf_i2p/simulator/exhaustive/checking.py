"""The simulator's checker, with the invariants that fit a search: those that hold whatever the clocks do."""

from typing import Any, Final

from gf_i2p.simulator.cluster.checker import Checker
from gf_i2p.simulator.cluster.invariants.evidence import CommitsProven, WonByMajority
from gf_i2p.simulator.cluster.invariants.harm import (
    Acknowledged,
    CommitsOwnTerm,
    CommittedOnMajority,
    DiskKeeps,
    ElectionSafety,
    FreshReads,
    LeaderAppendOnly,
    LeaderCompleteness,
    LogMatching,
    NothingFalls,
    PersistedBeforeSent,
    StateMachineSafety,
    VoteOnce,
)
from gf_i2p.simulator.exhaustive.machine import TIMING, Event

INVARIANTS: Final = (
    ElectionSafety,
    LeaderAppendOnly,
    LogMatching,
    LeaderCompleteness,
    StateMachineSafety,
    CommittedOnMajority,
    CommitsOwnTerm,
    NothingFalls,
    VoteOnce,
    PersistedBeforeSent,
    DiskKeeps,
    Acknowledged,
    FreshReads,
    WonByMajority,
    CommitsProven,
)


class ScopeChecker(Checker):
    """A checker that also notes, for each read, the entries that the read must see."""

    def __init__(self, servers: int) -> None:
        ids = range(1, servers + 1)
        super().__init__(ids, ids, ordered=False, now=_no_time, timing=TIMING, invariants=INVARIANTS)
        self._owed: dict[int, int] = {}

    def tell(self, events: tuple[Event, ...]) -> None:
        """Note events in order. Raises `Violation`."""
        for name, arguments in events:
            hear: Any = getattr(self, name)
            hear(*arguments)
        self.elections = 0  # the count would make equal states different

    def asks(self, number: int) -> None:
        """Note that a client sends a read."""
        self._owed[number] = self.acknowledged_index

    def serves(self, server_id: int, number: int, applied: int) -> None:
        """Note that a server serves a read with entries up to `applied`."""
        self.read(server_id, applied, self._owed.pop(number))

    def gives_up(self, number: int) -> None:
        """Note that a server refuses a read."""
        del self._owed[number]


def _no_time() -> float:
    return 0.0
