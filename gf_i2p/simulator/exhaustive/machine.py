"""One server of a small farm: a real core with its gate and its disk, which takes one input at a time.

The state of a machine depends on its earlier inputs alone, never on other servers. So the search makes each step of a
machine once, however many states of the farm need that step.
"""

from typing import Any, Final, NamedTuple, cast

from gf_i2p.raft import inputs
from gf_i2p.raft.configurations import Configurations
from gf_i2p.raft.core import Core
from gf_i2p.raft.durability_gate import DurabilityGate
from gf_i2p.raft.effects import Send, SendReply, Token, Write
from gf_i2p.raft.log import Log
from gf_i2p.raft.settings import Flow, Timing
from gf_i2p.simulator.facts import ServerFacts
from gf_i2p.simulator.registers import RegisterWrite
from gf_i2p.storage.loading import Loaded
from gf_i2p.wire.entries import Entry, ValueType
from gf_i2p.wire.log_values import ClusterServer, Configuration
from gf_i2p.wire.messages import MessageType, Request, Response

TIMING: Final = Timing(heartbeat=10.0, election_min=20.0, election_max=24.0)
"""With these numbers, each deadline of a follower is the end of an election time-out."""
Event = tuple[str, tuple[Any, ...]]
"""A call of the checker: method and arguments."""


class Message(NamedTuple):
    """A request or an answer on its way."""

    asker: int
    """The server that has sent the request."""
    answerer: int
    """The server that the request is for."""
    slot: int
    """Number of the exchange among the exchanges of the asker, from 1."""
    content: Request | Response

    @property
    def receiver(self) -> int:
        """The server that the message goes to."""
        return self.answerer if isinstance(self.content, Request) else self.asker

    @property
    def is_question(self) -> bool:
        """Whether the message asks for the leader."""
        return self.content.type is MessageType.CLIENT_REQUEST


class PeerEnd(NamedTuple):
    """Token of a request of another server."""

    asker: int
    slot: int
    asks: bool
    """Whether the request only asks for the leader. The answer promises nothing."""


class Post(NamedTuple):
    """Token of a client's entry."""

    number: int


class Query(NamedTuple):
    """Token of a client's read."""

    number: int


class _Log(NamedTuple):
    last_index: int


class _CoreState(NamedTuple):
    """The facts about a core that the checker reads."""

    term: int
    commit: int
    is_leader: bool
    role: str
    log: _Log


class _Content:
    """The content of a disk at a start, as `disk_contents.Store` shows it."""

    def __init__(self, disk: ServerFacts) -> None:
        log = disk.durable
        self._entries = log.slice(1, log.last_index)
        self.loaded = Loaded(
            hard_state=disk.hard_state,
            last_index=log.last_index,
            terms=log.runs(),
            configurations=tuple(
                (i, entry.value)
                for i, entry in enumerate(self._entries, 1)
                if entry.value_type is ValueType.CONFIGURATION
            ),
            written=0,
            checkpointed=0,
            base=(0, 0),
            snapshot=None,
            snapshot_fault=None,
            configuration=None,
        )

    def read(self, first: int, last: int, max_bytes: int) -> list[Entry]:  # noqa: ARG002 -- all entries are small
        return list(self._entries[first - 1 : last])


