"""A node's measurements of its farm: round trips to peers, and silences. Pure: the caller gives the time."""

from bisect import bisect_left, insort
from collections import deque
from dataclasses import dataclass
from typing import Final

MOST_TRIPS: Final = 256
"""Most round trips kept per peer. The 99th percentile of 256 leaves out two, so one outlier does not decide it."""
SLOTS: Final = 60
"""Number of time slots into which `Silences` cuts the latest `memory` seconds."""


@dataclass(frozen=True, slots=True)
class RoundTripSummary:
    """A summary of round trips, in seconds: half take at most `p50`, 99 of 100 at most `p99`."""

    p50: float
    p99: float
    samples: int


class RoundTrips:
    """The latest round trips to one peer, at most `MOST_TRIPS`. `add` drops those older than `memory` seconds."""

    def __init__(self, memory: float) -> None:
        self._memory = memory
        self._latest: deque[tuple[float, float]] = deque()
        self._sorted: list[float] = []

    def add(self, seconds: float, now: float) -> None:
        """Add one round trip of `seconds` that ends now."""
        self._latest.append((now, seconds))
        insort(self._sorted, seconds)
        while len(self._latest) > MOST_TRIPS or self._latest[0][0] < now - self._memory:
            _, old = self._latest.popleft()
            del self._sorted[bisect_left(self._sorted, old)]

    def __len__(self) -> int:
        return len(self._sorted)

    @property
    def p99(self) -> float:
        """Seconds within which 99 of 100 round trips end. At least one round trip must have been added."""
        return self._sorted[-(len(self._sorted) // 100) - 1]

    @property
    def summary(self) -> RoundTripSummary:
        """The summary of all kept round trips. At least one round trip must have been added."""
        return RoundTripSummary(self._sorted[(len(self._sorted) - 1) // 2], self.p99, len(self._sorted))


@dataclass(slots=True)
class _TimeSlot:
    number: int
    longest: float
    count: int


class Silences:
    """The lengths of a leader's or a majority's silences over the latest `memory` seconds.

    The time is cut into slots, and only the longest silence of each slot is kept. So a second of heavy traffic, with a
    thousand short silences, weighs no more than any other second, and does not hide the longer silences of idle times.
    """

    def __init__(self, memory: float) -> None:
        self.usual = 0.0
        """Median of the slots' longest silences, in seconds; 0 before the first silence."""
        self.worst = 0.0
        """The longest silence, in seconds; 0 before the first. Of 60 slots this is also the 99th percentile."""
        self._seconds = memory / SLOTS
        self._slots: deque[_TimeSlot] = deque()

    @property
    def count(self) -> int:
        """Number of measured silences from which the percentiles follow."""
        return sum(slot.count for slot in self._slots)

    def add(self, seconds: float, now: float) -> bool:
        """Add a silence of `seconds` that ends now; return whether `usual` or `worst` may have changed."""
        number = int(now // self._seconds)
        if self._slots and self._slots[-1].number >= number:
            slot = self._slots[-1]
            slot.count += 1
            if seconds <= slot.longest:
                return False
            slot.longest = seconds
        else:
            self._slots.append(_TimeSlot(number, seconds, 1))
            while self._slots[0].number <= number - SLOTS:
                self._slots.popleft()
        ordered = sorted(slot.longest for slot in self._slots)
        self.usual = ordered[len(ordered) // 2]
        self.worst = ordered[-1]
        return True
