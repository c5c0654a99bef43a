"""The data of the charts: small, however large the lake is. `gather` makes the data, and the charts see nothing else.

A field is None when its table is missing; `MADE_BY` names the job that makes the table.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from gf_i2p.pipeline.report.formats import DAY_MS, HOUR_MS

MAX_FARMS: Final = 8
MAX_SERVERS: Final = 32
"""Most servers of one farm in a chart."""
MAX_LEAVES: Final = 24
"""Most leaves of one farm in a chart."""
MAX_CELLS: Final = 120
"""Most stretches of time in a heat map."""
MAX_STEPS: Final = 240
"""Most stretches of time in a line."""
MAX_TURNS: Final = 1000
"""Most changes of leader, or of publisher, in a timeline."""
MAX_ANOMALIES: Final = 40
MAX_SETS: Final = 12
"""Most sets of parameters in the table of the backtest."""
MAX_HASHES: Final = 12
"""Most hashes whose floodfills are drawn."""
MAX_REASONS: Final = 20
MADE_BY: Final = {
    "entries": "ingest",
    "decisions": "backtest",
    "backtest": "backtest",
    "backtest_days": "backtest",
    "server_hours": "health",
    "destination_hours": "health",
    "anomalies": "health",
    "closest": "floodfills",
    "quarantine": "ingest",
    "files": "ingest",
    "routers": "floodfills",
    "alerts": "stream",
}
"""The job that makes each table."""
_STRETCHES: Final = (
    *(HOUR_MS * hours for hours in (1, 2, 3, 4, 6, 12)),
    *(DAY_MS * days for days in (1, 2, 7, 14, 28)),
)


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
        """Start of the hour in which the period begins: hourly figures are cut into stretches from there on."""
        return self.since_ms - self.since_ms % HOUR_MS

    def stretch_ms(self, most: int) -> int:
        """Return the length of a stretch, in ms, so that the period has at most `most` stretches.

        A stretch is full hours, days or weeks.
        """
        for stretch in _STRETCHES:
            if self.length_ms <= stretch * most:
                return stretch
        weeks = -(-self.length_ms // (most * 7 * DAY_MS))
        return weeks * 7 * DAY_MS


@dataclass(frozen=True, slots=True)
class Turn:
    """The beginning of one server's time as leader, or as publisher."""

    at_ms: int
    who: int | None
    """The server; None: from then on no server led, or published."""


@dataclass(frozen=True, slots=True)
class Timeline:
    """The leaders and publishers by time. The last leader and the last publisher stay until the end of the period."""

    led: Sequence[Turn] = ()
    published: Sequence[Turn] | None = ()
    """The changes of publisher; None: the lake has no decisions of this farm."""
    led_changes: int = 0
    """All changes of leader in the period. Of more than `MAX_TURNS`, only the newest are drawn."""
    published_changes: int = 0
    """All changes of publisher in the period, drawn in the same way."""


@dataclass(frozen=True, slots=True)
class Cell:
    """The figures of one server in one stretch of time of a heat map."""

    availability: float
    records: int
    flaps: int


@dataclass(frozen=True, slots=True)
class HeatRow:
    """One server's row of a heat map."""

    server: int
    availability: float
    """Mean availability over the server's hours, 0 to 1."""
    records: int
    flaps: int
    longest_gap_ms: int
    cells: Mapping[int, Cell]
    """Cells by the number of the stretch."""


@dataclass(frozen=True, slots=True)
class Heat:
    """A heat map: the availability of servers over time."""

    stretch_ms: int
    rows: Sequence[HeatRow]
    others: int = 0
    """Servers that are not drawn."""
    others_availability: float | None = None
    servers: int = 0
    """Servers of the farm, drawn or not, without leaf members."""
    servers_availability: float | None = None
    """Mean availability of these servers, 0 to 1."""


@dataclass(frozen=True, slots=True)
class Line:
    """A figure of a leaf over time."""

    name: str
    values: Sequence[float | None]
    """A value for each stretch; None: nothing is known, or the leaf is not listed."""


@dataclass(frozen=True, slots=True)
class SmallLines:
    """A chart of several leaves: one small line for each leaf, one below the other."""

    stretch_ms: int
    lines: Sequence[Line]
    others: int = 0


