"""Branches: sets below the first set, for more leaves than one set can list.

Each listed leaf has a place, a number that stays while the leaf is listed. The places of one branch are consecutive.
So a leaf that comes or goes changes one branch, and no other branch needs a new set.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Final

BRANCHES: Final = 16
"""Most branches. The first set has an entry for each branch."""


def room(tree: str, max_entries: int) -> int:
    """Return how many leaves the first set and its branches can list.

    `tree`: "best" (no branches) or "tree". `max_entries`: most entries of one set, 1 to 16.
    """
    return max_entries * min(max_entries, BRANCHES) if tree == "tree" else max_entries


def places(current: Mapping[bytes, int], hashes: Iterable[bytes], room: int) -> dict[bytes, int]:
    """Return a place from 0 to `room` - 1 for each leaf of `hashes`: the leaf's place in `current`, else a free place.

    New leaves get the lowest free places, in the order of `hashes`. When no place is free, a leaf gets none.
    """
    assigned: dict[bytes, int] = {}
    unplaced: list[bytes] = []
    for hash_ in hashes:
        place = current.get(hash_, room)
        if place < room:
            assigned[hash_] = place
        else:
            unplaced.append(hash_)
    used = set(assigned.values())
    free = (place for place in range(room) if place not in used)
    return assigned | dict(zip(unplaced, free, strict=False))


def is_branched(count: int, max_entries: int, *, was_branched: bool) -> bool:
    """Whether this many leaves need branches. A farm with branches keeps them until one set has room to spare."""
    return count > (max_entries * 3 // 4 if was_branched else max_entries)


def branch_of(place: int, max_entries: int) -> int:
    """Return the number of the branch of a place, 0 to 15."""
    return place // max_entries


def branches(leaf_places: Collection[int], max_entries: int) -> list[int]:
    """Return the numbers of the branches that have leaves, in rising order. `leaf_places`: the places of all leaves."""
    return sorted({branch_of(place, max_entries) for place in leaf_places})
