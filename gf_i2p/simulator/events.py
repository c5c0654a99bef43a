"""What will happen, in order; and each server's idea of the time."""

import heapq
from collections.abc import Callable
from typing import Any, Final


class Events:
    """Future events by time; those of the same time happen in the order in which they were planned."""

    def __init__(self) -> None:
        self.now = 0.0
        """Seconds since the run began. No server sees it: each has a `Clock`."""
        self.happened = 0
        """Events so far."""
        self._planned: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._number = 0

    def after(self, seconds: float, action: Callable[..., None], *args: Any) -> None:
        """Plan `action(*args)`, 0 or more seconds from now."""
        self._number += 1
        heapq.heappush(self._planned, (self.now + seconds, self._number, action, args))

    def run(self, until: float, most: int) -> bool:
        """Let everything happen up to that time; False when it would have been more than `most` events in all."""
        planned = self._planned
        while planned and planned[0][0] <= until:
            if self.happened >= most:
                return False
            self.happened += 1
            self.now, _, action, args = heapq.heappop(planned)
            action(*args)
        self.now = until
        return True


_LATE: Final = 1e-6
"""By so many seconds a timer is late: never too early by a rounding, to be set again and again without end."""


class Clock:
    """The two clocks of one server's machine.

    The monotonic one, which is all that a core sees, runs by `rate` faster or slower than real time and never jumps.
    The wall clock can be wrong, and jump; it only gets into status records.
    """

    def __init__(self, events: Events, *, rate: float, origin: float, wall_ms: int, wall_rate: float) -> None:
        """`rate`: above 0. `origin`: what the monotonic clock shows at the beginning.

        `wall_ms`: what the wall clock would show then if it were right, and `wall_rate` how fast it runs.
        """
        self._events = events
        self.rate = rate
        self._origin = origin
        self._wall_ms = wall_ms
        self._wall_rate = wall_rate
        self.error_ms = 0
        """By how much the wall clock is wrong."""

    @property
    def monotonic(self) -> float:
        """Seconds."""
        return self._origin + self.rate * self._events.now

    def wait(self, until: float) -> float:
        """Return in how many real seconds the monotonic clock will show `until`, or a little more; never none."""
        return max((until - self._origin) / self.rate - self._events.now, 0.0) + _LATE

    @property
    def wall_ms(self) -> int:
        """Milliseconds since 1970, as this machine believes."""
        return max(self._wall_ms + self.error_ms + int(self._events.now * 1000 * self._wall_rate), 0)
