"""The clocks: the time of day, and a clock for time spans that goes on while the machine sleeps."""

import time
from typing import Final

_CLOCK: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def seconds_since_boot() -> float:
    """Return the seconds since the machine started. The time that the machine slept counts, too."""
    return time.clock_gettime(_CLOCK)


def now_ms() -> int:
    """Return the time in ms since the epoch."""
    return time.time_ns() // 1_000_000
