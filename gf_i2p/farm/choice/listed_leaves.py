"""Which leaves the published set lists, and at what cost.

First every poster gets one leaf, then every poster a second leaf, and so on. So no poster's leaves crowd out the leaves
of other posters. A listed leaf stays while the leaf is well (`damping`), so the set changes seldom. Times are of the
farm's stopwatch, in ms.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, Self

from gf_i2p.farm.admin_entries import Administration
from gf_i2p.farm.choice import cost, nested_farms, tree
from gf_i2p.farm.parameters import Parameters
from gf_i2p.farm.posters import Poster, Posters
from gf_i2p.farm.record.destinations import META_TYPE, Leaf
from gf_i2p.farm.record.status_record import FIRST_LEAF_MEMBER_ID
from gf_i2p.farm.strict_json import MAX_DATE_MS, a_hash, whole
from gf_i2p.netdb.encoding import to_base64

BURST: Final = 4
"""Most changes in a row without `republish_min_ms` between them: so a starting farm soon lists its leaves."""
_LOOK_MS: Final = 1000
"""Least time between two searches for listed leaves that must be dropped: each search goes through all leaves."""
CLEARLY: Final = 64
"""How much less another leaf must cost to replace a listed leaf when the set has no room for both."""


@dataclass(slots=True)
class Listed:
    """A listed leaf."""

    owner: int
    """Id of the server or member whose record names the leaf."""
    type: int
    cost: int
    place: int
    """The leaf's place, see `tree`."""


@dataclass(slots=True)  # not frozen: one is made for every entry
class Field:
    """All that the choice of leaves depends on, at one time."""

    posters: Posters
    administration: Administration
    master: bytes | None
    """Hash of the master; None: no server tells the master."""
    now_ms: int
    parameters: Parameters
    """The farm's parameters."""

    def objection(self, leaf: Leaf) -> str | None:
        """Say why a leaf must not be listed, even while the leaf is up; None: the leaf may be listed."""
        made = self.administration.excluded.get(leaf.hash)
        if made is not None:
            return f"{made.by} has excluded it" + ("" if made.reason is None else f": {made.reason}")
        known = nested_farms.leads_to(leaf, self._below) if leaf.type == META_TYPE else ()
        return nested_farms.objection(leaf, self.master, known)

    def _below(self, master: bytes) -> Iterator[bytes]:
        """Give the masters that servers report below a master. Reports of leaf-only members do not count here."""
        for owner, poster in self.posters.holders(master):
            leaf = poster.leaves.get(master) if owner < FIRST_LEAF_MEMBER_ID else None
            if leaf is not None:
                yield from leaf.below

    def load(self, poster: Poster, owner: int, leaf: Leaf) -> cost.Load:
        """Return the load of a leaf."""
        seen = self.posters.seen(leaf.hash, owner, self.now_ms, self.parameters)
        return cost.load(leaf, poster.record.bandwidth_used, seen)

    def cost(self, poster: Poster, owner: int, leaf: Leaf, current: int | None) -> int:
        """Return the cost of a leaf's entry. `current`: the cost in the present set; None for a new leaf."""
        said = self.administration.costs.get(leaf.hash)
        return cost.reckoned(self.load(poster, owner, leaf), current) if said is None else said

    def out_ms(self, hash_: bytes) -> int:
        """Return when a listed leaf must be dropped, unless a record changes that; 0: no poster names the leaf."""
        return self.posters.out_ms(hash_, self.parameters)


class _Bid(NamedTuple):
    """A leaf that could be listed; lower bids win."""

    turn: int
    """Number of the same owner's leaves that come before this leaf."""
    new: bool
    cost: int
    owner: int
    hash: bytes
    type: int


