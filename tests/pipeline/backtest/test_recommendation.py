"""The recommendation: above the noise, on days that did not choose it, with as few changes as possible."""

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import pytest

from gf_i2p.farm.parameters import Parameters
from gf_i2p.pipeline.backtest.recommendation import LEAST_DAYS, Advice, Tried, advise
from gf_i2p.pipeline.days import DAY_MS

IN_FORCE = Parameters().all()


def tried(costs: Sequence[float], **parameters: Any) -> Tried:
    days = [f"2026-01-{day:02}" for day in range(1, len(costs) + 1)]
    return Tried(parameters, dict(zip(days, costs, strict=True)), dict.fromkeys(days, DAY_MS))


def noisy(mean: float, spread: float, count: int = 20, seed: int = 1) -> list[float]:
    chance = Random(seed)
    return [max(mean + chance.gauss(0, spread), 0.0) for _ in range(count)]


LIVE = noisy(1000, 100)


def like_live(factor: float, spread: float = 5, seed: int = 2) -> list[float]:
    return [cost * factor + noise for cost, noise in zip(LIVE, noisy(50, spread, len(LIVE), seed), strict=True)]


def said(advice: Advice) -> str:
    return " ".join([advice.why, *advice.hints])


def test_a_clear_gain_is_recommended_with_the_gain_on_the_days_that_did_not_choose_it() -> None:
    costs = [*like_live(0.5)[:12], *like_live(0.7)[12:]]
    advice = advise([tried(LIVE), tried(costs, freshMs=60_000), tried(like_live(0.9), freshMs=75_000)], IN_FORCE)
    assert advice.best is not None
    assert advice.best.parameters == {"freshMs": 60_000}
    gain = advice.gains[1]
    assert gain is not None
    assert gain.share == pytest.approx(0.25, abs=0.01)
    assert f"freshMs=60000 saves {gain} of the cost" in advice.why
    assert "on the last 8 days. The first 12 days chose the set, and promised 45." in advice.why
    assert advice.gains[0] is None


def test_a_gain_that_the_other_days_do_not_have_is_not_recommended() -> None:
    costs = [*like_live(0.5)[:12], *like_live(1.0)[12:]]
    advice = advise([tried(LIVE), tried(costs, margin=70)], IN_FORCE)
    assert advice.best is None
    assert "by the first 12 days margin=70 is better, but on the last 8" in advice.why
    assert advice.gains[1] is not None


@pytest.mark.parametrize(
    ("costs", "why"),
    [
        (LIVE, "no set that was tried costs less"),
        (like_live(1.0), "no set that was tried costs less"),
        (like_live(0.91), "5% is the least"),
        ([LIVE[0] * 0.1, *(cost + 5 for cost in LIVE[1:])], "which may be chance"),
    ],
)
def test_ties_noise_and_little_gains_are_not_recommended(costs: Sequence[float], why: str) -> None:
    advice = advise([tried(LIVE), tried(costs, holdMs=3_600_000)], IN_FORCE)
    assert advice.best is None
    assert why in advice.why


def test_a_calm_farm_gets_no_recommendation_for_a_second_a_day() -> None:
    advice = advise([tried([9.0] * 20), tried([1.0] * 20, margin=70)], IN_FORCE)
    assert advice.best is None
    assert "10 s is the least" in advice.why


