"""Invariants about needless acts: nothing is sent twice or too soon, and a tick leaves nothing to do at once.

A server that does too much does no harm: the farm only takes more of the line and of the processor. These invariants
notice the mistake itself.
"""

from collections.abc import Sequence
from typing import Final

from gf_i2p.raft.effects import Effects, HardState, Send
from gf_i2p.raft.inputs import Answered, Failed, Incoming, Input, Reachable, Tick
from gf_i2p.simulator.cluster.invariants.invariant import ROUNDING, Invariant, bytes_of
from gf_i2p.simulator.cluster.invariants.replication import Flight, Following, Replication
from gf_i2p.simulator.facts import Facts, ServerFacts
from gf_i2p.storage.loading import Loaded
from gf_i2p.wire.entries import Entry
from gf_i2p.wire.messages import NOBODY, MessageType, Request, Response

_REPLICATION: Final = frozenset({MessageType.APPEND_ENTRIES_REQUEST, MessageType.INSTALL_SNAPSHOT_REQUEST})


def _reconfigures(effects: Effects) -> bool:
    """Whether a tick has appended a Configuration: a tick appends nothing else."""
    return effects.write is not None and len(effects.write.entries) > 0


class TicksEnd(Invariant):
    """A tick does all that is due, so the next deadline is later. Otherwise a node's event loop would spin.

    A tick that changes the Configuration may end the leader's majority. The leader then steps down at the next tick.
    """

    def takes(self, server: ServerFacts, event: Input, effects: Effects, clock: float) -> None:
        if isinstance(event, Tick) and server.deadline <= clock and not _reconfigures(effects):
            raise self.violated(f"server {server.id} wants its next tick at once after a tick")


class HeartbeatsSpaced(Invariant):
    """A tick sends a peer a heartbeat only when a heartbeat interval has passed since the last request (Raft 5.2)."""

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._sent_at: dict[tuple[int, int, int], float] = {}  # by leader, term and peer, the leader's own time

    def takes(self, server: ServerFacts, event: Input, effects: Effects, clock: float) -> None:
        if not server.leads:
            return
        is_beat = isinstance(event, Tick) and not _reconfigures(effects)
        for send in effects.sends:
            if send.request.type not in _REPLICATION:
                continue
            place = server.id, server.term, send.peer
            silent = clock - self._sent_at.get(place, float("-inf"))
            self._sent_at[place] = clock
            if is_beat and silent < server.timing.heartbeat - ROUNDING:
                raise self.violated(
                    f"leader {server.id} sends server {send.peer} a heartbeat, {silent:.3f} s after its last request"
                )


class OneQuestion(Invariant):
    """A server asks no peer for the leader while its last question to that peer is on the way (`raft/inquiry.py`).

    A question without an answer is lost after two maximum election time-outs, or with its connection. On a new
    connection, a voter that knows no leader asks again at once. A server that asks its peers asks also each peer whose
    question is lost. A former leader knows of no earlier question.
    """

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._open: dict[int, dict[int, tuple[int, float]]] = {}  # by server and peer: tag, time of the question

    def boots(self, server: ServerFacts, loaded: Loaded, entries: Sequence[Entry]) -> None:
        self._open[server.id] = {}

    def takes(self, server: ServerFacts, event: Input, effects: Effects, clock: float) -> None:
        asked, again = self._open[server.id], None
        if server.leads:
            asked.clear()
        match event:
            case Answered(peer, tag, _) | Failed(peer, tag) if asked.get(peer, (None, 0.0))[0] == tag:
                del asked[peer]
            case Reachable(peer) if asked.pop(peer, None) is not None and self._knows_no_leader(server, peer):
                again = peer
        for send in effects.sends:
            if send.request.type is not MessageType.CLIENT_REQUEST:
                continue
            _, since = asked.get(send.peer, (0, float("-inf")))
            if clock < since + 2 * server.timing.election_max - ROUNDING:
                raise self.violated(
                    f"server {server.id} asks server {send.peer} for the leader again, {clock - since:.3f} s after its "
                    "last question"
                )
            asked[send.peer] = send.tag, clock
        if again is not None and again not in asked:
            raise self.violated(f"server {server.id} has lost its question to server {again}, and does not ask again")
        asks = any(send.request.type is MessageType.CLIENT_REQUEST for send in effects.sends)
        if isinstance(event, Tick) and asks:
            lost = clock - 2 * server.timing.election_max - ROUNDING
            for peer, (_, since) in asked.items():
                if since < lost and peer in server.voters:
                    raise self.violated(
                        f"server {server.id} waits for an answer of server {peer} for {clock - since:.3f} s"
                    )

    def _knows_no_leader(self, server: ServerFacts, peer: int) -> bool:
        if server.timing != self.facts.timing:
            return False  # by longer time-outs, an earlier answer of the peer may be new enough again
        is_sound = (server.memory.snapshot is not None or server.memory.base == 0) and not server.cannot_follow
        return server.leader == NOBODY and {server.id, peer} <= set(server.voters) and is_sound


