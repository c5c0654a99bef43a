"""Rules where the core is stricter than the paper, answers to callers, and answers to hostile servers."""

import pytest

from gf_i2p.raft import inputs
from gf_i2p.raft.settings import LAN, Flow, Timing
from gf_i2p.wire.entries import Entry, ValueType
from gf_i2p.wire.messages import NOBODY, RESPONSE_TYPE, MessageType, Request, Response
from tests.raft.lab import Lab, Message, application
from tests.raft.test_paper import append, ask, vote_request

# Stickiness and check-quorum ---------------------------------------------------------------------------------------


def test_a_vote_request_within_the_minimum_election_timeout_of_a_live_leader_is_refused_and_its_term_ignored() -> None:
    lab = Lab(3)
    ask(lab, append(1, (0, 0)))
    lab.now += LAN.election_min - 0.01
    answer = ask(lab, vote_request(3, 8, 9, 9))
    assert (answer.accepted, answer.term) == (False, 1)
    lab.now += 0.02
    assert ask(lab, vote_request(3, 8, 9, 9)).accepted


def test_a_leader_is_not_unseated_by_a_vote_request() -> None:
    lab = Lab(3)
    lab.elect(1)
    lab.now += 10 * LAN.election_max
    assert not ask(lab, vote_request(3, 8, 9, 9)).accepted
    assert lab.core(1).is_leader


def test_a_candidate_that_is_refused_again_and_again_gives_others_more_and_more_time() -> None:
    """A JRaft server waits anew after each higher term, and may have longer time-outs than a gf-i2p server."""
    lab = Lab(3)
    lab.elect(2)
    lab.isolate(1)
    lab.propose(2, "while 1 is away", "x")
    lab.settle()
    lab.crash(2)
    lab.heal()
    lab.now += 10

    def waits(count: int) -> list[float]:
        found = []
        for _ in range(count):
            lab.timeout(1)
            lab.settle()
            assert lab.core(1).role == "candidate"
            found.append(lab.wait(1))
        return [round(wait / LAN.election_min, 6) for wait in found]

    assert waits(7) == [1, 1, 2, 4, 8, 8, 8]
    lab.core(1).redraw(lab.now)
    assert lab.wait(1) == pytest.approx(8 * LAN.election_min), "they are the time-outs that count"
    lab.timeout(3)
    lab.settle()
    assert lab.core(3).is_leader
    assert lab.wait(1) == pytest.approx(LAN.election_min)


def test_a_candidate_that_nobody_answers_does_not_wait_for_longer() -> None:
    lab = Lab(3)
    lab.isolate(1)
    for _ in range(5):
        lab.timeout(1, unasked=True)
        lab.settle()
        assert lab.wait(1) == pytest.approx(LAN.election_min)


def test_a_leader_without_a_majority_steps_down_and_lets_its_callers_go() -> None:
    lab = Lab(5)
    lab.elect(1)
    lab.isolate(1)
    lab.propose(1, "a", "x")
    lab.step(1, inputs.Read("r"))
    lab.advance(LAN.election_max + 0.01)
    assert not lab.core(1).is_leader
    assert lab.dropped == ["a"], "nobody knows"
    assert lab.reads == {"r": None}


def test_a_leader_with_a_bare_majority_stays() -> None:
    lab = Lab(5)
    lab.elect(1)
    lab.isolate(4)
    lab.isolate(5)
    lab.advance(10 * LAN.election_max)
    assert lab.core(1).is_leader


def test_a_leader_says_when_it_has_heard_each_other_member_and_nobody_else_does() -> None:
    lab = Lab(5)
    lab.elect(1)
    lab.isolate(4)
    lost = lab.now
    lab.advance(10 * LAN.election_max)
    heard = lab.core(1).heard
    assert heard.keys() == {2, 3, 4, 5}
    assert heard[4] <= lost
    assert min(heard[server] for server in (2, 3, 5)) >= lab.now - 2 * LAN.heartbeat
    assert lab.core(2).heard == {}


# The queue ---------------------------------------------------------------------------------------------------------


def test_a_full_queue_refuses_with_our_own_id_and_takes_proposals_again_when_it_has_emptied() -> None:
    for flow in (Flow(queue_entries=5), Flow(queue_bytes=5 * 14)):
        lab = Lab(3, flow=flow)
        lab.elect(1)
        for token in "abcde":
            lab.propose(1, token, token)
        lab.propose(1, "f", "f")
        assert lab.replies["f"] == Response(MessageType.APPEND_ENTRIES_RESPONSE, 1, 1, 1, 0, accepted=False)
        lab.settle()
        assert lab.values(2) == list("abcde")
        for token in "ghijk":
            lab.propose(1, token, token)
        assert not lab.replies.keys() & set("ghijk"), "there is room again for as many as before"
        lab.propose(1, "l", "l")
        assert not lab.replies["l"].accepted
        lab.settle()
        assert all(lab.replies[token].accepted for token in "ghijk")


