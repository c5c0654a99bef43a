"""A change of the time-outs while a server waits for its election time-out: the wait is drawn anew."""

import pytest

from gf_i2p.raft import inputs
from gf_i2p.raft.settings import I2P, LAN
from tests.raft.lab import Lab


def wait(lab: Lab, server: int) -> float:
    return lab.wait(server)


def test_a_wait_that_is_longer_than_any_new_one_is_drawn_again() -> None:
    lab = Lab(3, timing=I2P)
    lab.elect(1)
    lab.now += 1.0
    lab.core(2).timing = LAN
    assert wait(lab, 2) == pytest.approx(I2P.election_min - 1.0), "as it was"
    lab.core(2).redraw(lab.now)
    assert wait(lab, 2) == pytest.approx(LAN.election_min)


def test_a_wait_that_fits_stays() -> None:
    lab = Lab(3)
    lab.elect(1)
    before = lab.core(2).deadline
    for _ in range(10):
        lab.now += 0.01
        lab.core(2).redraw(lab.now)
    assert lab.core(2).deadline == before, "or it would get shorter and shorter"


def test_who_has_heard_no_leader_yet_waits_for_no_less_than_the_new_time() -> None:
    lab = Lab(3)
    lab.core(1).timing = I2P
    lab.core(1).redraw(lab.now)
    assert wait(lab, 1) == I2P.election_min
    lab.elect(2)
    heard = lab.core(3)
    before = wait(lab, 3)
    heard.timing = I2P
    heard.redraw(lab.now)
    assert wait(lab, 3) == before, "whoever has heard one goes on from there"


def test_a_candidate_goes_on_and_a_leader_has_no_wait() -> None:
    lab = Lab(3)
    lab.timeout(1)
    before = lab.core(1).deadline
    lab.core(1).timing = I2P
    lab.core(1).redraw(lab.now)
    assert lab.core(1).deadline == before
    lab.settle()
    assert lab.core(1).is_leader
    lab.core(1).timing = LAN
    before = lab.core(1).deadline
    lab.core(1).redraw(lab.now)
    assert lab.core(1).deadline == before


def test_a_longer_wait_after_refusals_stays() -> None:
    lab = Lab(3)
    timeout = lab.core(1)._timeout
    timeout.refusals = 4
    timeout.at = lab.now + 8 * LAN.election_max
    lab.core(1).redraw(lab.now)
    assert lab.wait(1) == pytest.approx(8 * LAN.election_max)
    timeout.at += 0.001
    lab.core(1).redraw(lab.now)
    assert lab.wait(1) == pytest.approx(8 * LAN.election_min)


def test_a_server_that_has_stepped_down_gives_way_with_its_new_time_outs_too() -> None:
    lab = Lab(3, timing=I2P)
    lab.elect(1)
    lab.settle()
    lab.step(1, inputs.StepDown())
    lab.core(1).redraw(lab.now)
    assert lab.wait(1) == pytest.approx(I2P.election_min + 2 * I2P.election_max), "a wait that fits stays"
    lab.core(1).timing = LAN
    lab.core(1).redraw(lab.now)
    assert lab.wait(1) == pytest.approx(LAN.election_min + 2 * LAN.election_max)
    lab.elect(2)
    lab.now += LAN.election_min
    lab.core(1).timing = I2P
    lab.core(1).redraw(lab.now)
    assert lab.wait(1) <= LAN.election_max, "a leader's message ends that"
