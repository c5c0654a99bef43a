"""`gf-i2p pipeline run`: goes from the histories of a small farm to its report, with one start of Spark."""

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from gf_i2p.cli.pipeline import backtest, health, ingest, report
from gf_i2p.cli.pipeline.arguments import add_lake, check_out, session_options
from gf_i2p.cli.pipeline.spark_job import started
from gf_i2p.cli.shared.command import Answer
from gf_i2p.cli.shared.terminal import ProgressLine
from gf_i2p.pipeline.backtest import grid
from gf_i2p.pipeline.backtest.measures import WEIGHTS
from gf_i2p.pipeline.errors import NothingToDoError
from gf_i2p.pipeline.lake.paths import Lake
from gf_i2p.pipeline.spark_session import SessionOptions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from gf_i2p.pipeline.spark_progress import Steps

HELP = "from histories to the report at once, for small farms: ingest, health, backtest and report"
_JOBS: Final = ("ingest", "health", "backtest", "report")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the job's own arguments."""
    add_lake(parser)
    ingest.add_exports(parser)
    parser.add_argument(
        "--report", type=Path, required=True, metavar="FILE", help="the page with the charts; an old page is replaced"
    )


def run(options: argparse.Namespace) -> Answer:
    """Run the jobs. Raises `PipelineError`, `CommandError` and `OSError`."""
    check_out(options.report, "--report")
    with ProgressLine() as line:
        progress = JobProgress(line)
        return run_jobs(session_options(options), Lake(options.lake), options.exports, options.report, progress)


class JobProgress:
    """Shows which job runs, and the job's step: on a terminal in one changing line, elsewhere one line for each job."""

    def __init__(self, line: ProgressLine) -> None:
        self._line = line
        self._job = ""

    def begin(self, job: str) -> None:
        """Begin one of `_JOBS`."""
        name, self._job = f"{_JOBS.index(job) + 1} of {len(_JOBS)}: {job}", ""
        self(name, at_once=True)
        self._job = f"{name}: "

    def __call__(self, text: str, *, at_once: bool = False) -> None:
        """Show a text. Without a terminal, only texts with `at_once` are shown."""
        text = self._job + text
        self._line(text, at_once=at_once)
        if at_once and not sys.stderr.isatty():
            print(text, file=sys.stderr, flush=True)


def run_jobs(options: SessionOptions, lake: Lake, exports: Sequence[str], page: Path, progress: JobProgress) -> Answer:
    """Run the four jobs with one Spark. Raises `PipelineError` and `OSError`.

    `exports`: as for `ingest`. `page`: the file of the report. A job that finds nothing to work on stops no other job.
    """
    answers: dict[str, Answer] = {}
    with started(options, progress, exports) as (spark, steps):
        jobs: dict[str, Callable[[], Answer]] = {
            "ingest": lambda: _ingest(spark, steps, lake, exports),
            "health": lambda: health.work(spark, steps, lake, brief=True),
            "backtest": lambda: _backtest(spark, steps, lake),
            "report": lambda: report.work(spark, steps, lake, page),
        }
        for name in _JOBS:
            progress.begin(name)
            steps("looking at the lake")  # until the job names its first step
            try:
                answers[name] = jobs[name]()
            except NothingToDoError as error:
                answers[name] = Answer({"nothing_to_do": str(error)}, str(error))
    text = "\n\n".join(f"{name.capitalize()}\n{answers[name].text}" for name in _JOBS)
    return Answer({name: answer.data for name, answer in answers.items()}, text, is_report=True)


def _ingest(spark: "SparkSession", steps: "Steps", lake: Lake, exports: Sequence[str]) -> Answer:
    figures = ingest.work(spark, steps, lake, exports)
    return Answer(ingest.as_json(figures), ingest.shortly(figures))


def _backtest(spark: "SparkSession", steps: "Steps", lake: Lake) -> Answer:
    figures, farms = backtest.work(spark, steps, lake, grid.combined(grid.USUAL))
    data: dict[str, Any] = backtest.as_json(figures, farms, WEIGHTS)
    return Answer(data, backtest.shortly(figures, farms))
