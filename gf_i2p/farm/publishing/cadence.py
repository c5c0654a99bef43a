"""When the next set is due: pure reckoning with what was last given to the router.

A set with the same entries is a new version all the same: Java takes none that is ten minutes old, i2pd may drop the
first of a session and not say so, and a set that was looked for and not found is worth another try.
"""

from dataclasses import dataclass
from typing import Final

HURRIED_SECONDS: Final = 25.0
"""Between the first few: i2pd may drop one and not say so, and takes no more than one in 20 s."""
HURRIED_SETS: Final = 4


@dataclass(frozen=True, slots=True)
class Pace:
    """The farm's parameters, in seconds."""

    least: float
    """Between two sets that differ in their entries (republishMinMs); also the first pause before a set that was not
    found is given again."""
    most: float
    """Between any two (republishMaxMs)."""
    hurried: int = HURRIED_SETS
    """How many sets of a session are the first few; 0 where there is no router that could drop one."""


@dataclass(frozen=True, slots=True)
class Given:
    """What was last given. Times by any clock in seconds that never goes back."""

    at: float
    changed_at: float
    """When the first set with these entries was given."""
    sent: int
    """How many sets were given in this session, and in those of branches, whichever is the newest."""
    missed: bool = False
    """Whether somebody who could have found the last set has looked, and has not."""
    retries: int = 0
    """How many sets were given, one after the other, because the one before was missed."""


@dataclass(frozen=True, slots=True)
class Due:
    """When the next set is due, and why then; both for the operator, too."""

    at: float
    why: str


def next_due(given: Given | None, *, differs: bool, pace: Pace, now: float) -> Due:
    """Say when the next set is due. `differs`: whether its entries would be others than those of the last one."""
    if given is None:
        return Due(now, "none was given yet")
    found = [Due(given.at + pace.most, "a set must not grow old")]
    if differs:
        soonest = max(given.changed_at + pace.least, given.at + HURRIED_SECONDS)
        found.append(Due(soonest, "the leaves have changed"))
    if given.sent < pace.hurried:
        found.append(Due(given.at + HURRIED_SECONDS, "a router may have dropped one of the first"))
    if given.missed:
        found.append(Due(given.at + backoff(given.retries, pace), "the last one was not found"))
    return min(found, key=lambda due: due.at)


def backoff(retries: int, pace: Pace) -> float:
    """Return after how many seconds a set that was not found is given again: twice as long each time."""
    return float(min(pace.least * 2.0 ** min(retries, 16), pace.most))
