"""`gf-i2p pipeline try`: makes up a small farm, runs all jobs on the farm's history, and opens the report."""

import argparse
import os
import webbrowser
from pathlib import Path
from typing import Final

from gf_i2p.cli.pipeline.run import JobProgress, run_jobs
from gf_i2p.cli.shared.command import Answer
from gf_i2p.cli.shared.terminal import ProgressLine
from gf_i2p.pipeline.lake.locks import tables_locked
from gf_i2p.pipeline.lake.paths import Lake, absolute
from gf_i2p.pipeline.spark_session import SessionOptions, check_installed

HELP = "make up a small farm, run all jobs on it, and open the report: a first look, in about a minute"
DEFAULT: Final = Path("gf-i2p-try")
_DAYS: Final = 14
"""Days of the farm: `backtest` recommends nothing on less than ten days."""
_SEED: Final = 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the job's own arguments."""
    parser.add_argument(
        "directory",
        nargs="?",
        type=Path,
        default=DEFAULT,
        metavar="DIR",
        help=f"a new or empty directory for the history, the tables and the report (default: {DEFAULT})",
    )
    parser.add_argument("--no-open", action="store_true", help="do not open the report in a browser")


def run(options: argparse.Namespace) -> Answer:
    """Make up the farm, and run the jobs. Raises `PipelineError` and `OSError`."""
    lake = Lake(str(options.directory / "lake"))
    exports, page = options.directory / "exports", options.directory / "report.html"
    with ProgressLine() as line:
        progress = JobProgress(line)
        progress("making up a farm", at_once=True)
        check_installed()  # before the directory is made: the operator installs Java, and tries again
        from gf_i2p.pipeline.synth.job import make_empty, midnight_ms  # noqa: PLC0415 -- the simulator takes a second
        from gf_i2p.pipeline.synth.labelled_farm import write_labelled  # noqa: PLC0415 -- needs the extra spark

        make_empty(options.directory)
        exports.mkdir()
        made = write_labelled(exports, "usual", 1, _DAYS, _SEED, midnight_ms(0), progress)
        with tables_locked(lake, "run"):
            answer = run_jobs(SessionOptions(lake=lake.root), lake, [absolute(str(exports))], page, progress)
    is_open = not options.no_open and _has_display() and webbrowser.open(page.absolute().as_uri())
    text = (
        f"{answer.text}\n\n"
        f"This farm is made up: {made.days} days of three servers, with {made.incidents} incidents.\n"
        f"The report {'is open in your browser' if is_open else 'is ready'}: {page.absolute()}\n"
        f"Delete {options.directory} when you have seen enough.\n\n"
        "Next, take your own farm: copy the directory `history` of each node below a directory `exports`, and run\n"
        "  gf-i2p pipeline run lake exports --report report.html"
    )
    data = {
        **answer.data,
        "made_up": True,
        "directory": str(options.directory.absolute()),
        "page": str(page.absolute()),
        "opened": is_open,
    }
    return Answer(data, text, is_report=True)


def _has_display() -> bool:
    """Return whether a browser could show a window. Without a display, a text browser would take the terminal."""
    return any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))
