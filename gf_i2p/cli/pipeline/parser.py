"""The jobs of `gf-i2p pipeline`, and their parsers.

Nothing here imports Spark, and a job's file imports Spark in its functions only: `gf-i2p --help` needs no Spark.
"""

import argparse
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

from gf_i2p.cli.commands.keys_arguments import Add
from gf_i2p.cli.pipeline import backtest, floodfills, health, ingest, post, report, stream, synth
from gf_i2p.cli.shared.errors import Exit


class Job(Protocol):
    """The module of a job."""

    HELP: str
    """Short description of the job."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the job's own arguments."""

    def run(self, options: argparse.Namespace, print_json: Callable[[Any], None]) -> Exit:
        """Run the job. Raises `PipelineError`, `CommandError` and `OSError`."""


JOBS: Final[Mapping[str, Job]] = {
    "synth": synth,
    "ingest": ingest,
    "health": health,
    "backtest": backtest,
    "floodfills": floodfills,
    "stream": stream,
    "report": report,
    "post": post,
}


def add_pipeline(commands: Any, add: Add, run: Callable[[argparse.Namespace], object]) -> None:
    """Add the commands to argparse's `commands`. `add` makes one command."""
    pipeline = commands.add_parser("pipeline", help="learn from the histories of farms, by Spark")
    jobs = pipeline.add_subparsers(required=True, metavar="JOB")
    for name, job in JOBS.items():
        parser = add(jobs, name, job.HELP, run)
        parser.set_defaults(job=name)
        job.add_arguments(parser)
