"""The charts of one farm over time: leaders and publishers, availability, and the cost and load of leaves."""

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from gf_i2p.pipeline.report import formats
from gf_i2p.pipeline.report.chart_data import (
    MAX_SERVERS,
    MAX_TURNS,
    Anomalies,
    Heat,
    HeatRow,
    Period,
    SmallLines,
    Timeline,
    Turn,
)
from gf_i2p.pipeline.report.layout import (
    WIDTH,
    across,
    axis,
    block,
    folded,
    grid,
    legend,
    note,
    plot,
    row,
    steps,
    table,
)
from gf_i2p.pipeline.report.markup import Markup, element, joined

_LANE: Final = 26
_HEAT: Final = 20
_STRIP: Final = 22
_LINE: Final = 34
_STRONG: Final = 10
"""Spreads of the worst hour from which on an episode is drawn as strong."""
LEVELS: Final = (
    (0.999, "99.9 % and more"),
    (0.99, "99 %"),
    (0.95, "95 %"),
    (0.8, "80 %"),
    (0.5, "50 %"),
    (0.0, "less"),
)
"""The least availability of each colour of the heat map."""

Span: TypeAlias = tuple[int, int, int | None]


def spans(turns: Sequence[Turn], period: Period) -> list[Span]:
    """Return the times of each leader, or publisher, inside the period: beginning, end and server (None: no server).

    Adjoining times of one server are joined.
    """
    times: list[Span] = []
    for number, turn in enumerate(turns):
        end = turns[number + 1].at_ms if number + 1 < len(turns) else period.until_ms
        start, end = max(turn.at_ms, period.since_ms), min(end, period.until_ms)
        if end <= start:
            continue
        if times and times[-1][2] == turn.who and times[-1][1] >= start:
            times[-1] = (times[-1][0], end, turn.who)
        else:
            times.append((start, end, turn.who))
    return times


def timeline(turns: Timeline, period: Period) -> Markup:
    """Draw a lane for each server: the times of leading above, the times of publishing below."""
    led, published = spans(turns.led, period), spans(turns.published or (), period)
    durations: dict[int, list[int]] = {}
    for at, times in enumerate((led, published)):
        for start, end, who in times:
            if who is not None:
                durations.setdefault(who, [0, 0])[at] += end - start
    servers = sorted(durations, key=lambda who: -sum(durations[who]))
    shown = sorted(servers[:MAX_SERVERS])
    lanes = []
    for server in shown:
        name = formats.server(server)
        shapes = [
            *(_span(each, period, 3, 7, "led", f"{name} led") for each in led if each[2] == server),
            *(_span(each, period, 12, 11, "published", f"{name} published") for each in published if each[2] == server),
        ]
        share = formats.percent(None if turns.published is None else durations[server][1] / period.length_ms)
        about = (
            f"{name}: led {formats.lasting(durations[server][0])}, published {formats.lasting(durations[server][1])}"
        )
        lanes.append(row(name, plot(_LANE, about, grid(period, _LANE), *shapes), share))
    without = [each for each in published if each[2] is None]
    nobody = sum(end - start for start, end, _ in without)
    if turns.published is not None:
        shapes = [_span(each, period, 3, _LANE - 6, "nobody", "nobody published") for each in without]
        about = f"nobody published for {formats.lasting(nobody)} in all"
        share = formats.percent(nobody / period.length_ms)
        lanes.append(row("nobody", plot(_LANE, about, grid(period, _LANE), *shapes), share))
    rows = (
        (
            formats.server(server),
            formats.lasting(durations[server][0]),
            formats.lasting(durations[server][1]),
            formats.percent(durations[server][1] / period.length_ms),
        )
        for server in shown
    )
    changes = [f"{formats.plural(turns.led_changes, 'change')} of leader"]
    if turns.published is not None:
        changes.append(f"{formats.plural(turns.published_changes, 'change')} of publisher")
    notes = [", ".join(changes) + "; the figure is the share of the time in which a server published."]
    if max(turns.led_changes, turns.published_changes) > MAX_TURNS:
        notes.append(f" The newest {formats.count(MAX_TURNS)} of each are drawn.")
    if len(servers) > len(shown):
        notes.append(f" {formats.plural(len(servers) - len(shown), 'more server')} led or published for shorter.")
    if turns.published is None:
        notes.append(
            " The publishers are not known: the last gf-i2p pipeline backtest was of other farms, or there was none."
        )
    return joined(
        legend(("led", "led"), ("published", "published"), ("nobody", "nobody published")),
        _rows(*lanes, axis(period)),
        note(*notes),
        folded("As a table", table(["server", "led", "published", "share"], rows, "Times of leading and publishing")),
    )


