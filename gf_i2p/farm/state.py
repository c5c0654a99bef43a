"""State of a farm by its log: servers, members, the newest record of each, and the choice of publisher and leaves.

All servers that have applied the same entries have the same state. The work for one record does not grow with the
number of members. Work that grows with that number is done now and then, when `Listing.is_due` says so.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

from gf_i2p.farm import posters
from gf_i2p.farm.admin_entries import AdminEntry, Administration
from gf_i2p.farm.choice import candidates, tree
from gf_i2p.farm.choice.candidates import Accusation, Setting
from gf_i2p.farm.choice.listed_leaves import LeafInputs, Listing, why_not_listed
from gf_i2p.farm.choice.publisher import Branch, Choice, Election, Merit, SetEntry, why_not
from gf_i2p.farm.choice.score import MOST, Score, found_points, own_score, reached_points, total
from gf_i2p.farm.farm_time import FarmClock
from gf_i2p.farm.parameters import Parameters
from gf_i2p.farm.posters import Posters
from gf_i2p.farm.record.remote_sensing import MAX_SERVER_ID
from gf_i2p.farm.record.status_record import FIRST_LEAF_MEMBER_ID, MAX_OPENINGS, MAX_RECORD_BYTES, StatusRecord
from gf_i2p.farm.set_versions import MAX_AHEAD_MS, newest_announced
from gf_i2p.farm.strict_json import MAX_DATE_MS, RecordError, decode_object, integer

__all__ = ["MAX_AHEAD_MS", "FarmState", "SnapshotError", "decode_entry", "read_entry", "snapshot_fault"]

_FORMAT: Final = 2
_SENSED_MS: Final = 900_000
"""Greatest age of a server's search for the farm's set, and of the set that the search found, in ms: twice the default
`republish_max_ms`."""

_NOTHING: Final = Setting()
_MAY_MOVE_PUBLISHER: Final = frozenset({"move", "release", "drain", "undrain"})
"""Actions of administrators that may change the publisher."""


@dataclass(slots=True)  # not frozen: one is made for every record
class _Judgement:
    """Results that follow from one server's newest record alone."""

    score: Score
    points: int
    """Points of the score's known parts."""
    most: int
    """Most points of the score's known parts."""
    total: int
    setting: Setting


class SnapshotError(ValueError):
    """The bytes are not a state that this version can read; `str()` says why."""


_OBJECT_BEGINS: Final = frozenset((b"{", b" ", b"\t", b"\n", b"\r"))
"""The bytes with which the text of a JSON object begins (RFC 8259, 2)."""


def decode_entry(value: bytes) -> dict[str, Any] | None:
    """Decode an Application entry of any farm; None: the entry is surely neither a status record nor an admin entry.

    Both are JSON objects. So the first byte of most other values is enough. A status record has the name "up", and an
    admin entry has the name "action". So a value without these names is not decoded at all. A value with escapes is
    decoded, because JSON can write a name with escapes.
    """
    if value[:1] not in _OBJECT_BEGINS:
        return None
    if not (b'"up"' in value or b'"action"' in value or b"\\u" in value):
        return None
    try:
        return decode_object(value, "an entry", max_bytes=MAX_RECORD_BYTES, max_openings=MAX_OPENINGS)
    except RecordError:
        return None


def snapshot_fault(cluster: str, data: bytes) -> str | None:
    """Return why a snapshot's data is no state of this farm, as a clause; None: the data is such a state."""
    try:
        FarmState.decode(cluster, data)
    except SnapshotError as error:
        return f"{error}; if another version of gf-i2p has written the snapshot, install that version here, too"
    return None


def read_entry(value: bytes) -> StatusRecord | AdminEntry | None:
    """Read an Application entry of any farm; None: the entry is neither a status record nor an admin entry."""
    fields = decode_entry(value)
    if fields is None:
        return None
    try:
        return StatusRecord.of_fields(fields)
    except RecordError:
        pass
    try:
        return AdminEntry.of_decoded(fields, value)
    except RecordError:
        return None


