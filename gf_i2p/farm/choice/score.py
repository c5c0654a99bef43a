"""Score of a server as publisher: 0 to 1000 points, by its own record and by the other servers' records.

Each part has coarse steps, so that noise does not move the score. An unknown value gets half the points, so a
router that reports fewer values is not worse. `docs/publisher-choice.md` has the table.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from gf_i2p.farm.record.bandwidth import bandwidth_used, unchecked_number
from gf_i2p.farm.record.router_facts import Reachability

MOST: Final = {
    "uptime": 150, "reachability": 200, "tunnels": 150, "job_lag": 150, "bandwidth": 150, "leaves": 100, "meta": 100,
}  # fmt: skip
"""Most points of each part; half of them when the value is unknown."""
OTHERS: Final = (MOST["leaves"] + MOST["meta"]) // 2
"""Points for the other servers' judgement when no server has judged."""
_UPTIME: Final = ((6 * 3_600_000, 150), (3_600_000, 100), (600_000, 50))
_EXPLORATORY: Final = ((4, 150), (1, 100))
_REACHABILITY: Final = {
    Reachability.OK: 200,
    Reachability.TESTING: 150,
    Reachability.UNKNOWN: 100,
    Reachability.FIREWALLED: 100,
    Reachability.WARNING: 50,
    Reachability.HIDDEN: 50,
    Reachability.ERROR: 0,
}
_LAG: Final = ((100, 150), (1000, 100), (5000, 50))
_USED: Final = ((0.25, 150), (0.5, 100), (0.75, 50))


@dataclass(slots=True)  # not frozen: one is made for every record
class Score:
    """A server's points, part by part."""

    uptime: int
    """Uptime of the router: 150 from six hours on, 100 from one, 50 from ten minutes."""
    reachability: int
    """Reachability of the router: ok 200, testing 150, unknown or firewalled 100, warning or hidden 50, error 0."""
    tunnels: int
    """Exploratory tunnels, through which the router reaches floodfills: 150 from four on, 100 from one, else 0."""
    job_lag: int
    """Job lag of the router: 150 up to 100 ms, 100 up to 1 s, 50 up to 5 s."""
    bandwidth: int
    """Used part of the bandwidth, in the busier direction: 150 up to a quarter, 100 up to a half, 50 up to three
    quarters."""
    leaves: int = MOST["leaves"] // 2
    """Whether other servers reach the leaves: 100 when two thirds of the tries succeed, 50 when one third, else 0."""
    meta: int = MOST["meta"] // 2
    """Whether other servers find the published set: steps as for `leaves`. 50 for a server that publishes nothing."""

    @property
    def total(self) -> int:
        """The sum of all parts, 0 to 1000."""
        return self.uptime + self.reachability + self.tunnels + self.job_lag + self.bandwidth + self.leaves + self.meta

    def parts(self) -> dict[str, int]:
        """Return the points of each part, by the part's name."""
        return asdict(self)


def own_score(router: Mapping[str, Any]) -> Score:
    """Judge a server by the numbers of its own record."""
    reachability = router.get("reachability")
    return Score(
        uptime=_at_least(unchecked_number(router, "uptime"), _UPTIME, "uptime"),
        reachability=_REACHABILITY[Reachability(reachability)]
        if isinstance(reachability, str) and reachability in _KNOWN
        else MOST["reachability"] // 2,
        tunnels=_at_least(unchecked_number(router, "exploratoryTunnels"), _EXPLORATORY, "tunnels"),
        job_lag=_at_most(unchecked_number(router, "jobLag"), _LAG, "job_lag"),
        bandwidth=_at_most(bandwidth_used(router), _USED, "bandwidth"),
    )


def share(good: int, bad: int) -> int:
    """Return the points of a part that other servers judge, for this many good and bad reports: 0, 50 or 100."""
    tries = good + bad
    if not tries:
        return 50
    return 100 if 3 * good >= 2 * tries else 50 if 3 * good >= tries else 0


_KNOWN: Final = frozenset(Reachability)


def _at_least(value: float | None, steps: tuple[tuple[float, int], ...], name: str) -> int:
    if value is None:
        return MOST[name] // 2
    for least, points in steps:
        if value >= least:
            return points
    return 0


def _at_most(value: float | None, steps: tuple[tuple[float, int], ...], name: str) -> int:
    if value is None:
        return MOST[name] // 2
    for most, points in steps:
        if value <= most:
            return points
    return 0
