"""Waits for a condition in a program without an event loop, which waits for other programs."""

import time
from collections.abc import Callable
from typing import Final

from integration.harness.local_farm import NotSeenError

_POLL_SECONDS: Final = 1.0


def wait_for(
    what: str,
    seconds: float,
    condition: Callable[[], bool],
    *,
    poll: float = _POLL_SECONDS,
    else_say: Callable[[], str] = str,
) -> float:
    """Wait until the condition holds; return the seconds. Raises `NotSeenError` with the text of `else_say`."""
    began = time.monotonic()
    while not condition():
        if time.monotonic() - began > seconds:
            raise NotSeenError(f"not seen within {seconds:g} s: {what}\n{else_say()}")
        time.sleep(poll)
    return time.monotonic() - began
