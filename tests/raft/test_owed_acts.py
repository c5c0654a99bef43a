"""Acts that a server owes at once: an answer to each request, the next message, a new time-out after a vote."""

import pytest

from gf_i2p.raft import inputs
from gf_i2p.raft.allowance import INDEXES_AT_ONCE
from gf_i2p.raft.candidate import Candidate
from gf_i2p.raft.effects import HardState
from gf_i2p.raft.follower_progress import FollowerProgress
from gf_i2p.raft.settings import I2P, LAN, Flow
from gf_i2p.wire.entries import Entry, ValueType
from gf_i2p.wire.log_values import LogPack, SnapshotSyncRequest
from gf_i2p.wire.messages import NOBODY, MessageType, Request, Response
from tests.raft.lab import Lab, application, configuration, leadership
from tests.raft.test_paper import append, ask, vote_request


def packed(*entries: Entry, base: int = 0) -> tuple[Entry, ...]:
    return (Entry(1, ValueType.LOG_PACK, LogPack(entries, base).encode()),)


def sync(source: int, after: int, *entries: Entry) -> Request:
    return Request(MessageType.SYNC_LOG_REQUEST, source, 1, 1, 0, after, 0, packed(*entries))


A1, B1 = application("a", 1), application("b", 1)

# Answers -------------------------------------------------------------------------------------------------------------


def test_a_voter_refuses_packs_of_a_leader_that_has_not_invited_it() -> None:
    lab = Lab(3)
    ask(lab, append(1, (0, 0), A1))
    answer = ask(lab, sync(2, 1, B1))
    assert (answer.type, answer.accepted, answer.next_index) == (MessageType.SYNC_LOG_RESPONSE, False, 2)
    assert lab.values(1) == ["a"]


def test_a_newcomer_takes_packs_in_order_and_each_once() -> None:
    lab = Lab(3)
    lab.founders = range(0)
    lab.newcomer(1)
    invitation = Request(MessageType.JOIN_CLUSTER_REQUEST, 2, 1, 1, 0, 2, 2)
    answer = ask(lab, invitation)
    assert (answer.type, answer.accepted, answer.next_index) == (MessageType.JOIN_CLUSTER_RESPONSE, True, 1)
    for hole in (1, 2, 3):
        answer = ask(lab, sync(2, hole, B1))
        assert (answer.accepted, answer.next_index) == (False, 1)
    answer = ask(lab, sync(2, 0, A1))
    assert (answer.accepted, answer.next_index) == (True, 2)
    answer = ask(lab, sync(2, 0, A1))
    assert (answer.accepted, answer.next_index) == (False, 2), "a pack that comes twice brings nothing"
    answer = ask(lab, sync(2, 1, B1))
    assert (answer.accepted, answer.next_index) == (True, 3)
    assert lab.values(1) == ["a", "b"]


def test_a_voter_takes_packs_of_a_leader_that_has_invited_it() -> None:
    lab = Lab(3)
    ask(lab, append(1, (0, 0), A1, commit=1))
    ask(lab, Request(MessageType.JOIN_CLUSTER_REQUEST, 2, 1, 1, 0, 2, 2))
    answer = ask(lab, sync(2, 1, B1))
    assert (answer.accepted, answer.next_index) == (True, 3)
    assert lab.values(1) == ["a", "b"]


def test_a_newcomer_enters_a_term_once() -> None:
    lab = Lab(3)
    lab.founders = range(0)
    lab.newcomer(1)
    first = lab.step(1, inputs.Incoming("first", Request(MessageType.JOIN_CLUSTER_REQUEST, 2, 1, 7, 0, 2, 2)))
    assert first.write is not None
    assert first.write.hard_state == HardState(7, NOBODY)
    again = lab.step(1, inputs.Incoming("again", Request(MessageType.JOIN_CLUSTER_REQUEST, 2, 1, 7, 0, 2, 2)))
    assert again.write is None


