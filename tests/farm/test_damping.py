"""A leaf that goes down and comes up again and again changes the published set only now and then."""

from typing import Any

import pytest

from gf_i2p.farm.damping import MAX_FLAPS, RESTLESS_FLAPS, Health, wait_ms
from gf_i2p.farm.parameters import Parameters
from gf_i2p.farm.record.remote_sensing import RemoteRouter
from gf_i2p.farm.record.status_record import StatusRecord
from tests.farm.fed_farm import INTERVAL, Farm
from tests.farm.strategies import leaf, record

P = Parameters()
HOUR = 3_600_000


def test_each_time_down_doubles_the_wait_up_to_a_limit() -> None:
    assert [wait_ms(flaps, P) for flaps in range(7)] == [
        60_000,
        120_000,
        240_000,
        480_000,
        960_000,
        1_800_000,
        1_800_000,
    ]
    health, now = Health(up=True, since_ms=0), 0
    assert health.waits_ms(now, P) == 0
    for flaps in range(1, MAX_FLAPS + 3):
        health.report(now := now + 1000, P, up=False)
        health.report(now := now + 1000, P, up=True)
        assert health.flaps == min(flaps, MAX_FLAPS)
        assert health.waits_ms(now, P) == wait_ms(health.flaps, P)


def test_a_time_of_quiet_takes_it_back() -> None:
    health = Health(up=True, since_ms=0, flaps=3, proven=False)
    assert [health.recent_flaps(now, P) for now in (479_999, 480_000, 719_999, 720_000, 840_000)] == [3, 2, 2, 1, 0]
    health.report(840_000, P, up=False)
    assert health.flaps == 1
    assert health.recent_flaps(10**9, P) == 1, "to be down is no quiet"


def test_saying_the_same_again_changes_nothing() -> None:
    health = Health(up=True, since_ms=5, flaps=1, proven=False)
    health.report(10**6, P, up=True)
    assert health == Health(up=True, since_ms=5, flaps=1, proven=False)


def test_what_is_kept_is_read() -> None:
    for health in (Health(up=False, since_ms=7, flaps=3, proven=False), Health(up=True, since_ms=0)):
        assert Health.parse(health.encode()) == health


# In a farm -----------------------------------------------------------------------------------------------------------


def started() -> Farm:
    farm = Farm()
    farm.lasts(300_000)
    assert farm.listed == {1, 2, 3}
    return farm


def changes(farm: Farm, ms: int, *, every: int, up_for: int) -> list[set[int]]:
    """Every `every` ms let server 3's leaf go down, then up for `up_for` ms; return the sets in order."""
    sets = [farm.listed]
    end, began = farm.now + ms, farm.now
    while farm.now < end:
        farm.now += 5000
        for server in farm.servers:
            up = server != 3 or (farm.now - began) % every >= every - up_for
            farm.reports[server] = {"leaves": [leaf(server, up=up)]}
            farm.says(server)
        if farm.listed != sets[-1]:
            sets.append(farm.listed)
    return sets


