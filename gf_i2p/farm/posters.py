"""Those who post status records: the servers, and members that only serve. What each has said, and how it kept up.

Members that only serve have no vote, and there may be thousands of them. Their clocks do not count for farm time, and
they accuse nobody.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Self

from gf_i2p.farm.damping import Health
from gf_i2p.farm.parameters import Parameters
from gf_i2p.farm.record.destinations import Leaf
from gf_i2p.farm.record.status_record import FIRST_LEAF_MEMBER_ID, StatusRecord
from gf_i2p.farm.strict_json import MAX_DATE_MS, RecordError, a_hash, text, whole
from gf_i2p.netdb.encoding import to_base64

MAX_PAST: Final = 512
"""Leaves of one poster that are remembered; those that it names no more are the first to be forgotten."""


@dataclass(slots=True)
class Poster:
    """Who posts. Times are of the farm's stopwatch (`clock.Clock.passed_ms`), in ms."""

    value: bytes
    """Its newest record as it stands in the log: a newer version may read more in it."""
    record: StatusRecord
    index: int
    """Where that stands in the log."""
    heard_ms: int
    """When it was committed."""
    accused_ms: int | None = None
    """Since when a server says that it hears nothing of this one; None: nobody does."""
    past: dict[bytes, Health] = field(default_factory=dict)
    """How its leaves have kept up; the order is that in which they came."""
    leaves: dict[bytes, Leaf] = field(init=False)
    """Those of its newest record, each once."""

    def __post_init__(self) -> None:
        self.leaves = _leaves(self.record)

    def take(self, value: bytes, record: StatusRecord, index: int, now_ms: int, parameters: Parameters) -> None:
        """Go on with a newer record, that is committed now."""
        if self.is_silent(now_ms, parameters) or (
            self.accused_ms is not None and now_ms - self.accused_ms >= parameters.leaf_down_ms
        ):
            for health in self.past.values():
                health.interrupt(now_ms, parameters)
        self.value, self.record, self.index, self.heard_ms, self.accused_ms = value, record, index, now_ms, None
        self.leaves = _leaves(record)
        self.look(now_ms, parameters)

    def look(self, now_ms: int, parameters: Parameters) -> None:
        """Take in what the newest record says of leaves."""
        for hash_, leaf in self.leaves.items():
            up = leaf.up and self.record.router_up
            health = self.past.get(hash_)
            if health is not None:
                if health.up != up:
                    health.report(now_ms, parameters, up=up)
            else:
                self.past[hash_] = Health(up, now_ms, proven=up)
        if len(self.past) == len(self.leaves):
            return
        unnamed = [hash_ for hash_ in self.past if hash_ not in self.leaves]
        for hash_ in unnamed:
            self.past[hash_].report(now_ms, parameters, up=False)
        most = max(MAX_PAST - len(self.leaves), 0)
        for place, hash_ in enumerate(reversed(unnamed)):
            if place >= most or now_ms - self.past[hash_].since_ms > parameters.flap_ms:
                del self.past[hash_]

    def is_silent(self, now_ms: int, parameters: Parameters) -> bool:
        """Whether its newest record was committed too long ago."""
        return now_ms - self.heard_ms > parameters.fresh_ms

    def is_good(self, hash_: bytes, now_ms: int, parameters: Parameters) -> bool:
        """Whether this leaf is up, as far as this poster knows and is known to live."""
        health = self.past.get(hash_)
        return health is not None and health.up and self.accused_ms is None and not self.is_silent(now_ms, parameters)

    def waits_ms(self, hash_: bytes, now_ms: int, parameters: Parameters) -> int | None:
        """Return how much longer this leaf must stay up to be listed; None: it is not up."""
        if not self.is_good(hash_, now_ms, parameters):
            return None
        return self.past[hash_].waits_ms(now_ms, parameters)

    def out_ms(self, hash_: bytes, parameters: Parameters) -> int:
        """Return when this leaf, if listed, is to be taken out, should nothing more be heard."""
        health = self.past.get(hash_)
        if health is None:
            return 0
        if not health.up:
            return health.out_ms(parameters)
        # While it is up it was well when its poster was last heard: the time to be silent is long enough to be sure.
        silent = self.silent_ms(parameters)
        return silent if self.accused_ms is None else min(silent, self.accused_ms + parameters.leaf_down_ms)

    def silent_ms(self, parameters: Parameters) -> int:
        """Return when its leaves, up when it was last heard, are to be taken out, should nothing more be heard."""
        return self.heard_ms + max(parameters.fresh_ms, parameters.leaf_down_ms) + 1

    def encode(self) -> dict[str, Any]:
        """Give it for a snapshot."""
        return {
            "value": self.value.decode(),
            "index": self.index,
            "heard": self.heard_ms,
            "accused": self.accused_ms,
            "past": [[to_base64(hash_), *health.encode()] for hash_, health in self.past.items()],
        }

    @classmethod
    def parse(cls, found: Mapping[str, Any]) -> Self:
        """Read that of a snapshot. Raises `RecordError`, or what a wrong shape leads to."""
        value = text(found, "value").encode()
        made = cls(
            value,
            StatusRecord.parse(value),
            whole(found, "index", MAX_DATE_MS),
            whole(found, "heard", MAX_DATE_MS),
            None if found["accused"] is None else whole(found, "accused", MAX_DATE_MS),
        )
        for hash_, *health in found["past"]:
            made.past[a_hash(hash_, "a leaf")] = Health.parse(health)
        return made


