"""`gf-i2p pipeline ingest`: takes nodes' histories into the lake, and describes their contents."""

import argparse
from dataclasses import asdict
from typing import TYPE_CHECKING

from gf_i2p.cli.pipeline.arguments import add_lake
from gf_i2p.cli.pipeline.spark_job import working
from gf_i2p.cli.shared.answer_text import printable
from gf_i2p.cli.shared.command import Answer
from gf_i2p.cli.shared.terminal import ProgressLine
from gf_i2p.pipeline.lake.paths import Lake

if TYPE_CHECKING:
    from gf_i2p.pipeline.ingest.job import Figures

HELP = "take histories into the lake: each entry once, typed; run again for new histories"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the job's own arguments."""
    add_lake(parser)
    parser.add_argument(
        "exports",
        nargs="+",
        metavar="EXPORT",
        help="a directory, or its address, with a node's history (entries-….jsonl), or with such directories",
    )


def run(options: argparse.Namespace) -> Answer:
    """Run the job. Raises `PipelineError`."""
    with ProgressLine() as progress, working(options, progress) as (spark, steps):
        from gf_i2p.pipeline.ingest.job import ingest  # noqa: PLC0415 -- needs Spark

        figures = ingest(spark, Lake(options.lake), options.exports, step=steps)
    return Answer({**asdict(figures), "rows_per_second": figures.rows_per_second}, show(figures))


def show(found: "Figures") -> str:
    """Describe a run in a few lines."""
    read = found.files - found.unchanged
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in found.kinds.items() if count) or "nothing"
    alike = f"{found.unchanged:,} unchanged, {found.duplicates:,} the same as other files"
    size = f"{found.read_bytes:,} read, {found.content_bytes:,} unpacked"
    lines = [
        f"files       {found.files:,}: {read:,} read, {alike}, {found.damaged:,} with faults",
        f"entries     {found.entries:,} in {found.lines:,} lines: {found.new:,} new, {found.known:,} known",
        f"new         {kinds}; {found.misfits:,} status records are not believed",
        f"quarantine  {found.quarantined_rows:,} new rows",
        *(f"            {count:,} × {printable(reason)}" for reason, count in found.quarantined.items()),
        f"bytes       {size}; the lake's entries take {found.lake_bytes:,}",
        f"time        {found.seconds:.1f} s, {found.rows_per_second:,.0f} entries a second",
    ]
    return "\n".join(lines)
