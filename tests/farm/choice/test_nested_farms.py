"""Farms below farms: the leaves below each farm; a loop is never listed."""

import itertools
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gf_i2p.farm.choice.nested_farms import (
    MAX_DEPTH,
    MastersBelow,
    as_leaf,
    chain_length,
    find_loop,
    find_masters_below,
    leads_to,
    objection,
)
from gf_i2p.farm.record.destinations import MAX_BELOW, META_TYPE
from gf_i2p.farm.record.status_record import Leaf, StatusRecord
from tests.farm.fed_farm import Farm
from tests.farm.strategies import MASTER, leaf, record


def name(number: int) -> bytes:
    return number.to_bytes(32)


def nested(number: int, *below: int, depth: int | None = None, up: bool = True) -> Leaf:
    return Leaf(name(number), up, type=META_TYPE, below=tuple(map(name, below)), depth=depth)


def test_what_lies_below_is_all_that_any_server_reports_listed_or_not() -> None:
    assert find_masters_below([record(1, leaf(1)), record(2)]) == MastersBelow((), 0)
    masters = find_masters_below(
        [record(1, leaf(9), nested(5, 7, depth=2, up=False)), record(2, nested(6)), record(3, nested(5, 8))]
    )
    assert masters == MastersBelow((name(5), name(6), name(7), name(8)), 2)
    assert as_leaf(name(4), masters, up=True) == nested(4, 5, 6, 7, 8, depth=3)
    assert not as_leaf(name(4), masters, up=False).up
    assert as_leaf(name(4), MastersBelow(), up=True) == nested(4, depth=1)


def test_a_leaf_that_says_nothing_of_its_depth_has_the_least_possible() -> None:
    assert find_masters_below([record(1, nested(5))]).depth == 1
    assert find_masters_below([record(1, nested(5, 6))]).depth == 2
    assert find_masters_below([record(1, nested(5, 6, depth=0))]).depth == 2


def test_a_chain_may_be_so_deep_and_no_deeper() -> None:
    below, up = MastersBelow(), []
    for number in range(1, MAX_DEPTH + 4):
        top = as_leaf(name(number), below, up=True)
        up.append(top.up)
        assert (objection(top, None) is None) == top.up
        below = find_masters_below([record(1, top)])
    assert up == [True] * MAX_DEPTH + [False] * 3
    assert below.depth == MAX_DEPTH + 1, "it does not grow for ever"
    assert "more than 8 farms" in (below.objection or "")


def test_so_many_masters_lie_below_one_and_no_more() -> None:
    wide = [record(1, *(nested(number) for number in range(1, MAX_BELOW + 1)))]
    assert as_leaf(name(99), find_masters_below(wide), up=True).up
    wider = [*wide, record(2, nested(MAX_BELOW + 1))]
    top = as_leaf(name(99), find_masters_below(wider), up=True)
    assert (top.up, len(top.below)) == (False, MAX_BELOW)
    assert "17 masters lie below it" in (find_masters_below(wider).objection or "")
    assert StatusRecord.parse(record(1, top).encode()).leaves == (top,)


def test_a_farm_lists_nothing_that_leads_to_itself() -> None:
    master = name(1)
    assert "the master itself" in (objection(leaf(1), master) or "")
    assert "the master itself" in (objection(nested(1), master) or "")
    assert "leads back to" in (objection(nested(2, 3, 1), master) or "")
    assert objection(nested(2, 3), master) is None
    assert objection(nested(2, 3, 1), None) is None, "who has no master is below nobody"
    assert objection(leaf(2), master) is None
    # Another server's knowledge counts, also over several steps.
    reports = {name(2): [name(3)], name(3): [master], name(4): []}
    assert leads_to(nested(2), lambda each: reports.get(each, [])) == {name(3), master}
    assert leads_to(nested(9, 3), lambda each: reports.get(each, [])) == {name(3), master}
    assert leads_to(leaf(2), lambda each: reports.get(each, [])) == frozenset()
    assert "leads back to" in (objection(nested(2), master, {master}) or "")
    assert objection(nested(4), master, {name(5)}) is None


