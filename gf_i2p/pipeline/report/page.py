"""The page: the templates filled in, in one file that loads nothing and runs nothing.

The templates escape all text. Names of farms, reasons and parameters come from logs to which anybody in a farm can
write.
"""

from base64 import b64encode
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import jinja2
from markupsafe import Markup, escape

from gf_i2p.farm.record.status_record import FIRST_LEAF_MEMBER_ID
from gf_i2p.pipeline.backtest import grid
from gf_i2p.pipeline.backtest.result_rows import BacktestRow, live_row
from gf_i2p.pipeline.health.server_hours import MEANS
from gf_i2p.pipeline.lake.paths import TABLES
from gf_i2p.pipeline.report import charts, farm_charts, formats
from gf_i2p.pipeline.report.report_data import FarmReport, Report, Series
from gf_i2p.pipeline.report.verdicts import Verdicts, mean, verdicts

_TEMPLATES: Final = Path(__file__).parent / "templates"
_POLICY: Final = "default-src 'none'; style-src 'sha256-{}'; base-uri 'none'; form-action 'none'"
_PARAMETERS: Final = 12
"""Most parameters of a set that are shown."""
_EPISODES: Final = 40
"""Most episodes of a farm that are listed."""
_SENTENCES: Final = 2_000
"""Most characters of the backtest's advice, which has several sentences."""
_NOTHING: Final = "as in the log"
"""Text for the live set, and for a set whose values the farm has at the end of the log."""


def page(report: Report) -> str:
    """Fill in the whole page. The same report gives the same text."""
    style = (_TEMPLATES / "style.css").read_text("utf-8")
    farms = [FarmView(each) for each in report.farms]
    farms.sort(key=lambda farm: (*farm.verdicts.order, farm.data.name))
    for at, farm in enumerate(farms):
        farm.id = f"farm-{at}"
    templates = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_cleaned,
    )
    templates.filters |= {
        "count": formats.count, "plural": formats.plural, "size": formats.size, "percent": formats.percent,
        "lasting": formats.lasting, "moment": formats.moment, "figure": formats.figure, "server": formats.server,
        "address": formats.address, "short": formats.short, "leaf_name": farm_charts.leaf_name,
        "whole": _whole, "equal_bits": formats.equal_bits,
    }  # fmt: skip
    return templates.get_template("page.html.j2").render(
        report=report,
        farms=farms,
        made_by=TABLES,
        levels=charts.LEVELS,
        style=Markup(style),  # noqa: S704 -- a file of this package
        policy=_POLICY.format(b64encode(sha256(style.encode()).digest()).decode()),
    )


def _whole(text: str) -> Markup:
    """Return a text of some sentences without unprintable characters, escaped, and longer than other texts may be."""
    return Markup(escape(formats.clean(text, most=_SENTENCES)))  # noqa: S704 -- escaped


def _cleaned(value: Any) -> Any:
    """Return a text of the data without unprintable characters, and not too long."""
    return formats.clean(value) if isinstance(value, str) and not isinstance(value, Markup) else value


class FarmView:
    """A farm as the template sees it."""

    def __init__(self, farm: FarmReport) -> None:
        self.data = farm
        self.id = ""
        self.verdicts: Verdicts = verdicts(farm)
        servers, leaves = farm.servers or {}, farm.leaves or {}
        self.lined_servers = farm_charts.colours(servers)
        self.lined_leaves = farm_charts.colours(dict.fromkeys([*leaves, *(farm.costs or ())]))
        self.server_charts = list(farm_charts.of_servers(farm, self.lined_servers))
        self.leaf_charts = list(farm_charts.of_leaves(farm, self.lined_leaves))
        self.servers = [_row(id_, series) for id_, series in servers.items()]
        self.leaves = [_row(hash_, series, ("load", "connections")) for hash_, series in leaves.items()]
        self.owners = {hash_: series[max(series)]["server"] for hash_, series in leaves.items()}
        self.episodes = sorted(farm.episodes or (), key=lambda each: -each.score)[:_EPISODES]
        self.led = farm_charts.shares(farm.led.turns if farm.led else (), farm.period)
        self.published = farm_charts.shares(farm.published.turns if farm.published else (), farm.period)
        self.missing = [
            table
            for table, value in (
                ("server_hours", farm.servers), ("destination_hours", farm.leaves), ("anomalies", farm.episodes),
                ("decisions", farm.published), ("backtest", farm.trials),
            )
            if value is None
        ]  # fmt: skip

    def shown(self, trial: BacktestRow) -> str:
        """Return a text with the values in which a set differs from the farm's; without differences, `_NOTHING`."""
        in_force = live_row(self.data.trials or ()).in_force
        changes = [f"{name} = {value}" for name, value in grid.differences(trial.parameters, in_force).items()]
        ellipsis = ", …" if len(changes) > _PARAMETERS else ""
        return ", ".join(changes[:_PARAMETERS]) + ellipsis or _NOTHING

    @property
    def availability(self) -> float | None:
        """Mean availability of all hours of servers, without leaf members."""
        servers = (series for id_, series in (self.data.servers or {}).items() if id_ < FIRST_LEAF_MEMBER_ID)
        cells = [cell for series in servers for cell in series.values()]
        return mean(cells, "availability")

    @property
    def listed(self) -> Mapping[str, float]:
        """Share of the time in which each leaf is listed, by the leaf's hash."""
        costs = self.data.costs or {}
        return {hash_: sum(each is not None for each in of) / max(len(of), 1) for hash_, of in costs.items()}


def _row(id_: Any, series: Series, means: Sequence[str] = ("skew_ms", *MEANS)) -> dict[str, Any]:
    """Return a row of the table of servers, or of leaves."""
    cells = list(series.values())
    return {
        "id": id_,
        "records": sum(cell["records"] or 0 for cell in cells),
        "flaps": sum(cell["flaps"] or 0 for cell in cells),
        "longest_gap_ms": max((cell.get("gap") or 0 for cell in cells), default=0),
        "means": {name: mean(cells, name) for name in ("availability", *means)},
    }
