"""The publisher's lease: whether a server that the log has chosen may still act on the choice.

A publisher that is cut off from the farm cannot know that the farm has chosen another server. Therefore a publisher
acts only for a limited time after it posted the newest of its records that the log has shown it.
"""

from collections import deque
from dataclasses import dataclass
from enum import Enum
from typing import Final

from gf_i2p.farm.parameters import Parameters
from gf_i2p.farm.publishing.situation import Situation

LEASE_SECONDS: Final = 90.0
"""How long a publisher may act after it posted a record, at most.

A server posts every 30 s and waits up to 30 s for the log to take a record. So 90 s forgive one lost post. 60 s would
not: a publisher behind slow tunnels would stop for nothing. The other servers hold a publisher for dead after
`Parameters.fresh_ms`, 105 s by default. 90 s leave 15 s until a record is committed."""
STALL_SECONDS: Final = 12.0
"""A process that has not looked for so long stood still. Its lease from before does not count: the farm may have
chosen another server meanwhile, at once, because the leader no longer heard this one."""
LOOK_SECONDS: Final = 5.0
"""Between two looks at most. So `STALL_SECONDS` tells a process that stood still from one that had nothing to do."""
_MOST_POSTS: Final = 64


def lease_seconds(parameters: Parameters) -> float:
    """Return for how long a lease lasts: `LEASE_SECONDS`, and less where the farm holds servers for dead sooner."""
    return min(LEASE_SECONDS, parameters.fresh_ms / 1000 * 6 / 7)


class Right(Enum):
    """What a server may do as publisher."""

    PUBLISH = "publish"
    WAIT = "wait"
    """Give nothing, and keep what the router has: the lease is in doubt."""
    STOP = "stop"
    """Have the router forget: another server publishes, or nobody may."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """A right, with its reason for people; None where there is nothing to mend."""

    right: Right
    reason: str | None = None


class PublisherLease:
    """The lease of one process. It begins without one: records of an earlier process do not count."""

    def __init__(self) -> None:
        self._posts: deque[tuple[int, float]] = deque(maxlen=_MOST_POSTS)
        self._looked_at = float("-inf")
        self._awake_since = float("-inf")

    def committed(self, index: int, posted_at: float) -> None:
        """Note that a record of this process, posted then, stands in the log at this index."""
        self._posts.append((index, posted_at))

    def seen_at(self, applied: int) -> float:
        """Return when the newest record of ours up to this index was posted; minus infinity without one.

        The time of the commit does not count: an answer may have waited as long as this process stood still.
        """
        return max((at for index, at in self._posts if index <= applied), default=float("-inf"))

    def look(self, now: float) -> None:
        """Notice whether this process stood still. Called with each step, `LOOK_SECONDS` apart at most."""
        if self._stalled(now):
            self._awake_since = now
        self._looked_at = now

    def covers(self, posted_at: float, now: float, seconds: float) -> bool:
        """Whether a record that was posted then still lets this server publish."""
        return posted_at >= self._awake_since and now - posted_at <= seconds

    def judge(self, server: int, mode: str, situation: Situation) -> Verdict:
        """Say what this server, set to this mode, may do now."""
        choice, now = situation.choice, situation.now
        if situation.lacking is not None or choice.publisher != server:
            return Verdict(Right.STOP, situation.lacking)
        if choice.mode != mode:
            return Verdict(Right.STOP, f"the farm publishes in mode {choice.mode}, and this server is set to {mode}")
        seconds = lease_seconds(situation.state.parameters)
        seen = self.seen_at(situation.applied)
        if now - seen > seconds:
            return Verdict(
                Right.STOP, f"nothing of ours was committed for {seconds:.0f} s: the farm may have another publisher"
            )
        if self._stalled(now) or not self.covers(seen, now, seconds):
            return Verdict(Right.WAIT, "this process stood still: it publishes when the log has a new record of it")
        return Verdict(Right.PUBLISH)

    def _stalled(self, now: float) -> bool:
        return now - self._looked_at > STALL_SECONDS