class Machine:
    """One server: `take` gives it an input."""

    def __init__(self, server_id: int, servers: int) -> None:
        """Start a new server in a new farm of `servers` servers."""
        self.id = server_id
        self.first = Configuration(0, 0, tuple(ClusterServer(i, f"tcp://s{i}:1") for i in range(1, servers + 1)))
        self.disk = ServerFacts(server_id, tuple(range(1, servers + 1)))
        """The durable state; the other facts are not used here."""
        self.outbox: list[Message] = []
        self.events: list[Event] = []
        self.ended: list[tuple[int, int]] = []
        """Asker and slot of each request that gets no answer, because this server has dropped it, or has crashed."""
        self._boot()

    def _boot(self) -> None:
        content = _Content(self.disk)
        self.events.append(("booted", (self.id, content)))
        loaded = content.loaded
        self.now = 0.0
        self.core = Core(
            self.id,
            hard_state=loaded.hard_state,
            log=Log(content, last_index=loaded.last_index, terms=loaded.terms),
            configurations=Configurations(
                self.first, [(index, Configuration.decode(value)) for index, value in loaded.configurations]
            ),
            uniform=_least,
            now=self.now,
            check_snapshot=_any_snapshot,
            timing=TIMING,
            flow=Flow(in_flight=1, append_entries=1),
        )
        self.gate = DurabilityGate()
        self.applied = 0
        self.pending: list[Write] = []
        """Writes that are not durable."""
        self.flights: dict[int, tuple[int, int]] = {}
        """By slot: the peer and the tag of a request that waits for its answer."""
        self.held: list[PeerEnd] = []
        """Requests of other servers that wait for this server's answer."""
        self.values: dict[Token, bytes] = {}
        self._reads: list[tuple[int, int]] = []  # number of a read, and the index that must be applied before

    # Inputs ---------------------------------------------------------------------------------------------------------

    def time_out(self, taken: int) -> None:
        """Let the time of the next deadline come."""
        self.now = max(self.now, self.core.deadline)
        self._step(inputs.Tick(), taken)

    def store(self, taken: int) -> None:
        """Complete the oldest pending write."""
        number = self._make_durable(1)
        for item in self.gate.stored(number):
            self._release(item, taken)
        self._step(inputs.Stored(number), taken)

    def _make_durable(self, count: int) -> int:
        done, self.pending = self.pending[:count], self.pending[count:]
        self.disk.make_durable(done, ())
        self.events.append(("stored", (self.id, tuple(done))))
        return done[-1].number

    def crash(self, kept: int) -> None:
        """End the process, and start the next one. Of the pending writes, the first `kept` are durable."""
        if kept:
            self._make_durable(kept)
        self.events.append(("ended", (self.id,)))
        self.ended += [(each.asker, each.slot) for each in self.held]
        self._boot()

    def request(self, message: Message, taken: int) -> None:
        """Take a request of another server."""
        assert isinstance(message.content, Request)
        token = PeerEnd(message.asker, message.slot, message.content.type is MessageType.CLIENT_REQUEST)
        self.held.append(token)
        self._step(inputs.Incoming(token, message.content), taken)

    def answer(self, message: Message, taken: int) -> None:
        """Take the answer to a request of this server, unless the server has given the request up."""
        assert isinstance(message.content, Response)
        peer, tag = self.flights.pop(message.slot)
        self._step(inputs.Answered(peer, tag, message.content), taken)

    def give_up(self, slot: int, taken: int) -> None:
        """Give the request of this slot up."""
        peer, tag = self.flights.pop(slot)
        self._step(inputs.Failed(peer, tag), taken)

    def propose(self, number: int, taken: int) -> None:
        """Take one entry from a client. `number`: all entries of a run have different numbers."""
        token = Post(number)
        self.values[token] = value = RegisterWrite(number, 1, number).encode()
        entry = Entry(0, ValueType.APPLICATION, value)
        self._step(inputs.Propose([inputs.Proposal(token, [entry])]), taken)

    def read(self, number: int, taken: int) -> None:
        """Take a read from a client. `number`: all reads of a run have different numbers."""
        self.events.append(("asks", (number,)))
        self._step(inputs.Read(Query(number)), taken)

    # Effects --------------------------------------------------------------------------------------------------------

    def _step(self, event: inputs.Input, taken: int) -> None:
        core = self.core
        effects = core.step(event, self.now)
        state = _CoreState(core.term, core.commit, core.is_leader, core.role, _Log(core.log.last_index))
        self.events += [("stepped", (self.id, state, effects)), ("took", (self.id, event, effects, 0.0))]
        if effects.write is not None:
            self.pending.append(effects.write)
        for item in self.gate.take(effects):
            self._release(item, taken)
        for token in effects.dropped:
            if isinstance(token, PeerEnd):
                self.held.remove(token)
                self.ended.append((token.asker, token.slot))
            else:
                del self.values[token]
        self._reads += [(cast("Query", ready.token).number, ready.read_index) for ready in effects.reads_ready]
        self.events += [("gives_up", (cast("Query", token).number,)) for token in effects.reads_refused]
        self._apply()

    def _release(self, item: Send | SendReply, taken: int) -> None:
        if isinstance(item, Send):
            self.events.append(("sent", (self.id, item)))
            slot = 1
            while slot in self.flights or taken >> slot & 1:
                slot += 1
            self.flights[slot] = item.peer, item.tag
            self.outbox.append(Message(self.id, item.peer, slot, item.request))
        elif isinstance(item.token, PeerEnd):
            self.held.remove(item.token)
            if not item.token.asks:
                self.events.append(("sent", (self.id, item)))
            self.outbox.append(Message(item.token.asker, self.id, item.token.slot, item.response))
        else:
            value = self.values.pop(item.token)
            if item.response.accepted:
                last = item.response.next_index - 1
                self.events += [("acknowledged", ([value], last)), ("heard", (last,))]
            else:
                self.events.append(("refused", ([value],)))

    def _apply(self) -> None:
        core = self.core
        if core.applicable > self.applied:
            page = core.log.slice(self.applied + 1, core.applicable, max_entries=64, max_bytes=1 << 20)
            for entry in page:
                self.applied += 1
                self.events.append(("applied", (self.id, self.applied, entry)))
        for number, index in tuple(self._reads):
            if self.applied >= index:
                self._reads.remove((number, index))
                self.events.append(("serves", (self.id, number, self.applied)))


def _least(least: float, most: float) -> float:  # noqa: ARG001 -- stands for `random.uniform`
    return least


def _any_snapshot(data: bytes) -> str | None:  # noqa: ARG001 -- a scope has no snapshots
    return None
