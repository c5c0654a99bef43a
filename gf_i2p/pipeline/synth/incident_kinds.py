"""The kinds of incidents that labelled farms have. Each kind changes a farm's course between two minutes."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from gf_i2p.simulator.life.reporters import CONNECTIONS

Numbers: TypeAlias = NDArray[np.float64]
Flags: TypeAlias = NDArray[np.bool_]
SERVER: Final = "server"
LEAF: Final = "leaf"
FARM: Final = "farm"


@dataclass(slots=True)
class LeafCourse:
    """A leaf's values, minute by minute."""

    hash: bytes
    up: Flags
    connections: Numbers


@dataclass(slots=True)
class PosterCourse:
    """The values of a server or leaf member, minute by minute."""

    id: int
    posts: Flags
    """Whether a record of the minute reaches the farm's log."""
    up: Flags
    clock_ms: Numbers
    """Milliseconds that the poster's clock is ahead."""
    router: dict[str, Numbers]
    """The router's numbers, by their names in the record."""
    leaves: list[LeafCourse]


@dataclass(frozen=True, slots=True)
class Stretch:
    """The minutes of an incident, and how strong the incident is."""

    chance: np.random.Generator
    first: int
    last: int
    """The first minute after the incident."""
    severity: float
    """Power of each factor, above 0: 1 for plain incidents, less for weaker incidents."""

    @property
    def minutes(self) -> slice:
        """The minutes of the incident."""
        return slice(self.first, self.last)

    def factor(self, low: float, high: float) -> float:
        """Draw a factor between two positive factors."""
        return float(np.exp(self.chance.uniform(np.log(low), np.log(high)) * self.severity))

    def pauses(self, every: tuple[int, int], lasts: tuple[int, int]) -> Iterator[slice]:
        """Yield the minutes of short pauses. Both ranges are in minutes, from the least to the most."""
        at = self.first
        while at < self.last:
            end = at + int(self.chance.integers(*lasts, endpoint=True))
            yield slice(at, end)
            at = end + int(self.chance.integers(*every, endpoint=True))


