"""The invariants about harm: two leaders, a lost entry, a broken promise. Each checks only the changes of a step.

"Raft" is the extended paper (Ongaro, Ousterhout), "thesis" is Ongaro's.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from gf_i2p.raft.allowance import TERMS_A_SECOND, TERMS_AT_ONCE
from gf_i2p.raft.configurations import majority
from gf_i2p.raft.effects import Effects, Send, SendReply, Write
from gf_i2p.raft.inputs import Answered, Incoming, Input
from gf_i2p.simulator.cluster.invariants.invariant import Invariant
from gf_i2p.simulator.facts import Facts, FarmChoice, ServerFacts, Voters, voters_of
from gf_i2p.storage.loading import Loaded
from gf_i2p.wire.entries import Entry, ValueType
from gf_i2p.wire.messages import NOBODY, MessageType

FASTEST_CLOCK: Final = 1.35
SLOWEST_CLOCK: Final = 0.75
"""Rates of the fastest and of the slowest server's clock (`plan.draw`); a rate of 1 is right."""


class ElectionSafety(Invariant):
    """At most one leader can be elected in a given term (Raft, figure 3 and 5.2)."""

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._leaders: dict[int, int] = {}

    def leads(self, server: ServerFacts) -> None:
        other = self._leaders.setdefault(server.term, server.id)
        if other != server.id:
            raise self.violated(f"servers {other} and {server.id} both lead in term {server.term}")


class LeaderAppendOnly(Invariant):
    """A leader never overwrites or deletes entries in its log (Raft, figure 3 and 5.3)."""

    def writes(self, server: ServerFacts, write: Write, term: int, *, leads: bool) -> None:
        last = server.memory.last_index
        if write.entries and server.leads and leads and server.term == term and write.first_index <= last:
            raise self.violated(f"leader {server.id} replaces its entries from {write.first_index} on, up to {last}")


class LogMatching(Invariant):
    """Two logs that have an entry of the same index and term are the same up to that entry (Raft, figure 3 and 5.3)."""

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._links: dict[tuple[int, int], tuple[Entry, int]] = {}

    def writes(self, server: ServerFacts, write: Write, term: int, *, leads: bool) -> None:
        # At each index, the entry and the previous entry's term are the same. So, by induction, the logs are the same.
        previous = server.memory.term(write.first_index - 1)
        for index, entry in enumerate(write.entries, write.first_index):
            link = (entry, previous)
            if self._links.setdefault((index, entry.term), link) != link:
                raise self.violated(
                    f"server {server.id} and another server differ in entry {index} of term {entry.term}, or in the "
                    "term before that entry"
                )
            previous = entry.term


class LeaderCompleteness(Invariant):
    """A committed entry of one term is in the logs of the leaders of all higher terms.

    Raft, figure 3 and 5.4.3.
    """

    def leads(self, server: ServerFacts) -> None:
        # A paused server may learn late that it won an old term. Its log need not have the entries of later terms.
        self._check(server, 1, max((index for index, term in self.facts.marks if term < server.term), default=0))

    def committed(self, server: ServerFacts, first: int) -> None:
        for other in self.facts.servers.values():
            if other.leads and other.up and other.term > server.term:
                self._check(other, first, len(self.facts.committed))

    def _check(self, leader: ServerFacts, first: int, last: int) -> None:
        if leader.memory.slice(first, last) != self.facts.committed[first - 1 : last]:
            raise self.violated(
                f"the log of server {leader.id}, leader of term {leader.term}, lacks some of the {last} entries that "
                "were committed in lower terms"
            )


class StateMachineSafety(Invariant):
    """No two servers commit or apply different entries at one index, and no server applies an uncommitted entry.

    Raft, figure 3 and 5.4.3.
    """

    def commits(self, server: ServerFacts, before: int) -> None:
        if server.commit > server.memory.last_index:
            raise self.violated(
                f"server {server.id} commits up to {server.commit}, but its log ends at {server.memory.last_index}"
            )
        committed = self.facts.committed[before : server.commit]
        if server.memory.slice(before + 1, before + len(committed)) != committed:
            raise self.violated(
                f"server {server.id} commits other entries between {before + 1} and {server.commit} than another server"
            )

    def applies(self, server: ServerFacts, index: int, entry: Entry) -> None:
        if index > server.commit:
            raise self.violated(f"server {server.id} applies entry {index}, but its commit index is {server.commit}")
        if self.facts.committed[index - 1] != entry:
            raise self.violated(f"server {server.id} applies an entry {index} that differs from the committed one")


