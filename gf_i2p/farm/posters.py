"""Posters of status records: the servers and the leaf members, with their newest records and leaves.

Leaf members have no vote, and a farm may have thousands of members. The members' clocks do not count for farm
time, and the members' reports about other servers do not count.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Self

from gf_i2p.farm.damping import Health
from gf_i2p.farm.parameters import Parameters
from gf_i2p.farm.record.destinations import Leaf
from gf_i2p.farm.record.status_record import FIRST_LEAF_MEMBER_ID, StatusRecord
from gf_i2p.farm.strict_json import MAX_DATE_MS, RecordError, a_hash, integer, text
from gf_i2p.netdb.encoding import to_base64

MEMBER_FRESH_MS: Final = 105_000
"""Least time without a record after which a leaf member counts as silent. A member posts every 30 s: a member cannot
read the farm's parameters, and so cannot post more often when `Parameters.fresh_ms` is low."""
MAX_PAST: Final = 512
"""Most leaves of one poster that are remembered. Leaves that the newest record omits are forgotten first."""


@dataclass(slots=True)
class Poster:
    """A server or leaf member. Times are of the farm's stopwatch (`FarmClock.passed_ms`), in ms."""

    value: bytes
    """Bytes of the newest record, as in the log. A snapshot holds these bytes, so a newer version of the program can
    read fields that this version does not know."""
    record: StatusRecord
    index: int
    """Index of that record in the log."""
    heard_ms: int
    """Time when the newest record was committed, by the farm's stopwatch in ms."""
    accused_ms: int | None = None
    """Time when a server first reported that it does not hear this poster; None: no such report is in force."""
    leaf_health: dict[bytes, Health] = field(default_factory=dict)
    """History of each leaf, by hash, in the order in which the poster first named the leaves."""
    leaves: dict[bytes, Leaf] = field(init=False)
    """The leaves of the newest record, by hash."""

    def __post_init__(self) -> None:
        self.leaves = _leaves_by_hash(self.record)

    def take(self, value: bytes, record: StatusRecord, index: int, now_ms: int, parameters: Parameters) -> None:
        """Replace the record by a newer record, which was committed at `now_ms`.

        A long silence of the poster, or a long accusation, counts as a flap of each leaf.
        """
        if self.is_silent(now_ms, parameters) or (
            self.accused_ms is not None and now_ms - self.accused_ms >= parameters.unheard_ms
        ):
            for health in self.leaf_health.values():
                health.interrupt(now_ms, parameters)
        self.value, self.record, self.index, self.heard_ms, self.accused_ms = value, record, index, now_ms, None
        self.leaves = _leaves_by_hash(record)
        self.update_histories(now_ms, parameters)

    def update_histories(self, now_ms: int, parameters: Parameters) -> None:
        """Update the leaves' histories by the newest record. A leaf that the record omits counts as down.

        Forgets an omitted leaf that went down more than `flap_ms` ago, or for which `MAX_PAST` leaves no room.
        """
        for hash_, leaf in self.leaves.items():
            up = leaf.up and self.record.router_up
            health = self.leaf_health.get(hash_)
            if health is not None:
                if health.up != up:
                    health.report(now_ms, parameters, up=up)
            else:
                self.leaf_health[hash_] = Health(up, now_ms, proven=up)
        if len(self.leaf_health) == len(self.leaves):
            return
        omitted = [hash_ for hash_ in self.leaf_health if hash_ not in self.leaves]
        for hash_ in omitted:
            self.leaf_health[hash_].report(now_ms, parameters, up=False)
        room = max(MAX_PAST - len(self.leaves), 0)
        for place, hash_ in enumerate(reversed(omitted)):
            if place >= room or now_ms - self.leaf_health[hash_].since_ms > parameters.flap_ms:
                del self.leaf_health[hash_]

    def is_silent(self, now_ms: int, parameters: Parameters) -> bool:
        """Whether the newest record was committed too long ago."""
        return now_ms - self.heard_ms > self._fresh_ms(parameters)

    def is_good(self, hash_: bytes, now_ms: int, parameters: Parameters) -> bool:
        """Whether this leaf is up by the newest record, and the poster is neither silent nor accused."""
        health = self.leaf_health.get(hash_)
        return health is not None and health.up and self.accused_ms is None and not self.is_silent(now_ms, parameters)

    def waits_ms(self, hash_: bytes, now_ms: int, parameters: Parameters) -> int | None:
        """Return for how many more ms this leaf must stay up to be listed; None unless `is_good`."""
        if not self.is_good(hash_, now_ms, parameters):
            return None
        return self.leaf_health[hash_].waits_ms(now_ms, parameters)

    def out_ms(self, hash_: bytes, parameters: Parameters) -> int:
        """Return the time when a listed leaf must be dropped, unless a record saves the leaf; 0 for an unknown leaf."""
        health = self.leaf_health.get(hash_)
        if health is None:
            return 0
        if not health.up:
            leaf = self.leaves.get(hash_)
            return health.out_ms(parameters, told=leaf is not None and not leaf.up)
        # The leaf was up when its poster was last heard. So the leaf falls only by the poster's silence or accusation.
        silent = self.silent_ms(parameters)
        return silent if self.accused_ms is None else min(silent, self.accused_ms + parameters.unheard_ms)

    def silent_ms(self, parameters: Parameters) -> int:
        """Return the time when the leaves that are up must be dropped, unless the poster posts again."""
        return self.heard_ms + max(self._fresh_ms(parameters), parameters.unheard_ms) + 1

    def _fresh_ms(self, parameters: Parameters) -> int:
        """Return for how many ms the newest record counts."""
        is_member = self.record.id >= FIRST_LEAF_MEMBER_ID
        return max(parameters.fresh_ms, MEMBER_FRESH_MS) if is_member else parameters.fresh_ms

    def encode(self) -> dict[str, Any]:
        """Return the poster as JSON values, for a snapshot of the farm's state."""
        return {
            "value": self.value.decode(),
            "index": self.index,
            "heard": self.heard_ms,
            "accused": self.accused_ms,
            "past": [[to_base64(hash_), *health.encode()] for hash_, health in self.leaf_health.items()],
        }

    @classmethod
    def parse(cls, snapshot: Mapping[str, Any]) -> Self:
        """Read a poster of a snapshot. Wrong data raise `RecordError` or another exception."""
        value = text(snapshot, "value").encode()
        poster = cls(
            value,
            StatusRecord.parse(value),
            integer(snapshot, "index", MAX_DATE_MS),
            integer(snapshot, "heard", MAX_DATE_MS),
            None if snapshot["accused"] is None else integer(snapshot, "accused", MAX_DATE_MS),
        )
        for hash_, *health in snapshot["past"]:
            poster.leaf_health[a_hash(hash_, "a leaf")] = Health.parse(health)
        return poster


