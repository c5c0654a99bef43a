"""The arguments that all jobs of `gf-i2p pipeline` have, and which jobs there are.

Nothing here, nor in a job's file outside of its functions, imports Spark: `gf-i2p --help` does without it.
"""

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, Protocol

from gf_i2p.cli.errors import Exit
from gf_i2p.cli.keys_parser import Add
from gf_i2p.cli.pipeline import synth
from gf_i2p.cli.values import whole
from gf_i2p.pipeline.session import DEFAULT_MEMORY_MB, SessionOptions

MAX_MEMORY_MB: Final = 1 << 20


class Job(Protocol):
    """The module of a job."""

    HELP: str
    """What it does, in a clause."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add those that only it has."""

    def run(self, options: argparse.Namespace, print_json: Callable[[Any], None]) -> Exit:
        """Do it. Raises `PipelineError`, `CommandError` and `OSError`."""


JOBS: Final[Mapping[str, Job]] = {"synth": synth}


def add_pipeline(commands: Any, add: Add, run: Callable[[argparse.Namespace], object]) -> None:
    """Add the commands to argparse's `commands`. `add`: makes one."""
    pipeline = commands.add_parser("pipeline", help="learn from the histories of farms, by Spark")
    jobs = pipeline.add_subparsers(required=True, metavar="JOB")
    for name, job in JOBS.items():
        parser = add(jobs, name, job.HELP, run)
        parser.set_defaults(job=name)
        job.add_arguments(parser)


def add_lake(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of a job on the lake's tables."""
    parser.add_argument("lake", metavar="LAKE", help="the directory of the pipeline's tables, or its address")
    add_spark(parser)


def add_spark(parser: argparse.ArgumentParser) -> None:
    """Add where and how Spark runs."""
    spark = parser.add_argument_group("Spark")
    spark.add_argument("--master", metavar="URL", help="as spark-submit's (default: all cores of this machine)")
    spark.add_argument("--remote", metavar="URL", help="a Spark Connect server, sc://HOST:PORT")
    spark.add_argument(
        "--memory",
        type=whole(MAX_MEMORY_MB, low=512),
        default=DEFAULT_MEMORY_MB,
        metavar="MB",
        help=f"of Spark's heap on this machine (default: {DEFAULT_MEMORY_MB})",
    )
    spark.add_argument("--scratch", type=Path, metavar="DIR", help="where Spark puts what its memory does not hold")


def session_options(options: argparse.Namespace) -> SessionOptions:
    """Give what `add_spark` has read."""
    return SessionOptions(options.master, options.remote, options.memory, options.scratch)
