"""A farm of cores in one thread, with a network, disks and a clock that the test moves by hand."""

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from gf_i2p.raft import inputs
from gf_i2p.raft.configurations import Configurations
from gf_i2p.raft.core import Core
from gf_i2p.raft.effects import Effects, HardState, Send, SendReply, Snapshot, Token, Write
from gf_i2p.raft.leader import Leader
from gf_i2p.raft.log import Log
from gf_i2p.raft.settings import LAN, Flow, Timing
from gf_i2p.wire.entries import Entry, ValueType
from gf_i2p.wire.log_values import ClusterServer, Configuration, LogPack, SnapshotSyncRequest, encode_server_id
from gf_i2p.wire.messages import (
    NOBODY,
    MessageType,
    Request,
    Response,
    decode_request,
    decode_response,
    encode_request,
    encode_response,
)


def configuration(ids: Iterable[int]) -> Configuration:
    """Give the first Configuration of such a farm."""
    return Configuration(0, 0, tuple(ClusterServer(i, f"tcp://localhost:{9000 + i}") for i in ids))


def application(text: str, term: int = 0) -> Entry:
    return Entry(term, ValueType.APPLICATION, text.encode())


@dataclass
class Disk:
    """The durable part of one server; `LogReader`. `entries` come after the entry at `base`."""

    hard_state: HardState = field(default_factory=lambda: HardState(0, NOBODY))
    entries: list[Entry] = field(default_factory=list)
    base: int = 0
    base_term: int = 0
    snapshot: Snapshot | None = None
    configuration: Configuration | None = None
    """The snapshot's Configuration, which stays when only the snapshot's data is damaged."""

    def damage_snapshot(self, *, also_configuration: bool = False) -> None:
        self.snapshot = None
        if also_configuration:
            self.configuration = None

    @property
    def last(self) -> int:
        return self.base + len(self.entries)

    def write(self, write: Write) -> None:
        if write.hard_state is not None:
            self.hard_state = write.hard_state
        if write.entries:
            assert self.base + 1 <= write.first_index <= self.last + 1
            self.entries[write.first_index - 1 - self.base :] = write.entries
        if write.snapshot is not None:
            assert self.snapshot is None or write.snapshot.index > self.snapshot.index
            self.snapshot = write.snapshot
            self.configuration = write.snapshot.configuration
        if write.install:
            assert self.snapshot is not None
            self.entries.clear()
            self.base, self.base_term = self.snapshot.index, self.snapshot.term
        elif write.drop > self.base:
            assert self.snapshot is not None
            assert write.drop <= min(self.snapshot.index, self.last)
            self.base_term = self.entries[write.drop - self.base - 1].term
            del self.entries[: write.drop - self.base]
            self.base = write.drop

    def read(self, first: int, last: int, max_bytes: int) -> list[Entry]:
        assert first > self.base
        taken: list[Entry] = []
        for entry in self.entries[first - 1 - self.base : last - self.base]:
            max_bytes -= 13 + len(entry.value)
            if taken and max_bytes < 0:
                break
            taken.append(entry)
        return taken

    def terms(self) -> list[tuple[int, int]]:
        runs: list[tuple[int, int]] = []
        for index, entry in enumerate(self.entries, self.base + 1):
            if not runs or runs[-1][1] != entry.term:
                runs.append((index, entry.term))
        return runs


@dataclass(frozen=True)
class Message:
    """A request or a response on the way; `lost` gives the sender of a request the failure instead."""

    sender: int
    receiver: int
    tag: int
    payload: Request | Response
    lost: bool = False


@dataclass
class Server:
    """One server: core, disk, and the effects that wait for the disk."""

    id: int
    disk: Disk
    core: Core
    slow_disk: bool = False
    unwritten: deque[Write] = field(default_factory=deque)
    gated: deque[tuple[int, Send | SendReply]] = field(default_factory=deque)
    issued: int = 0
    """Number of the core's last write."""
    up: bool = True


@dataclass(frozen=True)
class Asked:
    """The token of a request from another server."""

    peer: int
    tag: int


