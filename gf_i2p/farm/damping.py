"""How well one leaf has kept up lately: what comes and goes is not listed and taken out each time.

All times are of the farm's stopwatch (`clock.Clock.passed_ms`), in ms. As in BGP's route flap damping (RFC 2439), each
time that a leaf goes down it must stay up for longer before it counts again, and a time of quiet takes that back.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

from gf_i2p.farm.parameters import Parameters
from gf_i2p.farm.strict_json import MAX_DATE_MS, RecordError

MAX_FLAPS: Final = 12
"""More are not counted: the longest wait is reached before."""
RESTLESS_FLAPS: Final = 4
"""A leaf that has gone down so often lately is taken out at once when it does so again."""


def wait_ms(flaps: int, parameters: Parameters) -> int:
    """Return how long a leaf that has gone down so often must be up before it is listed again."""
    return min(parameters.leaf_up_ms << flaps, parameters.flap_ms)


@dataclass(slots=True)
class Health:
    """One leaf as one poster has seen it, over time."""

    up: bool
    since_ms: int
    """When it came up, or went down."""
    flaps: int = 0
    """How often it had gone down lately, at `since_ms`."""
    proven: bool = True
    """Whether it has never been seen down: a leaf that is new to the farm does not wait."""

    def report(self, now_ms: int, parameters: Parameters, *, up: bool) -> None:
        """Take in what its poster says now."""
        if up == self.up:
            return
        if not up:
            self._went_down(now_ms, parameters)
        self.up = up
        self.since_ms = now_ms

    def interrupt(self, now_ms: int, parameters: Parameters) -> None:
        """Count a time in which it was as good as down, and that ends now."""
        if self.up:
            self._went_down(now_ms, parameters)
            self.since_ms = now_ms

    def recent_flaps(self, now_ms: int, parameters: Parameters) -> int:
        """Return how often it has gone down lately: one less for each wait that it has stayed up."""
        flaps = self.flaps
        if self.up:
            quiet = now_ms - self.since_ms
            while flaps and quiet >= wait_ms(flaps, parameters):
                quiet -= wait_ms(flaps, parameters)
                flaps -= 1
        return flaps

    def waits_ms(self, now_ms: int, parameters: Parameters) -> int:
        """Return for how much longer it must stay up to be listed; 0: not at all."""
        if self.proven:
            return 0
        return max(wait_ms(self.flaps, parameters) - (now_ms - self.since_ms), 0)

    def out_ms(self, parameters: Parameters) -> int:
        """Return when it is to be taken out, as it is down."""
        return self.since_ms if self.flaps >= RESTLESS_FLAPS else self.since_ms + parameters.leaf_down_ms

    def encode(self) -> list[int]:
        """Give it for a snapshot."""
        return [int(self.up), self.since_ms, self.flaps, int(self.proven)]

    @classmethod
    def parse(cls, found: Sequence[Any]) -> Self:
        """Read that of a snapshot. Raises `RecordError`, or what a wrong shape leads to."""
        up, since, flaps, proven = found
        if any(type(each) is not int or not 0 <= each <= MAX_DATE_MS for each in (up, since, flaps, proven)):
            raise RecordError("a leaf's past is whole numbers")
        return cls(bool(up), since, min(flaps, MAX_FLAPS), bool(proven))

    def _went_down(self, now_ms: int, parameters: Parameters) -> None:
        self.flaps = min(self.recent_flaps(now_ms, parameters) + 1, MAX_FLAPS)
        self.proven = False
