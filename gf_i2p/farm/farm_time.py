"""Farm time: what time it is by the log alone, the same on every server that has applied as much of it.

`now_ms` compares with dates in records. It may fall, as when the first to post had a clock that was ahead; so how long
something has lasted is measured by a stopwatch beside it, which only ever goes forward.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, Self

from gf_i2p.farm.strict_json import MAX_DATE_MS, whole, whole_or_none

_STEPS: Final = 2
"""The stopwatch goes on by up to this part of the time for which a record is fresh, whatever farm time does."""


def farm_time_ms(dates: Iterable[int], servers: int | None = None) -> int | None:
    """Return the upper median of the newest dates of a farm's servers, in ms; None while less than half have posted.

    One wrong clock cannot make the others look dead, as long as most are right. `servers`: how many there are; None: as
    many as dates. Who has not posted counts as the oldest: in a new farm a clock that is ahead is not believed at once.
    """
    in_order = sorted(dates)
    servers = len(in_order) if servers is None else servers
    middle = len(in_order) - servers + servers // 2
    return in_order[middle] if 0 <= middle < len(in_order) else None


class Clock:
    """Farm time, and how much of it has passed."""

    def __init__(self) -> None:
        self.now_ms: int | None = None
        """Farm time, in ms since the epoch; None while too few servers have posted."""
        self.passed_ms = 0
        """The stopwatch: ms for which this farm has been at work. It stands still while nobody posts."""
        self._high_ms: int | None = None  # where the stopwatch stands, in farm time

    def look(
        self, dates: Iterable[int], servers: int | None = None, *, fresh_ms: int, ahead_ms: int, joined: bool = False
    ) -> None:
        """Look what time it is by these newest dates, see `farm_time_ms`.

        `joined`: whether one of them is the first of its server. Then time has another measure, and none has passed: a
        new farm may believe two wrong clocks, one after the other, before most of its servers have posted.

        A long silence of the whole farm is no silence of one leaf, and one clock of two that jumps ages nobody: in one
        step the stopwatch goes on by half of `fresh_ms` at most. A fall by up to `ahead_ms` is waited out: time that
        goes to and fro would else be counted each time. After a greater one, what was before was wrong.
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
        """Give it for a snapshot; `now_ms` follows from the records."""
        return {"passed": self.passed_ms, "high": self._high_ms}

    @classmethod
    def parse(cls, found: Mapping[str, Any], dates: Iterable[int], servers: int) -> Self:
        """Read that of a snapshot. Raises `RecordError`."""
        made = cls()
        made.now_ms = farm_time_ms(dates, servers)
        made.passed_ms = whole(found, "passed", MAX_DATE_MS)
        made._high_ms = whole_or_none(found, "high")
        return made
