"""The driver of one farm's core: feeds the core from connections, disk and timers, and performs the core's effects.

Everything here runs in the event loop's thread; only the storage writer has a thread of its own. Requests that arrive
in one turn of the loop are proposed together. So these requests share one write and one message to each follower.
"""

import asyncio
import contextlib
import random
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeVar, cast

import structlog
from structlog.contextvars import get_contextvars

from gf_i2p.node.consensus.measured import Measured
from gf_i2p.node.consensus.peer import Done, Peer
from gf_i2p.node.consensus.timing import Timeouts, TimingPlan
from gf_i2p.raft import inputs
from gf_i2p.raft.configurations import Configurations
from gf_i2p.raft.core import Core
from gf_i2p.raft.durability_gate import DurabilityGate
from gf_i2p.raft.effects import CheckSnapshot, Effects, Send, SendReply, Snapshot, Token
from gf_i2p.raft.log import Log, size_of
from gf_i2p.raft.settings import Flow, Timing
from gf_i2p.storage.database import Storage
from gf_i2p.storage.errors import StorageError
from gf_i2p.storage.writer import LogWriter
from gf_i2p.transport.backoff import Backoff
from gf_i2p.transport.delivery import NotTaken, deliver
from gf_i2p.wire.entries import Entry, ValueType
from gf_i2p.wire.errors import NotCommittedError
from gf_i2p.wire.limits import MAX_BUFFERED_BYTES, MAX_REQUESTS_IN_FLIGHT
from gf_i2p.wire.log_values import Configuration
from gf_i2p.wire.messages import NOBODY, RESPONSE_TYPE, MessageType, OversizedRequest, Request, Response

logger = structlog.get_logger()

_T = TypeVar("_T")

RETRY_SECONDS: Final = 0.05
"""Seconds before a post is tried again, when the post was refused or no leader was known."""
MAX_FORWARDED: Final = MAX_REQUESTS_IN_FLIGHT // 2
"""Most posts on the way to the leader; more posts wait. A link drops a connection with too many open requests."""
MAX_FORWARDED_BYTES: Final = MAX_BUFFERED_BYTES // 2
"""Most bytes of posts on the way to the leader; a larger post travels alone."""
LARGE_PROPOSAL: Final = 512
"""Entries from which a proposal waits for no other: each turn of the loop then has time for few such proposals."""
BROKEN: Final = "a server broke the protocol"


class NotLeaderError(NotCommittedError):
    """Another server leads; the message names that server."""


_NO_LEADER: Final = NotTaken("no leader could be reached within the time limit; see `gf-i2p status`")


async def _refusal(leader: int, response: Response | None) -> NotTaken:
    """Return why the server that was taken for the leader has refused a post."""
    if response is not None and response.destination == leader:
        return NotTaken("the leader's queue is full, or [limits] in its gf-i2p.toml allow no more: post less, or wait")
    return _NO_LEADER


