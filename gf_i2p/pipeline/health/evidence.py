"""Judges hourly values against their own past: usual values, spreads, and evidence that adds up from hour to hour.

The usual value of an hour is the median of the same hour and of the hours beside it, on the seven days before. Once
there are four weeks, an hour is also compared with the same weekday of these weeks, and the nearer usual value counts.
The spread comes from the distances of the past seven days: the larger one of the median distance and of the distance
that one hour in ten exceeds, each scaled to the standard deviation of normal noise. So heavy tails make a wide spread.

An hour adds its distance in spreads, less `leak`, to the evidence of its side, and evidence is never below 0. Evidence
that reaches `alarm` is an episode. So one very odd hour, some odd hours and many slightly odd hours are all found. Odd
hours do not count as past, until an episode has lasted `NEW_USUAL_HOURS`: then the new level becomes the usual one.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from gf_i2p.pipeline.health.measures import Measure

Numbers: TypeAlias = NDArray[np.float64]

DAY: Final = 24
PAST_DAYS: Final = 7
WEEKS: Final = 4
LEAST_HOURS: Final = 24
"""Least number of past hours; with fewer, an hour is not judged."""
LEAST_SAMPLES: Final = 6
"""Least number of past hours near the same time of day; with fewer, all hours of the past seven days count."""
NEW_USUAL_HOURS: Final = 120
JOINED_HOURS: Final = 12
"""Most hours between two odd hours of one episode."""
_BESIDE: Final = np.array([-1, 0, 1])
"""The hours beside an hour that are compared with the hour, too."""
_NORMAL_MEDIAN: Final = 1.4826
"""The standard deviation of normal noise, divided by the median distance from 0."""
_NORMAL_TENTH: Final = 1 / 1.6449
"""The standard deviation of normal noise, divided by the distance that one value in ten exceeds."""


@dataclass(frozen=True, slots=True)
class OddHours:
    """An episode of one series of hourly values."""

    series: int
    sign: int
    """1: the values were too high; -1: too low."""
    hours: NDArray[np.int_]
    """Numbers of the odd hours."""
    worst: int
    """Number of the oddest hour."""
    value: float
    usual: float
    spread: float
    """Value, usual value and spread of the oddest hour, in the measure's unit."""
    score: float
    """Distance of the oddest hour, in spreads."""


class _Rules:
    """The numbers of the series' measures, as columns."""

    def __init__(self, measures: Sequence[Measure]) -> None:
        def column(values: Iterator[float]) -> Numbers:
            return np.fromiter(values, float, len(measures))[:, None]

        self.is_factor = column(float(each.share is not None) for each in measures) > 0
        self.offset = column(each.floor for each in measures)
        self.floor = column(each.floor if each.share is None else np.log1p(each.share) for each in measures)
        self.leak = column(each.leak for each in measures)[:, 0]
        self.alarm = column(each.alarm for each in measures)[:, 0]
        self.most = column(each.most for each in measures)
        self.most_high = column(each.most_high for each in measures)
        self.most_usual = column(np.inf if each.most_usual is None else each.most_usual for each in measures)
        self.only = {
            sign: np.array([each.only not in (None, side) for each in measures])
            for sign, side in ((1, "high"), (-1, "low"))
        }

    def inner(self, values: Numbers) -> Numbers:
        """Return values as they are judged: the logarithms of factors."""
        with np.errstate(invalid="ignore"):
            return np.where(self.is_factor, np.log(np.maximum(values, 0) + self.offset), values)

    def outer(self, inner: Numbers) -> Numbers:
        """Return values in the measures' units. `inner`: a row for each series."""
        return np.where(self.is_factor, np.exp(np.where(self.is_factor, inner, 0.0)) - self.offset, inner)


def odd_hours(values: Numbers, measures: Sequence[Measure]) -> list[OddHours]:
    """Return the episodes of all series, by series and beginning.

    `values`: a row for each series, with a value for each hour from a midnight on, for whole days; NaN: not known.
    `measures`: the measure of each series.
    """
    return _Judgement(values, measures).run() if values.size else []