def test_a_pack_that_cannot_be_read_ends_the_connection() -> None:
    lab = Lab(3)
    lab.founders = range(0)
    lab.newcomer(1)
    ask(lab, Request(MessageType.JOIN_CLUSTER_REQUEST, 2, 1, 1, 0, 2, 2))
    garbage = (Entry(1, ValueType.LOG_PACK, b"garbage"),)
    lab.step(1, inputs.Incoming("bad", Request(MessageType.SYNC_LOG_REQUEST, 2, 1, 1, 0, 0, 0, garbage)))
    assert lab.dropped == ["bad"]
    assert "sent a LogPack that cannot be used" in lab.violations[0]


def test_a_server_that_is_told_to_leave_answers() -> None:
    lab = Lab(3)
    ask(lab, append(1, (0, 0), A1))
    answer = ask(lab, Request(MessageType.LEAVE_CLUSTER_REQUEST, 2, 1, 1, 0, 1, 1))
    assert (answer.type, answer.accepted, answer.next_index) == (MessageType.LEAVE_CLUSTER_RESPONSE, True, 2)


# Votes and time-outs -------------------------------------------------------------------------------------------------


def test_a_granted_vote_begins_a_new_time_out() -> None:
    lab = Lab(3)
    lab.now += LAN.election_min - 0.01
    assert ask(lab, vote_request(2, 1)).accepted
    assert lab.wait(1) == pytest.approx(LAN.election_min)
    assert lab.core(1).deadline == pytest.approx(lab.now + LAN.doubt), "and a pause for the questions"


def test_a_granted_vote_ends_the_longer_time_outs_after_refusals() -> None:
    lab = Lab(3)
    lab.core(1)._timeout.refusals = 4
    assert ask(lab, vote_request(2, 1)).accepted
    assert lab.core(1)._timeout.refusals == 0
    assert lab.wait(1) == pytest.approx(LAN.election_min)


def test_only_a_members_older_log_ends_the_longer_time_outs() -> None:
    lab = Lab(3)
    ask(lab, append(1, (0, 0), A1))
    lab.now += LAN.election_max
    lab.core(1)._timeout.refusals = 4
    assert not ask(lab, vote_request(7, 2)).accepted, "server 7 is no member"
    assert lab.core(1)._timeout.refusals == 4
    assert not ask(lab, vote_request(2, 3)).accepted
    assert lab.core(1)._timeout.refusals == 0


def test_forgiven_refusals_count_from_none_again() -> None:
    lab = Lab(3)
    timeout = lab.core(1)._timeout
    timeout.refusals, timeout.at = 4, lab.now + 9 * LAN.election_max
    timeout.forgive(lab.now)
    assert timeout.refusals == 0
    assert lab.wait(1) == pytest.approx(LAN.election_min)


def test_a_leader_that_steps_down_leaves_two_time_outs_to_the_others() -> None:
    lab = Lab(3, timing=I2P)
    lab.elect(1)
    lab.settle()
    lab.step(1, inputs.StepDown())
    assert lab.wait(1) == pytest.approx(I2P.election_min + 2 * I2P.election_max)


def test_a_candidates_request_names_no_commit_index() -> None:
    lab = Lab(3)
    lab.elect(2)
    lab.propose(2, "before", "x")
    lab.settle()
    lab.advance(2 * LAN.heartbeat)
    assert lab.core(1).commit > 0
    lab.crash(2)
    lab.network.clear()
    lab.timeout(1)
    votes = [message.payload for message in lab.network if message.sender == 1]
    core = lab.core(1)
    last, last_term = core.log.last_index, core.log.last_term
    expected = [Request(MessageType.REQUEST_VOTE_REQUEST, 1, peer, core.term, last_term, last, 0) for peer in (2, 3)]
    assert [vote for vote in votes if isinstance(vote, Request) and vote.type is expected[0].type] == expected


# The next message ----------------------------------------------------------------------------------------------------


def test_a_leader_that_dropped_the_next_entry_sends_the_snapshot_at_once() -> None:
    lab = Lab(3, flow=Flow(append_entries=1, in_flight=1))
    lab.elect(1)
    lab.settle()
    lab.cuts.add((3, 1))
    lab.propose(1, "many", *"abcdef")
    while lab.network and lab.core(1).commit < lab.core(1).log.last_index:
        message = lab.network.popleft()
        if message.sender != 3:
            lab.deliver(message)
    lab.settle()
    lab.snapshot(1)
    lab.cuts.clear()
    lab.step(1, inputs.Reachable(3))
    kinds = {m.payload.type for m in lab.network if m.receiver == 3 and isinstance(m.payload, Request)}
    assert MessageType.INSTALL_SNAPSHOT_REQUEST in kinds
    lab.settle()
    assert lab.core(3).log.last_index == lab.core(1).log.last_index


