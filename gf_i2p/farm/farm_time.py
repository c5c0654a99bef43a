"""Farm time: the time by the log alone, the same on every server that has applied the same entries.

`now_ms` compares with the dates of records. It may fall, as when the first poster's clock was ahead. So durations are
measured by a stopwatch, which only goes forward.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, Self

from gf_i2p.farm.strict_json import MAX_DATE_MS, whole, whole_or_none

_STEPS: Final = 2
"""One step of farm time moves the stopwatch by at most `fresh_ms` divided by this."""


def farm_time_ms(dates: Iterable[int], servers: int | None = None) -> int | None:
    """Return the upper median of the newest dates of a farm's servers, in ms; None while less than half have posted.

    One wrong clock cannot make the other servers look dead, as long as most clocks are right. `servers`: number of
    servers;
    None: as many as dates. A server without a post counts as the oldest: so a new farm does not believe a clock that is
    ahead at once.
    """
    in_order = sorted(dates)
    servers = len(in_order) if servers is None else servers
    middle = len(in_order) - servers + servers // 2
    return in_order[middle] if 0 <= middle < len(in_order) else None


class FarmClock:
    """Farm time, and a stopwatch for it."""

    def __init__(self) -> None:
        self.now_ms: int | None = None
        """Farm time, in ms since the epoch; None while too few servers have posted."""
        self.passed_ms = 0
        """The stopwatch: ms for which this farm has been at work. The stopwatch stands still while no server posts."""
        self._high_ms: int | None = None  # the farm time at which the stopwatch stands

    def look(
        self, dates: Iterable[int], servers: int | None = None, *, fresh_ms: int, ahead_ms: int, joined: bool = False
    ) -> None:
        """Set farm time by these newest dates, see `farm_time_ms`, and move the stopwatch.

        `joined`: whether one of the dates is the first of its server. Then farm time has another measure, and the
        stopwatch stands still: a new farm may believe two wrong clocks, one after the other, before most of its servers
        have posted.

        One step moves the stopwatch by half of `fresh_ms` at most: a long silence of the whole farm is no silence of
        one leaf, and a jump of one clock of two makes nothing old. After a fall of up to `ahead_ms` the stopwatch waits
        until farm time is back; otherwise time that goes to and fro would count each time. After a greater fall the
        earlier time was wrong.
        """
        now = farm_time_ms(dates, servers)
        self.now_ms = now
        if now is None:
            return
        if self._high_ms is None or now < self._high_ms - ahead_ms:
            self._high_ms = now
        elif now > self._high_ms:
            self.passed_ms += 0 if joined else min(now - self._high_ms, fresh_ms // _STEPS)
            self._high_ms = now

    def encode(self) -> dict[str, Any]:
        """Give the clock for a snapshot; `now_ms` follows from the records."""
        return {"passed": self.passed_ms, "high": self._high_ms}

    @classmethod
    def parse(cls, found: Mapping[str, Any], dates: Iterable[int], servers: int) -> Self:
        """Read the clock of a snapshot. Raises `RecordError`."""
        made = cls()
        made.now_ms = farm_time_ms(dates, servers)
        made.passed_ms = whole(found, "passed", MAX_DATE_MS)
        made._high_ms = whole_or_none(found, "high")
        return made