class CommittedOnMajority(Invariant):
    """Committed entries are on the disks of a majority (Raft 5.3 and figure 2; docs/explanation/words.md)."""

    def committed(self, server: ServerFacts, first: int) -> None:
        entries = self.facts.committed[first - 1 :]
        last = len(self.facts.committed)
        holders = [
            voter
            for voter in server.voters
            if voter in self.facts.servers and self.facts.servers[voter].durable.slice(first, last) == entries
        ]
        if len(holders) < majority(len(server.voters)):
            raise self.violated(
                f"server {server.id} commits {first} to {last}, which are durable only on {holders} of the servers "
                f"{list(server.voters)}"
            )


class CommitsOwnTerm(Invariant):
    """A leader commits only an entry of its own term by counting copies; earlier entries follow (Raft 5.4.2)."""

    def commits(self, server: ServerFacts, before: int) -> None:
        if server.leads and server.memory.term(server.commit) != server.term:
            raise self.violated(
                f"leader {server.id} of term {server.term} commits up to entry {server.commit}, of term "
                f"{server.memory.term(server.commit)}"
            )


class NothingFalls(Invariant):
    """A server's term and commit index never fall, and its commit index stays within the log (Raft, figure 2)."""

    def steps(self, server: ServerFacts, term: int, commit: int, effects: Effects) -> None:
        if term < server.term or commit < server.commit:
            raise self.violated(
                f"server {server.id} goes from term {server.term} and commit index {server.commit} to {term}, {commit}"
            )


class VoteOnce(Invariant):
    """A server votes for at most one candidate in a term (Raft 5.2)."""

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._votes: dict[tuple[int, int], int] = {}

    def sends(self, server: ServerFacts, item: Send | SendReply) -> None:
        if isinstance(item, Send):
            if item.request.type is MessageType.REQUEST_VOTE_REQUEST:
                self._note_vote(server, item.request.term, server.id)
        elif item.response.accepted and item.response.type is MessageType.REQUEST_VOTE_RESPONSE:
            self._note_vote(server, item.response.term, item.response.destination)

    def is_durable(self, server: ServerFacts, writes: Sequence[Write]) -> None:
        for write in writes:
            if write.hard_state is not None and write.hard_state.vote != NOBODY:
                self._note_vote(server, write.hard_state.term, write.hard_state.vote)

    def _note_vote(self, server: ServerFacts, term: int, candidate: int) -> None:
        other = self._votes.setdefault((server.id, term), candidate)
        if other != candidate:
            raise self.violated(f"server {server.id} votes for {other} and for {candidate} in term {term}")


