"""Cost of a set's entry: 1 for an idle leaf, 240 for a full leaf; clients prefer low costs (proposal 123).

    cost = load + tunnels + unreached, in steps of 16, 1 at least

- load: up to 192 points for two parts, `connections` and `bandwidth`: the used shares of the configured limits. When
  both parts are known, each has half of the points; when one is known, that part has all points. When neither is
  known, the load counts as a quarter, `UNKNOWN_LOAD`. Where the leaf's own bandwidth is unknown, `bandwidth` is the
  used share of the router's busier direction.
- tunnels: up to 16 points for missing tunnels.
- unreached: up to 32 points for the failed share of the other servers' tries to reach the leaf.

Load is scaled to the known parts: the cost of a leaf that tells one part can rise as far as the cost of a leaf that
tells both. Missing tunnels and failed tries are penalties, and are added without scaling: one failed try must not make
a leaf the worst.

All numbers are integers. A share is in thousandths, rounded down. The points of a part, and the cost in steps, are
rounded to the nearest integer, halves up. `docs/explanation/publisher-choice.md` has a table.
"""

from dataclasses import dataclass
from typing import Final

from gf_i2p.farm.record.bandwidth import WHOLE, part_in_use
from gf_i2p.farm.record.destinations import Leaf

STEP: Final = 16
BEST: Final = 1
"""The least computed cost. Administrators may also set 0."""
WORST: Final = 240
LOAD: Final = 192
"""Most points for the load, whichever parts are known."""
UNKNOWN_LOAD: Final = LOAD // 4
"""Points for the load when neither part is known. So clients prefer idle leaves to this leaf, and this leaf to busy
leaves."""
MOST: Final = {"connections": LOAD // 2, "bandwidth": LOAD // 2, "tunnels": 16, "unreached": 32}
"""Most points of each part when both parts of the load are known."""
_HALF_LOAD, _TUNNELS, _UNREACHED = MOST["connections"], MOST["tunnels"], MOST["unreached"]
_HALF: Final = WHOLE // 2
STAYS_WITHIN: Final = 16
"""A listed leaf keeps its cost while the points differ from the cost by this at most: so noise makes no new set."""


@dataclass(slots=True)  # not frozen: freezing would double the time of `leaf_load`
class LeafLoad:
    """Load of a leaf, in thousandths of the limits, 0 to 1000; None: not known."""

    connections: int | None = None
    bandwidth: int | None = None
    tunnels: int | None = None
    """The missing share of the configured tunnels."""
    unreached: int | None = None

    @property
    def total(self) -> int:
        """The points of all known parts, and `UNKNOWN_LOAD` when the load is not known.

        Written out for speed: this runs often for each leaf.
        """
        connections, bandwidth = self.connections, self.bandwidth
        if connections is None:
            points = UNKNOWN_LOAD if bandwidth is None else (LOAD * bandwidth + _HALF) // WHOLE
        elif bandwidth is None:
            points = (LOAD * connections + _HALF) // WHOLE
        else:
            points = (_HALF_LOAD * connections + _HALF) // WHOLE + (_HALF_LOAD * bandwidth + _HALF) // WHOLE
        if self.tunnels is not None:
            points += (_TUNNELS * self.tunnels + _HALF) // WHOLE
        if self.unreached is not None:
            points += (_UNREACHED * self.unreached + _HALF) // WHOLE
        return points

    @property
    def is_known(self) -> bool:
        """Whether the connections or the bandwidth are known."""
        return self.connections is not None or self.bandwidth is not None

    def most(self) -> dict[str, int]:
        """Return the greatest number of points that each part can have, by the part's name.

        When only one of connections and bandwidth is known, that part can reach all points of the load.
        """
        both = self.connections is not None and self.bandwidth is not None
        return MOST if both else MOST | {"connections": LOAD, "bandwidth": LOAD}

    def parts(self) -> dict[str, int | None]:
        """Return the points of each part by name; None: not known."""
        points: dict[str, int | None] = {}
        for name, most in self.most().items():
            share = getattr(self, name)
            points[name] = None if share is None else (most * share + _HALF) // WHOLE
        return points


def leaf_load(leaf: Leaf, router_use: int | None, reach_counts: tuple[int, int]) -> LeafLoad:
    """Return the load of a leaf, by the numbers of its record and by the other servers' tries to reach the leaf.

    `router_use`: used share of the router's bandwidth in thousandths; None: not known; see `bandwidth_used`.
    `reach_counts`: number of servers that reached the leaf, and number of servers that failed to.
    """
    bandwidth = part_in_use(leaf.current_bandwidth, leaf.configured_bandwidth)
    reached, unreached = reach_counts
    tunnels = part_in_use(leaf.current_tunnels, leaf.configured_tunnels)
    return LeafLoad(
        connections=part_in_use(leaf.current_connections, leaf.configured_connections),
        bandwidth=router_use if bandwidth is None else bandwidth,
        tunnels=None if tunnels is None else WHOLE - tunnels,
        unreached=part_in_use(unreached, reached + unreached),
    )


def entry_cost(load: LeafLoad, current_cost: int | None) -> int:
    """Return the cost, 1 to 240. `current_cost`: the leaf's cost in the present set, None for a new leaf."""
    points = load.total
    if current_cost is not None and abs(points - current_cost) <= STAYS_WITHIN:
        return current_cost
    return min(max((points + STEP // 2) // STEP * STEP, BEST), WORST)