class FarmState:
    """The state of one farm. The caller applies every committed Configuration and Application entry, in order."""

    def __init__(self, cluster: str) -> None:
        self.cluster = cluster
        self.servers: tuple[int, ...] = ()
        """Ids of the servers in the newest committed Configuration."""
        self.records: dict[int, StatusRecord] = {}
        """The newest record of each server, by server id."""
        self.last_record: StatusRecord | None = None
        """The server's record that was applied last; None after a snapshot. No choice depends on it."""
        self.leaf_members: dict[int, StatusRecord] = {}
        """The newest record of each leaf member, by id. The member that posted last comes last."""
        self.last_published_ms = 0
        """The greatest announced version, in ms: only a newer set replaces the set in the netDb."""
        self.announced_at = 0
        """Index of the record that has announced that version; 0 after a snapshot, which does not tell."""
        self.administration = Administration()
        """Changes by administrators."""
        self.accused: dict[int, Accusation] = {}
        """Reports that a server is not heard, by the id of that server. The next record of that server ends the
        report."""
        self.clock = FarmClock()
        self.posters = Posters()
        self.election = Election()
        self.listing = Listing()
        self.common_setting = Setting()
        """The most frequent mode and the most frequent master, see `Setting.most_frequent`."""
        self._settings: dict[int, Setting] = {}
        self._counted_settings: dict[int, Setting] = {}  # the settings that `common_setting` was counted from
        self._judgements: dict[int, _Judgement] = {}  # by server, results of its newest record
        self._choice: Choice | None = None

    # Queries ---------------------------------------------------------------------------------------------------------

    @property
    def now_ms(self) -> int | None:
        """Farm time, in ms since the epoch; None while less than half of the servers have posted."""
        return self.clock.now_ms

    @property
    def parameters(self) -> Parameters:
        """The administrators' parameters, or the defaults."""
        return self.administration.parameters

    @property
    def publisher(self) -> int | None:
        """Id of the chosen publisher; None while no server can publish."""
        return self.election.publisher

    @property
    def mode(self) -> str:
        """Mode of the publisher; "off" without a publisher."""
        return candidates.OFF if self.publisher is None else self.common_setting.mode

    @property
    def choice(self) -> Choice:
        """The publisher, the leaves and the reasons. After a change, the first use computes the choice anew."""
        if self._choice is None:
            self._choice = self._make_choice()
        return self._choice

    def leaf_inputs(self) -> LeafInputs:
        """Return all that the choice of leaves depends on now."""
        return LeafInputs(
            self.posters, self.administration, self.common_setting.master, self.clock.passed_ms, self.parameters
        )

    def objection(self, server: int) -> str | None:
        """Return why a server cannot publish, as a clause; None: the server can publish."""
        poster, now, parameters = self.posters.by_id.get(server), self.clock.now_ms, self.parameters
        is_publisher = server == self.election.publisher
        ahead = (
            is_publisher
            and poster is not None
            and now is not None
            and poster.record.date_ms - now > parameters.ahead_ms
        )
        return candidates.objection(
            poster,
            self._settings.get(server, _NOTHING),
            self.common_setting,
            self.accused.get(server),
            now,
            self.clock.passed_ms,
            parameters,
            is_publisher=is_publisher,
            excused=ahead and not self._most_posted_since(server),
        )

    def _most_posted_since(self, server: int) -> bool:
        """Whether most servers, this server included, have posted at or after this server's newest record."""
        index = self.posters.by_id[server].index
        return 2 * sum(self.posters.by_id[each].index >= index for each in self.records) > len(self.servers)

    def score(self, server: int) -> Score | None:
        """Return the score of a server; None before the server's first record."""
        judgement = self._judgements.get(server)
        if judgement is None:
            return None
        return judgement.score.judged(*self._points_by_others(server))

    def _points_by_others(self, server: int) -> tuple[int | None, int | None]:
        """Return the other servers' points for a server's leaves and for its published set; None without a report."""
        reached = unreached = finds = misses = 0
        if self.posters.has_reach_reports:
            for hash_ in self.posters.by_id[server].leaves:
                successes, failures = self.posters.reach_counts(hash_, server, self.clock.passed_ms, self.parameters)
                reached, unreached = reached + successes, unreached + failures
        if server == self.election.publisher:
            finds, misses = self._count_finds()
        return reached_points(reached, unreached), found_points(finds, misses)

    def _total(self, server: int, judgement: _Judgement) -> int:
        """Return `score(server).total`, but faster: this runs for every server after each record of a server."""
        if not self.posters.has_reach_reports and server != self.election.publisher:
            return judgement.total
        points, most = judgement.points, judgement.most
        leaves, meta = self._points_by_others(server)
        if leaves is not None:
            points, most = points + leaves, most + MOST["leaves"]
        if meta is not None:
            points, most = points + meta, most + MOST["meta"]
        return total(points, most)

    def merits(self) -> dict[int, Merit]:
        """Return the merit of each server that can publish, by server id."""
        merits = {}
        drained, moved_to = self.administration.drained, self.administration.moved_to
        publisher = self.election.publisher
        now, passed_ms, parameters, common = (
            self.clock.now_ms,
            self.clock.passed_ms,
            self.parameters,
            self.common_setting,
        )
        for server in self.servers:
            judgement = self._judgements.get(server)
            if judgement is None:
                continue
            is_able = (
                now is not None
                and common.is_complete
                and server not in self.accused
                and judgement.setting == common
                and candidates.is_able(
                    self.posters.by_id[server], now, passed_ms, parameters, is_publisher=server == publisher
                )
            )
            if is_able or self.objection(server) is None:
                meta = self.records[server].meta
                merits[server] = Merit(
                    server in drained,
                    server == moved_to,
                    meta is not None and meta.publish_config == "on",
                    self._total(server, judgement),
                )
        return merits

    # Input -----------------------------------------------------------------------------------------------------------

    def configure(self, servers: Iterable[int]) -> None:
        """Apply a committed Configuration. Records and reports of removed servers no longer count."""
        members_before, self.servers = set(self.servers), tuple(servers)
        server_ids = set(self.servers)
        for server in self.records.keys() - server_ids:
            self.posters.remove(server)
            del self.records[server], self._judgements[server], self._settings[server]
        for server in self.leaf_members.keys() & server_ids:  # the id is a server's from now on
            self.posters.remove(server)
            del self.leaf_members[server]
        self.accused = {
            server: accusation
            for server, accusation in self.accused.items()
            if server in server_ids and accusation.by in server_ids
        }
        for server in self.records.keys() - self.accused.keys():
            self.posters.by_id[server].accused_ms = None
        self.administration.forget(server_ids, members_before - server_ids)
        self._choose_publisher()
        self.listing.choose(self.leaf_inputs())

    def apply(self, value: bytes, index: int) -> None:
        """Apply the Application entry at `index` of the log.

        Only records of this farm's servers and members, and admin entries of this farm, have an effect.
        """
        self.apply_entry(read_entry(value), value, index)

    def apply_entry(self, entry: StatusRecord | AdminEntry | None, value: bytes, index: int) -> None:
        """Apply an entry that was read already. `entry`: the result of `read_entry(value)`."""
        if isinstance(entry, StatusRecord):
            self._apply_record(entry, value, index)
        elif entry is not None and entry.cluster == self.cluster:
            self.administration.apply(entry, index)
            if entry.changes_no_choice:  # older nodes ignore such an entry, so it must not change the listing
                return
            self._choose_publisher(by_administrator=entry.action in _MAY_MOVE_PUBLISHER)
            self.listing.choose(self.leaf_inputs())

    def _apply_record(self, record: StatusRecord, value: bytes, index: int) -> None:
        if record.cluster != self.cluster:
            return
        if record.id in self.servers:
            self._apply_server_record(record, value, index)
        elif posters.objection(record, len(value), self.leaf_members.keys()) is None:
            self._apply_member_record(record, value, index)
        else:
            return
        self._choice = None
        inputs = self.leaf_inputs()
        if self.listing.is_due(inputs, record.id):
            self.listing.choose(inputs)

    def _apply_server_record(self, record: StatusRecord, value: bytes, index: int) -> None:
        joined = record.id not in self.records
        self.records[record.id] = self.last_record = record
        self._set_clock(joined=joined)
        self.posters.take(value, record, index, self.clock.passed_ms, self.parameters, is_server=True)
        self._judge(record)
        self.accused.pop(record.id, None)
        self._update_accusations(record, index)
        if self.clock.now_ms is not None:
            newest_ms = newest_announced(
                self.last_published_ms, self.records.values(), self.clock.now_ms, self.publisher
            )
            if newest_ms > self.last_published_ms:
                self.last_published_ms, self.announced_at = newest_ms, index
        self._choose_publisher(clock_is_set=True)

    def _apply_member_record(self, record: StatusRecord, value: bytes, index: int) -> None:
        self.leaf_members.pop(record.id, None)
        self.leaf_members[record.id] = record
        self.posters.take(value, record, index, self.clock.passed_ms, self.parameters, is_server=False)
        for member in posters.long_silent(self.posters, self.leaf_members, self.clock.passed_ms):
            del self.leaf_members[member]
            self.posters.remove(member)

    def _update_accusations(self, record: StatusRecord, index: int) -> None:
        """Note which servers the reporting server cannot hear, and withdraw its accusations of servers that it hears.

        A report comes later in the log than the newest record of the reported server. So every report counts.
        """
        for report in record.remote_routers:
            poster = self.posters.by_id.get(report.id)
            if poster is None or report.id == record.id or report.id not in self.records:
                continue
            accusation = self.accused.get(report.id)
            if report.reachable:
                if accusation is not None and accusation.by == record.id:
                    del self.accused[report.id]
                    poster.accused_ms = None
            elif accusation is None:
                self.accused[report.id] = Accusation(record.id, index)
                poster.accused_ms = self.clock.passed_ms
                self.listing.deadline_ms = min(
                    self.listing.deadline_ms, self.clock.passed_ms + self.parameters.unheard_ms
                )

    def _choose_publisher(self, *, by_administrator: bool = False, clock_is_set: bool = False) -> None:
        """Choose the publisher anew, after a change of the servers, their records or the administrators' settings.

        `by_administrator`: an administrator's entry has moved publishing, or drained a server. `clock_is_set`: farm
        time follows from the present records already.
        """
        self._choice = None
        if not clock_is_set:
            self._set_clock()
        old_master = self.common_setting.master
        if self._settings != self._counted_settings:
            self._count_settings()
        self.election.elect(self.merits(), self.clock.passed_ms, self.parameters, by_administrator=by_administrator)
        if self.common_setting.master != old_master:
            self.listing.choose(self.leaf_inputs())

    def _count_settings(self) -> None:
        self.common_setting, self._counted_settings = Setting.most_frequent(self._settings), dict(self._settings)

    def _judge(self, record: StatusRecord) -> None:
        """Keep the score and the setting of a server's newest record: each choice needs these."""
        judgement = record.judgement
        if not isinstance(judgement, _Judgement):
            score = own_score(record.router)
            points, most = score.sums()
            record.judgement = judgement = _Judgement(score, points, most, total(points, most), Setting.of(record))
        self._judgements[record.id] = judgement
        if judgement.setting != self._settings.get(record.id):
            self._settings[record.id] = judgement.setting

    def _set_clock(self, *, joined: bool = False) -> None:
        dates = [record.date_ms for record in self.records.values()]
        servers, parameters = len(self.servers), self.parameters
        self.clock.update(dates, servers, fresh_ms=parameters.fresh_ms, ahead_ms=parameters.ahead_ms, joined=joined)

    def _count_finds(self) -> tuple[int, int]:
        """Return how many other servers have found a recent set of the farm, and how many have not."""
        finds = misses = 0
        now = self.clock.now_ms
        for server, record in self.records.items():
            sensing = record.meta_sensing
            if server == self.publisher or sensing is None or now is None or now - sensing.date_ms > _SENSED_MS:
                continue
            # Few routers tell the version. A found set of unknown version counts as recent.
            version = sensing.date_ms if sensing.last_version_ms is None else sensing.last_version_ms
            if sensing.fetch_ms is not None and sensing.date_ms - version <= _SENSED_MS:
                finds += 1
            else:
                misses += 1
        return finds, misses

    # The choice ------------------------------------------------------------------------------------------------------

    def _make_choice(self) -> Choice:
        publisher, merits = self.publisher, self.merits()
        reasons: dict[int, str] = {}
        for server in sorted(self.servers):
            if server == publisher:
                continue
            reason = self.objection(server)
            if reason is None and publisher in merits:  # another version's snapshot may name an unable one
                reason = why_not(server, merits[server], publisher, merits[publisher])
            reasons[server] = reason or "it was not chosen"
        entries, branches = self.entries()
        scores = {server: score for server in sorted(self.servers) if (score := self.score(server)) is not None}
        return Choice(
            publisher,
            reasons,
            mode=self.mode,
            entries=entries,
            branches=branches,
            left_out=self._left_out(),
            scores=scores,
        )

    def entries(self) -> tuple[tuple[SetEntry, ...], tuple[Branch, ...]]:
        """Return the listed leaves: as entries of one set, or as branches when the farm has branches."""
        listed = self.listing.listed
        entries = sorted(
            (SetEntry(hash_, each.type, each.cost, each.owner) for hash_, each in listed.items()),
            key=lambda entry: (entry.owner, entry.hash),
        )
        if not self.listing.branched:
            return tuple(entries), ()
        max_entries = self.parameters.max_entries
        return (), tuple(
            Branch(
                number,
                tuple(entry for entry in entries if tree.branch_of(listed[entry.hash].place, max_entries) == number),
            )
            for number in tree.branches([each.place for each in listed.values()], max_entries)
        )

    def _left_out(self) -> dict[bytes, str]:
        inputs, reasons = self.leaf_inputs(), {}
        for owner, poster in self.posters:
            for hash_, leaf in poster.leaves.items():
                if hash_ not in self.listing.listed and hash_ not in reasons:
                    reasons[hash_] = why_not_listed(inputs, self.listing, owner, poster, leaf)
        return reasons

    # Snapshots -------------------------------------------------------------------------------------------------------

    def encode(self) -> bytes:
        """Return the state for a snapshot: the same bytes on every server that has applied the same entries."""
        state = {
            "format": _FORMAT,
            "servers": list(self.servers),
            "lastPublishedTime": self.last_published_ms,
            "clock": self.clock.encode(),
            "posters": self.posters.encode(),
            "accused": [[server, accusation.by, accusation.index] for server, accusation in self.accused.items()],
            "election": self.election.encode(),
            "listing": self.listing.encode(),
            "administration": self.administration.encode(),
        }
        return json.dumps(state, separators=(",", ":"), sort_keys=True).encode()

    @classmethod
    def decode(cls, cluster: str, data: bytes) -> Self:
        """Read a snapshot's data. Raises `SnapshotError`."""
        state = cls(cluster)
        try:
            state._restore(json.loads(data))
            _ = state.choice  # the first user of the state must not fail
        except SnapshotError:
            raise
        except Exception as error:  # another server may have made the snapshot up: no bytes may end this program
            raise SnapshotError(f"it is no state of a farm ({type(error).__name__}: {error})") from error
        return state

    def _restore(self, snapshot: Mapping[str, Any]) -> None:
        if snapshot["format"] != _FORMAT:
            found = str(snapshot["format"])[:80]
            raise SnapshotError(f"it has the format {found!r}, and this program knows {_FORMAT}")
        self.servers = tuple(integer({"server": each}, "server", MAX_SERVER_ID) for each in snapshot["servers"])
        self.last_published_ms = integer(snapshot, "lastPublishedTime", MAX_DATE_MS)
        self.posters = Posters.parse(snapshot["posters"], self.servers)
        for poster_id, poster in self.posters.by_id.items():
            self._check_poster(poster.record, poster_id)
            if poster_id not in self.servers and poster_id < FIRST_LEAF_MEMBER_ID:
                raise SnapshotError(f"it has a record of {poster_id}, which is no server")
            (self.records if poster_id in self.servers else self.leaf_members)[poster_id] = poster.record
        for record in self.records.values():
            self._judge(record)
        self.clock = FarmClock.parse(
            snapshot["clock"], [record.date_ms for record in self.records.values()], len(self.servers)
        )
        self.accused = {
            integer({"server": server}, "server", MAX_SERVER_ID): Accusation(
                integer({"by": by}, "by", MAX_SERVER_ID), integer({"index": index}, "index", MAX_DATE_MS)
            )
            for server, by, index in snapshot["accused"]
        }
        self.election = Election.parse(snapshot["election"])
        if self.publisher is not None and self.publisher not in self.servers:
            raise SnapshotError(f"it has the publisher {self.publisher}, which is no server")
        self.listing = Listing.parse(snapshot["listing"])
        self.administration = Administration.parse(snapshot["administration"])
        room = tree.room(self.parameters.tree, self.parameters.max_entries)
        if any(each.place >= room for each in self.listing.listed.values()):
            raise SnapshotError(f"it lists a leaf beyond the {room} places of its sets")
        self._count_settings()

    def _check_poster(self, record: StatusRecord, poster: int) -> None:
        if record.id != poster or record.cluster != self.cluster:
            place = f"server {poster} of {self.cluster!r}"
            raise SnapshotError(f"it has a record of server {record.id} of {record.cluster!r} in the place of {place}")
