"""`gf-i2p pipeline report`: draws the lake's tables as one HTML file."""

import argparse
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from gf_i2p.cli.pipeline.arguments import add_lake, check_out
from gf_i2p.cli.pipeline.spark_job import working
from gf_i2p.cli.shared.command import Answer
from gf_i2p.cli.shared.terminal import ProgressLine
from gf_i2p.pipeline.days import ALL_DAYS, Span
from gf_i2p.pipeline.lake.paths import Lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from gf_i2p.pipeline.report.job import ReportFigures
    from gf_i2p.pipeline.spark_progress import Steps

HELP = "write one HTML file with charts of leaders, publishers, availability and cost, to be read offline"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the job's own arguments."""
    add_lake(parser)
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="the page; an old page is replaced")
    parser.add_argument(
        "--farm",
        action="append",
        default=[],
        metavar="NAME",
        help="only this farm; repeatable (default: the largest)",
    )
    parser.add_argument("--since", metavar="DAY", help="the first day, YYYY-MM-DD in UTC")
    parser.add_argument("--until", metavar="DAY", help="the last day, YYYY-MM-DD in UTC")


def run(options: argparse.Namespace) -> Answer:
    """Run the job. Raises `PipelineError` and `OSError`."""
    span = Span.parse(options.since, options.until)
    check_out(options.out)
    with ProgressLine() as progress, working(options, progress, ()) as (spark, steps):
        return work(spark, steps, Lake(options.lake), options.out, options.farm, span)


def work(
    spark: "SparkSession", steps: "Steps", lake: Lake, out: Path, farms: Sequence[str] = (), span: Span = ALL_DAYS
) -> Answer:
    """Write the page. `farms`: none for the largest. Raises `PipelineError` and `OSError`."""
    from gf_i2p.pipeline.report.job import make_report  # noqa: PLC0415 -- needs Spark

    names = tuple(dict.fromkeys(farms))
    figures = make_report(spark, lake, out, names, span, lambda text: steps(f"summing up {text}"))
    return Answer(asdict(figures), show(figures))


def show(figures: "ReportFigures") -> str:
    """Describe the report as text."""
    farms = f"{figures.farms} of {figures.farms_total} farms, {figures.entries:,} entries"
    lines = [f"{figures.file}: {farms}, {figures.bytes:,} bytes, in {figures.seconds:.1f} s"]
    if figures.missing:
        lines.append(f"not made yet: {', '.join(figures.missing)}; the page says which job makes each")
    return "\n".join(lines)
