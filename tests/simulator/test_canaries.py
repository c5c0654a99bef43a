"""Broken cores are noticed. `make canaries` tries all of the cores, and takes minutes."""

import pytest

from gf_i2p.raft.core import Core
from gf_i2p.simulator.canaries import CANARIES, by_name
from gf_i2p.simulator.canary import Canary
from gf_i2p.simulator.seed_run import simulate


@pytest.mark.parametrize(
    "name",
    [
        *("votes-twice", "applies-early", "no-fsync", "lone-reads", "no-back-off"),
        pytest.param("stands-unasked", marks=pytest.mark.slow),  # needs many seeds
    ],
)
def test_a_canary_is_caught(name: str) -> None:
    with CANARIES[name].applied():
        assert any(simulate(seed).violation for seed in range(1, 101)), f"{name} survives the seeds 1 to 100"


def test_a_canary_leaves_the_core_as_it_was() -> None:
    before = Core._request_vote
    with CANARIES["votes-twice"].applied():
        assert Core._request_vote is not before
    assert Core._request_vote is before
    assert simulate(1).violation is None


def test_canaries_are_broken_in_different_ways() -> None:
    patches = [tuple(patch[2] for patch in canary.patches) for canary in CANARIES.values()]
    assert len(patches) == len(CANARIES) >= 20
    assert len({canary.mistake for canary in CANARIES.values()}) == len(CANARIES)


def test_two_canaries_cannot_have_one_name() -> None:
    with pytest.raises(ValueError, match="called 'deaf'"):
        by_name([Canary("deaf", "hears nothing", ()), Canary("deaf", "hears too late", ())])