class PersistedBeforeSent(Invariant):
    """A term, a vote or entries are on a server's disk before the server promises these in a message.

    Raft, figure 2 (persistent state); thesis 10.2.1.
    """

    def sends(self, server: ServerFacts, item: Send | SendReply) -> None:
        if isinstance(item, Send):
            request = item.request
            self._check_term(server, request.term)
            if request.type is MessageType.REQUEST_VOTE_REQUEST:
                self._check_vote(server, request.term, server.id)
            return
        response = item.response
        if response.type is MessageType.REQUEST_VOTE_RESPONSE:
            self._check_term(server, response.term)
            if response.accepted:
                self._check_vote(server, response.term, response.destination)
        elif response.type in {MessageType.INSTALL_SNAPSHOT_RESPONSE, MessageType.JOIN_CLUSTER_RESPONSE}:
            self._check_term(server, response.term)
        elif response.type in {MessageType.APPEND_ENTRIES_RESPONSE, MessageType.SYNC_LOG_RESPONSE}:
            self._check_term(server, response.term)
            # In a later term the entries may have been replaced by now: the promise held only in its own term.
            if response.accepted and server.hard_state.term == response.term:
                self._check_entries(server, response.next_index - 1)

    def _check_term(self, server: ServerFacts, term: int) -> None:
        if server.hard_state.term < term:
            raise self.violated(f"server {server.id} sends term {term}, but has term {server.hard_state.term} on disk")

    def _check_entries(self, server: ServerFacts, last: int) -> None:
        durable = server.durable
        if durable.last_index < last:
            raise self.violated(
                f"server {server.id} acknowledges up to {last}, but has only entries up to {durable.last_index} on disk"
            )
        if server.term == server.hard_state.term and durable.term(last) != server.memory.term(last):
            raise self.violated(
                f"server {server.id} acknowledges up to {last} of term {server.memory.term(last)}, but has another "
                f"entry {last}, of term {durable.term(last)}, on disk"
            )

    def _check_vote(self, server: ServerFacts, term: int, candidate: int) -> None:
        if server.hard_state.term == term and server.hard_state.vote != candidate:
            raise self.violated(
                f"server {server.id} sends its vote for {candidate} in term {term}, but does not have the vote on disk"
            )


class DiskKeeps(Invariant):
    """A server starts with exactly the content that its last process has made durable (Raft, figure 2)."""

    def boots(self, server: ServerFacts, loaded: Loaded, entries: Sequence[Entry]) -> None:
        durable = server.durable
        if loaded.hard_state != server.hard_state:
            raise self.violated(f"server {server.id} starts with {loaded.hard_state} instead of {server.hard_state}")
        if loaded.base != (durable.base, durable.term(durable.base)) or loaded.snapshot != durable.snapshot:
            raise self.violated(f"server {server.id} starts with a snapshot or base that differs from the durable one")
        if loaded.terms != durable.runs() or list(entries) != durable.slice(durable.base + 1, durable.last_index):
            raise self.violated(f"server {server.id} starts with a log that differs from the durable one")


class SnapshotSafety(Invariant):
    """Snapshots of one index are the same on all servers, cover committed entries, and never go back to a lower index.

    Raft 7: a snapshot replaces committed entries only, and holds the latest Configuration up to its index.
    """

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._states: dict[int, bytes] = {}

    def keeps(self, server: ServerFacts, write: Write) -> None:
        snapshot, committed = write.snapshot, self.facts.committed
        assert snapshot is not None
        before = server.memory.base if server.memory.snapshot is None else server.memory.snapshot.index
        if snapshot.index < before:
            raise self.violated(f"server {server.id} goes from a snapshot up to {before} to one up to {snapshot.index}")
        if not max(write.drop, server.memory.base) <= snapshot.index <= len(committed):
            raise self.violated(
                f"server {server.id} keeps a snapshot up to {snapshot.index} and drops up to {write.drop}; "
                f"{len(committed)} are committed"
            )
        if snapshot.term != committed[snapshot.index - 1].term:
            raise self.violated(f"server {server.id} keeps a snapshot up to {snapshot.index} with a wrong term")
        servers = tuple(each.id for each in snapshot.configuration.servers)
        if servers != self._voters_at(snapshot.index):
            raise self.violated(
                f"server {server.id} keeps a snapshot up to {snapshot.index} with wrong servers: {servers}"
            )
        self._check_state(server, snapshot.index, snapshot.data)

    def restores(self, server: ServerFacts, index: int, data: bytes) -> None:
        self._check_state(server, index, data)

    def _check_state(self, server: ServerFacts, index: int, data: bytes) -> None:
        if self._states.setdefault(index, data) != data:
            raise self.violated(f"server {server.id} has a state at {index} that differs from another server's")

    def _voters_at(self, index: int) -> Voters:
        entries = self.facts.committed
        while index and entries[index - 1].value_type is not ValueType.CONFIGURATION:
            index -= 1
        return voters_of(entries[index - 1]) if index else ()