class Lab:
    """Servers 1 to n. Disks are fast unless made slow: then `sync` makes their writes durable."""

    def __init__(
        self,
        servers: int = 3,
        *,
        timing: Timing = LAN,
        flow: Flow | None = None,
        uniform: Callable[[float, float], float] = lambda low, high: low,
        cache_bytes: int = 1 << 20,
    ) -> None:
        self.now = 0.0
        self.timing = timing
        self.flow = flow
        self.uniform = uniform
        self.cache_bytes = cache_bytes
        self.bootstrap = configuration(range(1, servers + 1))
        self.founders = range(1, servers + 1)
        self.notices: list[str] = []
        self.restored: list[tuple[int, Snapshot]] = []
        self.wanted: list[int] = []
        self.network: deque[Message] = deque()
        self.cuts: set[tuple[int, int]] = set()
        self.replies: dict[Token, Response] = {}
        self.dropped: list[Token] = []
        self.reads: dict[Token, int | None] = {}
        self.violations: list[str] = []
        self.on_event: Callable[[str], None] = lambda line: None
        self.check_snapshot: Callable[[bytes], str | None] = lambda data: (
            None if data.startswith(b"state ") else "it is no state of the lab"
        )
        self.after_step: Callable[[Server], None] = lambda server: None
        self.servers = {i: self._boot(i, Disk()) for i in range(1, servers + 1)}

    def _boot(self, server_id: int, disk: Disk) -> Server:
        stored = [
            (index, Configuration.decode(entry.value))
            for index, entry in enumerate(disk.entries, disk.base + 1)
            if entry.value_type == ValueType.CONFIGURATION
        ]
        first = self.bootstrap if server_id in self.founders else Configuration(0, 0, ())
        if disk.configuration is not None:
            first = disk.configuration
        core = Core(
            server_id,
            hard_state=disk.hard_state,
            log=Log(
                disk,
                last_index=disk.last,
                terms=disk.terms(),
                base=(disk.base, disk.base_term),
                cache_bytes=self.cache_bytes,
            ),
            configurations=Configurations(first, stored),
            uniform=self.uniform,
            now=self.now,
            check_snapshot=self.check_snapshot,
            timing=self.timing,
            flow=self.flow,
            snapshot=disk.snapshot,
        )
        return Server(server_id, disk, core)

    # Driving one server ------------------------------------------------------------------------------------------

    def step(self, server_id: int, event: inputs.Input) -> Effects:
        server = self.servers[server_id]
        effects = server.core.step(event, self.now)
        if effects.write is not None:
            server.issued = effects.write.number
            server.unwritten.append(effects.write)
        for send in effects.sends:
            self._send(server, send)
        for reply in effects.replies:
            self._reply(server, reply)
        gated: list[Send | SendReply] = [*effects.gated_sends, *effects.gated_replies]
        server.gated.extend((server.issued, item) for item in gated)
        for token in effects.dropped:
            if isinstance(token, Asked):
                nothing = Response(MessageType.APPEND_ENTRIES_RESPONSE, 0, 0, 0, 0, accepted=False)
                self._post(Message(server.id, token.peer, token.tag, nothing, lost=True))
            else:
                self.on_event(f"{server.id} drops {token}")
                self.dropped.append(token)
        for ready in effects.reads_ready:
            self.on_event(f"{server.id} may serve {ready.token} at {ready.read_index}")
            self.reads[ready.token] = ready.read_index
        for token in effects.reads_refused:
            self.on_event(f"{server.id} refuses {token}")
            self.reads[token] = None
        if effects.restore is not None:
            self.on_event(f"{server.id} restores the snapshot of {effects.restore.index}")
            self.restored.append((server.id, effects.restore))
        if effects.snapshot_wanted:
            self.on_event(f"{server.id} wants a snapshot")
            self.wanted.append(server.id)
        if effects.notice:
            self.on_event(f"{server.id} notice: {effects.notice}")
            self.notices.append(effects.notice)
        if effects.violation:
            self.on_event(f"{server.id} violation: {effects.violation}")
            self.violations.append(effects.violation)
        self.after_step(server)
        if not server.slow_disk:
            self.sync(server_id)
        return effects

    def sync(self, server_id: int, writes: int | None = None) -> None:
        """Make the oldest waiting writes durable (all by default), and release the effects that waited for them."""
        server = self.servers[server_id]
        written = 0
        for _ in range(len(server.unwritten) if writes is None else writes):
            write = server.unwritten.popleft()
            server.disk.write(write)
            written = write.number
        durable = server.unwritten[0].number - 1 if server.unwritten else server.issued
        while server.gated and server.gated[0][0] <= durable:
            item = server.gated.popleft()[1]
            if isinstance(item, Send):
                self._send(server, item)
            else:
                self._reply(server, item)
        if written:
            self.step(server_id, inputs.Stored(written))

    def _send(self, server: Server, send: Send) -> None:
        request = decode_request(encode_request(send.request))
        self._post(Message(server.id, send.peer, send.tag, request))

    def _reply(self, server: Server, reply: SendReply) -> None:
        response = decode_response(encode_response(reply.response))
        if isinstance(reply.token, Asked):
            self._post(Message(server.id, reply.token.peer, reply.token.tag, response))
        else:
            answer = "accepts" if response.accepted else "refuses"
            self.on_event(
                f"{server.id} {answer} {reply.token}: leader {name(response.destination)} next {response.next_index}"
            )
            self.replies[reply.token] = response

    def _post(self, message: Message) -> None:
        self.network.append(message)

    # Servers that come and go ------------------------------------------------------------------------------------

    def newcomer(self, server_id: int) -> None:
        """Start a server with an empty log that belongs to no farm yet."""
        self.servers[server_id] = self._boot(server_id, Disk())

    def change(self, leader: int, token: Token, *, add: int | None = None, remove: int | None = None) -> None:
        """Have an administrator ask for a change of the servers."""
        if add is not None:
            kind, value = MessageType.ADD_SERVER_REQUEST, configuration([add]).servers[0].encode()
        else:
            assert remove is not None
            kind, value = MessageType.REMOVE_SERVER_REQUEST, encode_server_id(remove)
        entry = Entry(0, ValueType.CLUSTER_SERVER, value)
        self.step(leader, inputs.Incoming(token, Request(kind, NOBODY, leader, 0, 0, 0, 0, (entry,))))

    def snapshot(self, server_id: int, index: int | None = None, keep: int = 0) -> None:
        """Let the state machine make a snapshot, of everything applied if no index is given."""
        core = self.core(server_id)
        index = core.applicable if index is None else index
        self.step(server_id, inputs.Snapshotted(index, f"state at {index}".encode(), max(index - keep, 0)))

    # The network -------------------------------------------------------------------------------------------------

    def deliver(self, message: Message) -> None:
        """Bring a message to the receiver, or the news of a lost message to the sender."""
        cut = (message.sender, message.receiver) in self.cuts or not self.servers[message.receiver].up
        if isinstance(message.payload, Request):
            if cut or message.lost:
                self.on_event(f"{message.sender} -x {message.receiver} {describe(message.payload)}")
                if self.servers[message.sender].up:
                    self.step(message.sender, inputs.Failed(message.receiver, message.tag))
                return
            self.on_event(f"{message.sender} -> {message.receiver} {describe(message.payload)}")
            self.step(message.receiver, inputs.Incoming(Asked(message.sender, message.tag), message.payload))
        elif self.servers[message.receiver].up:
            if cut or message.lost:
                self.on_event(f"{message.sender} -x {message.receiver} {describe(message.payload)}")
                self.step(message.receiver, inputs.Failed(message.sender, message.tag))
                return
            self.on_event(f"{message.sender} -> {message.receiver} {describe(message.payload)}")
            self.step(message.receiver, inputs.Answered(message.sender, message.tag, message.payload))

    def settle(self, limit: int = 10_000) -> None:
        """Deliver messages until the network is empty."""
        for _ in range(limit):
            if not self.network:
                return
            self.deliver(self.network.popleft())
        raise AssertionError("the network never becomes empty")

    def isolate(self, server_id: int) -> None:
        for other in self.servers:
            if other != server_id:
                self.cuts |= {(server_id, other), (other, server_id)}

    def heal(self) -> None:
        self.cuts.clear()

    # Time and crashes --------------------------------------------------------------------------------------------

    def tick(self, server_id: int) -> None:
        """Let this server's next deadline pass, and no other's: a time-out, or the time for a question."""
        self.now = max(self.now, self.servers[server_id].core.deadline)
        self.step(server_id, inputs.Tick())

    def timeout(self, *server_ids: int, unasked: bool = False) -> None:
        """Let the next time-outs of these servers pass, and no others. Questions for the leader are answered at once.

        The questions are reported only when they keep a server from an election. `unasked`: the servers stand for
        election whatever the others say, as servers of JRaft do.
        """
        cores = [self.servers[server_id].core for server_id in server_ids]
        self.now = max(self.now, *(core.deadline if core.is_leader else core._timeout.at for core in cores))
        for core in cores:
            agreed = core._inquiry.agreed
            if unasked:
                core._inquiry.agreed = _yes  # type: ignore[method-assign]
            self.step(core.id, inputs.Tick())
            core._inquiry.agreed = agreed  # type: ignore[method-assign]
        questions = {(m.sender, m.receiver, m.tag) for m in self.network if _is_question(m) and m.sender in server_ids}
        lines: list[str] = []
        report, self.on_event = self.on_event, lines.append
        while question := next((m for m in self.network if _belongs(m, questions)), None):
            self.network.remove(question)
            self.deliver(question)
        self.on_event = report
        if any(core.role == "follower" for core in cores):
            for line in lines:
                report(line)

    def advance(self, seconds: float) -> None:
        """Let time pass, delivering everything at once."""
        end = self.now + seconds
        while True:
            self.settle()
            running = [server for server in self.servers.values() if server.up]
            first = min(running, key=lambda server: (server.core.deadline, server.id))
            if first.core.deadline > end:
                self.now = end
                return
            self.tick(first.id)

    def crash(self, server_id: int) -> None:
        """Crash a server: drop its writes that are not durable, and all answers on the way to and from the server."""
        server = self.servers[server_id]
        server.up = False
        server.unwritten.clear()
        for _, item in server.gated:
            if isinstance(item, SendReply) and isinstance(item.token, Asked):
                self._post(Message(server.id, item.token.peer, item.token.tag, item.response, lost=True))
        server.gated.clear()
        kept: deque[Message] = deque()
        for message in self.network:
            if message.sender == server_id and isinstance(message.payload, Response):
                kept.append(Message(message.sender, message.receiver, message.tag, message.payload, lost=True))
            elif message.sender != server_id:
                kept.append(message)
        self.network = kept

    def restart(self, server_id: int) -> None:
        server = self._boot(server_id, self.servers[server_id].disk)
        self.servers[server_id] = server

    # Short cuts --------------------------------------------------------------------------------------------------

    def core(self, server_id: int) -> Core:
        return self.servers[server_id].core

    def wait(self, server_id: int) -> float:
        """Give the seconds until this server's next election time-out."""
        return self.core(server_id)._timeout.at - self.now

    def elect(self, server_id: int) -> None:
        """Make this server the leader: let its election time-out pass, and deliver the votes."""
        self.timeout(server_id)
        self.settle()
        assert self.core(server_id).is_leader

    def propose(self, server_id: int, token: Token, *texts: str) -> None:
        proposal = inputs.Proposal(token, [application(text) for text in texts])
        self.step(server_id, inputs.Propose([proposal]))

    def values(self, server_id: int) -> list[str]:
        """The Application entries on this server's disk."""
        entries = self.servers[server_id].disk.entries
        return [entry.value.decode() for entry in entries if entry.value_type == ValueType.APPLICATION]


