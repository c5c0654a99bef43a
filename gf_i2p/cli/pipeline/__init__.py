"""`gf-i2p pipeline`: each job has a file with its arguments and its output."""

import argparse
from collections.abc import Callable
from typing import Any

from gf_i2p.cli.pipeline.parser import JOBS
from gf_i2p.cli.shared.errors import CommandError, Exit
from gf_i2p.pipeline.errors import PipelineError, UsageError
from gf_i2p.pipeline.lake.locks import WRITES, held
from gf_i2p.pipeline.lake.paths import Lake

__all__ = ["run"]


def run(options: argparse.Namespace, print_json: Callable[[Any], None]) -> Exit:
    """Run one job. Jobs that write the same tables exclude each other. Raises `CommandError` and `OSError`."""
    job = JOBS[options.job]
    try:
        if options.job not in WRITES:
            return job.run(options, print_json)
        with held(Lake(options.lake), options.job, options.remote):
            return job.run(options, print_json)
    except UsageError as error:
        raise CommandError(str(error), code=Exit.USAGE) from None
    except PipelineError as error:
        raise CommandError(str(error)) from None
