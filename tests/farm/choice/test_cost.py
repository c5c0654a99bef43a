"""The cost of an entry."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gf_i2p.farm.choice.cost import BEST, STAYS_WITHIN, STEP, WEIGHTS, WORST, LeafLoad, entry_cost, leaf_load
from gf_i2p.farm.record.bandwidth import bandwidth_used
from gf_i2p.farm.record.status_record import Leaf

parts = st.none() | st.floats(0, 1)
loads = st.builds(LeafLoad, parts, parts, parts, parts)


@given(loads, st.none() | st.integers(0, 255))
def test_it_is_in_its_range_and_a_multiple_of_the_step(of: LeafLoad, current: int | None) -> None:
    cost = entry_cost(of, current)
    if current is None or cost != current:
        assert BEST <= cost <= WORST
        assert cost == BEST or cost % STEP == 0
        assert abs(cost - sum(of.points.values())) <= STEP / 2 or cost == BEST
    else:
        assert abs(cost - sum(of.points.values())) <= STAYS_WITHIN


@given(loads, st.floats(0, 1))
def test_more_load_costs_no_less(of: LeafLoad, more: float) -> None:
    busier = LeafLoad(max(of.connections or 0, more), of.bandwidth, of.tunnels, of.unreached)
    assert entry_cost(busier, None) >= entry_cost(of, None)


def test_the_ends() -> None:
    assert sum(WEIGHTS.values()) == WORST
    assert entry_cost(LeafLoad(1, 1, 1, 1), None) == WORST
    assert entry_cost(LeafLoad(), None) == entry_cost(LeafLoad(0, 0, 0, 0), None) == BEST


def test_what_is_known_of_a_leaf() -> None:
    leaf = Leaf(
        bytes(32), up=True, configured_tunnels=4, current_tunnels=3, configured_connections=10, current_connections=30,
        configured_bandwidth=200, current_bandwidth=50,
    )  # fmt: skip
    router = {"currentInboundBandwidth": 80, "configuredInboundBandwidth": 100}
    assert leaf_load(leaf, bandwidth_used(router), (3, 1)) == LeafLoad(1.0, 0.25, 0.25, 0.25)
    assert leaf_load(Leaf(bytes(32), up=True), bandwidth_used(router), (0, 0)) == LeafLoad(None, 0.8, None, None)
    untold = bandwidth_used({"currentInboundBandwidth": "80"})
    assert leaf_load(Leaf(bytes(32), up=True), untold, (0, 0)) == LeafLoad()


@pytest.mark.parametrize("most", [0, None])
def test_a_leaf_that_names_no_limit_is_not_full(most: int | None) -> None:
    leaf = Leaf(bytes(32), up=True, configured_connections=most, current_connections=5)
    assert leaf_load(leaf, bandwidth_used({}), (0, 0)) == LeafLoad()


@given(loads)
def test_the_total_is_that_of_the_parts(of: LeafLoad) -> None:
    assert of.total == sum(of.points.values())
