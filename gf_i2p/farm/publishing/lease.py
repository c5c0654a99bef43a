"""The publisher's lease: whether a server that the log has chosen may still act on the choice.

A publisher that is cut off from the farm cannot know that the farm has chosen another server. So a publisher acts only
for a limited time. The time begins with the post of its newest record that the log has shown to this server.
"""

from collections import deque
from dataclasses import dataclass
from enum import Enum
from typing import Final

from gf_i2p.farm.parameters import Parameters
from gf_i2p.farm.publishing.situation import Situation

LEASE_SECONDS: Final = 90.0
"""Longest time that a publisher may act after posting a record.

A server posts every 30 s and waits up to 30 s for the log to take a record. So 90 s forgive one lost post. 60 s would
not: a publisher behind slow tunnels would stop for nothing. The other servers hold a publisher for dead after
`Parameters.fresh_ms`, 105 s by default. 90 s leave 15 s until a record is committed."""
STALL_SECONDS: Final = 12.0
"""A process without a look for this long stood still. Its earlier lease does not count: the farm may have chosen
another server at once, because the leader no longer heard this process."""
LOOK_SECONDS: Final = 5.0
"""Most time between two looks. So `STALL_SECONDS` tells a process that stood still from an idle one."""
_MOST_POSTS: Final = 64


def lease_seconds(parameters: Parameters) -> float:
    """Return the length of a lease: `LEASE_SECONDS`, and less where the farm holds servers for dead sooner."""
    return min(LEASE_SECONDS, parameters.fresh_ms / 1000 * 6 / 7)


class Right(Enum):
    """Right of a server as publisher."""

    PUBLISH = "publish"
    WAIT = "wait"
    """Give nothing, and leave the router its sets: the lease is in doubt."""
    STOP = "stop"
    """Have the router forget its sets: another server publishes, or no server may."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """A right, and its reason for people; the reason is None where there is nothing to mend."""

    right: Right
    reason: str | None = None


class PublisherLease:
    """The lease of one process. It begins without one: records of an earlier process do not count."""

    def __init__(self) -> None:
        self._posts: deque[tuple[int, float]] = deque(maxlen=_MOST_POSTS)
        self._looked_at = float("-inf")
        self._awake_since = float("-inf")

    def committed(self, index: int, posted_at: float) -> None:
        """Note that this process' record, posted at `posted_at`, is in the log at this index."""
        self._posts.append((index, posted_at))

    def seen_at(self, applied: int) -> float:
        """Return when our newest record up to this index was posted; minus infinity without one.

        The time of the commit does not count: an answer may have waited while this process stood still.
        """
        return max((at for index, at in self._posts if index <= applied), default=float("-inf"))

    def look(self, now: float) -> None:
        """Notice whether this process stood still. Called at each step, `LOOK_SECONDS` apart at most."""
        if self._stalled(now):
            self._awake_since = now
        self._looked_at = now

    def covers(self, posted_at: float, now: float, seconds: float) -> bool:
        """Whether a record that was posted at `posted_at` still lets this server publish."""
        return posted_at >= self._awake_since and now - posted_at <= seconds

    def judge(self, server: int, mode: str, situation: Situation) -> Verdict:
        """Say what right this server, configured for this mode, has now."""
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
            return Verdict(Right.WAIT, "this process stood still, and publishes again after its next committed record")
        return Verdict(Right.PUBLISH)

    def _stalled(self, now: float) -> bool:
        return now - self._looked_at > STALL_SECONDS
