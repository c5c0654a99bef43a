"""One server's claims about term and index: no single server strands the farm."""

import pytest

from gf_i2p.raft import inputs
from gf_i2p.raft.allowance import LAST_TERM, TERMS_A_SECOND, TERMS_AT_ONCE, Allowance
from gf_i2p.raft.effects import HardState
from gf_i2p.raft.settings import LAN
from gf_i2p.wire.limits import MAX_INTEGER
from gf_i2p.wire.messages import NOBODY, MessageType, Request, Response
from tests.raft.lab import Disk, Lab, application, assert_others_commit
from tests.raft.test_paper import append, ask, vote_request

FAR = 2**32


def of_leader(kind: MessageType, term: int, source: int = 2) -> Request:
    return Request(kind, source, 1, term, 0, 0, 0)


def late_farm(lab: Lab, term: int) -> None:
    """Have all servers of the lab begin in this term."""
    for server in tuple(lab.servers):
        lab.servers[server] = lab._boot(server, Disk(HardState(term, NOBODY)))


@pytest.mark.parametrize(
    "request_",
    [
        append(FAR, (0, 0)),
        vote_request(3, FAR, 9, 9),
        of_leader(MessageType.JOIN_CLUSTER_REQUEST, MAX_INTEGER),
        of_leader(MessageType.LEAVE_CLUSTER_REQUEST, MAX_INTEGER),
    ],
)
def test_one_request_raises_the_term_by_a_bounded_step_and_has_no_other_effect(request_: Request) -> None:
    lab = Lab(3)
    lab.step(1, inputs.Incoming("bad", request_))
    assert (lab.dropped, lab.core(1).term, lab.core(1).vote) == (["bad"], TERMS_AT_ONCE, NOBODY)
    assert lab.core(1).leader == NOBODY
    assert f"claims term {request_.term}, but this server is in term {TERMS_AT_ONCE}" in lab.violations[0]
    assert ask(Lab(3), append(TERMS_AT_ONCE, (0, 0))).accepted


def test_one_answer_raises_the_term_by_a_bounded_step() -> None:
    lab = Lab(3)
    lab.elect(1)
    answer = Response(MessageType.APPEND_ENTRIES_RESPONSE, 2, 1, FAR, 0, accepted=False)
    lab.step(1, inputs.Answered(2, 99, answer))
    assert (lab.core(1).term, lab.core(1).role, len(lab.violations)) == (1 + TERMS_AT_ONCE, "follower", 1)


def test_a_live_leaders_follower_ignores_the_far_term_of_a_vote_request() -> None:
    lab = Lab(3)
    ask(lab, append(1, (0, 0)))
    answer = ask(lab, vote_request(3, FAR, 9, 9))
    assert (answer.accepted, answer.term) == (False, 1)


def test_many_claims_of_one_server_raise_the_term_at_a_bounded_rate() -> None:
    lab = Lab(3)
    for number in range(10_000):
        lab.now += 0.001
        lab.step(1, inputs.Incoming(number, append(MAX_INTEGER, (0, 0))))
    assert TERMS_A_SECOND <= lab.core(1).term <= TERMS_AT_ONCE + 10 * TERMS_A_SECOND
    assert (LAST_TERM - TERMS_AT_ONCE) / TERMS_A_SECOND > 1000 * 365 * 86400, "a thousand years of this"


def test_after_the_claims_end_the_farm_elects_and_commits() -> None:
    lab = Lab(3)
    lab.elect(2)
    lab.propose(2, "before", "a")
    lab.settle()
    for server in (1, 2):
        lab.step(server, inputs.Incoming("bad", append(FAR, (0, 0), source=3)))
    lab.isolate(3)
    lab.advance(20 * LAN.election_max)
    assert_others_commit(lab)


def test_a_server_that_lags_by_more_than_one_step_follows_after_a_while() -> None:
    lab = Lab(3)
    late_farm(lab, FAR)
    lab.servers[3] = lab._boot(3, Disk(HardState(FAR - TERMS_AT_ONCE - 20 * TERMS_A_SECOND, NOBODY)))
    lab.elect(1)
    assert lab.core(3).leader == NOBODY
    lab.advance(30)
    assert (lab.core(3).leader, lab.core(3).term) == (1, lab.core(1).term)
    assert lab.core(1).term == FAR + 1, "the server that lagged has deposed nobody"


@pytest.mark.parametrize("drops", [False, True])
def test_a_newcomer_takes_the_farms_term_however_high(drops: bool) -> None:
    lab = Lab(3)
    late_farm(lab, LAST_TERM - 1)
    lab.elect(1)
    lab.propose(1, "old", *"abc")
    lab.advance(LAN.heartbeat)
    if drops:
        lab.snapshot(1)
    lab.newcomer(4)
    lab.change(1, "in", add=4)
    lab.advance(2 * LAN.heartbeat)
    assert lab.core(4).is_voter
    assert (lab.core(4).term, lab.core(4).commit) == (LAST_TERM, lab.core(1).commit)
    lab.step(4, inputs.Incoming("bad", append(LAST_TERM + FAR, (0, 0))))
    assert lab.core(4).term <= LAST_TERM + TERMS_AT_ONCE, "it is no newcomer any more"


def test_a_newcomer_leaves_the_last_terms_alone() -> None:
    lab = Lab(3)
    lab.newcomer(4)
    lab.step(4, inputs.Incoming("bad", append(LAST_TERM + 1, (0, 0))))
    assert (lab.dropped, lab.core(4).term) == (["bad"], TERMS_AT_ONCE)


def test_a_founder_with_an_empty_log_is_no_newcomer() -> None:
    lab = Lab(3)
    lab.step(1, inputs.Incoming("bad", append(FAR, (0, 0), application("x", 1))))
    assert (lab.core(1).term, lab.core(1).log.last_index) == (TERMS_AT_ONCE, 0)


def test_the_far_term_of_a_server_that_is_no_member_deposes_no_leader() -> None:
    """A hostile server may have told the newcomer that term."""
    lab = Lab(3)
    lab.elect(1)
    lab.settle()
    lab.newcomer(4)
    lab.step(4, inputs.Incoming("bad", append(LAST_TERM, (0, 0), source=3)))
    lab.change(1, "in", add=4)
    lab.settle()
    assert (lab.core(1).is_leader, lab.core(1).term) == (True, 1)
    assert "begin that server again with an empty log" in lab.violations[0]
    lab.advance(20 * LAN.election_max)
    assert lab.core(1).change_obstacle is None, "other servers can join"


def test_the_allowance_is_full_at_first_and_fills_with_time() -> None:
    allowance = Allowance(TERMS_AT_ONCE, TERMS_A_SECOND, 100.0)
    assert allowance.take(5, 100.0) == 5
    assert allowance.take(2**62, 100.0) == TERMS_AT_ONCE - 5
    assert allowance.take(1, 100.0) == 0
    assert allowance.take(2**62, 101.0) == TERMS_A_SECOND
    assert allowance.take(2**62, 1e9) == TERMS_AT_ONCE, "and no more than that"
