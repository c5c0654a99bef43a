"""Score of a server as publisher: 0 to 1000 points, by its own record and by the other servers' records.

Each part has coarse steps, so that noise does not move the score. Only known parts count. With k points of at most m
in the known parts, of 1000 in all parts,

    score = k + 95 % of (1000 - m), rounded down

So the share of the known parts, k / m, counts by its weight, m / 1000. The unknown parts are presumed to have 95 % of
their points: the router is up and posts, and the farm knows nothing against the router. Then a healthy router has 950
to 1000 points, whichever parts are known. The difference is at most the default margin, so a healthy router that tells
little is neither preferred nor refused.

A plain share of the known parts would have larger steps, the fewer parts are known: a step of 50 points would be 333
of 1000 where only one part of 150 is known. Here a step stays 50 points. `docs/explanation/publisher-choice.md` has
the tables.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Final, Self

from gf_i2p.farm.record.bandwidth import bandwidth_used, unchecked_number
from gf_i2p.farm.record.router_facts import Reachability

MOST: Final = {
    "uptime": 150, "reachability": 200, "tunnels": 150, "job_lag": 150, "bandwidth": 150, "leaves": 100, "meta": 100,
}  # fmt: skip
"""Most points of each part."""
ALL: Final = sum(MOST.values())
"""The highest score."""
PRESUMED: Final = 95
"""Points of an unknown part, as percent of the part's most points. The other 5 %, of 1000, are the default `margin`: so
a healthy router that tells all is better than a router that tells nothing by the margin at most."""
LEAST_META: Final = 50
"""Points for a published set that no other server finds. Only the publisher's set is judged, so the publisher may lose
only 50 points here. Otherwise, with a fault that hides every server's set, publishing would go round the farm."""
_UPTIME: Final = ((6 * 3_600_000, 150), (3_600_000, 100), (600_000, 50))
_EXPLORATORY: Final = ((4, 150), (1, 100))
_REACHABILITY: Final[dict[str, int]] = {  # without `Reachability.UNKNOWN`: then the router itself does not know
    Reachability.OK: 200,
    Reachability.TESTING: 150,
    Reachability.FIREWALLED: 100,
    Reachability.WARNING: 50,
    Reachability.HIDDEN: 50,
    Reachability.ERROR: 0,
}
_LAG: Final = ((100, 150), (1000, 100), (5000, 50))
_USED: Final = ((250, 150), (500, 100), (750, 50))


@dataclass(slots=True)  # not frozen: one is made for every record
class Score:
    """A server's points, part by part; None: not known, and not counted."""

    uptime: int | None
    """Uptime of the router: 150 from six hours on, 100 from one, 50 from ten minutes."""
    reachability: int | None
    """Reachability of the router: ok 200, testing 150, firewalled 100, warning or hidden 50, error 0."""
    tunnels: int | None
    """Exploratory tunnels, through which the router reaches floodfills: 150 from four on, 100 from one, else 0."""
    job_lag: int | None
    """Job lag of the router: 150 up to 100 ms, 100 up to 1 s, 50 up to 5 s."""
    bandwidth: int | None
    """Used share of the bandwidth, in the busier direction: 150 up to a quarter, 100 up to a half, 50 up to three
    quarters."""
    leaves: int | None = None
    """Whether other servers reach the leaves, see `reached_points`."""
    meta: int | None = None
    """Whether other servers find the published set, see `found_points`. None for a server that publishes nothing."""

    @property
    def total(self) -> int:
        """The score of all parts, 0 to 1000."""
        points, most = self.sums()
        return total(points, most)

    def sums(self) -> tuple[int, int]:
        """Return the sum of the known parts' points, and the sum of the most points that these parts can have."""
        points = most = 0
        for name, most_of_part in MOST.items():
            points_of_part = getattr(self, name)
            if points_of_part is not None:
                points += points_of_part
                most += most_of_part
        return points, most

    def judged(self, leaves: int | None, meta: int | None) -> Self:
        """Return the score with the points by other servers' reports. A part without any report is None."""
        return replace(self, leaves=leaves, meta=meta)

    def parts(self) -> dict[str, int | None]:
        """Return the points of each part, by the part's name; None: not known."""
        return asdict(self)


def total(points: int, most: int) -> int:
    """Return the score, 0 to 1000, for these points of the known parts, and the most points of these parts."""
    return points + PRESUMED * (ALL - most) // 100


def own_score(router: Mapping[str, Any]) -> Score:
    """Return the score of a server by the numbers of its own record. `router`: the record's "router"."""
    reachability = router.get("reachability")
    return Score(
        uptime=_at_least(unchecked_number(router, "uptime"), _UPTIME),
        reachability=_REACHABILITY.get(reachability) if isinstance(reachability, str) else None,
        tunnels=_at_least(unchecked_number(router, "exploratoryTunnels"), _EXPLORATORY),
        job_lag=_at_most(unchecked_number(router, "jobLag"), _LAG),
        bandwidth=_at_most(bandwidth_used(router), _USED),
    )


def reached_points(reached: int, unreached: int) -> int | None:
    """Return the points for leaves: 100 when at least two thirds of the tries reach a leaf.

    50 from one third of the tries on, else 0. None without any try. `reached`, `unreached`: number of tries that
    reached a leaf, and number of tries that did not.
    """
    tries = reached + unreached
    if not tries:
        return None
    return 100 if 3 * reached >= 2 * tries else 50 if 3 * reached >= tries else 0


def found_points(found: int, missed: int) -> int | None:
    """Return the points for the published set: 100 when at least two thirds of the searches find the set.

    75 from one third of the searches on, else 50, see `LEAST_META`. None without any search.
    """
    searches = found + missed
    if not searches:
        return None
    return 100 if 3 * found >= 2 * searches else 75 if 3 * found >= searches else LEAST_META


def _at_least(value: float | None, steps: tuple[tuple[int, int], ...]) -> int | None:
    if value is None:
        return None
    for least, points in steps:
        if value >= least:
            return points
    return 0


def _at_most(value: float | None, steps: tuple[tuple[int, int], ...]) -> int | None:
    if value is None:
        return None
    for most, points in steps:
        if value <= most:
            return points
    return 0
