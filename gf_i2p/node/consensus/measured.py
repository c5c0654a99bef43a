"""Measurements of one server for the operator: times of commits and writes, and changes of the leader."""

from typing import Final

from gf_i2p.raft.core import Core
from gf_i2p.raft.effects import Write
from gf_i2p.storage.durations import Durations
from gf_i2p.wire.messages import NOBODY

_NONE: Final = (0, 0, 0.0)


class Measured:
    """The measurements since the start of the process."""

    def __init__(self, *, writes: Durations) -> None:
        self.writes = writes
        """Times of the log's transactions, each with its sync."""
        self.commits = Durations()
        """Times from a leader's append to the commit. One append at a time is measured: a sample of all."""
        self.leader_changes = 0
        """Number of leaders that this server has followed. A leader that is elected again counts again."""
        self._leader = (0, NOBODY)
        self._open = _NONE  # term, last index and time of the append that is measured

    def wrote(self, core: Core, write: Write, now: float) -> None:
        """Note that a core has issued a write, at this time in seconds."""
        if write.entries and core.is_leader and self._open[0] != core.term:
            self._open = core.term, write.first_index + len(write.entries) - 1, now

    def committed(self, core: Core, now: float) -> None:
        """Note that the commit index has risen, at this time in seconds."""
        term, index, since = self._open
        if term and core.commit >= index:
            self._open = _NONE
            if term == core.term and core.is_leader:  # otherwise another leader has written other entries there
                self.commits.observe(now - since)

    def follows(self, term: int, leader: int) -> None:
        """Note the leader that the server knows now; `NOBODY` while the server knows none."""
        if leader != NOBODY and (term, leader) != self._leader:
            self._leader = term, leader
            self.leader_changes += 1
