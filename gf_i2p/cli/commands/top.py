"""`gf-i2p top`: shows the state of a running node again and again, until Ctrl-C."""

import argparse
import contextlib
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from gf_i2p.cli.shared.answer_text import show_status
from gf_i2p.cli.shared.argument_types import NODE_HELP, NODE_METAVAR, seconds
from gf_i2p.cli.shared.errors import CommandError, Exit, result_fields
from gf_i2p.cli.shared.local_client import ask
from gf_i2p.cli.shared.screen import fit, terminal

_ENTER: Final = "\x1b[?1049h\x1b[?25l"
"""Go to the terminal's second screen, and hide the cursor."""
_LEAVE: Final = "\x1b[?25h\x1b[?1049l"
_HOME: Final = "\x1b[H"
_END_OF_LINE: Final = "\x1b[K\n"
_REST: Final = "\x1b[J"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("directory", type=Path, metavar=NODE_METAVAR, help=NODE_HELP)
    parser.add_argument(
        "--interval", type=seconds, default=1.0, metavar="SECONDS", help="seconds between two looks (default: 1)"
    )


def run(options: argparse.Namespace) -> Exit:
    """Show the node's status until Ctrl-C. Outside a terminal, and with `--json`, each look is printed below the last.

    A node that does not answer is asked again. Raises `CommandError` when the first question fails.
    """
    pages = _pages(options.directory)
    first = next(pages)
    if isinstance(first, CommandError):
        raise first
    whole = sys.stdout.isatty() and not options.json
    with _second_screen() if whole else contextlib.nullcontext(), contextlib.suppress(KeyboardInterrupt):
        page: dict[str, Any] | CommandError = first
        while True:
            if options.json:
                print(json.dumps(_as_json(page)), flush=True)
            else:
                _draw(_text(page), whole=whole)
            time.sleep(options.interval)
            page = next(pages)
    return Exit.OK


def _pages(directory: Path) -> Iterator[dict[str, Any] | CommandError]:
    """Yield the status, with the entries that were committed in a second since the last status; or the error."""
    last: tuple[float, int] | None = None
    while True:
        try:
            answer: dict[str, Any] = ask(directory, "GET", "/v1/status")
        except CommandError as error:
            last = None
            yield error
            continue
        now, commit = time.monotonic(), answer["log"]["commit"]
        rate = None if last is None else (commit - last[1]) / (now - last[0])
        last = now, commit
        yield {**answer, "entries_per_second": rate}


def _as_json(page: dict[str, Any] | CommandError) -> dict[str, Any]:
    if isinstance(page, CommandError):
        return result_fields(str(page), page.outcome)
    return {**result_fields(None), **page}


def _text(page: dict[str, Any] | CommandError) -> str:
    if isinstance(page, CommandError):
        return f"{page}\n\nAsking again."
    rate = page["entries_per_second"]
    return show_status(page) + ("" if rate is None else f"\n\n{rate:,.1f} entries were committed in a second")


def _draw(text: str, *, whole: bool) -> None:
    if not whole:
        print(f"{text}\n", flush=True)
        return
    console = terminal()
    shown = fit(text, console).split("\n", allow_blank=True)[: console.height - 1]
    with console.capture() as capture:
        for line in shown:
            line.truncate(console.width)
            console.print(line, end=_END_OF_LINE, soft_wrap=True)
    print(_HOME + capture.get() + _REST, end="", flush=True)


@contextlib.contextmanager
def _second_screen() -> Iterator[None]:
    print(_ENTER, end="", flush=True)
    try:
        yield
    finally:
        print(_LEAVE, end="", flush=True)
