"""Invariants about the answers that a server must have heard, and the time that a server must wait, before it acts.

The invariants of `harm` notice the harm that a mistake has done, which may need a rare chain of events. These
invariants notice the mistake itself. Times are seconds of the server's own monotonic clock.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from gf_i2p.raft.configurations import majority
from gf_i2p.raft.effects import Effects, Token, Write
from gf_i2p.raft.inputs import Answered, Failed, Incoming, Input, Reachable, Read, Tick, Unreachable
from gf_i2p.simulator.cluster.invariants.invariant import ROUNDING, Invariant
from gf_i2p.simulator.facts import Facts, ServerFacts, Voters, voters_of
from gf_i2p.storage.loading import Loaded
from gf_i2p.wire.entries import Entry, ValueType
from gf_i2p.wire.messages import NOBODY, MessageType

ALMOST: Final = 5
"""Entries that a new voter may lack, whatever the time (`gf_i2p/raft/membership_change.py`)."""


def _enough(servers: Iterable[int], voters: Voters) -> bool:
    return len(set(servers).intersection(voters)) >= majority(len(voters))


class WonByMajority(Invariant):
    """A leader has the durable votes of a majority in its term, and its own vote is durable (Raft 5.2, figure 2)."""

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._votes: dict[tuple[int, int], set[int]] = {}  # by term and candidate: the servers

    def is_durable(self, server: ServerFacts, writes: Sequence[Write]) -> None:
        for write in writes:
            if write.hard_state is not None and write.hard_state.vote != NOBODY:
                self._votes.setdefault((write.hard_state.term, write.hard_state.vote), set()).add(server.id)

    def leads(self, server: ServerFacts) -> None:
        votes = self._votes.get((server.term, server.id), set())
        if server.id in server.voters and server.id not in votes:
            raise self.violated(f"server {server.id} leads in term {server.term}, and its own vote is not on its disk")
        if not _enough(votes, server.voters):
            raise self.violated(
                f"server {server.id} leads in term {server.term} with the votes of {sorted(votes)} of "
                f"{list(server.voters)}"
            )


class LeaderIsHeard(Invariant):
    """A leader steps down when no majority has answered for the maximum election time-out.

    That is check-quorum (thesis 6.2).
    """

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._leading: dict[int, _Leading] = {}  # by leader

    def takes(self, server: ServerFacts, event: Input, effects: Effects, clock: float) -> None:
        if not server.leads:
            self._leading.pop(server.id, None)
            return
        leading = self._leading.get(server.id)
        if leading is None or leading.term != server.term:
            leading = self._leading[server.id] = _Leading(server.term)
        if isinstance(event, Answered) and event.response.term == server.term and event.peer in leading.heard:
            leading.heard[event.peer] = clock
        if isinstance(event, Tick):
            self._check(server, leading, clock)
        # The tick itself may change the voters. A new voter's time begins when the leader begins to send to that voter.
        leading.voters = server.voters
        leading.heard = {voter: leading.heard.get(voter, clock) for voter in server.voters}

    def _check(self, server: ServerFacts, leading: "_Leading", clock: float) -> None:
        # The same sum as the core's: a tick may come less than a microsecond before the end of a voter's time.
        lately = {voter for voter, at in leading.heard.items() if clock < at + server.timing.election_max}
        if leading.voters and not _enough({*lately, server.id}, leading.voters):
            raise self.violated(
                f"server {server.id} goes on to lead in term {server.term}, and of {list(leading.voters)} only "
                f"{sorted(lately)} have answered within {server.timing.election_max:g} s"
            )


@dataclass(slots=True)
class _Leading:
    """The answers that a leader has heard in its term."""

    term: int
    voters: Voters = ()
    """The voters after the last step."""
    heard: dict[int, float] = field(default_factory=dict)
    """By voter, the time of the last answer, or the time when the leader began to send to that voter."""


@dataclass(slots=True)
class _OpenReads:
    """The reads that a server has taken, with the peers that have confirmed each read."""

    turn: int = 0
    sent: dict[int, int] = field(default_factory=dict)
    """The turn in which each request left, by the request's tag."""
    reads: dict[Token, tuple[int, set[int]]] = field(default_factory=dict)
    """For each read, by its token: the turn in which the read came, and the peers that have confirmed the read."""


