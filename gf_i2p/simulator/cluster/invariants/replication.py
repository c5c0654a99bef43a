"""The requests of each leader to its voters, and what the answers have shown: what several invariants judge by.

A `Replication` knows messages only. So no invariant trusts the leader's own bookkeeping, `raft/follower_progress.py`.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from gf_i2p.raft.effects import Send
from gf_i2p.raft.inputs import Answered, Failed, Input, Reachable
from gf_i2p.simulator.facts import ServerFacts
from gf_i2p.wire.log_values import SnapshotSyncRequest
from gf_i2p.wire.messages import MessageType


@dataclass(frozen=True, slots=True)
class Flight:
    """A request that a leader has sent, and that waits for its answer."""

    previous: int
    """Index before the request's entries; of a block, 0."""
    last: int
    """Index of the request's last entry; `previous` without entries."""
    block: SnapshotSyncRequest | None = None


@dataclass(slots=True)
class Following:
    """A leader's requests to one voter, since the last loss or refusal."""

    flights: dict[int, Flight] = field(default_factory=dict)
    """By tag."""
    match: int = 0
    """Highest index that the voter has acknowledged to this leader."""
    agrees: bool = False
    """Whether the voter has accepted a request since the last loss or refusal."""
    refused: int = 0
    """Index of the last snapshot that the voter has refused for good; 0 for none."""

    def lost(self) -> None:
        """Note that no answer to an earlier request counts any more."""
        self.flights.clear()
        self.agrees = False

    @property
    def last(self) -> int:
        """Index up to which entries were acknowledged, or are on the way."""
        return max([self.match, *(flight.last for flight in self.flights.values() if flight.last > flight.previous)])


class Replication:
    """The requests of all leaders of a run to their voters, without those that were answered or lost."""

    def __init__(self) -> None:
        self._leading: dict[int, tuple[int, dict[int, Following]]] = {}  # by leader: term, and by voter

    def voters(self, server: ServerFacts) -> dict[int, Following]:
        """Return a server's requests by voter: empty unless the server leads, and at the beginning of its term.

        Call this at each step of a server: a former leader's and a former voter's requests are forgotten then.
        """
        if not server.leads:
            self._leading.pop(server.id, None)
            return {}
        term, voters = self._leading.get(server.id, (None, {}))
        if term != server.term:
            voters = {}
            self._leading[server.id] = server.term, voters
        for peer in [peer for peer in voters if peer not in server.voters]:
            del voters[peer]  # what a former voter still needs has its own rules
        return voters

    def answered(self, server: ServerFacts, event: Input) -> Flight | None:
        """Take in an answer, a loss or a new connection. Return the request that the event answers in this term."""
        following = self.voters(server).get(event.peer) if isinstance(event, Answered | Failed | Reachable) else None
        if following is None:
            return None
        if isinstance(event, Reachable):
            following.lost()
            return None
        assert isinstance(event, Answered | Failed)
        if event.tag not in following.flights or (isinstance(event, Answered) and event.response.term != server.term):
            return None
        if isinstance(event, Failed):
            following.lost()
            return None
        flight = following.flights.pop(event.tag)
        if not event.response.accepted:
            following.lost()
            if flight.block is not None and event.response.next_index == flight.block.offset:
                following.refused = flight.block.last_log_index
        elif flight.block is None:
            following.agrees = True
            following.match = max(following.match, flight.last)
        elif flight.block.done and event.response.next_index >= flight.block.offset + len(flight.block.data):
            following.agrees = True
            following.match = max(following.match, flight.block.last_log_index)
        return flight

    def sent_all(self, server: ServerFacts, sends: Iterable[Send]) -> None:
        """Take in the requests of a step, as far as they go to voters."""
        for send in sends:
            if send.peer in server.voters:
                self.sent(server, send)

    def sent(self, server: ServerFacts, send: Send) -> None:
        """Take in a request to a voter."""
        request, following = send.request, self.voters(server).setdefault(send.peer, Following())
        if request.type is MessageType.APPEND_ENTRIES_REQUEST:
            previous = request.last_log_index
            following.flights[send.tag] = Flight(previous, previous + len(request.entries))
        elif request.type is MessageType.INSTALL_SNAPSHOT_REQUEST:
            following.lost()  # a block travels alone: other answers count no more
            following.flights[send.tag] = Flight(0, 0, SnapshotSyncRequest.decode(request.entries[0].value))
