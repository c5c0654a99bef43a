"""The jobs of `gf-i2p pipeline`. Jobs that write the same tables exclude each other."""

import argparse
import errno
from collections.abc import Callable
from typing import Final, Protocol

from gf_i2p.cli.pipeline import (
    backtest,
    catalog,
    compact,
    floodfills,
    health,
    ingest,
    post,
    report,
    run,
    stream,
    synth,
    try_out,
)
from gf_i2p.cli.pipeline.arguments import session_options
from gf_i2p.cli.shared.command import Answer, Command, Subcommand
from gf_i2p.cli.shared.errors import CommandError, Exit
from gf_i2p.pipeline.errors import PipelineError, UsageError
from gf_i2p.pipeline.lake.locks import WRITES, directory, tables_locked
from gf_i2p.pipeline.lake.paths import Lake
from gf_i2p.pipeline.lake.replaced_files import finish
from gf_i2p.pipeline.spark_session import no_package, no_space


class Job(Command, Protocol):
    """The module of a job. Its `run` raises `PipelineError`, `CommandError` and `OSError`."""

    HELP: str
    """Short description of the job."""


_JOBS: Final[dict[str, Job]] = {
    "try": try_out,
    "run": run,
    "synth": synth,
    "ingest": ingest,
    "health": health,
    "backtest": backtest,
    "floodfills": floodfills,
    "stream": stream,
    "report": report,
    "post": post,
    "compact": compact,
    "catalog": catalog,
}


def _run(name: str) -> Callable[[argparse.Namespace], Answer | Exit]:
    """Make the function that runs one job, and that raises `CommandError` for each `PipelineError` of the job."""

    def run_job(options: argparse.Namespace) -> Answer | Exit:
        job = _JOBS[name]
        try:
            if "lake" not in options:
                return job.run(options)
            lake, remote = Lake(options.lake), getattr(options, "remote", None)
            with tables_locked(lake, name, remote):
                if (root := directory(lake, remote)) is not None:
                    finish(root)
                return job.run(options)
        except UsageError as error:
            raise CommandError(str(error), code=Exit.USAGE) from None
        except PipelineError as error:
            raise CommandError(str(error)) from None
        except ModuleNotFoundError as error:
            if (error.name or "").startswith("gf_i2p"):
                raise
            raise CommandError(no_package(error.name)) from None
        except OSError as error:
            if error.errno != errno.ENOSPC or name not in WRITES:
                raise
            raise CommandError(no_space(session_options(options))) from None

    return run_job


METAVAR: Final = "JOB"
COMMANDS: Final = {name: Subcommand(job.HELP, job.add_arguments, _run(name)) for name, job in _JOBS.items()}