class _Judgement:
    """Goes through the days once. A day's usual values follow from the days before."""

    def __init__(self, values: Numbers, measures: Sequence[Measure]) -> None:
        self._rules = _Rules(measures)
        self._values = values
        inner = self._rules.inner(values)
        before = np.full((len(values), WEEKS * 7 * DAY + DAY), np.nan)
        self._start = before.shape[1]
        """Place of the first hour: before that hour stands an empty past."""
        self._inner = np.hstack([before, inner])
        self._clean = np.full_like(self._inner, np.nan)
        """Hours of the past that count: known, judged, and not odd."""
        self._off = np.full_like(self._inner, np.nan)
        """Distances of these hours from their usual values."""
        self._usual = np.full_like(self._inner, np.nan)
        self._spread = np.full_like(self._inner, np.nan)
        self._distance = np.full_like(self._inner, np.nan)
        self._odd = {sign: np.zeros(self._inner.shape, bool) for sign in (1, -1)}
        self._no_past = np.zeros(self._inner.shape, bool)
        """Odd hours that do not count as past."""
        self._evidence = {sign: np.zeros(len(values)) for sign in (1, -1)}
        self._since = {sign: np.full(len(values), -1) for sign in (1, -1)}
        self._last = {sign: np.full(len(values), -1) for sign in (1, -1)}
        self._told = {sign: np.zeros(len(values), bool) for sign in (1, -1)}

    def run(self) -> list[OddHours]:
        for day in range(self._start, self._inner.shape[1], DAY):
            self._judge(day)
        self._outer_usual = np.stack([self._rules.outer(self._usual), self._rules.outer(self._usual + self._spread)])
        return [each for series in range(len(self._inner)) for sign in (-1, 1) for each in self._episodes(series, sign)]

    def _judge(self, day: int) -> None:
        """Judge the hours of a day that begins at place `day`."""
        today = slice(day, day + DAY)
        inner, rules = self._inner[:, today], self._rules
        hours = np.arange(day, day + DAY)[:, None]
        days = (hours[..., None] - DAY * np.arange(1, PAST_DAYS + 1)[:, None] + _BESIDE).reshape(DAY, -1)
        usual, count = _median(self._clean[:, days])
        week = self._clean[:, day - PAST_DAYS * DAY : day]
        of_all, number = _median(week)
        usual = np.where(count >= LEAST_SAMPLES, usual, of_all[:, None])
        known = (number >= LEAST_HOURS)[:, None] | (count >= LEAST_SAMPLES)
        held = self._usual[:, day - DAY : day]  # yesterday's, where all days of the past were odd
        usual = np.where(known, usual, held)
        spread = np.maximum(_spread(self._off[:, day - PAST_DAYS * DAY : day]), rules.floor)
        spread = np.where(count < LEAST_SAMPLES, np.maximum(spread, _spread(week - of_all[:, None])), spread)
        usual = self._nearest(day, usual)
        off = inner - usual
        usual = np.clip(usual, -rules.most_usual, rules.most_usual)
        changes = np.abs(self._values[:, hours[:, 0] - self._start] - rules.outer(usual)) / rules.offset
        distance = np.sign(inner - usual) * np.minimum(np.abs(inner - usual) / spread, changes)
        self._usual[:, today], self._spread[:, today], self._distance[:, today] = usual, spread, distance
        distance = np.clip(distance, -rules.most, rules.most_high)
        for hour in range(DAY):
            for sign in (1, -1):
                self._add(day + hour, sign, distance[:, hour] * sign)
        no_past = self._no_past[:, today]
        self._clean[:, today] = np.where(no_past, np.nan, inner)
        self._off[:, today] = np.where(no_past, np.nan, off)

    def _nearest(self, day: int, usual: Numbers) -> Numbers:
        """Return the usual values, nearer to today's values where the same weekday of the past weeks is nearer.

        Odd hours count here: else a weekend that is odd each week would never become usual.
        """
        inner, weeks = self._inner[:, day : day + DAY], 7 * DAY * np.arange(1, WEEKS + 1)
        same = day + np.arange(DAY)[:, None, None] - weeks[:, None] + _BESIDE
        of_weekday, count = _median(self._inner[:, same.reshape(DAY, -1)])
        low, high = np.minimum(usual, of_weekday), np.maximum(usual, of_weekday)
        return np.where(count > same[0].size - len(_BESIDE), np.clip(inner, low, high), usual)

    def _add(self, hour: int, sign: int, distance: Numbers) -> None:
        """Add an hour to the evidence of one side. `distance`: positive to that side, NaN: not known."""
        rules, evidence, since, told = self._rules, self._evidence[sign], self._since[sign], self._told[sign]
        more = np.where(np.isnan(distance) | rules.only[sign], 0.0, distance - rules.leak)
        last = self._last[sign]
        evidence[told & (hour - last > JOINED_HOURS)] = 0.0
        last[more > 0] = hour
        begins = (evidence == 0) & (more > 0)
        since[begins] = hour
        np.clip(evidence + more, 0.0, 2 * rules.alarm, out=evidence)
        told &= evidence > 0
        for series in map(int, np.flatnonzero((evidence >= rules.alarm) & ~told)):
            self._forget(series, sign, int(since[series]), hour)
        told |= evidence >= rules.alarm
        odd = told & (more > 0)
        self._odd[sign][odd, hour] = True
        self._no_past[odd & (hour - since < NEW_USUAL_HOURS), hour] = True

    def _forget(self, series: int, sign: int, first: int, last: int) -> None:
        """Mark the hours in which the evidence of a new episode has grown."""
        odd = self._distance[series, first : last + 1] * sign > self._rules.leak[series]
        self._odd[sign][series, first : last + 1] |= odd
        self._no_past[series, first : last + 1] |= odd
        self._clean[series, first : last + 1][odd] = np.nan
        self._off[series, first : last + 1][odd] = np.nan

    def _episodes(self, series: int, sign: int) -> Iterator[OddHours]:
        places = np.flatnonzero(self._odd[sign][series])
        if not places.size:
            return
        for run in np.split(places, np.flatnonzero(np.diff(places) > JOINED_HOURS + 1) + 1):
            worst = int(run[np.argmax(self._distance[series, run] * sign)])
            usual, beyond = self._outer_usual[:, series, worst]
            yield OddHours(
                series,
                sign,
                run - self._start,
                worst - self._start,
                float(self._values[series, worst - self._start]),
                float(usual),
                float(abs(beyond - usual)),
                float(abs(self._distance[series, worst])),
            )


def _median(samples: Numbers) -> tuple[Numbers, NDArray[np.int_]]:
    """Return the median of the last axis without NaN, and the number of samples."""
    in_order = np.sort(samples, axis=-1)  # NaN comes last
    count = np.sum(~np.isnan(in_order), axis=-1)
    low = np.take_along_axis(in_order, np.maximum(count - 1, 0)[..., None] // 2, -1)
    high = np.take_along_axis(in_order, count[..., None] // 2 % samples.shape[-1], -1)
    return np.where(count > 0, (low + high)[..., 0] / 2, np.nan), count


def _spread(off: Numbers) -> Numbers:
    """Return the spread of each row's distances, as a column; 0 where there are none."""
    in_order = np.sort(np.abs(off), axis=-1)
    count = np.sum(~np.isnan(in_order), axis=-1)[:, None]
    middle = np.take_along_axis(in_order, np.maximum(count - 1, 0) // 2, -1)
    tenth = np.take_along_axis(in_order, np.maximum(count * 9 // 10 - 1, 0), -1)
    return np.where(count > 0, np.maximum(middle * _NORMAL_MEDIAN, tenth * _NORMAL_TENTH), 0.0)
