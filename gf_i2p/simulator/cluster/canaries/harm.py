"""The canaries of the core: each makes one mistake on purpose. A simulator that misses a canary cannot be trusted.

To add a canary: write the function with the mistake, and add a line to `harm_canaries`.
"""

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, cast

from gf_i2p.farm.choice.candidates import Setting
from gf_i2p.farm.state import FarmState
from gf_i2p.raft import follower
from gf_i2p.raft.allowance import Allowance
from gf_i2p.raft.candidate import Candidate
from gf_i2p.raft.configurations import Configurations, agreed
from gf_i2p.raft.core import Core
from gf_i2p.raft.durability_gate import DurabilityGate
from gf_i2p.raft.effects import Effects, HardState, ReadReady, Send, SendReply, Snapshot, Token
from gf_i2p.raft.follower import Follower, SnapshotReceiver
from gf_i2p.raft.follower_progress import FollowerProgress
from gf_i2p.raft.inquiry import Inquiry
from gf_i2p.raft.leader import Leader
from gf_i2p.raft.log import Log
from gf_i2p.raft.membership_change import MembershipChange
from gf_i2p.raft.state import State
from gf_i2p.simulator.canary import Canary
from gf_i2p.simulator.canary import core_canary as core
from gf_i2p.storage.entry_chunks import Packed
from gf_i2p.storage.log_tables import Tables
from gf_i2p.storage.write_group import WriteGroup
from gf_i2p.wire.entries import Entry
from gf_i2p.wire.log_values import Configuration, SnapshotSyncRequest
from gf_i2p.wire.messages import NOBODY, MessageType, Request, Response

# The original methods, for canaries that call these methods and add a mistake before or after the call.
_request_vote = Core._request_vote
_incoming = Core._incoming
_append_entries = Follower.append_entries
_take_entries = Follower._take_entries
_take_effects = State.take_effects
_send = Leader._send
_propose = Leader.propose


# Votes and terms ------------------------------------------------------------------------------------------------------


def _votes_twice(core: Core, token: Token, request: Request) -> None:
    if request.term == core.term and core.role == "follower":
        core._state.vote = NOBODY
    _request_vote(core, token, request)


def _checks_no_term(before: int, entries: Sequence[Entry], term: int) -> None:
    pass


def _takes_any_claim(_: Allowance, step: int, __: float) -> int:
    return step


def _takes_any_vote(state: State, term: int, vote: int) -> None:
    state.term, state.vote = term, vote
    state._hard_state_changed = True


def _stores_any_vote(group: WriteGroup, new: HardState) -> None:
    """Check nothing: replaces the storage's check against a second vote."""


def _forgets_its_vote(state: State) -> Effects:
    effects = _take_effects(state)
    if effects.write is not None and effects.write.hard_state is not None:
        return _without_hard_state(effects, HardState(effects.write.hard_state.term, NOBODY))
    return effects


def _forgets_its_term(state: State) -> Effects:
    effects = _take_effects(state)
    if effects.write is not None and effects.write.hard_state is not None and not effects.write.entries:
        return _without_hard_state(effects, None)
    return effects


def _without_hard_state(effects: Effects, hard_state: HardState | None) -> Effects:
    assert effects.write is not None
    effects.write = effects.write._replace(hard_state=hard_state)
    return effects


def _votes_for_any_log(log: Log, last_term: int, last_index: int) -> bool:
    return True


def _votes_for_the_longer_log(log: Log, last_term: int, last_index: int) -> bool:
    return last_index >= log.last_index


