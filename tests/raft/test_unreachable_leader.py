"""The design page, section 3: a leader's connection that breaks for good shortens the wait."""

import pytest

from gf_i2p.raft import inputs
from gf_i2p.raft.settings import I2P, LAN, Timing
from gf_i2p.wire.messages import MessageType, Request
from tests.raft.lab import Lab


def led_by_1(timing: Timing = LAN, *, highest: bool = False) -> Lab:
    """Three servers, led by server 1; random waits are the shortest or the longest."""
    lab = Lab(3, timing=timing, uniform=(lambda _, high: high) if highest else (lambda low, _: low))
    lab.elect(1)
    lab.advance(timing.heartbeat)
    return lab


def wait(lab: Lab, server: int) -> float:
    """Give the seconds that this server waits from now."""
    return lab.wait(server)


def vote(lab: Lab, asked: int, asker: int) -> bool:
    term = lab.core(asked).term + 1
    request = Request(MessageType.REQUEST_VOTE_REQUEST, asker, asked, term, 1, 99, 0)
    lab.step(asked, inputs.Incoming("vote", request))
    return lab.replies["vote"].accepted


@pytest.mark.parametrize("timing", [LAN, I2P])
def test_a_leaders_connection_that_breaks_and_cannot_be_remade_shortens_the_wait(timing: Timing) -> None:
    for highest, before, after in (
        (False, timing.election_min, timing.election_min / 2),
        (True, timing.election_max, timing.election_min * 1.5),
    ):
        lab = led_by_1(timing, highest=highest)
        assert wait(lab, 2) == pytest.approx(before)
        lab.step(2, inputs.Unreachable(1))
        assert wait(lab, 2) == pytest.approx(after)
        assert wait(lab, 3) == pytest.approx(before), "of the others nobody has found so"


def test_the_wait_is_never_shorter_than_two_heartbeats() -> None:
    timing = Timing(heartbeat=0.1, election_min=0.2, election_max=0.4)
    lab = led_by_1(timing)
    lab.step(2, inputs.Unreachable(1))
    assert wait(lab, 2) == pytest.approx(0.2)


@pytest.mark.parametrize("timing", [LAN, I2P])
def test_a_leader_whose_machine_refuses_connections_is_waited_for_a_quarter(timing: Timing) -> None:
    shortest = max(timing.election_min / 4, timing.heartbeat * 1.25)
    for highest, after in ((False, shortest), (True, shortest + timing.election_min / 2)):
        lab = led_by_1(timing, highest=highest)
        lab.step(2, inputs.Unreachable(1, refused=True))
        assert wait(lab, 2) == pytest.approx(after)
        lab = led_by_1(timing, highest=highest)
        lab.step(2, inputs.Unreachable(1))  # the dial timed out, and a later dial was refused
        lab.step(2, inputs.Unreachable(1, refused=True))
        lab.step(2, inputs.Unreachable(1))
        assert wait(lab, 2) == pytest.approx(after)


def test_a_leader_whose_machine_refuses_connections_may_miss_no_heartbeat() -> None:
    timing = Timing(heartbeat=0.1, election_min=0.2, election_max=0.4)
    lab = led_by_1(timing)
    lab.step(2, inputs.Unreachable(1, refused=True))
    assert wait(lab, 2) == pytest.approx(0.125)


def test_a_server_that_was_refused_votes_after_the_quarter_and_its_peers_do_not() -> None:
    lab = led_by_1()
    lab.step(3, inputs.Unreachable(1, refused=True))
    lab.now += LAN.doubt_when_refused * 0.99
    assert not vote(lab, 3, asker=2)
    lab.now += LAN.doubt_when_refused * 0.02
    assert not vote(lab, 2, asker=3)
    assert vote(lab, 3, asker=2)


def test_two_servers_that_were_refused_elect_one_of_them_within_half_a_time_out() -> None:
    lab = led_by_1()
    lab.crash(1)
    lab.step(2, inputs.Unreachable(1, refused=True))
    lab.step(3, inputs.Unreachable(1, refused=True))
    lab.advance(LAN.doubt_when_refused)
    assert {lab.core(2).leader, lab.core(3).leader} in ({2}, {3})
    assert lab.core(2).term == 2


@pytest.mark.parametrize("news", ["a message of the leader", "a new connection"])
def test_a_refusal_counts_until_the_leader_shows_itself(news: str) -> None:
    lab = led_by_1()
    lab.step(2, inputs.Unreachable(1, refused=True))
    if news == "a new connection":
        lab.step(2, inputs.Reachable(1))
    else:
        lab.advance(LAN.heartbeat)
    assert wait(lab, 2) >= LAN.election_min * 0.99
    lab.now += LAN.doubt * 1.1
    assert not vote(lab, 2, asker=3)