def test_a_farm_leaves_out_what_leads_back_and_says_why() -> None:
    farm = Farm(1, 2, 3)
    deep = nested(12, 13, depth=MAX_DEPTH + 1)
    farm.reports = {
        1: {"leaves": [leaf(5), nested(10)]},
        2: {"leaves": [nested(11, 13), deep]},
        3: {"leaves": [nested(14)]},
    }
    farm.lasts(600_000)
    assert farm.listed == {5, 10, 11, 14}
    assert {each.hash[-1]: each.type for each in farm.state.choice.entries} == {5: 3, 10: 7, 11: 7, 14: 7}
    assert "more than 8 farms" in farm.state.choice.left_out[deep.hash]
    # One server's knowledge of the farm below counts against the leaf of every server: the leaf goes out, with a
    # reason.
    farm.reports[3] = {"leaves": [Leaf(name(10), up=True, type=META_TYPE, below=(MASTER.hash,)), nested(14)]}
    farm.lasts(600_000)
    assert farm.listed == {5, 11, 14}
    assert "leads back to" in farm.state.choice.left_out[name(10)]
    assert farm.copy().choice == farm.state.choice
    farm.reports[3] = {"leaves": [nested(14)]}
    farm.lasts(1_200_000)
    assert farm.listed == {5, 10, 11, 14}


def test_a_member_cannot_take_out_the_leaf_of_another() -> None:
    farm = Farm(1, 2, 3)
    farm.reports[1] = {"leaves": [nested(10)]}
    farm.members = [Leaf(name(10), up=True, type=META_TYPE, below=(MASTER.hash,))]
    farm.lasts(600_000)
    assert 10 in farm.listed


@pytest.mark.parametrize("rounds", range(4))
def test_no_loop_is_listed_in_the_end_whatever_lists_whom_in_whatever_order_they_post(rounds: int) -> None:
    """Farms that know only each other's words: once all have posted often enough, no loop is listed."""
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    choice = random.Random(seed)
    for _ in range(50):
        count = choice.randrange(1, 8)
        below = {farm: choice.sample(range(count), choice.randrange(min(count, 3) + 1)) for farm in range(count)}
        records = {farm: record(1) for farm in below}
        for _ in range(3 * count):
            for farm in choice.sample(sorted(below), count):
                leaves = [as_leaf(name(each), find_masters_below([records[each]]), up=True) for each in below[farm]]
                records[farm] = record(1, *leaves)

        def listed(farm: int) -> list[int]:
            return [
                int.from_bytes(each.hash)
                for each in records[farm].leaves  # noqa: B023 -- called in this round only
                if each.up and objection(each, name(farm)) is None
            ]

        assert find_loop({farm: listed(farm) for farm in below}) is None, below
        if find_loop(below) is None and chain_length(below) < MAX_DEPTH:
            assert all(sorted(listed(farm)) == sorted(below[farm]) for farm in below), "none is refused for nothing"


def test_the_way_round_a_loop_is_told() -> None:
    assert find_loop({}) is None
    assert find_loop({"a": ["b", "c"], "b": ["c"], "c": []}) is None
    assert find_loop({"a": ["a"]}) == ("a", "a")
    assert find_loop({"x": ["a"], "a": ["d", "b"], "b": ["c"], "c": ["a"]}) == ("a", "b", "c", "a")
    assert chain_length({"a": ["b", "c"], "b": ["c"]}) == 2
    assert chain_length({}) == 0


@given(st.dictionaries(st.integers(0, 6), st.lists(st.integers(0, 6), max_size=3), max_size=7))
def test_a_loop_is_found_whenever_there_is_one(farms: dict[int, list[int]]) -> None:
    circle = find_loop(farms)
    if circle is None:
        order = sorted(range(7), key=lambda farm: chain_length({farm: [], **_part(farms, farm)}))
        place = {farm: at for at, farm in enumerate(order)}
        assert all(place[each] < place[farm] for farm, below in farms.items() for each in below)
    else:
        assert circle[0] == circle[-1]
        assert all(lower in farms[upper] for upper, lower in itertools.pairwise(circle))


def _part(farms: dict[int, list[int]], top: int) -> dict[int, list[int]]:
    """Give the part of the farms that lies below `top`."""
    part: dict[int, list[int]] = {}
    ahead = [top]
    while ahead:
        farm = ahead.pop()
        if farm not in part:
            part[farm] = farms.get(farm, [])
            ahead += part[farm]
    return part
