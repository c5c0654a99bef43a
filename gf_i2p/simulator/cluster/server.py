"""One server: a real core between a simulated network, disk and clock, with the real farm state from the log.

The server does the work of the node's driver and farm view, without an event loop.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, cast

from gf_i2p.farm.state import FarmState
from gf_i2p.raft import inputs
from gf_i2p.raft.configurations import Configurations
from gf_i2p.raft.core import Core
from gf_i2p.raft.durability_gate import DurabilityGate
from gf_i2p.raft.effects import Effects, Send, SendReply, Snapshot, Write
from gf_i2p.raft.log import Log
from gf_i2p.raft.settings import Timing
from gf_i2p.simulator.cluster.caller_connections import Order, Post, Query
from gf_i2p.simulator.cluster.disk import Disk, Loss
from gf_i2p.simulator.cluster.disk_contents import Store
from gf_i2p.simulator.cluster.invariants.invariant import OF_JOINS
from gf_i2p.simulator.cluster.links import Connection, Requester, SimulatedLink
from gf_i2p.simulator.events import MachineClock
from gf_i2p.simulator.facts import FarmChoice, Violation, voters_of
from gf_i2p.simulator.registers import CLUSTER, Registers, RegisterWrite
from gf_i2p.storage.errors import StorageError
from gf_i2p.wire.entries import Entry, ValueType
from gf_i2p.wire.log_values import Configuration
from gf_i2p.wire.messages import MessageType, Request, Response

if TYPE_CHECKING:
    from gf_i2p.simulator.cluster.farm import SimulatedFarm

_PAGE_ENTRIES: Final = 64
_PAGE_BYTES: Final = 1 << 20
_NEVER: Final = float("inf")
_SPLIT: Final = b"\n"
"""Separator between the farm's state and the registers, in a snapshot."""


_OF_LEADERS: Final = {MessageType.APPEND_ENTRIES_REQUEST, MessageType.INSTALL_SNAPSHOT_REQUEST}


