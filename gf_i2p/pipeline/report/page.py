"""The page: all charts with their headings, in one file that loads nothing and runs nothing."""

from base64 import b64encode
from collections.abc import Iterable
from hashlib import sha256
from typing import Final

from gf_i2p.pipeline.report import farm_charts, formats, timeless_charts
from gf_i2p.pipeline.report.chart_data import MADE_BY, FarmReport, Report
from gf_i2p.pipeline.report.layout import note
from gf_i2p.pipeline.report.markup import Markup, element
from gf_i2p.pipeline.report.style import STYLE

_POLICY: Final = "default-src 'none'; style-src 'sha256-{}'; base-uri 'none'; form-action 'none'"


def page(report: Report) -> str:
    """Draw the whole page. The same report gives the same text."""
    sections = [
        *(_farm(at, farm) for at, farm in enumerate(report.farms)),
        _section("floodfills", "Floodfills", "The floodfills that answer for the farms' hashes", _floodfills(report)),
        _section("quarantine", "Quarantine", "Files, lines and records that did not fit", _quarantine(report)),
        _section("sizes", "Sizes", "The lake's tables", timeless_charts.sizes(list(report.sizes))),
    ]
    policy = _POLICY.format(b64encode(sha256(STYLE.encode()).digest()).decode())
    head = element(
        "head",
        element("meta", charset="utf-8"),
        Markup(f'<meta http-equiv="Content-Security-Policy" content="{policy}">'),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="referrer", content="no-referrer"),
        element("meta", name="generator", content="gf-i2p"),
        element("title", f"Garlic farms, {formats.day(report.made_ms)}"),
        Markup(f"<style>{STYLE}</style>"),
    )
    body = element("body", _header(report), element("main", *sections))
    return f"<!DOCTYPE html>\n{element('html', head, body, lang='en')}\n"


def _header(report: Report) -> Markup:
    links = [
        *((f"farm-{at}", farm.name) for at, farm in enumerate(report.farms)),
        ("floodfills", "Floodfills"),
        ("quarantine", "Quarantine"),
        ("sizes", "Sizes"),
    ]
    shown = sum(farm.entries for farm in report.farms)
    total = f"{formats.plural(report.farms_total, 'farm')}, {formats.count(report.entries_total)} entries."
    remarks = [f"{total} Made {formats.moment(report.made_ms)} UTC. All times are UTC."]
    if report.farms_total > len(report.farms):
        hidden = formats.count(report.entries_total - shown)
        remarks.append(
            f" {formats.plural(report.farms_total - len(report.farms), 'more farm')} with {hidden} entries: see --farm."
        )
    if report.strange_clocks:
        remarks.append(
            f" Not drawn: {formats.plural(report.strange_clocks, 'entry', 'entries')} with a time of before 2020, or "
            "of the future."
        )
    return element(
        "header",
        element("h1", "Garlic farms"),
        note(*remarks),
        element(
            "nav",
            element("ul", *(element("li", element("a", name, href=f"#{id_}")) for id_, name in links)),
            aria_label="Sections",
        ),
    )


def _farm(at: int, farm: FarmReport) -> Markup:
    period = farm.period
    about = (
        f"{formats.moment(period.since_ms)} to {formats.moment(period.until_ms)}, {formats.lasting(period.length_ms)}"
    )
    parts = [element("p", about, class_="soft"), _tiles(farm)]
    for title, table, drawn in _charts(farm):
        parts += [element("h3", title), drawn if drawn is not None else missing(table)]
    heading = element("h2", farm.name, id=f"farm-{at}-name", class_="first" if at == 0 else None)
    return element("section", heading, *parts, id=f"farm-{at}", aria_labelledby=f"farm-{at}-name")


def _charts(farm: FarmReport) -> Iterable[tuple[str, str, Markup | None]]:
    """Yield title, table and chart of each part. Chart None: the table is missing."""
    period = farm.period
    yield (
        "Leaders and publishers",
        "entries",
        None if farm.timeline is None else farm_charts.timeline(farm.timeline, period),
    )
    yield "Availability", "server_hours", None if farm.heat is None else farm_charts.heat(farm.heat, period)
    yield "Weights", "decisions", None if farm.weights is None else farm_charts.weights(farm.weights, period)
    yield "Load", "destination_hours", None if farm.loads is None else farm_charts.loads(farm.loads, period)
    yield "Anomalies", "anomalies", None if farm.anomalies is None else farm_charts.anomalies(farm.anomalies, period)
    yield "Parameters", "backtest", None if farm.backtest is None else timeless_charts.backtest(farm.backtest)


def _tiles(farm: FarmReport) -> Markup:
    """Draw the farm's main figures, which stand above the charts."""
    figures = [("entries", formats.count(farm.entries))]
    if farm.heat is not None and farm.heat.rows:
        figures.append(("servers", formats.count(farm.heat.servers)))
        if farm.heat.servers_availability is not None:
            figures.append(("availability", formats.percent(farm.heat.servers_availability)))
    if farm.timeline is not None:
        figures.append(("changes of leader", formats.count(farm.timeline.led_changes)))
    if farm.timeline is not None and farm.timeline.published is not None:
        figures.append(("changes of publisher", formats.count(farm.timeline.published_changes)))
        spans = farm_charts.spans(farm.timeline.published, farm.period)
        without = sum(end - start for start, end, who in spans if who is None)
        figures.append(("nobody published", formats.percent(without / farm.period.length_ms)))
    if farm.anomalies is not None:
        figures.append(("unusual episodes", formats.count(farm.anomalies.total)))
    return element(
        "dl", *(element("div", element("dt", name), element("dd", value)) for name, value in figures), class_="tiles"
    )


def _floodfills(report: Report) -> Markup:
    return missing("closest") if report.floodfills is None else timeless_charts.floodfills(report.floodfills)


def _quarantine(report: Report) -> Markup:
    return missing("quarantine") if report.quarantine is None else timeless_charts.quarantine(report.quarantine)


def _section(id_: str, title: str, about: str, *parts: Markup) -> Markup:
    heading = element("h2", title, id=f"{id_}-name")
    return element(
        "section", heading, element("p", about, class_="soft"), *parts, id=id_, aria_labelledby=f"{id_}-name"
    )


def missing(table: str) -> Markup:
    """Draw, in place of a chart, a sentence that names the job that makes the missing table."""
    return element(
        "p",
        f"The table {table} has nothing of this yet: ",
        element("code", f"gf-i2p pipeline {MADE_BY[table]}"),
        " makes it.",
        class_="missing",
    )
