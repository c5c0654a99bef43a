"""Invariants about the acts that a server owes at once: an answer, the next request, an end of patience.

A server that forgets such an act does no harm at once: a later heartbeat or time-out hides the mistake, and the farm is
only slower. These invariants notice the mistake itself. Times are seconds of the server's own monotonic clock.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from gf_i2p.raft.configurations import agreed
from gf_i2p.raft.effects import Effects, Token
from gf_i2p.raft.election_timeout import LAST_RESORT
from gf_i2p.raft.inputs import (
    Answered,
    Incoming,
    Input,
    Propose,
    Reachable,
    Read,
    Snapshotted,
    Stored,
    Tick,
    Unreachable,
)
from gf_i2p.raft.settings import Timing
from gf_i2p.simulator.cluster.invariants.invariant import ROUNDING, Invariant
from gf_i2p.simulator.cluster.invariants.replication import Flight, Following, Replication
from gf_i2p.simulator.facts import Facts, ServerFacts
from gf_i2p.storage.loading import Loaded
from gf_i2p.wire.entries import Entry
from gf_i2p.wire.messages import NOBODY, MessageType, Request, Response


class CallersAnswered(Invariant):
    """A server answers each request, or drops the caller, in the step that takes the request (Raft 5.1).

    Only the entries of clients wait, and only while the server leads. A server drops another server only with a reason.
    """

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._open: dict[int, set[Token]] = {}

    def boots(self, server: ServerFacts, loaded: Loaded, entries: Sequence[Entry]) -> None:
        self._open[server.id] = set()

    def takes(self, server: ServerFacts, event: Input, effects: Effects, clock: float) -> None:
        waiting = self._open[server.id]
        if isinstance(event, Incoming):
            waiting.add(event.token)
        elif isinstance(event, Propose):
            waiting.update(proposal.token for proposal in event.proposals)
        elif not waiting:
            return
        for reply in (*effects.replies, *effects.gated_replies):
            waiting.discard(reply.token)
        waiting.difference_update(effects.dropped)
        if isinstance(event, Incoming) and event.request.type is not MessageType.CLIENT_REQUEST:
            name = event.request.type.name
            if event.token in waiting:
                raise self.violated(f"server {server.id} takes a {name}, and gives no answer")
            if event.token in effects.dropped and not effects.violation:
                raise self.violated(f"server {server.id} drops a {name} without a reason")
        if waiting and not server.leads:
            raise self.violated(f"server {server.id} does not lead, and gives {len(waiting)} callers no answer")


class LeaderGoesOn(Invariant):
    """A leader that gets an answer sends at once what the peer needs next, and never too much at a time.

    Raft 5.3; `gf_i2p/raft/follower_progress.py`. Without a request on the way, the peer would wait for the next
    heartbeat. At most `Flow.in_flight` requests to a peer are on the way. New entries leave at once, and what a
    majority has stored is committed at once (Raft 5.4.2).
    """

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._replication = Replication()

    def takes(self, server: ServerFacts, event: Input, effects: Effects, clock: float) -> None:
        voters = self._replication.voters(server)
        if not server.leads:
            return
        flight = self._replication.answered(server, event)
        if isinstance(event, Propose) and effects.write is not None:
            self._check_new(server, voters, effects)
        owed: int | None = None
        if flight is not None and isinstance(event, Answered):
            following = voters[event.peer]
            if _goes_on(flight, event.response, following.match, server.memory.last_index):
                owed = event.peer
        self._replication.sent_all(server, effects.sends)
        for peer, following in voters.items():
            if len(following.flights) > self.facts.flow.in_flight:
                raise self.violated(f"leader {server.id} has {len(following.flights)} requests to {peer} on the way")
        if owed is not None and not voters[owed].flights and not effects.snapshot_wanted:
            raise self.violated(f"leader {server.id} has an answer of server {owed}, and does not go on")
        accepts = flight is not None and isinstance(event, Answered) and event.response.accepted
        news = accepts and isinstance(event, Answered) and voters[event.peer].match > server.commit
        if news or isinstance(event, Stored):
            self._check_commit(server, voters)

    def _check_new(self, server: ServerFacts, voters: Mapping[int, Following], effects: Effects) -> None:
        """Check that new entries leave at once to each voter whose log is known to agree."""
        told = {send.peer for send in effects.sends}
        for voter, following in voters.items():
            has_room = following.agrees and len(following.flights) < self.facts.flow.in_flight
            if has_room and voter not in told and not effects.snapshot_wanted:
                raise self.violated(f"leader {server.id} has new entries, and sends server {voter} nothing")

    def _check_commit(self, server: ServerFacts, voters: Mapping[int, Following]) -> None:
        has = [server.stored if voter == server.id else _match(voters, voter) for voter in server.voters]
        index = agreed(has)
        if index > server.commit and server.memory.term(index) == server.term:
            raise self.violated(
                f"leader {server.id} does not commit entry {index}, which a majority of {list(server.voters)} has"
            )


class DenialsReported(Invariant):
    """A leader reports a follower that refuses an entry that it has acknowledged: that server has lost its log.

    Raft 5.1 needs stable storage. The leader reports each follower once in a term, and goes on.
    """

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._replication = Replication()
        self._reported: dict[int, tuple[int, set[int]]] = {}  # by leader: its term, and the reported servers

    def takes(self, server: ServerFacts, event: Input, effects: Effects, clock: float) -> None:
        voters = self._replication.voters(server)
        if not server.leads:
            return
        term, reported = self._reported.get(server.id, (0, set()))
        if term != server.term:
            reported = set()
            self._reported[server.id] = server.term, reported
        flight = self._replication.answered(server, event)
        if flight is not None and isinstance(event, Answered) and flight.block is None:
            response = event.response
            denies = not response.accepted and response.next_index > 0
            if denies and 0 < flight.previous <= voters[event.peer].match and event.peer not in reported:
                reported.add(event.peer)
                if effects.violation is None:
                    raise self.violated(f"leader {server.id} does not report server {event.peer}, which denies entries")
        self._replication.sent_all(server, effects.sends)


def _match(voters: Mapping[int, Following], voter: int) -> int:
    return voters[voter].match if voter in voters else 0


def _goes_on(flight: Flight, response: Response, match: int, last: int) -> bool:
    """Whether the leader must send more after an answer. `match`, `last`: last entries of the voter and the leader."""
    block = flight.block
    if block is not None:
        end = block.offset + len(block.data)
        if response.accepted:
            return match < last if block.done and response.next_index >= end else True
        return response.next_index < end and response.next_index != block.offset
    if response.accepted:
        return match < last
    # 0: the peer needs a snapshot.
    return response.next_index == 0 or min(response.next_index, flight.previous) > match


@dataclass(slots=True)
class _Patience:
    """The reasons of a follower to wait for its leader."""

    leader: int = NOBODY
    term: int = 0
    """The term of `leader`."""
    heard_at: float = float("-inf")
    """Time of the last message of `leader`, or of the start."""
    doubted_at: float | None = None
    """Since when the leader cannot be dialled; None: no such notice since the leader's last message."""
    refused_at: float | None = None
    """Since when the leader's machine refuses connections; None: no such notice since the leader's last message."""
    misled: bool = False
    """Whether this leader was heard after a refusal: a later refusal shows no more than silence."""
    latest: float = float("inf")
    """Latest time at which the server gives this leader up, unless the leader is heard again."""
    waits_since: float = float("-inf")
    """Time of the start, or of the end of this server's leadership, if no leader was heard since then."""
    earliest: float = float("-inf")
    """Earliest time of an election after `waits_since`."""
    stood: bool = False
    """Whether the server has stood for election since its start."""
    wait_ends: float = float("inf")
    """End of the running time-out."""
    unheard: int = 0
    """Time-outs in a row that have ended since a leader was heard, or since the server led."""
    asked: bool = False
    """Whether, since a leader was heard, a candidate has asked for this server's vote."""
    led: bool = False
    """Whether the server led after its last step."""
    granted: bool = False
    """Whether, since a leader was heard, this server has granted a vote."""

    def follows(self, server: ServerFacts) -> bool:
        """Whether the server's waiting times follow from the last message of its leader alone."""
        return server.leader == self.leader != NOBODY and not self.granted


