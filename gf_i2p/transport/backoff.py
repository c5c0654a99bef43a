"""Delays between attempts to connect, or to deliver a request."""

import random
from collections.abc import Callable
from typing import Final

FLOOR_SECONDS: Final = 0.05
"""Least seconds between two attempts."""
CEILING_SECONDS: Final = 5.0
"""Most seconds between two attempts, unless the caller gives another ceiling."""


class Backoff:
    """Delays that grow, with jitter, so that clients that failed together do not come back together.

    Each delay is uniform between the floor and a limit. The limit starts at twice the floor and grows up to the ceiling
    by the factor `growth` at each delay.
    """

    def __init__(
        self,
        *,
        floor: float = FLOOR_SECONDS,
        ceiling: float = CEILING_SECONDS,
        growth: float = 2.0,
        random: Callable[[], float] = random.random,
    ) -> None:
        """`floor`, `ceiling`: seconds, floor above 0 and at most the ceiling. `growth`: at least 1.

        `random`: uniform in [0, 1).
        """
        if not 0 < floor <= ceiling:
            raise ValueError(f"a back-off needs 0 < floor ({floor}) <= ceiling ({ceiling})")
        self._floor = floor
        self.ceiling = ceiling
        """Seconds, at least the floor; a change counts for later delays."""
        self._growth = growth
        self._random = random
        self._limit = 2 * floor

    def next(self) -> float:
        """Return the seconds to wait now."""
        limit = min(self._limit, self.ceiling)
        self._limit = self._growth * limit
        return self._floor + self._random() * (limit - self._floor)

    def reset(self) -> None:
        """Begin again with the shortest delay, after a success."""
        self._limit = 2 * self._floor