def _span(span: Span, period: Period, y: float, height: float, class_: str, what: str) -> Markup:
    start, end, _ = span
    about = f"{what} from {formats.moment(start)} to {formats.moment(end)} UTC ({formats.lasting(end - start)})"
    return block(across(period, start), across(period, end), y, height, class_, about)


def level(availability: float) -> int:
    """Return the number of the colour for an availability: 0 is best."""
    return next((at for at, (least, _) in enumerate(LEVELS) if availability >= least), len(LEVELS) - 1)


def heat(heat_map: Heat, period: Period) -> Markup:
    """Draw the availability of servers by hours or days."""
    rows = [_heat_row(each, heat_map, period) for each in heat_map.rows]
    remark = f"Each field is {formats.lasting(heat_map.stretch_ms)}; the figure is the mean of all hours."
    if heat_map.others:
        remark += f" {formats.plural(heat_map.others, 'more server')} are not drawn; their mean is "
        remark += f"{formats.percent(heat_map.others_availability)}."
    cells = (
        (
            formats.server(each.server),
            formats.percent(each.availability),
            formats.percent(min((cell.availability for cell in each.cells.values()), default=None)),
            formats.count(each.records),
            formats.count(each.flaps),
            formats.lasting(each.longest_gap_ms),
        )
        for each in heat_map.rows
    )
    head = ["server", "availability", "worst stretch", "records", "up and down", "longest gap"]
    return joined(
        legend(*((f"a{at}", text) for at, (_, text) in enumerate(LEVELS)), ("none", "no record")),
        _rows(*rows, axis(period)),
        note(remark),
        folded("As a table", table(head, cells, "Availability of servers")),
    )


def _heat_row(server_row: HeatRow, heat_map: Heat, period: Period) -> Markup:
    name, shapes = formats.server(server_row.server), []
    for at, cell in sorted(server_row.cells.items()):
        start = period.hour_ms + at * heat_map.stretch_ms
        x1, x2 = across(period, start), across(period, start + heat_map.stretch_ms)
        flaps = f", {formats.plural(cell.flaps, 'change')} up or down" if cell.flaps else ""
        about = (
            f"{name}, {formats.moment(start)} UTC: {formats.percent(cell.availability)}, "
            f"{formats.plural(cell.records, 'record')}{flaps}"
        )
        shapes.append(block(x1, x2, 0, _HEAT, f"cell a{level(cell.availability)}", about))
    about = f"{name}: available {formats.percent(server_row.availability)} of its hours"
    return row(name, plot(_HEAT, about, *shapes), formats.percent(server_row.availability))


def weights(chart: SmallLines, period: Period) -> Markup:
    """Draw the cost of leaves, 0 at the bottom and 255 at the top. A line has a gap where the leaf is not listed."""
    remark = "Clients prefer a leaf that costs less. From 0 (bottom) to 255 (top), "
    remark += f"every {formats.lasting(chart.stretch_ms)}. A gap: not listed. The figure is the last cost."
    return _lines(chart, period, period.since_ms, 255.0, "cost", formats.figure, remark)