class PatienceEnds(Invariant):
    """A follower gives its leader up in time, and not before its time (Raft 5.2).

    A leader that is silent for the maximum election time-out is given up. A leader that cannot be dialled is given up
    within the minimum election time-out after `Timing.doubt`. A leader whose machine refuses connections is given up
    within half of that time after `Timing.doubt_when_refused`. After a start, and after the end of its leadership, a
    server waits for the minimum election time-out. A server outside its Configuration waits until a candidate asks for
    its vote, or for `LAST_RESORT` time-outs. A server that hears its leader asks nobody for the leader. Neither does a
    server within `Timing.doubt` of its start, or of the end of its leadership, unless a new connection comes up.
    `Timing.doubt` is at least half of the minimum election time-out and two heartbeats, and at most that time-out.
    `Timing.doubt_when_refused` is shorter, and longer than a heartbeat.
    """

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._patience: dict[int, _Patience] = {}

    def boots(self, server: ServerFacts, loaded: Loaded, entries: Sequence[Entry]) -> None:
        self._patience.pop(server.id, None)
        self._check_timing(server.timing)

    def takes(self, server: ServerFacts, event: Input, effects: Effects, clock: float) -> None:
        patience = self._of(server, clock)
        if patience.led and not server.leads:
            patience.waits_since, patience.earliest = clock, clock + server.timing.election_min
        patience.led = server.leads
        patience.unheard += isinstance(event, Tick) and clock >= patience.wait_ends
        patience.wait_ends = server.stands_at
        if server.leads:
            patience.unheard = 0
        if server.leader != patience.leader:
            patience.misled, patience.refused_at = False, None
        if any(item.request.type is MessageType.REQUEST_VOTE_REQUEST for item in effects.gated_sends):
            self._check_stands(server, patience, clock)
            patience.stood = True
        if any(item.request.type is MessageType.CLIENT_REQUEST for item in effects.sends):
            self._check_asks(server, patience, clock, event)
        if any(
            item.response.accepted and item.response.type is MessageType.REQUEST_VOTE_RESPONSE
            for item in effects.gated_replies
        ):
            patience.granted = True
        if isinstance(event, Incoming):
            self._hear(server, event.request, patience, clock)
        elif isinstance(event, Unreachable) and event.peer == server.leader == patience.leader:
            if not server.leads:
                self._doubt(server, event, patience, clock)
        elif isinstance(event, Reachable) and event.peer == patience.leader:
            if patience.doubted_at is not None or patience.refused_at is not None:
                patience.misled = False
            patience.doubted_at = patience.refused_at = None
            patience.latest = max(patience.latest, patience.heard_at + server.timing.election_max)
        elif isinstance(event, Tick) and not server.leads and patience.follows(server):
            self._check_silence(server, patience, clock)

    def retimed(self, server: ServerFacts, clock: float) -> None:
        patience, timing = self._of(server, clock), server.timing
        self._check_timing(timing)
        patience.wait_ends = server.stands_at
        if server.leads:
            return
        patience.latest = min(patience.latest, clock + timing.election_max)
        earliest = clock + timing.election_min
        # The first time-out has not ended, so the wait is drawn again if the new time-outs could not produce it.
        waits = patience.heard_at == float("-inf") and not patience.stood and clock < patience.earliest
        patience.earliest = earliest if waits else min(patience.earliest, earliest)

    def _check_timing(self, timing: Timing) -> None:
        least = max(2 * timing.heartbeat, timing.election_min / 2)
        fits = timing.heartbeat < timing.doubt_when_refused < timing.doubt
        if not fits or not least - ROUNDING <= timing.doubt <= timing.election_min:
            raise self.violated(f"{timing} has a doubt of {timing.doubt:g} and {timing.doubt_when_refused:g} s")

    def _of(self, server: ServerFacts, clock: float) -> _Patience:
        patience = self._patience.get(server.id)
        if patience is None:
            at = clock if server.started_at is None else server.started_at
            earliest = at + self.facts.timing.election_min
            patience = _Patience(waits_since=at, earliest=earliest, wait_ends=earliest)
            self._patience[server.id] = patience
        return patience

    def _doubt(self, server: ServerFacts, event: Unreachable, patience: _Patience, clock: float) -> None:
        timing = server.timing
        if event.refused and patience.refused_at is None and not patience.misled:
            patience.refused_at, wait, spread = clock, timing.doubt_when_refused, timing.election_min / 2
        elif patience.doubted_at is None and patience.refused_at is None:
            patience.doubted_at, wait, spread = clock, timing.doubt, timing.election_min
        else:
            return
        soon = max(clock, patience.heard_at + wait)
        patience.latest = min(patience.latest, soon + spread)
        if server.deadline > soon + ROUNDING:
            raise self.violated(
                f"server {server.id} cannot dial its leader {server.leader}, and does nothing until "
                f"{server.deadline - soon:.3f} s after the time for doubt"
            )

    def _hear(self, server: ServerFacts, request: Request, patience: _Patience, clock: float) -> None:
        if request.type is MessageType.REQUEST_VOTE_REQUEST:
            patience.asked = True
        elif server.leader == request.source and request.term == server.term and not server.leads:
            same = (patience.leader, patience.term) == (request.source, request.term)
            patience.misled = same and (patience.misled or patience.refused_at is not None)
            patience.leader, patience.term, patience.heard_at = request.source, request.term, clock
            patience.doubted_at = patience.refused_at = None
            patience.latest = clock + server.timing.election_max
            patience.waits_since, patience.asked, patience.granted = float("-inf"), False, False
            patience.unheard = 0
            patience.earliest = float("-inf")

    def _check_stands(self, server: ServerFacts, patience: _Patience, clock: float) -> None:
        if clock < patience.earliest - ROUNDING:
            raise self.violated(
                f"server {server.id} stands for election in term {server.term}, {clock - patience.waits_since:.3f} s "
                "after its start, or after the end of its leadership"
            )
        if server.id not in server.voters and not patience.asked and patience.unheard <= LAST_RESORT:
            raise self.violated(f"server {server.id} is no voter, was not asked, and stands for election")

    def _check_asks(self, server: ServerFacts, patience: _Patience, clock: float, event: Input) -> None:
        timing = self.facts.timing
        # A new connection may bring a question at once.
        if isinstance(event, Tick) and clock < patience.waits_since + timing.doubt - ROUNDING:
            raise self.violated(
                f"server {server.id} asks for the leader, {clock - patience.waits_since:.3f} s after its start, or "
                "after the end of its leadership"
            )
        wait = timing.election_min if patience.doubted_at is None else timing.doubt
        if patience.refused_at is not None:
            wait = timing.doubt_when_refused
        if patience.follows(server) and clock < patience.heard_at + wait - ROUNDING:
            raise self.violated(
                f"server {server.id} asks for the leader, {clock - patience.heard_at:.3f} s after a message of leader "
                f"{patience.leader}"
            )

    def _check_silence(self, server: ServerFacts, patience: _Patience, clock: float) -> None:
        timing = self.facts.slowest
        # A tick comes at least at each question to the members.
        if clock > patience.latest + max(timing.heartbeat, timing.election_min / 8) + ROUNDING:
            raise self.violated(
                f"server {server.id} still follows server {patience.leader}, which is silent for "
                f"{clock - patience.heard_at:.3f} s"
            )


