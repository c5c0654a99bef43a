"""The checker of a run: it gets each event of the servers, keeps the facts up to date, and asks the invariants."""

from collections.abc import Callable, Sequence
from typing import Any, Final

from gf_i2p.raft.core import Core
from gf_i2p.raft.effects import Effects, Send, SendReply, Write
from gf_i2p.raft.inputs import Input, Unreachable
from gf_i2p.raft.log import CACHE_BYTES
from gf_i2p.raft.settings import Flow, Timing
from gf_i2p.simulator.cluster.disk_contents import Store
from gf_i2p.simulator.cluster.invariants.all_invariants import ALL
from gf_i2p.simulator.cluster.invariants.harm import FASTEST_CLOCK, LiveLeaderStays, NobodyAccused
from gf_i2p.simulator.cluster.invariants.invariant import Invariant
from gf_i2p.simulator.cluster.invariants.thrift import NothingTwice
from gf_i2p.simulator.facts import Facts, FarmChoice, Hearing, ServerFacts, Violation
from gf_i2p.wire.entries import Entry

NEED_ORDER: Final = frozenset({NobodyAccused, NothingTwice})
"""The invariants that hold only where the answers of one connection come in order."""

NEED_LIKENESS: Final = frozenset({LiveLeaderStays})
"""The invariants that hold only where all servers are of this program."""

NEED_HONESTY: Final = frozenset({LiveLeaderStays, NobodyAccused})
"""The invariants that hold only where no member claims terms of the far future."""


