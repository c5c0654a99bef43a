"""Cost of a set's entry: 1 for an idle leaf, 240 for a full leaf; clients prefer low costs (proposal 123).

    cost = 96 * connections + 96 * bandwidth + 16 * tunnels + 32 * unreached, in steps of 16, 1 at least

`connections` and `bandwidth` are the used parts of the configured limits, 0 to 1. Where the leaf's own bandwidth is
unknown, `bandwidth` is the used part of the router's busier direction. `tunnels` is the missing part of the configured
tunnels. `unreached` is the failed part of the other servers' tries to reach the leaf. An unknown value costs nothing.
"""

from dataclasses import dataclass
from typing import Final

from gf_i2p.farm.record.bandwidth import part_in_use
from gf_i2p.farm.record.destinations import Leaf
from gf_i2p.farm.strict_json import without_none

STEP: Final = 16
BEST: Final = 1
"""The least computed cost. Administrators may also set 0."""
WORST: Final = 240
WEIGHTS: Final = {"connections": 96, "bandwidth": 96, "tunnels": 16, "unreached": 32}
_CONNECTIONS, _BANDWIDTH, _TUNNELS, _UNREACHED = WEIGHTS.values()
STAYS_WITHIN: Final = 16
"""A listed leaf keeps its cost while the points differ from the cost by this at most: so noise makes no new set."""


@dataclass(slots=True)  # not frozen: freezing would double the time of `leaf_load`
class LeafLoad:
    """Load of a leaf, in parts of its limits, 0 to 1; None: unknown."""

    connections: float | None = None
    bandwidth: float | None = None
    tunnels: float | None = None
    """The missing part of the configured tunnels."""
    unreached: float | None = None

    @property
    def total(self) -> int:
        """The sum of `points`. Written out for speed: this runs often for each leaf."""
        points = 0
        if self.connections is not None:
            points += round(_CONNECTIONS * self.connections)
        if self.bandwidth is not None:
            points += round(_BANDWIDTH * self.bandwidth)
        if self.tunnels is not None:
            points += round(_TUNNELS * self.tunnels)
        if self.unreached is not None:
            points += round(_UNREACHED * self.unreached)
        return points

    @property
    def points(self) -> dict[str, int]:
        """The points of each known part, by name."""
        parts = {name: getattr(self, name) for name in WEIGHTS}
        return {name: round(WEIGHTS[name] * part) for name, part in without_none(parts).items()}


def leaf_load(leaf: Leaf, router_use: float | None, reach_counts: tuple[int, int]) -> LeafLoad:
    """Return the load of a leaf.

    `router_use`: used part of the router's bandwidth, see `bandwidth_used`. `reach_counts`: number of servers that
    reached the leaf, and number of servers that failed.
    """
    bandwidth = part_in_use(leaf.current_bandwidth, leaf.configured_bandwidth)
    reached, unreached = reach_counts
    tunnels = part_in_use(leaf.current_tunnels, leaf.configured_tunnels)
    return LeafLoad(
        connections=part_in_use(leaf.current_connections, leaf.configured_connections),
        bandwidth=router_use if bandwidth is None else bandwidth,
        tunnels=None if tunnels is None else 1 - tunnels,
        unreached=unreached / (reached + unreached) if reached + unreached else None,
    )


def entry_cost(load: LeafLoad, current_cost: int | None) -> int:
    """Return the cost, 1 to 240. `current_cost`: the leaf's cost in the present set, None for a new leaf."""
    points = load.total
    if current_cost is not None and abs(points - current_cost) <= STAYS_WITHIN:
        return current_cost
    return min(max((points + STEP // 2) // STEP * STEP, BEST), WORST)
