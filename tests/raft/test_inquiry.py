"""The question before an election: whose word keeps a server from standing, and for how long."""

from functools import partial

import pytest

from gf_i2p.raft import inputs
from gf_i2p.raft.configurations import Configurations
from gf_i2p.raft.effects import HardState
from gf_i2p.raft.inquiry import Inquiry
from gf_i2p.raft.log import Log
from gf_i2p.raft.settings import I2P, LAN, Flow, Timing
from gf_i2p.raft.state import State
from gf_i2p.wire.messages import NOBODY, MessageType, Request, Response
from tests.raft.lab import Disk, Lab, configuration


def inquiry(servers: int = 3, timing: Timing = LAN) -> Inquiry:
    """Server 1 asks the others at 0."""
    state = State(
        1,
        hard_state=HardState(0, NOBODY),
        log=Log(Disk(), last_index=0, terms=[]),
        configurations=Configurations(configuration(range(1, servers + 1))),
        timing=timing,
        flow=Flow(),
        snapshot=None,
    )
    asks = Inquiry(state)
    asks.ask(0.0)
    return asks


def answer(asks: Inquiry, peer: int, leader: int = NOBODY, *, leads: bool = False, hears: bool = False) -> bool:
    next_index = 7 if leads or hears else 0
    response = Response(MessageType.APPEND_ENTRIES_RESPONSE, peer, leader, 1, next_index, accepted=leads)
    return asks.answered(peer, asks._flights.get(peer, (0, 0.0))[0], response)


def test_one_of_two_others_is_enough() -> None:
    asks = inquiry()
    assert not asks.agreed(0.0)
    assert answer(asks, 2)
    assert asks.agreed(0.0)


def test_a_follower_that_hears_a_leader_speaks_for_the_leader_too() -> None:
    asks = inquiry()
    answer(asks, 2, leader=3, hears=True)
    assert not asks.agreed(0.0)
    assert not asks.may_agree(0.0), "server 3 leads, and cannot agree"


def test_a_leader_that_answers_may_still_lack_a_majority() -> None:
    asks = inquiry()
    answer(asks, 2, leader=2, leads=True)
    assert not asks.agreed(0.0)
    assert asks.may_agree(0.0)
    answer(asks, 3)
    assert asks.agreed(0.0)


def test_a_jraft_followers_word_counts_only_beside_the_leaders_own() -> None:
    asks = inquiry()
    answer(asks, 2, leader=3)
    assert asks.agreed(0.0), "JRaft names a leader of long ago"
    answer(asks, 3, leader=3, leads=True)
    assert not asks.agreed(0.0)


def test_who_takes_the_asking_server_for_the_leader_agrees() -> None:
    asks = inquiry()
    answer(asks, 2, leader=1, hears=True)
    assert asks.agreed(0.0)


def test_of_five_a_minority_that_hears_nobody_is_not_enough() -> None:
    asks = inquiry(5)
    answer(asks, 2)
    answer(asks, 3, leader=4, hears=True)
    assert not asks.agreed(0.0)
    assert asks.may_agree(0.0), "server 5 has not answered"
    answer(asks, 5, leader=4, hears=True)
    assert not asks.may_agree(0.0)


def test_an_answer_is_valid_for_the_longest_time_out_after_its_question() -> None:
    asks = inquiry()
    answer(asks, 2)
    assert asks.agreed(LAN.election_max - 0.001)
    assert not asks.agreed(LAN.election_max)


def test_what_was_asked_before_a_change_says_nothing() -> None:
    asks = inquiry()
    answer(asks, 2)
    asks.begin_anew(0.1, 1.0)
    assert not asks.agreed(0.2)
    answer(asks, 3)
    assert not asks.agreed(0.2), "the question had left before"
    asks.ask(0.2)
    answer(asks, 3)
    assert asks.agreed(0.2)


def test_at_most_one_question_to_a_peer_is_on_the_way() -> None:
    asks = inquiry()
    first = dict(asks._flights)
    asks.ask(LAN.election_max)
    assert asks._flights == first
    asks.failed(2, first[2][0] + 100)
    assert asks._flights == first, "another request"
    asks.failed(2, first[2][0])
    asks.ask(LAN.election_max)
    assert asks._flights[2][1] == LAN.election_max
    assert not asks.answered(2, first[2][0], Response(MessageType.APPEND_ENTRIES_RESPONSE, 2, 3, 1, 0, accepted=False))
    asks.ask(3 * LAN.election_max)
    assert asks._flights[3][1] == 3 * LAN.election_max, "an answer that is so late never comes"