@pytest.mark.parametrize("every", [20_000, 40_000, 120_000, 240_000])
def test_a_leaf_that_flaps_for_an_hour_changes_the_set_a_few_times_at_most(every: int) -> None:
    sets = changes(started(), HOUR, every=every, up_for=every // 2)
    assert len(sets) <= 5
    assert all({1, 2} <= each for each in sets)


def test_one_that_flapped_comes_back_when_it_has_been_quiet_for_long_enough() -> None:
    farm = started()
    changes(farm, HOUR, every=40_000, up_for=20_000)
    assert farm.listed == {1, 2}
    health = farm.state.posters.by_id[3].leaf_health[leaf(3).hash]
    assert health.flaps >= RESTLESS_FLAPS
    farm.reports = {server: {} for server in farm.servers}
    farm.lasts(P.flap_ms - 60_000)
    assert farm.listed == {1, 2}
    farm.lasts(180_000)
    assert farm.listed == {1, 2, 3}


@pytest.mark.parametrize("doubt", [{"up": False}, {"leaves": []}])
def test_a_short_doubt_is_not_seen(doubt: dict[str, Any]) -> None:
    farm = started()
    farm.reports[3] = doubt
    farm.lasts(60_000)
    farm.reports[3] = {}
    farm.lasts(60_000)
    assert farm.listed == {1, 2, 3}


def test_a_leaf_that_its_server_reports_down_is_dropped_with_the_next_record() -> None:
    farm = started()
    farm.reports[3] = {"leaves": [leaf(3, up=False)]}
    farm.lasts(2 * INTERVAL)
    assert farm.listed == {1, 2}
    assert farm.state.choice.left_out == {leaf(3).hash: "3 says that it is down"}


def test_the_last_leaf_stays_for_as_long_as_one_in_doubt() -> None:
    farm = Farm(1)
    farm.lasts(60_000)
    assert farm.listed == {1}
    farm.reports[1] = {"leaves": [leaf(1, up=False)]}
    farm.lasts(P.unheard_ms - INTERVAL)
    assert farm.listed == {1}, "a set that leads to a leaf which is down is better than no set"
    farm.lasts(2 * INTERVAL)
    assert farm.listed == set()


def test_after_an_outage_it_must_be_up_for_a_while() -> None:
    farm = started()
    farm.reports[3] = {"leaves": [leaf(3, up=False)]}
    farm.lasts(180_000)
    farm.reports[3] = {}
    farm.turn()
    assert farm.listed == {1, 2}
    assert "it must be up for" in farm.state.choice.left_out[leaf(3).hash]
    farm.lasts(wait_ms(1, P) + 60_000)
    assert farm.listed == {1, 2, 3}


@pytest.mark.parametrize("how", ["its server dies", "its router goes down", "it is named no more"])
def test_it_goes_out_however_it_has_gone(how: str) -> None:
    farm = started()
    match how:
        case "its server dies":
            farm.dead = {3}
        case "its router goes down":
            farm.reports[3] = {"up": False}
        case _:
            farm.reports[3] = {"leaves": []}
    farm.lasts(60_000)
    assert farm.listed == {1, 2, 3}
    farm.lasts(120_000)
    assert farm.listed == {1, 2}


def test_that_of_a_server_that_another_one_does_not_hear_goes_sooner_unless_that_posts() -> None:
    farm = started()
    farm.admin("set", parameters={"freshMs": 600_000, "republishMinMs": 450_000})
    farm.dead = {3}
    farm.post(accusing(farm, 1, 3, reachable=False))
    farm.reports[1] = {"remote_routers": (RemoteRouter(3, reachable=False),)}
    farm.lasts(P.unheard_ms - INTERVAL)
    assert farm.listed == {1, 2, 3}
    farm.lasts(2 * INTERVAL)
    assert farm.listed == {1, 2}
    farm = started()
    farm.post(accusing(farm, 1, 3, reachable=False))
    farm.lasts(HOUR)
    assert farm.listed == {1, 2, 3}


def accusing(farm: Farm, server: int, other: int, *, reachable: bool) -> StatusRecord:
    return record(server, leaf(server), date=farm.now, remote_routers=(RemoteRouter(other, reachable),))


def test_better_one_that_comes_and_goes_than_none() -> None:
    farm = Farm(1)
    sets = []
    for number in range(200):
        farm.reports[1] = {"leaves": [leaf(1, up=number % 3 != 0)]}
        farm.turn()
        sets.append(farm.listed)
    assert sets[1:] == [{1}] * 199
    farm.reports[1] = {"leaves": [leaf(1, up=False)]}
    farm.lasts(300_000)
    assert farm.listed == set()
    farm.reports[1] = {}
    farm.turn()
    assert farm.listed == {1}


def test_silence_counts_as_having_been_down() -> None:
    farm = started()
    farm.dead = {3}
    farm.lasts(300_000)
    farm.dead = set()
    farm.turn()
    assert farm.listed == {1, 2}
    assert farm.state.posters.by_id[3].leaf_health[leaf(3).hash].flaps == 1
    farm.lasts(wait_ms(1, P) + 90_000)
    assert farm.listed == {1, 2, 3}


def test_a_leaf_whose_server_nobody_hears_is_not_listed_anew() -> None:
    farm = Farm()
    farm.says(3)
    assert farm.listed == {3}
    farm.post(accusing(farm, 1, 3, reachable=False))
    farm.admin("exclude", hash=leaf(3).hash)
    farm.admin("include", hash=leaf(3).hash)
    assert farm.listed == {1}
    assert farm.state.choice.left_out == {leaf(3).hash: "a server no longer hears 3"}
    farm.says(3)
    farm.lasts(90_000)
    assert farm.listed == {1, 2, 3}
