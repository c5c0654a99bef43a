"""The term in which a farm begins anew: the old farm cannot have reached that term.

So no two entries of one index and one term differ, and no old log is ever as up-to-date as the new log.
"""

import secrets as randomness
from typing import Final

from gf_i2p.node.files.checked_read import ConfigError
from gf_i2p.raft.allowance import LAST_TERM

ELECTIONS_A_SECOND: Final = 2
"""Most elections a second by a server that has lost the others, with the shortest time-outs of any profile."""
TERM_LEAP: Final = 2**28
"""Number of added terms: four years of such elections. The old farm may have gone on for an unknown time, and clocks
may be wrong."""
TERM_SCATTER: Final = 2**20
"""A random number of terms below this is added, so that two recoveries from one state go on in different terms."""
_SHARE: Final = 16
"""A leap takes at most one of so many terms that are left up to `LAST_TERM`, so that a farm can begin anew again."""


def term_beyond(term: int, *, since: float = 0.0) -> int:
    """Return a term that the farm cannot have reached, `since` seconds after the farm was in term `term`.

    A farm that was recovered from the same state before counts as an old farm, too: see `TERM_SCATTER`. The result is
    below `LAST_TERM`, so servers with an empty log accept the result. Less than 2^32 terms before `LAST_TERM` the leaps
    shrink, and may be too short for a farm that went on for long. Raises `ConfigError` when no term is left.
    """
    leap = min(TERM_LEAP, (LAST_TERM - term) // _SHARE)
    if leap < 1:
        raise ConfigError(f"the farm has reached term {term}, and too few terms are left: begin a new farm")
    elections = min(int(ELECTIONS_A_SECOND * max(since, 0.0)), leap)
    return term + elections + leap + randomness.randbelow(min(TERM_SCATTER, leap))
