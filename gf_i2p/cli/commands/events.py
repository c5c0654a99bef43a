"""`gf-i2p events`: shows what has happened in the farm, as sentences, from a running node."""

import argparse
import json
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from gf_i2p.cli.shared.argument_types import NODE_HELP, NODE_METAVAR, whole_number
from gf_i2p.cli.shared.command import Answer
from gf_i2p.cli.shared.errors import Exit
from gf_i2p.cli.shared.local_client import ask, ask_on
from gf_i2p.cli.shared.terminal import printable
from gf_i2p.farm.events import MOST, in_order

_POLL_SECONDS: Final = 1.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("directory", type=Path, metavar=NODE_METAVAR, help=NODE_HELP)
    parser.add_argument(
        "--last", type=whole_number(MOST), default=20, metavar="N", help=f"at most N events (default: 20, up to {MOST})"
    )
    parser.add_argument("--follow", action="store_true", help="go on with each new event, until Ctrl-C")


def run(options: argparse.Namespace) -> Answer | Exit:
    """Ask the node for the events since its start, and of the part of the log that it has read since then.

    With `--follow`, print each event as a line, or as a JSON object with `--json`. Raises `CommandError`.
    """
    answer = ask(options.directory, "GET", "/v1/events")
    events = in_order(answer["events"])[-options.last :]
    if not options.follow:
        text = "\n".join(_line(event) for event in events)
        return Answer({"events": events}, text or "(nothing has happened yet)", is_report=True)
    last, last_date, began = 0, 0, answer["began"]
    while True:
        for event in events:
            print(json.dumps(event) if options.json else _line(event), flush=True)
            last_date = max(last_date, event["date"] or 0)
        last = max([last, *(event["number"] for event in answer["events"])])
        time.sleep(_POLL_SECONDS)
        answer = ask_on(options.directory, f"/v1/events?after={last}")
        events = answer["events"]
        if answer["began"] != began:  # the node has restarted, counts anew, and tells the log's events again
            last, began = 0, answer["began"]
            answer = ask_on(options.directory, "/v1/events")
            events = [event for event in answer["events"] if (event["date"] or 0) > last_date]


def _line(event: Mapping[str, Any]) -> str:
    date = event["date"]
    when = "(time not known)   " if date is None else f"{datetime.fromtimestamp(date / 1000, UTC):%Y-%m-%d %H:%M:%S}"
    return f"{when}  {printable(event['text'])}"
