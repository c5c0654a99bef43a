"""Watches the servers of one farm while a package is upgraded, and counts those that are out of the farm at once."""

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from gf_i2p.cli.shared.errors import CommandError
from gf_i2p.cli.shared.local_client import request
from integration.harness.waiting import wait_for

_PAUSE: Final = 0.02
"""Seconds between two looks."""


@dataclass
class Watched:
    """What was seen. The order is that of time; the same sight stands once."""

    out: list[set[int]] = field(default_factory=list)
    """Numbers of the servers that were out of the farm at once."""


@contextlib.contextmanager
def watched(directories: dict[int, Path], commit: int) -> Iterator[Watched]:
    """Look at all servers again and again while the block runs, from outside of their machine.

    The block begins when all servers are in the farm. Raises `NotSeenError` when they are not within a minute.
    A server is out while it does not answer, reaches no majority, or does not know yet that the entry at index `commit`
    is committed. A short election is no such time.
    """
    seen, over, whole = Watched(), threading.Event(), threading.Event()
    out = set(directories)

    async def look(number: int) -> None:
        while not over.is_set():
            (out.add if _is_out(await _status(directories[number]), commit) else out.discard)(number)
            if not out:
                whole.set()
            if whole.is_set() and (not seen.out or seen.out[-1] != out):
                seen.out.append(set(out))
            await asyncio.sleep(_PAUSE)

    async def look_at_all() -> None:
        # Each by itself: a server that does not answer must not hide what happens to the others meanwhile.
        await asyncio.gather(*map(look, directories))

    watcher = threading.Thread(target=lambda: asyncio.run(look_at_all()), name="farm watch")
    watcher.start()
    try:
        wait_for("all servers are in the farm", 60, whole.is_set, poll=_PAUSE)
        yield seen
    finally:
        over.set()
        watcher.join()


async def _status(directory: Path) -> dict[str, Any] | None:
    try:
        answer: dict[str, Any] = await request(directory, "GET", "/v1/status", seconds=5)
    except CommandError:
        return None
    return answer


def _is_out(status: dict[str, Any] | None, commit: int) -> bool:
    return (
        status is None or status["quorum"]["reachable"] < status["quorum"]["needed"] or status["log"]["commit"] < commit
    )
