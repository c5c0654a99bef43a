"""The publisher's lease: whether a server that the log has chosen may still act on the choice.

A publisher that is cut off from the farm cannot know that the farm has chosen another server. So a publisher acts only
for a limited time, the lease. The lease begins when the publisher posts a record, and counts once the publisher has
seen that record in the log.
"""

from collections import deque
from dataclasses import dataclass
from enum import Enum
from typing import Final

from gf_i2p.farm.parameters import Parameters
from gf_i2p.farm.publishing.situation import Situation

LEASE_SECONDS: Final = 90.0
"""Longest time that a publisher may act after posting a record.

A server posts every 30 s, and waits up to 30 s until the log takes a record. So a lease of 90 s survives one lost post.
With 60 s, a publisher behind slow tunnels would stop for nothing. The other servers consider a publisher dead after
`Parameters.fresh_ms`, 105 s by default. The difference of 15 s is for the commit of a record."""
STALL_SECONDS: Final = 12.0
"""A process that made no step for this long stood still. The process' earlier lease does not count: the farm may have
chosen another server at once, because the leader no longer heard the process."""
LOOK_SECONDS: Final = 5.0
"""Most seconds between two steps of an idle process, so that `STALL_SECONDS` shows a process that stood still."""
_MOST_POSTS: Final = 64


def lease_seconds(parameters: Parameters) -> float:
    """Return the seconds of a lease: `LEASE_SECONDS`, or 6/7 of `fresh_ms` if that is less."""
    return min(LEASE_SECONDS, parameters.fresh_ms / 1000 * 6 / 7)


def record_seconds(interval: float, parameters: Parameters) -> float:
    """Return the seconds between two records of a server: `interval`, or half of a lease if that is less.

    So the log may take half of a lease to commit a record, and a healthy publisher still never stops.
    """
    return min(interval, lease_seconds(parameters) / 2)


class Right(Enum):
    """Right of a server as publisher."""

    PUBLISH = "publish"
    WAIT = "wait"
    """Give nothing, and leave the router its sets: the lease is in doubt."""
    STOP = "stop"
    """Have the router forget its sets: another server publishes, or this server must not publish."""


@dataclass(frozen=True, slots=True)
class JudgedRight:
    """A right, and the reason why it is not `PUBLISH`, a clause for the operator; None: there is nothing to mend."""

    right: Right
    reason: str | None = None


class PublisherLease:
    """The lease of one process. A new process has no lease: an earlier process' records do not count."""

    def __init__(self) -> None:
        self._posts: deque[tuple[int, float]] = deque(maxlen=_MOST_POSTS)
        self._looked_at = float("-inf")
        self._awake_since = float("-inf")

    def committed(self, index: int, posted_at: float) -> None:
        """Note that this process' record, posted at `posted_at`, is in the log at this index."""
        self._posts.append((index, posted_at))

    def newest_post_at(self, applied: int) -> float:
        """Return when this process posted its newest record that stands in the log up to index `applied`.

        Minus infinity without such a record. The time of the commit does not count: the answer to the post may have
        waited while this process stood still.
        """
        return max((at for index, at in self._posts if index <= applied), default=float("-inf"))

    def notice_stall(self, now: float) -> None:
        """Notice whether this process stood still. Call this at each step, every `LOOK_SECONDS` at least."""
        if self._stalled(now):
            self._awake_since = now
        self._looked_at = now

    def covers(self, posted_at: float, now: float, seconds: float) -> bool:
        """Whether a record posted at `posted_at` still lets this server publish. `seconds`: length of a lease."""
        return posted_at >= self._awake_since and now - posted_at <= seconds

    def judge(self, server: int, mode: str, situation: Situation) -> JudgedRight:
        """Return the present right of this server. `server`: its id; `mode`: the mode that it is configured for."""
        choice, now = situation.choice, situation.now
        if situation.signing_obstacle is not None or choice.publisher != server:
            return JudgedRight(Right.STOP, situation.signing_obstacle)
        if choice.mode != mode:
            return JudgedRight(
                Right.STOP, f"the farm publishes in mode {choice.mode}, and this server is set to {mode}"
            )
        seconds = lease_seconds(situation.state.parameters)
        posted_at = self.newest_post_at(situation.applied)
        if now - posted_at > seconds:
            return JudgedRight(
                Right.STOP, f"no own record was committed for {seconds:.0f} s: the farm may have another publisher"
            )
        if self._stalled(now) or not self.covers(posted_at, now, seconds):
            return JudgedRight(
                Right.WAIT, "this process stood still, and publishes again after its next committed record"
            )
        return JudgedRight(Right.PUBLISH)

    def _stalled(self, now: float) -> bool:
        return now - self._looked_at > STALL_SECONDS
