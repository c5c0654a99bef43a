"""Invariants about needless acts: nothing is sent twice, and a tick leaves nothing to do at once.

A server that does too much does no harm: the farm only takes more of the line and of the processor. These invariants
notice the mistake itself.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from gf_i2p.raft.effects import Effects, HardState
from gf_i2p.raft.inputs import Answered, Failed, Incoming, Input, Reachable, Tick
from gf_i2p.raft.log import size_of
from gf_i2p.simulator.cluster.invariants.invariant import Invariant
from gf_i2p.simulator.facts import Facts, ServerFacts
from gf_i2p.storage.loading import Loaded
from gf_i2p.wire.entries import Entry
from gf_i2p.wire.messages import NOBODY, MessageType, Request, Response


class TicksEnd(Invariant):
    """A tick does all that is due, so the next deadline is later. Otherwise a node's event loop would spin.

    A tick that changes the Configuration may end the leader's majority. The leader then steps down at the next tick.
    """

    def takes(self, server: ServerFacts, event: Input, effects: Effects, clock: float) -> None:
        reconfigured = effects.write is not None and len(effects.write.entries) > 0
        if isinstance(event, Tick) and server.deadline <= clock and not reconfigured:
            raise self.violated(f"server {server.id} wants its next tick at once after a tick")


@dataclass(slots=True)
class _Given:
    """The entries that one peer has from one leader, by that leader's knowledge."""

    match: int = 0
    """Highest index that the peer has acknowledged."""
    flights: dict[int, tuple[int, int]] = field(default_factory=dict)
    """By tag of a request on the way: index before the request's entries, index of the last entry."""

    @property
    def last(self) -> int:
        """Index up to which the leader has no reason to send entries."""
        return max([self.match, *(last for previous, last in self.flights.values() if last > previous)])


class NothingTwice(Invariant):
    """A leader sends a voter no entry that the voter has acknowledged, or that is on the way to the voter (Raft 5.3).

    After a loss or a refusal, entries that were on the way are sent again. A request keeps to the limits of `Flow`.
    """

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._given: dict[tuple[int, int], dict[int, _Given]] = {}  # by leader and term: by peer

    def takes(self, server: ServerFacts, event: Input, effects: Effects, clock: float) -> None:
        if not server.leads:
            return
        peers = self._given.get((server.id, server.term))
        if peers is None:
            self._given = {key: peers for key, peers in self._given.items() if key[0] != server.id}
            peers = self._given[server.id, server.term] = {}
        for peer in [peer for peer in peers if peer not in server.voters]:
            del peers[peer]  # a server that comes back begins anew
        if isinstance(event, Answered | Failed | Reachable) and event.peer in peers:
            self._take(server, peers[event.peer], event)
        for send in effects.sends:
            if send.request.type is MessageType.APPEND_ENTRIES_REQUEST and send.peer in server.voters:
                given = peers.setdefault(send.peer, _Given())
                self._check(server, send.peer, given, send.request)
                previous = send.request.last_log_index
                given.flights[send.tag] = previous, previous + len(send.request.entries)

    @staticmethod
    def _take(server: ServerFacts, given: _Given, event: Answered | Failed | Reachable) -> None:
        if isinstance(event, Reachable):
            given.flights.clear()
        elif event.tag in given.flights:
            if isinstance(event, Failed):
                given.flights.clear()
            elif event.response.term == server.term:
                _, last = given.flights.pop(event.tag)
                if event.response.accepted:
                    given.match = max(given.match, last)
                else:
                    given.flights.clear()

    def _check(self, server: ServerFacts, peer: int, given: _Given, request: Request) -> None:
        first, entries, flow = request.last_log_index + 1, request.entries, self.facts.flow
        if entries and first <= given.last:
            raise self.violated(
                f"leader {server.id} sends server {peer} the entries {first} to {first + len(entries) - 1}, which the "
                f"server has, or which are on the way, up to {given.last}"
            )
        if len(entries) > flow.append_entries or (len(entries) > 1 and sum(map(size_of, entries)) > flow.append_bytes):
            raise self.violated(f"leader {server.id} sends {len(entries)} entries in one request")


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
