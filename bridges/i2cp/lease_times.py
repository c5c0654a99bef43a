"""Decides when a service gives the router its next lease set: lengths and pauses for each kind of router.

docs/design/publishing.md has the measurements. All times are seconds.
"""

from dataclasses import dataclass
from typing import Final

from bridges.i2cp.settings import RouterKind


@dataclass(frozen=True, slots=True)
class LeaseTimes:
    """How long lease sets and leases last at one kind of router, and the pauses between lease sets. All in seconds."""

    expires: int
    """From a set's `published` to the end of the set. A Java floodfill keeps the set until the end, an i2pd floodfill
    until 51 s before. A Java client looks for a newer set 15 s after the end."""
    lease: int
    """Length of the leases. An i2pd client looks for a newer set 51 s before a lease ends. A Java client uses a lease
    for up to 60 s more, so `lease` + 60 is at least `expires` + 15."""
    renew: float
    """Pause from the router's publication of a set to the next set."""
    second: float
    """Most seconds between the first two sets of a session: a router may drop the first one."""
    pause: float
    """Least pause between two publications by the router. A set that comes sooner waits."""
    delay: float
    """From the moment when the router gets a set to the set's publication, if the set does not have to wait."""
    restarts: bool
    """Whether each set that has to wait starts the pause anew."""


LEASES: Final = {
    RouterKind.I2PD: LeaseTimes(expires=95, lease=60, renew=48.0, second=25.0, pause=20.0, delay=0.0, restarts=True),
    RouterKind.JAVA: LeaseTimes(expires=110, lease=65, renew=57.0, second=60.0, pause=60.0, delay=3.0, restarts=False),
}
"""i2pd checks a publication after 5 to 8 s and may publish again, after a pause of 20 s. Its next set is surely free of
that pause after 48 s. A set that comes sooner may wait for 20 s. Each set within 40 s of a waiting set waits too."""
_SHORT_SECONDS: Final = 5.0
"""A set that waits for at most this long counts as published at once."""


class GivingTimes:
    """Says when the next set is due, from the times of the sets so far. Times are monotonic seconds."""

    def __init__(self, times: LeaseTimes) -> None:
        self._times = times
        self._last = float("-inf")
        """Time of the router's last publication."""
        self._coming: float | None = None
        """Time at which the router publishes the last set; None: not known, or past."""
        self._is_first = True

    def given(self, now: float) -> float:
        """Note that the router got a set; return the time at which the next set is due.

        A set that has to wait in the router is old when the router publishes the set. So the next set is due earlier:
        right before that publication, or as soon as the router publishes sets at once again.
        """
        times = self._times
        if self._coming is not None and self._coming <= now:
            self._last, self._coming = self._coming, None
        at_once = now + times.delay
        free = now + times.pause if times.restarts else self._last + times.pause
        self._coming = at_once if at_once >= self._last + times.pause else max(at_once, free)
        waits = self._coming - now
        if waits <= _SHORT_SECONDS:
            due = self._coming + times.renew
        elif times.restarts:
            due = self._coming + times.pause
        else:
            due = self._coming - times.delay - 1.0
        if self._is_first:
            self._is_first = False
            due = min(due, now + times.second)
        return due