class ReadsEnd(Invariant):
    """A leader that has committed an entry of its term serves or refuses each read, and does so once (thesis 6.4).

    Reads that wait make the next round begin as the last round ends, or as the leader commits the first entry of its
    term. A majority answers within the maximum election time-out, or the leader steps down. So a read that waits for
    `_MOST_TIMEOUTS` such times has been forgotten. A leader that is the only voter lets no read wait.
    """

    _MOST_TIMEOUTS: Final = 5

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._open: dict[int, dict[Token, float]] = {}
        self._awake: dict[int, float] = {}  # by server: seconds without the pauses of its process
        self._last: dict[int, float] = {}  # by server: time of the last step
        self._established: dict[int, int] = {}  # by server: the last term of which it has committed an entry as leader

    def boots(self, server: ServerFacts, loaded: Loaded, entries: Sequence[Entry]) -> None:
        self._open[server.id] = {}

    def takes(self, server: ServerFacts, event: Input, effects: Effects, clock: float) -> None:
        waiting = self._open[server.id]
        since = clock - self._last.get(server.id, clock)
        self._last[server.id] = clock
        clock = self._awake[server.id] = self._awake.get(server.id, 0.0) + min(since, self.facts.timing.heartbeat)
        if isinstance(event, Read):
            waiting[event.token] = clock
        for token in (*effects.reads_refused, *(ready.token for ready in effects.reads_ready)):
            if waiting.pop(token, None) is None:
                raise self.violated(f"server {server.id} answers a read twice")
        established, term = self._established.get(server.id), server.term
        if server.leads and server.memory.term(server.commit) == term:
            self._established[server.id] = term
        may_begin = effects.reads_ready or established != self._established.get(server.id)
        begins = effects.sends or effects.snapshot_wanted  # a voter that needs a snapshot waits until there is one
        if may_begin and waiting and isinstance(event, Answered) and not begins:
            raise self.violated(f"leader {server.id} begins no round for {len(waiting)} reads that wait")
        alone = server.leads and self._established.get(server.id) == term and server.voters == (server.id,)
        if waiting and alone and isinstance(event, Read | Stored):
            raise self.violated(f"leader {server.id} is the only voter, and lets {len(waiting)} reads wait")
        if not waiting or not isinstance(event, Tick):
            return
        if server.memory.term(server.commit) != server.term:
            self._open[server.id] = dict.fromkeys(waiting, clock)  # before its first commit, a leader serves no read
            return
        oldest = clock - min(waiting.values())
        if oldest > self._MOST_TIMEOUTS * self.facts.slowest.election_max:
            raise self.violated(f"leader {server.id} leaves a read without an answer for {oldest:.3f} s")


