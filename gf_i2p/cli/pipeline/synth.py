"""`gf-i2p pipeline synth`: makes histories of invented farms."""

import argparse
from dataclasses import asdict
from pathlib import Path

from gf_i2p.cli.shared.argument_types import whole
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
    parser.add_argument("--farms", type=whole(10_000), default=4, metavar="N", help="number of farms (default: 4)")
    parser.add_argument(
        "--days", type=whole(36_500), default=7, metavar="D", help="days of each farm, from 2025-01-01 on (default: 7)"
    )
    parser.add_argument(
        "--rows", type=whole(10**9), metavar="R", help="choose the days so that all farms together have about R entries"
    )
    parser.add_argument(
        "--seed", type=whole(10**9), default=1, metavar="S", help="the same seed gives the same files (default: 1)"
    )
    parser.add_argument(
        "--nodes",
        type=whole(9),
        default=1,
        metavar="K",
        help="servers of each farm that have exported a history (default: 1)",
    )
    parser.add_argument(
        "--faults", action="store_true", help="add a farm with broken files and lines, listed in manifest.json"
    )
    parser.add_argument("--level", type=whole(9), default=1, metavar="L", help="gzip level, 1 to 9 (default: 1)")
    parser.add_argument("--jobs", type=whole(256), metavar="J", help="processes (default: one for each core)")


def run(options: argparse.Namespace) -> Answer:
    """Make the histories. Raises `PipelineError` and `OSError`."""
    from gf_i2p.pipeline.synth.job import SynthOptions, synth  # noqa: PLC0415 -- the simulator is needed here only

    asked = SynthOptions(
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
        made = synth(asked, say=progress)
    return Answer(
        {**asdict(made), "rows_per_second": round(made.rows_per_second)},
        f"{made.entries:,} entries ({made.status:,} status records) of {made.farms:,} farms and {made.days:,} days\n"
        f"{made.lines:,} lines in {made.files:,} files, {made.raw_bytes / 1e6:,.1f} MB, {made.bytes / 1e6:,.1f} MB "
        "on the disk\n"
        f"{made.life_seconds:.1f} s to simulate lives, {made.seconds:.1f} s to write: "
        f"{made.rows_per_second:,.0f} lines/s",
    )