class SimulatedServer:
    """One simulated server. Each start of its process begins a new life; the disk's content outlives each life."""

    def __init__(self, farm: "SimulatedFarm", server_id: int, store: Store, clock: MachineClock) -> None:
        self.id = server_id
        self.clock = clock
        self.life = 0
        """Number of the present life, which rises at every start and end of the process. An action that was planned for
        an earlier life does not happen."""
        self.up = False
        """Whether the server has a process, running or paused."""
        self.has_power = False
        """Whether the machine has power. A machine with power and without a process refuses connections."""
        self.paused = False
        self.links: dict[int, SimulatedLink] = {}
        self.accepted: dict[int, Connection] = {}
        self.newest_connection: dict[int, int] = {}
        """The number of the newest connection on which each peer has sent a message, by the peer's id."""
        self.store = store
        self._farm = farm
        self._inbox: list[tuple[Callable[..., None], tuple[Any, ...]]] = []

    # Life -----------------------------------------------------------------------------------------------------------

    def boot(self) -> None:
        """Start a process on the content of the disk."""
        farm, plan = self._farm, self._farm.plan
        self.life += 1
        self.up = self.has_power = True
        self.paused = False
        self._inbox.clear()
        self.accepted = {}
        self.newest_connection = {}
        store = self.store
        store.reopen()
        farm.checker.booted(self.id, store)
        life = self.life
        self.disk = Disk(
            farm.events,
            farm.rng,
            store,
            seconds=lambda: plan.sync.seconds(farm.rng),
            on_durable=self._durable,
            on_stored=lambda number: self.enter(life, self._stored, number),
            on_failure=self._halt,
        )
        loaded = store.loaded
        first = plan.bootstrap if self.id in plan.first_ids else Configuration(0, 0, ())
        self.core = Core(
            self.id,
            hard_state=loaded.hard_state,
            log=Log(
                store,
                last_index=loaded.last_index,
                terms=loaded.terms,
                base=loaded.base,
                cache_bytes=plan.cache_bytes,
            ),
            configurations=Configurations(
                first if loaded.configuration is None else loaded.configuration,
                [(index, Configuration.decode(value)) for index, value in loaded.configurations],
            ),
            uniform=farm.rng.uniform,
            now=self.clock.monotonic,
            check_snapshot=_snapshot_fault,
            timing=plan.timing,
            flow=plan.flow,
            snapshot=loaded.snapshot,
        )
        farm.checker.waits(self.id, self.core, self.clock.monotonic)
        self.gate = DurabilityGate()
        self.state = FarmState(CLUSTER)
        self.registers = Registers()
        self.publisher: int | None = None
        """The publisher by the log that this server has applied; None: nobody is chosen."""
        self.applied = 0
        self._swapped: dict[int, bool] = {}  # index of a command: whether its condition held
        self._skipped = 0  # entries up to this index came in a snapshot
        self._keeping = self._snapshot_wanted = False
        self._awaited: list[tuple[int, Callable[[], None]]] = []  # index, and the action when the entry is applied
        self._proposals: list[inputs.Proposal] = []
        self._timer_at = _NEVER
        self._standing = (self.core.term, self.core.role)
        self.links = {}
        self._update_links()
        if loaded.snapshot is not None:
            self._restore(loaded.snapshot)
        self._arm()

    def _update_links(self) -> None:
        """Make links to the core's new contacts, and end links to former contacts."""
        self._contacts_mark = self.core.contacts_mark
        contacts = self.core.contacts
        for peer in [peer for peer in self.links if peer not in contacts]:
            self.links.pop(peer).stop(silently=False)
        for peer in contacts:
            if peer not in self.links:
                self.links[peer] = self._farm.link(self, peer)
                self.links[peer].start()

    def end(self, *, silently: bool) -> Loss:
        """End the process at once, and return the effect on the disk.

        `silently`: whether the machine loses its power, so that no peer hears of the end.
        """
        self.life += 1
        self.up = self.paused = False
        self.has_power = not silently
        self._farm.checker.ended(self.id)
        for link in self.links.values():
            link.stop(silently=silently)
        for connection in tuple(self.accepted.values()):
            connection.close_accepted(silently=silently)
        self.links = {}
        loss, writes = self.disk.crash()
        self._farm.counts["writes lost"] += writes
        return loss

    def _halt(self, error: StorageError) -> None:
        """End the server for good after an error of the disk, as the node's driver does."""
        self._farm.note(self.id, "halts", str(error))
        self.end(silently=False)
        self._farm.halted(self)

    def pause(self) -> None:
        """Stop the process for a while; time goes on."""
        self.paused = True

    def resume(self) -> None:
        """End a pause. The process takes all inputs that wait, source by source; the order of sources is random."""
        self.paused = False
        waiting, self._inbox = self._inbox, []
        sources: dict[tuple[int, str], list[tuple[Callable[..., None], tuple[Any, ...]]]] = {}
        for action, args in waiting:
            source = (id(getattr(action, "__self__", None)), getattr(action, "__name__", ""))
            sources.setdefault(source, []).append((action, args))
        order = list(sources.values())
        self._farm.rng.shuffle(order)
        life = self.life
        for each in order:
            for action, args in each:
                self.enter(life, action, *args)

    def enter(self, life: int, action: Callable[..., None], *args: Any) -> None:
        """Run an action in this server's process: after a pause if the process is paused; never if `life` is over.

        A server that has ended, and was not started again, has no process.
        """
        if life != self.life or not self.up:
            return
        if self.paused:
            self._inbox.append((action, args))
        else:
            action(*args)

    # Inputs ---------------------------------------------------------------------------------------------------------

    def step(self, event: inputs.Input) -> None:
        """Let the core take one step, and carry out the effects."""
        core, farm = self.core, self._farm
        try:
            clock = self.clock.monotonic
            effects = core.step(event, clock)
            farm.checker.stepped(self.id, core, effects)
            farm.checker.waits(self.id, core, clock)
            farm.checker.took(self.id, event, effects, clock)
            if isinstance(event, inputs.Incoming) and _follows(core, event.request):
                farm.checker.followed(self.id, core.leader, core.term)
            if farm.trace is not None:
                farm.trace.step(self, event)
            if effects.write is not None:
                self._write(effects.write)
        except (AssertionError, ArithmeticError, LookupError, TypeError, ValueError, StorageError) as error:
            raise Violation("StepsSucceed", f"server {self.id}: {type(error).__name__}: {error}") from error
        self._perform(effects)
        if effects.restore is not None and effects.restore.index > self.applied:
            farm.counts["snapshots installed"] += 1
            self._restore(effects.restore)
        self._snapshot_wanted = self._snapshot_wanted or effects.snapshot_wanted
        if core.applicable > self.applied or self._snapshot_wanted:
            self._apply()
        if core.contacts_mark != self._contacts_mark:
            self._update_links()
        self._arm()
        standing = (core.term, core.role)
        if standing != self._standing:
            self._standing = standing
            if core.is_leader:
                farm.elected(self)

    def _write(self, write: Write) -> None:
        self.disk.submit(write)
        self._farm.writing(self)

    def _perform(self, effects: Effects) -> None:
        for item in self.gate.take(effects):
            self._release(item)
        for token in effects.dropped:
            cast("Requester", token).drop()
        for ready in effects.reads_ready:
            query = cast("Query", ready.token)
            self.when_applied(ready.read_index, query.served, self)
        for token in effects.reads_refused:
            cast("Query", token).refused()

    def _release(self, item: Send | SendReply) -> None:
        if isinstance(item, Send):
            link = self.links.get(item.peer)
            if link is None:
                self._farm.events.after(0.0, self.enter, self.life, self.failed, item.peer, item.tag)
            else:
                self._farm.checker.sent(self.id, item)
                link.send(self._with_whole_commit(item) if self._farm.plan.whole_commit else item)
                if item.request.type in OF_JOINS and not self._is_voter(item.peer):
                    self._farm.inviting(self, item.peer)
            return
        requester, response = cast("Requester", item.token), item.response
        if not isinstance(item.token, Post | Order):
            if requester.asks:
                response = self._farm.foreign.said(self.id, self.core.leader, response)
            else:
                self._farm.checker.sent(self.id, item)
        requester.answer(response)

    def _is_voter(self, server_id: int) -> bool:
        return any(server.id == server_id for server in self.core.configuration.servers)

    def _with_whole_commit(self, item: Send) -> Send:
        if item.request.type is not MessageType.APPEND_ENTRIES_REQUEST:
            return item
        return item._replace(request=replace(item.request, commit_index=self.core.commit))

    def retime(self, timing: Timing) -> None:
        """Give the core other time-outs, as the node's driver does when the measured round trip has changed."""
        core, clock = self.core, self.clock.monotonic
        core.timing = timing
        core.redraw(clock)
        self._farm.checker.retimed(self.id, core, timing, clock)
        self._arm()

    def answered(self, peer: int, tag: int, response: Response) -> None:
        """Take the answer to the request `tag`, in the form in which the answer arrives (`foreign_answers`)."""
        if seconds := self._farm.foreign.held_up(response):
            self._farm.events.after(seconds, self.enter, self.life, self._take_answer, peer, tag, response)
        else:
            self._take_answer(peer, tag, response)

    def _take_answer(self, peer: int, tag: int, response: Response) -> None:
        arrived, facts = self._farm.foreign.passed_on(response, leads=self.core.is_leader), self._farm.checker.facts
        if arrived.type is MessageType.APPEND_ENTRIES_RESPONSE and arrived is not response:
            facts.denier = peer
        try:
            self.step(inputs.Answered(peer, tag, arrived))
        finally:
            facts.denier = None

    def failed(self, peer: int, tag: int) -> None:
        """Note that the request `tag` to this peer gets no answer."""
        self.step(inputs.Failed(peer, tag))

    def propose(self, post: Post, entries: Sequence[Entry]) -> None:
        """Take a client's entries. Entries that arrive in one turn of the loop are proposed together."""
        if not self._proposals:
            self._farm.events.after(0.0, self.enter, self.life, self._propose)
        self._proposals.append(inputs.Proposal(post, entries))

    def _propose(self) -> None:
        proposals, self._proposals = self._proposals, []
        self.step(inputs.Propose(proposals))

    # Timer and disk -------------------------------------------------------------------------------------------------

    def _arm(self) -> None:
        deadline = self.core.deadline
        if deadline < self._timer_at:
            self._timer_at = deadline
            self._farm.events.after(self.clock.wait(deadline), self.enter, self.life, self._timer, deadline)

    def _timer(self, planned: float) -> None:
        if planned != self._timer_at:
            return  # an earlier timer has replaced this one
        self._timer_at = _NEVER
        if self.clock.monotonic >= self.core.deadline:
            self.step(inputs.Tick())
        else:
            self._arm()

    def _durable(self, writes: Sequence[Write]) -> None:
        self._farm.checker.stored(self.id, writes)

    def _stored(self, number: int) -> None:
        for item in self.gate.stored(number):
            self._release(item)
        self.step(inputs.Stored(number))

    # State ----------------------------------------------------------------------------------------------------------

    def _apply(self) -> None:
        core, farm = self.core, self._farm
        while core.log.base <= self.applied < core.applicable:
            page = core.log.slice(self.applied + 1, core.applicable, max_entries=_PAGE_ENTRIES, max_bytes=_PAGE_BYTES)
            for entry in page:
                self.applied += 1
                farm.checker.applied(self.id, self.applied, entry)
                self._take_in(entry)
        if self._awaited:
            awaited, self._awaited = self._awaited, []
            for index, action in awaited:
                self.when_applied(index, action)
        snapshot_index = 0 if core.snapshot is None else core.snapshot.index
        new_entries = self.applied - snapshot_index
        if (
            new_entries > 0
            and not self._keeping
            and (self._snapshot_wanted or new_entries >= farm.plan.snapshot_entries)
        ):
            self._keeping = True
            drop = max(self.applied - farm.plan.kept_entries, core.log.base)
            event = inputs.Snapshotted(self.applied, self._snapshot(), drop)
            farm.events.after(0.0, self.enter, self.life, self._keep_snapshot, event)

    def _snapshot(self) -> bytes:
        return self.state.encode() + _SPLIT + self.registers.encode()

    def _keep_snapshot(self, event: inputs.Snapshotted) -> None:
        self._keeping = self._snapshot_wanted = False
        self._farm.counts["snapshots kept"] += 1
        self.step(event)

    def _restore(self, snapshot: Snapshot) -> None:
        """Let the state machine begin again from a snapshot. Raises `Violation` if the snapshot cannot be read."""
        try:
            self.state, self.registers = _decode(snapshot.data)
        except ValueError as error:
            raise Violation("SnapshotSafety", f"server {self.id} cannot read its snapshot: {error}") from error
        self.applied = self._skipped = snapshot.index
        self._farm.checker.restored(self.id, snapshot.index, self._snapshot())
        self._choose()

    def _take_in(self, entry: Entry) -> None:
        if entry.value_type is ValueType.CONFIGURATION:
            self.state.configure(voters_of(entry))
        else:
            command = RegisterWrite.decode(entry.value)
            if command is not None:
                self._swapped[self.applied] = self.registers.apply(command)
                return
            self.state.apply(entry.value, self.applied)
        self._choose()

    def _choose(self) -> None:
        self.publisher = self.state.publisher
        state = self.state
        choice = FarmChoice(state.publisher, state.common_setting, tuple(state.listing.listed))
        self._farm.checker.chose(self.id, self.applied, choice)

    def when_applied(self, index: int, action: Callable[..., None], *args: Any) -> None:
        """Call `action(*args)` once this server has applied the entry at `index`; never, if the process ends first."""
        if self.applied >= index:
            action(*args)
        else:
            self._awaited.append((index, lambda: action(*args)))

    def swapped(self, index: int) -> bool | None:
        """Return whether the condition of the register's command at this index held.

        False for an entry that is no such command. None: this server cannot tell, because a snapshot covers the entry.
        """
        return None if index <= self._skipped else self._swapped.get(index, False)


def _follows(core: Core, request: Request) -> bool:
    """Whether the core, after the request, takes the request's sender for the leader."""
    return request.type in _OF_LEADERS and request.source == core.leader and request.term == core.term


def _decode(data: bytes) -> tuple[FarmState, Registers]:
    """Read a snapshot's data. Raises `ValueError`."""
    state, _, registers = data.partition(_SPLIT)
    return FarmState.decode(CLUSTER, state), Registers.decode(registers)


def _snapshot_fault(data: bytes) -> str | None:
    """Return why a snapshot's data cannot be read, as a clause; None: the data can be read."""
    try:
        _decode(data)
    except ValueError as error:
        return str(error)
    return None