class SnapshotsKept(Invariant):
    """A server keeps a snapshot of its state machine, or of its leader, that is newer than its last one (Raft 7).

    A server asks for a new snapshot only when it has none, or when another server has refused the one that it has.
    """

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._refused: dict[int, int] = {}  # by server, the index of its last refused snapshot

    def takes(self, server: ServerFacts, event: Input, effects: Effects, clock: float) -> None:
        kept = server.memory.snapshot
        if kept is not None:
            if isinstance(event, Answered) and _refuses_a_block(event.response):
                self._refused[server.id] = kept.index
            if effects.snapshot_wanted and self._refused.get(server.id, 0) < kept.index:
                raise self.violated(f"server {server.id} asks for a snapshot, and has one up to {kept.index}")
        if effects.restore is not None and (effects.write is None or effects.write.snapshot is not effects.restore):
            raise self.violated(f"server {server.id} does not keep the leader's snapshot up to {effects.restore.index}")
        if not isinstance(event, Snapshotted):
            return
        if event.last_index >= server.memory.base and (kept is None or kept.index < event.last_index):
            raise self.violated(f"server {server.id} does not keep the snapshot up to {event.last_index}")


def _refuses_a_block(response: Response) -> bool:
    return response.type is MessageType.INSTALL_SNAPSHOT_RESPONSE and not response.accepted
