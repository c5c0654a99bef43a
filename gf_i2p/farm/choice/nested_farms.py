"""Nested farms: a farm's master may be a leaf of another farm, as an entry of type 7, without loops.

A loop would lead clients in a circle. Where one process has the configuration of all farms, `find_loop` finds a loop
before anything starts. Across processes, no process sees all farms. So a record lists, for each leaf of type 7, all
masters below that leaf ("below") and the length of the longest chain of farms there ("depth"). A farm lists no leaf
that leads to the farm's own master. Every loop shows in the logs of all farms in the loop, so each of these farms
refuses to list the leaf that leads into the loop.

The masters below come from the servers' *reports*, also of leaves that are not listed, and from old records. If only
listed leaves counted, two farms that refuse each other would both see no loop any more, list each other, and refuse
again.
"""

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

from gf_i2p.farm.record.destinations import MAX_BELOW, META_TYPE, Leaf
from gf_i2p.farm.record.status_record import StatusRecord

MAX_DEPTH: Final = 8
"""Most farms in a chain below the farm that lists the leaf: a client resolves one set after the other."""

T = TypeVar("T", bound=Hashable)


@dataclass(frozen=True, slots=True)
class MastersBelow:
    """The masters below one farm's master, by that farm's log."""

    masters: tuple[bytes, ...] = ()
    """Hashes of the masters, sorted."""
    depth: int = 0
    """Length of the longest chain of farms below; at most `MAX_DEPTH` + 1, which is too deep already."""

    @property
    def objection(self) -> str | None:
        """Return why no farm may list this master, as a clause; None: a farm may list the master."""
        if len(self.masters) > MAX_BELOW:
            return f"{len(self.masters)} masters lie below it, and {MAX_BELOW} is the most"
        if self.depth >= MAX_DEPTH:
            return f"more than {MAX_DEPTH} farms would lie one below another"
        return None


def find_masters_below(records: Iterable[StatusRecord]) -> MastersBelow:
    """Return the masters below a farm. `records`: the newest records of the farm's servers."""
    masters: set[bytes] = set()
    depth = 0
    for leaf in _nested_leaves(records):
        masters.update((leaf.hash, *leaf.below))
        depth = max(depth, _least_depth(leaf))
    return MastersBelow(tuple(sorted(masters)), min(depth, MAX_DEPTH + 1))


def as_leaf(master: bytes, below: MastersBelow, *, up: bool) -> Leaf:
    """Return the leaf that a farm above posts for this master. A master that no farm may list counts as down."""
    objection = below.objection
    return Leaf(
        master,
        up and objection is None,
        type=META_TYPE,
        below=below.masters[:MAX_BELOW],
        depth=min(below.depth + 1, MAX_DEPTH + 1),
    )


def leads_to(leaf: Leaf, below: Callable[[bytes], Iterable[bytes]]) -> frozenset[bytes]:
    """Return the masters to which a leaf leads, by its own record and by other servers' reports.

    `below`: returns the masters that any server reports below a master. A server whose machine also runs a server of
    the nested farm can report more masters than other servers.
    """
    if leaf.type != META_TYPE:
        return frozenset()
    masters: set[bytes] = set()
    ahead = [*leaf.below, *below(leaf.hash)]
    while ahead:
        master = ahead.pop()
        if master not in masters:
            masters.add(master)
            ahead += below(master)
    return frozenset(masters)


def objection(leaf: Leaf, master: bytes | None, masters_below: Collection[bytes] = ()) -> str | None:
    """Return why a farm with this master must not list a leaf, even while the leaf is up; None: the farm may list it.

    `masters_below`: the result of `leads_to`; without it only the leaf's own record counts.
    """
    if leaf.hash == master:
        return "it is the master itself"
    if leaf.type != META_TYPE:
        return None
    if master is not None and (master in leaf.below or master in masters_below):
        return "it is the master of a farm that leads back to this one's own master"
    if _least_depth(leaf) > MAX_DEPTH:
        return f"more than {MAX_DEPTH} farms lie one below another there"
    return None


def find_loop(farms: Mapping[T, Collection[T]]) -> tuple[T, ...] | None:
    """Return the farms around a loop, in order, with the first farm again at the end; None without a loop.

    `farms`: the farms directly below each farm. A farm that is no key has no farm below itself.
    """
    finished: set[T] = set()
    for start in farms:
        path: dict[T, Iterable[T]] = {}  # the farms from the start to `farm`, each with the farms below left to try
        farm: T | None = start
        while farm is not None:
            if farm not in finished and farm not in path:
                path[farm] = iter(farms.get(farm, ()))
            elif farm in path:
                names = list(path)
                return (*names[names.index(farm) :], farm)
            farm = None
            while path and farm is None:
                deepest = next(reversed(path))
                farm = next(iter(path[deepest]), None)
                if farm is None:
                    finished.add(deepest)
                    del path[deepest]
    return None


def chain_length(farms: Mapping[T, Collection[T]]) -> int:
    """Return the length of the longest chain of farms, without the topmost farm. `farms` must have no loop."""
    depths: dict[T, int] = {}

    def depth_of(farm: T) -> int:
        if farm not in depths:
            depths[farm] = max((1 + depth_of(each) for each in farms.get(farm, ())), default=0)
        return depths[farm]

    return max((depth_of(farm) for farm in farms), default=0)


def _nested_leaves(records: Iterable[StatusRecord]) -> Iterable[Leaf]:
    return (leaf for record in records for leaf in record.leaves if leaf.type == META_TYPE)


def _least_depth(leaf: Leaf) -> int:
    """Return the least depth that the leaf must have: the record may tell no depth, or too small a depth."""
    return max(leaf.depth or 0, 2 if leaf.below else 1)