def test_a_proposal_larger_than_the_queue_is_taken_when_the_queue_is_empty() -> None:
    lab = Lab(3, flow=Flow(queue_entries=5))
    lab.elect(1)
    lab.propose(1, "a", *"abcdefgh")
    lab.settle()
    assert lab.replies["a"].accepted


def test_a_proposal_without_entries_asks_who_leads() -> None:
    lab = Lab(3)
    lab.propose(1, "early")
    assert lab.replies["early"].destination == NOBODY
    lab.elect(1)
    lab.propose(1, "late")
    assert (lab.replies["late"].accepted, lab.replies["late"].next_index) == (True, 2)
    assert len(lab.servers[1].disk.entries) == 1


def test_large_backlogs_are_cut_into_messages_of_bounded_size() -> None:
    lab = Lab(3, flow=Flow(append_entries=10, append_bytes=500))
    lab.elect(1)
    lab.propose(1, "many", *(str(number) for number in range(35)))
    lab.propose(1, "wide", *(str(number) * 100 for number in range(9)))
    sizes: list[tuple[int, int]] = []
    while lab.network:
        message = lab.network.popleft()
        if isinstance(message.payload, Request) and message.payload.entries:
            entries = message.payload.entries
            sizes.append((len(entries), sum(13 + len(entry.value) for entry in entries)))
        lab.deliver(message)
    assert all(count <= 10 and size <= 500 for count, size in sizes)
    assert lab.values(3) == lab.values(1)
    assert len(lab.values(1)) == 44


# Replication in trouble --------------------------------------------------------------------------------------------


def test_a_follower_that_is_probed_gets_one_message_at_a_time() -> None:
    lab = Lab(3)
    lab.elect(1)
    lab.isolate(3)
    lab.propose(1, "a", "x")
    lab.settle()
    lab.heal()
    for number in range(5):
        lab.propose(1, number, str(number))
    assert [message.receiver for message in lab.network] == [2] * 5
    lab.timeout(1)
    assert [message.receiver for message in lab.network].count(3) == 1


def test_heartbeats_go_on_while_a_probe_is_unanswered_but_not_without_bound() -> None:
    lab = Lab(3, timing=Timing(heartbeat=0.1, election_min=50, election_max=100), flow=Flow(in_flight=4))
    lab.elect(1)
    lab.network.clear()
    for _ in range(20):
        lab.now += 0.1
        lab.step(1, inputs.Tick())
    assert [message.receiver for message in lab.network].count(2) == 4
    assert lab.core(1).deadline > lab.now, "a full pipeline must not make the timer spin"


def test_a_refusal_without_reason_is_not_answered_at_once() -> None:
    lab = Lab(3)
    lab.timeout(1)
    lab.settle()
    lab.timeout(1)
    for _ in range(3):
        message = next(m for m in lab.network if m.receiver == 2)
        lab.network.remove(message)
        refusal = Response(MessageType.APPEND_ENTRIES_RESPONSE, 2, 1, 1, 0, accepted=False)
        lab.step(1, inputs.Answered(2, message.tag, refusal))
        if not any(m.receiver == 2 for m in lab.network):
            break
    assert not any(m.receiver == 2 for m in lab.network)


def test_a_follower_that_lost_what_it_had_acknowledged_is_reported_once_and_is_never_counted_lower() -> None:
    lab = Lab(3)
    lab.elect(1)
    lab.propose(1, "a", "x")
    lab.settle()
    assert lab.core(1).match[2] == 2
    for _ in range(3):
        lab.timeout(1)
        message = next(m for m in lab.network if m.receiver == 2)
        lab.network.remove(message)
        lab.settle()
        refusal = Response(MessageType.APPEND_ENTRIES_RESPONSE, 2, 1, 1, 1, accepted=False)
        lab.step(1, inputs.Answered(2, message.tag, refusal))
    assert lab.core(1).match[2] == 2
    (violation,) = lab.violations
    assert "server 2 has lost acknowledged entries up to 2" in violation