def loads(chart: SmallLines, period: Period) -> Markup:
    """Draw the used share of each leaf's connections."""
    highest = max((value for line in chart.lines for value in line.values if value is not None), default=1.0)
    remark = f"Connections in use, of those that are allowed; every {formats.lasting(chart.stretch_ms)}"
    figure = f", from 0 to {formats.percent(max(highest, 1.0))}. The figure is the mean."
    return _lines(chart, period, period.hour_ms, max(highest, 1.0), "load", formats.percent, remark + figure)


def _lines(
    chart: SmallLines,
    period: Period,
    begin_ms: int,
    highest: float,
    what: str,
    show: Callable[[float | None], str],
    remark: str,
) -> Markup:
    """Draw a row with one line for each leaf. `begin_ms`: start of the first stretch, perhaps before the period."""
    rows, cells = [], []
    wide = WIDTH * chart.stretch_ms / period.length_ms
    early = WIDTH * (period.since_ms - begin_ms) / period.length_ms
    for line in chart.lines:
        values = [value for value in line.values if value is not None]
        mean = sum(values) / len(values) if values else None
        shown = mean if what == "load" else next((value for value in reversed(line.values) if value is not None), None)
        about = (
            f"{what} of leaf {line.name}: from {show(min(values, default=None))} to {show(max(values, default=None))}"
        )
        drawn = plot(_LINE, about, grid(period, _LINE), steps(line.values, _LINE, highest, wide, early))
        rows.append(row(formats.short(line.name), drawn, show(shown), full_name=line.name))
        share = len(values) / max(len(line.values), 1)
        low, high = min(values, default=None), max(values, default=None)
        cells.append((line.name, show(low), show(mean), show(high), formats.percent(share)))
    if not rows:
        return note("No leaf is known in this time.")
    omitted = f" {formats.plural(chart.others, 'more leaf', 'more leaves')} are not drawn." if chart.others else ""
    head = ["leaf", "least", "mean", "most", "of the time"]
    return joined(
        _rows(*rows, axis(period)),
        note(remark, omitted),
        folded("As a table", table(head, cells, f"{what.capitalize()} of leaves")),
    )


def anomalies(found: Anomalies, period: Period) -> Markup:
    """Draw a bar for each episode, in the rows of all servers that it was seen at; list them, the strongest first."""
    if not found.strongest:
        return note("No hour was unlike the past.")
    servers = sorted({server for each in found.strongest for server in each.servers})
    rows = []
    for server in servers[:MAX_SERVERS]:
        of_server = [each for each in found.strongest if server in each.servers]
        bars = [
            block(
                across(period, each.begin_ms),
                across(period, each.end_ms),
                3,
                _STRIP - 6,
                "strong" if each.score >= _STRONG else "weak",
                each.text,
            )
            for each in of_server
        ]
        name = formats.server(server)
        about = f"{name}: {formats.plural(len(of_server), 'unusual episode')}"
        rows.append(row(name, plot(_STRIP, about, grid(period, _STRIP), *bars), formats.count(len(of_server))))
    cells = (
        (
            formats.moment(each.begin_ms),
            formats.lasting(each.end_ms - each.begin_ms),
            each.measure,
            each.text,
            formats.figure(each.score),
        )
        for each in sorted(found.strongest, key=lambda each: -each.score)
    )
    hidden = found.total - len(found.strongest)
    text = (
        f"The strongest {len(found.strongest)} of {formats.count(found.total)}."
        if hidden
        else f"All {len(found.strongest)}."
    )
    return joined(
        legend(("strong", f"{_STRONG} spreads and more in the worst hour"), ("weak", "less")),
        _rows(*rows, axis(period)),
        note(text),
        folded(
            "The unusual episodes",
            table(["begin (UTC)", "for", "measure", "what", "spreads"], cells, "Unusual episodes", text_columns=4),
        ),
    )


def _rows(*rows: Markup) -> Markup:
    return element("div", *rows, class_="rows")
