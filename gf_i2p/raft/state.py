"""The state that all roles share: this server's id, the durable state, the log, and the effects of the present step."""

from collections.abc import Sequence

from gf_i2p.raft.configurations import Configurations
from gf_i2p.raft.effects import Effects, HardState, Send, SendReply, Snapshot, Token, Write
from gf_i2p.raft.log import Log
from gf_i2p.raft.settings import Flow, Timing
from gf_i2p.wire.entries import Entry
from gf_i2p.wire.messages import NOBODY, RESPONSE_TYPE, MessageType, Request, Response


class State:
    """The state of one server. Only the core and its roles change the state."""

    def __init__(
        self,
        server_id: int,
        *,
        hard_state: HardState,
        log: Log,
        configurations: Configurations,
        timing: Timing,
        flow: Flow,
        snapshot: Snapshot | None,
    ) -> None:
        self.id = server_id
        self.term = hard_state.term
        self.vote = hard_state.vote
        self.leader = NOBODY
        self.commit = log.base if snapshot is None else snapshot.index
        self.log = log
        self.snapshot = snapshot
        """The newest snapshot; None when there is none, or when the stored one is damaged."""
        self.configurations = configurations
        self.timing = timing
        self.flow = flow
        self.effects = Effects()
        self._hard_state_changed = False
        self._last_tag = 0
        self._writes = 0  # number of the last issued write
        self._stored = 0  # number of the last durable write
        self._vote_write = 0  # number of the write with the present term and vote

    @property
    def peers(self) -> list[int]:
        """Ids of the other voters."""
        return [voter for voter in self.configurations.voters if voter != self.id]

    @property
    def is_newcomer(self) -> bool:
        """Whether this server has no entries, and no known Configuration names this server."""
        return self.log.last_index == 0 and not self.configurations.ever_has(self.id)

    @property
    def vote_is_durable(self) -> bool:
        """Whether the present term and vote are on the disk."""
        return self._stored >= self._vote_write

    def write_stored(self, number: int) -> None:
        """Note that all writes up to `number` are durable."""
        assert number <= self._writes
        self._stored = number
        self.log.write_stored(number)

    def set_hard_state(self, term: int, vote: int) -> None:
        """Change term and vote; the step's write makes the change durable."""
        assert term > self.term or (term == self.term and self.vote in {NOBODY, vote}), "one vote a term, terms rise"
        self.term = term
        self.vote = vote
        self._hard_state_changed = True

    def replace_from(self, first: int, entries: Sequence[Entry]) -> None:
        """Remove the log's entries from `first` on, and append `entries`. At most once a step: a step has one write."""
        assert first > self.commit, "a committed entry is never replaced"
        assert self.effects.write is None, "one write a step"
        self.configurations.replace_from(first, entries)
        self.log.replace_from(first, entries)
        self.effects.write = Write(None, first, tuple(entries))

    def take_snapshot(self, snapshot: Snapshot, drop: int) -> None:
        """Keep a snapshot that agrees with the log; drop the entries up to `drop`, unless they are dropped already."""
        assert self.effects.write is None, "one write a step"
        assert snapshot.index >= drop, "a snapshot covers the dropped entries"
        self.snapshot = snapshot
        if drop > self.log.base:
            self.log.drop(drop)
            self.configurations.drop(drop)
        self.effects.write = Write(None, 0, (), snapshot, self.log.base)

    def install_snapshot(self, snapshot: Snapshot) -> None:
        """Replace the whole log by a snapshot."""
        assert self.effects.write is None, "one write a step"
        self.snapshot = snapshot
        self.log.restart(snapshot.index, snapshot.term)
        self.configurations.restart(snapshot.configuration)
        self.effects.write = Write(None, 0, (), snapshot, install=True)

    def send(
        self,
        peer: int,
        message_type: MessageType,
        previous: int,
        commit: int,
        entries: tuple[Entry, ...] = (),
        *,
        gated: bool,
    ) -> int:
        """Send a request of this term; return the request's tag. `previous`: the log index in the request's header."""
        return self.send_about(peer, message_type, (previous, self.log.term(previous)), commit, entries, gated=gated)

    def send_about(
        self,
        peer: int,
        message_type: MessageType,
        last: tuple[int, int],
        commit: int,
        entries: tuple[Entry, ...] = (),
        *,
        gated: bool = False,
    ) -> int:
        """Send a request of this term; return the request's tag. `last`: log index and term in the request's header."""
        self._last_tag += 1
        request = Request(
            type=message_type,
            source=self.id,
            destination=peer,
            term=self.term,
            last_log_term=last[1],
            last_log_index=last[0],
            commit_index=commit,
            entries=entries,
        )
        sends = self.effects.gated_sends if gated else self.effects.sends
        sends.append(Send(peer, request, self._last_tag))
        return self._last_tag

    def ask(self, peer: int) -> int:
        """Ask a server for the leader, as a client does; return the request's tag. The request has term and index 0."""
        self._last_tag += 1
        request = Request(MessageType.CLIENT_REQUEST, self.id, peer, 0, 0, 0, 0)
        self.effects.sends.append(Send(peer, request, self._last_tag))
        return self._last_tag

    def promise(self, token: Token, request: Request, *, accepted: bool, next_index: int = 0) -> None:
        """Answer another server once everything in the answer is durable.

        The destination of an AppendEntriesResponse is the leader; the destination of any other response is the asking
        server (proposal, "Responses").
        """
        to_leader = request.type == MessageType.APPEND_ENTRIES_REQUEST
        response = Response(
            type=RESPONSE_TYPE[request.type],
            source=self.id,
            destination=self.leader if to_leader else request.source,
            term=self.term,
            next_index=next_index,
            accepted=accepted,
        )
        self.effects.gated_replies.append(SendReply(token, response))

    def answer_client(
        self,
        token: Token,
        *,
        accepted: bool,
        next_index: int = 0,
        message_type: MessageType = MessageType.APPEND_ENTRIES_RESPONSE,
        known: bool = True,
    ) -> None:
        """Answer a request that only a leader serves; the destination names the leader, if `known`."""
        response = Response(
            type=message_type,
            source=self.id,
            destination=self.leader if known else NOBODY,
            term=self.term,
            next_index=next_index,
            accepted=accepted,
        )
        self.effects.replies.append(SendReply(token, response))

    def violated(self, token: Token, fault: str) -> None:
        """Drop the connection of a peer that has broken a rule. `fault`: a sentence for the operator."""
        self.effects.dropped.append(token)
        self.effects.violation = fault

    def take_effects(self) -> Effects:
        """Return the effects of the finished step. One write holds all changes of the durable state in this step."""
        effects, self.effects = self.effects, Effects()
        if self._hard_state_changed:
            self._hard_state_changed = False
            hard_state = HardState(self.term, self.vote)
            write = effects.write
            effects.write = Write(hard_state, 0, ()) if write is None else write._replace(hard_state=hard_state)
            self._vote_write = self._writes + 1
        if effects.write is not None:
            self._writes += 1
            effects.write = effects.write._replace(number=self._writes)
            self.log.write_issued(effects.write)
        return effects
