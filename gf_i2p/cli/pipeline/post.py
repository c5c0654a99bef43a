"""`gf-i2p pipeline post`: posts the pipeline's results to a farm's log, in an administrator's name.

Recommended parameters change how the farm decides. Sensed floodfills are only shown. The command lists the
entries, and asks before posting.
"""

import argparse
import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from gf_i2p.cli.administration import administer
from gf_i2p.cli.pipeline.arguments import add_lake
from gf_i2p.cli.pipeline.spark_job import working
from gf_i2p.cli.shared.command import Answer
from gf_i2p.cli.shared.errors import CommandError, Exit
from gf_i2p.cli.shared.fitting import tell
from gf_i2p.cli.shared.terminal import ProgressLine, is_agreed, printable
from gf_i2p.farm.admin_entries import AdminEntry
from gf_i2p.farm.strict_json import RecordError
from gf_i2p.node.clock import now_ms
from gf_i2p.node.files.client_file import ClientFile
from gf_i2p.pipeline.backtest.parameters_file import read_parameters
from gf_i2p.pipeline.lake.paths import Lake

HELP = "post recommended parameters and sensed floodfills to a farm's log"
AT_ONCE: Final = 32
"""Most entries in one request: some hundred KiB at most, which take half a minute inside I2P."""
REASON: Final = "recommended by gf-i2p pipeline"
_SHOWN: Final = 6


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the job's own arguments."""
    add_lake(parser)
    parser.add_argument("--farm", required=True, metavar="NAME", help="the farm of the log")
    parser.add_argument("--admin", type=Path, required=True, metavar="FILE", help="admin-NAME.toml of that farm")
    parser.add_argument("--parameters", type=Path, metavar="FILE", help="a file from pipeline backtest --out")
    parser.add_argument("--sensing", action="store_true", help="post the closest floodfills of the farm's hashes")
    parser.add_argument("--dry-run", action="store_true", help="only show the entries that would be posted")
    parser.add_argument("--yes", action="store_true", help="post without a question")


def run(options: argparse.Namespace) -> Answer:
    """Run the job. Raises `PipelineError`, `CommandError` and `OSError`."""
    if options.parameters is None and not options.sensing:
        raise CommandError("there is nothing to post: give --parameters FILE, --sensing, or both", code=Exit.USAGE)
    file = administer.administrators_file(options.admin)
    if file.cluster != options.farm:
        raise CommandError(
            f"{options.admin} is for the farm {file.cluster!r}, and not for {options.farm!r}: nothing was posted",
            code=Exit.USAGE,
        )
    asks = not options.yes and not options.dry_run
    if asks and (options.json or not sys.stdin.isatty()):
        raise CommandError("nothing was posted: add --yes, or --dry-run to see the entries", code=Exit.USAGE)
    entries, left_out = planned(options, file)
    lines = plan_lines(entries, left_out)
    if not options.json:
        print(printable(f"to {file.cluster}, as {file.user}:"))
        print("\n".join(f"  {printable(line)}" for line in lines))
    if asks and not is_agreed("Post this?"):
        raise CommandError("nothing was posted", code=Exit.USAGE)
    indexes = [] if options.dry_run else _post(options, file, entries)
    text = "nothing was posted: this was a dry run"
    if not options.dry_run:
        place = f"at index {indexes[0]}" if len(indexes) == 1 else f"at indexes {indexes[0]} to {indexes[-1]}"
        text = f"committed {place}: {len(indexes)} entr{'y' if len(indexes) == 1 else 'ies'}"
    texts = [entry.what for entry in entries]
    return Answer({"dry_run": options.dry_run, "what": texts, "indexes": indexes, "hashes_left_out": left_out}, text)


def planned(options: argparse.Namespace, file: ClientFile) -> tuple[list[AdminEntry], int]:
    """Make the entries, parameters first, and parse the entries as the servers will.

    Returns the entries, and the number of hashes that are left out. Raises `PipelineError` and `CommandError`.
    """
    now, left_out = now_ms(), 0
    entries: list[AdminEntry] = []
    if options.parameters is not None:
        parameters = read_parameters(options.parameters, file.cluster)
        entries.append(AdminEntry(file.cluster, now, file.user, "set", parameters=parameters, reason=REASON))
    if options.sensing:
        with ProgressLine() as progress, working(options, progress) as (spark, steps):
            from gf_i2p.pipeline.floodfills.sensing_entry import sensing  # noqa: PLC0415 -- needs Spark

            steps("looking for sensed floodfills")
            sensed = sensing(spark, Lake(options.lake), file.cluster)
        left_out = sensed.left_out
        entries += [
            AdminEntry(file.cluster, now, file.user, "sensed", hash=hash_, sensed=each)
            for hash_, each in sensed.findings
        ]
    try:
        return [AdminEntry.parse(entry.encode()) for entry in entries], left_out
    except RecordError as error:
        raise CommandError(f"nothing was posted: {error}") from error


def plan_lines(entries: Sequence[AdminEntry], left_out: int) -> list[str]:
    """Describe the entries to post, in lines. Of the entries with sensed floodfills, describe only the first ones."""
    sensed = [entry for entry in entries if entry.sensed is not None]
    lines = [entry.what for entry in entries if entry.sensed is None] + [entry.what for entry in sensed[:_SHOWN]]
    if len(sensed) > _SHOWN:
        lines.append(f"… and {len(sensed) - _SHOWN} more sensed hashes, {sum(map(_size, entries)):,} bytes in all")
    if left_out:
        lines.append(f"{left_out} hashes are left out: a farm keeps no more")
    return lines


def _size(entry: AdminEntry) -> int:
    return len(entry.encode())


def _post(options: argparse.Namespace, file: ClientFile, entries: Sequence[AdminEntry]) -> list[int]:
    """Post the entries in parts; return the indexes of all entries in the log.

    Raises `CommandError`, whose text also names the indexes that are committed already.
    """
    indexes: list[int] = []

    def say(text: str) -> None:
        if not options.json:
            tell(f"gf-i2p: {text}")

    with ProgressLine() as progress:
        for first in range(0, len(entries), AT_ONCE):
            part = entries[first : first + AT_ONCE]
            try:
                last, _ = asyncio.run(administer.post(file, part, say))
            except CommandError as error:
                committed = f" (committed before that: indexes {indexes[0]} to {indexes[-1]})" if indexes else ""
                raise CommandError(f"{error}{committed}", code=error.code, outcome=error.outcome) from error
            indexes += range(last - len(part) + 1, last + 1)
            progress(f"posted {len(indexes)} of {len(entries)} entries")
    return indexes