class Checker:
    """Notes each event of the servers, and raises `Violation` at once when an invariant does not hold."""

    def __init__(
        self,
        servers: Sequence[int],
        bootstrap: Sequence[int],
        *,
        ordered: bool,
        alike: bool = True,
        honest: bool = True,
        now: Callable[[], float],
        timing: Timing,
        slowest: Timing | None = None,
        flow: Flow | None = None,
        cache_bytes: int = CACHE_BYTES,
        invariants: Sequence[type[Invariant]] = ALL,
    ) -> None:
        """`servers`: all servers of the run; servers outside `bootstrap` begin with an empty Configuration.

        `timing`: the time-outs of each server at its start. `slowest`: the longest time-outs that a server ever has;
        None: no server's time-outs change.

        `alike`: whether all servers answer as this program's do. A server of JRaft does not say whether it hears its
        leader.

        `honest`: whether no member claims terms of the far future. Such a member may depose a leader, and the honest
        servers accuse each other while their terms differ.

        `ordered`: whether the answers of one connection come in the order of its requests.

        The core relies on that order when the core reports that a server has lost entries. Without the order, a refusal
        from before the entries arrived could follow a later acknowledgement. So `NobodyAccused` needs the order. So
        does `NothingTwice`: the answer to a heartbeat could overtake the answer to the entries before the heartbeat.
        """
        self.facts = Facts(
            {
                server: ServerFacts(server, tuple(bootstrap) if server in bootstrap else (), timing=timing)
                for server in servers
            },
            now=now,
            timing=timing,
            slowest=slowest or timing,
            flow=flow or Flow(),
            cache_bytes=cache_bytes,
        )
        self.elections = 0
        self.acknowledged_index = 0
        """Highest index that a client knows as committed: every later read must see the entries up to this index."""
        excepted = (
            *(() if ordered else NEED_ORDER),
            *(() if alike else NEED_LIKENESS),
            *(() if honest else NEED_HONESTY),
        )
        self.invariants = [each(self.facts) for each in invariants if each not in excepted]

        def overridden(name: str) -> list[Callable[..., None]]:
            return [
                getattr(each, name)
                for each in self.invariants
                if getattr(type(each), name) is not getattr(Invariant, name)
            ]

        self._boots = overridden("boots")
        self._steps = overridden("steps")
        self._writes = overridden("writes")
        self._takes = overridden("takes")
        self._retimed = overridden("retimed")
        self._leads = overridden("leads")
        self._stands = overridden("stands")
        self._commits = overridden("commits")
        self._committed = overridden("committed")
        self._is_durable = overridden("is_durable")
        self._sends = overridden("sends")
        self._keeps = overridden("keeps")
        self._restores = overridden("restores")
        self._applies = overridden("applies")
        self._chooses = overridden("chooses")
        self._acknowledges = overridden("acknowledges")
        self._refuses = overridden("refuses")
        self._reads = overridden("reads")

    def booted(self, server_id: int, store: Store) -> None:
        """Note that a server has opened its storage, and starts."""
        server = self.facts.servers[server_id]
        first, last = store.loaded.base[0] + 1, store.loaded.last_index
        entries = store.read(first, last, 1 << 40) if first <= last else []
        server.timing = self.facts.timing
        _call(self._boots, server, store.loaded, entries)
        server.restart()

    def ended(self, server_id: int) -> None:
        """Note that a server is down."""
        self.facts.servers[server_id].up = False

    def stepped(self, server_id: int, core: Core, effects: Effects) -> None:
        """Note that a core has taken a step. Call this before any effect of the step leaves the server."""
        server = self.facts.servers[server_id]
        term, commit, leads = core.term, core.commit, core.is_leader
        _call(self._steps, server, term, commit, effects)
        write = effects.write
        if write is not None:
            if write.entries:
                for ask in self._writes:
                    ask(server, write, term, leads=leads)
            if write.snapshot is not None:
                _call(self._keeps, server, write)
            server.take(write, self.facts.committed)
        if core.log.last_index != server.memory.last_index:
            raise Violation("StepsSucceed", f"server {server_id} has changed its log without a write")
        elected = leads and not (server.leads and server.term == term)
        stands = core.role == "candidate" and term > server.term
        server.term, server.leads = term, leads
        if stands:
            _call(self._stands, server)
        if elected:
            self.elections += 1
            server.led_since = self.facts.now()
            _call(self._leads, server)
        if commit > server.commit:
            self._advance(server, commit)

    def waits(self, server_id: int, core: Core, clock: float) -> None:
        """Note the time for which a core waits, at a start and after each step, at this time of its own clock."""
        server = self.facts.servers[server_id]
        server.leader, server.deadline, server.stands_at = core.leader, core.deadline, core.stands_at
        server.stored, server.in_memory = core.log.stored, core.log.in_memory
        server.heard = core.heard
        server.cannot_follow = core.cannot_follow is not None
        server.was_voter = core.was_voter
        server.contacts, server.contacts_mark = core.contacts, core.contacts_mark
        if server.started_at is None:
            server.started_at = clock

    def took(self, server_id: int, event: Input, effects: Effects, clock: float) -> None:
        """Note that a core has taken an input, at this time of its own clock. Call this after `stepped`."""
        server = self.facts.servers[server_id]
        for ask in self._takes:
            ask(server, event, effects, clock)
        if isinstance(event, Unreachable) and event.refused and event.peer == server.leader:
            server.hearing = None  # the server now waits for less than the pauses that `followed` allows

    def retimed(self, server_id: int, core: Core, timing: Timing, clock: float) -> None:
        """Note that a server has got other time-outs, at this time of its own clock."""
        server = self.facts.servers[server_id]
        server.timing = timing
        self.waits(server_id, core, clock)
        _call(self._retimed, server, clock)

    def followed(self, server_id: int, leader: int, term: int) -> None:
        """Note that a server has taken a message of the leader of this term."""
        server, now = self.facts.servers[server_id], self.facts.now()
        hearing = server.hearing
        soon = self.facts.timing.doubt / FASTEST_CLOCK
        if hearing is None or (hearing.leader, hearing.term) != (leader, term) or now > hearing.at + soon:
            server.hearing = Hearing(leader, term, now, now)
        else:
            hearing.at = now

    def _advance(self, server: ServerFacts, commit: int) -> None:
        before, server.commit = server.commit, commit
        _call(self._commits, server, before)
        committed = self.facts.committed
        if commit > len(committed):
            first = len(committed) + 1
            committed += server.memory.slice(first, commit)
            self.facts.marks.append((commit, server.term))
            _call(self._committed, server, first)

    def stored(self, server_id: int, writes: Sequence[Write]) -> None:
        """Note that these writes, in this order, have become durable on a server's disk."""
        server = self.facts.servers[server_id]
        server.make_durable(writes, self.facts.committed)
        _call(self._is_durable, server, writes)

    def damaged(self, server_id: int) -> None:
        """Note that the snapshot of a stopped server is damaged. The server must get one from another server."""
        self.facts.servers[server_id].durable.snapshot = None

    def sent(self, server_id: int, item: Send | SendReply) -> None:
        """Note that a message to another server leaves this server."""
        server = self.facts.servers[server_id]
        for ask in self._sends:
            ask(server, item)

    def restored(self, server_id: int, index: int, data: bytes) -> None:
        """Note that the state machine of a server has begun again from a snapshot, up to `index`.

        `data`: a new snapshot of the state machine, made after that.
        """
        _call(self._restores, self.facts.servers[server_id], index, data)

    def applied(self, server_id: int, index: int, entry: Entry) -> None:
        """Note that a server has applied the entry at `index`."""
        _call(self._applies, self.facts.servers[server_id], index, entry)

    def chose(self, server_id: int, index: int, choice: FarmChoice) -> None:
        """Note a server's choice by the log up to `index`."""
        _call(self._chooses, self.facts.servers[server_id], index, choice)

    def acknowledged(self, values: Sequence[bytes], last_index: int) -> None:
        """Note that a server answers a client: these entries are committed, the last entry at `last_index`."""
        _call(self._acknowledges, values, last_index)

    def heard(self, last_index: int) -> None:
        """Note that an answer has reached a client, who now knows that entries up to `last_index` are committed."""
        self.acknowledged_index = max(self.acknowledged_index, last_index)

    def read(self, server_id: int, applied: int, owed: int) -> None:
        """Note that a server serves a read with entries up to `applied`.

        `owed`: the value of `acknowledged_index` when the client sent the read.
        """
        _call(self._reads, self.facts.servers[server_id], applied, owed)

    def refused(self, values: Sequence[bytes]) -> None:
        """Note that a server answers a client: these entries are surely not in the log, and never will be."""
        _call(self._refuses, values)


def _call(hooks: Sequence[Callable[..., None]], *args: Any) -> None:
    for hook in hooks:
        hook(*args)
