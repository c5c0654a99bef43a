"""`gf-i2p pipeline floodfills`: finds the floodfills closest to a farm's lease sets, yesterday, today and tomorrow."""

import argparse
from dataclasses import asdict
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gf_i2p.cli.pipeline.arguments import add_lake
from gf_i2p.cli.pipeline.spark_job import working
from gf_i2p.cli.shared.argument_types import whole_number
from gf_i2p.cli.shared.command import Answer
from gf_i2p.cli.shared.terminal import ProgressLine
from gf_i2p.netdb.errors import StructureError
from gf_i2p.node.clock import now_ms
from gf_i2p.pipeline.days import FIRST_DAY, LAST_DAY
from gf_i2p.pipeline.errors import UsageError
from gf_i2p.pipeline.floodfills.given_hashes import SoughtLeaseSet, parse_target, parse_targets
from gf_i2p.pipeline.lake.paths import Lake

if TYPE_CHECKING:
    from gf_i2p.pipeline.floodfills.job import FloodfillFigures

HELP = "find the floodfills closest to the farms' hashes, among the RouterInfos that a router knows"
MAX_NET_ID: Final = 254
MAX_HOURS: Final = 24 * 366


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the job's own arguments."""
    add_lake(parser)
    parser.add_argument(
        "--netdb",
        dest="netdbs",
        action="append",
        required=True,
        metavar="DIR",
        help="the netDb directory of an i2pd or a Java router, or the router's own directory around it; repeatable",
    )
    parser.add_argument(
        "--profiles",
        action="append",
        default=[],
        metavar="DIR",
        help="the peerProfiles directory, unless it is in the router's own directory of --netdb; repeatable",
    )
    parser.add_argument(
        "--hash",
        dest="hashes",
        type=_target,
        action="append",
        default=[],
        metavar="HASH",
        help="add this hash: base64, or ….b32.i2p; repeatable (the lake's masters and leaves are always included)",
    )
    parser.add_argument(
        "--hashes", dest="file", type=Path, metavar="FILE", help="add the hashes of this file: HASH [NAME], one a line"
    )
    parser.add_argument(
        "--day", type=_day, metavar="YYYY-MM-DD", help="the middle of the three days (default: today, UTC)"
    )
    parser.add_argument(
        "--net-id",
        type=whole_number(MAX_NET_ID),
        metavar="ID",
        help="only floodfills of this network (2: the live one)",
    )
    parser.add_argument(
        "--published-within",
        dest="within_hours",
        type=whole_number(MAX_HOURS),
        metavar="HOURS",
        help="only floodfills whose RouterInfo is at most HOURS old",
    )


def run(options: argparse.Namespace) -> Answer:
    """Run the job. Raises `PipelineError` and `OSError`."""
    targets: list[SoughtLeaseSet] = list(options.hashes)
    if options.file is not None:
        with options.file.open(encoding="utf-8", errors="replace") as lines:
            try:
                targets += parse_targets(lines)
            except UsageError as error:
                raise UsageError(f"{options.file}: {error}") from None
    with ProgressLine() as progress, working(options, progress) as (spark, steps):
        from gf_i2p.pipeline.floodfills.job import FloodfillOptions, find_closest  # noqa: PLC0415 -- needs Spark

        job_options = FloodfillOptions(
            netdbs=options.netdbs,
            day=options.day or datetime.now(UTC).date(),
            profiles=options.profiles,
            targets=targets,
            net_id=options.net_id,
            within_hours=options.within_hours,
        )
        lake = Lake(options.lake)
        figures = find_closest(spark, lake, job_options, now_ms(), steps)
    return Answer(asdict(figures), show(figures, lake))


def show(figures: "FloodfillFigures", lake: Lake) -> str:
    """Describe a run in a few lines."""
    table = lake.path("closest")
    lines = [
        f"files       {figures.files}, {figures.bytes / 2**20:.1f} MiB, read in {figures.parse_seconds:.1f} s",
        f"routers     {figures.routers}; signatures of other types, not verified: {figures.unverified}",
        f"profiles    of {figures.profiles} routers",
        f"floodfills  {figures.floodfills} that count",
        f"closest     {figures.rows} rows for {figures.hashes} hashes, in {figures.closest_seconds:.1f} s: {table}",
    ]
    if figures.quarantined:
        lines.append(f"quarantine  {figures.quarantined} broken files, with the reasons: {lake.path('quarantine')}")
    return "\n".join(lines)


def _target(text: str) -> SoughtLeaseSet:
    try:
        return parse_target(text)
    except StructureError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _day(text: str) -> date:
    try:
        day = date.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r}: expected YYYY-MM-DD") from None
    if not FIRST_DAY <= day <= LAST_DAY:
        raise argparse.ArgumentTypeError(f"{text!r}: expected a day from {FIRST_DAY} to {LAST_DAY}")
    return day
