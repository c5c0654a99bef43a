"""Mode `failover`: a server serves the master destination itself while the farm's log chooses the server.

::

    idle ── due ──► opening ── opened ──► serving ── not due ──► draining ── no client left ──► idle
     ▲                 │                     │  ▲                   │ │
     └── not due, refused: wait longer ──────┘  └── due again ──────┘ └── time over: close ──► idle

The router asks the session for lease sets. So the session, and not `FailoverMachine`, decides when the next lease set
is made. In the diagram, "due" means that it is this server's turn to serve. Each lease set is announced in
the log before the router gets the set, as in mode `meta`. A server that is no longer chosen, or whose lease is over,
announces nothing. Such a server still serves the clients that know only the server's last lease set.
"""

from enum import StrEnum
from typing import Final

from gf_i2p.farm.publishing.announcement import Announcement, covers, objection, version_for
from gf_i2p.farm.publishing.effects import Close, Drain, Open, PublishingEffects
from gf_i2p.farm.publishing.lease import LOOK_SECONDS, PublisherLease, Right
from gf_i2p.farm.publishing.set_progress import PublishProgress
from gf_i2p.farm.publishing.situation import Situation

DRAIN_SECONDS: Final = 150.0
"""Most seconds for which a draining server goes on serving. Clients may use the last lease set for 110 s on i2pd and
125 s on Java (`bridges/i2cp/lease_times.py`). The rest is for streams that are still open after that time."""
RETRY_SECONDS: Final = 2.0
"""Seconds before the next try after the router refused or was lost; doubled with each further failure."""
MAX_RETRY_SECONDS: Final = 60.0
ANOTHERS_TURN: Final = "it is another server's turn to serve"


class FailoverState(StrEnum):
    """State of the service that a `FailoverMachine` runs."""

    IDLE = "idle"
    """Another server has its turn, or the router opens no session now: see `trouble`."""
    OPENING = "opening"
    SERVING = "serving"
    DRAINING = "draining"


class NotDueError(Exception):
    """The router must not get this lease set: this server must not publish, or the log has gone on."""


