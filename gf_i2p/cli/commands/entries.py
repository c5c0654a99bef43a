"""`gf-i2p entries`: shows committed entries of the farm's log, from a running node."""

import argparse
from pathlib import Path

from gf_i2p.admin.local_socket import MAX_PAGE
from gf_i2p.cli.shared.answer_text import show_entries
from gf_i2p.cli.shared.argument_types import whole_number
from gf_i2p.cli.shared.command import Answer
from gf_i2p.cli.shared.local_client import ask
from gf_i2p.wire.limits import MAX_INTEGER


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("directory", type=Path, metavar="DIR", help="the directory of a running node")
    parser.add_argument(
        "--first",
        type=whole_number(MAX_INTEGER),
        metavar="INDEX",
        help="the index of the first entry (default: the first entry in the log)",
    )
    parser.add_argument(
        "--limit",
        type=whole_number(MAX_PAGE),
        default=100,
        metavar="N",
        help=f"show at most N entries (default: 100, up to {MAX_PAGE})",
    )
    parser.add_argument(
        "--stale", action="store_true", help="allow a server that does not lead; newer entries may be missing"
    )


def run(options: argparse.Namespace) -> Answer:
    """Ask the node for entries. Raises `CommandError`."""
    path = f"/v1/entries?limit={options.limit}&stale={int(options.stale)}"
    if options.first is not None:
        path += f"&first={options.first}"
    answer = ask(options.directory, "GET", path)
    return Answer(answer, show_entries(answer))