@dataclass(slots=True)
class Listing:
    """The present set, and the times of its next changes."""

    listed: dict[bytes, Listed] = field(default_factory=dict)
    branched: bool = False
    looked_ms: int = 0
    """When the leaves were last chosen."""
    deadline_ms: int = 0
    """When the next listed leaf must be dropped, unless a record changes that; late by `_LOOK_MS` at most."""
    spent_ms: int = 0
    """Each change moves this time on by `republish_min_ms`, from the present at least. The set changes early, for a new
    leaf, only while this time is no more than (`BURST` - 1) * `republish_min_ms` ahead."""
    exchanged_ms: int = 0
    """When a leaf last replaced a more expensive leaf."""

    def is_due(self, seen: Field, owner: int) -> bool:
        """Whether to choose the leaves anew after a record of `owner`. Quick: checks the leaves of `owner` only."""
        now, parameters = seen.now_ms, seen.parameters
        poster = seen.posters.by_id[owner]
        silent = poster.silent_ms(parameters)
        for hash_, health in poster.past.items():
            if hash_ in self.listed and (not health.up or poster.accused_ms is not None or silent < self.deadline_ms):
                self.deadline_ms = min(self.deadline_ms, seen.out_ms(hash_))
        if now >= self.looked_ms + parameters.republish_min_ms or (self.listed and now >= self.deadline_ms):
            return True
        if len(self.listed) >= tree.room(parameters.tree, parameters.max_entries):
            return False
        if self.listed and self.spent_ms - now > (BURST - 1) * parameters.republish_min_ms:
            return False
        for hash_, leaf in poster.leaves.items():
            if hash_ not in self.listed and seen.objection(leaf) is None:
                waits = poster.waits_ms(hash_, now, parameters)
                if waits == 0 or (waits is not None and not self.listed):
                    return True
        return False

    def look(self, seen: Field) -> None:
        """Choose the listed leaves anew."""
        before = {hash_: (each.owner, each.type, each.cost) for hash_, each in self.listed.items()}
        parameters, now = seen.parameters, seen.now_ms
        bids = self._bids(seen)
        most = tree.room(parameters.tree, parameters.max_entries)
        chosen = self._exchanged(bids, most, seen)
        places = tree.places(
            {hash_: each.place for hash_, each in self.listed.items()}, [bid.hash for bid in chosen], most
        )
        self.listed = {bid.hash: Listed(bid.owner, bid.type, bid.cost, places[bid.hash]) for bid in chosen}
        self.branched = parameters.tree == "tree" and tree.is_branched(
            len(self.listed), parameters.max_entries, before=self.branched
        )
        self.looked_ms = now
        self.deadline_ms = max(min((seen.out_ms(hash_) for hash_ in self.listed), default=0), now + _LOOK_MS)
        if {hash_: (each.owner, each.type, each.cost) for hash_, each in self.listed.items()} != before:
            self.spent_ms = max(self.spent_ms, now) + parameters.republish_min_ms

    def encode(self) -> dict[str, Any]:
        """Give the listing for a snapshot."""
        return {
            "listed": [
                [to_base64(hash_), each.owner, each.type, each.cost, each.place] for hash_, each in self.listed.items()
            ],
            "branched": self.branched,
            "looked": self.looked_ms,
            "deadline": self.deadline_ms,
            "spent": self.spent_ms,
            "exchanged": self.exchanged_ms,
        }

    @classmethod
    def parse(cls, found: Mapping[str, Any]) -> Self:
        """Read the listing of a snapshot. Raises `RecordError`, `KeyError` or the like for wrong data."""
        return cls(
            {
                a_hash(hash_, "a listed leaf"): Listed(int(owner), int(type_), int(cost_), int(place))
                for hash_, owner, type_, cost_, place in found["listed"]
            },
            bool(found["branched"]),
            *(whole(found, name, MAX_DATE_MS) for name in ("looked", "deadline", "spent", "exchanged")),
        )

    def _bids(self, seen: Field) -> list[_Bid]:
        """Give all leaves that could be listed, the best first."""
        kept = list(self._kept(seen, grace=False))
        fresh = list(self._fresh(seen, waiting=False))
        if not kept and not fresh:  # a leaf that goes up and down is better than an empty set
            kept = list(self._kept(seen, grace=True))
            fresh = list(self._fresh(seen, waiting=True))
        turns: Counter[int] = Counter()
        taken: set[bytes] = set()
        bids: list[_Bid] = []
        for new, offers in ((False, kept), (True, fresh)):
            for owner, poster, leaf in offers:
                if leaf.hash not in taken:
                    taken.add(leaf.hash)
                    listed = None if new else self.listed[leaf.hash].cost
                    price = seen.cost(poster, owner, leaf, listed)
                    bids.append(_Bid(turns[owner], new, price, owner, leaf.hash, leaf.type))
                    turns[owner] += 1
        return sorted(bids)

    def _kept(self, seen: Field, *, grace: bool) -> Iterator[tuple[int, Poster, Leaf]]:
        """Give the listed leaves that stay. `grace`: a restless leaf may be down for as long as any other leaf."""
        now, parameters = seen.now_ms, seen.parameters
        for hash_, listed in self.listed.items():
            best: tuple[tuple[bool, bool, int], int, Poster] | None = None
            holders = seen.posters.holders(hash_)
            for owner, poster in holders:
                out = poster.out_ms(hash_, parameters)
                if grace and not poster.past[hash_].up:
                    out = poster.past[hash_].since_ms + parameters.leaf_down_ms
                if out <= now:
                    continue
                rank = (len(holders) > 1 and poster.is_good(hash_, now, parameters), owner == listed.owner, out)
                if best is None or rank > best[0]:
                    best = rank, owner, poster
            if best is not None:
                _, owner, poster = best
                leaf = poster.leaves.get(hash_) or Leaf(hash_, up=False, type=listed.type)
                if seen.objection(leaf) is None:
                    yield owner, poster, leaf

    def _fresh(self, seen: Field, *, waiting: bool) -> Iterator[tuple[int, Poster, Leaf]]:
        """Give the leaves that could be added. `waiting`: also leaves that must stay up for longer first."""
        for owner, poster in seen.posters:
            if poster.leaves.keys() <= self.listed.keys():
                continue
            for hash_, leaf in poster.leaves.items():
                if hash_ in self.listed:
                    continue
                waits = poster.waits_ms(hash_, seen.now_ms, seen.parameters)
                if (waits == 0 or (waiting and waits is not None)) and seen.objection(leaf) is None:
                    yield owner, poster, leaf

    def _exchanged(self, bids: Sequence[_Bid], most: int, seen: Field) -> list[_Bid]:
        """Choose the best `most` bids. Now and then a clearly cheaper leaf replaces a listed one."""
        chosen, others = list(bids[:most]), [bid for bid in bids[most:] if bid.new]
        if not others or seen.now_ms - self.exchanged_ms < seen.parameters.hold_ms:
            return chosen
        worst = max(
            (bid for bid in chosen if not bid.new), key=lambda bid: (bid.turn, bid.cost, bid.hash), default=None
        )
        best = min(others, key=lambda bid: (bid.cost, bid.turn, bid.owner, bid.hash))
        if worst is not None and best.turn <= worst.turn and worst.cost - best.cost >= CLEARLY:
            self.exchanged_ms = seen.now_ms
            chosen[chosen.index(worst)] = best
        return chosen


def why_not_listed(seen: Field, listing: Listing, owner: int, poster: Poster, leaf: Leaf) -> str:
    """Say why a named leaf is not listed."""
    objection = seen.objection(leaf)
    if objection is not None:
        return objection
    now, parameters = seen.now_ms, seen.parameters
    health = poster.past.get(leaf.hash)
    if health is None or not health.up:
        return f"its router is down ({owner})" if not poster.record.router_up else f"{owner} says that it is down"
    if poster.is_silent(now, parameters):
        return f"nothing was heard of {owner} for {(now - poster.heard_ms) / 1000:.0f} s"
    if poster.accused_ms is not None:
        return f"a server hears nothing of {owner}"
    waits = health.waits_ms(now, parameters)
    if waits:
        times = health.recent_flaps(now, parameters)
        return f"it must be up for {waits / 1000:.0f} s more: it has gone down {times} times lately"
    if len(listing.listed) >= tree.room(parameters.tree, parameters.max_entries):
        return f"there is no room: {len(listing.listed)} others are listed"
    return "it comes with the next set"
