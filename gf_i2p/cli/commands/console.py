"""`gf-i2p console`: shows farms in the browser, and makes changes there, until Ctrl-C."""

import argparse
import asyncio
import json
from functools import partial
from pathlib import Path

from gf_i2p.cli.page.console import Console, Farm
from gf_i2p.cli.page.words import LANGUAGES
from gf_i2p.cli.shared.argument_types import NODE_HELP, NODE_METAVAR, load_client_file, whole_number
from gf_i2p.cli.shared.errors import CommandError, Exit, result_fields
from gf_i2p.cli.shared.local_client import NoAnswerError, request, request_aloud
from gf_i2p.cli.shared.long_running import stop_signal


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument(
        "places", type=Path, nargs="+", metavar=NODE_METAVAR, help=f"{NODE_HELP}. Several show several farms"
    )
    parser.add_argument(
        "--port",
        type=whole_number(65_535, low=0),
        default=0,
        metavar="PORT",
        help="port on loopback (default: any free port)",
    )
    parser.add_argument(
        "--language",
        choices=LANGUAGES,
        help="language of the page (default: the first of the browser's languages that is one of these)",
    )


def run(options: argparse.Namespace) -> Exit:
    """Serve the page until Ctrl-C. Raises `CommandError` when the node does not answer, or the port is taken."""
    return asyncio.run(_serve(options))


async def _serve(options: argparse.Namespace) -> Exit:
    farms = [await _farm(place, alone=len(options.places) == 1) for place in options.places]
    console = Console(farms, options.language)
    stopped, _ = stop_signal()
    try:
        async with console.serving(options.port) as link:
            if options.json:
                print(json.dumps({**result_fields(None), "link": link}), flush=True)
            else:
                print(f"Open this link, which is good once:\n\n  {link}\n\nCtrl-C ends the console.", flush=True)
            await stopped
    except OSError as error:
        raise CommandError(f"port {options.port} cannot be used: {error.strerror}") from error
    return Exit.OK


async def _farm(place: Path, *, alone: bool) -> Farm:
    """Return a farm to show. Raises `CommandError`: when no node answers for the only farm, or for a damaged file."""
    user = load_client_file(place).user if place.is_file() else None  # noqa: ASYNC240 -- on this machine
    try:
        cluster = (await request_aloud(place, "GET", "/v1/status"))["cluster"]
    except NoAnswerError:
        if alone:
            raise
        cluster = "a farm"
    return Farm(partial(request, place), f"{cluster}, by {place}" if not alone else f"{cluster}, by {place.name}", user)
