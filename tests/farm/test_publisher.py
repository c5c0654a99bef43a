"""Who publishes which leaves."""

import random
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gf_i2p.farm.publisher import AHEAD_MS, FRESH_MS, MAX_LEAVES, choose, farm_time_ms
from gf_i2p.farm.record import Leaf, StatusRecord
from tests.farm.strategies import MASTER, NOW, leaf, record

ages = st.sampled_from([0, 1, FRESH_MS - 1, FRESH_MS, FRESH_MS + 1, 10**7, -AHEAD_MS, -AHEAD_MS - 1]) | st.integers(
    -(10**8), 10**8
)
some_leaves = st.lists(st.builds(leaf, st.integers(0, 30), up=st.booleans()), max_size=40)


@st.composite
def farms(draw: st.DrawFn) -> dict[int, StatusRecord]:
    servers = draw(st.lists(st.integers(0, 2**32 - 2), max_size=7, unique=True))
    return {
        server: record(
            server,
            *draw(some_leaves),
            date=NOW - draw(ages),
            up=draw(st.booleans()),
            publish=draw(st.sampled_from(["on", "auto", "off", "bogus", None])),
        )
        for server in servers
        if draw(st.integers(0, 9))
    } | ({5: record(5, leaf(5))} if draw(st.booleans()) else {})


def fresh(*servers: int) -> dict[int, StatusRecord]:
    return {server: record(server, leaf(server)) for server in servers}


def hashes(records: Mapping[int, StatusRecord]) -> list[int]:
    return [int.from_bytes(each.hash) for each in choose(records, records).leaves]


@given(farms(), st.randoms(use_true_random=False), st.sets(st.integers(0, 9)))
def test_equal_knowledge_makes_equal_choices_in_whatever_order_it_came(
    records: dict[int, StatusRecord], chance: random.Random, more: set[int]
) -> None:
    servers = [*records, *more - records.keys()]
    shuffled, names = list(records.items()), list(servers)
    chance.shuffle(shuffled)
    chance.shuffle(names)
    one, other = choose(records, servers), choose(dict(shuffled), names)
    assert one == other
    assert dict(one.why_not) == dict(other.why_not)


@given(farms())
def test_what_is_chosen_can_be_published(records: dict[int, StatusRecord]) -> None:
    choice = choose(records, records)
    assert len(choice.leaves) <= MAX_LEAVES
    assert len({each.hash for each in choice.leaves}) == len(choice.leaves)
    assert all(each.up for each in choice.leaves)
    offered = {each.hash for found in records.values() if found.router_up for each in found.leaves if each.up}
    assert {each.hash for each in choice.leaves} <= offered
    now = farm_time_ms(records, records)
    assert set(choice.why_not) == records.keys() - {choice.publisher}
    if choice.publisher is not None:
        chosen = records[choice.publisher]
        assert now is not None
        assert chosen.meta is not None
        assert chosen.router_up
        assert -AHEAD_MS <= now - chosen.date_ms <= FRESH_MS
        assert chosen.meta.publish_config in {"on", "auto"}


@given(st.integers(1, 4), st.data())
def test_a_minority_of_wrong_clocks_moves_neither_farm_time_nor_the_choice(wrong: int, data: st.DataObject) -> None:
    right = data.draw(st.integers(wrong + 1, 6))
    servers = list(range(1, right + wrong + 1))
    bad = set(data.draw(st.permutations(servers))[:wrong])
    good = {
        server: record(server, leaf(server), date=NOW - data.draw(st.integers(0, 10_000)))
        for server in servers
        if server not in bad
    }
    dates = [found.date_ms for found in good.values()]
    records = good | {server: record(server, leaf(server), date=data.draw(st.integers(0, 2**53 - 1))) for server in bad}
    now = farm_time_ms(records, servers)
    assert now is not None
    assert min(dates) <= now <= max(dates)
    choice = choose(records, servers)
    assert {leaf(server).hash for server in good} <= {each.hash for each in choice.leaves}
    assert choice.publisher is not None
    assert choice.publisher <= min(good)


