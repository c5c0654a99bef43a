"""The measures of a parameter set on a farm's log, and their cost in seconds of outage.

`docs/explanation/backtest.md` has the definitions for operators.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Final, Self

from gf_i2p.pipeline.days import DAY_MS
from gf_i2p.pipeline.errors import UsageError

MOST_WEIGHT: Final = 1e6


@dataclass(frozen=True, slots=True)
class Weights:
    """The cost of each event or time, in seconds of outage."""

    change: float = 30.0
    """A change of publisher. In mode `failover`, it ends the clients' streams. In mode `meta`, clients use two sets."""
    unneeded: float = 120.0
    """Added to a change that was not needed."""
    stale: float = 0.25
    """A second in which one listed leaf was dead: clients that choose the leaf wait in vain."""
    missing: float = 0.05
    """A second in which one leaf was not listed although the leaf was up: the other leaves have the clients."""
    sets: float = 1.5
    """A change of the published set."""
    imbalance: float = 600.0
    """A day on which all clients are sent to leaves that have no room."""

    @classmethod
    def parse(cls, texts: Mapping[str, str]) -> Self:
        """Read weights by their names; the others have their defaults. Raises `UsageError`."""
        weights: dict[str, float] = {}
        for name, text in texts.items():
            if name not in asdict(WEIGHTS):
                raise UsageError(f"{name!r} is no weight; choose from {', '.join(asdict(WEIGHTS))}")
            try:
                weights[name] = float(text)
            except ValueError:
                raise UsageError(f"The weight of {name} is a number of seconds, unlike {text!r}") from None
            if not 0 <= weights[name] <= MOST_WEIGHT:
                raise UsageError(f"The weight of {name} is from 0 to {MOST_WEIGHT:,.0f} seconds, unlike {text}")
        return cls(**weights)


WEIGHTS: Final = Weights()


@dataclass(slots=True)
class Counts:
    """The counts of some time, with one parameter set. The counts of several days add up."""

    farm_ms: int = 0
    """Measured time, by the farm's stopwatch."""
    outage_ms: int = 0
    """Time in which clients could not be served, although some server could have served: see `Offices.settle`."""
    without_publisher_ms: int = 0
    """Time without a publisher, while some server's newest record was fresh and called that server able to publish.
    The cost does not count this time, because `outage_ms` has what matters of it."""
    changes: int = 0
    """Changes from one publisher to another. The first publisher does not count."""
    unneeded: int = 0
    """Changes after which the old publisher posted for `LONG_MS` more, without a silence, and stayed able to publish.
    Changes that an administrator caused do not count."""
    stale_ms: int = 0
    """Leaf-milliseconds for which listed leaves were down or their owner was silent, by the owner's records."""
    missing_ms: int = 0
    """Leaf-milliseconds for which leaves were not listed, although they were up by their owner's records, nothing
    speaks against them, and the set had room."""
    set_changes: int = 0
    """Changes of the listed leaves: of a leaf, or of its cost, owner or branch."""
    imbalance_ms: float = 0.0
    """The imbalance, 0 to 1, times the time in ms. The imbalance is the share of the new clients that would have to
    choose another leaf, so that every leaf's share of the clients equals the leaf's share of the free room. A leaf's
    share of the clients is its share of the weights 256 - cost; see `imbalance`. It is looked at every `BALANCE_MS`,
    with at least two leaves listed."""

    def add(self, other: "Counts") -> None:
        """Add the counts of another time."""
        for each in fields(Counts):
            setattr(self, each.name, getattr(self, each.name) + getattr(other, each.name))

    @property
    def imbalance(self) -> float:
        """The mean imbalance, 0 to 1; less is better."""
        return self.imbalance_ms / self.farm_ms if self.farm_ms else 0.0

    def seconds(self, weights: Weights = WEIGHTS) -> float:
        """Return the cost of the whole time, in seconds of outage."""
        return (
            self.outage_ms / 1000
            + weights.change * self.changes
            + weights.unneeded * self.unneeded
            + weights.stale * self.stale_ms / 1000
            + weights.missing * self.missing_ms / 1000
            + weights.sets * self.set_changes
            + weights.imbalance * self.imbalance_ms / DAY_MS
        )

    def cost(self, weights: Weights = WEIGHTS) -> float:
        """Return the cost in seconds of outage a day; less is better."""
        return self.seconds(weights) * DAY_MS / self.farm_ms if self.farm_ms else 0.0


@dataclass(frozen=True, slots=True)
class Measures:
    """Measures of one parameter set on one farm."""

    parameters: Mapping[str, Any]
    """Values that the set fixes, by the names in the log; empty: the live set."""
    in_force: Mapping[str, Any]
    """All parameters at the end of the log, by the names in the log."""
    entries: int
    """Entries of the log."""
    exact: bool
    """Whether the log has no gap, from its first entry on."""
    days: Mapping[int, Counts] = field(default_factory=dict)
    """The counts of each day, by the number of the UTC day since 1970, by farm time."""

    @property
    def total(self) -> Counts:
        """The counts of all days."""
        total = Counts()
        for counts in self.days.values():
            total.add(counts)
        return total
