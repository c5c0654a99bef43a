"""Recommends a parameter set for a farm, if its gain is above the noise.

The set is chosen on the first days, and its gain is measured on the other days, the held-out days: the best of many
sets looks better on the days of the choice than it is.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from gf_i2p.farm.parameters import Parameters, ranges
from gf_i2p.farm.strict_json import RecordError
from gf_i2p.pipeline.backtest.drawn_days import DrawnDays, Numbers
from gf_i2p.pipeline.backtest.gain import Gain
from gf_i2p.pipeline.backtest.grid import Set, differences, shown
from gf_i2p.pipeline.days import HOUR_MS

LEAST_GAIN: Final = 0.05
"""Least saving for a recommendation, as a share of the cost so far: a change of parameters has a cost of its own. Also
the least that each recommended parameter adds to the saving."""
LEAST_SECONDS: Final = 10.0
"""Least saving for a recommendation, in seconds of outage a day."""
LEAST_DAYS: Final = 10
"""Least number of days for a recommendation."""
LEAST_HELD_OUT: Final = 5
"""Least number of held-out days. If chance alone decides the sign of each day's saving, five days all say the same in
one case of 16."""
HELD_OUT: Final = 0.4
"""Share of the days that are held out."""
LEAST_DAY_MS: Final = 6 * HOUR_MS
"""Least measured time of a day that counts."""


@dataclass(frozen=True, slots=True)
class Tried:
    """A parameter set that was tried on a farm's log."""

    parameters: Set
    """The fixed values, by the names in the log; empty: the live set."""
    costs: Mapping[str, float]
    """The cost of each day, in seconds of outage. A day is YYYY-MM-DD."""
    farm_ms: Mapping[str, int]
    """The measured time of each day."""


@dataclass(frozen=True, slots=True)
class Advice:
    """The recommendation for one farm."""

    best: Tried | None
    """The recommended set; None: no set is recommended."""
    why: str
    """The reason for the recommendation, or the reason why there is none: a sentence for the operator."""
    gains: Sequence[Gain | None]
    """The gain of each tried set over the live set on the held-out days, in the order of the sets. None: too few days,
    or the live set."""
    hints: tuple[str, ...] = ()
    """Sentences for the operator about values at the edge of what was tried."""


@dataclass(frozen=True, slots=True)
class _Candidate:
    tried: Tried
    changes: dict[str, Any]
    """The values that differ from the farm's values at the end of the log."""
    costs: Numbers
    distance: float
    """How far the changed values are from the farm's values, see `_distance`."""


class _Choice:
    """The choice of a set by some of the days."""

    def __init__(self, candidates: Sequence[_Candidate], days: DrawnDays, part: slice) -> None:
        """`candidates`: the sets, also those that change nothing. `days`: the days of `part`."""
        self._days, self._part = days, part
        # An administrator may have changed a parameter within the log. So a set may also be what the farm has by now.
        self.present = min((each for each in candidates if not each.changes), key=self.cost)
        self._others: list[_Candidate] = []
        for each in candidates:
            if each.changes and not any(each.changes == other.changes for other in self._others):
                self._others.append(each)

    def cost(self, candidate: _Candidate) -> float:
        return float(candidate.costs[self._part].sum())

    def gain(self, candidate: _Candidate, other: _Candidate) -> Gain:
        return self._days.gain(candidate.costs[self._part], other.costs[self._part])

    def best(self) -> _Candidate:
        """Return the cheapest set; the farm's own set if no other set costs less."""
        return min((self.present, *self._others), key=self.cost)

    def objection(self, candidate: _Candidate) -> str | None:
        """Return why a set is not worth a change, as the end of a sentence; None: the set is worth a change."""
        return _objection(self.gain(candidate, self.present))

    def simplest(self, best: _Candidate) -> _Candidate | None:
        """Return the set with the fewest changes, of all sets that are worth a change and perhaps as good as the best.

        Of sets with equally many changes: the cheapest set, then the set whose values are nearest to the farm's. None:
        no such set is worth a change.
        """
        near = [
            each for each in self._others if self.objection(each) is None and not self.gain(best, each).is_above_noise
        ]
        return min(near, key=lambda each: (len(each.changes), self.cost(each), each.distance), default=None)

    def without_idle(self, candidate: _Candidate) -> _Candidate:
        """Leave out each parameter that adds less than the least gain, the parameter that adds least first."""
        while len(candidate.changes) > 1:
            smaller = [each for each in self._others if _is_part(each, candidate)]
            cheapest = min(smaller, key=lambda each: (self.cost(each), each.distance), default=None)
            if cheapest is None:
                break
            if self.cost(cheapest) - self.cost(candidate) >= LEAST_GAIN * self.cost(self.present):
                break
            candidate = cheapest
        return candidate


