"""The measured values, and how long a value counts."""

from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gf_i2p.node.consensus.link_measurements import MOST_TRIPS, SLOTS, RoundTrips, RoundTripSummary, Silences

SECONDS = st.floats(min_value=0, max_value=100)


def taken(*seconds: float, memory: float = 1e9) -> RoundTrips:
    trips = RoundTrips(memory)
    for number, each in enumerate(seconds):
        trips.add(each, float(number))
    return trips


@given(st.lists(SECONDS, min_size=1, max_size=2 * MOST_TRIPS))
def test_percentiles_are_those_of_the_latest_round_trips(seconds: list[float]) -> None:
    kept = sorted(seconds[-MOST_TRIPS:])
    p50, p99 = (kept[ceil(share * len(kept)) - 1] for share in (0.5, 0.99))
    assert taken(*seconds).summary == RoundTripSummary(p50, p99, len(kept))


def test_one_slow_answer_in_a_hundred_is_not_the_rule() -> None:
    assert taken(9.0, *[1.0] * 98).p99 == 9.0
    assert taken(9.0, *[1.0] * 99).p99 == 1.0


def test_what_is_old_counts_no_more_but_the_newest_always() -> None:
    trips = RoundTrips(60.0)
    trips.add(5.0, 0.0)
    trips.add(1.0, 30.0)
    assert (trips.p99, len(trips)) == (5.0, 2)
    trips.add(2.0, 61.0)
    assert (trips.p99, len(trips)) == (2.0, 2)
    trips.add(3.0, 1000.0)
    assert (trips.p99, len(trips)) == (3.0, 1)


@given(st.lists(st.tuples(SECONDS, st.floats(min_value=0, max_value=30)), min_size=1, max_size=200))
def test_the_longest_silence_is_remembered_for_the_whole_time_and_no_longer(pairs: list[tuple[float, float]]) -> None:
    silences, now, seen = Silences(600.0), 0.0, []
    for seconds, pause in pairs:
        now += pause
        silences.add(seconds, now)
        seen.append((now, seconds))
    slot = 600.0 / SLOTS
    assert silences.worst >= max(seconds for at, seconds in seen if at > now - 600 + slot)
    assert silences.worst <= max(seconds for at, seconds in seen if at > now - 600 - slot)
    assert silences.usual <= silences.worst
    assert 1 <= silences.count <= len(seen)


def test_a_second_of_heavy_traffic_does_not_hide_the_silences_of_all_others() -> None:
    silences = Silences(60.0)
    for second in range(30):
        silences.add(0.5, second + 0.5)
    for each in range(10_000):
        silences.add(0.0001, 30 + each * 0.0001)
    assert (silences.usual, silences.worst) == (0.5, 0.5)


def test_a_single_stall_is_the_worst_and_not_usual() -> None:
    silences = Silences(60.0)
    for second in range(30):
        silences.add(6.0 if second == 7 else 0.5, second + 0.5)
    assert (silences.usual, silences.worst) == (0.5, 6.0)


def test_it_says_when_something_has_changed() -> None:
    silences = Silences(60.0)
    assert silences.add(1.0, 0.1)
    assert not silences.add(0.5, 0.2)
    assert not silences.add(1.0, 0.3)
    assert silences.add(2.0, 0.4)
    assert silences.add(0.5, 1.1), "a new slot"
    assert silences.count == 5


def test_what_is_kept_is_bounded() -> None:
    trips, silences = RoundTrips(1e9), Silences(60.0)
    for number in range(10 * MOST_TRIPS):
        trips.add(number / 7 % 1, number / 3)
        silences.add(number / 7 % 1, number / 3)
    assert len(trips) == len(trips._sorted) == MOST_TRIPS
    assert len(silences._slots) <= SLOTS


@pytest.mark.parametrize("samples", [1, 2, 99, 100, 101, 199, 200, 256])
def test_the_99th_percentile_is_the_nearest_rank(samples: int) -> None:
    assert taken(*map(float, range(1, samples + 1))).p99 == ceil(samples * 99 / 100)
