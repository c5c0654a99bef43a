"""The term in which a farm begins anew: the old farm cannot have reached that term.

So no two entries of one index and one term differ, and no old log is ever as up-to-date as the new log.
"""

import secrets as randomness
from typing import Final

from gf_i2p.node.files.checked_read import ConfigError
from gf_i2p.raft.core import MAX_TERM_STEP

ELECTIONS_A_SECOND: Final = 2
"""Most elections a second by a server that has lost the others, with the shortest time-outs of any profile."""
TERM_LEAP: Final = 2**28
"""Terms added for a farm that went on for an unknown time, or for wrong clocks: four years of such elections. At least
six new beginnings fit below `MAX_TERM_STEP`, the largest step of terms that a new server with an empty log accepts."""
TERM_SCATTER: Final = 2**20
"""A random number of terms below this is added, so that two recoveries from one state go on in different terms."""
_TERM_END: Final = MAX_TERM_STEP - 3 * TERM_LEAP


def term_beyond(term: int, *, since: float = 0.0) -> int:
    """Return a term that the farm cannot have reached, `since` seconds after the farm was in term `term`.

    A farm that was recovered from the same state before counts as an old farm, too: see `TERM_SCATTER`. Raises
    `ConfigError` when no such term is left.
    """
    if term >= _TERM_END:
        raise ConfigError(f"the farm has reached term {term}, and too few terms are left: begin a new farm")
    elections = min(int(ELECTIONS_A_SECOND * max(since, 0.0)), TERM_LEAP)
    return term + elections + TERM_LEAP + randomness.randbelow(TERM_SCATTER)
