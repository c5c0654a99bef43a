"""Farms below farms: a farm's master may be a leaf of another farm, an entry of type 7, and so on down. No loops.

A loop would lead clients in a circle, so none may come to be. Where one process has the configuration of all farms in
it, `loop` finds it before anything starts. Across processes nobody sees all of it, so each record says of its leaf of
type 7 which masters it leads to ("below": all of them, not only the next), and how many farms lie one below another
there ("depth"). A farm lists no leaf that leads to its own master: every loop passes through its own members' logs, and
each of them refuses.

What lies below is what servers *report*, listed or not, fresh or not. If it were what is listed, two farms that refuse
each other would both find the way free, and list each other, and refuse each other again.
"""

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

from gf_i2p.farm.record.destinations import MAX_BELOW, META_TYPE, Leaf
from gf_i2p.farm.record.status_record import StatusRecord

MAX_DEPTH: Final = 8
"""Farms one below another, the one that lists the leaf not counted: a client resolves one set after the other."""

T = TypeVar("T", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Beneath:
    """What lies below one farm's master, by its log."""

    masters: tuple[bytes, ...] = ()
    """Hashes, sorted."""
    depth: int = 0
    """How many farms lie one below another; at most one more than `MAX_DEPTH`, which says enough."""

    @property
    def objection(self) -> str | None:
        """Say why a farm may not list the master above this; None when it may."""
        if len(self.masters) > MAX_BELOW:
            return f"{len(self.masters)} masters lie below it, and {MAX_BELOW} is the most"
        if self.depth >= MAX_DEPTH:
            return f"more than {MAX_DEPTH} farms would lie one below another"
        return None


def beneath(records: Iterable[StatusRecord]) -> Beneath:
    """Tell what lies below a farm whose servers' newest records these are."""
    masters: set[bytes] = set()
    depth = 0
    for leaf in _nested(records):
        masters.update((leaf.hash, *leaf.below))
        depth = max(depth, _depth(leaf))
    return Beneath(tuple(sorted(masters)), min(depth, MAX_DEPTH + 1))


def as_leaf(master: bytes, found: Beneath, *, up: bool) -> Leaf:
    """Make what a farm above posts of this master. It is not up when the farms above must not list it."""
    objection = found.objection
    return Leaf(
        master,
        up and objection is None,
        type=META_TYPE,
        below=found.masters[:MAX_BELOW],
        depth=min(found.depth + 1, MAX_DEPTH + 1),
    )


def leads_to(leaf: Leaf, below: Callable[[bytes], Iterable[bytes]]) -> frozenset[bytes]:
    """Return the masters to which a leaf leads, by its own word and by that of others.

    `below`: what anybody in the farm says lies below a master. One server may know more of a farm than another: it may
    run a server of that one, too.
    """
    if leaf.type != META_TYPE:
        return frozenset()
    found: set[bytes] = set()
    ahead = [*leaf.below, *below(leaf.hash)]
    while ahead:
        master = ahead.pop()
        if master not in found:
            found.add(master)
            ahead += below(master)
    return frozenset(found)


def objection(leaf: Leaf, master: bytes | None, known: Collection[bytes] = ()) -> str | None:
    """Say why a farm with this master must not list a leaf, however well it does; None when it may.

    `known`: from `leads_to`; without it only what the leaf itself says counts.
    """
    if leaf.hash == master:
        return "it is the master itself"
    if leaf.type != META_TYPE:
        return None
    if master is not None and (master in leaf.below or master in known):
        return "it is the master of a farm that leads back to this one's own master"
    if _depth(leaf) > MAX_DEPTH:
        return f"more than {MAX_DEPTH} farms lie one below another there"
    return None


def loop(farms: Mapping[T, Collection[T]]) -> tuple[T, ...] | None:
    """Find a loop: the way round it, its first farm also at its end; None when there is none.

    `farms`: what lies directly below each. What is not among its keys has nothing below.
    """
    done: set[T] = set()
    for start in farms:
        way: dict[T, Iterable[T]] = {}  # from the start to where we are, with what is still to be tried there
        here: T | None = start
        while here is not None:
            if here not in done and here not in way:
                way[here] = iter(farms.get(here, ()))
            elif here in way:
                names = list(way)
                return (*names[names.index(here) :], here)
            here = None
            while way and here is None:
                last = next(reversed(way))
                here = next(iter(way[last]), None)
                if here is None:
                    done.add(last)
                    del way[last]
    return None


def depth(farms: Mapping[T, Collection[T]]) -> int:
    """Return how many farms lie one below another at most, the topmost not counted; there must be no loop."""
    found: dict[T, int] = {}

    def of(farm: T) -> int:
        if farm not in found:
            found[farm] = max((1 + of(each) for each in farms.get(farm, ())), default=0)
        return found[farm]

    return max((of(farm) for farm in farms), default=0)


def _nested(records: Iterable[StatusRecord]) -> Iterable[Leaf]:
    return (leaf for record in records for leaf in record.leaves if leaf.type == META_TYPE)


def _depth(leaf: Leaf) -> int:
    """At least what the leaf must have: others may say nothing, or too little."""
    return max(leaf.depth or 0, 2 if leaf.below else 1)
