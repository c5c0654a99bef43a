"""Invariants about changes of the servers: each has its reason, and a join goes on at each answer (Raft thesis 4)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from gf_i2p.raft.effects import Effects, Send
from gf_i2p.raft.inputs import Answered, Failed, Incoming, Input, Reachable, Stored, Tick
from gf_i2p.raft.membership_change import JOIN_PATIENCE, MAX_ROUNDS
from gf_i2p.simulator.cluster.invariants.evidence import ALMOST
from gf_i2p.simulator.cluster.invariants.invariant import OF_JOINS, ROUNDING, Invariant
from gf_i2p.simulator.cluster.invariants.replication import Following, Replication
from gf_i2p.simulator.facts import Facts, ServerFacts, Voters
from gf_i2p.wire.entries import ValueType
from gf_i2p.wire.log_values import ClusterServer, LogPack, decode_server_id
from gf_i2p.wire.messages import MessageType, Request, Response

_CHANGES: Final = frozenset({MessageType.ADD_SERVER_REQUEST, MessageType.REMOVE_SERVER_REQUEST})
_BEGINNINGS: Final = frozenset({MessageType.JOIN_CLUSTER_REQUEST, MessageType.LEAVE_CLUSTER_REQUEST})


@dataclass(slots=True)
class _Joining:
    """A server that a leader has invited in one term."""

    peer: int
    term: int
    tag: int | None = None
    """Tag of the request on the way; None: nothing is on the way."""
    request: Request | None = None
    """The latest request."""
    anew: bool = False
    """Whether the newcomer took nothing of a pack, so that the next request is another invitation."""
    sent_at: float = 0.0
    """Time of the latest request, by the leader's clock."""
    heard_at: float = 0.0
    """Time of the latest answer, or of the invitation."""
    rounds: int = 0
    """Number of answers that brought nothing, or came late and were the last: as many as the leader may count."""
    idle: int = 0
    """Number of answers that brought nothing."""
    whole: bool = False
    """Whether the latest request has all entries that the newcomer lacks of those that the leader has committed."""

    def answered(self, event: Input, clock: float, patience: float) -> bool:
        """Take in an answer or a loss. Return whether the leader must go on at once.

        `patience`: seconds after which an answer to a pack may count as late.
        """
        if not isinstance(event, Answered | Failed | Reachable) or event.peer != self.peer:
            return False
        if not isinstance(event, Reachable) and event.tag != self.tag:
            return False
        if isinstance(event, Answered) and event.response.term != self.term:
            return False  # a claim that the leader does not believe
        self.tag = None
        if not isinstance(event, Answered):
            return False
        self.heard_at = clock
        self.anew = _took_nothing(self.request, event.response)
        self.idle += self.anew
        self.rounds += self.anew or (self.whole and clock - self.sent_at > patience)
        return not self.anew

    def sent(self, send: Send, clock: float, commit: int) -> None:
        """Take in a request to the newcomer. `commit`: the leader's commit index."""
        self.tag, self.request, self.anew, self.sent_at = send.tag, send.request, False, clock
        is_pack = send.request.type is MessageType.SYNC_LOG_REQUEST
        self.whole = is_pack and _end(send.request) >= commit


