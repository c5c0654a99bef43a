"""Members that only serve: they post status records, and have no vote; there may be thousands of them.

Their clocks do not count for farm time, and they accuse nobody.
"""

from collections.abc import Collection
from typing import Final

from gf_i2p.farm.posters import Posters
from gf_i2p.farm.record.status_record import FIRST_MEMBER_ID, StatusRecord

MAX_MEMBERS: Final = 4096
MAX_MEMBER_BYTES: Final = 4096
"""Of a member's record: all of them stand in each snapshot."""
FORGOTTEN_MS: Final = 86_400_000
"""A member that has posted nothing for so long, while the farm was at work, is forgotten."""


def objection(record: StatusRecord, size: int, known: Collection[int]) -> str | None:
    """Say why a record that is no server's does not count, or None. `known`: the members so far; `size`: bytes."""
    if record.id < FIRST_MEMBER_ID:
        return f"{record.id} is no server of this farm"
    if size > MAX_MEMBER_BYTES:
        return f"a record of a member has up to {MAX_MEMBER_BYTES} bytes, not {size}"
    if record.id not in known and len(known) >= MAX_MEMBERS:
        return f"there are {MAX_MEMBERS} members already"
    return None


def long_silent(posters: Posters, members: Collection[int], now_ms: int) -> list[int]:
    """Return the members that are to be forgotten. Quick: the longest silent stand first."""
    found: list[int] = []
    for member in members:
        if now_ms - posters.by_id[member].heard_ms <= FORGOTTEN_MS:
            break
        found.append(member)
    return found