def test_a_leader_that_drops_entries_on_their_way_sends_the_snapshot_after_the_answer() -> None:
    lab = Lab(3, flow=Flow(append_entries=2, in_flight=2))
    lab.elect(1)
    lab.settle()
    lab.advance(2 * LAN.heartbeat)
    lab.propose(1, "many", *"abcdefgh")
    held = [m for m in lab.network if m.receiver == 3]
    while lab.network:
        message = lab.network.popleft()
        if message.receiver != 3:
            lab.deliver(message)
    assert lab.core(1).commit == lab.core(1).log.last_index
    lab.snapshot(1)
    first = held[0]
    assert isinstance(first.payload, Request)
    next_index = first.payload.last_log_index + len(first.payload.entries) + 1
    answer = Response(MessageType.APPEND_ENTRIES_RESPONSE, 3, 1, 1, next_index, accepted=True)
    lab.step(1, inputs.Answered(3, first.tag, answer))
    (block,) = lab.network
    assert isinstance(block.payload, Request)
    assert block.payload.type is MessageType.INSTALL_SNAPSHOT_REQUEST
    lab.network.clear()
    late = Response(MessageType.APPEND_ENTRIES_RESPONSE, 3, 1, 1, next_index + 2, accepted=True)
    lab.step(1, inputs.Answered(3, held[1].tag, late))
    assert lab.core(1).match[3] == next_index - 1, "the answers before the snapshot count no more"


def test_a_leader_sends_the_snapshot_at_once_when_the_follower_asks() -> None:
    lab = Lab(3)
    lab.elect(1)
    lab.propose(1, "before", "x")
    lab.settle()
    lab.snapshot(1, keep=2)
    lab.advance(LAN.heartbeat)
    lab.network.clear()
    lab.now = lab.core(1).deadline
    lab.step(1, inputs.Tick())
    beat = next(m for m in lab.network if m.receiver == 3)
    lab.network.clear()
    lab.step(1, inputs.Answered(3, beat.tag, Response(MessageType.APPEND_ENTRIES_RESPONSE, 3, 1, 1, 0, accepted=False)))
    (message,) = lab.network
    assert isinstance(message.payload, Request)
    assert message.payload.type is MessageType.INSTALL_SNAPSHOT_REQUEST


def test_reads_of_a_lone_server_are_served_when_its_entry_is_stored() -> None:
    lab = Lab(1)
    lab.servers[1].slow_disk = True
    lab.timeout(1)
    lab.sync(1)
    assert lab.core(1).is_leader
    lab.step(1, inputs.Read("read"))
    assert "read" not in lab.reads
    lab.sync(1)
    assert lab.reads["read"] == 1


def test_a_snapshot_older_than_the_log_is_not_kept() -> None:
    lab = Lab(1)
    lab.elect(1)
    lab.propose(1, "entries", *"abcdef")
    lab.settle()
    lab.snapshot(1, 5, keep=3)
    kept = lab.core(1).snapshot
    for index in (3, 5):
        effects = lab.step(1, inputs.Snapshotted(index, b"state", 0))
        assert effects.write is None
        assert lab.core(1).snapshot is kept
    lab.crash(1)
    lab.servers[1].disk.damage_snapshot()
    lab.restart(1)
    assert lab.core(1).snapshot is None
    assert lab.step(1, inputs.Snapshotted(1, b"state", 0)).write is None, "the log has dropped that entry"


