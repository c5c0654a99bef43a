"""Choice of the leaves that the published set lists, and of their costs.

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
from gf_i2p.farm.record.destinations import LEAF_TYPE, META_TYPE, Leaf
from gf_i2p.farm.record.remote_sensing import MAX_SERVER_ID
from gf_i2p.farm.record.status_record import FIRST_LEAF_MEMBER_ID
from gf_i2p.farm.strict_json import MAX_DATE_MS, RecordError, a_hash, a_list, integer
from gf_i2p.netdb.encoding import to_base64
from gf_i2p.netdb.limits import MAX_META_ENTRIES

BURST: Final = 4
"""Most changes in a row without `republish_min_ms` between them: so a starting farm soon lists its leaves."""
_LOOK_MS: Final = 1000
"""Least time between two searches for listed leaves that must be dropped: each search goes through all leaves."""
_MOST_COST: Final = 255
"""Most cost of an entry, which has one byte for the cost."""
_MOST_LISTED: Final = tree.room("tree", MAX_META_ENTRIES)
"""Most listed leaves: the room of the largest tree."""
CLEARLY: Final = 64
"""How much less another leaf must cost to replace a listed leaf when the set has no room for both."""


@dataclass(slots=True)
class Listed:
    """A listed leaf, with its owner, cost and place."""

    owner: int
    """Id of the server or member whose record names the leaf."""
    type: int
    cost: int
    place: int
    """The leaf's place, see `tree`."""

    @classmethod
    def parse(cls, numbers: Sequence[Any]) -> Self:
        """Read the numbers of a snapshot. Raises `RecordError`, or `ValueError` for more or fewer numbers."""
        owner, type_, cost_, place = numbers
        if type(type_) is not int or type_ not in {LEAF_TYPE, META_TYPE}:
            raise RecordError(f"the type of a listed leaf is {LEAF_TYPE} or {META_TYPE}")
        return cls(
            integer({"owner": owner}, "owner", MAX_SERVER_ID),
            type_,
            integer({"cost": cost_}, "cost", _MOST_COST),
            integer({"place": place}, "place", _MOST_LISTED - 1),
        )


@dataclass(slots=True)  # not frozen: one is made for every entry
class LeafInputs:
    """All that the choice of leaves depends on, at one time."""

    posters: Posters
    administration: Administration
    master: bytes | None
    """Hash of the master; None: no server tells the master."""
    now_ms: int
    parameters: Parameters
    """The farm's parameters."""

    def objection(self, leaf: Leaf) -> str | None:
        """Return why a leaf must not be listed, even while the leaf is up; None: the leaf may be listed."""
        exclusion = self.administration.excluded.get(leaf.hash)
        if exclusion is not None:
            if exclusion.reason is None:
                return f"{exclusion.by} has excluded it"
            return f"{exclusion.by} has excluded it: {exclusion.reason}"
        masters_below = nested_farms.leads_to(leaf, self._masters_below) if leaf.type == META_TYPE else ()
        return nested_farms.objection(leaf, self.master, masters_below)

    def _masters_below(self, master: bytes) -> Iterator[bytes]:
        """Return the masters that servers report below a master. Reports of leaf members do not count here."""
        for owner, poster in self.posters.holders(master):
            leaf = poster.leaves.get(master) if owner < FIRST_LEAF_MEMBER_ID else None
            if leaf is not None:
                yield from leaf.below

    def load(self, poster: Poster, owner: int, leaf: Leaf) -> cost.LeafLoad:
        """Return the load of a leaf."""
        reach_counts = self.posters.reach_counts(leaf.hash, owner, self.now_ms, self.parameters)
        return cost.leaf_load(leaf, poster.record.bandwidth_used, reach_counts)

    def cost(self, poster: Poster, owner: int, leaf: Leaf, current_cost: int | None) -> int:
        """Return the cost of a leaf's entry. `current_cost`: the cost in the present set; None for a new leaf."""
        fixed_cost = self.administration.costs.get(leaf.hash)
        return cost.entry_cost(self.load(poster, owner, leaf), current_cost) if fixed_cost is None else fixed_cost

    def out_ms(self, hash_: bytes) -> int:
        """Return the time when a listed leaf must be dropped, unless a record saves the leaf; 0: no poster names it."""
        return self.posters.out_ms(hash_, self.parameters)


