"""What an entry costs: 1 for an idle leaf, 240 for one that is full; clients prefer less (proposal 123).

    cost = 96 * connections + 96 * bandwidth + 16 * tunnels + 32 * unreached, in steps of 16, 1 at least

where `connections` and `bandwidth` are the parts in use of what is configured, 0 to 1 (bandwidth: the leaf's own; where
its router does not tell, the router's busier direction), `tunnels` the part of the configured tunnels that is missing,
and `unreached` the part of the servers that have tried to reach it and could not. What nobody tells costs nothing.
"""

from dataclasses import dataclass
from typing import Final

from gf_i2p.farm.record.bandwidth import part_in_use
from gf_i2p.farm.record.destinations import Leaf
from gf_i2p.farm.strict_json import known

STEP: Final = 16
BEST: Final = 1
"""0 is left to administrators."""
WORST: Final = 240
WEIGHTS: Final = {"connections": 96, "bandwidth": 96, "tunnels": 16, "unreached": 32}
_CONNECTIONS, _BANDWIDTH, _TUNNELS, _UNREACHED = WEIGHTS.values()
STAYS_WITHIN: Final = 16
"""A listed leaf keeps its cost while the reckoned one is no further away: noise makes no new set."""


@dataclass(slots=True)  # not frozen, which takes as long as all else here
class Load:
    """How busy a leaf is: parts of what it could bear, 0 to 1; None: nobody tells."""

    connections: float | None = None
    bandwidth: float | None = None
    tunnels: float | None = None
    """The part that is missing."""
    unreached: float | None = None

    @property
    def total(self) -> int:
        """The sum of `points`: reckoned for each leaf again and again."""
        found = 0
        if self.connections is not None:
            found += round(_CONNECTIONS * self.connections)
        if self.bandwidth is not None:
            found += round(_BANDWIDTH * self.bandwidth)
        if self.tunnels is not None:
            found += round(_TUNNELS * self.tunnels)
        if self.unreached is not None:
            found += round(_UNREACHED * self.unreached)
        return found

    @property
    def points(self) -> dict[str, int]:
        """What each part adds, of those that are known."""
        parts = {name: getattr(self, name) for name in WEIGHTS}
        return {name: round(WEIGHTS[name] * part) for name, part in known(parts).items()}


def load(leaf: Leaf, used: float | None, seen: tuple[int, int]) -> Load:
    """Say how busy a leaf is.

    `used`: which part of its bandwidth its router uses, see `bandwidth_used`. `seen`: by how many servers it was
    reached, and not.
    """
    bandwidth = part_in_use(leaf.current_bandwidth, leaf.configured_bandwidth)
    reached, unreached = seen
    tunnels = part_in_use(leaf.current_tunnels, leaf.configured_tunnels)
    return Load(
        connections=part_in_use(leaf.current_connections, leaf.configured_connections),
        bandwidth=used if bandwidth is None else bandwidth,
        tunnels=None if tunnels is None else 1 - tunnels,
        unreached=unreached / (reached + unreached) if reached + unreached else None,
    )


def reckoned(of: Load, current: int | None) -> int:
    """Return the cost, 1 to 240. `current`: what it costs in the present set, if it is listed there."""
    points = of.total
    if current is not None and abs(points - current) <= STAYS_WITHIN:
        return current
    return min(max((points + STEP // 2) // STEP * STEP, BEST), WORST)
