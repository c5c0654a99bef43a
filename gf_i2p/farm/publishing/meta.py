"""Modes `meta` and `dry-run`: a server publishes sets of leaves while the farm's log chooses the server.

::

    nothing ── due ──► announcing ── committed, applied ──► giving ── taken ──► given ── due ──► announcing …
       ▲                    │                                  │                  │
       └─── not chosen, lease over: cancel; have the router forget its sets

A dry run chooses, builds and signs a set. The log gets no announcement of that set, and the router does not get the
set.
"""

from dataclasses import replace
from typing import Final

from gf_i2p.farm.publishing.announcement import Announcement, LeafSet, covers, objection, untimely, version_for
from gf_i2p.farm.publishing.cadence import HURRIED_SETS, Cadence, Due, LastSet, next_due
from gf_i2p.farm.publishing.confirmation import look_for_confirmation
from gf_i2p.farm.publishing.effects import Announce, Give, PublishingEffects, Rehearse, Stop
from gf_i2p.farm.publishing.lease import LOOK_SECONDS, JudgedRight, PublisherLease, Right
from gf_i2p.farm.publishing.set_progress import PublishProgress
from gf_i2p.farm.publishing.situation import Situation

RETRY_SECONDS: Final = 5.0
"""Seconds before the next try after the router or the log refused; doubled with each further failure."""
MAX_RETRY_SECONDS: Final = 60.0
AGAIN_SECONDS: Final = 1.0
"""Seconds before the next try after an announcement that a later entry has made void."""
NO_LEAF: Final = "no leaf is up: a set without entries would make the service unreachable"