class Posters:
    """All of them, by id; and by leaf, who has named it, and what servers say who have tried to reach it."""

    def __init__(self) -> None:
        self.by_id: dict[int, Poster] = {}
        """In the order in which they were last heard, the newest last."""
        self._holders: dict[bytes, set[int]] = {}
        self._seen: dict[bytes, dict[int, bool]] = {}

    def __iter__(self) -> Iterator[tuple[int, Poster]]:
        """Go through them by their ids, servers first."""
        return iter(sorted(self.by_id.items()))

    def take(
        self, value: bytes, record: StatusRecord, index: int, now_ms: int, parameters: Parameters, *, judges: bool
    ) -> Poster:
        """Take in a record. `judges`: whether what it says of others' leaves counts."""
        poster = self.by_id.pop(record.id, None)
        before = self._names(poster)
        if poster is None:
            poster = Poster(value, record, index, now_ms)
            poster.look(now_ms, parameters)
        else:
            if judges:
                self._unsee(record.id, poster)
            poster.take(value, record, index, now_ms, parameters)
        self.by_id[record.id] = poster
        if before != tuple(poster.past):
            self._follow(record.id, before, poster.past.keys())
        if judges:
            self._see(record.id, poster)
        return poster

    def remove(self, poster_id: int) -> None:
        """Forget one, and all that it has said."""
        poster = self.by_id.pop(poster_id, None)
        if poster is not None:
            self._follow(poster_id, poster.past.keys(), ())
            self._unsee(poster_id, poster)

    def holders(self, hash_: bytes) -> list[tuple[int, Poster]]:
        """Return who has named this leaf, by their ids."""
        holders = self._holders.get(hash_, ())
        return [(each, self.by_id[each]) for each in (sorted(holders) if len(holders) > 1 else holders)]

    @property
    def are_judged(self) -> bool:
        """Whether a server says of any leaf whether it has reached it."""
        return bool(self._seen)

    def out_ms(self, hash_: bytes, parameters: Parameters) -> int:
        """Return when a leaf, if listed, is to be taken out should nothing more be heard of it; 0: nobody names it."""
        found = 0
        for each in self._holders.get(hash_, ()):
            found = max(found, self.by_id[each].out_ms(hash_, parameters))
        return found

    def seen(self, hash_: bytes, owner: int, now_ms: int, parameters: Parameters) -> tuple[int, int]:
        """Return by how many servers a leaf was reached, and was not; its owner's own word does not count."""
        judged = self._seen.get(hash_)
        if judged is None:
            return 0, 0
        found = [
            reached
            for server, reached in judged.items()
            if server != owner and not self.by_id[server].is_silent(now_ms, parameters)
        ]
        return sum(found), len(found) - sum(found)

    def encode(self) -> list[dict[str, Any]]:
        """Give them for a snapshot, in their order."""
        return [poster.encode() for poster in self.by_id.values()]

    @classmethod
    def parse(cls, found: Sequence[Mapping[str, Any]], judges: Iterable[int]) -> Self:
        """Read those of a snapshot. Raises `RecordError`, or what a wrong shape leads to."""
        made = cls()
        servers = frozenset(judges)
        for each in found:
            poster = Poster.parse(each)
            poster_id = poster.record.id
            if poster_id in made.by_id:
                raise RecordError(f"it has two records of {poster_id}")
            made.by_id[poster_id] = poster
            made._follow(poster_id, (), poster.past.keys())
            if poster_id in servers:
                made._see(poster_id, poster)
        return made

    @staticmethod
    def _names(poster: Poster | None) -> tuple[bytes, ...]:
        return () if poster is None else tuple(poster.past)

    def _follow(self, poster_id: int, before: Iterable[bytes], now: Iterable[bytes]) -> None:
        for hash_ in set(before).difference(now):
            holders = self._holders[hash_]
            holders.discard(poster_id)
            if not holders:
                del self._holders[hash_]
        for hash_ in now:
            self._holders.setdefault(hash_, set()).add(poster_id)

    def _see(self, server: int, poster: Poster) -> None:
        for each in poster.record.remote_destinations:
            self._seen.setdefault(each.hash, {})[server] = each.reachable

    def _unsee(self, server: int, poster: Poster) -> None:
        for each in poster.record.remote_destinations:
            judged = self._seen.get(each.hash)
            if judged is not None:
                judged.pop(server, None)
                if not judged:
                    del self._seen[each.hash]


def _leaves(record: StatusRecord) -> dict[bytes, Leaf]:
    """Give each leaf once: up, when it is named as up anywhere."""
    found: dict[bytes, Leaf] = {}
    for leaf in record.leaves:
        if leaf.hash not in found or (leaf.up and not found[leaf.hash].up):
            found[leaf.hash] = leaf
    return found


MAX_LEAF_MEMBERS: Final = 4096
MAX_LEAF_MEMBER_BYTES: Final = 4096
"""Of a member's record: all of them stand in each snapshot."""
FORGOTTEN_MS: Final = 86_400_000
"""A member that has posted nothing for so long, while the farm was at work, is forgotten."""


def objection(record: StatusRecord, size: int, known: Collection[int]) -> str | None:
    """Say why a record that is no server's does not count, or None. `known`: the members so far; `size`: bytes."""
    if record.id < FIRST_LEAF_MEMBER_ID:
        return f"{record.id} is no server of this farm"
    if size > MAX_LEAF_MEMBER_BYTES:
        return f"a record of a member has up to {MAX_LEAF_MEMBER_BYTES} bytes, not {size}"
    if record.id not in known and len(known) >= MAX_LEAF_MEMBERS:
        return f"there are {MAX_LEAF_MEMBERS} members already"
    return None


def long_silent(posters: Posters, members: Collection[int], now_ms: int) -> list[int]:
    """Return the members that are to be forgotten. Quick: the longest silent stand first."""
    found: list[int] = []
    for member in members:
        if now_ms - posters.by_id[member].heard_ms <= FORGOTTEN_MS:
            break
        found.append(member)
    return found