def test_a_leader_that_is_heard_after_a_refusal_stands_behind_a_forwarder_that_refuses() -> None:
    lab = led_by_1()
    lab.step(2, inputs.Unreachable(1, refused=True))
    lab.advance(LAN.heartbeat)
    lab.step(2, inputs.Unreachable(1, refused=True))
    assert wait(lab, 2) == pytest.approx(LAN.doubt)
    lab.now += LAN.doubt * 0.9
    assert not vote(lab, 2, asker=3)
    lab.step(2, inputs.Reachable(1))
    lab.step(2, inputs.Unreachable(1, refused=True))  # the forwarder works again, and now the leader has died
    assert vote(lab, 2, asker=3)


def test_the_wait_is_never_lengthened() -> None:
    lab = led_by_1(highest=True)
    lab.now += LAN.election_max - 0.01
    lab.step(2, inputs.Unreachable(1))
    assert wait(lab, 2) == pytest.approx(0.01)


def test_a_wait_that_would_be_over_already_ends_at_random_and_not_for_all_at_once() -> None:
    lab = led_by_1(I2P, highest=True)
    lab.now += I2P.election_min
    lab.step(2, inputs.Unreachable(1))
    assert wait(lab, 2) == pytest.approx(I2P.election_min), "the same spread, from now on"


def test_finding_it_again_and_again_changes_nothing_more() -> None:
    lab = led_by_1(highest=True)
    lab.step(2, inputs.Unreachable(1))
    before = wait(lab, 2)
    lab.core(2)._timeout._uniform = lambda low, _: low
    lab.step(2, inputs.Unreachable(1))
    assert wait(lab, 2) == before


def test_a_leader_that_still_delivers_stays_the_leader() -> None:
    lab = led_by_1()
    for _ in range(100):
        lab.step(2, inputs.Unreachable(1))
        lab.step(3, inputs.Unreachable(1))
        lab.advance(LAN.heartbeat)
    assert (lab.core(1).is_leader, lab.core(2).term) == (True, 1)
    assert wait(lab, 2) > LAN.election_min / 2, "what arrives restores the wait"


def test_stickiness_lasts_as_long_for_all_who_have_not_found_so() -> None:
    lab = led_by_1()
    lab.now += LAN.election_min * 0.99
    assert not vote(lab, 3, asker=2)
    assert lab.core(3).term == 1


def test_who_has_found_so_is_sticky_until_its_own_wait_may_end() -> None:
    lab = led_by_1()
    lab.step(3, inputs.Unreachable(1))
    lab.now += LAN.doubt * 0.99
    assert not vote(lab, 3, asker=2)
    lab.now += LAN.doubt * 0.02
    assert vote(lab, 3, asker=2)


def test_two_who_have_found_so_elect_one_of_them_at_once() -> None:
    lab = led_by_1()
    lab.crash(1)
    lab.step(2, inputs.Unreachable(1))
    lab.step(3, inputs.Unreachable(1))
    lab.advance(LAN.election_min / 2)
    assert {lab.core(2).leader, lab.core(3).leader} in ({2}, {3})
    assert lab.core(2).term == 2


def test_a_leader_that_can_be_dialled_again_is_waited_for_as_ever() -> None:
    lab = led_by_1()
    lab.step(2, inputs.Unreachable(1))
    lab.step(2, inputs.Reachable(1))
    assert wait(lab, 2) == pytest.approx(LAN.election_min)
    assert lab.core(2).deadline == pytest.approx(lab.now + LAN.election_min), "no question to the others before that"
    lab.now += LAN.doubt * 1.1
    assert not vote(lab, 2, asker=3)


@pytest.mark.parametrize("role", ["leader", "candidate", "follower of another", "follower of nobody"])
def test_nobody_else_is_concerned(role: str) -> None:
    lab = Lab(3) if role in {"candidate", "follower of nobody"} else led_by_1()
    if role == "candidate":
        lab.timeout(2)
    server, peer = {"leader": (1, 2), "follower of another": (2, 3)}.get(role, (2, 1))
    before = (lab.core(server).role, lab.core(server).deadline)
    lab.step(server, inputs.Unreachable(peer))
    assert (lab.core(server).role, lab.core(server).deadline) == before


def test_without_doubt_a_new_connection_changes_no_wait() -> None:
    lab = led_by_1()
    lab.core(2)._timeout._uniform = lambda _, high: high
    before = wait(lab, 2)
    lab.step(2, inputs.Reachable(1))
    assert wait(lab, 2) == before


def test_a_new_connection_to_another_server_ends_no_doubt() -> None:
    lab = led_by_1()
    lab.step(2, inputs.Unreachable(1))
    before = wait(lab, 2)
    lab.step(2, inputs.Reachable(3))
    assert wait(lab, 2) == before


def test_the_questions_begin_at_the_time_for_doubt() -> None:
    lab = led_by_1(highest=True)
    lab.step(2, inputs.Unreachable(1))
    assert lab.core(2).deadline == pytest.approx(lab.now + LAN.doubt)