def _wins_with_half(candidate: Any) -> bool:
    voters = candidate._state.configurations.voters
    return len(candidate._granted.intersection(voters)) >= max(len(voters) // 2, 1)


def _stands_unasked(inquiry: Inquiry, now: float) -> bool:
    return True


def _heeds_old_leaders(core: Core, token: Token, request: Request) -> None:
    if request.type is MessageType.APPEND_ENTRIES_REQUEST and request.term < core.term and not core.is_leader:
        request = replace(request, term=core.term)
    _incoming(core, token, request)


# Replication and commitment -------------------------------------------------------------------------------------------


def _commits_old_terms(leader: Leader, now: float) -> None:
    state = leader._state
    index = int(leader._agreed(state.log.stored, lambda progress: progress.match))
    if index > state.commit:
        state.commit = index
        while leader._waiting and leader._waiting[0].last_index <= index:
            waiting = leader._waiting.popleft()
            state.answer_client(waiting.token, accepted=True, next_index=waiting.last_index + 1)
        leader._begin_round(now)


def _counts_itself_early(leader: Leader, now: float) -> None:
    stored, leader._state.log.stored = leader._state.log.stored, leader._state.log.last_index
    try:
        _advance_commit(leader, now)
    finally:
        leader._state.log.stored = stored


_advance_commit = Leader._advance_commit


def _counts_half(leader: Leader, own_value: float, value_of: Callable[[FollowerProgress], float]) -> float:
    voters, progress = leader._state.configurations.voters, leader.progress
    values = sorted((own_value if m == leader._state.id else value_of(progress[m]) for m in voters), reverse=True)
    return values[max(len(voters) // 2, 1) - 1]


def _counts_what_it_sent(leader: Leader, peer: int, entries: tuple[Any, ...], now: float) -> None:
    _send(leader, peer, entries, now)
    progress = leader.progress[peer]
    if not progress.probing:
        progress.match = max(progress.match, progress.next - 1 + len(entries))


def _keeps_conflicts(follower: Follower, request: Request, first: int, new: Sequence[Entry]) -> str | None:
    overlap = min(max(follower._state.log.last_index + 1 - first, 0), len(new))
    return _take_entries(follower, request, first + overlap, new[overlap:])


def _skips_the_check(log: Log, index: int, term: int) -> bool:
    return index <= log.last_index


def _sends_its_commit_index(leader: Leader, peer: int, entries: tuple[Any, ...], now: float) -> None:
    _send(leader, peer, entries, now)
    state = leader._state
    last = state.effects.sends[-1]
    state.effects.sends[-1] = last._replace(request=replace(last.request, commit_index=state.commit))


def _commits_beyond_the_match(follower: Follower, token: Token, request: Request) -> None:
    _append_entries(follower, token, request)
    state = follower._state
    if state.effects.gated_replies[-1:] and state.effects.gated_replies[-1].response.accepted:
        state.commit = max(state.commit, min(request.commit_index, state.log.last_index))


def _applies_early(core: Core) -> int:
    return core.log.stored


def _cuts_too_much(follower: Follower, request: Request, first: int, new: Sequence[Entry]) -> str | None:
    """End the log after the entries of every AppendEntries, even of an AppendEntries that came late."""
    begin = request.last_log_index + 1
    if request.type is MessageType.APPEND_ENTRIES_REQUEST and request.entries and begin > follower._state.commit:
        follower._state.replace_from(begin, request.entries)
        return None
    return _take_entries(follower, request, first, new)


def _never_backs_off(progress: FollowerProgress, next_index: int) -> None:
    progress.probing = True
    progress.flights.clear()


def _takes_lost_for_stored(progress: FollowerProgress) -> None:
    progress.matched(progress.next - 1)
    progress.flights.clear()


# Promises to peers, and what clients hear ---------------------------------------------------------------------------


def _speaks_before_the_disk(gate: DurabilityGate, effects: Effects) -> list[Send | SendReply]:
    return [*effects.sends, *effects.replies, *effects.gated_sends, *effects.gated_replies]


def _waits_for_one_write_less(gate: DurabilityGate, number: int) -> list[Send | SendReply]:
    return _stored(gate, number + 1)


_stored = DurabilityGate.stored


def _answers_at_once(leader: Leader, proposals: Any, now: float) -> None:
    last = leader._state.log.last_index
    _propose(leader, proposals, now)
    for proposal in proposals:
        last += len(proposal.entries)
        if leader._waiting and leader._waiting[-1].token is proposal.token:
            leader._waiting.pop()
            leader._state.answer_client(proposal.token, accepted=True, next_index=last + 1)


def _refuses_what_it_lost(leader: Leader) -> None:
    for waiting in leader._waiting:
        leader._state.answer_client(waiting.token, accepted=False)
    leader._state.effects.reads_refused += leader._round_reads + leader._reads


def _reads_without_asking(leader: Leader, token: Token, now: float) -> None:
    leader._state.effects.reads_ready.append(ReadReady(token, leader._state.commit))


def _reads_as_soon_as_elected(leader: Leader, now: float) -> None:
    if not leader._reads:
        return
    leader._round += 1
    leader._round_reads, leader._reads = leader._reads, []
    leader._round_index = leader._state.commit
    for peer in leader.progress:
        leader._heartbeat(peer, now)


def _believes_old_answers(leader: Leader, peer: int, tag: int, response: Response, now: float) -> None:
    if peer in leader.progress:
        leader.progress[peer].round = leader._round
    _answered(leader, peer, tag, response, now)


_answered = Leader.answered


# Servers that come and go ---------------------------------------------------------------------------------------------


def _changes_before_the_last_is_committed(changes: MembershipChange) -> str | None:
    if changes._state.commit < changes._first_index or changes.joining is not None or changes.leaving is not None:
        return "this leader is busy"
    return None


def _changes_before_its_term(changes: MembershipChange) -> str | None:
    state = changes._state
    history = state.configurations._history
    pending = [
        index for (_, old), (index, new) in pairwise(history) if index > state.commit and old.servers != new.servers
    ]
    if pending or changes.joining is not None or changes.leaving is not None:
        return "a change is under way"
    return None


def _counts_the_removed(leader: Leader, own_value: float, value_of: Callable[[FollowerProgress], float]) -> float:
    return agreed([own_value, *map(value_of, leader.progress.values())])


def _never_retires(leader: Leader) -> bool:
    return False


# Snapshots ------------------------------------------------------------------------------------------------------------


def _keeps_its_servers(configurations: Configurations, first: Configuration) -> None:
    """Ignore the Configuration that comes with a snapshot."""


def _goes_back(follower: Follower, token: Token, request: Request, now: float) -> None:
    state = follower._state
    commit, state.commit = state.commit, state.log.base
    _install_snapshot(follower, token, request, now)
    state.commit = commit if state.effects.restore is None else state.commit


_install_snapshot = Follower.install_snapshot


def _keeps_what_follows(state: State, snapshot: Snapshot) -> None:
    if state.log.base <= snapshot.index <= state.log.last_index:
        _take_snapshot(state, snapshot, snapshot.index)
    else:
        _begin_anew(state, snapshot)


_take_snapshot = State.take_snapshot
_begin_anew = State.install_snapshot


def _mixes_blocks(receiver: SnapshotReceiver, source: int, block: SnapshotSyncRequest) -> int | Snapshot:
    covers = source, block.last_log_index, block.last_log_term
    if block.offset == 0 and receiver._data and receiver._covers != covers:
        receiver._covers = covers
        return len(receiver._data)
    return _take_block(receiver, source, block)


_take_block = SnapshotReceiver.take


def _drops_without_a_snapshot(state: State, snapshot: Snapshot, drop: int) -> None:
    _take_snapshot(state, snapshot, drop)
    assert state.effects.write is not None
    state.effects.write = state.effects.write._replace(snapshot=None)


# The disk -------------------------------------------------------------------------------------------------------------


class _WithoutTransactions:
    """An SQLite connection in which every statement commits by itself."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self.executemany = connection.executemany

    def execute(self, statement: str, values: Sequence[Any] = ()) -> Any:
        if statement in {"BEGIN IMMEDIATE", "COMMIT"}:
            return None
        return self._connection.execute(statement, values)


def _writes_by_halves(tables: Tables, group: WriteGroup, packed: Packed, written: int) -> int:
    connection = tables._writing
    tables._writing = cast("sqlite3.Connection", _WithoutTransactions(connection))
    try:
        return _store_all(tables, group, packed, written)
    finally:
        tables._writing = connection


_store_all = Tables._store_all


def _keeps_setting(state: FarmState) -> None:
    """Count nothing when no server is left that has a setting."""
    if state._settings:
        state.common_setting, state._counted_settings = Setting.most_frequent(state._settings), dict(state._settings)


def harm_canaries() -> Iterator[Canary]:
    """Yield the canaries that break the core, its log and its clients' answers."""
    yield core(
        "votes-twice",
        "grants a second vote in a term",
        (Core, "_request_vote", _votes_twice),
        (State, "set_hard_state", _takes_any_vote),
        (WriteGroup, "_check", _stores_any_vote),
    )
    yield core("forgets-vote", "never writes its vote to the disk", (State, "take_effects", _forgets_its_vote))
    yield core("forgets-term", "never writes its term to the disk", (State, "take_effects", _forgets_its_term))
    yield core("any-log", "votes for a log that lacks entries", (Log, "is_up_to_date", _votes_for_any_log))
    yield core(
        "longer-log",
        "votes by the length of the log, not by its last term",
        (Log, "is_up_to_date", _votes_for_the_longer_log),
    )
    yield core("half-wins", "leads with half of the votes", (Candidate, "won", property(_wins_with_half)))
    yield core(
        "stands-unasked",
        "stands for election without asking for the leader",
        (Inquiry, "agreed", _stands_unasked),
    )
    yield core("old-leaders", "obeys AppendEntries of old terms", (Core, "_incoming", _heeds_old_leaders))
    yield core("old-terms", "commits an entry of an old term by count", (Leader, "_advance_commit", _commits_old_terms))
    yield core(
        "counts-early",
        "counts its own copy before that copy is durable",
        (Leader, "_advance_commit", _counts_itself_early),
    )
    yield core("half-commits", "commits with half of the copies", (Leader, "_agreed", _counts_half))
    yield core("counts-sent", "counts sent entries as acknowledged", (Leader, "_send", _counts_what_it_sent))
    yield core("no-truncation", "keeps entries that conflict", (Follower, "_take_entries", _keeps_conflicts))
    yield core("no-check", "does not compare the term before new entries", (Log, "matches", _skips_the_check))
    yield core(
        "beyond-match",
        "commits beyond what the leader has proved",
        (Leader, "_send", _sends_its_commit_index),
        (Follower, "append_entries", _commits_beyond_the_match),
    )
    yield core("applies-early", "applies what is not committed", (Core, "applicable", property(_applies_early)))
    yield core(
        "cuts-too-much", "cuts its log at an AppendEntries that came late", (Follower, "_take_entries", _cuts_too_much)
    )
    yield core(
        "no-back-off",
        "probes at the same entry after a mismatch",
        (FollowerProgress, "back_to_probing", _never_backs_off),
    )
    yield core(
        "lost-is-stored", "counts a lost request as acknowledged", (FollowerProgress, "lost", _takes_lost_for_stored)
    )
    yield core("no-fsync", "speaks before the disk has written", (DurabilityGate, "take", _speaks_before_the_disk))
    yield core(
        "one-write-less", "waits for all writes but the last", (DurabilityGate, "stored", _waits_for_one_write_less)
    )
    yield core("answers-early", "acknowledges before it commits", (Leader, "propose", _answers_at_once))
    yield core("refuses-lost", "refuses entries of unknown outcome", (Leader, "resign", _refuses_what_it_lost))
    yield core("lone-reads", "serves reads without asking anybody", (Leader, "read", _reads_without_asking))
    yield core(
        "first-reads",
        "serves reads before an entry of its term is committed",
        (Leader, "_begin_round", _reads_as_soon_as_elected),
    )

    yield core(
        "old-rounds", "takes answers to old heartbeats for new ones", (Leader, "answered", _believes_old_answers)
    )
    yield core(
        "overlapping-changes",
        "changes servers while the previous change is not committed",
        (MembershipChange, "obstacle", property(_changes_before_the_last_is_committed)),
    )
    yield core(
        "early-change",
        "changes servers before an entry of its term is committed",
        (MembershipChange, "obstacle", property(_changes_before_its_term)),
    )
    yield core("removed-counts", "counts servers that were removed", (Leader, "_agreed", _counts_the_removed))
    yield core(
        "never-retires", "leads on after its removal from the farm", (Leader, "retired", property(_never_retires))
    )
    yield core(
        "old-servers", "takes a snapshot without its Configuration", (Configurations, "restart", _keeps_its_servers)
    )
    yield core("snapshot-back", "takes a snapshot older than its log", (Follower, "install_snapshot", _goes_back))
    yield core(
        "keeps-tail", "keeps entries after a snapshot of another log", (State, "install_snapshot", _keeps_what_follows)
    )
    yield core(
        "mixed-blocks",
        "continues another snapshot where the first one stopped",
        (SnapshotReceiver, "take", _mixes_blocks),
    )
    yield core(
        "drops-only",
        "drops entries and does not store the snapshot",
        (State, "take_snapshot", _drops_without_a_snapshot),
    )
    yield core(
        "keeps-setting", "keeps the setting of servers that left", (FarmState, "_count_settings", _keeps_setting)
    )
    yield core("any-terms", "takes entries of any term", (follower, "check_terms", _checks_no_term))
    yield core("any-claim", "follows each claim of a higher term", (Allowance, "take", _takes_any_claim))
    yield core("by-halves", "stores a write without a transaction", (Tables, "_store_all", _writes_by_halves))
