"""The cost of an entry."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gf_i2p.farm.choice.cost import (
    BEST,
    LOAD,
    MOST,
    STAYS_WITHIN,
    STEP,
    UNKNOWN_LOAD,
    WORST,
    LeafLoad,
    entry_cost,
    leaf_load,
)
from gf_i2p.farm.record.bandwidth import bandwidth_used, part_in_use
from gf_i2p.farm.record.status_record import Leaf

parts = st.none() | st.integers(0, 1000)
loads = st.builds(LeafLoad, parts, parts, parts, parts)


@given(loads, st.none() | st.integers(0, 255))
def test_it_is_in_its_range_and_a_multiple_of_the_step(of: LeafLoad, current: int | None) -> None:
    cost = entry_cost(of, current)
    if current is None or cost != current:
        assert BEST <= cost <= WORST
        assert cost == BEST or cost % STEP == 0
        assert abs(cost - of.total) <= STEP / 2 or cost == BEST
    else:
        assert abs(cost - of.total) <= STAYS_WITHIN


@given(loads, st.sampled_from(sorted(MOST)), st.integers(0, 1000))
def test_more_load_costs_no_less(of: LeafLoad, part: str, more: int) -> None:
    known = getattr(of, part)
    busier = replace(of, **{part: None if known is None else max(known, more)})
    assert entry_cost(busier, None) >= entry_cost(of, None)


def test_the_ends() -> None:
    assert LOAD + MOST["tunnels"] + MOST["unreached"] == WORST
    assert entry_cost(LeafLoad(1000, 1000, 1000, 1000), None) == WORST
    assert (
        entry_cost(LeafLoad(1000, None, 1000, 1000), None)
        == entry_cost(LeafLoad(None, 1000, 1000, 1000), None)
        == WORST
    )
    assert entry_cost(LeafLoad(0, 0, 0, 0), None) == entry_cost(LeafLoad(0), None) == BEST
    assert entry_cost(LeafLoad(), None) == UNKNOWN_LOAD == LOAD // 4


def test_how_shares_are_rounded() -> None:
    """All is computed with integers: shares down to a thousandth, points to the nearest integer, halves up."""
    assert part_in_use(2, 3) == 666
    assert part_in_use(1, 1001) == 0
    assert part_in_use(2**53, 2**53 - 1) == 1000
    assert LeafLoad(connections=13).parts() == {"connections": 2, "bandwidth": None, "tunnels": None, "unreached": None}
    assert LeafLoad(tunnels=31).parts()["tunnels"] == 0
    assert LeafLoad(tunnels=32).parts()["tunnels"] == 1
    assert LeafLoad(tunnels=93, unreached=500).parts() == {
        "connections": None, "bandwidth": None, "tunnels": 1, "unreached": 16,
    }  # fmt: skip
    assert [entry_cost(LeafLoad(connections=part), None) for part in (39, 40, 41, 120, 123, 125, 126)] == [
        1, 16, 16, 16, 32, 32, 32,
    ]  # fmt: skip


def test_what_is_known_of_a_leaf() -> None:
    leaf = Leaf(
        bytes(32), up=True, configured_tunnels=4, current_tunnels=3, configured_connections=10, current_connections=30,
        configured_bandwidth=200, current_bandwidth=50,
    )  # fmt: skip
    router = {"currentInboundBandwidth": 80, "configuredInboundBandwidth": 100}
    assert leaf_load(leaf, bandwidth_used(router), (3, 1)) == LeafLoad(1000, 250, 250, 250)
    assert leaf_load(Leaf(bytes(32), up=True), bandwidth_used(router), (0, 0)) == LeafLoad(None, 800, None, None)
    untold = bandwidth_used({"currentInboundBandwidth": "80"})
    assert leaf_load(Leaf(bytes(32), up=True), untold, (0, 0)) == LeafLoad()


@pytest.mark.parametrize("most", [0, None])
def test_a_leaf_that_names_no_limit_is_not_full(most: int | None) -> None:
    leaf = Leaf(bytes(32), up=True, configured_connections=most, current_connections=5)
    assert leaf_load(leaf, bandwidth_used({}), (0, 0)) == LeafLoad()


@given(loads)
def test_the_total_is_the_sum_of_the_parts(of: LeafLoad) -> None:
    presumed = UNKNOWN_LOAD if of.connections is None and of.bandwidth is None else 0
    points = of.parts()
    assert of.total == presumed + sum(each for each in points.values() if each is not None)
    assert [points[name] is None for name in points] == [getattr(of, name) is None for name in points]
    assert all(each is None or 0 <= each <= of.most()[name] for name, each in points.items())
