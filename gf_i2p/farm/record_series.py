"""The numbers of each server's records over time, for charts: a day, at most one sample a minute.

The samples follow from the records that this node has applied since its start. No choice depends on them.
"""

from collections import deque
from collections.abc import Collection
from typing import Any, Final, NamedTuple

from gf_i2p.farm.record.status_record import StatusRecord

MOST: Final = 1440
"""Most samples of one server."""
STEP_MS: Final = 60_000
"""Least ms between two samples of one server."""
_FIELDS: Final = {
    "uptime_ms": "uptime",
    "inbound": "currentInboundBandwidth",
    "outbound": "currentOutboundBandwidth",
    "tunnels": "participatingTunnels",
    "job_lag_ms": "jobLag",
}


class Sample(NamedTuple):
    """The numbers of one record; None: the router does not report the number."""

    date_ms: int
    """Farm time when the record was applied, or the record's own date while no farm time is known."""
    clock_ms: int | None
    """The record's date minus farm time, in ms: about zero while the server's clock is right."""
    uptime_ms: float | None
    inbound: float | None
    """Bytes per second, as for `outbound`."""
    outbound: float | None
    tunnels: float | None
    """Number of participating tunnels."""
    job_lag_ms: float | None


class RecordSeries:
    """The samples of all servers of one farm."""

    def __init__(self) -> None:
        self._samples: dict[int, deque[Sample]] = {}
        self._last: StatusRecord | None = None

    def take(self, record: StatusRecord | None, now_ms: int | None) -> None:
        """Take the server's record that was applied last, if it is another one than before. `now_ms`: farm time."""
        if record is self._last or record is None:
            return
        self._last = record
        samples = self._samples.setdefault(record.id, deque(maxlen=MOST))
        date_ms = record.date_ms if now_ms is None else now_ms
        if samples and date_ms - samples[-1].date_ms < STEP_MS:
            return
        clock_ms = None if now_ms is None else record.date_ms - now_ms
        numbers = {name: _number(record.router.get(field)) for name, field in _FIELDS.items()}
        samples.append(Sample(date_ms, clock_ms, **numbers))

    def keep(self, servers: Collection[int]) -> None:
        """Forget the servers that are gone."""
        for server in self._samples.keys() - set(servers):
            del self._samples[server]

    def of(self, server: int, most: int = MOST) -> list[Sample]:
        """Return up to `most` samples of a server, evenly taken, the oldest first."""
        samples = list(self._samples.get(server, ()))
        step = -(-len(samples) // most) if samples else 1
        return samples[(len(samples) - 1) % step :: step]


def _number(value: Any) -> float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None