class JoinGoesOn(Invariant):
    """A leader that gets a newcomer's answer sends at once what the newcomer needs next, or ends the join.

    Otherwise the join would wait for the end of the leader's patience. A newcomer that took nothing of a pack may have
    forgotten the invitation. So the leader invites that newcomer again, at a later tick. After a snapshot, the packs go
    on with the next entry. A request that is lost leaves again a heartbeat after it left. The leader gives a newcomer
    up only after a refusal, after `MAX_ROUNDS` answers that are late or bring nothing, or after `JOIN_PATIENCE` maximum
    election time-outs of silence. After that silence, and after `MAX_ROUNDS` answers that bring nothing, the leader
    must give up. A newcomer that takes all committed entries within the maximum election time-out becomes a voter at
    once, and so does a newcomer that lacks fewer than `ALMOST` entries (thesis 4.2.1).
    """

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._joining: dict[int, _Joining] = {}

    def takes(self, server: ServerFacts, event: Input, effects: Effects, clock: float) -> None:
        joining = self._joining.get(server.id)
        if joining is not None and joining.peer in server.voters and isinstance(event, Answered):
            self._check_voter(server, joining, event, clock)
        if joining is not None and (not server.leads or server.term != joining.term or joining.peer in server.voters):
            del self._joining[server.id]
            joining = None
        if not server.leads:
            return
        if joining is not None and joining.peer not in server.contacts and effects.notice is None:
            raise self.violated(f"leader {server.id} gives newcomer {joining.peer} up, and gives no reason")
        installed = None if joining is None else _installed(joining.request, event)
        caught_up = joining is not None and self._has_caught_up(server, joining, event, clock)
        owed = joining is not None and joining.answered(event, clock, self.facts.timing.election_max)
        for send in effects.sends:
            if send.request.type is MessageType.JOIN_CLUSTER_REQUEST and (joining is None or joining.peer != send.peer):
                joining = self._joining[server.id] = _Joining(send.peer, server.term, heard_at=clock)
            if joining is not None and send.peer == joining.peer and send.request.type in OF_JOINS:
                if joining.anew and send.request.type is not MessageType.JOIN_CLUSTER_REQUEST:
                    raise self.violated(
                        f"newcomer {send.peer} took nothing of a pack, and leader {server.id} sends no new invitation"
                    )
                if owed and installed is not None and send.request.type is MessageType.SYNC_LOG_REQUEST:
                    self._check_first_pack(server, send, installed)
                if caught_up:
                    raise self.violated(f"newcomer {send.peer} has caught up, and leader {server.id} sends it more")
                joining.sent(send, clock, server.commit)
        if joining is not None and isinstance(event, Tick):
            self._check_silence(server, clock - joining.heard_at, given_up=effects.notice is not None)
        if effects.notice is not None:
            self._joining.pop(server.id, None)
            if joining is not None and (owed or joining.anew) and isinstance(event, Answered):
                self._check_end(server, joining, event.response, effects.notice)
        elif joining is not None and joining.idle >= MAX_ROUNDS:
            raise self.violated(f"newcomer {joining.peer} takes nothing, and leader {server.id} does not give up")
        elif joining is not None and joining.tag is None:
            if effects.snapshot_wanted:
                joining.sent_at = clock
            elif owed:
                raise self.violated(f"leader {server.id} has an answer of newcomer {joining.peer}, and does not go on")
            if server.deadline > joining.sent_at + server.timing.heartbeat + ROUNDING:
                raise self.violated(f"leader {server.id} has no request to newcomer {joining.peer}, and plans none")

    def _has_caught_up(self, server: ServerFacts, joining: _Joining, event: Input, clock: float) -> bool:
        """Whether the event is the answer of a newcomer that took all entries, and did so in time."""
        if not isinstance(event, Answered) or (event.peer, event.tag) != (joining.peer, joining.tag):
            return False
        if joining.request is None or event.response.term != server.term:
            return False
        in_time = clock - joining.sent_at <= self.facts.timing.election_max - ROUNDING
        next_index = event.response.next_index
        is_far = next_index > max(server.memory.base, 1)
        return joining.whole and in_time and is_far and next_index == _end(joining.request) + 1

    def _check_first_pack(self, server: ServerFacts, send: Send, installed: int) -> None:
        previous = send.request.last_log_index
        if previous != installed:
            raise self.violated(
                f"newcomer {send.peer} has a snapshot up to {installed}, and leader {server.id} goes on after "
                f"{previous}"
            )

    def _check_silence(self, server: ServerFacts, silent: float, *, given_up: bool) -> None:
        patience = JOIN_PATIENCE * server.timing.election_max
        if given_up and silent < patience - ROUNDING:
            raise self.violated(f"leader {server.id} gives a newcomer up that was silent for {silent:.3f} s")
        if not given_up and silent > patience + ROUNDING:
            raise self.violated(f"leader {server.id} waits on for a newcomer that was silent for {silent:.3f} s")

    def _check_voter(self, server: ServerFacts, joining: _Joining, event: Answered, clock: float) -> None:
        request, next_index = joining.request, event.response.next_index
        if request is None or request.type is not MessageType.SYNC_LOG_REQUEST or event.tag != joining.tag:
            return
        if next_index > _end(request) + 1:
            raise self.violated(
                f"newcomer {joining.peer} asks for entry {next_index}, which leader {server.id} has not offered, and "
                "becomes a voter"
            )
        came_back = _took_nothing(request, event.response)  # a server that was a voter before
        lacks = server.commit + 1 - next_index
        in_time = joining.whole and clock - joining.sent_at <= self.facts.slowest.election_max + ROUNDING
        if lacks >= ALMOST and not came_back and not (in_time and next_index > _end(request)):
            raise self.violated(
                f"newcomer {joining.peer} lacks {lacks} entries, and leader {server.id} makes it a voter"
            )

    def _check_end(self, server: ServerFacts, joining: _Joining, response: Response, why: str) -> None:
        if joining.rounds < MAX_ROUNDS and (_took(joining.request, response) or joining.anew):
            raise self.violated(
                f"leader {server.id} gives newcomer {joining.peer} up, after {joining.rounds} answers that were late "
                f"or brought nothing: {why}"
            )