def advise(sets: Sequence[Tried], in_force: Mapping[str, Any]) -> Advice:
    """Choose the set for one farm.

    `sets`: all sets that were tried, the live set (without parameters) among them. `in_force`: all parameters of the
    farm at the end of the log, by the names in the log.
    """
    live = next(each for each in sets if not each.parameters)
    days = sorted(day for day, farm_ms in live.farm_ms.items() if farm_ms >= LEAST_DAY_MS)
    if len(days) < LEAST_DAYS:
        why = f"{len(days)} days are too few, {LEAST_DAYS} with six measured hours are the least"
        return Advice(None, f"Nothing is recommended: {why}.", [None] * len(sets))
    held_out = max(LEAST_HELD_OUT, round(HELD_OUT * len(days)))
    first, last = slice(0, len(days) - held_out), slice(len(days) - held_out, len(days))
    candidates = [_candidate(each, in_force, days) for each in sets]
    farm_ms = [live.farm_ms[day] for day in days]
    chosen_on, measured_on = DrawnDays(farm_ms[first]), DrawnDays(farm_ms[last])
    live_costs = next(each.costs for each in candidates if each.tried is live)
    gains = [
        None if each.tried is live else measured_on.gain(each.costs[last], live_costs[last]) for each in candidates
    ]
    choice = _Choice([each for each in candidates if _fits_farm(each, in_force)], chosen_on, first)
    best, why = _choose(choice, first.stop)
    if best is None:
        return Advice(None, f"Nothing is recommended: {why}.", gains)
    got = measured_on.gain(best.costs[last], choice.present.costs[last])
    objection = _objection(got)
    if objection is not None:
        why = f"by the first {first.stop} days {shown(best.changes)} is better, but on the last {held_out} {objection}"
        return Advice(None, f"Nothing is recommended: {why}.", gains)
    sentence = (
        f"{shown(best.changes)} saves {got} of the cost, {got.seconds:,.0f} s of outage a day, on the last {held_out} "
        f"days. The first {first.stop} days chose the set, and promised {choice.gain(best, choice.present)}."
    )
    return Advice(best.tried, sentence, gains, tuple(_edges(best, sets, in_force)))


def _candidate(tried: Tried, in_force: Mapping[str, Any], days: Sequence[str]) -> _Candidate:
    changes = differences(tried.parameters, in_force)
    return _Candidate(tried, changes, np.array([tried.costs[day] for day in days]), _distance(changes, in_force))


def _choose(choice: _Choice, days: int) -> tuple[_Candidate | None, str]:
    """Return the set that the first `days` days speak for; or None, and why not, as a clause."""
    best = choice.best()
    if best is choice.present:
        if not choice.present.tried.parameters:
            return None, "no set that was tried costs less than what the farm has"
        return None, "the farm has had the best set since it was last changed"
    simplest = choice.simplest(best)
    chosen = best if simplest is None else choice.without_idle(simplest)
    objection = choice.objection(chosen)
    if objection is None:
        return chosen, ""
    words = f"the best set, {shown(best.changes)}"
    if chosen is not best:
        words += f", comes down to {shown(chosen.changes)} when each parameter must save {LEAST_GAIN:.0%}, and that"
    return None, f"{words} is not worth a change: on the first {days} days {objection}"


def _objection(gain: Gain) -> str | None:
    if gain.share < LEAST_GAIN:
        return f"it saves {gain.share:.1%} of the cost, {LEAST_GAIN:.0%} is the least"
    if gain.seconds < LEAST_SECONDS:
        return f"it saves {gain.seconds:.1f} s of outage a day, {LEAST_SECONDS:.0f} s is the least"
    if not gain.is_above_noise:
        return f"it saves {gain}, which may be chance"
    return None


def _fits_farm(candidate: _Candidate, in_force: Mapping[str, Any]) -> bool:
    """Return whether a set's values, each in range, also fit the farm's other parameters."""
    try:
        Parameters().changed({**in_force, **candidate.tried.parameters})
    except RecordError:
        return False
    return True


def _is_part(candidate: _Candidate, whole: _Candidate) -> bool:
    """Return whether a set is another set without one of its changes."""
    return len(candidate.changes) == len(whole.changes) - 1 and candidate.changes.items() <= whole.changes.items()


def _distance(changes: Mapping[str, Any], in_force: Mapping[str, Any]) -> float:
    """Return how far values are from the farm's values: in powers of two, added up. Another word counts as one."""
    return sum(
        abs(math.log2((value + 1) / (in_force[name] + 1))) if isinstance(value, int) else 1.0
        for name, value in changes.items()
    )


def _edges(best: _Candidate, sets: Iterable[Tried], in_force: Mapping[str, Any]) -> Iterable[str]:
    """Yield a sentence for each recommended value beyond which no value was tried, although the farm could have one."""
    for name, value in best.changes.items():
        if not isinstance(value, int):
            continue
        tried = {each.parameters.get(name, in_force[name]) for each in sets}
        low, high = ranges()[name]
        if value == min(tried) and value != low:
            yield f"{name}={value} is the least value that was tried: a lesser value may be better, try some."
        if value == max(tried) and value != high:
            yield f"{name}={value} is the greatest value that was tried: a greater value may be better, try some."
