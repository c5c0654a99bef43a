"""The charts of one farm over time: leaders and publishers, availability, and the cost and load of leaves."""

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from gf_i2p.pipeline.report import words
from gf_i2p.pipeline.report.data import (
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
    dot,
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
    """Return the times of each leader, or publisher, inside the period. Adjoining times of one server are joined."""
    found: list[Span] = []
    for number, turn in enumerate(turns):
        end = turns[number + 1].at_ms if number + 1 < len(turns) else period.until_ms
        start, end = max(turn.at_ms, period.since_ms), min(end, period.until_ms)
        if end <= start:
            continue
        if found and found[-1][2] == turn.who and found[-1][1] >= start:
            found[-1] = (found[-1][0], end, turn.who)
        else:
            found.append((start, end, turn.who))
    return found


def timeline(made: Timeline, period: Period) -> Markup:
    """Draw a lane for each server: the times of leading above, the times of publishing below."""
    led, published = spans(made.led, period), spans(made.published or (), period)
    lasted: dict[int, list[int]] = {}
    for at, found in enumerate((led, published)):
        for start, end, who in found:
            if who is not None:
                lasted.setdefault(who, [0, 0])[at] += end - start
    most = sorted(lasted, key=lambda who: -sum(lasted[who]))
    shown = sorted(most[:MAX_SERVERS])
    lanes = []
    for server in shown:
        name = words.server(server)
        shapes = [
            *(_span(each, period, 3, 7, "led", f"{name} led") for each in led if each[2] == server),
            *(_span(each, period, 12, 11, "published", f"{name} published") for each in published if each[2] == server),
        ]
        share = words.percent(None if made.published is None else lasted[server][1] / period.length_ms)
        about = f"{name}: led {words.lasting(lasted[server][0])}, published {words.lasting(lasted[server][1])}"
        lanes.append(row(name, plot(_LANE, about, grid(period, _LANE), *shapes), share))
    without = [each for each in published if each[2] is None]
    nobody = sum(end - start for start, end, _ in without)
    if made.published is not None:
        shapes = [_span(each, period, 3, _LANE - 6, "nobody", "nobody published") for each in without]
        about = f"nobody published for {words.lasting(nobody)} in all"
        share = words.percent(nobody / period.length_ms)
        lanes.append(row("nobody", plot(_LANE, about, grid(period, _LANE), *shapes), share))
    rows = (
        (
            words.server(server),
            words.lasting(lasted[server][0]),
            words.lasting(lasted[server][1]),
            words.percent(lasted[server][1] / period.length_ms),
        )
        for server in shown
    )
    said = [f"{words.plural(made.led_changes, 'change')} of leader"]
    if made.published is not None:
        said.append(f"{words.plural(made.published_changes, 'change')} of publisher")
    notes = [", ".join(said) + "; the figure is the share of the time in which a server published."]
    if max(made.led_changes, made.published_changes) > MAX_TURNS:
        notes.append(f" The newest {words.count(MAX_TURNS)} of each are drawn.")
    if len(most) > len(shown):
        notes.append(f" {words.plural(len(most) - len(shown), 'more server')} led or published for shorter.")
    if made.published is None:
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
    about = f"{what} from {words.moment(start)} to {words.moment(end)} UTC ({words.lasting(end - start)})"
    return block(across(period, start), across(period, end), y, height, class_, about)


def level(availability: float) -> int:
    """Return the number of the colour for an availability: 0 is best."""
    return next((at for at, (least, _) in enumerate(LEVELS) if availability >= least), len(LEVELS) - 1)


def heat(made: Heat, period: Period) -> Markup:
    """Draw the availability of servers by hours or days."""
    rows = [_heat_row(each, made, period) for each in made.rows]
    said = f"Each field is {words.lasting(made.stretch_ms)}; the figure is the mean of all hours."
    if made.others:
        said += f" {words.plural(made.others, 'more server')} are not drawn; their mean is "
        said += f"{words.percent(made.others_availability)}."
    cells = (
        (
            words.server(each.server),
            words.percent(each.availability),
            words.percent(min((cell.availability for cell in each.cells.values()), default=None)),
            words.count(each.records),
            words.count(each.flaps),
            words.lasting(each.longest_gap_ms),
        )
        for each in made.rows
    )
    head = ["server", "availability", "worst stretch", "records", "up and down", "longest gap"]
    return joined(
        legend(*((f"a{at}", text) for at, (_, text) in enumerate(LEVELS)), ("none", "no record")),
        _rows(*rows, axis(period)),
        note(said),
        folded("As a table", table(head, cells, "Availability of servers")),
    )


def _heat_row(each: HeatRow, made: Heat, period: Period) -> Markup:
    name, shapes = words.server(each.server), []
    for at, cell in sorted(each.cells.items()):
        start = period.hour_ms + at * made.stretch_ms
        x1, x2 = across(period, start), across(period, start + made.stretch_ms)
        flaps = f", {words.plural(cell.flaps, 'change')} up or down" if cell.flaps else ""
        about = (
            f"{name}, {words.moment(start)} UTC: {words.percent(cell.availability)}, "
            f"{words.plural(cell.records, 'record')}{flaps}"
        )
        shapes.append(block(x1, x2, 0, _HEAT, f"cell a{level(cell.availability)}", about))
    about = f"{name}: available {words.percent(each.availability)} of its hours"
    return row(name, plot(_HEAT, about, *shapes), words.percent(each.availability))


def weights(made: SmallLines, period: Period) -> Markup:
    """Draw the cost of leaves, 0 at the bottom and 255 at the top. A line has a gap where the leaf is not listed."""
    said = (
        f"Clients prefer a leaf that costs less. From 0 (bottom) to 255 (top), every {words.lasting(made.stretch_ms)}."
    )
    said += " A gap: not listed. The figure is the last cost."
    return _lines(made, period, period.since_ms, 255.0, "cost", words.figure, said)


def loads(made: SmallLines, period: Period) -> Markup:
    """Draw the used share of each leaf's connections."""
    highest = max((value for line in made.lines for value in line.values if value is not None), default=1.0)
    said = f"Connections in use, of those that are allowed; every {words.lasting(made.stretch_ms)}"
    above = f", from 0 to {words.percent(max(highest, 1.0))}. The figure is the mean."
    return _lines(made, period, period.hour_ms, max(highest, 1.0), "load", words.percent, said + above)


def _lines(
    made: SmallLines,
    period: Period,
    begin_ms: int,
    highest: float,
    what: str,
    show: Callable[[float | None], str],
    said: str,
) -> Markup:
    """`begin_ms`: start of the first stretch, which may be before the period."""
    rows, cells = [], []
    wide = WIDTH * made.stretch_ms / period.length_ms
    early = WIDTH * (period.since_ms - begin_ms) / period.length_ms
    for line in made.lines:
        known = [value for value in line.values if value is not None]
        mean = sum(known) / len(known) if known else None
        shown = mean if what == "load" else next((value for value in reversed(line.values) if value is not None), None)
        about = f"{what} of leaf {line.name}: from {show(min(known, default=None))} to {show(max(known, default=None))}"
        drawn = plot(_LINE, about, grid(period, _LINE), steps(line.values, _LINE, highest, wide, early))
        rows.append(row(words.short(line.name), drawn, show(shown), whole=line.name))
        share = len(known) / max(len(line.values), 1)
        low, high = min(known, default=None), max(known, default=None)
        cells.append((line.name, show(low), show(mean), show(high), words.percent(share)))
    if not rows:
        return note("No leaf is known in this time.")
    more = f" {words.plural(made.others, 'more leaf', 'more leaves')} are not drawn." if made.others else ""
    head = ["leaf", "least", "mean", "most", "of the time"]
    return joined(
        _rows(*rows, axis(period)),
        note(said, more),
        folded("As a table", table(head, cells, f"{what.capitalize()} of leaves")),
    )


def anomalies(made: Anomalies, period: Period) -> Markup:
    """Draw a dot for each hour unlike a server's own past, and list these hours, the strongest first."""
    if not made.found:
        return note("No hour was unlike its server's own past.")
    servers = sorted({each.server for each in made.found})
    rows = []
    for server in servers[:MAX_SERVERS]:
        own = [each for each in made.found if each.server == server]
        dots = [
            dot(
                across(period, each.hour_ms),
                _STRIP / 2,
                "strong" if each.score >= 10 else "weak",
                f"{words.moment(each.hour_ms)} UTC, {each.measure}: {each.text} (score {words.figure(each.score)})",
            )
            for each in own
        ]
        name = words.server(server)
        about = f"{name}: {words.plural(len(own), 'unusual hour')}"
        rows.append(row(name, plot(_STRIP, about, grid(period, _STRIP), *dots), words.count(len(own))))
    cells = (
        (words.moment(each.hour_ms), words.server(each.server), each.measure, each.text, words.figure(each.score))
        for each in sorted(made.found, key=lambda each: -each.score)
    )
    more = made.total - len(made.found)
    text = f"The strongest {len(made.found)} of {words.count(made.total)}." if more else f"All {len(made.found)}."
    return joined(
        legend(("strong", "score of 10 and more (large)"), ("weak", "score of 5 to 10 (small)")),
        _rows(*rows, axis(period)),
        note(text),
        folded(
            "The unusual hours",
            table(["hour (UTC)", "server", "measure", "what", "score"], cells, "Unusual hours", text_columns=4),
        ),
    )


def _rows(*rows: Markup) -> Markup:
    return element("div", *rows, class_="rows")