def _adds(effects: Effects) -> bool:
    """Whether a step has appended a Configuration."""
    entries = () if effects.write is None else effects.write.entries
    return any(entry.value_type is ValueType.CONFIGURATION for entry in entries)


def _installed(request: Request | None, event: Input) -> int | None:
    """Return the last index of the snapshot that the event acknowledges, in part or whole; None: it does not."""
    if request is None or request.type is not MessageType.INSTALL_SNAPSHOT_REQUEST or not isinstance(event, Answered):
        return None
    return request.last_log_index


def _took(request: Request | None, response: Response) -> bool:
    """Whether a newcomer has taken a request, or a part of a pack."""
    if request is None or request.type is not MessageType.SYNC_LOG_REQUEST:
        return response.accepted
    return request.last_log_index + 1 < response.next_index <= _end(request) + 1


def _end(pack: Request) -> int:
    """Return the index of the last entry in a pack."""
    return pack.last_log_index + len(LogPack.decode(pack.entries[0].value).entries)


def _took_nothing(request: Request | None, response: Response) -> bool:
    """Whether a newcomer asks for the first entry of a pack, or for an earlier entry."""
    return (
        request is not None
        and request.type is MessageType.SYNC_LOG_REQUEST
        and 1 <= response.next_index <= request.last_log_index + 1
    )


class LeavingWaits(Invariant):
    """A leader removes a server when that server has answered that it leaves, or after a time-out (thesis 4.2.2).

    The time-out is the minimum election time-out. A lost request counts as an answer.
    """

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._told: dict[int, tuple[int, int, int, float]] = {}  # by leader: term, peer, tag and time of the request

    def takes(self, server: ServerFacts, event: Input, effects: Effects, clock: float) -> None:
        term, peer, tag, since = self._told.get(server.id, (0, 0, 0, 0.0))
        if term and (not server.leads or server.term != term):
            del self._told[server.id]
            term = 0
        if term:
            is_over = isinstance(event, Tick) and clock >= since + server.timing.election_min - ROUNDING
            answered = isinstance(event, Answered | Failed) and event.tag == tag
            removed = peer not in server.voters
            if removed and not is_over and not answered:
                raise self.violated(
                    f"leader {server.id} removes server {peer}, {clock - since:.3f} s after it was told"
                )
            if answered and not removed and not (isinstance(event, Answered) and event.response.term != term):
                raise self.violated(f"leader {server.id} has an answer of server {peer}, and does not remove it")
            if removed:
                del self._told[server.id]
            elif isinstance(event, Tick) and clock >= since + server.timing.election_min + ROUNDING:
                raise self.violated(f"leader {server.id} waits for server {peer} to leave, for {clock - since:.3f} s")
        for send in effects.sends:
            if send.request.type is MessageType.LEAVE_CLUSTER_REQUEST:
                self._told[server.id] = server.term, send.peer, send.tag, clock
        if server.leads and server.id in self._told:
            latest = self._told[server.id][3] + server.timing.election_min
            if server.deadline > latest + ROUNDING:
                raise self.violated(
                    f"leader {server.id} waits {server.deadline - latest:.3f} s too long for server "
                    f"{self._told[server.id][1]} to leave"
                )


