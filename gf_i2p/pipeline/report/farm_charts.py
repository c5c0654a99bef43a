"""The charts of one farm: publishers and leaders, availability, measures of servers, costs and loads of leaves."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from markupsafe import Markup

from gf_i2p.pipeline.days import HOUR_MS
from gf_i2p.pipeline.report import charts, formats
from gf_i2p.pipeline.report.charts import COLOURS, Mark
from gf_i2p.pipeline.report.report_data import FarmReport, Period, Series, Turn
from gf_i2p.pipeline.report.verdicts import spans


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart with its title, and a note."""

    title: str
    drawn: Markup
    note: str = ""


_Figure = Callable[[Mapping[str, Any]], float | None]


def _plain(name: str, factor: float = 1.0) -> _Figure:
    return lambda cell: None if cell[name] is None else cell[name] * factor


_MEASURES: Final[Sequence[tuple[str, str, _Figure, str]]] = (
    ("skew_ms", "Clock ahead of the farm's, seconds", _plain("skew_ms", 0.001), "~s"),
    ("lag_ms", "Job lag, milliseconds", _plain("lag_ms"), "~s"),
    ("tunnels", "Participating tunnels", _plain("tunnels"), "~s"),
    ("in_bytes_s", "Inbound bandwidth, bytes/s", _plain("in_bytes_s"), "~s"),
    ("out_bytes_s", "Outbound bandwidth, bytes/s", _plain("out_bytes_s"), "~s"),
    ("known_peers", "Known peers", _plain("known_peers"), "~s"),
    ("flaps", "Changes between up and down an hour", lambda cell: (cell["flaps"] or 0) / cell["hours"], "~r"),
    ("records", "Records an hour",
     lambda cell: (cell["records"] or 0) * HOUR_MS / cell["watched_ms"] if cell["watched_ms"] else None, "~s"),
)  # fmt: skip
"""Column, title, figure of a stretch, and D3's form of each chart of servers."""


def colours(ids: Iterable[Any]) -> dict[Any, int]:
    """Give colours to the first servers, or leaves, which are drawn as lines."""
    return {each: at for at, each in enumerate(list(ids)[:COLOURS])}


def of_servers(farm: FarmReport, lined: Mapping[int, int]) -> Iterator[Chart]:
    """Draw the charts of servers. `lined`: colours of the servers that are drawn as lines."""
    period, servers = farm.period, farm.servers or {}
    names = {server: str(server) for server in servers}
    if farm.led is not None or farm.published is not None:
        yield _offices(farm)
    if not servers:
        return
    odd = [(server, each) for each in farm.episodes or () for server in each.servers if each.destination is None]
    down = [
        Mark(each.begin_ms, each.end_ms, "bad", names[server])
        for server, each in odd
        if each.measure == "availability" and server in names and each.subject != "leaves"
    ]
    each_stretch = f"Each field is {formats.lasting(period.stretch_ms)}."
    cells = [mark for server, series in servers.items() for mark in _levels(series, names[server], period)]
    yield Chart("Availability of servers", charts.lanes(cells, list(names.values()), period, down), each_stretch)
    for measure, title, figure, form in _MEASURES:
        values = {colour: _values(servers[server], figure, period.stretches) for server, colour in lined.items()}
        marks = [
            Mark(each.begin_ms, each.end_ms, "bad" if each.server is None else f"line-{lined[server]}")
            for server, each in odd
            if each.measure == measure and server in lined
        ]
        yield Chart(title, charts.lines(values, marks, period, form))


def of_leaves(farm: FarmReport, lined: Mapping[str, int]) -> Iterator[Chart]:
    """Draw the charts of leaves. `lined`: colours of the leaves that are drawn as lines."""
    period, leaves = farm.period, farm.leaves or {}
    if leaves:
        names = {hash_: leaf_name(hash_) for hash_ in leaves}
        cells = [mark for hash_, series in leaves.items() for mark in _levels(series, names[hash_], period)]
        down = [
            Mark(each.begin_ms, each.end_ms, "bad", names[each.destination])
            for each in farm.episodes or ()
            if each.measure == "availability" and each.destination in names
        ]
        yield Chart("Availability of leaves", charts.lanes(cells, list(names.values()), period, down))
        loads = {
            colour: _values(leaves[hash_], _plain("load", 100), period.stretches)
            for hash_, colour in lined.items()
            if hash_ in leaves
        }
        full = [
            Mark(each.begin_ms, each.end_ms, "bad" if colour is None else f"line-{colour}")
            for each in farm.episodes or ()
            if each.measure == "load"
            for colour in [lined.get(each.destination or "")]
        ]
        yield Chart("Load of leaves, % of the connections", charts.lines(loads, full, period))
    if farm.costs:
        costs = {colour: farm.costs[hash_] for hash_, colour in lined.items() if hash_ in farm.costs}
        note = "From 0 to 255: clients prefer a leaf that costs less. A gap: the leaf is not listed."
        yield Chart("Cost of leaves in the published set", charts.lines(costs, (), period), note)
        listed = [sum(each is not None for each in at) for at in zip(*farm.costs.values(), strict=True)]
        yield Chart("Listed leaves", charts.lines({0: listed}, (), period, "d"))


def leaf_name(hash_: str) -> str:
    """Return the beginning of a leaf's b32 address, for the narrow place beside a chart."""
    return formats.clean(formats.short(formats.address(hash_)).removesuffix(".b32.i2p"), 16)


def _offices(farm: FarmReport) -> Chart:
    """Draw who published, and as thin lines who led."""
    led = spans(farm.led.turns if farm.led else (), farm.period)
    published = spans(farm.published.turns if farm.published else (), farm.period)
    servers = sorted({who for *_, who in (*led, *published) if who is not None})
    names = [str(each) for each in servers] + (["nobody"] if published else [])
    marks = [
        Mark(begin, end, "bad" if who is None else "published", "nobody" if who is None else str(who))
        for begin, end, who in published
    ]
    thin = [Mark(begin, end, "led", str(who)) for begin, end, who in led if who is not None]
    drawn = charts.lanes(marks, names, farm.period, thin)
    if not published:
        return Chart("Leaders", drawn, "The publishers are not known: the lake has no backtest of this farm.")
    return Chart("Publishers, and leaders as thin lines", drawn)


def shares(turns: Sequence[Turn], period: Period) -> dict[int | None, float]:
    """Return each server's share of the period; of None, the share without any server."""
    found: dict[int | None, float] = {}
    for begin, end, who in spans(turns, period):
        found[who] = found.get(who, 0.0) + (end - begin) / period.length_ms
    return found


def _levels(series: Series, name: str, period: Period) -> Iterator[Mark]:
    for at, cell in series.items():
        if cell["availability"] is not None:
            begin = period.hour_ms + at * period.stretch_ms
            yield Mark(begin, begin + period.stretch_ms, f"level-{charts.level(cell['availability'])}", name)


def _values(series: Series, figure: _Figure, stretches: int) -> list[float | None]:
    return [figure(series[at]) if at in series else None for at in range(stretches)]
