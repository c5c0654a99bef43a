"""The invariant about the election time-out: each event that may change the wait, and the bounds of the new wait.

Times are seconds of the server's own monotonic clock.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from gf_i2p.raft.effects import Effects
from gf_i2p.raft.election_timeout import MAX_YIELDING
from gf_i2p.raft.inputs import Answered, Incoming, Input, Reachable, StepDown, Tick, Unreachable
from gf_i2p.simulator.cluster.invariants.invariant import OF_LEADERS, ROUNDING, Invariant
from gf_i2p.simulator.facts import Facts, ServerFacts
from gf_i2p.storage.loading import Loaded
from gf_i2p.wire.entries import Entry
from gf_i2p.wire.messages import MessageType, Request

_WAY: Final = 2
"""Maximum time-outs for which a leader that steps down gives way to the others."""


@dataclass(slots=True)
class _Wait:
    """A server's wait, and the reasons for its length."""

    at: float | None = None
    """End of the wait after the last step; None: no step yet."""
    led: bool = False
    refusals: int = 0
    """Elections in a row that a refusal has ended."""
    gives_way: bool = False
    """Whether the present wait began as a leader stepped down."""
    candidacy: int | None = None
    """The term in which the server stands; None: the server does not stand now."""
    unanswered: set[int] = field(default_factory=set)
    """Voters that have not answered the candidate."""
    refused: bool = False
    """Whether a voter has refused the candidate its vote."""
    heard: bool = False
    """Whether a leader was heard since the start."""

    @property
    def factor(self) -> int:
        """Factor on a newly drawn wait: one refusal counts as chance."""
        return 1 << min(max(self.refusals - 1, 0), MAX_YIELDING)


