"""The rows of the table `backtest`: the measures of each set, and the recommendation for each farm."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final, Self

from gf_i2p.pipeline.backtest.gain import Gain
from gf_i2p.pipeline.backtest.grid import differences
from gf_i2p.pipeline.backtest.measures import Counts

_SHOWN: Final = (
    ("outage_ms", "s of outage"),
    ("changes", "changes of publisher"),
    ("unneeded", "unneeded ones"),
    ("without_publisher_ms", "s without publisher"),
    ("stale_ms", "s of stale leaves"),
    ("missing_ms", "s of missing leaves"),
    ("set_changes", "changes of the set"),
)


@dataclass(frozen=True, slots=True)
class BacktestRow:
    """A row of the table `backtest`."""

    farm: str
    parameters: Mapping[str, Any]
    """Values that the set fixes, by the names in the log; empty: the live set."""
    in_force: Mapping[str, Any]
    """All parameters at the end of the log, by the names in the log."""
    exact: bool
    entries: int
    counts: Counts
    cost: float
    """Cost of the set, in seconds of outage a day."""
    superseded: int = 0
    gaps: int = 0
    recommended: bool = False
    gain: Gain | None = None
    """The gain over the live set, on the held-out days; None: not known, or the live set."""
    advice: str = ""
    """Of the live set's row: the recommendation in words for the operator."""

    @classmethod
    def of_columns(cls, row: Mapping[str, Any]) -> Self:
        """Read a row of the table."""
        gain = None if row["gain"] is None else Gain(row["gain"], row["gain_low"], row["gain_high"], row["saved_s"])
        return cls(
            row["farm"],
            json.loads(row["parameters"]),
            json.loads(row["in_force"]),
            row["exact"],
            row["entries"],
            Counts(**{each.name: row[each.name] for each in fields(Counts)}),
            row["cost"],
            row["superseded"],
            row["gaps"],
            row["recommended"],
            gain,
            row["advice"] or "",
        )

    @property
    def live(self) -> bool:
        """Whether the row is about the farm's own parameters."""
        return not self.parameters


def live_row(results: Sequence[BacktestRow]) -> BacktestRow:
    """Return the live set's row of a farm's rows."""
    return next(each for each in results if each.live)


def recommended_row(results: Sequence[BacktestRow]) -> BacktestRow | None:
    """Return the recommended set's row of a farm's rows; None: no set is recommended."""
    return next((each for each in results if each.recommended), None)


def recommended_values(results: Sequence[BacktestRow]) -> dict[str, Any]:
    """Return the values to set, by the names in the log, without values that the farm already has."""
    best = recommended_row(results)
    return {} if best is None else differences(best.parameters, live_row(results).in_force)


def recommended_command(results: Sequence[BacktestRow]) -> str:
    """Return the shell command that sets the recommended parameters."""
    return "gf-i2p farm set DIR " + " ".join(f"{name}={value}" for name, value in recommended_values(results).items())


def compared(live: BacktestRow, other: BacktestRow) -> Iterator[tuple[str, float, float]]:
    """Yield each measure's name for the operator, its figure for the live set, and its figure for the other set."""
    for name, shown in _SHOWN:
        scale = 1 / 1000 if name.endswith("_ms") else 1
        yield shown, getattr(live.counts, name) * scale, getattr(other.counts, name) * scale
    yield "imbalance, %", live.counts.imbalance * 100, other.counts.imbalance * 100
    yield "cost, s of outage a day", live.cost, other.cost