class FailoverMachine:
    """Decides when one server serves the master. After any change, the driver calls `step`, and does the work."""

    mode: Final = "failover"

    def __init__(self, server: int, lease: PublisherLease, progress: PublishProgress) -> None:
        """`lease`: the driver tells the lease of each committed record of this server.

        `progress`: the driver tells the progress of each announcement.
        """
        self.state = FailoverState.IDLE
        self.sessions = 0
        """Number of sessions that were opened."""
        self.sent = 0
        """Number of lease sets that the router has taken."""
        self._server = server
        self._lease = lease
        self._progress = progress
        self._keys: object = None
        """The keys of the session."""
        self._drained = False
        self._closing = False
        self._right = Right.STOP
        self._reason: str | None = None
        """Why this server may not publish."""
        self._failure: str | None = None
        """Why the last session could not be opened, or ended."""
        self._retry = RETRY_SECONDS
        self._not_before = float("-inf")
        self._opened_at = float("-inf")

    @property
    def trouble(self) -> str | None:
        """Why this server does not serve: a clause for the operator. None: all is well, or another server serves."""
        return self._reason or self._failure

    @property
    def serving(self) -> bool:
        """Whether this server serves clients, also while draining."""
        return self.state in {FailoverState.SERVING, FailoverState.DRAINING}

    def step(self, situation: Situation) -> PublishingEffects:
        """Return the work that the driver must do now, and the time of the next step."""
        self._lease.notice_stall(situation.now)
        effects = PublishingEffects(situation.now + LOOK_SECONDS)
        judged = self._lease.judge(self._server, self.mode, situation)
        effects.renew = judged.right is Right.WAIT and self._right is not Right.WAIT
        self._right, self._reason = judged.right, judged.reason
        if self._closing:
            return effects
        match self.state:
            case FailoverState.IDLE:
                self._when_idle(situation, effects)
            case FailoverState.OPENING:
                self._when_opening(situation, effects)
            case FailoverState.SERVING:
                self._when_serving(situation, effects)
            case FailoverState.DRAINING:
                self._when_draining(situation, effects)
        return effects

    def announce(self, published: int, situation: Situation) -> Announcement:
        """Return the announcement of a lease set. Raises `NotDueError` when this server may not publish.

        `published`: the lease set's version, in seconds since the epoch.
        """
        if self._lease.judge(self._server, self.mode, situation).right is not Right.PUBLISH:
            raise NotDueError(ANOTHERS_TURN)
        return Announcement(published, situation.now)

    def check(self, announcement: Announcement, situation: Situation) -> None:
        """Check that the router may get the lease set of an applied announcement. Raises `NotDueError`.

        Call this right before the router gets the set: the process may have stood still.
        """
        publishes = self._lease.judge(self._server, self.mode, situation).right is Right.PUBLISH
        if not publishes or not covers(self._lease, announcement, situation):
            raise NotDueError(f"{ANOTHERS_TURN}, since this server's lease set was announced")
        refusal = objection(announcement, situation)
        if refusal is not None:
            raise NotDueError(refusal.reason)
        self._progress.attempted(situation.wall_ms)

    def version(self, situation: Situation) -> int:
        """Return the version of the next lease set, `published` in seconds since the epoch."""
        return version_for(situation)

    # Reports of the driver ------------------------------------------------------------------------------------------

    def opened(self, now: float) -> None:
        """Note that the session is open, and that the router has the session's first lease set."""
        self.state, self._failure, self._opened_at = FailoverState.SERVING, None, now
        self.sessions += 1

    def taken(self, published: int, wall_ms: int) -> None:
        """Note that the router has taken the lease set of this version. A repeated report changes nothing.

        `published`: the version, in seconds since the epoch. `wall_ms`: the present time, in ms since the epoch.
        """
        current = self._progress.current
        if current is not None and current.published_ms == published * 1000 and not current.sent_ms:
            self.sent += 1
            self._progress.sent(wall_ms)

    def failed(self, reason: str, now: float) -> None:
        """Note that the session could not be opened, and plan the next try."""
        self.state = FailoverState.IDLE
        self._fail(reason, now)

    def drained(self) -> None:
        """Note that no client uses the session any more, or that the time for draining is over."""
        self._drained = True

    def closed(self) -> None:
        """Note that the session has ended, as `Close` asked."""
        self._closing, self.state = False, FailoverState.IDLE

    # States ---------------------------------------------------------------------------------------------------------

    def _when_idle(self, situation: Situation, effects: PublishingEffects) -> None:
        if self._right is Right.STOP:
            self._failure, self._retry, self._not_before = None, RETRY_SECONDS, float("-inf")
        elif self._right is Right.PUBLISH and situation.now >= self._not_before:
            self.state, self._keys = FailoverState.OPENING, situation.keys
            effects.begin = Open(situation.keys)
        elif self._not_before > situation.now:
            effects.next_step_at = min(effects.next_step_at, self._not_before)

    def _when_opening(self, situation: Situation, effects: PublishingEffects) -> None:
        if self._right is Right.STOP or self._keys is not situation.keys:
            effects.cancel = True
            self._close(effects)  # the session may be open by now

    def _when_serving(self, situation: Situation, effects: PublishingEffects) -> None:
        if situation.loss is not None:
            self._fail(situation.loss, situation.now)
            self._close(effects)
        elif self._keys is not situation.keys:
            self._close(effects)
        elif self._right is Right.STOP:
            self.state, self._failure, self._drained = FailoverState.DRAINING, None, False
            effects.begin = Drain()
        elif situation.now - self._opened_at > MAX_RETRY_SECONDS:
            self._retry = RETRY_SECONDS

    def _when_draining(self, situation: Situation, effects: PublishingEffects) -> None:
        if self._drained or situation.loss is not None or self._keys is not situation.keys:
            effects.cancel = True
            self._close(effects)
        elif self._right is Right.PUBLISH:
            effects.cancel = effects.resume = True
            self.state = FailoverState.SERVING

    def _close(self, effects: PublishingEffects) -> None:
        self._closing = True
        effects.begin = Close()

    def _fail(self, reason: str, now: float) -> None:
        self._failure = reason
        self._not_before = now + self._retry
        self._retry = min(2 * self._retry, MAX_RETRY_SECONDS)