class Posters:
    """All posters, by id. Also, for each leaf: the posters that name the leaf, and the reports about the leaf.

    Such a report comes from a server that tried to reach the leaf, and says whether the server has reached the leaf.
    """

    def __init__(self) -> None:
        self.by_id: dict[int, Poster] = {}
        """The posters by id, in the order in which they were last heard, the newest last."""
        self._holders: dict[bytes, set[int]] = {}
        self._reach_reports: dict[bytes, dict[int, bool]] = {}

    def __iter__(self) -> Iterator[tuple[int, Poster]]:
        """Go through the posters by their ids, servers first."""
        return iter(sorted(self.by_id.items()))

    def take(
        self, value: bytes, record: StatusRecord, index: int, now_ms: int, parameters: Parameters, *, is_server: bool
    ) -> Poster:
        """Take in a record that was committed at `now_ms`, and return its poster.

        `is_server`: whether the poster is a server. Only a server's reports about other servers' leaves count.
        """
        poster = self.by_id.pop(record.id, None)
        old_leaves = self._known_leaves(poster)
        if poster is None:
            poster = Poster(value, record, index, now_ms)
            poster.update_histories(now_ms, parameters)
        else:
            if is_server:
                self._remove_reports(record.id, poster)
            poster.take(value, record, index, now_ms, parameters)
        self.by_id[record.id] = poster
        if old_leaves != tuple(poster.leaf_health):
            self._index_holders(record.id, old_leaves, poster.leaf_health.keys())
        if is_server:
            self._add_reports(record.id, poster)
        return poster

    def remove(self, poster_id: int) -> None:
        """Forget a poster and its reports."""
        poster = self.by_id.pop(poster_id, None)
        if poster is not None:
            self._index_holders(poster_id, poster.leaf_health.keys(), ())
            self._remove_reports(poster_id, poster)

    def holders(self, hash_: bytes) -> list[tuple[int, Poster]]:
        """Return the posters that name this leaf or have named it lately (`leaf_health`), in the order of the ids."""
        holders = self._holders.get(hash_, ())
        return [(each, self.by_id[each]) for each in (sorted(holders) if len(holders) > 1 else holders)]

    @property
    def has_reach_reports(self) -> bool:
        """Whether the newest record of any server reports a try to reach a leaf."""
        return bool(self._reach_reports)

    def out_ms(self, hash_: bytes, parameters: Parameters) -> int:
        """Return the time when a listed leaf must be dropped, unless a record saves the leaf; 0: no poster names it."""
        latest_ms = 0
        for each in self._holders.get(hash_, ()):
            latest_ms = max(latest_ms, self.by_id[each].out_ms(hash_, parameters))
        return latest_ms

    def reach_counts(self, hash_: bytes, owner: int, now_ms: int, parameters: Parameters) -> tuple[int, int]:
        """Return how many servers reached a leaf, and how many failed to; the owner and silent servers do not count."""
        reports = self._reach_reports.get(hash_)
        if reports is None:
            return 0, 0
        results = [
            reached
            for server, reached in reports.items()
            if server != owner and not self.by_id[server].is_silent(now_ms, parameters)
        ]
        return sum(results), len(results) - sum(results)

    def encode(self) -> list[dict[str, Any]]:
        """Return the posters as JSON values, for a snapshot of the farm's state, in the order of `by_id`."""
        return [poster.encode() for poster in self.by_id.values()]

    @classmethod
    def parse(cls, snapshot: Sequence[Mapping[str, Any]], servers: Iterable[int]) -> Self:
        """Read the posters of a snapshot. `servers`: the ids of the servers.

        Wrong data raise `RecordError` or another exception.
        """
        posters = cls()
        server_ids = frozenset(servers)
        for fields in snapshot:
            poster = Poster.parse(fields)
            poster_id = poster.record.id
            if poster_id in posters.by_id:
                raise RecordError(f"two records have the id {poster_id}")
            posters.by_id[poster_id] = poster
            posters._index_holders(poster_id, (), poster.leaf_health.keys())
            if poster_id in server_ids:
                posters._add_reports(poster_id, poster)
        return posters

    @staticmethod
    def _known_leaves(poster: Poster | None) -> tuple[bytes, ...]:
        return () if poster is None else tuple(poster.leaf_health)

    def _index_holders(self, poster_id: int, old_leaves: Iterable[bytes], new_leaves: Iterable[bytes]) -> None:
        for hash_ in set(old_leaves).difference(new_leaves):
            holders = self._holders[hash_]
            holders.discard(poster_id)
            if not holders:
                del self._holders[hash_]
        for hash_ in new_leaves:
            self._holders.setdefault(hash_, set()).add(poster_id)

    def _add_reports(self, server: int, poster: Poster) -> None:
        for result in poster.record.remote_destinations:
            self._reach_reports.setdefault(result.hash, {})[server] = result.reachable

    def _remove_reports(self, server: int, poster: Poster) -> None:
        for result in poster.record.remote_destinations:
            reports = self._reach_reports.get(result.hash)
            if reports is not None:
                reports.pop(server, None)
                if not reports:
                    del self._reach_reports[result.hash]


