"""How long something took, counted in buckets: cheap enough for the way of an entry."""

from bisect import bisect_left
from collections.abc import Iterator
from itertools import accumulate
from typing import Final

BOUNDS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Upper bounds of the buckets in seconds, for disks and networks from loopback to I2P."""


class Durations:
    """Counts durations. One thread observes; another thread may read, and then sees almost the newest counts."""

    def __init__(self) -> None:
        self.sum = 0.0
        """Sum of all durations in seconds."""
        self._counts = [0] * (len(BOUNDS) + 1)

    def observe(self, seconds: float) -> None:
        """Count one duration."""
        self._counts[bisect_left(BOUNDS, seconds)] += 1
        self.sum += seconds

    def cumulative(self) -> Iterator[tuple[float, int]]:
        """Yield each bound, at last infinity, with the number of durations up to that bound."""
        return zip((*BOUNDS, float("inf")), accumulate(self._counts), strict=True)