class NothingTwice(Invariant):
    """A leader sends a voter nothing that the voter has or has refused, or that is on the way (Raft 5.3).

    After a loss or a refusal, entries that were on the way are sent again. After a refusal, the next probe begins
    earlier. A request keeps to the limits of `Flow`.
    """

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._replication = Replication()

    def takes(self, server: ServerFacts, event: Input, effects: Effects, clock: float) -> None:
        voters = self._replication.voters(server)
        if not server.leads:
            return
        flight = self._replication.answered(server, event)
        for send in effects.sends:
            if send.peer not in server.voters or send.request.type not in _REPLICATION:
                continue
            following = voters.get(send.peer, Following())
            if send.request.type is MessageType.APPEND_ENTRIES_REQUEST:
                self._check(server, following, send)
                # A round of heartbeats for a read may begin in the same step, and may probe where it must.
                if flight is not None and isinstance(event, Answered) and not effects.reads_ready:
                    self._check_probe(server, flight, event, send)
            elif send.request.last_log_index <= following.refused:
                raise self.violated(
                    f"leader {server.id} sends server {send.peer} a snapshot up to {send.request.last_log_index}, and "
                    f"the server has refused the snapshot up to {following.refused}"
                )
            self._replication.sent(server, send)

    def _check(self, server: ServerFacts, following: Following, send: Send) -> None:
        first, entries, flow = send.request.last_log_index + 1, send.request.entries, self.facts.flow
        if entries and first <= following.last:
            raise self.violated(
                f"leader {server.id} sends server {send.peer} the entries {first} to {first + len(entries) - 1}, which "
                f"the server has, or which are on the way, up to {following.last}"
            )
        if len(entries) > flow.append_entries or (len(entries) > 1 and bytes_of(entries) > flow.append_bytes):
            raise self.violated(f"leader {server.id} sends {len(entries)} entries in one request")

    def _check_probe(self, server: ServerFacts, flight: Flight, event: Answered, send: Send) -> None:
        refused = flight.block is None and not event.response.accepted and event.response.next_index > 0
        if refused and send.peer == event.peer and send.request.last_log_index >= flight.previous:
            raise self.violated(
                f"server {send.peer} has refused what follows entry {flight.previous}, and leader {server.id} probes "
                f"after entry {send.request.last_log_index}"
            )


class VotesExplained(Invariant):
    """A server refuses its vote in a term only after another vote in that term, or to a candidate with an older log.

    Raft 5.2 and 5.4.1. A server that hears a leader refuses without taking the candidate's term (thesis 4.2.3).
    """

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._votes: dict[int, HardState] = {}

    def boots(self, server: ServerFacts, loaded: Loaded, entries: Sequence[Entry]) -> None:
        self._votes[server.id] = HardState(*loaded.hard_state)

    def takes(self, server: ServerFacts, event: Input, effects: Effects, clock: float) -> None:
        before = self._votes.get(server.id, HardState(0, NOBODY))
        if effects.write is not None and effects.write.hard_state is not None:
            self._votes[server.id] = effects.write.hard_state
        if isinstance(event, Incoming) and event.request.type is MessageType.REQUEST_VOTE_REQUEST:
            for reply in effects.gated_replies:
                if reply.token is event.token:
                    self._check(server, before, event.request, reply.response)

    def _check(self, server: ServerFacts, before: HardState, request: Request, response: Response) -> None:
        if response.accepted or response.term != request.term:
            return
        vote = before.vote if before.term == request.term else NOBODY
        log = server.memory
        is_older = (request.last_log_term, request.last_log_index) < (log.term(log.last_index), log.last_index)
        if vote in {NOBODY, request.source} and not is_older:
            raise self.violated(
                f"server {server.id} refuses server {request.source} its vote in term {request.term}, without a reason"
            )
