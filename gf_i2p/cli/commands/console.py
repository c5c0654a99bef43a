"""`gf-i2p console`: shows a farm in the browser, and makes changes there, until Ctrl-C."""

import argparse
import asyncio
import json
from functools import partial
from pathlib import Path

from gf_i2p.cli.page.console import Console
from gf_i2p.cli.shared.argument_types import NODE_HELP, NODE_METAVAR, load_client_file, whole_number
from gf_i2p.cli.shared.errors import CommandError, Exit
from gf_i2p.cli.shared.local_client import request
from gf_i2p.cli.shared.long_running import stop_signal


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("directory", type=Path, metavar=NODE_METAVAR, help=NODE_HELP)
    parser.add_argument(
        "--port",
        type=whole_number(65_535, low=0),
        default=0,
        metavar="PORT",
        help="port on loopback (default: any free port)",
    )


def run(options: argparse.Namespace) -> Exit:
    """Serve the page until Ctrl-C. Raises `CommandError` when the node does not answer, or the port is taken."""
    return asyncio.run(_serve(options))


async def _serve(options: argparse.Namespace) -> Exit:
    place: Path = options.directory
    user = load_client_file(place).user if place.is_file() else None  # noqa: ASYNC240 -- on this machine
    status = await request(place, "GET", "/v1/status")
    console = Console(partial(request, place), f"{status['cluster']}, by {place.name}", user)
    stopped, _ = stop_signal()
    try:
        async with console.serving(options.port) as link:
            if options.json:
                print(json.dumps({"ok": True, "link": link}), flush=True)
            else:
                print(f"Open this link, which is good once:\n\n  {link}\n\nCtrl-C ends the console.", flush=True)
            await stopped
    except OSError as error:
        raise CommandError(f"port {options.port} cannot be used: {error.strerror}") from error
    return Exit.OK
