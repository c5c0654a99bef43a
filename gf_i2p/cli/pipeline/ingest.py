"""`gf-i2p pipeline ingest`: takes nodes' histories into the lake, and describes their contents."""

import argparse
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from gf_i2p.cli.pipeline.arguments import add_lake
from gf_i2p.cli.pipeline.spark_job import working
from gf_i2p.cli.shared.command import Answer
from gf_i2p.cli.shared.terminal import ProgressLine, printable
from gf_i2p.pipeline.lake.paths import Lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from gf_i2p.pipeline.ingest.job import IngestFigures
    from gf_i2p.pipeline.spark_progress import Steps

HELP = "take histories into the lake: each entry once, typed; run again for new histories"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the job's own arguments."""
    add_lake(parser)
    add_exports(parser)


def add_exports(parser: argparse.ArgumentParser) -> None:
    """Add the argument that names the histories."""
    parser.add_argument(
        "exports",
        nargs="+",
        metavar="EXPORT",
        help="a directory, or its address, with a node's history (entries-….jsonl), or with such directories",
    )


def run(options: argparse.Namespace) -> Answer:
    """Run the job. Raises `PipelineError`."""
    with ProgressLine() as progress, working(options, progress, options.exports) as (spark, steps):
        figures = work(spark, steps, Lake(options.lake), options.exports)
    return Answer(as_json(figures), show(figures))


def work(spark: "SparkSession", steps: "Steps", lake: Lake, exports: Sequence[str]) -> "IngestFigures":
    """Take the histories under the directories `exports` into the lake. Raises `PipelineError`."""
    from gf_i2p.pipeline.ingest.job import ingest  # noqa: PLC0415 -- needs Spark

    return ingest(spark, lake, exports, step=steps)


def as_json(figures: "IngestFigures") -> dict[str, Any]:
    """Return the figures as a JSON object."""
    return {**asdict(figures), "rows_per_second": figures.rows_per_second}


def show(figures: "IngestFigures") -> str:
    """Describe a run in a few lines."""
    files_read = figures.files - figures.unchanged
    skipped = f"{figures.unchanged:,} unchanged, {figures.duplicates:,} the same as other files"
    size = f"{figures.read_bytes:,} read, {figures.content_bytes:,} unpacked"
    lines = [
        f"files       {figures.files:,}: {files_read:,} read, {skipped}, {figures.damaged:,} with faults",
        shortly(figures),
        f"bytes       {size}; the lake's entries take {figures.lake_bytes:,}",
        f"time        {figures.seconds:.1f} s, {figures.rows_per_second:,.0f} entries a second",
    ]
    return "\n".join(lines)


def shortly(figures: "IngestFigures") -> str:
    """Describe only the entries and the faults."""
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in figures.kinds.items() if count) or "nothing"
    lines = [
        f"entries     {figures.entries:,} in {figures.lines:,} lines: {figures.new:,} new, {figures.known:,} known",
        f"new         {kinds}; {figures.misfits:,} status records are not believed",
        f"quarantine  {figures.quarantined_rows:,} new rows",
        *(f"            {count:,} × {printable(reason)}" for reason, count in figures.quarantined.items()),
    ]
    return "\n".join(lines)