def test_who_has_agreed_lately_is_not_asked_again() -> None:
    asks = inquiry()
    answer(asks, 2)
    asks.ask(LAN.election_min / 4)
    assert 2 not in asks._flights
    asks.ask(LAN.election_min)
    assert 2 in asks._flights


def test_a_question_is_asked_again_after_twice_the_longest_time_out_and_not_before() -> None:
    asks = inquiry(timing=I2P)
    asks.ask(2 * I2P.election_max - 0.001)
    assert asks._flights[2][1] == 0.0
    asks.ask(2 * I2P.election_max)
    assert asks._flights[2][1] == 2 * I2P.election_max


def test_questions_come_at_an_eighth_of_the_time_out_and_no_faster_than_heartbeats() -> None:
    for timing, pause in ((Timing(0.1, 4.0, 8.0), 0.5), (Timing(0.6, 4.0, 8.0), 0.6)):
        assert inquiry(timing=timing).next_at == pause


def test_a_new_connection_to_a_peer_voids_the_question() -> None:
    asks = inquiry()
    first = asks._flights[2]
    asks.forget_flight(2)
    asks.ask(0.1)
    assert asks._flights[2] != first
    assert not asks.answered(2, first[0], Response(MessageType.APPEND_ENTRIES_RESPONSE, 2, 3, 1, 0, accepted=False))


def test_an_answer_that_nobody_asked_for_says_nothing() -> None:
    asks = inquiry()
    asks.forget_flight(2)
    for tag in range(1, 6):
        response = Response(MessageType.APPEND_ENTRIES_RESPONSE, 2, NOBODY, 1, 0, accepted=False)
        assert not asks.answered(2, tag, response)
    assert not asks.agreed(0.0)


def test_an_election_is_due_no_longer_when_a_majority_can_agree_no_more() -> None:
    asks = inquiry()
    asks.is_due = True
    hears = Response(MessageType.APPEND_ENTRIES_RESPONSE, 2, 3, 1, 7, accepted=False)
    assert not asks.completes(2, asks._flights[2][0], hears, 0.0)
    assert not asks.is_due
    asks = inquiry()
    asks.is_due = True
    agrees = Response(MessageType.APPEND_ENTRIES_RESPONSE, 2, NOBODY, 1, 0, accepted=False)
    assert asks.completes(2, asks._flights[2][0], agrees, 0.0)


def test_an_agreement_is_renewed_after_half_the_shortest_time_out() -> None:
    asks = inquiry()
    answer(asks, 2)
    asks.ask(LAN.election_min / 2 - 0.001)
    assert 2 not in asks._flights
    asks.ask(LAN.election_min / 2)
    assert 2 in asks._flights


def test_a_follower_with_an_empty_log_that_hears_a_leader_speaks_for_the_leader() -> None:
    asks = inquiry()
    response = Response(MessageType.APPEND_ENTRIES_RESPONSE, 2, 3, 1, 1, accepted=False)
    asks.answered(2, asks._flights[2][0], response)
    assert not asks.agreed(0.0)


# In the core ---------------------------------------------------------------------------------------------------------


def test_a_server_that_returns_deposes_nobody_however_late_the_leader_finds_it() -> None:
    lab = Lab(3)
    lab.elect(1)
    lab.crash(3)
    lab.restart(3)
    lab.cuts = {(1, 3)}
    lab.advance(60.0)
    assert (lab.core(1).is_leader, lab.core(1).term, lab.core(3).term) == (True, 1, 1)
    lab.cuts = set()
    lab.advance(1.0)
    assert (lab.core(3).leader, lab.core(3).term) == (1, 1)