def test_a_follower_that_proposes_too_early_a_place_has_not_lost_what_it_had_acknowledged() -> None:
    """Found by the simulator: a restarted follower does not know the commit index. The follower then names the first
    entry of the conflicting term, and may have acknowledged that entry. Only a follower that denies an entry up to
    there has lost the entry.
    """
    lab = Lab(3)
    lab.elect(1)
    lab.propose(1, "a", "x")
    lab.settle()
    lab.propose(1, "b", "y")
    lab.network.clear()
    lab.step(1, inputs.Reachable(2))
    message = next(m for m in lab.network if m.receiver == 2)
    assert isinstance(message.payload, Request)
    assert message.payload.last_log_index == 3
    assert lab.core(1).match[2] == 2
    refusal = Response(MessageType.APPEND_ENTRIES_RESPONSE, 2, 1, 1, 2, accepted=False)
    lab.step(1, inputs.Answered(2, message.tag, refusal))
    assert lab.violations == []
    lab.settle()
    assert lab.core(1).match[2] == 3


def test_a_follower_that_never_acknowledged_anything_may_refuse_anything() -> None:
    lab = Lab(3)
    lab.timeout(1)
    while not lab.core(1).is_leader:
        lab.deliver(lab.network.popleft())
    message = next(m for m in lab.network if m.receiver == 2)
    lab.step(1, inputs.Answered(2, message.tag, Response(MessageType.APPEND_ENTRIES_RESPONSE, 2, 1, 1, 0, False)))
    assert lab.violations == []


def test_answers_overtaken_by_a_refusal_do_not_count() -> None:
    lab = Lab(3)
    lab.elect(1)
    lab.propose(1, "a", "x")
    lab.propose(1, "b", "y")
    tags = [m.tag for m in lab.network if m.receiver == 2]
    lab.network.clear()
    refusal = Response(MessageType.APPEND_ENTRIES_RESPONSE, 2, 1, 1, 2, accepted=False)
    lab.step(1, inputs.Answered(2, tags[0], refusal))
    accepted = Response(MessageType.APPEND_ENTRIES_RESPONSE, 2, 1, 1, 4, accepted=True)
    lab.step(1, inputs.Answered(2, tags[1], accepted))
    assert lab.core(1).match[2] == 1


@pytest.mark.parametrize("refused_at", ["the end", "beyond the end"])
def test_a_snapshot_whose_last_block_is_refused_is_given_up(refused_at: str) -> None:
    """The follower has all bytes and does not take the snapshot. The same block would get the same answer."""
    lab = Lab(3)
    lab.elect(1)
    lab.isolate(3)
    lab.propose(1, "many", *"abcd")
    lab.settle()
    lab.snapshot(1)
    lab.heal()
    lab.step(1, inputs.Reachable(3))
    while not (block := next((each for each in lab.network if each.receiver == 3 and is_block(each)), None)):
        lab.deliver(lab.network.popleft())
    lab.network.clear()
    assert isinstance(block.payload, Request)
    size = len(lab.core(1).snapshot.data) + (refused_at == "beyond the end")  # type: ignore[union-attr]
    refusal = Response(MessageType.INSTALL_SNAPSHOT_RESPONSE, 3, 1, 1, size, accepted=False)
    lab.step(1, inputs.Answered(3, block.tag, refusal))
    assert not [each for each in lab.network if each.receiver == 3]
    lab.timeout(1)
    assert not [each for each in lab.network if is_block(each)]


def is_block(message: Message) -> bool:
    return message.payload.type is MessageType.INSTALL_SNAPSHOT_REQUEST


def test_a_lost_request_is_sent_again_when_the_peer_is_reachable() -> None:
    lab = Lab(3)
    lab.elect(1)
    lab.isolate(3)
    lab.propose(1, "a", "x")
    lab.settle()
    lab.heal()
    lab.step(1, inputs.Reachable(3))
    lab.settle()
    assert lab.values(3) == ["x"]
    lab.step(1, inputs.Failed(3, 12345))
    lab.step(2, inputs.Failed(3, 12345))
    lab.step(2, inputs.Reachable(9))
    lab.step(1, inputs.Reachable(9))
    lab.step(1, inputs.Failed(9, 1))
    lab.step(1, inputs.Answered(9, 1, Response(MessageType.APPEND_ENTRIES_RESPONSE, 9, 1, 1, 1, accepted=True)))
    assert lab.core(1).is_leader


def test_a_candidate_asks_again_when_a_peer_becomes_reachable_unless_it_has_answered() -> None:
    lab = Lab(3)
    lab.timeout(1)
    lab.network.clear()
    lab.step(1, inputs.Reachable(2))
    assert [message.receiver for message in lab.network] == [2]
    refused = Response(MessageType.REQUEST_VOTE_RESPONSE, 2, 1, 1, 0, accepted=False)
    lab.step(1, inputs.Answered(2, 1, refused))
    lab.network.clear()
    lab.step(1, inputs.Reachable(2))
    assert not lab.network


# Reads -------------------------------------------------------------------------------------------------------------


