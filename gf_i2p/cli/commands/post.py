"""`gf-i2p post`: appends entries to the farm's log through a running node."""

import argparse
import asyncio
import contextlib
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from gf_i2p.admin.local_socket import DEFAULT_TIMEOUT, MAX_POST_BYTES
from gf_i2p.admin.monitoring.health import health
from gf_i2p.cli.shared.argument_types import seconds
from gf_i2p.cli.shared.command import Answer
from gf_i2p.cli.shared.errors import CommandError, Exit
from gf_i2p.cli.shared.fitting import tell
from gf_i2p.cli.shared.local_client import request
from gf_i2p.cli.shared.pieces import requests_of
from gf_i2p.cli.shared.terminal import say_if_slow


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("directory", type=Path, metavar="DIR", help="the directory of a running node")
    parser.add_argument(
        "value",
        nargs="?",
        metavar="TEXT",
        help="the entry, by convention JSON; - or nothing: each line of standard input",
    )
    parser.add_argument(
        "--timeout",
        type=seconds,
        default=DEFAULT_TIMEOUT,
        metavar="SECONDS",
        help="seconds to wait for each post (default: 30)",
    )


def run(options: argparse.Namespace) -> Answer:
    """Post, and wait until the entries are committed. Raises `CommandError`."""
    if options.directory.is_file():
        raise CommandError(
            f"{options.directory}: post takes the directory of a running node. From another machine, a program posts "
            "with a client-NAME.toml: docs/how-to/clients.md",
            code=Exit.USAGE,
        )
    if options.value in {None, "-"}:
        lines = _utf8(sys.stdin.buffer.read(), "standard input").split("\n")  # JSON may hold other line ends
        values = [line.removesuffix("\r") for line in lines if line.strip()]
        if not values:
            raise CommandError("nothing to post: give the entry as an argument, or lines on standard input")
    else:
        values = [_utf8(os.fsencode(options.value), "the entry")]
        if not values[0].strip():
            raise CommandError("the entry is empty, perhaps a variable that is not set", code=Exit.USAGE)
    answer = asyncio.run(_post_all(options.directory, values, options.timeout, quiet=options.json))
    return Answer(answer, f"committed at index {answer['index']}")


def _pieces(values: Sequence[str]) -> Iterator[list[str]]:
    return requests_of(values, MAX_POST_BYTES, lambda value: len(value.encode()))


async def _post_all(directory: Path, values: Sequence[str], seconds: float, *, quiet: bool) -> Any:
    """Post the values, in pieces if one post cannot hold all; return the answer to the last piece."""
    done, answer = 0, None
    for piece in _pieces(values):
        try:
            answer = await _post(directory, piece, seconds, quiet=quiet)
        except CommandError as error:
            if answer is None:
                raise
            far = f"the first {done:,} of {len(values):,} lines are committed, up to index {answer['index']}"
            raise CommandError(f"{far}; then: {error}", code=error.code, outcome=error.outcome) from error
        done += len(piece)
    return answer


async def _post(directory: Path, values: Sequence[str], seconds: float, *, quiet: bool) -> Any:
    """Post the values. After two seconds without an answer, say what the farm lacks, unless `quiet`."""
    path = f"/v1/entries?timeout={seconds}"
    posting = request(directory, "POST", path, seconds=seconds + 5, body={"values": values})

    async def say() -> None:
        with contextlib.suppress(CommandError):  # the post itself tells that the node does not answer
            reasons = health(await request(directory, "GET", "/v1/status")).reasons
            why = reasons[0] if reasons else "A majority has not stored the entries."
            tell(f"gf-i2p: not committed yet, waiting {seconds:g} s at most. {why}")

    return await (posting if quiet else say_if_slow(posting, say))


def _utf8(data: bytes, source: str) -> str:
    """Decode typed or piped bytes as UTF-8 text. Raises `CommandError` for bytes that are not UTF-8."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise CommandError(
            f"{source} is not UTF-8 text: {error.reason} at byte {error.start}", code=Exit.USAGE
        ) from error
