"""The ledger: a second, simple reading of a farm's log. The rules compare the real farm state with the ledger.

The ledger shares no code with `gf_i2p.farm`, except a constant. So a mistake in `gf_i2p.farm` does not stay hidden.
"""

import json
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final

from gf_i2p.farm.record.status_record import FIRST_LEAF_MEMBER_ID
from gf_i2p.netdb.encoding import from_base64
from gf_i2p.simulator.facts import Voters
from gf_i2p.simulator.registers import CLUSTER

FRESH_MS: Final = 105_000
AHEAD_MS: Final = 60_000
"""Defaults of the farm's parameters `freshMs` and `aheadMs`, in ms."""
LEASE: Final = 90.0
"""Most seconds for which a publisher may publish after the post of its newest record in the log."""
PAUSE: Final = 12.0
"""Least length of a pause, in seconds, after which a process gives no set that was announced before the pause's end."""
PUBLISHES: Final = frozenset({"on", "auto"})


@dataclass(slots=True)
class PostedRecord:
    """The newest record of one server or leaf member."""

    index: int
    at: float
    """Time of the commit, in true seconds."""
    date_ms: int
    router_up: bool
    publish: str
    mode: str
    version_ms: int
    leaves: dict[bytes, tuple[bool, int, tuple[bytes, ...]]]
    """The record's leaves, by hash: (whether the leaf is up, type, hashes of the masters below the leaf)."""
    risen_ms: int = 0
    """The value of `Ledger.risen_ms` at the commit."""

    @property
    def publishes(self) -> bool:
        """Whether the server would publish if it were chosen."""
        return self.publish in PUBLISHES and self.mode != "off"


