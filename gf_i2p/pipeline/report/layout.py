"""The parts of all charts: rows with a name, a plot and a figure, above one axis of time.

A plot takes all the width that the page has. Letters are outside of the plot, because only the plot is stretched. So a
phone shows the same chart as a wide screen.
"""

from collections.abc import Iterable, Sequence
from html import escape
from typing import Final

from gf_i2p.pipeline.report import formats
from gf_i2p.pipeline.report.chart_data import Period
from gf_i2p.pipeline.report.formats import DAY_MS, HOUR_MS
from gf_i2p.pipeline.report.markup import Markup, clean, element, joined, path

WIDTH: Final = 1000.0
"""Width of a plot, in its own units."""
_TICKS: Final = 6
_MAX_NOTE: Final = 1000
_STEPS: Final = (
    *(60_000 * minutes for minutes in (1, 2, 5, 10, 15, 30)),
    *(HOUR_MS * hours for hours in (1, 2, 3, 6, 12)),
    *(DAY_MS * days for days in (1, 2, 7, 14, 28, 91, 364)),
)


def across(period: Period, at_ms: float) -> float:
    """Return the place of a moment in a plot, 0 to `WIDTH`."""
    return WIDTH * min(max((at_ms - period.since_ms) / period.length_ms, 0.0), 1.0)


def ticks(period: Period) -> list[int]:
    """Return up to seven moments for an axis, in ms since the epoch: full minutes, hours or days in UTC."""
    step = next((each for each in _STEPS if period.length_ms <= each * _TICKS), None)
    if step is None:
        step = -(-period.length_ms // (_TICKS * DAY_MS)) * DAY_MS
    first = -(-period.since_ms // step) * step
    return list(range(first, period.until_ms + 1, step))


def axis(period: Period) -> Markup:
    """Draw the axis of time, which stands below the rows."""
    marks = ticks(period)
    days = len(marks) < 2 or marks[1] - marks[0] >= DAY_MS
    shown = []
    for number, at_ms in enumerate(marks):
        place = 100 * (at_ms - period.since_ms) / period.length_ms
        anchor = "start" if place < 6 else "end" if place > 94 else "middle"
        text = formats.day(at_ms)[5:] if days else formats.moment(at_ms)[11:]
        if not days and at_ms % DAY_MS == 0:
            text = formats.day(at_ms)[5:]
        shown.append(
            element(
                "text", text, x=f"{place:.2f}%", y=12, text_anchor=anchor, class_="tick odd" if number % 2 else "tick"
            )
        )
    drawn = element("svg", *shown, class_="axis", height=16, aria_hidden="true")
    return element("div", element("div", class_="label"), drawn, element("div", class_="value"), class_="row")


def grid(period: Period, height: float) -> Markup:
    """Draw an upright line through a plot at each moment of the axis."""
    return joined(
        *(
            element("line", x1=(x := across(period, at_ms)), x2=x, y1=0, y2=height, class_="grid")
            for at_ms in ticks(period)
        )
    )


def plot(height: float, about: str, *shapes: str, class_: str = "plot") -> Markup:
    """Make the plot of a row. `about`: a description for readers who cannot see the plot. `height`: in pixels."""
    return element(
        "svg",
        element("title", about),
        *shapes,
        class_=class_,
        viewBox=f"0 0 {WIDTH:.0f} {height:g}",
        preserveAspectRatio="none",
        height=height,
        role="img",
    )


def row(label: str, drawn: Markup, value: str = "", *, full_name: str | None = None) -> Markup:
    """Make a row of a label, a plot (`drawn`) and a figure (`value`). `full_name`: given if the label is shortened."""
    return element(
        "div",
        element("div", label, class_="label", title=full_name),
        drawn,
        element("div", value, class_="value"),
        class_="row",
    )


def block(x1: float, x2: float, y: float, height: float, class_: str, about: str) -> Markup:
    """Draw a rectangle that is never too thin to see."""
    return element("rect", element("title", about), x=x1, y=y, width=max(x2 - x1, 1.5), height=height, class_=class_)


def dot(x: float, y: float, class_: str, about: str) -> Markup:
    """Draw a dot: a line of no length with round ends, which stays round when the plot is stretched."""
    return element("path", element("title", about), d=f"M{x:.1f} {y:.1f}h0", class_=f"dot {class_}")


def steps(values: Sequence[float | None], height: float, highest: float, wide: float, early: float = 0.0) -> Markup:
    """Draw one step of the width `wide` for each value, and the area below the steps, up to the plot's end.

    `values`: None makes a gap. `highest`: the value at the plot's top. `early`: width of the part of the first step
    that lies to the left of the plot, and is not drawn.
    """
    line, area = [], []
    top, low = 2.0, height - 1
    before: float | None = None
    for number, value in enumerate(values):
        x1, x2 = (min(max(wide * end - early, 0.0), WIDTH) for end in (number, number + 1))
        if value is None:
            before = None
            continue
        y = low - (low - top) * min(max(value / highest, 0.0), 1.0)
        line.append(f"M{x1:.1f} {y:.1f}" if before is None else f"V{y:.1f}" if y != before else "")
        line.append(f"H{x2:.1f}")
        area.append(f"M{x1:.1f} {low:.1f}V{y:.1f}H{x2:.1f}V{low:.1f}z")
        before = y
    return joined(
        path("".join(area), "area"),
        path("".join(line), "line"),
    )


def legend(*items: tuple[str, str]) -> Markup:
    """Explain the colours. `items`: class and text of each colour."""
    return element(
        "p",
        *(
            element(
                "span",
                element(
                    "svg", element("rect", width=12, height=12, class_=class_), width=12, height=12, aria_hidden="true"
                ),
                f" {text}",
                class_="key",
            )
            for class_, text in items
        ),
        class_="legend",
    )


def table(head: Sequence[str], rows: Iterable[Sequence[str]], caption: str = "", *, text_columns: int = 1) -> Markup:
    """Make a table. `text_columns`: number of columns from the left that hold no figures."""
    body = [
        element(
            "tr", *(element("td", cell, class_=None if at < text_columns else "n") for at, cell in enumerate(cells))
        )
        for cells in rows
    ]
    names = (
        element("th", name, scope="col", class_=None if at < text_columns else "n") for at, name in enumerate(head)
    )
    return element(
        "div",
        element(
            "table",
            *([element("caption", caption)] if caption else []),
            element("thead", element("tr", *names)),
            element("tbody", *body),
        ),
        class_="wide",
        role="region",
        aria_label=caption or "table",
        tabindex="0",
    )


def folded(title: str, *children: str) -> Markup:
    """Hide parts that few readers need; the line `title` opens the parts."""
    return element("details", element("summary", title), *children)


def note(*text: str) -> Markup:
    """Add a remark to a chart."""
    return element("p", *(Markup(escape(clean(each, _MAX_NOTE))) for each in text), class_="note")