@dataclass(frozen=True, slots=True)
class AnomalyRow:
    """An episode: a stretch of hours unlike the past of a server, of a leaf, or of the whole farm."""

    subject: str
    """"server", "leaf", "pair" (one of two servers), "farm" or "leaves" (those of most servers)."""
    servers: Sequence[int]
    """Servers and leaf members at which the episode was seen."""
    measure: str
    begin_ms: int
    end_ms: int
    hours: int
    score: float
    """Distance of the oddest hour from the usual value, in spreads."""
    text: str


@dataclass(frozen=True, slots=True)
class Anomalies:
    """The strongest anomalies, and how many there are."""

    strongest: Sequence[AnomalyRow]
    total: int


@dataclass(frozen=True, slots=True)
class TrialRow:
    """Results of the replay with one set of parameters."""

    parameters: str
    """Values that the set fixes, as JSON."""
    live: bool
    outage_ms: int
    changes: int
    unneeded: int
    stale_ms: int
    missing_ms: int
    set_changes: int
    imbalance: float | None
    cost: float | None
    """Seconds of outage a day."""
    gain: str = ""
    """The gain on the held-out days with its interval, in words; empty: not known."""
    recommended: bool = False
    advice: str = ""
    """Of the live set: the recommendation in words."""
    in_force: str = ""
    """All parameters at the end of the log, as JSON; of the live set, these are the farm's parameters."""


@dataclass(frozen=True, slots=True)
class Backtest:
    """Results with the live parameters, and with the best other sets."""

    trials: Sequence[TrialRow]
    total: int


@dataclass(frozen=True, slots=True)
class FarmReport:
    """The data of one farm."""

    name: str
    entries: int
    period: Period
    timeline: Timeline | None = None
    heat: Heat | None = None
    weights: SmallLines | None = None
    loads: SmallLines | None = None
    anomalies: Anomalies | None = None
    backtest: Backtest | None = None


@dataclass(frozen=True, slots=True)
class Near:
    """A floodfill near a hash."""

    rank: int
    floodfill: str
    distance: str
    """64 hexadecimal digits."""
    profile: Mapping[str, str] = field(default_factory=dict)

    @property
    def equal_bits(self) -> int:
        """Number of first bits that the floodfill's hash shares with the routing key; 0 for a malformed `distance`."""
        try:
            return min(max(256 - int(self.distance, 16).bit_length(), 0), 256)
        except ValueError:
            return 0

    @property
    def closeness(self) -> float:
        """256 minus the binary logarithm of the distance, 0 to 256: finer than `equal_bits`."""
        try:
            distance = int(self.distance, 16)
        except ValueError:
            return 0.0
        if distance < 1:
            return 256.0 if distance == 0 else 0.0
        bits = distance.bit_length()  # a float holds only the first of 256 bits
        return max(257 - bits - math.log2((distance << 64 >> bits) / 2**63), 0.0)


@dataclass(frozen=True, slots=True)
class Closest:
    """The closest floodfills of a hash, by day."""

    hash: str
    name: str
    days: Mapping[str, Sequence[Near]]


@dataclass(frozen=True, slots=True)
class Floodfills:
    """The closest floodfills of all hashes that are drawn."""

    hashes: Sequence[Closest]
    others: int = 0


@dataclass(frozen=True, slots=True)
class Reason:
    """A reason why records are in quarantine."""

    what: str
    reason: str
    count: int
    length: int
    """Bytes of all these records, lines or files."""


@dataclass(frozen=True, slots=True)
class Quarantine:
    """Records, lines and files that did not fit, by reason."""

    reasons: Sequence[Reason]
    total: int
    kinds: int
    """Number of reasons."""


@dataclass(frozen=True, slots=True)
class TableSize:
    """Rows, files and bytes of one table of the lake."""

    name: str
    rows: int | None
    """None: the table does not exist."""
    files: int | None = None
    bytes: int | None = None
    """Bytes on the disk; None where this process cannot see Spark's files."""


@dataclass(frozen=True, slots=True)
class Report:
    """The data of the whole report."""

    made_ms: int
    lake: str
    farms: Sequence[FarmReport]
    farms_total: int
    entries_total: int
    floodfills: Floodfills | None
    quarantine: Quarantine | None
    sizes: Sequence[TableSize]
    strange_clocks: int = 0
    """Entries that were received before 2020 or in the future, by their node's clock: these are not drawn."""