def test_two_of_five_that_are_cut_off_together_keep_their_term() -> None:
    lab = Lab(5)
    lab.elect(1)
    lab.cuts = {(a, b) for a in (1, 2, 3) for b in (4, 5)} | {(b, a) for a in (1, 2, 3) for b in (4, 5)}
    lab.advance(60.0)
    assert [lab.core(i).term for i in range(1, 6)] == [1] * 5
    lab.heal()
    lab.advance(1.0)
    assert {lab.core(i).leader for i in range(1, 6)} == {1}


def test_a_connection_that_comes_up_brings_the_question_at_once() -> None:
    lab = Lab(3)
    effects = lab.step(1, inputs.Reachable(2))
    assert [(send.peer, send.request.type) for send in effects.sends] == [(2, MessageType.CLIENT_REQUEST)]
    assert lab.step(1, inputs.Reachable(9)).sends == [], "no member"


def test_a_removed_server_and_a_newcomer_ask_nobody() -> None:
    lab = Lab(3)
    lab.newcomer(4)
    lab.tick(4)
    assert not lab.network
    assert lab.core(4).deadline > lab.now


@pytest.mark.parametrize("answers", ["while it waits", "after its time-out"])
def test_a_higher_term_in_an_answer_is_taken_over_and_the_answer_counts(answers: str) -> None:
    lab = Lab(3)
    lab.crash(3)
    lab.servers[2].disk.hard_state = HardState(7, NOBODY)
    lab.restart(2)
    if answers == "while it waits":
        lab.tick(1)
        lab.settle()
        assert lab.core(1).term == 7
    lab.timeout(1)
    lab.settle()
    assert (lab.core(1).is_leader, lab.core(1).term) == (True, 8)


def test_a_server_without_a_leader_knows_none() -> None:
    lab = Lab(3)
    lab.elect(1)
    lab.isolate(3)
    lab.advance(LAN.election_max + 0.1)
    assert lab.core(3).leader == NOBODY


def test_the_question_says_nothing_of_the_log() -> None:
    lab = Lab(3)
    lab.elect(1)
    lab.propose(1, "before", "x")
    lab.settle()
    lab.isolate(1)
    lab.now = lab.core(2)._timeout.at
    lab.step(2, inputs.Tick())
    questions = [message.payload for message in lab.network if message.sender == 2]
    assert questions == [Request(MessageType.CLIENT_REQUEST, 2, peer, 0, 0, 0, 0) for peer in (1, 3)]


def test_after_its_start_a_server_asks_nobody_for_a_while() -> None:
    lab = Lab(3)
    assert lab.core(1).deadline == lab.now + LAN.doubt


def test_an_earlier_answer_does_not_count_against_an_election_while_the_peer_is_asked_again() -> None:
    asks = inquiry(5)
    for peer in (2, 3, 4):
        answer(asks, peer, leader=5, hears=True)
    asks.ask(0.1)
    asks.is_due = True
    agrees = partial(Response, MessageType.APPEND_ENTRIES_RESPONSE, destination=NOBODY, term=1, next_index=0)
    assert not asks.completes(2, asks._flights[2][0], agrees(2, accepted=False), 0.2)
    assert asks.is_due, "servers 3 and 4 may have lost the leader meanwhile"
    assert asks.completes(3, asks._flights[3][0], agrees(3, accepted=False), 0.2)


def test_a_former_leader_asks_also_the_peers_that_it_had_asked_before_it_led() -> None:
    lab = Lab(3)
    lab.step(2, inputs.Reachable(3))
    lab.network.clear()  # the answer comes while server 2 leads
    lab.elect(2)
    lab.isolate(2)
    lab.step(2, inputs.StepDown())
    asked: set[int] = set()
    while not asked:
        lab.now = lab.core(2).deadline
        effects = lab.step(2, inputs.Tick())
        asked = {send.peer for send in effects.sends if send.request.type is MessageType.CLIENT_REQUEST}
    assert asked == {1, 3}


def test_a_question_is_over_when_the_answer_claims_a_term_that_is_too_far() -> None:
    lab = Lab(3)
    effects = lab.step(1, inputs.Reachable(2))
    far = Response(MessageType.APPEND_ENTRIES_RESPONSE, 2, NOBODY, 1 << 40, 0, accepted=False)
    assert lab.step(1, inputs.Answered(2, effects.sends[0].tag, far)).violation is not None
    assert 2 not in lab.core(1)._inquiry._flights