def _leaves_by_hash(record: StatusRecord) -> dict[bytes, Leaf]:
    """Return the leaves of a record by hash. A leaf that the record names twice is up if one of the two is up."""
    by_hash: dict[bytes, Leaf] = {}
    for leaf in record.leaves:
        if leaf.hash not in by_hash or (leaf.up and not by_hash[leaf.hash].up):
            by_hash[leaf.hash] = leaf
    return by_hash


MAX_LEAF_MEMBERS: Final = 4096
MAX_LEAF_MEMBER_BYTES: Final = 4096
"""Most bytes of a member's record: each snapshot holds all members' records."""
FORGOTTEN_MS: Final = 86_400_000
"""A member that posts nothing for this long, by the stopwatch, is forgotten."""


def objection(record: StatusRecord, size: int, members: Collection[int]) -> str | None:
    """Return why the farm ignores a record from a poster that is no server, as a clause; None: the record counts.

    `size`: of the record, in bytes. `members`: the ids of the members so far.
    """
    if record.id < FIRST_LEAF_MEMBER_ID:
        return f"{record.id} is no server of this farm"
    if size > MAX_LEAF_MEMBER_BYTES:
        return f"a record of a member has up to {MAX_LEAF_MEMBER_BYTES} bytes, not {size}"
    if record.id not in members and len(members) >= MAX_LEAF_MEMBERS:
        return f"the farm has {MAX_LEAF_MEMBERS} members already, the most possible"
    return None


def long_silent(posters: Posters, members: Collection[int], now_ms: int) -> list[int]:
    """Return the members to forget: each has been silent for more than `FORGOTTEN_MS`.

    `members` must begin with the member that has been silent longest: the search ends at the first one to keep.
    """
    silent: list[int] = []
    for member in members:
        if now_ms - posters.by_id[member].heard_ms <= FORGOTTEN_MS:
            break
        silent.append(member)
    return silent