def test_with_too_few_days_nothing_is_recommended() -> None:
    few = LEAST_DAYS - 1
    sets = [tried(LIVE[:few]), tried(like_live(0.1)[:few], margin=70)]
    advice = advise(sets, IN_FORCE)
    assert (advice.best, advice.gains) == (None, [None, None])
    assert "9 days are too few, 10 with six measured hours are the least" in advice.why
    short = dict.fromkeys(sets[0].farm_ms, DAY_MS // 10)
    advice = advise([Tried(each.parameters, each.costs, short) for each in sets], IN_FORCE)
    assert "0 days are too few" in advice.why
    assert advise([tried(LIVE[:10]), tried(like_live(0.1)[:10], margin=70)], IN_FORCE).best is not None


def test_of_sets_within_noise_the_one_with_the_fewest_changes() -> None:
    both, one = like_live(0.50, 30, 3), like_live(0.505, 30, 4)
    advice = advise([tried(LIVE), tried(both, freshMs=60_000, margin=150), tried(one, freshMs=60_000)], IN_FORCE)
    assert advice.best is not None
    assert advice.best.parameters == {"freshMs": 60_000}


def test_a_sure_gain_is_recommended_where_the_best_set_may_be_better_by_chance_only() -> None:
    sure, lucky = like_live(0.7), [LIVE[0] * 0.1, *like_live(1.0)[1:3], *[cost * 0.1 for cost in LIVE[3:5]], *LIVE[5:]]
    sets = [tried([9000, *LIVE[1:]]), tried([8000, *sure[1:]], margin=150), tried([10, *lucky[1:]], freshMs=60_000)]
    advice = advise(sets, IN_FORCE)
    assert advice.best is sets[1], advice.why


def test_a_parameter_that_adds_little_by_itself_is_dropped() -> None:
    sets = [
        tried(LIVE),
        tried(like_live(0.50, 0), freshMs=60_000, margin=150),
        tried(like_live(0.54, 0), freshMs=60_000),
    ]
    advice = advise([*sets, tried(like_live(0.96, 0), margin=150)], IN_FORCE)
    assert advice.best is not None
    assert advice.best.parameters == {"freshMs": 60_000}, "the margin is surely better, by 4 % only"
    sets[2] = tried(like_live(0.60, 0), freshMs=60_000)
    advice = advise([*sets, tried(like_live(0.96, 0), margin=150)], IN_FORCE)
    assert advice.best is not None
    assert advice.best.parameters == {"freshMs": 60_000, "margin": 150}


def test_parameters_that_save_little_each_are_all_dropped() -> None:
    sets = [tried(like_live(0.89, 0), freshMs=60_000, margin=150), tried(like_live(0.91, 0), freshMs=60_000)]
    advice = advise([tried(LIVE), *sets, tried(like_live(0.99, 0), margin=150)], IN_FORCE)
    assert advice.best is None
    words = "comes down to freshMs=60000 when each parameter must save 5%, and that is not worth a change: on the first"
    assert words in advice.why


def test_of_equal_sets_the_one_nearest_to_the_farm_in_any_order() -> None:
    cheap = like_live(0.5)
    sets = [tried(cheap, freshMs=value) for value in (35_000, 75_000, 600_000)]
    for order in (sets, sets[::-1]):
        advice = advise([tried(LIVE), *order], IN_FORCE)
        assert advice.best is not None
        assert advice.best.parameters == {"freshMs": 75_000}


def test_values_that_the_farm_has_by_now_are_no_change() -> None:
    """An administrator has set the margin in the middle of the log."""
    now = IN_FORCE | {"margin": 150}
    sets = [tried(LIVE), tried(like_live(0.5), margin=150)]
    assert "has had the best set since it was last changed" in advise(sets, now).why
    both = tried(like_live(0.3), margin=150, freshMs=60_000)
    advice = advise([*sets, both], now)
    assert advice.best is both
    assert "freshMs=60000 saves 3" in advice.why, "of what it costs now"
    other = tried(like_live(0.48), margin=150, freshMs=60_000)
    assert advise([*sets, other], now).best is None


def test_no_set_is_recommended_that_the_farm_would_refuse() -> None:
    now = IN_FORCE | {"republishMaxMs": 100_000}
    assert advise([tried(LIVE), tried(like_live(0.1), republishMinMs=200_000)], now).best is None


@pytest.mark.parametrize(
    ("values", "best", "hint"),
    [
        ((60_000, 75_000), 60_000, "freshMs=60000 is the least value that was tried"),
        ((200_000, 300_000), 300_000, "freshMs=300000 is the greatest value that was tried"),
        ((60_000, 75_000, 200_000), 75_000, ""),
        ((35_000, 75_000), 35_000, ""),
    ],
)
def test_a_best_value_at_the_edge_of_the_grid_is_told(values: Sequence[int], best: int, hint: str) -> None:
    sets = [tried(like_live(0.5 if value == best else 0.8), freshMs=value) for value in values]
    advice = advise([tried(LIVE), *sets], IN_FORCE)
    assert advice.best is not None
    assert advice.best.parameters == {"freshMs": best}
    assert hint in said(advice)
    assert bool(advice.hints) == bool(hint)


def test_words_and_numbers_change_together() -> None:
    sets = [tried(LIVE), tried(like_live(0.5), tree="tree"), tried(like_live(0.2), tree="tree", maxEntries=4)]
    advice = advise(sets, IN_FORCE)
    assert advice.best is sets[2]
    assert advice.hints == ("maxEntries=4 is the least value that was tried: a lesser value may be better, try some.",)


@pytest.mark.parametrize("make", [lambda: noisy(1000, 300, 20, 5), lambda: LIVE])
def test_sets_that_differ_by_chance_only_are_seldom_recommended(make: Callable[[], list[float]]) -> None:
    live, wrong = make(), 0
    for seed in range(40):
        sets = [tried(live)]
        for place in range(1, 20):
            chance = Random(seed * 100 + place)
            sets.append(tried([cost * chance.lognormvariate(0, 0.3) for cost in live], margin=50 + place))
        wrong += advise(sets, IN_FORCE).best is not None
    assert wrong <= 2