class MetaMachine:
    """Decides when one server publishes which set. After any change, the driver calls `step`, and does the work."""

    def __init__(self, server: int, lease: PublisherLease, progress: PublishProgress, *, dry_run: bool = False) -> None:
        """`lease`: the driver tells the lease of each committed record of this server.

        `progress`: the driver tells the progress of each announcement.
        """
        self.last_set: LastSet | None = None
        """Times of the last set; None while this server publishes nothing."""
        self.last_leaf_set = LeafSet()
        """The leaves of the last set."""
        self.mode = "dry-run" if dry_run else "meta"
        self._server = server
        self._lease = lease
        self._progress = progress
        self._dry_run = dry_run
        self._attempt: Announcement | None = None
        """The set on its way to the router."""
        self._index: int | None = None
        """Index of that set's announcement in the log; None: not known yet."""
        self._giving = False
        """Whether the driver is giving the set to the router."""
        self._chosen_at = 0
        """Index up to which the log was applied when the last set was chosen."""
        self._order = 0
        """Index of the last order of an administrator to publish at once."""
        self._keys: object = None
        """The keys of the router's session."""
        self._router_knows = False
        """Whether the router may have sets, which the router must forget after a stop."""
        self._stopping = False
        self._stop_again = float("-inf")
        """Earliest time of the next stop order to the router."""
        self._lost = False
        """Whether the router has lost the last set."""
        self._reason: str | None = None
        """Why this server may not publish."""
        self._failure: str | None = None
        """Why the last try failed."""
        self._retry = RETRY_SECONDS
        self._not_before = float("-inf")
        self._right = Right.STOP

    @property
    def trouble(self) -> str | None:
        """Why this server publishes nothing although it should, a clause for the operator; None when all is well."""
        return self._reason or self._failure

    def step(self, situation: Situation) -> PublishingEffects:
        """Return the work that the driver must do now, and the time of the next step."""
        self._lease.notice_stall(situation.now)
        effects = PublishingEffects(situation.now + LOOK_SECONDS)
        judged = self._judge(situation)
        is_doubted = judged.right is Right.WAIT and self._right is not Right.WAIT
        self._right, self._reason = judged.right, judged.reason
        if judged.right is not Right.PUBLISH:
            effects.renew = is_doubted
            effects.cancel = self._give_up()
            if judged.right is Right.STOP:
                self._stop(situation, effects)
            return effects
        leaf_set = LeafSet.of(situation.choice)
        self._take_order(situation)
        self._look_for_confirmation(situation)
        if self._attempt is not None:
            self._advance_attempt(self._attempt, situation, effects)
        elif not self._stopping and self._is_due(leaf_set, situation):
            self._begin_attempt(leaf_set, situation, effects)
        if self._attempt is None and not self._stopping:
            effects.next_step_at = min(effects.next_step_at, self._due_at(leaf_set, situation))
        return effects

    def may_give(self, announcement: Announcement, situation: Situation) -> bool:
        """Return whether the router may get this set now. Call this right before giving.

        The process may have stood still since the last step, and the log may have taken a leaf out.
        """
        if self._judge(situation).right is not Right.PUBLISH:
            return False
        if announcement is not self._attempt:
            return True  # the router asks for the set that it has
        return covers(self._lease, announcement, situation) and objection(announcement, situation) is None

    def next(self, situation: Situation) -> Due:
        """Return when and why the next set is due, for the operator."""
        return self._next_due(self.last_leaf_set, situation)

    # Reports of the driver ------------------------------------------------------------------------------------------

    def announced(self, announcement: Announcement, index: int) -> None:
        """Note that the announcement is committed at this index of the log."""
        if announcement is self._attempt:
            self._index = index

    def taken(self, announcement: Announcement, situation: Situation) -> None:
        """Note that the router has taken the set, or that the rehearsal is done."""
        if announcement is not self._attempt:
            return
        self._note_given(announcement, situation.now)
        if not self._dry_run:
            self._progress.sent(situation.wall_ms)
        self._end_attempt()
        self._failure, self._retry, self._not_before = None, RETRY_SECONDS, float("-inf")

    def failed(self, reason: str, now: float) -> None:
        """Note that the attempt has failed, or could not begin. The pause before the next attempt doubles each time."""
        self._end_attempt()
        self._failure = reason
        self._not_before = now + self._retry
        self._retry = min(2 * self._retry, MAX_RETRY_SECONDS)

    def stopped(self, now: float, *, failed: bool = False) -> None:
        """Note that the router has forgotten all sets, or, if `failed`, that the router was not reached."""
        self._stopping = False
        self._router_knows = failed
        self._stop_again = now + RETRY_SECONDS

    # When a set is due ----------------------------------------------------------------------------------------------

    def _judge(self, situation: Situation) -> JudgedRight:
        judged = self._lease.judge(self._server, self.mode, situation)
        if judged.right is Right.PUBLISH and not situation.choice.listed:
            return JudgedRight(Right.STOP, NO_LEAF)
        return judged

    def _take_order(self, situation: Situation) -> None:
        """Take an administrator's order to publish at once, which also ends the pause after a failure."""
        order = situation.state.administration.publish_now
        if order is not None and order.index > self._order:
            self._order = order.index
            self._retry, self._not_before = RETRY_SECONDS, float("-inf")

    def _is_due(self, leaf_set: LeafSet, situation: Situation) -> bool:
        if situation.loss is not None:
            self._lost = True
            self._failure = self._failure or situation.loss
        return self._due_at(leaf_set, situation) <= situation.now

    def _due_at(self, leaf_set: LeafSet, situation: Situation) -> float:
        if self.last_set is None or self._failure is not None or self._lost or self._keys is not situation.keys:
            return max(self._not_before, situation.now)
        return max(self._not_before, self._next_due(leaf_set, situation).at)

    def _next_due(self, leaf_set: LeafSet, situation: Situation) -> Due:
        parameters = situation.state.parameters
        cadence = Cadence(
            parameters.republish_min_ms / 1000,
            parameters.republish_max_ms / 1000,
            hurried_sets=0 if self._dry_run else HURRIED_SETS,
        )
        differs = self.last_set is not None and self.last_leaf_set.differs(leaf_set)
        is_ordered = self._order > self._chosen_at
        return next_due(self.last_set, differs=differs, cadence=cadence, now=situation.now, is_ordered=is_ordered)

    def _look_for_confirmation(self, situation: Situation) -> None:
        current = self._progress.current
        if self.last_set is None or current is None or not current.sent_ms or current.confirmed_ms:
            return
        confirmation = look_for_confirmation(
            situation.state.records, self._server, published_ms=current.published_ms, sent_ms=current.sent_ms
        )
        if confirmation.confirmed_by is not None:
            self._progress.confirmed(confirmation.confirmed_ms, confirmation.confirmed_by)
            self.last_set = replace(self.last_set, missed=False, retries=0)
            return
        self._progress.unconfirmed(confirmation.why or "")
        if confirmation.found_by is not None:
            self._progress.found(confirmation.found_ms, confirmation.found_by)
            self.last_set = replace(self.last_set, missed=False, retries=0)
        else:
            self.last_set = replace(self.last_set, missed=confirmation.missed)

    # Announcing and giving ------------------------------------------------------------------------------------------

    def _begin_attempt(self, leaf_set: LeafSet, situation: Situation, effects: PublishingEffects) -> None:
        published = version_for(situation)
        obstacle = untimely(published, situation)
        if obstacle is not None:
            self.failed(obstacle, situation.now)
            return
        attempt = Announcement(published, situation.now, leaf_set, situation.keys, situation.applied)
        self._attempt, self._index, self._giving = attempt, None, False
        effects.begin = Rehearse(attempt) if self._dry_run else Announce(attempt)

    def _advance_attempt(self, attempt: Announcement, situation: Situation, effects: PublishingEffects) -> None:
        """Give an announced set to the router when this server has applied the announcement."""
        if self._giving or self._dry_run:
            return
        if not covers(self._lease, attempt, situation):
            effects.cancel = self._give_up()
        elif self._index is not None and situation.applied >= self._index:
            refusal = objection(attempt, situation)
            if refusal is None:
                self._give(attempt, situation, effects)
            elif refusal.is_fault:
                self.failed(refusal.reason, situation.now)
            else:
                self._end_attempt()
                self._not_before = situation.now + AGAIN_SECONDS

    def _give(self, attempt: Announcement, situation: Situation, effects: PublishingEffects) -> None:
        self._progress.attempted(situation.wall_ms)
        effects.begin = Give(attempt, new_session=self._router_knows and self._keys is not attempt.keys)
        if not self._router_knows:
            self._keys = attempt.keys
        self._giving = self._router_knows = True

    def _note_given(self, announcement: Announcement, now: float) -> None:
        """Note the set that the router has taken."""
        last_set = None if self._lost else self.last_set
        is_same = last_set is not None and not self.last_leaf_set.differs(announcement.leaf_set)
        was_missed = last_set is not None and last_set.missed
        # A router may drop the first sets of a session. A new branch has a session of its own.
        is_first = last_set is None or bool(announcement.leaf_set.numbers - self.last_leaf_set.numbers)
        self.last_set = LastSet(
            now,
            last_set.changed_at if last_set is not None and is_same else now,
            1 if last_set is None or is_first else last_set.sent_count + 1,
            retries=last_set.retries + 1 if last_set is not None and was_missed else 0,
        )
        self.last_leaf_set, self._keys, self._lost = announcement.leaf_set, announcement.keys, False
        self._chosen_at = announcement.applied

    def _stop(self, situation: Situation, effects: PublishingEffects) -> None:
        """Publish nothing, and have the router forget its sets."""
        self.last_set, self._lost = None, False
        self._failure, self._retry, self._not_before = None, RETRY_SECONDS, float("-inf")
        if not self._router_knows or self._stopping:
            return
        if situation.now >= self._stop_again:
            self._stopping = True
            effects.begin = Stop()
        else:
            effects.next_step_at = min(effects.next_step_at, self._stop_again)

    def _give_up(self) -> bool:
        """Forget the set on its way to the router; return whether a set was on its way."""
        was_under_way = self._attempt is not None
        self._end_attempt()
        return was_under_way

    def _end_attempt(self) -> None:
        self._attempt, self._index, self._giving = None, None, False