class _Bid(NamedTuple):
    """A leaf that could be listed; lower bids win."""

    turn: int
    """Number of the same owner's leaves that come before this leaf."""
    is_new: bool
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
    """Time when the leaves were last chosen, by the farm's stopwatch."""
    deadline_ms: int = 0
    """Time when the next listed leaf must be dropped, unless a record saves the leaf; late by `_LOOK_MS` at most."""
    spent_ms: int = 0
    """Time up to which earlier changes have used up the set's changes, one in `republish_min_ms`. Each change adds
    `republish_min_ms` to this time, or to the present if this time is over. The set changes early, for a new leaf, only
    while this time is no more than (`BURST` - 1) * `republish_min_ms` ahead of the present."""
    exchanged_ms: int = 0
    """Time when a leaf last replaced a more expensive leaf."""

    def is_due(self, inputs: LeafInputs, owner: int) -> bool:
        """Whether to choose the leaves anew after a record of `owner`. Quick: checks the leaves of `owner` only."""
        now, parameters = inputs.now_ms, inputs.parameters
        poster = inputs.posters.by_id[owner]
        silent_ms = poster.silent_ms(parameters)
        for hash_, health in poster.leaf_health.items():
            if hash_ in self.listed and (
                not health.up or poster.accused_ms is not None or silent_ms < self.deadline_ms
            ):
                self.deadline_ms = min(self.deadline_ms, inputs.out_ms(hash_))
        if now >= self.looked_ms + parameters.republish_min_ms or (self.listed and now >= self.deadline_ms):
            return True
        if len(self.listed) >= tree.room(parameters.tree, parameters.max_entries):
            return False
        if self.listed and self.spent_ms - now > (BURST - 1) * parameters.republish_min_ms:
            return False
        for hash_, leaf in poster.leaves.items():
            if hash_ not in self.listed and inputs.objection(leaf) is None:
                wait_ms = poster.waits_ms(hash_, now, parameters)
                if wait_ms == 0 or (wait_ms is not None and not self.listed):
                    return True
        return False

    def choose(self, inputs: LeafInputs) -> None:
        """Choose the listed leaves anew."""
        old_entries = {hash_: (each.owner, each.type, each.cost) for hash_, each in self.listed.items()}
        parameters, now = inputs.parameters, inputs.now_ms
        bids = self._bids(inputs)
        room = tree.room(parameters.tree, parameters.max_entries)
        winners = self._winning_bids(bids, room, inputs)
        places = tree.places(
            {hash_: each.place for hash_, each in self.listed.items()}, [bid.hash for bid in winners], room
        )
        self.listed = {bid.hash: Listed(bid.owner, bid.type, bid.cost, places[bid.hash]) for bid in winners}
        self.branched = parameters.tree == "tree" and tree.is_branched(
            len(self.listed), parameters.max_entries, was_branched=self.branched
        )
        self.looked_ms = now
        self.deadline_ms = max(min((inputs.out_ms(hash_) for hash_ in self.listed), default=0), now + _LOOK_MS)
        if {hash_: (each.owner, each.type, each.cost) for hash_, each in self.listed.items()} != old_entries:
            self.spent_ms = max(self.spent_ms, now) + parameters.republish_min_ms

    def encode(self) -> dict[str, Any]:
        """Return the listing for a snapshot."""
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
    def parse(cls, snapshot: Mapping[str, Any]) -> Self:
        """Read the listing of a snapshot. Raises `RecordError`, `KeyError` or the like for wrong data."""
        listed = a_list(snapshot, "listed", _MOST_LISTED)
        return cls(
            {a_hash(hash_, "a listed leaf"): Listed.parse(numbers) for hash_, *numbers in listed},
            bool(snapshot["branched"]),
            *(integer(snapshot, name, MAX_DATE_MS) for name in ("looked", "deadline", "spent", "exchanged")),
        )

    def _bids(self, inputs: LeafInputs) -> list[_Bid]:
        """Return all leaves that could be listed, the best first."""
        listed_offers = list(self._listed_offers(inputs, grace=False))
        new_offers = list(self._new_offers(inputs, waiting=False))
        if not listed_offers and not new_offers:  # a leaf that goes up and down is better than an empty set
            listed_offers = list(self._listed_offers(inputs, grace=True))
            new_offers = list(self._new_offers(inputs, waiting=True))
        turns: Counter[int] = Counter()
        hashes: set[bytes] = set()
        bids: list[_Bid] = []
        for is_new, offers in ((False, listed_offers), (True, new_offers)):
            for owner, poster, leaf in offers:
                if leaf.hash not in hashes:
                    hashes.add(leaf.hash)
                    current_cost = None if is_new else self.listed[leaf.hash].cost
                    entry_cost = inputs.cost(poster, owner, leaf, current_cost)
                    bids.append(_Bid(turns[owner], is_new, entry_cost, owner, leaf.hash, leaf.type))
                    turns[owner] += 1
        return sorted(bids)

    def _listed_offers(self, inputs: LeafInputs, *, grace: bool) -> Iterator[tuple[int, Poster, Leaf]]:
        """Yield the listed leaves that may stay, each with its owner's id and poster.

        `grace`: whether a leaf that is down may stay for `unheard_ms`.
        """
        now, parameters = inputs.now_ms, inputs.parameters
        for hash_, listed in self.listed.items():
            best: tuple[tuple[bool, bool, int], int, Poster] | None = None
            holders = inputs.posters.holders(hash_)
            for owner, poster in holders:
                out_ms = poster.out_ms(hash_, parameters)
                if grace and not poster.leaf_health[hash_].up:
                    out_ms = poster.leaf_health[hash_].since_ms + parameters.unheard_ms
                if out_ms <= now:
                    continue
                rank = (len(holders) > 1 and poster.is_good(hash_, now, parameters), owner == listed.owner, out_ms)
                if best is None or rank > best[0]:
                    best = rank, owner, poster
            if best is not None:
                _, owner, poster = best
                leaf = poster.leaves.get(hash_) or Leaf(hash_, up=False, type=listed.type)
                if inputs.objection(leaf) is None:
                    yield owner, poster, leaf

    def _new_offers(self, inputs: LeafInputs, *, waiting: bool) -> Iterator[tuple[int, Poster, Leaf]]:
        """Yield the leaves that could be added, each with its owner's id and poster.

        `waiting`: whether to yield leaves that are up, but not yet for long enough, too.
        """
        for owner, poster in inputs.posters:
            if poster.leaves.keys() <= self.listed.keys():
                continue
            for hash_, leaf in poster.leaves.items():
                if hash_ in self.listed:
                    continue
                wait_ms = poster.waits_ms(hash_, inputs.now_ms, inputs.parameters)
                if (wait_ms == 0 or (waiting and wait_ms is not None)) and inputs.objection(leaf) is None:
                    yield owner, poster, leaf

    def _winning_bids(self, bids: Sequence[_Bid], room: int, inputs: LeafInputs) -> list[_Bid]:
        """Return the best `room` bids. At most once in `hold_ms`, a clearly cheaper leaf replaces a listed leaf."""
        winners, rivals = list(bids[:room]), [bid for bid in bids[room:] if bid.is_new]
        if not rivals or inputs.now_ms - self.exchanged_ms < inputs.parameters.hold_ms:
            return winners
        worst = max(
            (bid for bid in winners if not bid.is_new), key=lambda bid: (bid.turn, bid.cost, bid.hash), default=None
        )
        best = min(rivals, key=lambda bid: (bid.cost, bid.turn, bid.owner, bid.hash))
        if worst is not None and best.turn <= worst.turn and worst.cost - best.cost >= CLEARLY:
            self.exchanged_ms = inputs.now_ms
            winners[winners.index(worst)] = best
        return winners


def why_not_listed(inputs: LeafInputs, listing: Listing, owner: int, poster: Poster, leaf: Leaf) -> str:
    """Return why a leaf that a poster names is not listed, as a clause for the operator."""
    objection = inputs.objection(leaf)
    if objection is not None:
        return objection
    now, parameters = inputs.now_ms, inputs.parameters
    health = poster.leaf_health.get(leaf.hash)
    if health is None or not health.up:
        return f"its router is down ({owner})" if not poster.record.router_up else f"{owner} says that it is down"
    if poster.is_silent(now, parameters):
        return f"nothing was heard of {owner} for {(now - poster.heard_ms) / 1000:.0f} s"
    if poster.accused_ms is not None:
        return f"a server no longer hears {owner}"
    wait_ms = health.waits_ms(now, parameters)
    if wait_ms:
        flaps = health.recent_flaps(now, parameters)
        return f"it must be up for {wait_ms / 1000:.0f} s more: it has gone down {flaps} times lately"
    if len(listing.listed) >= tree.room(parameters.tree, parameters.max_entries):
        return f"there is no room: {len(listing.listed)} others are listed"
    return "it comes with the next set"