class WaitsFit(Invariant):
    """A server's wait for an election changes only for a reason, and then lies between the bounds (Raft 5.2).

    A message of the leader, a granted vote, a candidacy, the end of a wait and the end of a leadership begin a new
    wait. Refusals in a row make it longer. A voter with an older log, and a leader that cannot be dialled, make it
    shorter; a new connection to that leader undoes this. New time-outs change a wait that they could not produce.
    """

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._waits: dict[int, _Wait] = {}
        self._stood: set[int] = set()  # servers that have become candidates in this step

    def boots(self, server: ServerFacts, loaded: Loaded, entries: Sequence[Entry]) -> None:
        self._waits[server.id] = _Wait()
        self._stood.discard(server.id)

    def stands(self, server: ServerFacts) -> None:
        self._stood.add(server.id)

    def takes(self, server: ServerFacts, event: Input, effects: Effects, clock: float) -> None:
        wait = self._waits[server.id]
        before, wait.at = wait.at, server.stands_at
        stood, led = server.id in self._stood, wait.led
        self._stood.discard(server.id)
        wait.led = server.leads
        if wait.candidacy is not None and wait.candidacy != server.term and not stood:
            wait.candidacy = None
        self._count_answer(server, wait, event)
        if server.leads:
            wait.refusals, wait.candidacy = 0, None
        elif stood:
            self._begin_candidacy(server, wait)
            self._check_new(server, wait, clock, event)
        elif isinstance(event, Incoming) and _is_heard(server, event.request):
            wait.refusals, wait.candidacy, wait.heard = 0, None, True
            self._check_new(server, wait, clock, event)
        elif any(
            item.response.accepted and item.response.type is MessageType.REQUEST_VOTE_RESPONSE
            for item in effects.gated_replies
        ):
            wait.refusals = 0
            self._check_new(server, wait, clock, event)
        elif led:
            self._end_leadership(server, wait, clock, event)
        elif before is None or server.stands_at == before:
            self._check_same(server, wait, clock, event)
        else:
            self._check_changed(server, wait, clock, event, before)

    def retimed(self, server: ServerFacts, clock: float) -> None:
        wait, timing = self._waits[server.id], server.timing
        before, wait.at = wait.at, server.stands_at
        if server.leads or before is None:
            return
        way = _WAY * timing.election_max if wait.gives_way else 0.0
        is_early = not wait.heard and wait.candidacy is None and before < clock + timing.election_min - ROUNDING
        latest = clock + timing.election_max * wait.factor + way
        if is_early or before > latest + ROUNDING:
            self._check_between(server, wait, clock, "new time-outs", way=way)
        elif abs(before - server.stands_at) > ROUNDING and before < latest - ROUNDING:
            raise self.violated(f"server {server.id} changes a wait that fits the new time-outs")

    # Candidacies -----------------------------------------------------------------------------------------------------

    def _count_answer(self, server: ServerFacts, wait: _Wait, event: Input) -> None:
        if wait.candidacy != server.term or not isinstance(event, Answered) or event.peer not in wait.unanswered:
            return
        response = event.response
        if response.type is MessageType.REQUEST_VOTE_RESPONSE and response.term == server.term:
            wait.unanswered.discard(event.peer)
            wait.refused |= not response.accepted

    def _begin_candidacy(self, server: ServerFacts, wait: _Wait) -> None:
        # A candidate that enters a higher term, and stands in the same step, begins anew.
        again = wait.candidacy == server.term - 1 and wait.refused
        wait.refusals = wait.refusals + 1 if again else 0
        wait.candidacy, wait.refused = server.term, False
        wait.unanswered = set(server.voters) - {server.id}

    def _end_leadership(self, server: ServerFacts, wait: _Wait, clock: float, event: Input) -> None:
        """Check the wait of a server that no longer leads: it may have given way, and must do so after an order."""
        wait.gives_way = isinstance(event, StepDown) or server.stands_at > clock + server.timing.election_max
        way = _WAY * server.timing.election_max if wait.gives_way else 0.0
        self._check_between(server, wait, clock, type(event).__name__, way=way)

    # Bounds ----------------------------------------------------------------------------------------------------------

    def _check_new(self, server: ServerFacts, wait: _Wait, clock: float, event: Input) -> None:
        wait.gives_way = False
        self._check_between(server, wait, clock, type(event).__name__)

    def _check_between(self, server: ServerFacts, wait: _Wait, clock: float, cause: str, *, way: float = 0.0) -> None:
        timing, seconds = server.timing, server.stands_at - clock
        least, most = timing.election_min * wait.factor + way, timing.election_max * wait.factor + way
        if not least - ROUNDING <= seconds <= most + ROUNDING:
            raise self.violated(
                f"server {server.id} waits for {seconds:.3f} s after {cause}; the wait is {least:.3f} to {most:.3f} s"
            )

    def _check_same(self, server: ServerFacts, wait: _Wait, clock: float, event: Input) -> None:
        """Check a step that has not changed the wait."""
        if isinstance(event, Tick) and clock >= server.stands_at:
            raise self.violated(f"server {server.id} lets the end of its wait pass")
        if isinstance(event, Incoming) and wait.refusals and _is_older_voter(server, event.request):
            wait.refusals = 0
            if server.stands_at > clock + server.timing.election_max + ROUNDING:
                raise self.violated(f"server {server.id} waits on, although a voter with an older log wants votes")

    def _check_changed(self, server: ServerFacts, wait: _Wait, clock: float, event: Input, before: float) -> None:
        timing, at = server.timing, server.stands_at
        match event:
            case Tick() if clock >= before:
                self._check_new(server, wait, clock, event)
            case Incoming(_, request) if wait.refusals and _is_older_voter(server, request) and at < before:
                wait.refusals = 0
                self._check_between(server, wait, clock, "a voter's request")
            case Unreachable(peer, _) if peer == server.leader and clock - ROUNDING <= at < before:
                pass  # `PatienceEnds` knows the length
            case Reachable(peer) if peer == server.leader and before < at <= clock + timing.election_max + ROUNDING:
                pass
            case _:
                raise self.violated(
                    f"server {server.id} changes its wait by {at - before:.3f} s at {type(event).__name__}, without a "
                    "reason"
                )


def _is_heard(server: ServerFacts, request: Request) -> bool:
    return request.type in OF_LEADERS and request.source == server.leader and request.term == server.term


def _is_older_voter(server: ServerFacts, request: Request) -> bool:
    """Whether a voter with an older log asks for a vote, in a term that this server accepts."""
    log = server.memory
    return (
        request.type is MessageType.REQUEST_VOTE_REQUEST
        and request.source in server.voters
        and request.term <= server.term
        and (request.last_log_term, request.last_log_index) < (log.term(log.last_index), log.last_index)
    )
