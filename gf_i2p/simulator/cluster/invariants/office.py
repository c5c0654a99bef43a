"""The invariants of a leader's office: a leader speaks first, takes reads, and leaves only for a reason."""

from collections.abc import Sequence

from gf_i2p.raft.effects import Effects
from gf_i2p.raft.inputs import Answered, Incoming, Input, Reachable, Read, StepDown
from gf_i2p.simulator.cluster.invariants.invariant import Invariant
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
        self._told: dict[int, float] = {}  # by server: time of the order, until another server is heard
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
                    self._told[server.id] = clock
            case Incoming() | Answered():
                self._told.pop(server.id, None)
        told = self._told.get(server.id)
        stands = server.id in self._stood
        self._stood.discard(server.id)
        if told is not None and stands and clock < told + 2 * self.facts.timing.election_max:
            raise self.violated(
                f"server {server.id} stands for election {clock - told:.3f} s after it was told to step down"
            )


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
