"""`gf-i2p pipeline synth`: makes histories of invented farms."""

import argparse
from dataclasses import asdict
from pathlib import Path

from gf_i2p.cli.shared.argument_types import whole_number
from gf_i2p.cli.shared.command import Answer
from gf_i2p.cli.shared.terminal import ProgressLine

HELP = "make histories of invented farms, for tests and to try sizes"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the job's own arguments."""
    parser.add_argument(
        "out",
        type=Path,
        metavar="OUT",
        help="a new or empty directory, for the files FARM/server-ID/entries-….jsonl",
    )
    parser.add_argument(
        "--farms", type=whole_number(10_000), default=4, metavar="N", help="number of farms (default: 4)"
    )
    parser.add_argument(
        "--days",
        type=whole_number(36_500),
        default=7,
        metavar="D",
        help="days of each farm, from 2025-01-01 on (default: 7)",
    )
    parser.add_argument(
        "--rows",
        type=whole_number(10**9),
        metavar="R",
        help="choose the days so that all farms together have about R entries",
    )
    parser.add_argument(
        "--seed",
        type=whole_number(10**9),
        default=1,
        metavar="S",
        help="the same seed gives the same files (default: 1)",
    )
    parser.add_argument(
        "--nodes",
        type=whole_number(9),
        default=1,
        metavar="K",
        help="servers of each farm that have exported a history (default: 1)",
    )
    parser.add_argument(
        "--faults", action="store_true", help="add a farm with broken files and lines, listed in manifest.json"
    )
    parser.add_argument(
        "--incidents",
        choices=("usual", "other"),
        metavar="CLIMATE",
        help="make farms with incidents, listed in labels.json; usual: as when the rules of health were made, other: "
        "other days, noise and strengths; only --farms, --days and --seed count",
    )
    parser.add_argument("--level", type=whole_number(9), default=1, metavar="L", help="gzip level, 1 to 9 (default: 1)")
    parser.add_argument("--jobs", type=whole_number(256), metavar="J", help="processes (default: one for each core)")


def run(options: argparse.Namespace) -> Answer:
    """Make the histories. Raises `PipelineError` and `OSError`."""
    from gf_i2p.pipeline.synth.job import SynthOptions, synth  # noqa: PLC0415 -- the simulator is needed here only

    if options.incidents is not None:
        return _labelled(options)
    job_options = SynthOptions(
        out=options.out,
        farms=options.farms,
        days=options.days,
        rows=options.rows,
        seed=options.seed,
        nodes=options.nodes,
        faults=options.faults,
        level=options.level,
        processes=options.jobs,
    )
    with ProgressLine() as progress:
        figures = synth(job_options, say=progress)
    return Answer(
        {**asdict(figures), "rows_per_second": round(figures.rows_per_second)},
        f"{figures.entries:,} entries ({figures.status:,} status records) of {figures.farms:,} farms and "
        f"{figures.days:,} days\n"
        f"{figures.lines:,} lines in {figures.files:,} files, {figures.raw_bytes / 1e6:,.1f} MB, "
        f"{figures.bytes / 1e6:,.1f} MB on the disk\n"
        f"{figures.life_seconds:.1f} s to simulate lives, {figures.seconds:.1f} s to write: "
        f"{figures.rows_per_second:,.0f} lines/s",
    )


def _labelled(options: argparse.Namespace) -> Answer:
    from gf_i2p.pipeline.synth.job import make_empty, midnight_ms  # noqa: PLC0415
    from gf_i2p.pipeline.synth.labelled_farm import LABELS, write_labelled  # noqa: PLC0415 -- needs the extra spark

    make_empty(options.out)
    with ProgressLine() as progress:
        figures = write_labelled(
            options.out, options.incidents, options.farms, options.days, options.seed, midnight_ms(0), progress
        )
    return Answer(
        asdict(figures),
        f"{figures.entries:,} entries of {figures.farms:,} farms and {figures.days:,} days\n"
        f"{figures.incidents:,} incidents, listed in {options.out / LABELS}",
    )
