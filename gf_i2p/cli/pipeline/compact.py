"""`gf-i2p pipeline compact`: merges the small files that batches leave in the lake."""

import argparse
from dataclasses import asdict
from typing import TYPE_CHECKING

from gf_i2p.cli.pipeline.arguments import add_lake
from gf_i2p.cli.pipeline.spark_job import working
from gf_i2p.cli.shared.command import Answer
from gf_i2p.cli.shared.terminal import ProgressLine
from gf_i2p.pipeline.errors import PipelineError, UsageError
from gf_i2p.pipeline.lake.locks import directory
from gf_i2p.pipeline.lake.paths import Lake

if TYPE_CHECKING:
    from gf_i2p.pipeline.compact import CompactFigures

HELP = "merge the many small files of a lake, which a stream leaves, to one file for each farm and day"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the job's own arguments."""
    add_lake(parser)


def run(options: argparse.Namespace) -> Answer:
    """Run the job, without Spark if there is nothing to merge. Raises `PipelineError` and `OSError`."""
    from gf_i2p.pipeline.compact import CompactFigures, compact, crowded, sizes  # noqa: PLC0415 -- needs pyarrow

    lake = Lake(options.lake)
    root = directory(lake, options.remote)
    if root is None:
        raise UsageError(f"{lake.root} is no directory of this machine: compact can merge files only there.")
    if not root.is_dir():
        raise PipelineError(f"There is no lake {root}: name the directory that `gf-i2p pipeline ingest` has filled.")
    if crowded(root):
        with ProgressLine() as progress, working(options, progress, ()) as (spark, steps):
            figures = compact(spark, lake, root, steps)
    else:
        count, size = sizes(root)
        figures = CompactFigures(count, count, size, size, 0.0)
    return Answer(asdict(figures), show(figures))


def show(figures: "CompactFigures") -> str:
    """Describe a run in a few lines."""
    return (
        f"files  {figures.files_before:,} before, {figures.files_after:,} now\n"
        f"bytes  {figures.bytes_before:,} before, {figures.bytes_after:,} now\n"
        f"time   {figures.seconds:.1f} s"
    )
