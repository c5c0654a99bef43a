"""What a node measures of its farm: round trips to its peers, and how long others were silent. Pure: told the time."""

from bisect import bisect_left, insort
from collections import deque
from dataclasses import dataclass
from typing import Final

MOST_TRIPS: Final = 256
"""Round trips that are kept of one peer: enough that one in a hundred is more than one."""
SLOTS: Final = 60
"""Pieces of the time that silences are remembered for."""


@dataclass(frozen=True, slots=True)
class RoundTrip:
    """Seconds, of so many round trips: half are no longer than `p50`, 99 of 100 no longer than `p99`."""

    p50: float
    p99: float
    samples: int


class RoundTrips:
    """The latest round trips to one peer: at most `MOST_TRIPS`, none but the newest older than `memory` seconds."""

    def __init__(self, memory: float) -> None:
        self._memory = memory
        self._latest: deque[tuple[float, float]] = deque()
        self._sorted: list[float] = []

    def add(self, seconds: float, now: float) -> None:
        """Take one."""
        self._latest.append((now, seconds))
        insort(self._sorted, seconds)
        while len(self._latest) > MOST_TRIPS or self._latest[0][0] < now - self._memory:
            _, old = self._latest.popleft()
            del self._sorted[bisect_left(self._sorted, old)]

    def __len__(self) -> int:
        return len(self._sorted)

    @property
    def p99(self) -> float:
        """See `RoundTrip`; there must be one."""
        return self._sorted[-(len(self._sorted) // 100) - 1]

    @property
    def summary(self) -> RoundTrip:
        """All of it; there must be one."""
        return RoundTrip(self._sorted[(len(self._sorted) - 1) // 2], self.p99, len(self._sorted))


@dataclass(slots=True)
class _Slot:
    number: int
    longest: float
    count: int


class Silences:
    """How long those who should speak were silent, over the latest `memory` seconds.

    That time is cut into slots, and of each the longest silence is kept. So a second of heavy traffic, with a thousand
    short silences, weighs no more than any other second, and does not hide how long the silences are without traffic.
    """

    def __init__(self, memory: float) -> None:
        self.usual = 0.0
        """The longest silence of an ordinary slot: half of the slots have none longer."""
        self.worst = 0.0
        """The longest one: of so few slots that is their 99th percentile."""
        self._seconds = memory / SLOTS
        self._slots: deque[_Slot] = deque()

    @property
    def count(self) -> int:
        """How many silences that is about."""
        return sum(slot.count for slot in self._slots)

    def add(self, seconds: float, now: float) -> bool:
        """Take one that ends now; return whether something may have changed but the count."""
        number = int(now // self._seconds)
        if self._slots and self._slots[-1].number >= number:
            slot = self._slots[-1]
            slot.count += 1
            if seconds <= slot.longest:
                return False
            slot.longest = seconds
        else:
            self._slots.append(_Slot(number, seconds, 1))
            while self._slots[0].number <= number - SLOTS:
                self._slots.popleft()
        ordered = sorted(slot.longest for slot in self._slots)
        self.usual = ordered[len(ordered) // 2]
        self.worst = ordered[-1]
        return True
