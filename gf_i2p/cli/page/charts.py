"""Line charts as SVG for the page of a server: the points of each line, and the words beside the chart."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any, Final

from gf_i2p.cli.page.words import Words, marked

WIDTH: Final = 600
HEIGHT: Final = 120
_GAP_STEPS: Final = 4
"""A line breaks where this many usual steps lie between two samples: the server was silent."""


@dataclass(frozen=True, slots=True)
class Chart:
    """One chart. Points are in units of the SVG, from the upper left."""

    title: str
    lines: tuple[tuple[str, tuple[str, ...]], ...]
    """Name of each line, and the points of its unbroken parts, as in the attribute `points` of a polyline."""
    top: str
    """The highest value, in words."""
    bottom: str
    begin: str
    """Time of the first sample, UTC."""
    end: str
    summary: str
    """The chart in words, for people who do not see it."""


_CHARTS: Final[tuple[tuple[str, float, str, Mapping[str, str]], ...]] = (
    (marked("Router's uptime"), 3_600_000, "h", {"uptime_ms": marked("uptime")}),
    (marked("Bandwidth of the router"), 1024, "KiB/s", {"inbound": marked("inbound"), "outbound": marked("outbound")}),
    (marked("Participating tunnels"), 1, "", {"tunnels": marked("tunnels")}),
    (marked("Lag of the router's jobs"), 1, "ms", {"job_lag_ms": marked("lag")}),
    (marked("Clock against the farm's time"), 1000, "s", {"clock_ms": marked("clock")}),
)
"""Title, units in one unit of the chart, name of that unit, and the columns with the names of their lines."""


def charts(columns: Sequence[str], samples: Sequence[Sequence[Any]], words: Words) -> list[Chart]:
    """Make the charts of a server's samples, one row each, with the words in a language.

    A chart without values is left out.
    """
    dates = [row[columns.index("date_ms")] for row in samples]
    made = []
    for title, size, unit, names in _CHARTS:
        lines = {
            words.translated(name): [
                None if row[columns.index(column)] is None else row[columns.index(column)] / size for row in samples
            ]
            for column, name in names.items()
        }
        values = [value for line in lines.values() for value in line if value is not None]
        if values:
            made.append(_chart(words.translated(title), unit, dates, lines, values, words))
    return made


def _chart(
    title: str,
    unit: str,
    dates: Sequence[int],
    lines: Mapping[str, Sequence[float | None]],
    values: Sequence[float],
    words: Words,
) -> Chart:
    low, high = min(0.0, *values), max(0.0, *values)
    high = high if high > low else low + 1
    begin, end = dates[0], max(dates[-1], dates[0] + 1)
    steps = sorted(after - before for before, after in pairwise(dates))
    gap = _GAP_STEPS * steps[len(steps) // 2] if steps else 1

    def parts(line: Sequence[float | None]) -> Iterator[str]:
        points: list[str] = []
        last = begin
        for date, value in zip(dates, line, strict=True):
            if points and (value is None or date - last > gap):
                yield " ".join(points)
                points = []
            if value is not None:
                x, y = (date - begin) / (end - begin) * WIDTH, (high - value) / (high - low) * HEIGHT
                points.append(f"{x:.1f},{y:.1f}")
                last = date
        if points:
            yield " ".join(points if len(points) > 1 else points * 2)

    told = []
    for name, line in lines.items():
        known = [value for value in line if value is not None]
        if known:
            told.append(
                words.translated(
                    "%(name)s from %(least)s to %(most)s, now %(last)s",
                    name=name,
                    least=_measured(min(known), unit),
                    most=_measured(max(known), unit),
                    last=_measured(known[-1], unit),
                )
            )
    return Chart(
        title,
        tuple((name, tuple(parts(line))) for name, line in lines.items()),
        _measured(high, unit),
        _measured(low, unit),
        _time(begin),
        _time(end),
        f"{title}: {'; '.join(told)}",
    )


def _measured(value: float, unit: str) -> str:
    number = f"{value:,.0f}" if abs(value) >= 100 or value == round(value) else f"{value:,.1f}"
    return f"{number} {unit}".rstrip()


def _time(milliseconds: int) -> str:
    try:
        return f"{datetime.fromtimestamp(milliseconds / 1000, UTC):%m-%d %H:%M}"
    except (ValueError, OverflowError, OSError):  # the date is the poster's, and the poster's clock may be wrong
        return f"{milliseconds} ms"
