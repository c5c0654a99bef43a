"""A run's planned events in order of time, and each server's clocks."""

import heapq
from collections.abc import Callable
from typing import Any, Final


class Events:
    """Future events in the order of their times. Events of the same time happen in the order of their planning."""

    def __init__(self) -> None:
        self.now = 0.0
        """Seconds since the run began. No server sees this time: each server has a `MachineClock`."""
        self.happened = 0
        """Events so far."""
        self._planned: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._number = 0

    def after(self, seconds: float, action: Callable[..., None], *args: Any) -> None:
        """Plan the call `action(*args)` for a time `seconds` from now; `seconds` is 0 or more."""
        self._number += 1
        heapq.heappush(self._planned, (self.now + seconds, self._number, action, args))

    def run(self, until: float, max_events: int) -> bool:
        """Let all events up to the time `until`, in seconds, happen.

        Returns False if the run's events would be more than `max_events`; then some events have not happened.
        """
        planned = self._planned
        while planned and planned[0][0] <= until:
            if self.happened >= max_events:
                return False
            self.happened += 1
            self.now, _, action, args = heapq.heappop(planned)
            action(*args)
        self.now = until
        return True


_LATE: Final = 1e-6
"""Seconds by which every timer is late. Otherwise, rounding may make a timer early, and a core that finds nothing due
would set the timer again without end."""


class MachineClock:
    """The two clocks of one server's machine.

    The monotonic clock, the only clock that a core sees, runs faster or slower than real time by `rate` and never
    jumps. The wall clock can be wrong, and can jump; only status records have its time.
    """

    def __init__(self, events: Events, *, rate: float, origin: float, wall_ms: int, wall_rate: float) -> None:
        """`rate`: speed of the monotonic clock, above 0; real time has speed 1. `wall_rate`: speed of the wall clock.

        `origin`: the time that the monotonic clock shows at the beginning, in seconds. `wall_ms`: the true time of day
        at the beginning, in ms since the epoch.
        """
        self._events = events
        self.rate = rate
        self._origin = origin
        self._wall_ms = wall_ms
        self._wall_rate = wall_rate
        self.error_ms = 0
        """Error of the wall clock, in milliseconds; above 0: the clock is ahead."""

    @property
    def monotonic(self) -> float:
        """The time that the monotonic clock shows now, in seconds."""
        return self._origin + self.rate * self._events.now

    def wait(self, until: float) -> float:
        """Return the real seconds until the monotonic clock shows `until`, plus `_LATE`; so always above 0."""
        return max((until - self._origin) / self.rate - self._events.now, 0.0) + _LATE

    @property
    def wall_ms(self) -> int:
        """Milliseconds since 1970 by this machine's wall clock; at least 0."""
        return max(self._wall_ms + self.error_ms + int(self._events.now * 1000 * self._wall_rate), 0)