class ReadsConfirmed(Invariant):
    """A leader serves a read only when a majority has answered a request that left after the read came (thesis 6.4).

    A leader that stops leading refuses its reads, so that the callers do not wait for ever.
    """

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._open: dict[int, _OpenReads] = {}

    def boots(self, server: ServerFacts, loaded: Loaded, entries: Sequence[Entry]) -> None:
        self._open[server.id] = _OpenReads()

    def takes(self, server: ServerFacts, event: Input, effects: Effects, clock: float) -> None:
        opened = self._open[server.id]
        opened.turn += 1
        match event:
            case Read(token):
                opened.reads[token] = opened.turn, set()
            case Answered(peer, tag, response):
                sent = opened.sent.pop(tag, 0)
                if response.term == server.term:
                    for came, confirmed in opened.reads.values():
                        if sent >= came:
                            confirmed.add(peer)
            case Failed(_, tag):
                opened.sent.pop(tag, None)
        for send in (*effects.sends, *effects.gated_sends):
            opened.sent[send.tag] = opened.turn
        for token in effects.reads_refused:
            opened.reads.pop(token, None)
        for ready in effects.reads_ready:
            came, confirmed = opened.reads.pop(ready.token)
            if not _enough({*confirmed, server.id}, server.voters):
                raise self.violated(
                    f"server {server.id} serves a read, and of {list(server.voters)} only {sorted(confirmed)} have "
                    "answered a request that left after the read came"
                )
        if opened.reads and not server.leads:
            raise self.violated(f"server {server.id} does not lead, and leaves {len(opened.reads)} reads unanswered")


class CommitsProven(Invariant):
    """A follower commits only entries that, by the leader's request, are the same in the leader's log.

    Raft 5.3 and figure 2 ("index of last new entry"); `gf_i2p/raft/core.py`.
    """

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._commits: dict[int, int] = {}

    def boots(self, server: ServerFacts, loaded: Loaded, entries: Sequence[Entry]) -> None:
        self._commits.pop(server.id, None)

    def takes(self, server: ServerFacts, event: Input, effects: Effects, clock: float) -> None:
        before = self._commits.get(server.id)
        self._commits[server.id] = server.commit
        if before is None or server.commit <= before or server.leads:
            return
        if not isinstance(event, Incoming):
            # A leader may commit and step down in one step, as after its own removal.
            return
        request = event.request
        if request.type is MessageType.APPEND_ENTRIES_REQUEST:
            proven = min(request.commit_index, request.last_log_index + len(request.entries))
            if server.commit > proven:
                raise self.violated(
                    f"server {server.id} commits up to {server.commit}, and the request of server {request.source} "
                    f"proves entries up to {proven} only"
                )
        elif request.type is not MessageType.INSTALL_SNAPSHOT_REQUEST:
            raise self.violated(f"server {server.id} commits up to {server.commit} at a {request.type.name}")


@dataclass(slots=True)
class _Waiting:
    """The reasons of a server to call no election yet."""

    heard_at: float = float("-inf")
    leader: int = NOBODY
    term: int = 0
    """The term of `leader`."""
    in_doubt: bool = False
    """Whether the leader could not be dialled, since its last message."""
    refused: bool = False
    """Whether the leader's machine has refused a connection, since its last message."""
    granted_at: float = float("-inf")
    stood: int = 0
    """The last term in which the server stood for election."""
    before: int = 0
    """The server's term after its last step."""