def test_a_read_is_not_served_by_a_leader_that_was_replaced_meanwhile() -> None:
    lab = Lab(3)
    lab.elect(1)
    lab.isolate(1)
    lab.step(1, inputs.Read("stale"))
    lab.elect(2)
    lab.propose(2, "a", "new")
    lab.settle()
    lab.heal()
    lab.advance(2 * LAN.election_max)
    assert lab.reads == {"stale": None}


def test_an_answer_to_a_message_from_before_the_read_does_not_confirm_it() -> None:
    lab = Lab(3)
    lab.elect(1)
    lab.propose(1, "a", "x")
    before = list(lab.network)
    lab.network.clear()
    lab.step(1, inputs.Read("r"))
    after = list(lab.network)
    lab.network.clear()
    for message in before:
        lab.deliver(message)
    lab.settle()
    assert lab.reads == {}
    for message in after:
        lab.deliver(message)
    lab.settle()
    assert lab.reads == {"r": 1}, "committed when the read arrived"


# Behaviour of no correct server ------------------------------------------------------------------------------------


def test_a_second_leader_of_one_term_is_disconnected_and_reported() -> None:
    lab = Lab(3)
    ask(lab, append(3, (0, 0), source=2))
    lab.step(1, inputs.Incoming("bad", append(3, (0, 0), application("x", 3), source=3)))
    assert lab.dropped == ["bad"]
    assert "both claim to lead term 3" in lab.violations[0]
    assert lab.core(1).log.last_index == 0


def test_a_committed_entry_is_never_replaced() -> None:
    lab = Lab(3)
    ask(lab, append(1, (0, 0), application("a", 1), application("b", 1), commit=2))
    lab.step(1, inputs.Incoming("bad", append(2, (1, 1), application("c", 2))))
    assert lab.dropped == ["bad"]
    assert "has lost its data" in lab.violations[0]
    assert lab.values(1) == ["a", "b"]
    assert ask(lab, append(3, (2, 3))).next_index == 3, "and a refusal never asks for one"


def test_entries_with_impossible_terms_are_refused() -> None:
    for after, terms in (((0, 0), (2, 1)), ((0, 0), (4,)), ((1, 2), (1,)), ((0, 0), (0,))):
        lab = Lab(3)
        ask(lab, append(2, (0, 0), application("a", 2)))
        entries = [application("x", term) for term in terms]
        lab.step(1, inputs.Incoming("bad", append(3, after, *entries)))
        assert lab.dropped == ["bad"], (after, terms)
        assert lab.values(1) == ["a"]


def test_a_configuration_that_cannot_be_read_is_refused_before_it_is_stored() -> None:
    lab = Lab(3)
    entries = (application("x", 1), Entry(1, ValueType.CONFIGURATION, b"nonsense"))
    lab.step(1, inputs.Incoming("bad", append(1, (0, 0), *entries)))
    assert lab.dropped == ["bad"]
    assert lab.core(1).log.last_index == 0
    assert lab.servers[1].disk.entries == []


def test_an_answer_in_another_servers_name_is_reported_and_not_counted() -> None:
    lab = Lab(3)
    lab.timeout(1)
    lab.step(1, inputs.Answered(2, 1, Response(MessageType.REQUEST_VOTE_RESPONSE, 3, 1, 1, 0, accepted=True)))
    assert lab.core(1).role == "candidate"
    assert "answers as server 3" in lab.violations[0]


def test_cutting_the_log_brings_the_configuration_before_back() -> None:
    lab = Lab(3)
    two = lab.bootstrap.__class__(2, 0, lab.bootstrap.servers[:2])
    ask(lab, append(1, (0, 0), application("a", 1), Entry(1, ValueType.CONFIGURATION, two.encode())))
    assert lab.core(1).configuration == two
    ask(lab, append(2, (1, 1), application("b", 2)))
    assert lab.core(1).configuration == lab.bootstrap


def test_a_follower_refuses_to_change_the_servers() -> None:
    for kind in RESPONSE_TYPE:
        if kind.name.startswith(("ADD", "REMOVE")):
            lab = Lab(3)
            answer = ask(lab, Request(kind, 2, 1, 1, 0, 0, 0))
            assert (answer.type, answer.accepted, answer.destination) == (RESPONSE_TYPE[kind], False, NOBODY)


def test_timing_can_be_changed_at_run_time() -> None:
    lab = Lab(3)
    lab.core(1).timing = Timing(heartbeat=1, election_min=10, election_max=20)
    ask(lab, append(1, (0, 0)))
    assert lab.core(1).deadline == lab.now + 10
    assert lab.core(1).timing.heartbeat == 1