class Driver:
    """Runs the consensus of one farm in one process.

    The driver reports measurements to `timeouts`, and calls `on_timing` when the time-outs have changed. The driver
    calls `on_halt` once, when the log cannot be written or read, or a step fails. The state in memory may then be
    wrong: the driver answers nothing any more, and the process should end.
    """

    def __init__(
        self,
        server_id: int,
        storage: Storage,
        *,
        bootstrap: Configuration,
        timeouts: Timeouts,
        check_snapshot: CheckSnapshot,
        on_halt: Callable[[BaseException], None],
        on_timing: Callable[[Timing], None] = lambda _: None,
        flow: Flow | None = None,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        # Threads and connections call this object outside the context that made it.
        self._log = logger.bind(**get_contextvars(), server=server_id)
        self._on_halt = on_halt
        self._on_timing = on_timing
        self.timeouts = timeouts
        self._timing = timeouts.timing
        self._end_reason: str | None = None
        """Why the driver takes no more input, as a clause for callers; None while the driver runs."""
        self._peers: Mapping[int, Peer] = {}
        self._writer = LogWriter(storage, on_durable=self._durable_in_thread, on_failure=self._failed_in_thread)
        self.measured = Measured(writes=self._writer.times)
        self._gate = DurabilityGate()
        self._proposals: list[inputs.Proposal] = []
        self._timer: asyncio.Handle | None = None
        self._timer_at = 0.0  # not every handle of uvloop tells its time
        self.on_applicable: list[Callable[[], None]] = []
        """Each is called when more entries can be applied; must not raise."""
        self.on_restore: list[Callable[[Snapshot], None]] = []
        """Each is called with a snapshot to restore from; must not raise."""
        self.on_snapshot_wanted: Callable[[], None] | None = None
        """Called when another server needs a newer snapshot than the stored one; must not raise."""
        self.on_contacts: Callable[[Mapping[int, str]], None] = lambda _: None
        """Called with the endpoints of the servers to reach when these have changed; must not raise."""
        self.on_given_up: Callable[[], str | None] = lambda: None
        """Called when a joining server is given up; returns further reasons, if known; must not raise."""
        self.on_violation: Callable[[str], None] = lambda fault: self._log.error(BROKEN, what=fault)
        """Called when a server breaks the protocol, with the fault as a clause; must not raise."""
        self.on_standing: Callable[[Core], None] = lambda _: None
        """Called when the term, the role or the leader has changed; must not raise."""
        self.notice: str | None = None
        """Why the last change of the servers failed; None while a change is under way, or when no change has failed."""
        self._applicable = 0
        self._applied_waiters: list[tuple[int, asyncio.Future[None]]] = []
        self._forwarded: dict[int, list[int]] = {}
        """The sizes in bytes of the posts that are on the way to another server, by the server's id."""
        self._callers: set[asyncio.Future[Any]] = set()
        loaded = storage.loaded
        if loaded.snapshot_fault is not None:
            self._log.error("the snapshot cannot be used: the leader is asked for another", what=loaded.snapshot_fault)
        configurations = [(index, Configuration.decode(value)) for index, value in loaded.configurations]
        self.core = Core(
            server_id,
            hard_state=loaded.hard_state,
            log=Log(storage, last_index=loaded.last_index, terms=loaded.terms, base=loaded.base),
            configurations=Configurations(
                bootstrap if loaded.configuration is None else loaded.configuration, configurations
            ),
            uniform=random.SystemRandom().uniform,
            now=self._loop.time(),
            check_snapshot=check_snapshot,
            timing=timeouts.timing,
            flow=flow,
            snapshot=loaded.snapshot,
        )
        self._deadline = self.core.deadline  # as of the last step, or of the last change of the timing
        self._contacts_mark: object = None
        self._contacts: Mapping[int, str] | None = None
        self._servers: set[int] = set()
        self._standing = (self.core.term, self.core.role, self.core.leader)

    # Life -----------------------------------------------------------------------------------------------------------

    def start(self, peers: Mapping[int, Peer]) -> None:
        """Take part in the farm. `peers` holds the connections to all other servers, by id."""
        self._peers = peers
        self._writer.start()
        self._check_configuration()
        self._arm()

    async def stop(self, grace: float) -> None:
        """Wait up to `grace` seconds until the entries accepted by this leader are committed; then end all writes."""
        if self.core.is_leader and self._end_reason is None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(grace):
                    await self.applied(self.core.log.last_index)
        self._end("this node is stopping")
        await asyncio.to_thread(self._writer.stop)

    @property
    def stands_in(self) -> float | None:
        """Seconds until this server stands for election, if a majority then hears no leader; None while it leads."""
        return None if self.core.is_leader else max(self.core.stands_at - self._loop.time(), 0.0)

    @property
    def halted(self) -> bool:
        """Whether the driver takes and answers nothing any more."""
        return self._end_reason is not None

    def _end(self, reason: str) -> None:
        """Take no more input; waiting callers learn that the outcome is unknown."""
        if self._end_reason is None:
            self._end_reason = reason
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for caller in tuple(self._callers):
            _resolve(caller, None)

    # Inputs ---------------------------------------------------------------------------------------------------------

    def incoming(self, request: Request, done: Done) -> None:
        """Take a request from a server or client. The caller has checked the user's right to send the request."""
        if self._end_reason is not None:
            done(None)
        elif request.type is MessageType.CLIENT_REQUEST:
            self._collect(inputs.Proposal(done, request.entries))
        else:
            self._check_clock()
            self.timeouts.incoming(request, self._loop.time())
            self._adopt_timing()
            if isinstance(request, OversizedRequest):
                self._pass_over(request, done)
            else:
                self._step(inputs.Incoming(done, request))

    def refuse(self, request: Request, done: Done) -> None:
        """Refuse a request that only a leader serves. The answer names the leader, which may be this server."""
        if self._end_reason is not None:
            done(None)
        elif (core := self.core).is_leader:
            last, kind = core.log.last_index, RESPONSE_TYPE[request.type]
            done(Response(kind, core.id, core.id, core.term, last + 1, accepted=False))
        else:
            self._step(inputs.Propose([inputs.Proposal(done, request.entries)]))

    def _pass_over(self, request: OversizedRequest, done: Done) -> None:
        """Take a request with too large entries. The answer leaves late: a JRaft leader repeats the request at once."""

        def late(response: Response | None) -> None:
            self._loop.call_later(self.core.timing.doubt / 2, self._answer, done, response)

        followed = self.core.cannot_follow is None
        self._step(inputs.Incoming(late, request))
        if followed and self.core.cannot_follow is not None:
            self._log.error("cannot follow the leader", what=self.core.cannot_follow)

    def reachable(self, peer: int, round_trip: float | None = None) -> None:
        """Note a new connection to `peer`. `round_trip`: seconds of one round trip in its handshake; None: unknown."""
        if self._end_reason is None:
            self.timeouts.reachable(peer, round_trip, self._loop.time())
            self._adopt_timing()
            self._step(inputs.Reachable(peer))

    def dialled(self, peer: int) -> None:
        """Note that `peer` has dialled this node, and keeps the connection."""
        if self._end_reason is None:
            self.timeouts.dialled(peer, self._loop.time())
            self._adopt_timing()

    def unreachable(self, peer: int, *, refused: bool) -> None:
        """Note that the connection broke, and a later dial has failed. `refused`: see `inputs.Unreachable`."""
        if self._end_reason is None:
            self._step(inputs.Unreachable(peer, refused))

    async def post(self, values: Sequence[bytes], *, seconds: float) -> int:
        """Append Application entries; return the index of the last one when all are committed.

        `seconds` is the time limit. Raises `NotCommittedError` or `OutcomeUnknownError`.
        """
        entries = tuple(Entry(0, ValueType.APPLICATION, value) for value in values)
        try:
            _, response = await deliver(
                partial(self._reachable_leader, entries),
                partial(self._submit, entries, self._loop.time() + seconds),
                _refusal,
                final=lambda response: response.accepted,
                unknown=self._unknown,
                pause=Backoff(floor=RETRY_SECONDS, ceiling=RETRY_SECONDS),
                seconds=seconds,
            )
        except NotCommittedError as error:
            raise NotCommittedError(f"not committed: {self._end_reason or error}") from None
        return response.next_index - 1

    def _unknown(self, _: int, late: bool) -> str:  # noqa: ARG002 -- as `deliver` calls it
        why = "the connection to the leader broke, or the leader was deposed, or the time limit passed"
        return (
            f"{self._end_reason or why}: the entry may be in the log, or get there. Look for the entry before you post "
            "again, or post only entries that do no harm twice."
        )

    async def _reachable_leader(self, entries: Sequence[Entry]) -> int | NotTaken:
        """Return the leader's id, or why nothing can be posted now.

        A leader other than this server must be connected, and the way there must have room for these entries. Raises
        `NotCommittedError` when this driver has ended.
        """
        if self._end_reason is not None:
            raise NotCommittedError
        leader = self.core.leader
        peer = self._peers.get(leader)
        if peer is None or not peer.connected:
            return leader if self.core.is_leader else _NO_LEADER
        sizes = self._forwarded.get(leader, [])
        if sizes and (len(sizes) >= MAX_FORWARDED or sum(sizes) + sum(map(size_of, entries)) > MAX_FORWARDED_BYTES):
            return NotTaken("too many posts are on the way to the leader: post less at a time, or wait longer")
        return leader

    async def _submit(self, entries: tuple[Entry, ...], end: float, leader: int) -> Response | None:
        """Propose the entries to this server's core, or send them to the leader, and return the answer.

        None: the outcome is unknown. `end`: the caller's time limit, by the clock of the event loop.
        """
        answer: asyncio.Future[Response | None] = self._caller()
        done = partial(_resolve, answer)
        if leader == self.core.id:
            self._collect(inputs.Proposal(done, entries))
            return await answer
        request = Request(MessageType.CLIENT_REQUEST, self.core.id, leader, 0, 0, 0, 0, entries)
        # A link drops the connection when an answer is late, and with the connection the posts of other callers. So the
        # link waits longer than this caller, who may have set a short time limit.
        seconds = end - self._loop.time() + self.core.timing.election_max
        size = sum(map(size_of, entries))
        self._peers[leader].send(request, partial(self._forwarded_answered, leader, size, done), seconds=seconds)
        self._forwarded.setdefault(leader, []).append(size)
        return await answer

    def _forwarded_answered(self, peer: int, size: int, done: Done, response: Response | None) -> None:
        self._forwarded[peer].remove(size)
        done(response)

    def _abandon_posts(self) -> None:
        """Reset each connection that carries posts to a server that no longer leads.

        Such a server may hang. A server answers in order, so its answers to AppendEntries would wait behind the posts.
        """
        for peer, sizes in self._forwarded.items():
            if sizes and self.core.leader not in {peer, NOBODY} and peer in self._peers:
                self._peers[peer].reset("the server no longer leads, and posts were on the way there")

    async def read_barrier(self) -> int:
        """Return the index up to which this leader's log must be read to see every entry acknowledged before the call.

        Raises `NotLeaderError` when another server leads. Raises `NotCommittedError` when this server knows no leader
        that a majority follows, or when this driver has ended.
        """
        if self._end_reason is not None:
            raise NotCommittedError(self._end_reason)
        answer: asyncio.Future[int | None] = self._caller()
        self._step(inputs.Read(answer))
        index = await answer
        if index is not None:
            await self.applied(index)
        if self._end_reason is not None:
            raise NotCommittedError(self._end_reason)
        if index is None:
            if self.core.leader not in {NOBODY, self.core.id}:
                raise NotLeaderError(
                    f"only the leader, server {self.core.leader}, can promise that nothing newer exists: ask there, "
                    "or ask for the entries that this server knows, without --newest"
                )
            raise NotCommittedError(
                "no leader has a majority of followers now, and only such a leader can promise that nothing newer "
                "exists: see `gf-i2p status`, or ask for the entries that this server knows, without --newest"
            )
        return index

    def applied(self, index: int) -> asyncio.Future[None]:
        """Return a future that ends when the entry at this index can be applied, or when this driver ends."""
        future: asyncio.Future[None] = self._caller()
        if self.core.applicable >= index:
            future.set_result(None)
        else:
            self._applied_waiters.append((index, future))
        return future

    def _caller(self) -> asyncio.Future[Any]:
        """Return a future for a caller that waits; when this driver ends, the future ends with None."""
        future: asyncio.Future[Any] = self._loop.create_future()
        self._callers.add(future)
        future.add_done_callback(self._callers.discard)
        return future

    def _collect(self, proposal: inputs.Proposal) -> None:
        if not self._proposals:
            self._loop.call_soon(self._propose)
        self._proposals.append(proposal)
        if len(proposal.entries) >= LARGE_PROPOSAL:
            self._propose()

    def _propose(self) -> None:
        proposals, self._proposals = self._proposals, []
        if self._end_reason is None and proposals:
            self._step(inputs.Propose(proposals))
        else:
            for proposal in proposals:
                self._answer(proposal.token, None)

    def _answered(self, peer: int, tag: int, response: Response | None) -> None:
        if self._end_reason is not None:
            return
        if response is None:
            self.timeouts.failed(tag)
            self._step(inputs.Failed(peer, tag))
        else:
            self._check_clock()
            self.timeouts.answered(tag, self._loop.time())
            self._adopt_timing()
            self._step(inputs.Answered(peer, tag, response))

    # Membership and snapshots -----------------------------------------------------------------------------------------

    async def change_servers(self, request: Request, *, seconds: float) -> Response | None:
        """Send an AddServerRequest or a RemoveServerRequest to the leader, which may be this server.

        Return the leader's answer; accepted means that the change has begun. None: no leader has answered within
        `seconds`, or this server knows no leader.
        """
        answer: asyncio.Future[Response | None] = self._caller()
        leader = self.core.leader
        self.notice = None
        if leader == self.core.id:
            self.incoming(request, partial(_resolve, answer))
        elif leader in self._peers:
            self._peers[leader].send(request, partial(_resolve, answer))
        else:
            return None
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                return await answer
        return None

    def step_down(self) -> None:
        """Let another server lead: a leader steps down, and is no candidate for a while."""
        if self._end_reason is None:
            self._step(inputs.StepDown())

    def snapshotted(self, last_index: int, data: bytes, drop: int) -> None:
        """Take a snapshot: `data` is the state after entry `last_index`. The log may drop the entries up to `drop`."""
        if self._end_reason is None:
            self._step(inputs.Snapshotted(last_index, data, drop))

    # Timer ----------------------------------------------------------------------------------------------------------

    def change_plan(self, plan: TimingPlan) -> None:
        """Use the time-outs of another plan from now on."""
        self.timeouts.plan = plan
        self._adopt_timing()
        if self._timer is not None:
            self._arm()

    def _adopt_timing(self) -> None:
        """Pass changed time-outs on to the core and to `on_timing`."""
        timing = self.timeouts.timing
        if timing != self._timing:
            self._timing = self.core.timing = timing
            self.core.redraw(self._loop.time())
            self._deadline = self.core.deadline
            self._on_timing(timing)

    def _arm(self) -> None:
        """Make sure that a timer ends no later than the core's deadline.

        Most steps only push the deadline back. An earlier timer then stays, and `_tick` sets the next one.
        """
        deadline = self._deadline = self.core.deadline
        if self._timer is not None:
            if self._timer_at <= deadline:
                return
            self._timer.cancel()
        self._timer_at = deadline
        self._timer = self._loop.call_at(deadline, self._tick)

    def _check_clock(self) -> None:
        """Tell `timeouts` when this process stood still.

        Called before each input, and not only by the timer: after a standstill, the timer may end after waiting input.
        """
        now = self._loop.time()
        if now > self._deadline + self._timing.election_min:
            self.timeouts.stood_still(now)

    def _tick(self) -> None:
        self._timer = None
        self._check_clock()
        if self._loop.time() >= self.core.deadline:
            self._step(inputs.Tick())
        else:
            self._arm()

    # Disk -----------------------------------------------------------------------------------------------------------

    def _durable_in_thread(self, number: int) -> None:
        self._loop.call_soon_threadsafe(self._stored, number)

    def _failed_in_thread(self, error: BaseException) -> None:
        self._loop.call_soon_threadsafe(self.halt, error)

    def halt(self, error: BaseException) -> None:
        """Stop for good and answer nothing more: an answer could promise a write that is not on the disk."""
        if self._end_reason is None:
            # A sentence tells the operator what to mend; a traceback is for defects of this program.
            trace = None if isinstance(error, StorageError | OSError) else error
            self._log.critical("this node stops by itself", error=str(error), exc_info=trace)
            self._end(f"this node has stopped by itself ({error})")
            self._on_halt(error)

    def _stored(self, number: int) -> None:
        for item in self._gate.stored(number):
            self._release(item)
        if self._end_reason is None:
            self._step(inputs.Stored(number))

    # Effects --------------------------------------------------------------------------------------------------------

    def _step(self, event: inputs.Input) -> None:
        try:
            effects = self.core.step(event, self._loop.time())
        except Exception as error:  # noqa: BLE001 -- the error may leave the core half changed
            self.halt(error)
            return
        self._perform(effects)
        self._adopt_timing()
        self._arm()
        if self._applied_waiters:
            self._wake_readers()
        if self.core.applicable > self._applicable:
            self._applicable = self.core.applicable
            self.measured.committed(self.core, self._loop.time())
            for tell in self.on_applicable:
                tell()
        if effects.restore is not None:
            for restore in self.on_restore:
                restore(effects.restore)
        if effects.snapshot_wanted and self.on_snapshot_wanted is not None:
            self.on_snapshot_wanted()
        if self.core.contacts_mark != self._contacts_mark:
            self._check_configuration()
        standing = (self.core.term, self.core.role, self.core.leader)
        if standing != self._standing:
            self._standing = standing
            self.measured.follows(self.core.term, self.core.leader)
            self.on_standing(self.core)
            self._abandon_posts()

    def _check_configuration(self) -> None:
        """Tell `timeouts` when the servers have changed. Report the servers to reach when these have changed.

        The servers to reach are the members, and the servers that are joining or leaving.
        """
        self._contacts_mark = self.core.contacts_mark
        servers = {server.id for server in self.core.configuration.servers}
        if servers and servers != self._servers:  # a joining server has no Configuration yet
            self._servers = servers
            self.timeouts.change_servers(servers - {self.core.id})
            self._adopt_timing()
        contacts = self.core.contacts
        if contacts != self._contacts:
            self._contacts = contacts
            self.on_contacts(contacts)

    def _perform(self, effects: Effects) -> None:
        if effects.write is not None:
            self._writer.submit(effects.write)
            self.measured.wrote(self.core, effects.write, self._loop.time())
        for item in self._gate.take(effects):
            self._release(item)
        for token in effects.dropped:
            self._answer(token, None)
        for ready in effects.reads_ready:
            _resolve(cast(asyncio.Future[int | None], ready.token), ready.read_index)
        for token in effects.reads_refused:
            _resolve(cast(asyncio.Future[int | None], token), None)
        if effects.notice is not None:
            reasons = self.on_given_up()
            self.notice = f"{effects.notice} ({reasons})" if reasons else effects.notice
            self._log.warning("servers", what=self.notice)
        if effects.violation is not None:
            self.on_violation(effects.violation)

    def _release(self, item: Send | SendReply) -> None:
        if isinstance(item, SendReply):
            self._answer(item.token, item.response)
            return
        self.timeouts.sent(item, self._loop.time())
        done = partial(self._answered, item.peer, item.tag)
        peer = self._peers.get(item.peer)
        try:
            if peer is not None:
                peer.send(item.request, done)
                return
        except Exception:  # noqa: BLE001 -- a defect of one connection must not stop the rest of the step
            self._log.exception("a request could not be sent", peer=item.peer, type=item.request.type.name)
        self._loop.call_soon(done, None)

    def _answer(self, token: Token, response: Response | None) -> None:
        """Answer a caller. A caller's error must not stop the rest of the step."""
        try:
            cast(Done, token)(response)
        except Exception:  # noqa: BLE001 -- as above
            self._log.exception("an answer could not be handed over")

    def _wake_readers(self) -> None:
        applicable = self.core.applicable
        waiting, self._applied_waiters = [each for each in self._applied_waiters if not each[1].done()], []
        for index, future in waiting:
            if index > applicable:
                self._applied_waiters.append((index, future))
            else:
                future.set_result(None)


def _resolve(future: asyncio.Future[_T], result: _T) -> None:
    """Set the result of a future unless its caller has given up."""
    if not future.done():
        future.set_result(result)