def _yes(now: float) -> bool:
    return True


_QUESTION = "who leads?"


def _is_question(message: Message) -> bool:
    return isinstance(message.payload, Request) and describe(message.payload) == _QUESTION


def _belongs(message: Message, questions: set[tuple[int, int, int]]) -> bool:
    """Whether a message is one of these questions (asker, asked, tag), or the answer to one."""
    ends = (message.sender, message.receiver)
    return (*(ends if isinstance(message.payload, Request) else ends[::-1]), message.tag) in questions


def name(server_id: int) -> str:
    return "nobody" if server_id == NOBODY else str(server_id)


def describe(message: Request | Response) -> str:
    """Give one line for a transcript."""
    kind = message.type.name.title().replace("_", "")
    if isinstance(message, Request) and message.type == MessageType.CLIENT_REQUEST and not message.entries:
        return _QUESTION
    if isinstance(message, Response):
        answer = "yes" if message.accepted else "no"
        return f"{kind} term {message.term}: {answer}, next {message.next_index}, for {name(message.destination)}"
    line = f"{kind} term {message.term}, after {message.last_log_index}/{message.last_log_term}"
    if kind == "AppendEntriesRequest":
        line += f", commit {message.commit_index}"
    if message.entries:
        line += ": " + " ".join(entry_name(entry) for entry in message.entries)
    return line


