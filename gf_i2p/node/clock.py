"""The clock by which a node measures how long it has gone without the farm."""

import time
from typing import Final

_ID: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def awake_or_not() -> float:
    """Return seconds that never go back, and go on while this machine sleeps, which `time.monotonic` does not."""
    return time.clock_gettime(_ID)
