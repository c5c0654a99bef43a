"""Farm time, and wrong clocks."""

import random
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gf_i2p.farm.farm_time import FarmClock, farm_time_ms
from tests.farm.fed_farm import INTERVAL, Farm
from tests.farm.strategies import NOW
from tests.tier import examples

STEP = 105_000 // 2
TEN_MINUTES = 600_000


def looked(*times: int) -> FarmClock:
    clock = FarmClock()
    for time in times:
        clock.update([time], fresh_ms=105_000, ahead_ms=60_000)
    return clock


def test_the_upper_median() -> None:
    assert farm_time_ms([]) is None
    assert farm_time_ms([5]) == 5
    assert farm_time_ms([9, 5]) == 9
    assert farm_time_ms([1, 9, 5]) == 5


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=9), st.data())
def test_it_lies_between_the_right_ones_when_those_are_most(right: list[int], data: st.DataObject) -> None:
    wrong = data.draw(st.lists(st.integers(-(10**9), 10**9), max_size=len(right) - 1))
    median = farm_time_ms([*right, *wrong])
    assert median is not None
    assert min(right) <= median <= max(right)


@given(st.lists(st.integers(0, 10**15), max_size=50))
def test_the_stopwatch_only_goes_forward_and_never_far_at_once(times: list[int]) -> None:
    passed = [looked(*times[:length]).passed_ms for length in range(len(times) + 1)]
    assert all(0 <= later - earlier <= STEP for earlier, later in pairwise(passed))


def test_it_measures_what_passes_and_not_what_goes_to_and_fro() -> None:
    assert looked(NOW, NOW + 20_000, NOW + 40_000).passed_ms == 40_000
    assert looked(NOW, NOW + 20_000, NOW, NOW + 20_000, NOW).passed_ms == 20_000


def test_after_a_clock_that_was_far_ahead_it_goes_on() -> None:
    year = 365 * 86_400_000
    clock = looked(NOW + year, NOW, NOW + 10_000)
    assert (clock.now_ms, clock.passed_ms) == (NOW + 10_000, 10_000)


def test_a_long_silence_of_all_counts_for_a_short_one() -> None:
    assert looked(NOW, NOW + 86_400_000).passed_ms == STEP


# Wrong clocks in a farm ----------------------------------------------------------------------------------------------


@settings(max_examples=examples(20), deadline=None)
@given(
    st.sampled_from([3, 5, 7]),
    st.sampled_from(["ahead", "behind", "each its own", "jumps", "drifts"]),
    st.integers(0, 2**32 - 1),
)
def test_a_minority_with_clocks_that_are_ten_minutes_wrong_unseats_no_good_publisher(
    size: int, pattern: str, seed: int
) -> None:
    chance = random.Random(seed)
    farm = Farm(*range(1, size + 1))
    farm.lasts(300_000)
    wrong = set(chance.sample(range(2, size + 1), (size - 1) // 2))
    start = farm.now

    def error(server: int) -> int:
        match pattern:
            case "ahead":
                return TEN_MINUTES
            case "behind":
                return -TEN_MINUTES
            case "each its own":
                return TEN_MINUTES if server % 2 else -TEN_MINUTES
            case "jumps":
                return chance.choice([-TEN_MINUTES, -90_000, 0, 50_000, TEN_MINUTES])
        return (farm.now - start) // 3

    def check() -> None:
        farm.skew = {server: error(server) for server in wrong}
        assert farm.publisher == 1
        assert farm.listed == set(farm.servers), "nor does it cost anybody the leaf"
        now = farm.state.now_ms
        assert now is not None
        assert farm.now - 2 * INTERVAL <= now <= farm.now

    farm.lasts(1_800_000, check)


@pytest.mark.parametrize("error", [-TEN_MINUTES, TEN_MINUTES])
def test_a_server_whose_own_clock_is_wrong_is_no_candidate_and_publishes_no_longer(error: int) -> None:
    farm = Farm()
    farm.lasts(300_000)
    farm.skew = {1: error}
    farm.turn()
    assert farm.publisher == 2
    farm.skew = {}
    farm.lasts(300_000)
    assert farm.publisher == 2


def test_a_server_whose_clock_ran_ahead_is_not_fresh_for_longer_after_its_death() -> None:
    farm = Farm()
    farm.skew = {1: 25_000}
    farm.lasts(300_000)
    assert farm.publisher == 1
    farm.dead = {1}
    farm.lasts(105_000 + INTERVAL)
    assert farm.publisher == 2


def test_the_first_to_post_may_be_a_year_ahead() -> None:
    farm = Farm()
    farm.skew = {3: 365 * 86_400_000}
    farm.says(3)
    farm.says(1)
    farm.says(2)
    assert farm.state.now_ms == farm.now
    farm.lasts(300_000)
    assert farm.publisher == 1
    assert farm.listed == {1, 2, 3}
    assert "ahead of the farm's" in farm.state.choice.why_not[3]


def test_after_a_pause_of_the_whole_farm_no_publisher_changes_and_no_leaf_goes() -> None:
    farm = Farm()
    farm.lasts(300_000)
    assert farm.publisher == 1
    farm.now += 86_400_000
    farm.turn()
    farm.turn()
    assert farm.listed == {1, 2, 3}
    assert all(each.leaf_health[hash_].proven for _, each in farm.state.posters for hash_ in each.leaf_health), (
        "no leaf was down"
    )