def test_who_has_not_posted_does_not_slow_farm_time() -> None:
    assert farm_time_ms({}, [1, 2, 3]) is None
    assert farm_time_ms(fresh(2), [1, 2, 3]) == NOW
    assert farm_time_ms({1: record(1, date=NOW - 10**6), 2: record(2)}, [1, 2, 3]) == NOW


def test_a_stranger_in_the_records_counts_for_nothing() -> None:
    records = fresh(1, 2) | {3: record(3, leaf(3), date=NOW + 10**9), 0: record(0, leaf(9))}
    assert choose(records, [1, 2]) == choose(fresh(1, 2), [1, 2])


def test_the_lowest_id_of_those_that_can_publishes_and_the_others_are_told_why_not() -> None:
    records = {
        1: record(1, date=NOW - FRESH_MS - 1),
        2: record(2, up=False),
        3: record(3, publish="off"),
        4: record(4, publish=None),
        5: record(5, date=NOW + AHEAD_MS + 1),
        6: record(6, publish="on"),
        7: record(7),
        8: record(8, publish="sometimes"),
    }
    choice = choose(records, range(10))
    assert choice.publisher == 6
    assert choice.why_not == {
        0: "it has posted nothing yet",
        1: "its newest record is 35 s old",
        2: "its router is down",
        3: "publishing is off there",
        4: "publishing is off there",
        5: "its clock is 60 s ahead of the farm's",
        7: "server 6 is as good, and its id is lower",
        8: "publishing is off there",
        9: "it has posted nothing yet",
    }


@pytest.mark.parametrize(
    ("age", "alive"), [(FRESH_MS, True), (FRESH_MS + 1, False), (-AHEAD_MS, True), (-AHEAD_MS - 1, False)]
)
def test_fresh_to_the_millisecond(age: int, *, alive: bool) -> None:
    records = {1: record(1, leaf(1), date=NOW - age), 2: record(2, leaf(2)), 3: record(3, leaf(3))}
    assert choose(records, records).publisher == (1 if alive else 2)
    assert hashes(records) == ([1, 2, 3] if alive else [2, 3])


def test_a_server_whose_clock_ran_ahead_is_not_fresh_for_ever_after_its_death() -> None:
    records = fresh(2, 3) | {1: record(1, leaf(1), date=NOW + 600_000)}
    assert choose(records, records).publisher == 2


def test_leaves_come_from_all_that_are_alive_also_where_publishing_is_off() -> None:
    records = fresh(1, 2) | {3: record(3, leaf(3), publish="off"), 4: record(4, leaf(4), publish=None)}
    assert hashes(records) == [1, 2, 3, 4]
    assert hashes(records | {2: record(2, leaf(2), up=False), 3: record(3, leaf(3, up=False))}) == [1, 4]


def test_no_leaf_stands_twice_and_one_server_that_finds_it_up_is_enough() -> None:
    records = {1: record(1, leaf(7, up=False)), 2: record(2, leaf(7), leaf(7)), 3: record(3, leaf(7), leaf(8))}
    assert hashes(records) == [7, 8]


def test_the_master_is_no_leaf_of_its_own() -> None:
    """The set could not be built, and so nothing would be published while anybody names it."""
    records = fresh(1, 2) | {3: record(3, Leaf(MASTER.hash, up=True), leaf(3))}
    assert hashes(records) == [1, 2, 3]


def test_a_server_with_256_leaves_leaves_room_for_those_of_the_others() -> None:
    records = fresh(2, 3) | {1: record(1, *(leaf(number) for number in range(1000, 1256)))}
    found = hashes(records)
    assert len(found) == MAX_LEAVES
    assert {2, 3} <= set(found)
    assert found == [1000, 2, 3, *range(1001, 1014)]


def test_nobody_is_chosen_where_nobody_can() -> None:
    assert choose({}, []).publisher is None
    assert choose({}, [1]) == choose({2: record(2)}, [1])
    assert choose({1: record(1, leaf(1), publish="off")}, [1]).publisher is None