def entry_name(entry: Entry) -> str:
    match entry.value_type:
        case ValueType.CONFIGURATION:
            value = "servers " + ",".join(str(server.id) for server in Configuration.decode(entry.value).servers)
        case ValueType.LOG_PACK:
            value = "pack of " + " ".join(entry_name(each) for each in LogPack.decode(entry.value).entries)
        case ValueType.SNAPSHOT_SYNC_REQUEST:
            block = SnapshotSyncRequest.decode(entry.value)
            end = block.offset + len(block.data)
            value = f"snapshot of {block.last_log_index}, bytes {block.offset} to {end}{', the last' * block.done}"
        case ValueType.CLUSTER_SERVER:
            value = "server"
        case _:
            value = entry.value.decode()
    return f"{entry.term}/{value}"


def leadership(lab: Lab) -> Leader:
    """Give the leadership of server 1."""
    role = lab.core(1)._role
    assert isinstance(role, Leader)
    return role


def assert_others_commit(lab: Lab) -> None:
    """Servers 1 and 2, with the value "a" in their logs and without server 3, have a leader that commits "b"."""
    leader = next(server for server in (1, 2) if lab.core(server).is_leader)
    lab.propose(leader, "after", "b")
    lab.settle()
    assert lab.replies["after"].accepted
    assert lab.values(1) == lab.values(2) == ["a", "b"]
