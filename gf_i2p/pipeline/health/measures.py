"""The measures that are judged hour by hour, and the least change of each that matters.

`floor` is the physical unit of a measure's noise: a change of one floor is never more than one spread. So a router that
has always had 4 ms of lag is no anomaly at 6 ms. Tunnels, bandwidth, peers, lag and records change by factors. These
measures are judged by the logarithm of the value plus the floor, so a small value may change by its floor unnoticed.

- Availability, 3 minutes an hour: a router restarts in that time. `alarm` is 15 minutes lost at once.
- Flaps, 1 change: a restart makes 2 changes. Three restarts within some hours are an episode.
- Records, 6 an hour: a server posts each 30 to 60 s, and posts more when its state changes.
- Job lag, 5 ms: below that, the router's timer is as coarse as the lag.
- Tunnels, 10: ten tunnels begin and end in a minute.
- Bandwidth, 4096 bytes/s: the router's own traffic (exploration, the netDb) takes about as much.
- Known peers, 50: the router drops and finds so many in an hour.
- Clock skew, 400 ms: the delay of a record through I2P changes by that much.
- Load of a leaf, 0.05: the cost has steps of 16 of 240 points, and stays within one step.
"""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Measure:
    """A figure of servers (`server_hours`) or of leaves (`destination_hours`)."""

    name: str
    """The column of the table."""
    words: str
    """Name of the figure in sentences."""
    floor: float
    """The least change that matters, in the measure's unit. See the module's text."""
    share: float | None = None
    """Least spread, as a share of the usual value. None: changes are judged as differences, not as factors."""
    leak: float = 2.0
    """Spreads that an hour may be off without any evidence."""
    alarm: float = 8.0
    """Evidence from which on an episode is told: the sum of the spreads beyond `leak` of consecutive hours."""
    most: float = 12.0
    """Most spreads that an hour counts."""
    most_high: float = 12.0
    """Most spreads that an hour above the usual value counts. A mean with a heavy tail needs a second high hour."""
    only: str | None = None
    """The side on which an hour can be odd: "low" or "high". None: both sides."""
    most_usual: float | None = None
    """Most distance of the usual value from 0: a server's past does not excuse more."""
    unit: str = ""
    scale: float = 1.0
    """Factor from the column to the figure in sentences."""
    digits: int = 0


AVAILABILITY: Final = Measure(
    "availability", "availability", 0.05, leak=1.0, alarm=4.0, only="low", unit=" %", scale=100.0, digits=1
)
FLAPS: Final = Measure("flaps", "number of changes between up and down", 1.0, leak=0.25, alarm=5.0, only="high")
OF_SERVERS: Final = (
    AVAILABILITY,
    FLAPS,
    Measure("records", "number of records an hour", 6.0, 0.1, only="low"),
    Measure("lag_ms", "job lag", 5.0, 0.2, most_high=8.0, only="high", unit=" ms"),
    Measure("tunnels", "number of participating tunnels", 10.0, 0.1),
    Measure("in_bytes_s", "inbound bandwidth", 4096.0, 0.1, most_high=8.0, unit=" bytes/s"),
    Measure("out_bytes_s", "outbound bandwidth", 4096.0, 0.1, most_high=8.0, unit=" bytes/s"),
    Measure("known_peers", "number of known peers", 50.0, 0.05),
    Measure("skew_ms", "clock skew", 400.0, most_usual=5_000.0, unit=" ms"),
)
OF_LEAVES: Final = (
    AVAILABILITY,
    FLAPS,
    Measure("load", "load", 0.05, 0.12, most_high=8.0, only="high", unit=" %", scale=100.0),
)
