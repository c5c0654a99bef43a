"""The results of many seeds together."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final

from gf_i2p.simulator.cluster.faults import MESSAGE_FAULTS, OTHER_COUNTS
from gf_i2p.simulator.cluster.plan import FAULTS
from gf_i2p.simulator.life.plan import BRAIN_FAULTS
from gf_i2p.simulator.seed_run import SeedResult

COUNTED: Final = (*FAULTS, *MESSAGE_FAULTS, *OTHER_COUNTS)
"""Names of all counts that are shown, zeros included: a reader should notice a fault that never happens."""
COUNTED_IN_LIVES: Final = (*BRAIN_FAULTS, "sets given")
"""Names of all counts from the runs of `life`."""


@dataclass(slots=True)
class Totals:
    """Sums over all seeds, and the failed seeds."""

    seeds: int = 0
    events: int = 0
    entries: int = 0
    elections: int = 0
    operations: int = 0
    unknown: int = 0
    undecided: int = 0
    hours: float = 0.0
    faults: Counter[str] = field(default_factory=Counter)
    failed: list[SeedResult] = field(default_factory=list)
    recoveries: list[float] = field(default_factory=list)
    """Durations of the recoveries of seeds that did not fail, in maximum election time-outs."""

    def add(self, result: SeedResult) -> None:
        """Add the result of one seed."""
        self.seeds += 1
        self.events += result.events
        self.entries += result.entries
        self.elections += result.elections
        self.operations += result.operations
        self.unknown += result.unknown
        self.undecided += result.undecided
        self.hours += result.hours
        self.faults.update(result.counts)
        if result.violation is None:
            self.recoveries.append(result.recovery)
        else:
            self.failed.append(result)

    @property
    def recovery(self) -> tuple[float, float]:
        """Median and greatest duration of the recoveries, in maximum election time-outs; zeros if no farm recovered."""
        ordered = sorted(self.recoveries) or [0.0]
        return ordered[len(ordered) // 2], ordered[-1]

    def as_object(self) -> dict[str, Any]:
        """Return all sums as an object for JSON."""
        median, longest = self.recovery
        return {
            "seeds": self.seeds,
            "events": self.events,
            "entries": self.entries,
            "elections": self.elections,
            "operations": self.operations,
            "operationsUnknown": self.unknown,
            "registersUndecided": self.undecided,
            "recoveryTimeouts": {"median": round(median, 2), "longest": round(longest, 2)},
            "hoursOfFarms": round(self.hours, 1),
            "faults": {name: self.faults[name] for name in (*COUNTED, *COUNTED_IN_LIVES)},
        }
