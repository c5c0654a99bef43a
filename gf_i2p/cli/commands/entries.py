"""`gf-i2p entries`: shows committed entries of the farm's log, from a running node."""

import argparse
import json
from pathlib import Path
from typing import Final

from gf_i2p.admin.local_socket import MAX_PAGE
from gf_i2p.cli.shared.answer_text import entry_line, show_entries
from gf_i2p.cli.shared.argument_types import NODE_HELP, NODE_METAVAR, whole_number
from gf_i2p.cli.shared.command import Answer
from gf_i2p.cli.shared.errors import Exit
from gf_i2p.cli.shared.fitting import tell
from gf_i2p.cli.shared.local_client import ask, ask_on
from gf_i2p.wire.limits import MAX_INTEGER

_NEWEST: Final = 20
"""Entries that are shown when the operator names none."""
_WAIT_SECONDS: Final = 25


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("directory", type=Path, metavar=NODE_METAVAR, help=NODE_HELP)
    begin = parser.add_mutually_exclusive_group()
    begin.add_argument("--first", type=whole_number(MAX_INTEGER), metavar="INDEX", help="begin with this entry")
    begin.add_argument(
        "--last",
        type=whole_number(MAX_PAGE),
        metavar="N",
        help=f"the newest N entries, up to {MAX_PAGE} (without --first: 20)",
    )
    parser.add_argument(
        "--limit", type=whole_number(MAX_PAGE), default=100, metavar="N", help="show at most N entries (default: 100)"
    )
    parser.add_argument("--follow", action="store_true", help="go on with each new entry, until Ctrl-C")
    parser.add_argument("--full", action="store_true", help="show whole values, and not only what fits into the line")
    parser.add_argument(
        "--newest", action="store_true", help="fail unless the server leads, and can promise that no newer entry exists"
    )


def run(options: argparse.Namespace) -> Answer | Exit:
    """Ask the node for entries. With `--follow`, print each entry as a line, or as a JSON object with `--json`.

    Raises `CommandError`.
    """
    newest = min(options.last or _NEWEST, options.limit)
    extent = f"limit={newest}" if options.first is None else f"limit={options.limit}&first={options.first}"
    exactly = "&stale=0" if options.newest or options.directory.is_file() else ""  # from afar, the leader is asked
    answer = ask(options.directory, "GET", f"/v1/entries?{extent}{exactly}")
    if not answer["newest"] and not options.json:
        tell("gf-i2p: newer entries may exist: this server does not lead, or has not heard a majority in time")
    if not options.follow:
        return Answer(answer, show_entries(answer, full=options.full))
    following = answer["commit"] + 1 if options.first is None else options.first
    while True:
        for entry in answer["entries"]:
            print(json.dumps(entry) if options.json else entry_line(entry, full=options.full), flush=True)
            following = entry["index"] + 1
        next_page = f"/v1/entries?limit={MAX_PAGE}{exactly}&first={following}&wait={_WAIT_SECONDS}"
        answer = ask_on(options.directory, next_page, seconds=_WAIT_SECONDS + 10)
