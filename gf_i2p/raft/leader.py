"""The leader role: replication, commitment, proposals and reads (Raft 5.3, 5.4, 8; thesis 6.4)."""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import attrgetter

from gf_i2p.raft.configurations import agreed
from gf_i2p.raft.effects import ReadReady, Token
from gf_i2p.raft.follower_progress import Flight, FollowerProgress, SnapshotSending
from gf_i2p.raft.inputs import Proposal
from gf_i2p.raft.log import size_of
from gf_i2p.raft.membership_change import JOIN_PATIENCE, MembershipChange, send_block
from gf_i2p.raft.state import State
from gf_i2p.wire.entries import Entry, ValueType
from gf_i2p.wire.log_values import ClusterServer
from gf_i2p.wire.messages import MessageType, Request, Response

_match: Callable[[FollowerProgress], float] = attrgetter("match")
_round: Callable[[FollowerProgress], float] = attrgetter("round")
_heard_at: Callable[[FollowerProgress], float] = attrgetter("heard_at")


@dataclass(frozen=True, slots=True)
class Waiting:
    """A caller whose entries are in the log, but not yet committed."""

    last_index: int
    size: int
    token: Token


class Leader:
    """The leadership of one term. The leader begins by appending a Configuration with the servers unchanged.

    That entry is Raft's no-op (Raft 8), in the one neutral form that JRaft accepts. In a new farm, the entry is also
    the initial Configuration, at index 1.
    """

    def __init__(self, state: State, now: float) -> None:
        self._state = state
        log = state.log
        self.progress = {peer: FollowerProgress(next=log.last_index + 1, heard_at=now) for peer in state.peers}
        self._waiting: deque[Waiting] = deque()
        self._queued_bytes = 0
        self._round = 0
        self._reads: list[Token] = []  # wait for the next round to begin
        self._round_reads: list[Token] = []  # wait for the present round to be answered
        self._round_index = 0
        self._first_index = log.last_index + 1
        self.changes = MembershipChange(state, self._first_index, self._set_servers)
        no_op = state.configurations.no_op(self._first_index)
        state.replace_from(self._first_index, (Entry(state.term, ValueType.CONFIGURATION, no_op.encode()),))
        for peer in self.progress:
            self._probe(peer, now)

    # Proposals ---------------------------------------------------------------------------------------------------

    def propose(self, proposals: Sequence[Proposal], now: float) -> None:
        """Append the proposals that the queue has room for, and refuse the others.

        An appended proposal is answered when its entries are committed. A refusal names this server as the leader, so
        the caller should try again here. A proposal without entries only asks for the leader, and is accepted at once.
        """
        state = self._state
        entries: list[Entry] = []
        last_index = state.log.last_index
        for proposal in proposals:
            if not proposal.entries:
                state.answer_client(proposal.token, accepted=True, next_index=last_index + 1)
                continue
            size = sum(map(size_of, proposal.entries))
            queued = last_index - state.commit
            if self._is_removed or (
                self._waiting
                and (
                    queued + len(proposal.entries) > state.flow.queue_entries
                    or self._queued_bytes + size > state.flow.queue_bytes
                )
            ):
                state.answer_client(proposal.token, accepted=False)
                continue
            entries += [Entry(state.term, entry.value_type, entry.value) for entry in proposal.entries]
            last_index += len(proposal.entries)
            self._queued_bytes += size
            self._waiting.append(Waiting(last_index, size, proposal.token))
        if entries:
            state.replace_from(state.log.last_index + 1, entries)
            for peer, progress in self.progress.items():
                if not progress.probing:
                    self._replicate(peer, now)

    # Replication -------------------------------------------------------------------------------------------------

    def _send(self, peer: int, entries: tuple[Entry, ...], now: float) -> None:
        progress = self.progress[peer]
        previous = progress.next - 1
        last = previous + len(entries)
        # Never name a commit index beyond this request's entries: JRaft would commit another leader's entries there.
        commit = min(self._state.commit, last)
        tag = self._state.send(peer, MessageType.APPEND_ENTRIES_REQUEST, previous, commit, entries, gated=False)
        progress.flights[tag] = Flight(previous, last, self._round, commit)
        progress.sent_at = now

    def _entries_for(self, progress: FollowerProgress) -> tuple[Entry, ...]:
        flow = self._state.flow
        return self._state.log.slice(
            progress.next,
            self._state.log.last_index,
            max_entries=flow.append_entries,
            max_bytes=flow.append_bytes,
        )

    def _replicate(self, peer: int, now: float) -> None:
        """Send this follower all new entries, in at most `Flow.in_flight` unanswered requests."""
        progress = self.progress[peer]
        if progress.next <= self._state.log.base:
            progress.lost()
            self._probe(peer, now)
            return
        while progress.next <= self._state.log.last_index and len(progress.flights) < self._state.flow.in_flight:
            entries = self._entries_for(progress)
            self._send(peer, entries, now)
            progress.next += len(entries)

    def _probe(self, peer: int, now: float) -> None:
        """Send one AppendEntries, whose answer tells where the logs agree. Most often the follower takes its entries.

        If the log has dropped the next entry, send a block of a snapshot instead.
        """
        progress = self.progress[peer]
        if progress.flights:
            return
        if progress.sending is None and progress.next <= self._state.log.base:
            self._begin_snapshot(progress)
        if progress.sending is not None:
            tag, end = send_block(self._state, peer, progress.sending)
            progress.flights[tag] = Flight(0, 0, self._round, block_end=end)
        elif progress.next > self._state.log.base:
            self._send(peer, self._entries_for(progress), now)
        progress.sent_at = now

    def _begin_snapshot(self, progress: FollowerProgress) -> None:
        snapshot = self._state.snapshot
        if snapshot is None or snapshot.index <= progress.refused:
            self._state.effects.snapshot_wanted = True  # a later heartbeat sends it
        else:
            progress.sending = SnapshotSending(snapshot)

    def _heartbeat(self, peer: int, now: float) -> None:
        progress = self.progress[peer]
        if progress.sending is not None or progress.next <= self._state.log.base:
            progress.sent_at = now  # blocks of a snapshot are signs of life, too
            self._probe(peer, now)
        elif progress.probing and not progress.flights:
            self._probe(peer, now)
        elif len(progress.flights) < self._state.flow.in_flight:
            self._send(peer, (), now)

    def tick(self, now: float) -> None:
        """Send the heartbeats that are due; forget removed servers that have not confirmed their removal in time."""
        for peer, progress in tuple(self.progress.items()):
            if progress.removed_at and now >= progress.removed_since + JOIN_PATIENCE * self._state.timing.election_max:
                del self.progress[peer]
            elif now >= progress.sent_at + self._state.timing.heartbeat:
                self._heartbeat(peer, now)
        self.changes.tick(now)

    def answered(self, peer: int, tag: int, response: Response, now: float) -> None:
        """Handle a response of this term."""
        self.changes.answered(tag, response, now)
        progress = self.progress.get(peer)
        if progress is None:
            return
        progress.heard_at = now
        flight = progress.flights.pop(tag, None)
        if flight is None:
            return  # an earlier refusal or loss made this answer void
        progress.round = max(progress.round, flight.round)
        if flight.block_end:
            self._block_answered(peer, progress, response, now)
        elif response.accepted:
            progress.matched(flight.last)
            if progress.match > self._state.commit:
                self._advance_commit(now)
            if progress.removed_at and min(flight.commit, progress.match) >= progress.removed_at:
                del self.progress[peer]  # the follower knows of its removal
            else:
                self._replicate(peer, now)
        elif response.next_index == 0:  # only a server with a damaged snapshot sends 0
            progress.back_to_probing(progress.match + 1)
            self._begin_snapshot(progress)
            if progress.sending is not None:
                self._probe(peer, now)
        else:
            # The follower names an index where the logs may agree. Go back at least one entry, so that probing ends.
            first_sent = flight.previous + 1
            next_index = min(response.next_index, flight.previous)
            # That index proves no loss: a restarted follower may name an earlier index. A refusal of an
            # acknowledged entry does prove a loss.
            if 0 < flight.previous <= progress.match and not progress.forgetful:
                progress.forgetful = True
                self._state.effects.violation = (
                    f"server {peer} has lost acknowledged entries up to {progress.match}: its log was removed, or "
                    "replaced by an older log. Stop that server; it can come back only under a new id"
                )
            progress.back_to_probing(next_index)
            if progress.next < first_sent:  # otherwise the next probe would get the same refusal
                self._probe(peer, now)
        self._advance_reads(now)

    def _block_answered(self, peer: int, progress: FollowerProgress, response: Response, now: float) -> None:
        sending = progress.sending
        if sending is None:
            return
        size = len(sending.snapshot.data)
        if response.accepted and response.next_index >= size:
            progress.matched(sending.snapshot.index)  # committed already, so this changes no commit index
            self._replicate(peer, now)
        elif response.next_index < size and (response.accepted or response.next_index != sending.offset):
            sending.offset = response.next_index
            self._probe(peer, now)
        else:  # this snapshot does not help the follower; the next heartbeat probes again
            progress.refused = sending.snapshot.index
            progress.sending = None
            progress.back_to_probing(max(progress.next, sending.snapshot.index + 1))

    def failed(self, peer: int, tag: int, now: float) -> None:
        """Note a lost request. The next heartbeat or connection begins to probe."""
        self.changes.failed(peer, tag, now)
        progress = self.progress.get(peer)
        if progress is not None and tag in progress.flights:
            progress.lost()

    def reachable(self, peer: int, now: float) -> None:
        """Note a new connection to a peer: all unanswered requests to that peer are lost."""
        self.changes.reachable(peer, now)
        progress = self.progress.get(peer)
        if progress is not None:
            progress.lost()
            self._probe(peer, now)

    # Servers -----------------------------------------------------------------------------------------------------

    @property
    def retired(self) -> bool:
        """Whether this leader should step down, because a committed Configuration has removed it (thesis 4.2.2).

        A removed leader first commits all accepted entries, so that their callers get an answer.
        """
        return self._is_removed and self._state.commit == self._state.log.last_index

    @property
    def is_established(self) -> bool:
        """Whether an entry of this leader's term is committed, and with it all earlier entries."""
        return self._state.commit >= self._first_index

    @property
    def is_equalled(self) -> bool:
        """Whether another voter has the whole log of this leader.

        A leader that has lost its state waits for one such voter, which can lead instead. A majority of such voters may
        never come, because some voters may need a snapshot, and this leader has none to send.
        """
        voters, last = self._state.configurations.voters, self._state.log.last_index
        return any(peer in voters and progress.match >= last for peer, progress in self.progress.items())

    @property
    def _is_removed(self) -> bool:
        return self._state.id not in self._state.configurations.voters

    @property
    def leavers(self) -> dict[int, str]:
        """Endpoints, by server id, of removed servers that may not know of their removal yet."""
        return {peer: progress.endpoint for peer, progress in self.progress.items() if progress.removed_at}

    def tell_commit(self, now: float) -> None:
        """Send all followers the commit index, as the last act before this leader steps down."""
        for peer, progress in self.progress.items():
            if not progress.probing and progress.next > self._state.log.base:
                self._send(peer, (), now)

    def add_server(self, token: Token, request: Request, now: float) -> None:
        """Begin to add a server, if nothing stands in the way (`MembershipChange.add`).

        A leaver that comes back gets the log as a newcomer only. Two copies of a snapshot on the way to one server
        would begin each other again for ever.
        """
        self.changes.add(token, request, now)
        if self.changes.joining is not None:
            self.progress.pop(self.changes.joining.server.id, None)

    def _set_servers(self, servers: tuple[ClusterServer, ...], next_index: int, now: float) -> None:
        """Append a Configuration. It is in force at once: a majority of its own servers commits it (thesis 4.1).

        `next_index`: the first entry that a new server lacks.
        """
        state = self._state
        last = state.log.last_index + 1
        value = state.configurations.next(last, servers)
        endpoints = {server.id: server.endpoint for server in state.configurations.current.servers}
        state.replace_from(last, (Entry(state.term, ValueType.CONFIGURATION, value.encode()),))
        for peer in state.peers:
            if peer not in self.progress:
                self.progress[peer] = FollowerProgress(next=next_index, heard_at=now)
        for peer, progress in self.progress.items():
            if peer not in state.configurations.voters and not progress.removed_at:
                progress.removed_at, progress.removed_since = last, now
                progress.endpoint = endpoints[peer]
            if progress.probing:
                self._probe(peer, now)
            else:
                self._replicate(peer, now)

    # Commitment --------------------------------------------------------------------------------------------------

    def stored(self, now: float) -> None:
        """Note that this leader has more durable entries; commit and serve reads if that completes a majority."""
        self._advance_commit(now)
        self._advance_reads(now)

    def _agreed(self, own_value: float, value_of: Callable[[FollowerProgress], float]) -> float:
        """Return the highest value that a majority has reached. `value_of`: returns another voter's value."""
        own_id, progress = self._state.id, self.progress
        return agreed(
            [own_value if voter == own_id else value_of(progress[voter]) for voter in self._state.configurations.voters]
        )

    def _advance_commit(self, now: float) -> None:
        """Commit the entries that a majority has stored, if the last such entry is of this term (Raft 5.4.2)."""
        state = self._state
        index = int(self._agreed(state.log.stored, _match))
        if index <= state.commit or state.log.term(index) != state.term:
            return
        first_of_term = not self.is_established
        state.commit = index
        while self._waiting and self._waiting[0].last_index <= index:
            waiting = self._waiting.popleft()
            self._queued_bytes -= waiting.size
            state.answer_client(waiting.token, accepted=True, next_index=waiting.last_index + 1)
        if first_of_term:
            self._begin_round(now)

    # Reads -------------------------------------------------------------------------------------------------------

    def read(self, token: Token, now: float) -> None:
        """Take a read. It is served once a majority has answered a heartbeat that left after this call (thesis 6.4).

        Reads that arrive during a round of heartbeats share the next round.
        """
        self._reads.append(token)
        if not self._round_reads:
            self._begin_round(now)
            self._advance_reads(now)

    def _begin_round(self, now: float) -> None:
        # Before the first commit of its term, a leader does not know the commit index (Raft 8).
        if not self._reads or not self.is_established:
            return
        self._round += 1
        self._round_reads, self._reads = self._reads, []
        self._round_index = self._state.commit
        for peer in self.progress:
            self._heartbeat(peer, now)

    def _advance_reads(self, now: float) -> None:
        while self._round_reads:
            if self._agreed(self._round, _round) < self._round:
                return
            ready = [ReadReady(token, self._round_index) for token in self._round_reads]
            self._state.effects.reads_ready += ready
            self._round_reads = []
            self._begin_round(now)

    # Leading on and stepping down --------------------------------------------------------------------------------

    def quorum_heard_at(self, now: float) -> float:
        """Return the latest time such that a majority was heard then or later. This server counts as heard at `now`."""
        return self._agreed(now, _heard_at)

    def deadline(self, now: float) -> float:
        """Return when `tick` is due: for a heartbeat, a membership change, or the loss of the majority."""
        timing, room = self._state.timing, self._state.flow.in_flight
        deadline = min(self.quorum_heard_at(now) + timing.election_max, self.changes.deadline())
        for progress in self.progress.values():
            heartbeat = progress.sent_at + timing.heartbeat
            if heartbeat < deadline and len(progress.flights) < room:
                deadline = heartbeat
        return deadline

    def resign(self) -> None:
        """Drop all waiting callers, whose entries the next leader may commit or remove; refuse all waiting reads."""
        self._state.effects.dropped += [waiting.token for waiting in self._waiting]
        self._state.effects.reads_refused += self._round_reads + self._reads