class RemovalTold(Invariant):
    """A leader whose removal is committed steps down, and first tells the voters so (thesis 4.2.2).

    The leader tells each voter whose log is known to agree: that voter commits the removal, and need not find it out.
    """

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._replication = Replication()
        self._led: dict[int, tuple[int, Mapping[int, Following]]] = {}  # by leader: its term, and its voters

    def takes(self, server: ServerFacts, event: Input, effects: Effects, clock: float) -> None:
        term, voters = self._led.pop(server.id, (0, {}))
        if server.leads:
            self._led[server.id] = server.term, self._replication.voters(server)
            self._replication.answered(server, event)
            self._replication.sent_all(server, effects.sends)
        elif self._retires(server, term) and isinstance(event, Answered | Stored):
            told = {send.peer: send.request.commit_index for send in effects.sends}
            for peer, following in voters.items():
                is_sound = following.agrees and following.match >= server.memory.base and peer in server.voters
                is_told = told.get(peer, -1) >= min(server.commit, following.match)
                if is_sound and not is_told and not (isinstance(event, Answered) and event.peer == peer):
                    raise self.violated(
                        f"leader {server.id} steps down, and does not tell server {peer} of its removal"
                    )

    @staticmethod
    def _retires(server: ServerFacts, term: int) -> bool:
        """Whether a server that led `term` leads no more because all of its log, with its removal, is committed."""
        is_removed = server.id not in server.voters and server.commit == server.memory.last_index
        return is_removed and term == server.term


@dataclass(slots=True)
class _Leavers:
    """A leader's requests to servers that were removed, in one term."""

    term: int
    flights: dict[int, dict[int, tuple[int, int]]] = field(default_factory=dict)
    """By server and tag: the request's commit index, and the index of its last entry. A loss or a refusal makes the
    answers to all requests void."""
    gone: set[int] = field(default_factory=set)
    """Servers that know that their removal is committed."""
    told: dict[int, float] = field(default_factory=dict)
    """By server that does not know of its removal: the time of the removal."""
    voters: Voters = ()
    """The voters after the last step."""


class LeaversForgotten(Invariant):
    """A leader sends no entries to a removed server that knows that its removal is committed (thesis 4.2.2).

    Until then, and for `JOIN_PATIENCE` maximum election time-outs, the leader stays in contact with the removed server.
    """

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._leavers: dict[int, _Leavers] = {}  # by leader

    def takes(self, server: ServerFacts, event: Input, effects: Effects, clock: float) -> None:
        if not server.leads:
            self._leavers.pop(server.id, None)
            return
        leavers = self._leavers.get(server.id)
        if leavers is None or leavers.term != server.term:
            leavers = self._leavers[server.id] = _Leavers(server.term)
        leavers.gone.difference_update(server.voters)
        if isinstance(event, Answered | Failed | Reachable) and event.peer in leavers.flights:
            self._take(server, leavers, event)
        for peer, request, tag in effects.sends:
            if request.type is MessageType.INSTALL_SNAPSHOT_REQUEST:
                leavers.flights.pop(peer, None)  # a block travels alone
            elif request.type is MessageType.JOIN_CLUSTER_REQUEST:
                leavers.told.pop(peer, None)  # the server comes back
            if request.type is not MessageType.APPEND_ENTRIES_REQUEST:
                continue
            if peer in leavers.gone:
                raise self.violated(f"leader {server.id} sends entries to server {peer}, which knows of its removal")
            last = request.last_log_index + len(request.entries)
            leavers.flights.setdefault(peer, {})[tag] = request.commit_index, last
        for peer in set(leavers.voters) - {*server.voters, server.id}:
            leavers.told[peer] = clock
        leavers.voters = server.voters
        patience = JOIN_PATIENCE * self.facts.timing.election_max
        for peer, since in tuple(leavers.told.items()):
            if peer in leavers.gone or peer in server.voters or clock >= since + patience - ROUNDING:
                del leavers.told[peer]
            elif peer not in server.contacts:
                raise self.violated(f"leader {server.id} forgets server {peer}, which does not know of its removal")

    def _take(self, server: ServerFacts, leavers: _Leavers, event: Answered | Failed | Reachable) -> None:
        peer, flights = event.peer, leavers.flights[event.peer]
        if isinstance(event, Reachable):
            flights.clear()
            return
        if event.tag not in flights or (isinstance(event, Answered) and event.response.term != server.term):
            return
        commit, last = flights.pop(event.tag)
        if isinstance(event, Failed) or not event.response.accepted:
            flights.clear()
            return
        without = len(server.configurations)
        while without and peer not in server.configurations[without - 1][1]:
            without -= 1
        if without < len(server.configurations) and min(commit, last) >= server.configurations[without][0]:
            leavers.gone.add(peer)


