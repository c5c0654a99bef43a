"""The versions of a published set rise, whoever publishes."""

import pytest

from gf_i2p.farm.set_versions import MAX_AHEAD_MS, next_version
from tests.farm.fed_farm import Farm
from tests.farm.strategies import NOW, record


def test_the_first_is_the_time() -> None:
    assert next_version(Farm().state, NOW + 999) == NOW // 1000


@pytest.mark.parametrize("announced", [NOW, NOW + 999, NOW - 1, NOW + 20_000])
def test_it_is_later_than_all_that_was_announced(announced: int) -> None:
    farm = Farm()
    farm.turn()
    farm.post(record(2, published=announced))
    version = next_version(farm.state, NOW)
    assert version * 1000 > announced
    assert version == max(NOW // 1000, announced // 1000 + 1)


def test_what_the_publisher_is_ahead_counts_and_what_another_one_is_does_not() -> None:
    farm = Farm()
    farm.turn()
    ahead = farm.now + MAX_AHEAD_MS + 15_000
    for server in (1, 3):
        farm.post(record(server, date=farm.now, published=ahead + server * 1000))
    assert farm.publisher == 1
    assert farm.state.last_published_ms == ahead + 1000
    assert next_version(farm.state, farm.now) == ahead // 1000 + 2
    farm.admin("move", server=2)
    assert next_version(farm.state, farm.now) == ahead // 1000 + 2, "its set is in the netDb"


def test_nor_what_no_router_would_have_taken() -> None:
    farm = Farm()
    farm.turn()
    farm.post(record(1, date=farm.now, published=farm.now + 10**9))
    assert next_version(farm.state, farm.now) == farm.now // 1000


def test_each_is_later_than_the_one_before_through_changes_of_publisher() -> None:
    farm = Farm()
    farm.turn()
    versions = []
    for number in range(40):
        farm.admin("move", server=1 + number % 3)
        publisher = farm.publisher
        assert publisher is not None
        clock = farm.now + (0, 20_000, -20_000)[publisher - 1]
        versions.append(next_version(farm.state, clock))
        farm.post(record(publisher, date=clock, published=versions[-1] * 1000))
        farm.now += 1500
    assert versions == sorted(set(versions))