@dataclass(slots=True)
class Ledger:
    """The log's content, up to one index."""

    index: int = 0
    servers: Voters = ()
    records: dict[int, PostedRecord] = field(default_factory=dict)
    """The newest record of each server, by server id."""
    member_records: dict[int, PostedRecord] = field(default_factory=dict)
    accused: dict[int, int] = field(default_factory=dict)
    """The servers that are reported as unreachable and have posted nothing since: by id, the id of the server that
    reported this first."""
    excluded: set[bytes] = field(default_factory=set)
    drained: set[int] = field(default_factory=set)
    moved_to: int | None = None
    parameters: dict[str, Any] = field(default_factory=dict)
    announced: dict[tuple[int, int], int] = field(default_factory=dict)
    """By (poster's id, version in ms): index of the first record with this version."""
    risen_ms: int = 0
    """Sum of all rises of farm time, in ms. The farm's stopwatch (`farm_time.FarmClock`) never shows more."""
    lasted_ms: int = 0
    """Sum of all rises of farm time above its highest value so far, in ms. The farm's stopwatch never shows less. Each
    rise counts at most half of `freshMs`, and a rise by a server's first record does not count."""
    _last_ms: int | None = None
    _highest_ms: int = 0

    def configure(self, servers: Voters) -> None:
        """Apply a committed Configuration that names these servers."""
        self.index += 1
        self.servers = servers
        self.records = {server: record for server, record in self.records.items() if server in servers}
        self.accused = {server: by for server, by in self.accused.items() if server in servers and by in servers}
        self.drained &= set(servers)
        if self.moved_to not in servers:
            self.moved_to = None
        self._rise()

    def apply(self, value: bytes, now: float) -> None:
        """Apply a committed Application entry. `now`: time of the commit, in true seconds."""
        self.index += 1
        entry = json.loads(value)
        if entry["cluster"] != CLUSTER:
            return
        if "action" in entry:
            self._administer(entry)
        elif entry["id"] in self.servers:
            joined = entry["id"] not in self.records
            self._report(entry, now, self.records)
            self.accused.pop(entry["id"], None)
            for each in entry.get("remoteRouters", ()):
                if each["id"] in self.records and each["id"] != entry["id"]:
                    self._accuse(entry["id"], each["id"], reachable=each["reachable"])
            self._rise(joined=joined)
            self.records[entry["id"]].risen_ms = self.risen_ms
        elif entry["id"] >= FIRST_LEAF_MEMBER_ID:
            self._report(entry, now, self.member_records)
            self.member_records[entry["id"]].risen_ms = self.risen_ms

    def _rise(self, *, joined: bool = False) -> None:
        now = self.now_ms
        if now is None:
            return
        if self._last_ms is not None:
            self.risen_ms += max(now - self._last_ms, 0)
            limit = int(self.parameter("freshMs", FRESH_MS)) // 2
            self.lasted_ms += 0 if joined else min(max(now - self._highest_ms, 0), limit)
        self._last_ms, self._highest_ms = now, max(now, self._highest_ms)

    def _report(self, entry: dict[str, Any], now: float, records: dict[int, PostedRecord]) -> None:
        meta = entry.get("meta", {})
        version = meta.get("lastPublishedTime", 0)
        records[entry["id"]] = PostedRecord(
            self.index,
            now,
            entry["date"],
            entry["router"]["up"],
            meta.get("publishConfig", "off"),
            entry.get("config", {}).get("mode", ""),
            version,
            {
                from_base64(each["hash"], 32): (
                    each["up"],
                    each.get("type", 3),
                    tuple(from_base64(below, 32) for below in each.get("below", ())),
                )
                for each in entry["destinations"]
            },
        )
        self.announced.setdefault((entry["id"], version), self.index)

    def _accuse(self, accuser: int, accused: int, *, reachable: bool) -> None:
        if not reachable:
            self.accused.setdefault(accused, accuser)
        elif self.accused.get(accused) == accuser:
            del self.accused[accused]

    def _administer(self, entry: dict[str, Any]) -> None:
        server: Any = entry.get("server")
        match entry["action"]:
            case "exclude":
                self.excluded.add(from_base64(entry["hash"], 32))
            case "include":
                self.excluded.discard(from_base64(entry["hash"], 32))
            case "move":
                self.moved_to = server
            case "release":
                self.moved_to = None
            case "drain":
                self.drained.add(server)
            case "undrain":
                self.drained.discard(server)
            case "set":
                self.parameters |= entry["parameters"]

    @property
    def now_ms(self) -> int | None:
        """Farm time: the upper median of the servers' newest dates; a server without a record counts as the oldest."""
        dates = sorted(self.records[server].date_ms if server in self.records else 0 for server in self.servers)
        return (dates[len(dates) // 2] or None) if dates else None

    def parameter(self, name: str, default: Any) -> Any:
        """Return the value of a parameter that administrators have set, or else `default`."""
        value = self.parameters.get(name)
        return default if value is None else value

    @property
    def mode(self) -> str | None:
        """The mode in which more than half of all servers would publish; None: no mode has a majority."""
        modes = Counter(record.mode for record in self.records.values() if record.publishes)
        return next((mode for mode, servers in modes.items() if 2 * servers > len(self.servers)), None)

    def objection(self, server: int, *, is_publisher: bool = False) -> str | None:
        """Return why the log forbids this server as publisher, whichever servers can publish; None: nothing forbids it.

        `is_publisher`: whether the server was the publisher one entry before. Then a clock that is ahead is excused
        until most servers, the publisher included, have posted at or after the publisher's newest record.
        """
        record, now = self.records.get(server), self.now_ms
        if server not in self.servers or record is None or now is None:
            return "it is no server of the farm, or has no record in the log"
        if now - record.date_ms > self.parameter("freshMs", FRESH_MS):
            return f"its newest record is {(now - record.date_ms) / 1000:.0f} s old"
        newer = sum(other.index >= record.index for other in self.records.values())
        excused = is_publisher and 2 * newer <= len(self.servers)
        if record.date_ms - now > self.parameter("aheadMs", AHEAD_MS) and not excused:
            return f"its clock is {(record.date_ms - now) / 1000:.0f} s ahead"
        if not record.router_up:
            return "its router is down"
        if not record.publishes:
            return "publishing is off there"
        if server in self.accused:
            return f"server {self.accused[server]} no longer hears it"
        return None

    def is_sure(self, server: int) -> bool:
        """Whether the server can surely publish: fresh, and not too far ahead, whatever the farm's stopwatch shows."""
        now, mode = self.now_ms, self.mode
        if now is None or mode is None or self.objection(server) is not None or self.records[server].mode != mode:
            return False
        record = self.records[server]
        age_ms = self.risen_ms - record.risen_ms
        ahead_ms = record.date_ms + age_ms - now
        return bool(age_ms <= self.parameter("freshMs", FRESH_MS) and ahead_ms <= self.parameter("aheadMs", AHEAD_MS))

    def rank(self, server: int) -> tuple[bool, bool, bool]:
        """Return the rank of a server that has posted. Rank decides before any score, and the lowest rank is best."""
        return server in self.drained, server != self.moved_to, self.records[server].publish != "on"

    def leaves(self) -> dict[bytes, tuple[bool, int, tuple[bytes, ...]]]:
        """Return all leaves in the newest records of all posters, as `PostedRecord.leaves`."""
        records = [*self.records.values(), *self.member_records.values()]
        return {leaf: facts for record in records for leaf, facts in record.leaves.items()}
