"""The election time-out of one server: drawn at random, and longer after refusals (Raft 5.2)."""

from collections.abc import Callable
from typing import Final

from gf_i2p.raft.state import State

MAX_YIELDING: Final = 3
"""A refused candidate doubles its election time-out at most this often: up to eight times the settings. Stock JRaft
waits for 3 to 5 s, and starts that wait again at every higher term. A candidate that JRaft must
refuse, and that asks more often, would keep JRaft from becoming a candidate."""

LAST_RESORT: Final = 5
"""Time-outs in a row without a leader after which even a server that waits to be asked becomes a candidate
(`Core._may_campaign`): all servers that could win may be waiting."""

_WAY: Final = 2
"""Maximum election time-outs for which a server that steps down waits longer than the other servers."""


class ElectionTimeout:
    """Decides when this server becomes due for an election. Times in seconds, by the core's clock."""

    def __init__(self, state: State, uniform: Callable[[float, float], float]) -> None:
        """`uniform`: returns a random float between its two arguments."""
        self.at = 0.0
        """The end of the running time-out."""
        self.refusals = 0
        """Number of elections in a row that a refusal has ended."""
        self.unheard = 0
        """Number of time-outs in a row that have ended without a leader's message."""
        self.in_doubt = False
        """Whether dialling the leader has failed since its last message."""
        self._is_refused = False  # whether the leader's machine has refused a connection since then
        self._refuser_is_other = False
        """Whether this leader was heard after a refusal: so a port forwarder refuses, and not the leader's machine."""
        self._gives_way = False
        """Whether the running time-out leaves the next election to the other servers."""
        self._state = state
        self._uniform = uniform

    @property
    def _factor(self) -> int:
        """Factor on the time-out. One refusal does not raise the factor: two candidates may have met by chance."""
        return 1 << min(max(self.refusals - 1, 0), MAX_YIELDING)

    def draw(self, now: float) -> None:
        """Begin a new time-out."""
        timing = self._state.timing
        self.at = now + self._uniform(timing.election_min, timing.election_max) * self._factor
        self._gives_way = False

    def give_way(self) -> None:
        """Leave the next election to the other servers: wait for two more election time-outs."""
        self.at += _WAY * self._state.timing.election_max
        self._gives_way = True

    def redraw(self, now: float, *, unheard: bool) -> None:
        """Draw the running time-out again if the present `Timing` could not have produced it.

        A time-out that ends later than the maximum is drawn again. While no leader was ever heard (`unheard`), a
        time-out that ends before the minimum is drawn again, too. A server that gives way goes on to do so.
        """
        timing, gives_way = self._state.timing, self._gives_way
        too_early = unheard and self.at < now + timing.election_min
        if too_early or self.at > now + timing.election_max * (self._factor + _WAY * gives_way):
            self.draw(now)
            if gives_way:
                self.give_way()

    def forgive(self, now: float) -> None:
        """End the longer time-outs after refusals, because a voter with an older log has asked for votes.

        That voter cannot win this server's vote, but this server can win an election.
        """
        if self.refusals:
            self.refusals = 0
            timing = self._state.timing
            self.at = min(self.at, now + self._uniform(timing.election_min, timing.election_max))

    @property
    def patience(self) -> float:
        """Seconds of silence after which this server votes against its leader."""
        timing = self._state.timing
        if self._is_refused:
            return timing.doubt_when_refused
        return timing.doubt if self.in_doubt else timing.election_min

    def is_news(self, *, refused: bool) -> bool:
        """Return whether a failed dial of the leader makes this server more doubtful. `refused`: as in `doubt`."""
        return not self.in_doubt or (refused and not self._is_refused and not self._refuser_is_other)

    def doubt(self, now: float, heard_at: float, *, refused: bool) -> float:
        """Shorten the time-out, because the leader cannot be dialled; return the earliest time of its end.

        The end is random, because other servers may lose the leader at the same time. An earlier end stays. `refused`:
        the leader's machine refuses connections. A refusal counts as silence when this leader was heard after an
        earlier refusal.
        """
        refused = refused and not self._refuser_is_other
        self.in_doubt, self._is_refused = True, refused
        first = max(now, heard_at + self.patience)
        spread = self._state.timing.election_min / (2 if refused else 1)
        self.at = min(self.at, self._uniform(first, first + spread))
        return first

    def trust(self, *, same_leader: bool) -> None:
        """End the doubt, because a leader is heard, or none is followed any more.

        `same_leader`: whether the doubted leader itself is heard.
        """
        self._refuser_is_other = same_leader and (self._refuser_is_other or self._is_refused)
        self.in_doubt = self._is_refused = False

    def restore(self, heard_at: float) -> None:
        """Return to the normal length, counted from the leader's last message, because the leader can be dialled."""
        self.trust(same_leader=False)
        timing = self._state.timing
        self.at = max(self.at, heard_at + self._uniform(timing.election_min, timing.election_max))
