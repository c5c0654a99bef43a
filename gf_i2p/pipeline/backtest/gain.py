"""The gain of one parameter set over another, with its interval."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Gain:
    """The saving of one set, compared with another set. Shares are of the other set's cost; 1 is all of the cost."""

    share: float
    """0 when the other set costs nothing."""
    low: float
    """Lower end of the interval of the share."""
    high: float
    """Upper end of the interval of the share."""
    seconds: float
    """Seconds of outage that the set saves in a day."""

    @property
    def is_above_noise(self) -> bool:
        """Whether the whole interval is above zero."""
        return self.low > 0

    def __str__(self) -> str:
        """Return the gain for an operator, as "9.6% (3.1% to 14.2%)"."""
        return f"{self.share:.1%} ({self.low:.1%} to {self.high:.1%})"
