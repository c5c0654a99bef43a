"""The data of the page: small, however large the lake is. `gather` makes the data, and the page sees nothing else.

A field is None when its table is missing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from gf_i2p.pipeline.backtest.result_rows import BacktestRow
from gf_i2p.pipeline.days import DAY_MS, HOUR_MS
from gf_i2p.pipeline.health.episodes import Episode

MAX_FARMS: Final = 20
MAX_SERVERS: Final = 32
"""Most servers and leaf members of one farm. Those with the lowest ids count."""
MAX_LEAVES: Final = 24
"""Most leaves of one farm: those with the most records."""
MAX_STRETCHES: Final = 84
"""Most stretches of time in a chart: a year of ten farms fits into 1 MB."""
MAX_TURNS: Final = 1000
"""Most changes of leader, or of publisher."""
MAX_EPISODES: Final = 400
"""Most episodes of one farm."""
MAX_SETS: Final = 12
"""Most sets of parameters in the table of the backtest."""
MAX_HASHES: Final = 12
"""Most hashes in the table of floodfills."""
MAX_REASONS: Final = 20
_STRETCHES: Final = (
    *(HOUR_MS * hours for hours in (1, 2, 3, 4, 6, 8, 12)),
    *(DAY_MS * days for days in (1, 2, 3, 5, 7, 14, 28)),
)

Series: TypeAlias = Mapping[int, Mapping[str, Any]]
"""Figures by the number of the stretch. A figure is None where nothing is known."""


@dataclass(frozen=True, slots=True)
class Period:
    """A period, in milliseconds since the epoch. `until_ms` is after `since_ms`."""

    since_ms: int
    until_ms: int

    @property
    def length_ms(self) -> int:
        """Length of the period."""
        return self.until_ms - self.since_ms

    @property
    def hour_ms(self) -> int:
        """Start of the hour in which the period begins. The stretches begin here."""
        return self.since_ms - self.since_ms % HOUR_MS

    @property
    def stretch_ms(self) -> int:
        """Length of a stretch, in ms: full hours or days. The period has at most `MAX_STRETCHES` stretches."""
        length = self.until_ms - self.hour_ms
        weeks = -(-length // (MAX_STRETCHES * 7 * DAY_MS))
        return next((each for each in _STRETCHES if length <= each * MAX_STRETCHES), weeks * 7 * DAY_MS)

    @property
    def stretches(self) -> int:
        """Number of stretches."""
        return -(-(self.until_ms - self.hour_ms) // self.stretch_ms)


@dataclass(frozen=True, slots=True)
class Turn:
    """The beginning of one server's time as leader, or as publisher."""

    at_ms: int
    who: int | None
    """The server; None: from then on no server led, or published."""


@dataclass(frozen=True, slots=True)
class Turns:
    """The newest turns, and the number of all changes in the period. The last turn lasts until the period's end."""

    turns: Sequence[Turn] = ()
    changes: int = 0


@dataclass(frozen=True, slots=True)
class FarmReport:
    """The data of one farm."""

    name: str
    entries: int
    period: Period
    led: Turns | None = None
    published: Turns | None = None
    """None: the last backtest was of other farms, or there was none."""
    costs: Mapping[str, Sequence[int | None]] | None = None
    """Cost of each leaf in each stretch, by the leaf's hash. None in a stretch: the leaf is not listed."""
    servers: Mapping[int, Series] | None = None
    """Figures of each server: those of `server_hours`; "hours" is the number of hours."""
    servers_total: int = 0
    leaves: Mapping[str, Series] | None = None
    """Figures of each leaf, by its hash: those of `destination_hours`."""
    leaves_total: int = 0
    episodes: Sequence[Episode] | None = None
    episodes_total: int = 0
    silent: frozenset[tuple[int, int]] = frozenset()
    """Server and beginning (ms) of the hours in which the server was silent, not its router down."""
    trials: Sequence[BacktestRow] | None = None
    """Rows of the table `backtest`: the live set, the recommended one, then the cheapest others."""
    trials_total: int = 0


@dataclass(frozen=True, slots=True)
class TableSize:
    """Files and bytes of one table of the lake."""

    name: str
    is_there: bool
    files: int | None = None
    """None where this process cannot see Spark's files."""
    bytes: int | None = None
    """Bytes on the disk; None as for `files`."""


@dataclass(frozen=True, slots=True)
class Report:
    """The data of the whole report."""

    made_ms: int
    farms: Sequence[FarmReport]
    farms_total: int
    entries_total: int
    closest: Sequence[Mapping[str, Any]] | None
    """A row for each hash and day: hash, name, day, the closest floodfill, the nearest and the farthest distance (64
    hexadecimal digits), and the number of floodfills."""
    reasons: Sequence[Mapping[str, Any]] | None
    """The most frequent reasons of the quarantine: what, reason, number of pieces, and their length in bytes."""
    sizes: Sequence[TableSize]
    hashes_total: int = 0
    quarantined: int = 0
    """Rows in quarantine."""
    strange_clocks: int = 0
    """Entries that were received before 2020 or in the future, by their node's clock: these do not count."""
