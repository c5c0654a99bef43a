"""The chart of a benchmark's document, as SVG: a panel for each figure, a bar for each system. No I/O."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, Final

from integration.bench.measures import FAILOVER, LOADED
from integration.bench.report import FARM, Document, figure_text
from integration.bench.workloads import BULK, CONCURRENT, SEQUENTIAL

WIDTH: Final = 760
_LABEL: Final = 180
_BAR: Final = 430
_ROW: Final = 24
_HEAD: Final = 40
_GAP: Final = 18
STYLE: Final = """
text { font: 14px system-ui, sans-serif; fill: #24292f; }
.title { font-weight: 600; }
.bar { fill: #8c959f; }
.farm { fill: #0969da; }
@media (prefers-color-scheme: dark) { text { fill: #e6edf3; } .bar { fill: #6e7681; } .farm { fill: #4493f8; } }
"""


@dataclass(frozen=True, slots=True)
class Panel:
    """One figure of all systems that have it."""

    title: str
    bars: Sequence[tuple[str, float]]
    """Systems and values, in the order of the document."""


def panels(report: Document) -> Iterator[Panel]:
    """Yield the panels for which the document has figures."""
    results, measures = report["results"], report["measures"]
    kinds = (
        (SEQUENTIAL, "p50_ms", "p50 in ms, less is better"),
        (CONCURRENT, "entries_per_second", "entries/s, more is better"),
        (BULK, "entries_per_second", "entries/s, more is better"),
    )
    for workload, figure, unit in kinds:
        rows = [row for row in results if row["workload"] == workload.name]
        yield from _panel(f"{workload.title}: {unit}", [(row["system"], row["median"][figure]) for row in rows])
    for measure in (FAILOVER, LOADED):
        rows = [row for row in measures if row["measure"] == measure.name]
        yield from _panel(f"{measure.title}: {measure.unit}, less is better", list(map(_bar, rows)))


def _bar(row: Mapping[str, Any]) -> tuple[str, float]:
    return row["system"], row["median"]


def _panel(title: str, bars: Sequence[tuple[str, float]]) -> Iterator[Panel]:
    if bars:
        yield Panel(title, bars)


def chart(report: Document) -> str:
    """Return the document's chart as SVG, readable on light and on dark pages."""
    lines: list[str] = []
    y = 0
    for panel in panels(report):
        lines.append(f'<text class="title" x="0" y="{y + 22}">{escape(panel.title)}</text>')
        most = max(value for _, value in panel.bars) or 1.0
        for number, (system, value) in enumerate(panel.bars):
            top = y + _HEAD + number * _ROW
            kind = "bar farm" if system == FARM else "bar"
            width = max(1.0, _BAR * value / most)
            lines += [
                f'<text x="{_LABEL - 10}" y="{top + 15}" text-anchor="end">{escape(system)}</text>',
                f'<rect class="{kind}" x="{_LABEL}" y="{top}" width="{width:.1f}" height="{_ROW - 5}" rx="2"/>',
                f'<text x="{_LABEL + width + 8:.1f}" y="{top + 15}">{figure_text(value)}</text>',
            ]
        y += _HEAD + len(panel.bars) * _ROW + _GAP
    size = f'viewBox="0 0 {WIDTH} {y}" width="{WIDTH}" height="{y}"'
    title = "A farm of three nodes beside other systems"
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img"><title>{title}</title><style>{STYLE}</style>'
    return "\n".join([head, *lines, "</svg>"]) + "\n"
