"""`gf-i2p history verify`: reads a history to its end and says what is in it."""

import json
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Final

from gf_i2p.cli.errors import CommandError, Exit
from gf_i2p.node.layout import CONFIG_FILE, HISTORY_DIRECTORY
from gf_i2p.storage.history_reading import Summary, summarize

_QUIET_SECONDS: Final = 1.0
_SHOWN_GAPS: Final = 20


def verify(directory: Path, *, as_json: bool) -> Exit:
    """Check the history of a node's directory, or in a directory of its own; the node may run or not.

    Raises `HistoryError`, `OSError` and `CommandError`.
    """
    if (directory / CONFIG_FILE).exists():
        directory = directory / HISTORY_DIRECTORY
    if not directory.is_dir():
        raise CommandError(f"{directory} is no directory: the node makes it when it runs with history.enabled = true")
    progress = _Progress()
    try:
        summary = summarize(directory, on_file=progress)
    finally:
        progress.end()
    if as_json:
        print(json.dumps({"ok": True, **asdict(summary)}))
    else:
        print(show_summary(summary))
    return Exit.OK


class _Progress:
    """A line on a terminal that says how far it is, when it takes longer."""

    def __init__(self) -> None:
        self._next = time.monotonic() + _QUIET_SECONDS
        self._shown = False

    def __call__(self, number: int, count: int) -> None:
        if sys.stderr.isatty() and time.monotonic() >= self._next:
            print(f"\r\x1b[Kreading file {number} of {count}", end="", file=sys.stderr, flush=True)
            self._next = time.monotonic() + _QUIET_SECONDS
            self._shown = True

    def end(self) -> None:
        if self._shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def show_summary(found: Summary) -> str:
    """Describe a history in a few lines."""
    extent = f"entries {found.first} to {found.last}" if found.last >= found.first else "no entries yet"
    lines = [
        f"history  of server {found.server} of farm {found.cluster}: {extent}, in {found.files} files",
        f"records  {found.records}, {found.raw} of them not JSON; {found.others} entries of other kinds left out",
    ]
    if found.first > 1:
        lines.append(f"removed  the entries up to {found.first - 1}: the files in which they were are gone")
    for first, last in found.gaps[:_SHOWN_GAPS]:
        lines.append(f"gap      {first} to {last}: this server has not seen them; look in other servers' histories")
    if len(found.gaps) > _SHOWN_GAPS:
        lines.append(f"         and {len(found.gaps) - _SHOWN_GAPS} more gaps; --json has them all")
    return "\n".join(lines)
