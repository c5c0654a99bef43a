"""Intervals of gains, on made-up days whose true gain is known."""

import numpy as np
import pytest

from gf_i2p.pipeline.backtest.drawn_days import CONFIDENCE, DrawnDays
from gf_i2p.pipeline.backtest.gain import Gain
from gf_i2p.pipeline.days import DAY_MS


def test_a_gain_is_a_share_and_seconds_a_day() -> None:
    days = DrawnDays([DAY_MS] * 3 + [DAY_MS / 2] * 2)
    gain = days.gain(np.array([50.0] * 5), np.array([100.0] * 5))
    assert (gain.share, gain.low, gain.high) == pytest.approx((0.5, 0.5, 0.5))
    assert gain.seconds == pytest.approx(250 / 4)
    assert gain.is_above_noise
    assert str(gain) == "50.0% (50.0% to 50.0%)"


def test_equal_costs_are_no_gain_and_free_days_have_no_share() -> None:
    days = DrawnDays([DAY_MS] * 5)
    same = np.array([1.0, 2.0, 3.0, 4.0, 0.0])
    assert days.gain(same, same) == Gain(0.0, 0.0, 0.0, 0.0)
    assert not days.gain(same, same).is_above_noise
    assert days.gain(same, np.zeros(5)) == Gain(0.0, 0.0, 0.0, -2.0)
    rare = days.gain(np.zeros(5), np.array([0.0, 0.0, 0.0, 0.0, 9.0]))
    assert rare.share == 1
    assert not rare.is_above_noise, "one costly day of five may be chance"


def test_one_lucky_day_is_noise() -> None:
    live = np.array([100.0] * 9 + [900.0])
    gain = DrawnDays([DAY_MS] * 10).gain(np.array([104.0] * 9 + [100.0]), live)
    assert gain.share > 0.4
    assert not gain.is_above_noise


def test_the_same_days_have_the_same_interval() -> None:
    chance = np.random.default_rng(3)
    one, other = chance.exponential(50, 12), chance.exponential(100, 12)
    assert DrawnDays([DAY_MS] * 12).gain(one, other) == DrawnDays([DAY_MS] * 12).gain(one, other)


@pytest.mark.parametrize("count", [5, 12])
def test_intervals_hold_the_true_gain_about_as_often_as_they_say(count: int) -> None:
    chance = np.random.default_rng(7)
    days, held, tries = DrawnDays([DAY_MS] * count), 0, 400
    for _ in range(tries):
        live = chance.gamma(4, 50, count)
        gain = days.gain(live * chance.normal(0.8, 0.2, count), live)
        held += gain.low <= 0.2 <= gain.high
    assert CONFIDENCE - (0.15 if count == 5 else 0.07) < held / tries <= 1
