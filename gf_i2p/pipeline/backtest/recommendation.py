"""Which of the tried parameter sets a farm should have: those that no other beats, and of them the cheapest.

What each measure weighs stands in `measures.Weights`, by which `Measures.cost` is reckoned: points a day. Nothing is
recommended on less than a day of farm time, nor for a gain of less than `LEAST_GAIN`: a change has a cost of its own.
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
LEAST_GAIN: Final = 0.05
"""Of the live set's cost."""
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
class Result:
    """A row of the table `backtest`."""

    farm: str
    measures: Measures
    superseded: int = 0
    gaps: int = 0

    @property
    def live(self) -> bool:
        """Whether this is the farm with its own parameters."""
        return not self.measures.parameters

    @property
    def cost(self) -> float:
        """Points a day."""
        return self.measures.cost()


@dataclass(frozen=True, slots=True)
class Advice:
    """For one farm."""

    farm: str
    live: Result
    front: tuple[Result, ...]
    """The sets, the cheapest first, of which none is beaten by another one in everything."""
    best: Result | None
    """What is recommended."""
    why_not: str = ""
    """Why nothing is, for people."""

    @property
    def changes(self) -> dict[str, Any]:
        """What is to be set, by the names in the log: the values that the farm has not already."""
        return {} if self.best is None else _missing(self.best, self.live)

    @property
    def gain(self) -> float:
        """The part of the live set's cost that is saved; 0 when nothing is recommended."""
        return 0.0 if self.best is None else 1 - self.best.cost / self.live.cost


def advise(results: Sequence[Result]) -> Advice:
    """Choose for one farm. `results`: all of its rows, the live one among them."""
    live = next(each for each in results if each.live)
    possible = [each for each in results if _can_be(each, live)]
    front = tuple(
        sorted(
            (each for each in possible if not any(_beats(other, each) for other in possible)),
            key=lambda each: (each.cost, not each.live, len(each.measures.parameters), str(each.measures.parameters)),
        )
    )
    best = front[0]
    saved = live.cost - best.cost
    if live.measures.farm_ms < LEAST_MS:
        hours = live.measures.farm_ms / 3_600_000
        return Advice(live.farm, live, front, None, f"{hours:.1f} h of farm time are too few, a day is the least")
    if saved <= 0:
        return Advice(live.farm, live, front, None, "no set that was tried costs less than what the farm has")
    if saved < LEAST_GAIN * live.cost:
        why = f"the best set would save {saved / live.cost:.1%} of the cost, {LEAST_GAIN:.0%} is the least"
        return Advice(live.farm, live, front, None, why)
    if not _missing(best, live):  # it was set in the middle of this log
        return Advice(live.farm, live, front, None, "the farm has had the best set since it was last changed")
    return Advice(live.farm, live, front, best)


def compared(live: Measures, other: Measures) -> Iterator[tuple[str, float, float]]:
    """Give what each measure is, by its name for people: live, and with the other set."""
    for name, shown in _COUNTS:
        scale = _SCALES.get(name, 1)
        yield shown, getattr(live, name) * scale, getattr(other, name) * scale
    yield "cost, points a day", live.cost(), other.cost()


def command(advice: Advice) -> str:
    """Give what sets the recommended parameters on the command line of a node."""
    return "gf-i2p farm set DIR " + " ".join(f"{name}={value}" for name, value in advice.changes.items())


def fragment(advice: Advice) -> str:
    """Give the recommendation as TOML, for `gf-i2p pipeline post`; with comments only when there is none."""
    live = advice.live.measures
    days = f"{live.entries} entries, {live.farm_ms / DAY_MS:.1f} days of farm time"
    name = quoted(advice.farm)  # so it does not end the comment
    lines = [f"# Farm {name}, by gf-i2p pipeline backtest: {days}."]
    if not live.exact:
        lines.append("# The log has gaps, so the farm may have decided otherwise here and there.")
    if advice.best is None:
        return "\n".join([*lines, f"# Nothing is recommended: {advice.why_not}.", ""])
    lines += [f"# Recommended, for {advice.gain:.0%} less cost. In place of what was, by the same log:"]
    lines += [
        f"#   {name:22} {_short(old):>10} -> {_short(new)}" for name, old, new in compared(live, advice.best.measures)
    ]
    lines += ["# These are parameters of the whole farm, in its log. They are set by gf-i2p pipeline post, or by"]
    lines += [f"#   {command(advice)}", "", "[farm]", f"cluster = {name}", "", "[farm.parameters]"]
    for name, value in advice.changes.items():
        lines.append(f"{name} = {json.dumps(value)}  # until now {json.dumps(live.in_force.get(name))}")
    return "\n".join([*lines, ""])


def _short(number: float) -> str:
    return f"{number:.2f}".rstrip("0").rstrip(".")


def _can_be(result: Result, live: Result) -> bool:
    """Whether the farm could be set so: each value is in its range, but not all go together with what it has."""
    try:
        Parameters().changed({**live.measures.in_force, **result.measures.parameters})
    except RecordError:
        return False
    return True


def _missing(result: Result, live: Result) -> dict[str, Any]:
    """Give what a set fixes, and the farm has not at the end of the log."""
    have = live.measures.in_force
    return {name: value for name, value in result.measures.parameters.items() if have.get(name) != value}


def _beats(one: Result, other: Result) -> bool:
    """Whether one is nowhere worse, and somewhere better."""
    pairs = [(getattr(one.measures, name), getattr(other.measures, name)) for name, _ in _COUNTS]
    return all(mine <= theirs for mine, theirs in pairs) and any(mine < theirs for mine, theirs in pairs)
