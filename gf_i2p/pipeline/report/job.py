"""Makes the report: sums up the lake, draws the charts, and replaces the file in one step."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession

from gf_i2p.pipeline.days import ALL_DAYS, Span
from gf_i2p.pipeline.lake.paths import Lake
from gf_i2p.pipeline.report.gather import gather
from gf_i2p.pipeline.report.page import page


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
    spark: SparkSession,
    lake: Lake,
    out: Path,
    names: tuple[str, ...] = (),
    span: Span = ALL_DAYS,
    say: Callable[[str], None] = lambda _: None,
) -> ReportFigures:
    """Make the report. Raises `PipelineError` and `OSError`.

    `out`: the file; an existing file is replaced. `names`: the farms; empty: the largest farms. `say`: called with the
    name of each step.
    """
    began = time.monotonic()
    report = gather(spark, lake, names, span.since_ms, span.until_ms, say)
    say("charts")
    text = page(report).encode("utf-8", "replace")
    part = out.with_name(f".{out.name}.part")
    try:
        part.write_bytes(text)
        part.replace(out)
    except OSError:
        part.unlink(missing_ok=True)
        raise
    return ReportFigures(
        file=str(out),
        bytes=len(text),
        farms=len(report.farms),
        farms_total=report.farms_total,
        entries=report.entries_total,
        missing=tuple(each.name for each in report.sizes if not each.is_there),
        seconds=round(time.monotonic() - began, 3),
    )
