"""Answers of other programs' servers: this program's servers never answer so, and must cope with the answers.

None of the answers claims more than is true, so nothing may be lost. `docs/design/jraft.md` says what JRaft does:

- A newcomer refuses an invitation, or the leader's snapshot. It takes only a part of a pack, or asks for the whole log
  again, as JRaft does when a restart has made it forget the invitation; or it asks for an entry that was never offered.
  Some newcomers never take anything of a pack, for example because the disk is full. Some take long for each pack.
- A follower refuses a snapshot, or asks for its beginning. A follower denies entries that it has acknowledged: JRaft
  acknowledges entries that a crash may lose.
- A follower that is asked for the leader tells a next index of 0, and names a leader of long ago.
"""

from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Final

from gf_i2p.wire.messages import NOBODY, MessageType, Response

if TYPE_CHECKING:
    from gf_i2p.simulator.cluster.farm import SimulatedFarm

_STUCK_RUNS: Final = 0.25
"""Share of the runs that have newcomers that take nothing."""
_SLOW_RUNS: Final = 0.5
"""Share of the runs that have slow newcomers, of this program or another."""
_DENIALS: Final = 0.01
"""Share of the answers about entries that may be a denial."""


class ForeignAnswers:
    """Changes answers on their way: those to a leader until the calm, and most of them only if the plan says so."""

    def __init__(self, farm: "SimulatedFarm") -> None:
        self._farm = farm
        self._rng = Random(f"foreign answers {farm.plan.seed}")  # noqa: S311 -- it must be repeatable, and keeps no secret
        self._leaders: dict[int, int] = {}  # by server: the leader that the server followed last
        stuck = farm.plan.ids if self._rng.random() < _STUCK_RUNS else ()
        self._stuck = {server_id for server_id in stuck if self._rng.random() < 0.5}
        self._slowness = Random(f"slow newcomers {farm.plan.seed}")  # noqa: S311 -- apart, so that each seed keeps its rest
        slow = farm.plan.ids if self._slowness.random() < _SLOW_RUNS else ()
        self._weight = self._slowness.choice((1, 1, 5))  # of a run: some newcomers outlast the leader's patience in all
        self._slow = {server_id for server_id in slow if self._slowness.random() < 0.7}

    def _changes(self) -> bool:
        plan = self._farm.plan
        if not plan.foreign or self._rng.random() >= plan.foreign:
            return False
        self._farm.counts["foreign answers"] += 1
        return True

    def _denies(self) -> bool:
        return bool(self._farm.plan.foreign) and self._rng.random() < _DENIALS and self._changes()

    def passed_on(self, response: Response, *, leads: bool) -> Response:
        """Return an answer as it arrives. `leads`: whether the server that has asked leads."""
        if self._farm.calm:
            return response
        if response.type is MessageType.SYNC_LOG_RESPONSE and response.source in self._stuck:
            self._farm.counts["foreign answers"] += 1
            return replace(response, accepted=False, next_index=1)
        is_of_entries = response.type is MessageType.APPEND_ENTRIES_RESPONSE and leads
        if is_of_entries and response.accepted and self._denies():
            next_index = self._rng.choice((1, max(response.next_index - 2, 1), response.next_index))
            return replace(response, accepted=False, next_index=next_index)
        if response.type is MessageType.SYNC_LOG_RESPONSE and self._changes():
            after = response.next_index
            before = max(after - 1, 1)
            return replace(response, accepted=False, next_index=self._rng.choice((1, before, before, after + 7)))
        if response.type is MessageType.JOIN_CLUSTER_RESPONSE and self._changes():
            return replace(response, accepted=False)
        if response.type is MessageType.INSTALL_SNAPSHOT_RESPONSE and self._changes():
            return replace(response, accepted=False, next_index=self._rng.choice((0, response.next_index, 1 << 20)))
        return response

    def held_up(self, response: Response) -> float:
        """Return the seconds by which an answer arrives later, because the newcomer needs long to take a pack."""
        if self._farm.calm or response.source not in self._slow or response.type is not MessageType.SYNC_LOG_RESPONSE:
            return 0.0
        self._farm.counts["answers of slow newcomers"] += 1
        return self._farm.plan.timing.election_max * self._slowness.uniform(0.9, 1.4) * self._weight

    def said(self, server_id: int, leader: int, response: Response) -> Response:
        """Return a server's answer to a question for the leader. `leader`: whom the server follows now, or `NOBODY`."""
        if leader != NOBODY:
            self._leaders[server_id] = leader
        if response.accepted or not self._changes():
            return response
        return replace(response, next_index=0, destination=self._leaders.get(server_id, NOBODY))