def test_an_installed_snapshot_replaces_the_voters() -> None:
    lab = Lab(3)
    lab.elect(1)
    lab.settle()
    lab.isolate(3)
    lab.propose(1, "many", *"abcdef")
    lab.settle()
    lab.newcomer(4)
    lab.change(1, "add", add=4)
    lab.settle()
    lab.advance(4 * LAN.heartbeat)
    assert lab.core(1).is_leader
    lab.snapshot(1)
    lab.heal()
    lab.step(1, inputs.Reachable(3))
    lab.settle()
    assert lab.core(3).snapshot is not None
    assert [server.id for server in lab.core(3).configuration.servers] == [1, 2, 3, 4]
    mark = configuration([1, 2, 3])
    assert lab.core(3).configuration != mark


def test_a_follower_tells_nobody_when_no_leader_is_known() -> None:
    lab = Lab(3)
    lab.step(1, inputs.Propose([inputs.Proposal("question", [])]))
    assert (lab.replies["question"].destination, lab.replies["question"].next_index) == (NOBODY, 0)


@pytest.mark.parametrize("has_snapshot", [True, False])
def test_a_follower_whose_next_entry_is_the_last_dropped_one_gets_a_snapshot_or_nothing(has_snapshot: bool) -> None:
    lab = Lab(3)
    lab.elect(1)
    lab.propose(1, "before", *"abc")
    lab.settle()
    lab.snapshot(1)
    base = lab.core(1).log.base
    assert base == 4
    progress = leadership(lab).progress[3]
    progress.back_to_probing(0)
    progress.next, progress.match = base, 0
    if not has_snapshot:
        lab.core(1)._state.snapshot = None
    lab.now = lab.core(1).deadline
    effects = lab.step(1, inputs.Tick())
    kinds = [send.request.type for send in effects.sends if send.peer == 3]
    assert kinds == ([MessageType.INSTALL_SNAPSHOT_REQUEST] if has_snapshot else [])
    assert effects.snapshot_wanted != has_snapshot


def test_a_follower_that_lost_its_first_entry_is_reported() -> None:
    lab = Lab(3)
    lab.elect(1)
    lab.settle()
    assert lab.core(1).match[2] == 1
    lab.advance(LAN.heartbeat / 2)
    lab.now = lab.core(1).deadline
    lab.step(1, inputs.Tick())
    beat = next(m for m in lab.network if m.receiver == 2)
    refusal = Response(MessageType.APPEND_ENTRIES_RESPONSE, 2, 1, 1, 1, accepted=False)
    lab.step(1, inputs.Answered(2, beat.tag, refusal))
    assert "server 2 has lost acknowledged entries up to 1" in lab.violations[0]


def test_a_candidates_own_vote_counts_when_that_vote_is_stored_and_not_before() -> None:
    lab = Lab(3)
    lab.servers[1].slow_disk = True
    lab.step(1, inputs.Incoming("entries", append(1, (0, 0), A1)))  # the first write
    lab.now += 2 * LAN.election_max
    lab.timeout(1)
    assert lab.core(1).role == "candidate"
    lab.sync(1, writes=1)
    role = lab.core(1)._role
    assert isinstance(role, Candidate)
    role.answered(2, Response(MessageType.REQUEST_VOTE_RESPONSE, 2, 1, lab.core(1).term, 0, accepted=True))
    assert not role.won
    lab.sync(1)
    assert lab.core(1).is_leader


def test_a_snapshot_that_ends_where_the_log_begins_replaces_a_damaged_one() -> None:
    lab = Lab(1)
    lab.elect(1)
    lab.propose(1, "entries", *"abcdef")
    lab.settle()
    lab.snapshot(1, 5)
    lab.crash(1)
    lab.servers[1].disk.damage_snapshot()
    lab.restart(1)
    write = lab.step(1, inputs.Snapshotted(5, b"state at 5", 0)).write
    assert write is not None
    assert write.snapshot is not None
    assert write.snapshot.index == 5


def test_a_server_without_its_state_still_says_why_it_cannot_follow() -> None:
    lab = Lab(3)
    lab.elect(2)
    lab.propose(2, "entries", *"abc")
    lab.settle()
    lab.advance(2 * LAN.heartbeat)
    lab.snapshot(1)
    lab.crash(1)
    lab.servers[1].disk.damage_snapshot()
    lab.restart(1)
    lab.core(1)._follower.obstacle = "entries over a limit"
    term = lab.core(2).term
    assert not ask(lab, append(term, (4, term), commit=4)).accepted
    assert lab.core(1).cannot_follow == "entries over a limit"


