import itertools

import pytest

from gf_i2p.transport.backoff import Backoff


def test_the_limit_doubles_from_the_floor_to_the_ceiling() -> None:
    most = Backoff(floor=0.05, ceiling=1.0, random=lambda: 1.0)
    assert [most.next() for _ in range(6)] == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.0, 1.0])
    least = Backoff(floor=0.05, ceiling=1.0, random=lambda: 0.0)
    assert {least.next() for _ in range(6)} == {0.05}


def test_jitter_spreads_the_delays() -> None:
    draws = itertools.cycle([0.0, 0.25, 0.5, 0.75])
    backoff = Backoff(floor=0.1, ceiling=0.2, random=lambda: next(draws))
    assert [backoff.next() for _ in range(4)] == pytest.approx([0.1, 0.125, 0.15, 0.175])


def test_it_begins_again_after_a_reset() -> None:
    backoff = Backoff(floor=0.05, ceiling=10.0, random=lambda: 1.0)
    first = backoff.next()
    for _ in range(5):
        backoff.next()
    backoff.reset()
    assert backoff.next() == first


def test_the_ceiling_can_be_changed_and_the_delays_go_on_from_where_they_are() -> None:
    backoff = Backoff(floor=1.0, ceiling=100.0, random=lambda: 1.0)
    assert [backoff.next() for _ in range(4)] == [2.0, 4.0, 8.0, 16.0]
    backoff.ceiling = 20.0
    assert backoff.next() == 20.0
    backoff.ceiling = 10.0
    assert backoff.next() == 10.0
    backoff.ceiling = 100.0
    assert backoff.next() == 20.0


@pytest.mark.parametrize(("floor", "ceiling"), [(0.0, 1.0), (-1.0, 1.0), (2.0, 1.0)])
def test_limits_that_make_no_sense_are_refused(floor: float, ceiling: float) -> None:
    with pytest.raises(ValueError, match="0 < floor"):
        Backoff(floor=floor, ceiling=ceiling)


def test_the_growth_can_be_gentle() -> None:
    backoff = Backoff(floor=0.02, ceiling=0.06, growth=1.5, random=lambda: 1.0)
    assert [backoff.next() for _ in range(4)] == pytest.approx([0.04, 0.06, 0.06, 0.06])
