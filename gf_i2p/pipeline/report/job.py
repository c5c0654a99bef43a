"""Makes the report: sums up the lake, draws the charts, and replaces the file in one step."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import SparkSession

from gf_i2p.pipeline.lake.paths import Lake
from gf_i2p.pipeline.report.gather import ReportScope, gather
from gf_i2p.pipeline.report.page import page


@dataclass(frozen=True, slots=True)
class ReportOptions:
    """The content of the report, and its file."""

    out: Path
    """The file; an existing file is replaced."""
    scope: ReportScope = field(default_factory=ReportScope)


@dataclass(frozen=True, slots=True)
class ReportFigures:
    """Counts of the farms and entries in one report, and the report's size."""

    file: str
    bytes: int
    farms: int
    """Farms that are drawn."""
    farms_total: int
    entries: int
    missing: tuple[str, ...]
    """Tables that no job has made yet."""
    seconds: float


def make_report(
    spark: SparkSession, lake: Lake, options: ReportOptions, say: Callable[[str], None] = lambda _: None
) -> ReportFigures:
    """Make the report. `say`: called with the name of each step. Raises `PipelineError` and `OSError`."""
    began = time.monotonic()
    report = gather(spark, lake, options.scope, say)
    say("charts")
    text = page(report).encode("utf-8", "replace")
    part = options.out.with_name(f".{options.out.name}.part")
    try:
        part.write_bytes(text)
        part.replace(options.out)
    except OSError:
        part.unlink(missing_ok=True)
        raise
    return ReportFigures(
        file=str(options.out),
        bytes=len(text),
        farms=len(report.farms),
        farms_total=report.farms_total,
        entries=report.entries_total,
        missing=tuple(each.name for each in report.sizes if not each.is_there),
        seconds=round(time.monotonic() - began, 3),
    )