def with_entries_on_the_way() -> Lab:
    """Server 1 leads, and has committed eight entries with server 2; those for server 3 have no answer yet."""
    lab = Lab(3, flow=Flow(append_entries=2, in_flight=3))
    lab.elect(1)
    lab.settle()
    lab.advance(2 * LAN.heartbeat)
    lab.propose(1, "many", *"abcdefgh")
    while lab.network:
        message = lab.network.popleft()
        if message.receiver != 3:
            lab.deliver(message)
    return lab


def test_no_heartbeat_continues_from_an_entry_that_was_dropped() -> None:
    lab = with_entries_on_the_way()
    progress = leadership(lab).progress[3]
    progress.flights.popitem()
    assert progress.next == 8
    assert not progress.probing
    lab.snapshot(1, 8)
    lab.now += LAN.heartbeat
    effects = lab.step(1, inputs.Tick())
    assert not [send for send in effects.sends if send.peer == 3], "the answers on their way come first"


def test_new_entries_do_not_continue_from_an_entry_that_was_dropped() -> None:
    lab = with_entries_on_the_way()
    lab.snapshot(1, leadership(lab).progress[3].next)
    effects = lab.step(1, inputs.Propose([inputs.Proposal("more", [application("x")])]))
    (send,) = [send for send in effects.sends if send.peer == 3]
    assert send.request.type is MessageType.INSTALL_SNAPSHOT_REQUEST


def test_after_the_last_block_the_entries_behind_the_snapshot_follow_at_once() -> None:
    lab = Lab(3)
    lab.elect(1)
    lab.settle()
    lab.isolate(3)
    lab.propose(1, "many", *"abcdef")
    lab.settle()
    lab.snapshot(1, 5)
    lab.heal()
    lab.step(1, inputs.Reachable(3))
    lab.now = max(lab.now, lab.core(1).deadline)
    lab.step(1, inputs.Tick())
    while not (block := next((m for m in lab.network if m.sender == 1 and _installs(m.payload)), None)):
        lab.deliver(lab.network.popleft())
    lab.network.clear()
    done = Response(MessageType.INSTALL_SNAPSHOT_RESPONSE, 3, 1, lab.core(1).term, 1 << 20, accepted=True)
    effects = lab.step(1, inputs.Answered(3, block.tag, done))
    (send,) = effects.sends
    assert (send.peer, send.request.last_log_index, len(send.request.entries)) == (3, 5, 2)


def _installs(payload: Request | Response) -> bool:
    return payload.type is MessageType.INSTALL_SNAPSHOT_REQUEST


def test_each_of_several_callers_of_one_step_gets_an_answer() -> None:
    lab = Lab(1, flow=Flow(queue_entries=2))
    lab.elect(1)
    lab.servers[1].slow_disk = True
    question = inputs.Proposal("question", [])
    fits = inputs.Proposal("fits", [application("a"), application("b")])
    too_many = inputs.Proposal("too many", [application("c")])
    late = inputs.Proposal("late question", [])
    lab.step(1, inputs.Propose([question, fits, too_many, late]))
    assert [lab.replies[each].accepted for each in ("question", "too many", "late question")] == [True, False, True]
    lab.sync(1)
    assert lab.replies["fits"].accepted


def test_the_first_snapshot_may_end_at_the_first_entry() -> None:
    lab = Lab(1)
    lab.elect(1)
    lab.snapshot(1, 1)
    assert lab.core(1).snapshot is not None


def test_a_drop_forgets_the_configurations_before() -> None:
    lab = Lab(2)
    lab.elect(1)
    lab.settle()
    lab.change(1, "remove", remove=2)
    lab.settle()
    lab.advance(LAN.election_max)
    configurations = lab.core(1)._state.configurations
    assert configurations.ever_has(2)
    lab.snapshot(1)
    assert not configurations.ever_has(2)


def test_a_leaders_message_ends_what_a_vote_request_has_begun() -> None:
    lab = Lab(3)
    ask(lab, append(1, (0, 0), A1))
    lab.now += LAN.election_max
    assert not ask(lab, vote_request(3, 2)).accepted
    assert lab.core(1)._older_log_asked
    ask(lab, append(2, (1, 1)))
    assert not lab.core(1)._older_log_asked


