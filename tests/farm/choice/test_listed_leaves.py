"""The listed leaves, and their cost."""

import pytest

from gf_i2p.farm.choice.cost import LOAD, UNKNOWN_LOAD
from gf_i2p.farm.choice.listed_leaves import BURST
from gf_i2p.farm.parameters import Parameters
from gf_i2p.farm.record.remote_sensing import RemoteDestination
from gf_i2p.farm.record.status_record import Leaf
from gf_i2p.netdb.limits import MAX_META_ENTRIES
from tests.farm.fed_farm import INTERVAL, Farm
from tests.farm.strategies import MASTER, leaf

P = Parameters()


def many(first: int, count: int) -> list[Leaf]:
    return [leaf(number) for number in range(first, first + count)]


def loaded(number: int, connections: int) -> Leaf:
    """Nothing else is known of the leaf, so as many connections are as many points."""
    return Leaf(leaf(number).hash, up=True, current_connections=connections, configured_connections=LOAD)


def test_leaves_come_from_all_that_are_alive_also_where_publishing_is_off() -> None:
    farm = Farm(1, 2, 3, 4)
    farm.reports[3], farm.reports[4] = {"publish": "off"}, {"publish": None}
    farm.lasts(60_000)
    assert farm.listed == {1, 2, 3, 4}


def test_a_farm_that_starts_is_listed_as_its_servers_come() -> None:
    farm = Farm(*range(1, 9))
    farm.turn()
    assert farm.listed == set(range(1, BURST + 1))
    farm.lasts(P.republish_min_ms + INTERVAL)
    assert farm.listed == set(range(1, 9))


def test_no_leaf_stands_twice_and_one_server_that_finds_it_up_is_enough() -> None:
    farm = Farm()
    farm.reports = {
        1: {"leaves": [leaf(7, up=False)]},
        2: {"leaves": [leaf(7, up=False), leaf(7)]},
        3: {"leaves": [leaf(7), leaf(8)]},
    }
    farm.lasts(120_000)
    assert [each.hash[-1] for each in farm.state.choice.entries] == [7, 8]
    assert [each.owner for each in farm.state.choice.entries] == [2, 3]
    farm.dead = {2}
    farm.lasts(300_000)
    assert [each.owner for each in farm.state.choice.entries] == [3, 3]


def test_the_master_is_no_leaf_of_its_own_nor_is_one_that_leads_back_to_it() -> None:
    """The set could not be built, so nothing would be published while anybody names the leaf."""
    farm = Farm()
    assert MASTER.hash is not None
    farm.reports[2] = {"leaves": [Leaf(MASTER.hash, up=True), leaf(2)]}
    farm.reports[3] = {
        "leaves": [Leaf(leaf(3).hash, up=True, type=7, below=(MASTER.hash,)), Leaf(leaf(4).hash, up=True, type=7)]
    }
    farm.lasts(120_000)
    assert {int.from_bytes(each.hash): each.type for each in farm.state.choice.entries} == {1: 3, 2: 3, 4: 7}
    assert farm.state.choice.left_out == {
        MASTER.hash: "it is the master itself",
        leaf(3).hash: "it is the master of a farm that leads back to this one's own master",
    }


def test_exclusion_acts_at_once() -> None:
    farm = Farm()
    farm.lasts(120_000)
    farm.admin("exclude", hash=leaf(2).hash, reason="it is slow")
    assert farm.listed == {1, 3}
    assert farm.state.choice.left_out == {leaf(2).hash: "admin-ann has excluded it: it is slow"}
    farm.admin("include", hash=leaf(2).hash)
    assert farm.listed == {1, 2, 3}


def test_what_a_removed_server_has_said_counts_no_more() -> None:
    farm = Farm()
    farm.lasts(120_000)
    farm.state.configure([1, 2])
    assert farm.listed == {1, 2}
    assert set(farm.state.posters.by_id) == {1, 2}


# Room ----------------------------------------------------------------------------------------------------------------


def test_a_server_with_256_leaves_leaves_room_for_those_of_the_others() -> None:
    farm = Farm()
    farm.reports[1] = {"leaves": many(1000, 256)}
    farm.lasts(120_000)
    assert len(farm.listed) == MAX_META_ENTRIES
    assert {2, 3} <= farm.listed
    assert len(farm.state.choice.left_out) == 256 - 14
    assert set(farm.state.choice.left_out.values()) == {"there is no room: 16 others are listed"}


def test_one_leaf_of_each_comes_before_a_second_of_anybody() -> None:
    farm = Farm()
    farm.reports[1] = {"leaves": many(1000, 20)}
    farm.lasts(300_000)
    assert {2, 3} <= farm.listed
    farm.members = many(100, 6)
    farm.lasts(120_000)
    assert {2, 3, *range(100, 106)} <= farm.listed
    assert len(farm.listed) == MAX_META_ENTRIES


def test_who_is_listed_stays_when_more_come() -> None:
    farm = Farm(*range(1, 17))
    farm.lasts(600_000)
    assert farm.listed == set(range(1, 17))
    farm.members = many(100, 40)
    farm.lasts(600_000)
    assert farm.listed == set(range(1, 17))
    farm.dead = {5}
    farm.lasts(200_000)
    assert len(farm.listed & set(range(1, 17))) == 15
    assert len(farm.listed) == MAX_META_ENTRIES, "one of the others has taken its place"