class OnePendingChange(Invariant):
    """Servers are added and removed one at a time, and only when the previous change is committed.

    Thesis 4.1, and Ongaro's correction of 2015: the leader must have committed an entry of its own term before.
    """

    def writes(self, server: ServerFacts, write: Write, term: int, *, leads: bool) -> None:
        if not leads:
            return
        history: list[tuple[int, Voters]] = [(0, server.bootstrap), *server.configurations]
        for index, entry in enumerate(write.entries, write.first_index):
            if entry.value_type is not ValueType.CONFIGURATION:
                continue
            voters = voters_of(entry)
            change = set(voters).symmetric_difference(history[-1][1])
            if len(change) > 1:
                raise self.violated(f"leader {server.id} changes servers {sorted(change)} at once, at {index}")
            if change:
                pending = [at for at, _ in _changes(history) if at > server.commit]
                if pending:
                    raise self.violated(
                        f"leader {server.id} changes server {min(change)} at {index} while the change at {pending[0]} "
                        "is not committed"
                    )
                if server.memory.term(server.commit) != term:
                    raise self.violated(
                        f"leader {server.id} changes server {min(change)} before it has committed an entry of its term"
                    )
            history.append((index, voters))


def _changes(history: Sequence[tuple[int, Voters]]) -> list[tuple[int, Voters]]:
    return [new for old, new in pairwise(history) if set(old[1]) != set(new[1])]


class Acknowledged(Invariant):
    """An accepted entry is committed for good; a refused entry is surely never in the log.

    Raft 8; ARCHITECTURE.md, "An answer is final".
    """

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._refused: dict[bytes, None] = {}
        self._committed: dict[bytes, None] = {}

    def acknowledges(self, values: Sequence[bytes], last_index: int) -> None:
        committed = self.facts.committed[last_index - len(values) : last_index]
        if [entry.value for entry in committed] != list(values):
            raise self.violated(f"entries up to {last_index} are acknowledged, and are not committed there")

    def refuses(self, values: Sequence[bytes]) -> None:
        for value in values:
            self._refused[value] = None
            if value in self._committed:
                raise self.violated(f"{value.decode()!r} is refused, and is committed")

    def committed(self, server: ServerFacts, first: int) -> None:
        for entry in self.facts.committed[first - 1 :]:
            if entry.value_type is ValueType.APPLICATION:
                self._committed[entry.value] = None
                if entry.value in self._refused:
                    raise self.violated(f"{entry.value.decode()!r} was refused, and is committed")


class FreshReads(Invariant):
    """A read sees every entry that was acknowledged before the read was sent (Raft 8; thesis 6.4)."""

    def reads(self, server: ServerFacts, applied: int, owed: int) -> None:
        if applied < owed:
            raise self.violated(
                f"server {server.id} serves a read at {applied}, but {owed} was acknowledged before the read was sent"
            )


class SameChoice(Invariant):
    """All servers that have applied the same log choose the same publisher and setting, and list the same leaves.

    Proposal 150: the servers must agree.
    """

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._choices: dict[int, FarmChoice] = {}

    def chooses(self, server: ServerFacts, index: int, choice: FarmChoice) -> None:
        other = self._choices.setdefault(index, choice)
        for name, own, others in zip(FarmChoice._fields, choice, other, strict=True):
            if own != others:
                raise self.violated(f"at {index} server {server.id} has {own} as {name}, but another had {others}")


class NobodyAccused(Invariant):
    """No server reports that another server has broken the protocol (gf_i2p/raft/effects.py, Effects.violation).

    A server that denies entries must be reported, though: see `DenialsReported`.
    """

    def steps(self, server: ServerFacts, term: int, commit: int, effects: Effects) -> None:
        named = self.facts.denier is not None and f"server {self.facts.denier} has lost" in (effects.violation or "")
        if effects.violation is not None and not self.facts.forged and not named:
            raise self.violated(f"server {server.id} says: {effects.violation}")


