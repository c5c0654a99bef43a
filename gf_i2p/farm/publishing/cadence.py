"""Decision when the next set is due, by the sets that the router has got so far.

A set with the same entries is published again, with a new version, for four reasons. Java takes no set that is ten
minutes old. i2pd may silently drop the first sets of a session. Another server may have missed the last set. An
administrator may order a new set.
"""

from dataclasses import dataclass
from typing import Final

HURRIED_SECONDS: Final = 25.0
"""Seconds between two sets of a session that follow each other quickly: i2pd takes at most one in 20 s."""
EARLY_SECONDS: Final = (5.0, 10.0)
"""Seconds after the first and the second set of a session. i2pd 2.45 often drops the first set, because the session has
no outbound tunnel yet. Such a set does not count. After a set that counts, i2pd takes the next one 20 s later: to send
more sets meanwhile costs nothing."""
HURRIED_SETS: Final = 4


@dataclass(frozen=True, slots=True)
class Cadence:
    """The farm's parameters, in seconds."""

    min_seconds: float
    """Least time between two sets with different entries (republishMinMs); also the first pause before a set that was
    not found is given again."""
    max_seconds: float
    """Most time between any two sets (republishMaxMs)."""
    hurried_sets: int = HURRIED_SETS
    """Number of sets that follow each other quickly at the start of a session; 0 in a dry run."""


@dataclass(frozen=True, slots=True)
class LastSet:
    """The last set that was given to the router. Times are seconds, by any clock that never goes back."""

    at: float
    changed_at: float
    """When the first set with these entries was given."""
    sent_count: int
    """Number of sets given in the present session, or in the newest branch's session if that session is newer."""
    missed: bool = False
    """Whether another server looked for the last set, could have found it, and did not."""
    retries: int = 0
    """Number of sets in a row that were given after a missed set."""


@dataclass(frozen=True, slots=True)
class Due:
    """When the next set is due, and the reason, for the machine and for the operator."""

    at: float
    why: str


def next_due(last_set: LastSet | None, *, differs: bool, cadence: Cadence, now: float, is_ordered: bool = False) -> Due:
    """Return when and why the next set is due.

    `last_set`: None before the first set. `differs`: whether the next set's entries would differ from the last set's.
    `now`: the present time, by the clock of `last_set`. `is_ordered`: whether an administrator has ordered a set since
    the last set was chosen.
    """
    if last_set is None:
        return Due(now, "no set was given yet")
    dues = [Due(last_set.at + cadence.max_seconds, "a set must not grow old")]
    if differs:
        soonest = max(last_set.changed_at + cadence.min_seconds, last_set.at + HURRIED_SECONDS)
        dues.append(Due(soonest, "the leaves have changed"))
    if is_ordered:
        # Sooner, i2pd would drop the set silently.
        pause = hurried_pause(last_set.sent_count) if cadence.hurried_sets else 0.0
        dues.append(Due(last_set.at + pause, "an administrator has ordered a new set"))
    if last_set.sent_count < cadence.hurried_sets:
        soon = last_set.at + hurried_pause(last_set.sent_count)
        dues.append(Due(soon, "a router may have dropped one of the first sets"))
    if last_set.missed:
        dues.append(Due(last_set.at + backoff(last_set.retries, cadence), "the last set was not found"))
    return min(dues, key=lambda due: due.at)


def hurried_pause(sent_count: int) -> float:
    """Return the seconds from a session's set to the next hurried set. `sent_count`: 1 for the first set, and so on."""
    return EARLY_SECONDS[sent_count - 1] if sent_count <= len(EARLY_SECONDS) else HURRIED_SECONDS


def backoff(retries: int, cadence: Cadence) -> float:
    """Return the seconds until a set that was not found is given again.

    The seconds are `min_seconds`, doubled for each set in `retries`, and at most `max_seconds`.
    """
    return float(min(cadence.min_seconds * 2.0 ** min(retries, 16), cadence.max_seconds))
