"""Measures bytes per second, on average over the time between two status records."""

from collections import deque
from typing import Final

WINDOW_SECONDS: Final = 30.0
"""Seconds over which the bandwidth is measured: the time between two status records."""
_LEAST_SECONDS: Final = 1.0
"""The shortest time over which an average is taken: a burst in the first moment is no bandwidth."""


class ByteRate:
    """Counts bytes. Times are seconds of any clock that does not go back."""

    def __init__(self, now: float) -> None:
        """Begin to count at `now`."""
        self.total = 0
        """All bytes so far."""
        self._began = now
        self._seconds: deque[tuple[int, int]] = deque()
        """Pairs of a whole second of the clock and its bytes, in order: only seconds in the window, and with bytes."""

    def add(self, count: int, now: float) -> None:
        """Count `count` bytes at `now`."""
        self.total += count
        second = int(now)
        if self._seconds and self._seconds[-1][0] == second:
            count += self._seconds.pop()[1]
        self._seconds.append((second, count))
        self._forget(now)

    def per_second(self, now: float) -> int:
        """Return the bytes per second over the last `WINDOW_SECONDS`, or since the counting began."""
        self._forget(now)
        seconds = min(max(now - self._began, _LEAST_SECONDS), WINDOW_SECONDS)
        return int(sum(count for _, count in self._seconds) / seconds)

    def _forget(self, now: float) -> None:
        while self._seconds and self._seconds[0][0] + 1 <= now - WINDOW_SECONDS:
            self._seconds.popleft()
