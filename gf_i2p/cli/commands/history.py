"""`gf-i2p history verify`: reads a history to its end and describes the contents."""

import argparse
from dataclasses import asdict
from typing import Final

from gf_i2p.cli.shared.command import Answer, Commands, Subcommand, path_argument
from gf_i2p.cli.shared.errors import CommandError
from gf_i2p.cli.shared.terminal import ProgressLine
from gf_i2p.node.files.file_names import CONFIG_FILE, HISTORY_DIRECTORY
from gf_i2p.storage.history_reader import HistorySummary, summarize

_SHOWN_GAPS: Final = 20


def verify(options: argparse.Namespace) -> Answer:
    """Check a history: the history in a node's directory, or a directory that is itself a history. The node may run.

    Raises `HistoryError`, `OSError` and `CommandError`.
    """
    directory = options.directory
    if (directory / CONFIG_FILE).exists():
        directory = directory / HISTORY_DIRECTORY
    if not directory.is_dir():
        raise CommandError(f"{directory} is not a directory: a running node with history.enabled = true makes one")
    with ProgressLine() as progress:
        summary = summarize(
            directory, on_file=lambda number, count: progress(f"{number - 1} of {count} files are read")
        )
    return Answer(asdict(summary), show_summary(summary))


def show_summary(summary: HistorySummary) -> str:
    """Describe a history in a few lines."""
    extent = f"entries {summary.first} to {summary.last}" if summary.last >= summary.first else "no entries yet"
    lines = [
        f"history  of server {summary.server} of farm {summary.cluster}: {extent}, in {summary.files} files",
        f"records  {summary.records}, {summary.raw} of them not JSON",
        f"servers  {summary.configurations} Configurations; {summary.others} entries of other kinds are left out",
    ]
    if summary.first > 1:
        lines.append(f"removed  the entries up to {summary.first - 1}: their files are gone")
    lines += [
        f"restored {first} to {last}: the farm began anew in term {term}, from a snapshot of entry {last}; the entries "
        f"from {last + 1} on in lower terms, in other histories, are forgotten"
        for first, last, term in summary.restored
    ]
    for first, last in summary.gaps[:_SHOWN_GAPS]:
        lines.append(
            f"gap      {first} to {last}: not in this directory, because the log lacked them, too; look in other "
            "servers' histories, or in older copies of this history"
        )
    if len(summary.gaps) > _SHOWN_GAPS:
        lines.append(f"         and {len(summary.gaps) - _SHOWN_GAPS} more gaps; --json shows all")
    return "\n".join(lines)


COMMANDS: Final[Commands] = {
    "verify": Subcommand(
        "read a history to its end, check all entries, and sum up the contents",
        path_argument("directory", "DIR", "a node's directory, or a copy of its history/"),
        verify,
    ),
}
