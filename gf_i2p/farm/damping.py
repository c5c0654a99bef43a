"""Damping: a leaf that goes up and down is not listed and dropped each time.

All times are of the farm's stopwatch (`FarmClock.passed_ms`), in ms. As in BGP's route flap damping (RFC 2439), a leaf
that goes down again must stay up for longer before the farm lists the leaf again. A quiet time shortens the wait again.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

from gf_i2p.farm.parameters import Parameters
from gf_i2p.farm.strict_json import MAX_DATE_MS, RecordError

MAX_FLAPS: Final = 12
"""Most flaps that are counted. By default a leaf waits for `flap_ms`, the longest wait, from five flaps on."""
RESTLESS_FLAPS: Final = 4
"""Recent flaps after which a leaf that goes down is dropped at once."""


def wait_ms(flaps: int, parameters: Parameters) -> int:
    """Return for how many ms a leaf must be up to be listed again.

    The time is `leaf_up_ms`, doubled for each recent flap, and at most `flap_ms`.
    """
    return min(parameters.leaf_up_ms << flaps, parameters.flap_ms)


@dataclass(slots=True)
class Health:
    """History of one leaf, by one poster's records."""

    up: bool
    since_ms: int
    """Time when the leaf last came up or went down, by the farm's stopwatch in ms."""
    flaps: int = 0
    """Recent flaps at `since_ms`: how often the leaf had gone down, less the flaps that quiet times removed."""
    proven: bool = True
    """Whether the leaf has never been down. Then the farm may list the leaf without a wait."""

    def report(self, now_ms: int, parameters: Parameters, *, up: bool) -> None:
        """Note whether the leaf is up by a new record."""
        if up == self.up:
            return
        if not up:
            self._went_down(now_ms, parameters)
        self.up = up
        self.since_ms = now_ms

    def interrupt(self, now_ms: int, parameters: Parameters) -> None:
        """Count an outage that ends now: the poster was silent or accused, so the leaf was as good as down."""
        if self.up:
            self._went_down(now_ms, parameters)
            self.since_ms = now_ms

    def recent_flaps(self, now_ms: int, parameters: Parameters) -> int:
        """Return the number of recent flaps. Each time that the leaf stays up for `wait_ms` removes one flap."""
        flaps = self.flaps
        if self.up:
            quiet = now_ms - self.since_ms
            while flaps and quiet >= wait_ms(flaps, parameters):
                quiet -= wait_ms(flaps, parameters)
                flaps -= 1
        return flaps

    def waits_ms(self, now_ms: int, parameters: Parameters) -> int:
        """Return for how many more ms the leaf must stay up to be listed; 0: the leaf may be listed now."""
        if self.proven:
            return 0
        return max(wait_ms(self.flaps, parameters) - (now_ms - self.since_ms), 0)

    def out_ms(self, parameters: Parameters, *, told: bool) -> int:
        """Return the time when a leaf that is down must be dropped: at once from `RESTLESS_FLAPS` recent flaps on.

        `told`: the newest record says that the leaf is down. Otherwise the leaf only counts as down, because the router
        does not answer.
        """
        if self.flaps >= RESTLESS_FLAPS:
            return self.since_ms
        return self.since_ms + (parameters.leaf_down_ms if told else parameters.unheard_ms)

    def encode(self) -> list[int]:
        """Return the leaf's history for a snapshot."""
        return [int(self.up), self.since_ms, self.flaps, int(self.proven)]

    @classmethod
    def parse(cls, snapshot: Sequence[Any]) -> Self:
        """Read a leaf's history from a snapshot. Wrong data raise `RecordError` or another exception."""
        up, since, flaps, proven = snapshot
        if any(type(each) is not int or not 0 <= each <= MAX_DATE_MS for each in (up, since, flaps, proven)):
            raise RecordError("a leaf's history has only whole numbers")
        return cls(bool(up), since, min(flaps, MAX_FLAPS), bool(proven))

    def _went_down(self, now_ms: int, parameters: Parameters) -> None:
        self.flaps = min(self.recent_flaps(now_ms, parameters) + 1, MAX_FLAPS)
        self.proven = False