class PatientServers(Invariant):
    """A server waits after it has heard the leader, or has granted a vote, for the minimum election time-out.

    Raft 5.2. In that time the server calls no election, and grants no vote in a higher term (thesis 4.2.3). A leader
    that cannot be dialled shortens the wait to `Timing.doubt`, and a leader whose machine refuses connections to
    `Timing.doubt_when_refused`.
    """

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._waiting: dict[int, _Waiting] = {}

    def boots(self, server: ServerFacts, loaded: Loaded, entries: Sequence[Entry]) -> None:
        self._waiting[server.id] = _Waiting(before=loaded.hard_state.term)

    def takes(self, server: ServerFacts, event: Input, effects: Effects, clock: float) -> None:
        waiting, timing = self._waiting[server.id], self.facts.timing
        before, waiting.before = waiting.before, server.term
        patience = timing.doubt if waiting.in_doubt else timing.election_min
        if waiting.refused:
            patience = timing.doubt_when_refused
        heard = waiting.term == before and clock < waiting.heard_at + patience - ROUNDING
        grants = any(
            item.response.accepted and item.response.type is MessageType.REQUEST_VOTE_RESPONSE
            for item in effects.gated_replies
        )
        stands = self._stands(server, effects, waiting)
        if (stands or grants) and heard and server.term > before:
            raise self.violated(
                f"server {server.id} {'stands for election' if stands else 'grants a vote'} in term {server.term}, "
                f"{clock - waiting.heard_at:.3f} s after a message of leader {waiting.leader}"
            )
        if stands and clock < waiting.granted_at + timing.election_min - ROUNDING:
            raise self.violated(
                f"server {server.id} stands for election in term {server.term}, {clock - waiting.granted_at:.3f} s "
                "after it has granted a vote"
            )
        if grants and server.leader == NOBODY:  # otherwise the wait for the leader counts, which doubt shortens
            waiting.granted_at = clock
        match event:
            case Incoming(_, request) if (
                request.type in {MessageType.APPEND_ENTRIES_REQUEST, MessageType.INSTALL_SNAPSHOT_REQUEST}
                and request.term == server.term
                and request.source == server.leader
                and not server.leads
            ):
                waiting.heard_at, waiting.leader, waiting.term = clock, request.source, request.term
                waiting.in_doubt = waiting.refused = False
                waiting.granted_at = float("-inf")  # from now on the wait for the leader counts, which doubt shortens
            case Unreachable(peer, refused) if peer == waiting.leader:
                waiting.in_doubt = True
                waiting.refused |= refused
            case Reachable(peer) if peer == waiting.leader and clock < waiting.heard_at + patience:
                # Later, the shortened time-out may have ended before, and only answers lacked.
                waiting.in_doubt = waiting.refused = False

    @staticmethod
    def _stands(server: ServerFacts, effects: Effects, waiting: _Waiting) -> bool:
        asks = any(item.request.type is MessageType.REQUEST_VOTE_REQUEST for item in effects.gated_sends)
        if not asks or server.term == waiting.stood:
            return False
        waiting.stood = server.term
        return True


class JoinersCaughtUp(Invariant):
    """A new voter has almost the whole committed log before it becomes a voter (thesis 4.2.1).

    The new voter may lack the entries that were committed within the last election time-out, or some few. A server that
    was a voter before, by the leader's log, may come back at once.
    """

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._commits: dict[int, deque[tuple[float, int]]] = {}  # by server: (time, commit index), lately

    def boots(self, server: ServerFacts, loaded: Loaded, entries: Sequence[Entry]) -> None:
        self._commits[server.id] = deque()

    def takes(self, server: ServerFacts, event: Input, effects: Effects, clock: float) -> None:
        commits = self._commits[server.id]
        if server.leads and effects.write is not None:
            old = commits[-1][1] if commits else 0
            for at, commit in commits:
                if at >= clock - self.facts.slowest.election_max:
                    old = min(old, commit)
            self._check(server, effects.write, min(old, server.commit))
        commits.append((clock, server.commit))
        while commits and commits[0][0] < clock - 2 * self.facts.slowest.election_max:
            commits.popleft()

    def _check(self, leader: ServerFacts, write: Write, owed: int) -> None:
        for index, entry in enumerate(write.entries, write.first_index):
            if entry.value_type is not ValueType.CONFIGURATION:
                continue
            earlier = {each for at, voters in leader.configurations if at < index for each in voters}
            for joiner in set(voters_of(entry)) - earlier - set(leader.bootstrap):
                has = self.facts.servers[joiner].durable.last_index
                if has < owed and has + ALMOST < leader.commit:
                    raise self.violated(
                        f"leader {leader.id} adds server {joiner}, which has {has} of {leader.commit} committed entries"
                    )
