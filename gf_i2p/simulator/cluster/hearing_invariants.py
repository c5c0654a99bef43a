"""Invariants about the answers that a server must have heard before the server acts.

The invariants of `invariants` notice the harm that a mistake has done, which may need a rare chain of events. These
invariants notice the mistake itself.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from gf_i2p.raft.configurations import majority
from gf_i2p.raft.effects import Effects, Token, Write
from gf_i2p.raft.inputs import Answered, Failed, Incoming, Input, Read
from gf_i2p.simulator.cluster.invariant import Invariant
from gf_i2p.simulator.facts import Facts, ServerFacts, Voters
from gf_i2p.storage.loading import Loaded
from gf_i2p.wire.entries import Entry
from gf_i2p.wire.messages import NOBODY, MessageType


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

    def takes(self, server: ServerFacts, event: Input, effects: Effects) -> None:
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

    def takes(self, server: ServerFacts, event: Input, effects: Effects) -> None:
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