class ForgeriesRefused(Invariant):
    """A server names the fault of a message that no honest server sends, and stores nothing that the message says.

    The message also gets no answer (gf_i2p/raft/effects.py, Effects.violation).
    """

    def takes(self, server: ServerFacts, event: Input, effects: Effects, clock: float) -> None:
        if not self.facts.forged:
            return
        if effects.violation is None:
            raise self.violated(f"server {server.id} does not say that a message is forged: {event}")
        if effects.write is not None or effects.replies or effects.gated_replies:
            raise self.violated(f"server {server.id} acts on a forged message: {event}")


class TermsBounded(Invariant):
    """Other servers raise a server's term at a bounded rate, whatever they claim (`gf_i2p/raft/allowance.py`).

    A message whose term the server does not reach is named as a fault, and gets no answer. A server that hears its
    leader refuses a vote request instead. A newcomer, which has promised nothing, is free.
    """

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._raised: dict[int, tuple[float, int]] = {}  # by server: start of its process, terms raised by others since
        self._before: dict[int, int] = {}

    def boots(self, server: ServerFacts, loaded: Loaded, entries: Sequence[Entry]) -> None:
        self._raised.pop(server.id, None)
        self._before[server.id] = loaded.hard_state.term

    def takes(self, server: ServerFacts, event: Input, effects: Effects, clock: float) -> None:
        before, self._before[server.id] = self._before[server.id], server.term
        if not isinstance(event, Incoming | Answered):
            return
        began, raised = self._raised.get(server.id, (clock, 0))
        if server.configurations:  # else it may be a newcomer
            write = effects.write
            votes = write is not None and write.hard_state is not None and write.hard_state.vote == server.id
            raised += server.term - before - votes  # the term of its own election is its own
        self._raised[server.id] = began, raised
        if raised > TERMS_AT_ONCE + TERMS_A_SECOND * (clock - began) + 1:  # rounding
            raise self.violated(f"other servers have raised the term of server {server.id} by {raised} since its start")
        claimed = event.request.term if isinstance(event, Incoming) else event.response.term
        asks = isinstance(event, Incoming) and event.request.type is MessageType.CLIENT_REQUEST
        if claimed <= server.term or asks:
            return
        is_vote = isinstance(event, Incoming) and event.request.type is MessageType.REQUEST_VOTE_REQUEST
        if effects.violation is None and not is_vote:
            raise self.violated(f"server {server.id} does not say that term {claimed} is too far from {server.term}")
        replies = (*effects.replies, *effects.gated_replies)
        if any(reply.response.accepted or not is_vote for reply in replies):
            raise self.violated(f"server {server.id} answers a request of term {claimed} in term {server.term}")


class LiveLeaderStays(Invariant):
    """No server calls an election while a majority hears a leader (docs/design/consensus.md, "The question").

    The higher term of such an election would make the leader step down. "Hears" is stricter here than in the core: for
    as long as an answer to a question is valid, each message of the leader came soon after the last.
    """

    def stands(self, server: ServerFacts) -> None:
        facts, voters = self.facts, server.voters
        oldest = facts.now() - facts.slowest.election_max / SLOWEST_CLOCK
        latest = facts.now() - facts.timing.doubt / FASTEST_CLOCK
        for leader in facts.servers.values():
            # A leader elected a moment ago may have answered before its election that it knew no leader.
            led = leader.leads and leader.up and leader.led_since <= oldest
            if not led or leader.term >= server.term or leader is server:
                continue
            hearers = [
                other.id
                for other in facts.servers.values()
                if other is leader or (other is not server and other.up and _hears(other, leader, oldest, latest))
            ]
            of_leader = set(hearers).intersection(leader.voters)
            others = [voter for voter in voters if voter not in hearers]
            if len(of_leader) >= majority(len(leader.voters)) and len(others) < majority(len(voters)):
                raise self.violated(
                    f"server {server.id} stands for election in term {server.term}, but servers {hearers} of "
                    f"{list(voters)} hear server {leader.id}, the leader of term {leader.term}"
                )


def _hears(server: ServerFacts, leader: ServerFacts, oldest: float, latest: float) -> bool:
    hearing = server.hearing
    return (
        hearing is not None
        and (hearing.leader, hearing.term) == (leader.id, leader.term)
        and server.term == leader.term
        and hearing.since <= oldest
        and hearing.at >= latest
    )
