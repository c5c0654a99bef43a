"""Branches: sets below the first set, for more leaves than one set can list.

Each listed leaf has a place, a number that stays while the leaf is listed. The places of one branch are consecutive.
So a leaf that comes or goes changes one branch, and no other branch needs a new set.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Final

BRANCHES: Final = 16
"""Most branches. The first set has an entry for each branch."""


def room(tree: str, max_entries: int) -> int:
    """Return how many leaves the first set and its branches can list. `max_entries`: of one set, 1 to 16."""
    return max_entries * min(max_entries, BRANCHES) if tree == "tree" else max_entries


def places(taken: Mapping[bytes, int], chosen: Iterable[bytes], most: int) -> dict[bytes, int]:
    """Give every chosen leaf a place below `most`: its present place, or else the first free one."""
    found: dict[bytes, int] = {}
    homeless: list[bytes] = []
    for hash_ in chosen:
        place = taken.get(hash_, most)
        if place < most:
            found[hash_] = place
        else:
            homeless.append(hash_)
    used = set(found.values())
    free = (place for place in range(most) if place not in used)
    return found | dict(zip(homeless, free, strict=False))


def is_branched(count: int, max_entries: int, *, before: bool) -> bool:
    """Whether this many leaves need branches. A farm with branches keeps them until one set has room to spare."""
    return count > (max_entries * 3 // 4 if before else max_entries)


def branch_of(place: int, max_entries: int) -> int:
    """Return the number of the branch of a place, 0 to 15."""
    return place // max_entries


def branches(taken: Collection[int], max_entries: int) -> list[int]:
    """Return the numbers of the branches that have leaves."""
    return sorted({branch_of(place, max_entries) for place in taken})