Change: TypeAlias = Callable[[list[PosterCourse], LeafCourse | None, Stretch], None]


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of incident."""

    name: str
    scope: str
    """`SERVER`, `LEAF` or `FARM`: the incident happens to a server, to a leaf, or to all servers at once."""
    hours: tuple[float, float]
    """Range of the duration."""
    measures: tuple[str, ...]
    """Measures of the table `anomalies`, one of which should show the incident."""
    change: Change
    """Called with the posters (one for `SERVER` and `LEAF`), the leaf for `LEAF`, and the minutes."""


def _scaled(low: float, high: float, *names: str, is_slow: bool = False) -> Change:
    """Return a change that multiplies numbers of the router by one factor. `is_slow`: begin at 1, and end there."""

    def change(posters: list[PosterCourse], _: LeafCourse | None, stretch: Stretch) -> None:
        factor = stretch.factor(low, high)
        factors = np.geomspace(1.0, factor, stretch.last - stretch.first) if is_slow else factor
        for poster in posters:
            for name in names:
                poster.router[name][stretch.minutes] *= factors

    return change


def _silence(posters: list[PosterCourse], _: LeafCourse | None, stretch: Stretch) -> None:
    for poster in posters:
        poster.posts[stretch.minutes] = False


def _router_down(posters: list[PosterCourse], _: LeafCourse | None, stretch: Stretch) -> None:
    for poster in posters:
        poster.up[stretch.minutes] = False


def _restarts(every: tuple[int, int], lasts: tuple[int, int]) -> Change:
    def change(posters: list[PosterCourse], _: LeafCourse | None, stretch: Stretch) -> None:
        for poster in posters:
            for pause in stretch.pauses(every, lasts):
                poster.up[pause] = False

    return change


def _clock_drifts(posters: list[PosterCourse], _: LeafCourse | None, stretch: Stretch) -> None:
    sign = stretch.chance.choice([-1, 1])
    an_hour = stretch.chance.uniform(100, 400) * stretch.severity
    posters[0].clock_ms[stretch.minutes] += sign * an_hour * np.arange(stretch.last - stretch.first) / 60


def _clock_steps(posters: list[PosterCourse], _: LeafCourse | None, stretch: Stretch) -> None:
    sign = stretch.chance.choice([-1, 1])
    posters[0].clock_ms[stretch.minutes] += sign * 5_000 * stretch.factor(1.0, 20.0)


def _loses_records(posters: list[PosterCourse], _: LeafCourse | None, stretch: Stretch) -> None:
    lost = stretch.chance.random(stretch.last - stretch.first) < stretch.chance.uniform(0.6, 0.85) * stretch.severity
    posters[0].posts[stretch.minutes] &= ~lost


def _leaf_flaps(_: list[PosterCourse], leaf: LeafCourse | None, stretch: Stretch) -> None:
    assert leaf is not None
    for pause in stretch.pauses((3, 15), (1, 5)):
        leaf.up[pause] = False


def _leaf_dies(_: list[PosterCourse], leaf: LeafCourse | None, stretch: Stretch) -> None:
    assert leaf is not None
    leaf.up[stretch.minutes] = False
    leaf.connections[stretch.minutes] = 0


def _leaf_is_full(_: list[PosterCourse], leaf: LeafCourse | None, stretch: Stretch) -> None:
    assert leaf is not None
    free = CONNECTIONS - leaf.connections[stretch.minutes]
    leaf.connections[stretch.minutes] += free * stretch.chance.uniform(0.7, 1.0) * stretch.severity


_TUNNELS, _IN, _OUT = "participatingTunnels", "currentInboundBandwidth", "currentOutboundBandwidth"
_LAG, _PEERS = "jobLag", "knownPeers"
_GONE = ("availability", "records")

KINDS: Final = (
    Kind("silence", SERVER, (1, 6), _GONE, _silence),
    Kind("router down", SERVER, (1, 6), _GONE, _router_down),
    Kind("router restarts", SERVER, (5, 12), ("flaps", "availability"), _restarts((30, 60), (2, 5))),
    Kind("router flaps", SERVER, (2, 4), ("flaps", "availability"), _restarts((3, 12), (1, 3))),
    Kind("records are lost", SERVER, (4, 12), _GONE, _loses_records),
    Kind("clock drifts", SERVER, (24, 96), ("skew_ms",), _clock_drifts),
    Kind("clock steps", SERVER, (4, 30), ("skew_ms",), _clock_steps),
    Kind("job lag", SERVER, (3, 8), ("lag_ms",), _scaled(8, 20, _LAG)),
    Kind("tunnels drop", SERVER, (3, 12), ("tunnels",), _scaled(0.05, 0.3, _TUNNELS)),
    Kind("tunnels surge", SERVER, (3, 12), ("tunnels",), _scaled(2.5, 4, _TUNNELS)),
    Kind("tunnels stay low", SERVER, (72, 144), ("tunnels",), _scaled(0.4, 0.6, _TUNNELS)),
    Kind("inbound collapses", SERVER, (3, 12), ("in_bytes_s",), _scaled(0.02, 0.2, _IN)),
    Kind("outbound collapses", SERVER, (3, 12), ("out_bytes_s",), _scaled(0.02, 0.2, _OUT)),
    Kind("inbound flood", SERVER, (2, 8), ("in_bytes_s",), _scaled(4, 10, _IN)),
    Kind("peers drop", SERVER, (6, 48), ("known_peers",), _scaled(0.2, 0.6, _PEERS)),
    Kind("peers leak", SERVER, (72, 144), ("known_peers",), _scaled(0.3, 0.5, _PEERS, is_slow=True)),
    Kind("leaf flaps", LEAF, (2, 5), ("flaps", "availability"), _leaf_flaps),
    Kind("leaf dies", LEAF, (1, 12), ("availability",), _leaf_dies),
    Kind("leaf is full", LEAF, (3, 10), ("load",), _leaf_is_full),
    Kind("farm is silent", FARM, (1, 3), _GONE, _silence),
    Kind("farm loses traffic", FARM, (3, 8), ("tunnels", "in_bytes_s", "out_bytes_s"),
         _scaled(0.1, 0.35, _TUNNELS, _IN, _OUT)),
    Kind("farm is flooded", FARM, (3, 8), ("in_bytes_s", "out_bytes_s"), _scaled(3, 6, _IN, _OUT)),
)  # fmt: skip
