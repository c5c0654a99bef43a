"""The invariants of a leader's office: a leader speaks first, takes entries and reads, and leaves only for a reason."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from gf_i2p.raft.effects import Effects, Token
from gf_i2p.raft.inputs import Answered, Incoming, Input, Proposal, Propose, Reachable, Read, StepDown
from gf_i2p.simulator.cluster.invariants.invariant import Invariant, bytes_of
from gf_i2p.simulator.facts import Facts, ServerFacts
from gf_i2p.storage.loading import Loaded
from gf_i2p.wire.entries import Entry
from gf_i2p.wire.messages import MessageType


class StepsDownWhenTold(Invariant):
    """A leader that is told to step down leads no more, and leaves the next election to the others.

    The leader stands for election only after two maximum election time-outs, or after another server's message.
    """

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._led: dict[int, bool] = {}  # by server: whether the server led after its last step
        self._told: dict[int, float] = {}  # by server: end of its wait after the order, until another server is heard
        self._stood: set[int] = set()  # servers that have become candidates in this step

    def stands(self, server: ServerFacts) -> None:
        self._stood.add(server.id)

    def boots(self, server: ServerFacts, loaded: Loaded, entries: Sequence[Entry]) -> None:
        self._led[server.id] = False
        self._told.pop(server.id, None)

    def takes(self, server: ServerFacts, event: Input, effects: Effects, clock: float) -> None:
        led = self._led.get(server.id, False)
        self._led[server.id] = server.leads
        match event:
            case StepDown():
                if server.leads:
                    raise self.violated(f"leader {server.id} is told to step down, and leads on")
                if led:
                    self._told[server.id] = clock + 2 * server.timing.election_max
            case Incoming() | Answered():
                self._told.pop(server.id, None)
        told = self._told.get(server.id)
        stands = server.id in self._stood
        self._stood.discard(server.id)
        if told is not None and stands and clock < told:
            raise self.violated(
                f"server {server.id} was told to step down, and stands for election {told - clock:.3f} s too early"
            )

    def retimed(self, server: ServerFacts, clock: float) -> None:
        if server.id in self._told:
            self._told[server.id] = min(self._told[server.id], clock + 2 * server.timing.election_max)


class VotesDeposeNobody(Invariant):
    """A vote request never ends a leadership: check-quorum deposes a leader without a majority (thesis 4.2.3)."""

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._led: dict[int, bool] = {}

    def boots(self, server: ServerFacts, loaded: Loaded, entries: Sequence[Entry]) -> None:
        self._led[server.id] = False

    def takes(self, server: ServerFacts, event: Input, effects: Effects, clock: float) -> None:
        led = self._led.get(server.id, False)
        self._led[server.id] = server.leads
        asked = isinstance(event, Incoming) and event.request.type is MessageType.REQUEST_VOTE_REQUEST
        if led and asked and not server.leads:
            raise self.violated(f"leader {server.id} steps down because a server asks for its vote")


class ReadsTaken(Invariant):
    """A leader with a sound state takes each read, and refuses none at once (thesis 6.4)."""

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._damaged: set[int] = set()  # servers that lack the state before the log's first entry

    def boots(self, server: ServerFacts, loaded: Loaded, entries: Sequence[Entry]) -> None:
        self._damaged.discard(server.id)
        if loaded.snapshot is None and loaded.base[0] > 0:
            self._damaged.add(server.id)

    def takes(self, server: ServerFacts, event: Input, effects: Effects, clock: float) -> None:
        refused = isinstance(event, Read) and event.token in effects.reads_refused
        if refused and server.leads and server.id not in self._damaged:
            raise self.violated(f"leader {server.id} refuses a read")


@dataclass(slots=True)
class _Queue:
    """A leader's clients that wait until their entries are committed."""

    term: int = 0
    waiting: deque[tuple[int, int, Token]] = field(default_factory=deque)
    """By client: index of its last entry, bytes of its entries, and its token."""


class EntriesTaken(Invariant):
    """A leader takes a client's entries while its queue has room, and answers when the entries are committed (Raft 8).

    The leader answers in the step that commits the entries. A leader that is no voter any more takes no entries.
    """

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._queues: dict[int, _Queue] = {}

    def boots(self, server: ServerFacts, loaded: Loaded, entries: Sequence[Entry]) -> None:
        self._queues[server.id] = _Queue()

    def takes(self, server: ServerFacts, event: Input, effects: Effects, clock: float) -> None:
        queue = self._queues[server.id]
        if not server.leads or queue.term != server.term:
            queue.term = server.term if server.leads else 0
            queue.waiting.clear()
        if not server.leads:
            return
        if isinstance(event, Propose):
            self._take(server, queue, event.proposals, effects)
        elif isinstance(event, Incoming) and event.request.type is MessageType.CLIENT_REQUEST:
            self._take(server, queue, [Proposal(event.token, event.request.entries)], effects)
        if queue.waiting and queue.waiting[0][0] <= server.commit:
            accepted = {reply.token for reply in effects.replies if reply.response.accepted}
            while queue.waiting and queue.waiting[0][0] <= server.commit:
                last, _, token = queue.waiting.popleft()
                if token not in accepted:
                    raise self.violated(f"leader {server.id} commits entry {last}, and does not answer its client")

    def _take(self, server: ServerFacts, queue: _Queue, proposals: Sequence[Proposal], effects: Effects) -> None:
        flow, write, waiting = self.facts.flow, effects.write, queue.waiting
        refused = {reply.token for reply in effects.replies if not reply.response.accepted}
        last = server.memory.last_index if write is None or not write.entries else write.first_index - 1
        for proposal in proposals:
            count, size = len(proposal.entries), bytes_of(proposal.entries)
            if not count:
                continue  # a question for the leader
            queued = sum(each for _, each, _ in waiting)
            is_full = last - server.commit + count > flow.queue_entries or queued + size > flow.queue_bytes
            has_room = server.id in server.voters and not (waiting and is_full)
            if has_room == (proposal.token in refused):
                raise self.violated(
                    f"leader {server.id} {'refuses' if has_room else 'takes'} {count} entries of {size} bytes, and "
                    f"{last - server.commit} entries of {queued} bytes wait"
                )
            if has_room:
                last += count
                waiting.append((last, size, proposal.token))


class LeaderSpeaksFirst(Invariant):
    """A new leader, and a leader with a new connection, sends at once and waits for no heartbeat (Raft 5.2)."""

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._led: dict[int, int] = {}  # by server: the term in which the server led after its last step

    def boots(self, server: ServerFacts, loaded: Loaded, entries: Sequence[Entry]) -> None:
        self._led[server.id] = 0

    def takes(self, server: ServerFacts, event: Input, effects: Effects, clock: float) -> None:
        before = self._led.get(server.id, 0)
        self._led[server.id] = server.term if server.leads else 0
        if not server.leads or effects.snapshot_wanted:
            return
        if before != server.term:
            owed = {voter for voter in server.voters if voter != server.id}
        elif isinstance(event, Reachable) and event.peer in server.voters:
            owed = {event.peer}
        else:
            return
        silent = owed - {item.peer for item in effects.sends}
        if silent:
            raise self.violated(f"leader {server.id} says nothing to server {min(silent)} at once")
