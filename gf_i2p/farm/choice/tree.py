"""More leaves than one set has room for: sets below the first one.

Each listed leaf has a place, a number that it keeps as long as it is listed; the places of one branch follow one
another. So a leaf that comes or goes changes one branch, and the others need not be published anew.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Final

BRANCHES: Final = 16
"""Sets below the first one, which has an entry for each."""


def room(tree: str, max_entries: int) -> int:
    """Return how many leaves are listed at most."""
    return max_entries * min(max_entries, BRANCHES) if tree == "tree" else max_entries


def places(taken: Mapping[bytes, int], chosen: Iterable[bytes], most: int) -> dict[bytes, int]:
    """Give every chosen leaf a place below `most`: its own if it has one, else the first that is free."""
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
    """Whether so many leaves are in branches. A farm that has them keeps them until one set has room to spare."""
    return count > (max_entries * 3 // 4 if before else max_entries)


def branch_of(place: int, max_entries: int) -> int:
    """Return the number of the branch, 0 to 15, in which a place is."""
    return place // max_entries


def branches(taken: Collection[int], max_entries: int) -> list[int]:
    """Return the numbers of the branches that have leaves."""
    return sorted({branch_of(place, max_entries) for place in taken})
