"""`gf-i2p status`: shows the state of a running node."""

import argparse
from typing import Final

from gf_i2p.cli.shared.answer_text import show_status
from gf_i2p.cli.shared.argument_types import NODE_HELP, NODE_METAVAR
from gf_i2p.cli.shared.command import Answer, path_argument
from gf_i2p.cli.shared.errors import Exit
from gf_i2p.cli.shared.local_client import ask

add_arguments: Final = path_argument("directory", NODE_METAVAR, NODE_HELP)


def run(options: argparse.Namespace) -> Answer:
    """Ask the node for its status.

    The exit code is `DEGRADED` when no leader is known, no majority can be reached, or this server was removed.
    """
    answer = ask(options.directory, "GET", "/v1/status")
    return Answer(answer, show_status(answer), Exit.OK if answer["healthy"] else Exit.DEGRADED, is_report=True)
