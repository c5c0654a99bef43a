"""The UTC days that the arguments of a job name."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Final, Self

from gf_i2p.pipeline.errors import UsageError

HOUR_MS: Final = 3_600_000
DAY_MS: Final = 24 * HOUR_MS
FIRST_DAY: Final = date(2000, 1, 1)
LAST_DAY: Final = date(9000, 1, 1)


@dataclass(frozen=True, slots=True)
class Span:
    """The days from `since` to `until`, both included. None: no limit."""

    since: date | None = None
    until: date | None = None
    """The last day, included; None: no end."""

    @classmethod
    def parse(cls, since: str | None, until: str | None) -> Self:
        """Read two days, YYYY-MM-DD; None: no limit. Raises `UsageError`."""
        span = cls(_day(since), _day(until))
        if span.since is not None and span.until is not None and span.since > span.until:
            raise UsageError(f"--since {since} is after --until {until}: give the earlier day as --since.")
        return span

    @property
    def since_ms(self) -> int | None:
        """Start of the first day, in milliseconds since the epoch."""
        return None if self.since is None else _start_ms(self.since)

    @property
    def until_ms(self) -> int | None:
        """End of the last day, in milliseconds since the epoch."""
        return None if self.until is None else _start_ms(self.until) + DAY_MS


ALL_DAYS: Final = Span()


def spans_around(days: Iterable[str]) -> list[Span]:
    """Return the spans that cover each of `days` (YYYY-MM-DD), the day before and the day after, in order of time.

    Spans that overlap or touch are joined.
    """
    spans: list[Span] = []
    one_day = timedelta(days=1)
    for day in sorted({date.fromisoformat(each) for each in days}):
        last = spans[-1].until if spans else None
        if last is not None and day - one_day <= last + one_day:
            spans[-1] = Span(spans[-1].since, day + one_day)
        else:
            spans.append(Span(day - one_day, day + one_day))
    return spans


def _day(text: str | None) -> date | None:
    if text is None:
        return None
    try:
        day = date.fromisoformat(text)
    except ValueError:
        day = date.min
    if not FIRST_DAY <= day <= LAST_DAY:
        raise UsageError(f"{text!r} is not a day from {FIRST_DAY} to {LAST_DAY}: write YYYY-MM-DD.")
    return day


def _start_ms(day: date) -> int:
    return int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()) * 1000