class ChangesExplained(Invariant):
    """A leader refuses a change of the servers only for a reason (thesis 4.1, and Ongaro's correction of 2015).

    A server that does not lead accepts none. The reasons: this change or another is under way; the last Configuration,
    or an entry of the leader's term, is not committed; the change would change nothing, or leave no server. A leader's
    answer tells the index after its log. A leader begins an accepted change at once.
    """

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._pending: dict[int, int] = {}
        """By leader, the term in which it has invited a server, or told one to leave."""

    def takes(self, server: ServerFacts, event: Input, effects: Effects, clock: float) -> None:
        asked = isinstance(event, Incoming) and event.request.type in _CHANGES
        if asked and not server.leads and any(reply.response.accepted for reply in effects.replies):
            raise self.violated(f"server {server.id} does not lead, and accepts a change of the servers")
        if not server.leads or self._pending.get(server.id, server.term) != server.term:
            self._pending.pop(server.id, None)
        if not server.leads:
            return
        if isinstance(event, Incoming) and event.request.type in _CHANGES:
            write = effects.write
            after = server.memory.last_index + 1 if write is None or not write.entries else write.first_index
            for reply in effects.replies:
                if reply.token is not event.token:
                    continue
                if reply.response.next_index != after:
                    raise self.violated(
                        f"leader {server.id} answers a {event.request.type.name} with the index "
                        f"{reply.response.next_index}, and its log ends before {after}"
                    )
                if not reply.response.accepted:
                    self._check(server, event.request)
                elif not self._begins(server, event.request, effects):
                    name = event.request.type.name
                    raise self.violated(f"leader {server.id} accepts a {name}, and does not begin the change")
        if effects.notice is not None or _adds(effects):
            self._pending.pop(server.id, None)  # the change has failed, or is in the log
        if any(send.request.type in _BEGINNINGS for send in effects.sends):
            self._pending[server.id] = server.term

    @staticmethod
    def _begins(server: ServerFacts, request: Request, effects: Effects) -> bool:
        """Whether a step begins an accepted change: by a request to the server in question, or by a Configuration."""
        told = {send.peer: send.request.type for send in effects.sends if send.request.type in _BEGINNINGS}
        if request.type is MessageType.REMOVE_SERVER_REQUEST:
            leaver = decode_server_id(request.entries[0].value)
            return _adds(effects) if leaver == server.id else told == {leaver: MessageType.LEAVE_CLUSTER_REQUEST}
        newcomer = ClusterServer.decode(request.entries[0].value).id
        is_there = newcomer in server.voters
        return told == ({} if is_there else {newcomer: MessageType.JOIN_CLUSTER_REQUEST})

    def _check(self, server: ServerFacts, request: Request) -> None:
        commit, log, voters = server.commit, server.memory, server.voters
        last = server.configurations[-1][0] if server.configurations else 0
        if server.id in self._pending or log.term(commit) != server.term or last > commit:
            return
        if request.type is MessageType.ADD_SERVER_REQUEST:
            changes = ClusterServer.decode(request.entries[0].value).id not in voters
        else:
            changes = decode_server_id(request.entries[0].value) in voters and len(voters) > 1
        if changes:
            raise self.violated(f"leader {server.id} refuses a {request.type.name} without a reason")
