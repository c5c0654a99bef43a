"""Posters of status records: the servers and the leaf-only members, with their newest records and leaves.

Leaf-only members have no vote, and there may be thousands of them. Their clocks do not count for farm time, and they
accuse no server.
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
"""Most leaves of one poster that are remembered; leaves that the newest record omits are forgotten first."""


@dataclass(slots=True)
class Poster:
    """A server or leaf-only member. Times are of the farm's stopwatch (`FarmClock.passed_ms`), in ms."""

    value: bytes
    """Bytes of the newest record, as in the log: a newer version may read more fields."""
    record: StatusRecord
    index: int
    """Index of that record in the log."""
    heard_ms: int
    """When that record was committed."""
    accused_ms: int | None = None
    """Since when a server reports that it hears nothing of this poster; None: no server does."""
    past: dict[bytes, Health] = field(default_factory=dict)
    """State of each leaf over time, in the order in which the leaves came."""
    leaves: dict[bytes, Leaf] = field(init=False)
    """The leaves of the newest record, each once."""

    def __post_init__(self) -> None:
        self.leaves = _leaves(self.record)

    def take(self, value: bytes, record: StatusRecord, index: int, now_ms: int, parameters: Parameters) -> None:
        """Replace the record by a newer one, which is committed now."""
        if self.is_silent(now_ms, parameters) or (
            self.accused_ms is not None and now_ms - self.accused_ms >= parameters.leaf_down_ms
        ):
            for health in self.past.values():
                health.interrupt(now_ms, parameters)
        self.value, self.record, self.index, self.heard_ms, self.accused_ms = value, record, index, now_ms, None
        self.leaves = _leaves(record)
        self.look(now_ms, parameters)

    def look(self, now_ms: int, parameters: Parameters) -> None:
        """Take in the leaves of the newest record."""
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
        """Whether the newest record was committed too long ago."""
        return now_ms - self.heard_ms > parameters.fresh_ms

    def is_good(self, hash_: bytes, now_ms: int, parameters: Parameters) -> bool:
        """Whether this leaf is up by the newest record, and the poster is known to live."""
        health = self.past.get(hash_)
        return health is not None and health.up and self.accused_ms is None and not self.is_silent(now_ms, parameters)

    def waits_ms(self, hash_: bytes, now_ms: int, parameters: Parameters) -> int | None:
        """Return for how much longer this leaf must stay up to be listed; None: the leaf is not up."""
        if not self.is_good(hash_, now_ms, parameters):
            return None
        return self.past[hash_].waits_ms(now_ms, parameters)

    def out_ms(self, hash_: bytes, parameters: Parameters) -> int:
        """Return when this leaf, if listed, must be dropped when nothing more is heard."""
        health = self.past.get(hash_)
        if health is None:
            return 0
        if not health.up:
            return health.out_ms(parameters)
        # A leaf that is up was well when its poster was last heard: the time of silence is long enough to be sure.
        silent = self.silent_ms(parameters)
        return silent if self.accused_ms is None else min(silent, self.accused_ms + parameters.leaf_down_ms)

    def silent_ms(self, parameters: Parameters) -> int:
        """Return when the leaves that are up must be dropped when nothing more is heard of their poster."""
        return self.heard_ms + max(parameters.fresh_ms, parameters.leaf_down_ms) + 1

    def encode(self) -> dict[str, Any]:
        """Give the poster for a snapshot."""
        return {
            "value": self.value.decode(),
            "index": self.index,
            "heard": self.heard_ms,
            "accused": self.accused_ms,
            "past": [[to_base64(hash_), *health.encode()] for hash_, health in self.past.items()],
        }

    @classmethod
    def parse(cls, found: Mapping[str, Any]) -> Self:
        """Read a poster of a snapshot. Raises `RecordError`, or whatever error a wrong shape leads to."""
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
    """All posters, by id; by leaf, the posters that name the leaf, and the servers' reports whether they reach it."""

    def __init__(self) -> None:
        self.by_id: dict[int, Poster] = {}
        """The posters by id, in the order in which they were last heard, the newest last."""
        self._holders: dict[bytes, set[int]] = {}
        self._seen: dict[bytes, dict[int, bool]] = {}

    def __iter__(self) -> Iterator[tuple[int, Poster]]:
        """Go through the posters by their ids, servers first."""
        return iter(sorted(self.by_id.items()))

    def take(
        self, value: bytes, record: StatusRecord, index: int, now_ms: int, parameters: Parameters, *, judges: bool
    ) -> Poster:
        """Take in a record. `judges`: whether the record's reports about other posters' leaves count."""
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
        """Forget a poster and its reports."""
        poster = self.by_id.pop(poster_id, None)
        if poster is not None:
            self._follow(poster_id, poster.past.keys(), ())
            self._unsee(poster_id, poster)

    def holders(self, hash_: bytes) -> list[tuple[int, Poster]]:
        """Return the posters that name this leaf, in the order of their ids."""
        holders = self._holders.get(hash_, ())
        return [(each, self.by_id[each]) for each in (sorted(holders) if len(holders) > 1 else holders)]

    @property
    def are_judged(self) -> bool:
        """Whether any server reports whether it has reached a leaf."""
        return bool(self._seen)

    def out_ms(self, hash_: bytes, parameters: Parameters) -> int:
        """Return when a listed leaf must be dropped when nothing more is heard of it; 0: no poster names the leaf."""
        found = 0
        for each in self._holders.get(hash_, ()):
            found = max(found, self.by_id[each].out_ms(hash_, parameters))
        return found

    def seen(self, hash_: bytes, owner: int, now_ms: int, parameters: Parameters) -> tuple[int, int]:
        """Return how many servers reached a leaf, and how many failed; the owner's own report does not count."""
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
        """Give the posters for a snapshot, in their order."""
        return [poster.encode() for poster in self.by_id.values()]

    @classmethod
    def parse(cls, found: Sequence[Mapping[str, Any]], judges: Iterable[int]) -> Self:
        """Read the posters of a snapshot. Raises `RecordError`, or whatever error a wrong shape leads to."""
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
    """Give each leaf once; a leaf that is named twice is up when either is up."""
    found: dict[bytes, Leaf] = {}
    for leaf in record.leaves:
        if leaf.hash not in found or (leaf.up and not found[leaf.hash].up):
            found[leaf.hash] = leaf
    return found


MAX_LEAF_MEMBERS: Final = 4096
MAX_LEAF_MEMBER_BYTES: Final = 4096
"""Of a member's record: all of them stand in each snapshot."""
FORGOTTEN_MS: Final = 86_400_000
"""A member that posts nothing for this long, while the farm is at work, is forgotten."""


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
    """Return the members to forget: each has been silent for more than `FORGOTTEN_MS`.

    `members` must begin with the member that has been silent longest: the search ends at the first one to keep.
    """
    found: list[int] = []
    for member in members:
        if now_ms - posters.by_id[member].heard_ms <= FORGOTTEN_MS:
            break
        found.append(member)
    return found