def test_a_won_election_ends_all_counts_of_failed_ones() -> None:
    lab = Lab(3)
    lab.core(1)._timeout.refusals = lab.core(1)._timeout.unheard = 3
    lab.elect(1)
    assert (lab.core(1)._timeout.refusals, lab.core(1)._timeout.unheard) == (0, 0)


def test_a_leader_that_steps_down_asks_after_a_pause() -> None:
    lab = Lab(3)
    lab.elect(1)
    lab.advance(3 * LAN.heartbeat)
    lab.step(1, inputs.StepDown())
    assert lab.core(1).deadline == pytest.approx(lab.now + LAN.doubt)


def test_a_new_connection_brings_an_unanswered_question_again() -> None:
    lab = Lab(3)
    lab.tick(1)
    assert [message.receiver for message in lab.network] == [2, 3]
    lab.network.clear()
    lab.step(1, inputs.Reachable(2))
    assert [message.receiver for message in lab.network] == [2]


def test_a_vote_of_the_present_term_is_given_also_beside_a_live_leader() -> None:
    lab = Lab(3)
    ask(lab, append(1, (0, 0), A1))
    assert ask(lab, vote_request(3, 1, 1, 1)).accepted


def test_an_old_leader_is_told_where_the_log_ends() -> None:
    lab = Lab(3)
    ask(lab, append(3, (0, 0), A1, B1))
    answer = ask(lab, append(2, (2, 1)))
    assert (answer.accepted, answer.term, answer.next_index) == (False, 3, 3)


def test_a_pack_that_would_replace_committed_entries_ends_the_connection() -> None:
    lab = Lab(3)
    ask(lab, append(1, (0, 0), A1, B1, commit=2))
    ask(lab, Request(MessageType.JOIN_CLUSTER_REQUEST, 2, 1, 2, 0, 2, 2))
    lab.core(1)._follower._newcomer.agreed = 1  # type: ignore[union-attr]
    other = Entry(1, ValueType.LOG_PACK, LogPack((application("other", 2),), 0).encode())
    lab.step(1, inputs.Incoming("bad", Request(MessageType.SYNC_LOG_REQUEST, 2, 1, 2, 0, 1, 0, (other,))))
    assert lab.dropped == ["bad"]
    assert "are committed" in lab.violations[0]
    assert lab.values(1) == ["a", "b"]


def test_a_pack_and_a_snapshot_that_are_taken_end_an_obstacle_and_a_fault_does_not() -> None:
    lab = Lab(3)
    ask(lab, append(1, (0, 0), A1, commit=1))
    follower = lab.core(1)._follower
    follower.obstacle = "entries over a limit"
    lab.step(1, inputs.Incoming("bad", append(1, (0, 0), application("other", 2))))
    assert lab.core(1).cannot_follow == "entries over a limit"
    ask(lab, Request(MessageType.JOIN_CLUSTER_REQUEST, 2, 1, 1, 0, 2, 2))
    assert ask(lab, sync(2, 1, B1)).accepted
    assert lab.core(1).cannot_follow is None
    follower.obstacle = "entries over a limit"
    value = SnapshotSyncRequest(9, 1, configuration([1, 2, 3]), 0, b"state at 9", True).encode()
    entry = Entry(1, ValueType.SNAPSHOT_SYNC_REQUEST, value)
    taken = follower._index_allowance
    assert ask(lab, Request(MessageType.INSTALL_SNAPSHOT_REQUEST, 2, 1, 1, 1, 9, 0, (entry,))).accepted
    assert lab.core(1).cannot_follow is None
    assert taken.has(INDEXES_AT_ONCE - 8, lab.now), "eight entries beyond the commit index"
    assert not taken.has(INDEXES_AT_ONCE - 7, lab.now)


def test_probing_never_goes_back_behind_what_was_acknowledged() -> None:
    progress = FollowerProgress(next=9, match=5)
    progress.back_to_probing(2)
    assert (progress.next, progress.probing) == (6, True)
    progress.back_to_probing(8)
    assert progress.next == 8