def test_a_leaf_that_costs_clearly_less_takes_a_place_but_not_at_once() -> None:
    farm = Farm(*range(1, 17))
    farm.reports = {server: {"leaves": [loaded(server, 80)]} for server in farm.servers}
    farm.lasts(600_000)

    def offer(connections: int, ms: int) -> None:
        farm.members = [loaded(100 + number, connections) for number in range(3)]
        farm.lasts(ms)

    offer(70, 1_800_000)
    assert farm.listed == set(range(1, 17))
    began = farm.now
    while farm.listed == set(range(1, 17)):
        offer(0, INTERVAL)
    assert len(farm.listed - set(range(1, 17))) == 1
    offer(0, P.hold_ms - 2 * INTERVAL)
    assert len(farm.listed - set(range(1, 17))) == 1
    offer(0, 3 * P.hold_ms)
    assert len(farm.listed - set(range(1, 17))) == 3
    assert farm.now - began >= 2 * P.hold_ms


# Cost ----------------------------------------------------------------------------------------------------------------


def costs(farm: Farm) -> dict[int, int]:
    return {int.from_bytes(each.hash): each.cost for each in farm.state.choice.entries}


def test_cost_follows_load_in_steps() -> None:
    farm = Farm()
    farm.reports[2], farm.reports[3] = {"leaves": [loaded(2, 48)]}, {"leaves": [loaded(3, 96)]}
    farm.lasts(120_000)
    assert costs(farm) == {1: UNKNOWN_LOAD, 2: 48, 3: 96}


@pytest.mark.parametrize("noise", [[48, 64, 32, 60], [50, 41, 55]])
def test_noise_does_not_change_the_set(noise: list[int]) -> None:
    farm = Farm()
    farm.reports[2] = {"leaves": [loaded(2, 48)]}
    farm.lasts(120_000)
    for number in range(100):
        farm.reports[2] = {"leaves": [loaded(2, noise[number % len(noise)])]}
        farm.turn()
        assert costs(farm)[2] == 48
    farm.reports[2] = {"leaves": [loaded(2, 90)]}
    farm.lasts(120_000)
    assert costs(farm)[2] == 96


def test_an_administrator_sets_a_cost() -> None:
    farm = Farm()
    farm.lasts(120_000)
    for cost in (0, 200):
        farm.admin("cost", hash=leaf(1).hash, cost=cost)
        assert costs(farm)[1] == cost
    farm.admin("cost", hash=leaf(1).hash, cost=None)
    assert costs(farm)[1] == UNKNOWN_LOAD


def test_a_leaf_that_others_do_not_reach_costs_more() -> None:
    farm = Farm()
    for server in (1, 3):
        farm.reports[server] = {"remote_destinations": (RemoteDestination(leaf(2).hash, reachable=False),)}
    farm.reports[2] = {"remote_destinations": (RemoteDestination(leaf(2).hash, reachable=True),)}
    farm.lasts(180_000)
    assert costs(farm) == {1: UNKNOWN_LOAD, 2: UNKNOWN_LOAD + 32, 3: UNKNOWN_LOAD}, (
        "its own server's word does not count"
    )


# Trees ---------------------------------------------------------------------------------------------------------------


def branches(farm: Farm) -> dict[int, set[bytes]]:
    return {branch.number: {each.hash for each in branch.entries} for branch in farm.state.choice.branches}


def test_more_leaves_than_one_set_has_room_for_make_a_tree_when_that_is_wanted() -> None:
    farm = Farm()
    farm.reports = {server: {"leaves": many(1000 * server, 100)} for server in farm.servers}
    farm.admin("set", parameters={"tree": "tree"})
    farm.lasts(180_000)
    choice = farm.state.choice
    assert choice.entries == ()
    assert [branch.number for branch in choice.branches] == list(range(16))
    assert {len(branch.entries) for branch in choice.branches} == {16}
    assert len(choice.left_out) == 300 - 256
    farm.admin("set", parameters={"tree": "best"})
    assert (len(farm.state.choice.entries), farm.state.choice.branches) == (16, ())


def test_what_goes_changes_one_branch() -> None:
    farm = Farm()
    farm.reports = {server: {"leaves": many(1000 * server, 20)} for server in farm.servers}
    farm.admin("set", parameters={"tree": "tree"})
    farm.lasts(180_000)
    before = branches(farm)
    assert [len(each) for each in before.values()] == [16, 16, 16, 12]
    gone = farm.state.choice.branches[1].entries[3].hash
    farm.admin("exclude", hash=gone)
    after = branches(farm)
    assert {number for number in before if before[number] != after[number]} == {1}
    assert after[1] == before[1] - {gone}


def test_few_leaves_need_no_branches() -> None:
    farm = Farm(1)
    farm.admin("set", parameters={"tree": "tree"})

    def count(number: int) -> tuple[int, int]:
        farm.reports[1] = {"leaves": many(100, number)}
        farm.lasts(240_000)
        return len(farm.state.choice.entries), len(farm.state.choice.branches)

    assert [count(number) for number in (16, 17, 13, 12, 16)] == [(16, 0), (0, 2), (0, 1), (12, 0), (16, 0)]
