"""Draws the charts by Altair, as SVG without any script. Colours are variables of the page's style.

Vega writes each coordinate with up to 17 digits, and names and fonts at each mark: `_tidied` leaves these out.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from xml.etree import ElementTree as ET

import altair as alt
import vl_convert
from markupsafe import Markup

from gf_i2p.pipeline.days import DAY_MS
from gf_i2p.pipeline.report.report_data import Period

WIDTH: Final = 380
HEIGHT: Final = 110
_LANE: Final = 18
_AXIS: Final = 20
COLOURS: Final = 8
"""Number of the colours of lines, `--line-0` and so on."""
LEVELS: Final = ((0.99, "99 % and more"), (0.95, "95 %"), (0.8, "80 %"), (0.5, "50 %"), (0.0, "less"))
"""The least availability of each colour `--level-0` and so on."""
_LEAST: Final = 1 / 150
"""Least width of a mark on the axis of time, as a share of the period: two pixels."""
_KEPT: Final = frozenset({"d", "transform", "fill", "stroke", "viewBox", "x2", "y2", "text-anchor", "opacity"})
_USUAL: Final = frozenset(
    {("opacity", "1"), ("transform", "translate(0,0)"), ("stroke", "var(--line)"), ("fill", "var(--soft)")}
)
"""Attributes that the style has for all charts."""
_SVG: Final = "{http://www.w3.org/2000/svg}"
_LONG_NUMBER: Final = re.compile(r"-?\d+\.\d{2,}(?:e-?\d+)?")

ET.register_namespace("", _SVG[1:-1])


@dataclass(frozen=True, slots=True)
class Mark:
    """A stretch of time that is drawn with one colour. `lane` is of no importance behind lines."""

    begin_ms: int
    end_ms: int
    colour: str
    """Name of a variable of the style, without the hyphens."""
    lane: str = ""


def lines(
    values: Mapping[int, Sequence[float | None]], marks: Iterable[Mark], period: Period, form: str = "~s"
) -> Markup:
    """Draw a line for each of `values`: a value for each stretch, by the number of the colour.

    `marks` are drawn behind the lines. `form`: of the values, in D3's notation.
    """
    middle = period.stretch_ms // 2
    data = [
        {"t": period.hour_ms + at * period.stretch_ms + middle, "v": _short(value), "c": f"var(--line-{colour})"}
        for colour, line in values.items()
        for at, value in enumerate(line)
    ]
    y = alt.Y("v:Q", title=None, axis=alt.Axis(tickCount=3, format=form))
    line = alt.Chart(alt.InlineData(values=data)).mark_line(strokeWidth=1.3, strokeCap="round", clip=False)
    drawn = line.encode(x=_x("t", period), y=y, color=alt.Color("c:N", scale=None))
    behind = alt.Chart(_data(marks, period)).mark_rect(opacity=0.3)
    behind = behind.encode(x=_x("b", period), x2="e", color=alt.Color("c:N", scale=None))
    return _svg(alt.layer(behind, drawn).properties(width=WIDTH, height=HEIGHT))


def lanes(marks: Iterable[Mark], names: Sequence[str], period: Period, thin: Iterable[Mark] = ()) -> Markup:
    """Draw marks in lanes, one below the other. `thin` are drawn as thin lines below those of the same lane."""
    y = alt.Y("l:N", sort=None, title=None, scale=alt.Scale(domain=list(names)),
              axis=alt.Axis(labelLimit=110, ticks=False, grid=True, bandPosition=0.5))  # fmt: skip
    layers = []
    for each, size, offset in ((marks, _LANE - 7, -2), (thin, 3, _LANE / 2 - 4)):
        bar = alt.Chart(_data(each, period)).mark_bar(size=size, yOffset=offset)
        layers.append(bar.encode(x=_x("b", period), x2="e", y=y, color=alt.Color("c:N", scale=None)))
    return _svg(alt.layer(*layers).properties(width=WIDTH, height=_AXIS + _LANE * max(len(names), 1)), left=14)


def level(availability: float) -> int:
    """Return the number of the colour for an availability: 0 is best."""
    return next((at for at, (least, _) in enumerate(LEVELS) if availability >= least), len(LEVELS) - 1)


def _data(marks: Iterable[Mark], period: Period) -> alt.InlineData:
    """Return the marks inside the period. Marks of one lane and colour that adjoin are one mark."""
    joined: list[dict[str, Any]] = []
    last: dict[str, dict[str, Any]] = {}
    least = int(period.length_ms * _LEAST)
    for mark in sorted(marks, key=lambda mark: (mark.begin_ms, mark.lane)):
        begin, end = max(mark.begin_ms, period.since_ms), min(mark.end_ms, period.until_ms)
        if end <= begin:
            continue
        end = min(max(end, begin + least), period.until_ms)
        colour, before = f"var(--{mark.colour})", last.get(mark.lane)
        if before is not None and before["c"] == colour and begin <= before["e"]:
            before["e"] = max(end, before["e"])
            continue
        last[mark.lane] = {"b": min(begin, period.until_ms - least), "e": end, "c": colour, "l": mark.lane}
        joined.append(last[mark.lane])
    # `_tidy` joins neighbours of one colour.
    return alt.InlineData(values=sorted(joined, key=lambda mark: str(mark["c"])))


def _x(field: str, period: Period) -> alt.X:
    scale = alt.Scale(type="utc", domain=[period.since_ms, period.until_ms], nice=False)
    days = period.length_ms / DAY_MS
    form = "%b %Y" if days > 120 else "%-d %b" if days > 4 else "%-d %b %H:%M"
    axis = alt.Axis(tickCount=4, grid=False, format=form, labelFlush=True, labelOverlap=True, labelSeparation=8)
    return alt.X(f"{field}:T", scale=scale, title=None, axis=axis)


def _short(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.4g}")


def _svg(chart: alt.LayerChart | alt.FacetChart, left: int = 2) -> Markup:
    """Render a chart. `left`: space for labels that are wider in a browser than Vega expects."""
    padding = {"left": left, "top": 2, "right": 2, "bottom": 2}
    size = alt.AutoSizeParams(type="fit", contains="padding")
    finished = chart.configure(autosize=size, background="transparent", padding=padding, font="sans-serif")
    finished = finished.configure_view(stroke=None).configure_axis(
        labelColor="var(--soft)",
        labelFontSize=11,
        domainColor="var(--line)",
        gridColor="var(--line)",
        tickColor="var(--line)",
        tickSize=3,
        minExtent=32,
    )
    # Altair's check of the chart takes ten times as long as all the rest; a test makes it.
    text = vl_convert.vegalite_to_svg(finished.to_dict(validate=False))
    return Markup(_tidied(text))  # noqa: S704 -- the element tree has escaped all text


def _tidied(svg: str) -> str:
    root = ET.fromstring(svg)  # noqa: S314 -- Vega wrote it just now
    _tidy(root)
    return ET.tostring(root, encoding="unicode").replace(f' xmlns="{_SVG[1:-1]}"', "", 1)


def _tidy(element: ET.Element) -> None:
    for name, value in list(element.items()):
        if name not in _KEPT or (name, value) in _USUAL:
            del element.attrib[name]
        elif name in ("d", "transform"):
            element.set(name, _LONG_NUMBER.sub(lambda found: f"{float(found[0]):.1f}".removesuffix(".0"), value))
    kept: list[ET.Element] = []
    for child in element:
        _tidy(child)
        tag = child.tag.removeprefix(_SVG)
        if tag == "path":
            if not child.get("d") or not {"fill", "stroke"}.intersection(child.keys()):
                continue  # it cannot be seen
            if kept and kept[-1].tag == child.tag and kept[-1].attrib | {"d": ""} == child.attrib | {"d": ""}:
                kept[-1].set("d", kept[-1].get("d", "") + child.get("d", ""))
                continue
        kept += list(child) if tag == "g" and not child.attrib else [child]
    element[:] = kept
