"""Recommends a parameter set for a farm: the cheapest of the tried sets.

`Measures.cost` adds up the measures, in points a day, with `replay_measures.Weights`. A recommendation needs at least
a day of farm time and a gain of `LEAST_GAIN`, because a change of parameters has a cost of its own.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from gf_i2p.farm.parameters import Parameters
from gf_i2p.farm.strict_json import RecordError
from gf_i2p.pipeline.backtest.parameters_file import quoted
from gf_i2p.pipeline.backtest.replay_measures import DAY_MS, Measures

LEAST_MS: Final = DAY_MS
"""Least farm time for a recommendation."""
LEAST_GAIN: Final = 0.05
"""Least saving for a recommendation, as a share of the live set's cost."""
_COUNTS: Final = (
    ("changes", "changes of publisher"),
    ("unneeded", "unneeded ones"),
    ("without_publisher_ms", "s without publisher"),
    ("stale_ms", "s of stale leaves"),
    ("set_changes", "changes of the set"),
    ("balance", "imbalance, %"),
)
_SCALES: Final = {"without_publisher_ms": 1 / 1000, "stale_ms": 1 / 1000, "balance": 100}


@dataclass(frozen=True, slots=True)
class BacktestRow:
    """A row of the table `backtest`."""

    farm: str
    measures: Measures
    superseded: int = 0
    gaps: int = 0

    @property
    def live(self) -> bool:
        """Whether the row is about the farm's own parameters."""
        return not self.measures.parameters

    @property
    def cost(self) -> float:
        """Cost of the set, in points a day."""
        return self.measures.cost()


@dataclass(frozen=True, slots=True)
class Advice:
    """The recommendation for one farm."""

    farm: str
    live: BacktestRow
    front: tuple[BacktestRow, ...]
    """The sets that no other set beats (the Pareto front), the cheapest first.

    A set beats another set when it is better in one measure, and worse in none.
    """
    best: BacktestRow | None
    """The recommended set; None: no set is recommended."""
    why_not: str = ""
    """The reason, in words for the operator, why no set is recommended."""

    @property
    def changes(self) -> dict[str, Any]:
        """The values to set, by the names in the log, without values that the farm already has."""
        return {} if self.best is None else _differences(self.best, self.live)

    @property
    def gain(self) -> float:
        """The share of the live set's cost, 0 to 1, that the change saves; 0 when no set is recommended."""
        return 0.0 if self.best is None else 1 - self.best.cost / self.live.cost


def advise(results: Sequence[BacktestRow]) -> Advice:
    """Choose the set for one farm. `results`: all rows of that farm, also the live set's row."""
    live = next(each for each in results if each.live)
    possible = [each for each in results if _fits_farm(each, live)]
    front = tuple(
        sorted(
            (each for each in possible if not any(_beats(other, each) for other in possible)),
            key=lambda each: (each.cost, not each.live, len(each.measures.parameters), str(each.measures.parameters)),
        )
    )
    best = front[0]
    saving = live.cost - best.cost
    if live.measures.farm_ms < LEAST_MS:
        hours = live.measures.farm_ms / 3_600_000
        return Advice(live.farm, live, front, None, f"{hours:.1f} h of farm time are too few, a day is the least")
    if saving <= 0:
        return Advice(live.farm, live, front, None, "no set that was tried costs less than what the farm has")
    if saving < LEAST_GAIN * live.cost:
        why = f"the best set would save {saving / live.cost:.1%} of the cost, {LEAST_GAIN:.0%} is the least"
        return Advice(live.farm, live, front, None, why)
    if not _differences(best, live):  # the farm was given this set in the middle of this log
        return Advice(live.farm, live, front, None, "the farm has had the best set since it was last changed")
    return Advice(live.farm, live, front, best)


def compared(live: Measures, other: Measures) -> Iterator[tuple[str, float, float]]:
    """Yield each measure's name for the operator, its figure for the live set, and its figure for the other set."""
    for name, shown in _COUNTS:
        scale = _SCALES.get(name, 1)
        yield shown, getattr(live, name) * scale, getattr(other, name) * scale
    yield "cost, points a day", live.cost(), other.cost()


def recommended_command(advice: Advice) -> str:
    """Return the shell command that sets the recommended parameters."""
    return "gf-i2p farm set DIR " + " ".join(f"{name}={value}" for name, value in advice.changes.items())


def fragment(advice: Advice) -> str:
    """Return the recommendation as TOML for `gf-i2p pipeline post`. Without a recommendation: only comments."""
    live = advice.live.measures
    days = f"{live.entries} entries, {live.farm_ms / DAY_MS:.1f} days of farm time"
    name = quoted(advice.farm)  # a name with a line break must not end the comment
    lines = [f"# Farm {name}, by gf-i2p pipeline backtest: {days}."]
    if not live.exact:
        lines.append("# The log has gaps, so the farm may have decided otherwise here and there.")
    if advice.best is None:
        return "\n".join([*lines, f"# Nothing is recommended: {advice.why_not}.", ""])
    lines += [f"# Recommended: {advice.gain:.0%} less cost. The same log with the farm's and with these parameters:"]
    lines += [
        f"#   {name:22} {_short(old):>10} -> {_short(new)}" for name, old, new in compared(live, advice.best.measures)
    ]
    lines += ["# Parameters are in the farm's log, for the whole farm. Set these by gf-i2p pipeline post, or by"]
    lines += [f"#   {recommended_command(advice)}", "", "[farm]", f"cluster = {name}", "", "[farm.parameters]"]
    for name, value in advice.changes.items():
        lines.append(f"{name} = {json.dumps(value)}  # until now {json.dumps(live.in_force.get(name))}")
    return "\n".join([*lines, ""])


def _short(number: float) -> str:
    return f"{number:.2f}".rstrip("0").rstrip(".")


def _fits_farm(result: BacktestRow, live: BacktestRow) -> bool:
    """Return whether a set's values, each in range, also fit the farm's other parameters."""
    try:
        Parameters().changed({**live.measures.in_force, **result.measures.parameters})
    except RecordError:
        return False
    return True


def _differences(result: BacktestRow, live: BacktestRow) -> dict[str, Any]:
    """Return the values of a set that differ from the farm's values at the end of the log."""
    current = live.measures.in_force
    return {name: value for name, value in result.measures.parameters.items() if current.get(name) != value}


def _beats(one: BacktestRow, other: BacktestRow) -> bool:
    """Return whether one set is better than the other in a measure, and worse in none."""
    pairs = [(getattr(one.measures, name), getattr(other.measures, name)) for name, _ in _COUNTS]
    return all(mine <= theirs for mine, theirs in pairs) and any(mine < theirs for mine, theirs in pairs)
