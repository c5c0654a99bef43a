"""Farm time: the time by the log alone, the same on every server that has applied the same entries.

The farm compares farm time with the dates of records. Farm time may fall, for example when the clock of the first
server to post was ahead. So a stopwatch, which only goes forward, measures durations.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, Self

from gf_i2p.farm.strict_json import MAX_DATE_MS, integer, integer_or_none

_STEPS: Final = 2
"""One step of farm time moves the stopwatch by at most `fresh_ms` divided by this."""


def farm_time_ms(dates: Iterable[int], servers: int | None = None) -> int | None:
    """Return the upper median of the servers' newest dates, in ms; None until half of the servers have posted.

    As long as most clocks are right, a wrong clock cannot make another server look dead.

    Args:
        dates: the newest date of each server that has posted, in ms since the epoch.
        servers: the number of servers; None: as many as dates. A server without a post counts as the oldest date. So a
            new farm does not at once believe a clock that is ahead.
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
        self._high_ms: int | None = None  # the farm time up to which the stopwatch has counted

    def update(
        self, dates: Iterable[int], servers: int | None = None, *, fresh_ms: int, ahead_ms: int, joined: bool = False
    ) -> None:
        """Compute farm time from the newest dates, and move the stopwatch forward as farm time rises.

        - One rise moves the stopwatch by `fresh_ms` / 2 at most. So a silence of the whole farm does not count as a
          silence of one leaf. In a farm of two servers, a jump of one clock makes no record too old.
        - After a fall of up to `ahead_ms`, the stopwatch waits until farm time has reached the earlier value again.
          Otherwise each swing of farm time would count.
        - After a greater fall, the earlier farm time was wrong. The stopwatch goes on from the new farm time.

        Args:
            dates: see `farm_time_ms`.
            servers: see `farm_time_ms`.
            fresh_ms: greatest age of a newest record.
            ahead_ms: how far a record may be ahead of farm time.
            joined: whether one of the dates is the first of its server. Then the stopwatch stands still, because the
                new date alone can move the median. In a new farm, farm time may follow first one wrong clock and then
                another, until most servers have posted.
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
        """Return the clock for a snapshot, without `now_ms`, which follows from the records."""
        return {"passed": self.passed_ms, "high": self._high_ms}

    @classmethod
    def parse(cls, snapshot: Mapping[str, Any], dates: Iterable[int], servers: int) -> Self:
        """Read the clock of a snapshot; `dates` and `servers` as in `farm_time_ms`. Raises `RecordError`."""
        clock = cls()
        clock.now_ms = farm_time_ms(dates, servers)
        clock.passed_ms = integer(snapshot, "passed", MAX_DATE_MS)
        clock._high_ms = integer_or_none(snapshot, "high")
        return clock
