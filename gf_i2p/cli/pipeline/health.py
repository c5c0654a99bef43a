"""`gf-i2p pipeline health`: sums up each hour of servers and destinations, and shows their availability."""

import argparse
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Final

from gf_i2p.cli.pipeline.arguments import add_days, add_lake
from gf_i2p.cli.pipeline.spark_job import working
from gf_i2p.cli.shared.command import Answer
from gf_i2p.cli.shared.terminal import ProgressLine, printable
from gf_i2p.farm.record.status_record import FIRST_LEAF_MEMBER_ID
from gf_i2p.pipeline.days import ALL_DAYS, Span
from gf_i2p.pipeline.lake.paths import Lake

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

    from gf_i2p.pipeline.health.job import HealthFigures
    from gf_i2p.pipeline.spark_progress import Steps

HELP = "availability, gaps, lag, clock skew and anomalies of servers and destinations, by the hour"
_SHOWN_SERVERS: Final = 200
_SHOWN_ANOMALIES: Final = 10
_BRIEFLY_SHOWN: Final = 5
"""Number of anomalies in a brief text."""
_BRIEF_COLUMNS: Final = ("farm", "server", "available", "gaps", "longest", "flaps", "skew")
_HEAD: Final = ("farm", "server", "hours", "available", "gaps", "longest", "flaps", "lag", "skew", "tunnels")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the job's own arguments."""
    add_lake(parser)
    add_days(parser)


def run(options: argparse.Namespace) -> Answer:
    """Run the job. Raises `PipelineError`."""
    lake, span = Lake(options.lake), Span.parse(options.since, options.until)
    with ProgressLine() as progress, working(options, progress, ()) as (spark, steps):
        return work(spark, steps, lake, options.farm, span)


def work(
    spark: "SparkSession",
    steps: "Steps",
    lake: Lake,
    farm: str | None = None,
    span: Span = ALL_DAYS,
    *,
    brief: bool = False,
) -> Answer:
    """Sum up the hours of these days, and find anomalies. `farm`: None for all farms. Raises `PipelineError`.

    `brief`: whether the text has only what fits into 80 columns, and few anomalies.
    """
    from gf_i2p.pipeline.health import job  # noqa: PLC0415 -- needs Spark

    figures = job.refresh(spark, lake, farm, span, on_step=lambda step: steps(f"making {step}"))
    steps("summing up")
    servers, anomalies = job.summarize(spark, lake, farm, span)
    max_servers, max_anomalies = job.MAX_SERVERS, job.MAX_ANOMALIES
    return Answer(
        {
            **asdict(figures),
            "records_per_second": figures.records_per_second,
            "servers": [each.asDict() for each in servers[:max_servers]],
            "more_servers": len(servers) > max_servers,
            "newest_anomalies": [each.asDict() for each in anomalies[:max_anomalies]],
            "more_anomalies": len(anomalies) > max_anomalies,
        },
        show_briefly(servers, anomalies) if brief else show(figures, servers, anomalies),
    )


def show(figures: "HealthFigures", servers: "Sequence[Row]", anomalies: "Sequence[Row]") -> str:
    """Describe the result as text: a table, the newest anomalies, and the work done."""
    lines = [*_table(servers, _HEAD), *_unlike_the_past(anomalies, _SHOWN_ANOMALIES)]
    work = f"{figures.records:,} records in {figures.seconds:.1f} s, {figures.records_per_second:,.0f} a second"
    hours = f"{figures.server_hours:,} hours of servers, {figures.destination_hours:,} of destinations"
    lines += ["", f"{work}: {hours}, {figures.anomalies:,} anomalies"]
    return "\n".join(lines)


def show_briefly(servers: "Sequence[Row]", anomalies: "Sequence[Row]") -> str:
    """Describe the result as text, without the columns that seldom matter."""
    return "\n".join([*_table(servers, _BRIEF_COLUMNS), *_unlike_the_past(anomalies, _BRIEFLY_SHOWN)])


def _table(servers: "Sequence[Row]", columns: Sequence[str]) -> list[str]:
    places = [_HEAD.index(name) for name in columns]
    rows = [[row[place] for place in places] for row in (_HEAD, *(_row(each) for each in servers[:_SHOWN_SERVERS]))]
    widths = [max(len(row[column]) for row in rows) for column in range(len(columns))]
    lines = [_line(row, widths) for row in rows]
    if len(servers) > _SHOWN_SERVERS:
        lines.append(f"and more servers than {_SHOWN_SERVERS}: --farm shows one farm's servers")
    return lines


def _unlike_the_past(anomalies: "Sequence[Row]", count: int) -> list[str]:
    """Return lines that tell of the newest anomalies, `count` at most."""
    if not anomalies:
        return []
    lines = ["", "Unlike the past, newest first:"]
    lines += [f"  {printable(each.farm)}: {each.text}" for each in anomalies[:count]]
    return [*lines, "  and more; --json shows all"] if len(anomalies) > count else lines


def _row(server: "Row") -> tuple[str, ...]:
    name = f"{server.server}" if server.server < FIRST_LEAF_MEMBER_ID else f"{server.server} (member)"
    return (
        printable(server.farm),
        name,
        f"{server.hours:,}",
        f"{server.availability:.2%}",
        f"{server.gaps:,}",
        _time(server.longest_gap_ms),
        f"{server.flaps:,}",
        "-" if server.lag_ms is None else f"{server.lag_ms:,.0f} ms",
        "-" if server.skew_ms is None else f"{server.skew_ms / 1000:+,.1f} s",
        "-" if server.tunnels is None else f"{server.tunnels:,.0f}",
    )


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    """Align a row: the farm to the left, all else to the right."""
    return "  ".join(
        [row[0].ljust(widths[0]), *(text.rjust(width) for text, width in zip(row[1:], widths[1:], strict=True))]
    )


def _time(ms: int) -> str:
    """Return the length of a gap as text. A gap of a whole hour may go on in the next hour: its end is not known."""
    if not ms:
        return "-"
    if ms >= 3_600_000:
        return "1 h or more"
    return f"{ms / 1000:.0f} s" if ms < 120_000 else f"{ms / 60_000:.0f} min"
