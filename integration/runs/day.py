"""Simulates a day of a farm with a thousand leaves: who published, and whether each change of publisher was needed.

    python -m integration.runs.day [--hours 24] [--leaves 1000] [--servers 5] [--tree best|tree] [--seed N] [--json]

Servers and members post every 30 s. Servers crash, and a minority of the clocks is up to ten minutes wrong. Leaves go
down, flap, and change their loads. The exit code is 0 when all of this holds, else 1:

- At most one change of publisher was not needed. A change is not needed if the old publisher could have gone on.
- No set has more than 16 entries.
- Each leaf is either listed, or left out with a reason.
- No leaf is listed that has been down for long.
- A second state, restored from a snapshot every hour, stays equal to the first state byte for byte.
"""

import argparse
import asyncio
import heapq
import secrets
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from statistics import median
from typing import Any, Final

from gf_i2p.farm.admin_entries import AdminEntry
from gf_i2p.farm.record.remote_sensing import RemoteRouter
from gf_i2p.farm.record.status_record import FIRST_LEAF_MEMBER_ID, Leaf, Meta, ReportedConfig, StatusRecord
from gf_i2p.farm.state import FarmState
from gf_i2p.netdb.encoding import to_base64
from integration.harness.long_run import Figures, between, conclude, say

MOST_UNNEEDED: Final = 1
MOST_ENTRIES: Final = 16
INTERVAL: Final = 30.0
HOUR: Final = 3600.0
CLOCK_MS: Final = 30_000
"""A publisher whose clock is wrong by more may be replaced: its records look ahead, or old."""
LONG_DOWN: Final = 300.0
"""A leaf must not be listed after so many seconds of being down or silent."""
_COPY_SECONDS: Final = 600.0
"""The lifetime of a restored copy beside the first state."""
_ACCUSED_SECONDS: Final = 3.0
_LOOK_SECONDS: Final = 15.0
_BEGAN_MS: Final = 1_700_000_000_000
_WRONG_MS: Final = 600_000
_CLUSTER: Final = "day"
_MASTER: Final = to_base64(b"the master of a day")
_DATE: Final = b'"date":0'


@dataclass(slots=True)
class DayReporter:
    """The true state of a server or a leaf member, which the log may not know. Times are true seconds."""

    id: int
    hash: bytes
    next_post: float
    leaf_up: bool = True
    alive: bool = True
    error_ms: int = 0
    """Milliseconds that the poster's clock is ahead."""
    posted_error_ms: int = 0
    """The clock's error at the last post."""
    bad_since: float | None = None
    """The time since when the leaf has been down or the poster silent."""
    connections: int = 20
    router: dict[str, Any] = field(default_factory=dict)
    silent: set[int] = field(default_factory=set)
    """The servers that this server, as the leader, does not hear."""
    publishing: bool = False
    version_ms: int = 0
    value: bytes = b""
    """The poster's record without the date; empty after a change."""

    def record(self, date_ms: int) -> bytes:
        """Return the bytes of the poster's record."""
        if not self.value:
            server = self.id < FIRST_LEAF_MEMBER_ID
            self.value = StatusRecord(
                cluster=_CLUSTER,
                date_ms=0,
                id=self.id,
                router_up=True,
                router=self.router,
                meta=Meta(_MASTER, "auto", self.publishing, self.version_ms) if server else None,
                leaves=(
                    Leaf(self.hash, self.leaf_up, configured_connections=100, current_connections=self.connections),
                ),
                config=ReportedConfig("meta", int(INTERVAL * 1000), "0") if server else None,
                remote_routers=tuple(RemoteRouter(each, False) for each in sorted(self.silent)),
            ).encode()
        return self.value.replace(_DATE, b'"date":%d' % date_ms, 1)

    def look(self, now: float) -> None:
        """Note a change: drop the stored record, and keep the time since when the leaf is bad."""
        self.value = b""
        bad = not (self.leaf_up and self.alive)
        if not bad:
            self.bad_since = None
        elif self.bad_since is None:
            self.bad_since = now


@dataclass(slots=True)
class Change:
    """A change of publisher."""

    at: float
    old: int | None
    new: int | None
    why: str
    needed: bool


class Day:
    """One run of the simulation."""

    def __init__(self, hours: float, leaves: int, servers: int, tree: str, seed: int) -> None:
        self.rng = Random(seed)
        self.now = 0.0
        self.until = hours * HOUR
        self.entries = 0
        self.changes: list[Change] = []
        self.set_changes: Counter[int] = Counter()
        self.largest = 0
        self.branches = 0
        self.faults: Counter[str] = Counter()
        self.wrong: list[str] = []
        self.copies = 0
        self.snapshot_bytes = 0
        self.left_out: Counter[str] = Counter()
        self.state = FarmState(_CLUSTER)
        self.state.configure(range(1, servers + 1))
        self._tree = tree
        self._copy: FarmState | None = None
        self._publisher: int | None = None
        self._listed: frozenset[bytes] = frozenset()
        self.posters = {
            each: DayReporter(each, each.to_bytes(4, "big") * 8, self.rng.uniform(0, INTERVAL))
            for each in (*range(1, servers + 1), *range(FIRST_LEAF_MEMBER_ID, FIRST_LEAF_MEMBER_ID + leaves))
        }
        self.servers = [self.posters[each] for each in range(1, servers + 1)]
        self._queue: list[tuple[float, int, Callable[[], None]]] = []
        self._number = 0

    # Time ------------------------------------------------------------------------------------------------------------

    def after(self, seconds: float, action: Callable[[], None]) -> None:
        """Run `action` after `seconds` of simulated time."""
        self._number += 1
        heapq.heappush(self._queue, (self.now + seconds, self._number, action))

    def run(self, tell: Callable[[str], None]) -> None:
        """Run the simulation to the end of the day."""
        self.apply(AdminEntry(_CLUSTER, _BEGAN_MS, "admin-day", "set", parameters={"tree": self._tree}).encode())
        for poster in self.posters.values():
            self.after(poster.next_post, lambda poster=poster: self._report(poster))  # type: ignore[misc]
            poster.connections = self.rng.randint(0, 60)
            self._plan_leaf(poster)
        for server in self.servers:
            self._load(server)
        self.after(60.0, self._crash)
        self.after(HOUR / 2, self._wrong_clocks)
        self.after(HOUR, self._copy_begins)
        self.after(_LOOK_SECONDS, self._look)
        began, told = time.monotonic(), 0.0
        while self._queue and self._queue[0][0] <= self.until:
            self.now, _, action = heapq.heappop(self._queue)
            action()
            if self._number % 4096 == 0 and time.monotonic() - told > 10.0:
                told = time.monotonic()
                tell(f"{self.now / HOUR:4.1f} h, {self.entries:,} entries, {self.entries / (told - began + 1):,.0f}/s")

    def apply(self, value: bytes) -> None:
        """Commit an entry."""
        self.entries += 1
        self.state.apply(value, self.entries)
        if self._copy is not None:
            self._copy.apply(value, self.entries)
        if self.state.publisher != self._publisher:
            self._changed()

    # Posts -----------------------------------------------------------------------------------------------------------

    def _report(self, poster: DayReporter) -> None:
        self.after(INTERVAL * self.rng.uniform(0.98, 1.02), lambda: self._report(poster))
        self._post(poster)

    def _post(self, poster: DayReporter) -> None:
        if not poster.alive:
            return
        if poster.publishing != (self.state.publisher == poster.id):
            poster.publishing = not poster.publishing
            poster.value = b""
        if poster.publishing and self.now * 1000 + _BEGAN_MS - poster.version_ms > 450_000:
            poster.version_ms = max(self._wall(poster), self.state.last_published_ms + 1000)
            poster.value = b""
        poster.posted_error_ms = poster.error_ms
        self.apply(poster.record(self._wall(poster)))

    def _wall(self, poster: DayReporter) -> int:
        return _BEGAN_MS + int(self.now * 1000) + poster.error_ms

    # Faults ----------------------------------------------------------------------------------------------------------

    def _strikes(self, name: str) -> None:
        self.faults[name] += 1

    def _bad_servers(self) -> int:
        return sum(not each.alive or each.error_ms != 0 or each.posted_error_ms != 0 for each in self.servers)

    def _crash(self) -> None:
        """Crash one server, most often the publisher, and start the server again later."""
        self.after(self.rng.expovariate(1 / (0.7 * HOUR)), self._crash)
        poster = self.posters.get(self.state.publisher or 0) if self.rng.random() < 0.5 else None
        poster = poster or self.rng.choice(self.servers)
        if not poster.alive or (
            poster.posted_error_ms == poster.error_ms == 0 and self._bad_servers() >= (len(self.servers) - 1) // 2
        ):
            return
        self._strikes("servers crashed")
        poster.alive = False
        poster.look(self.now)
        if self.rng.random() < 0.8:
            self.after(_ACCUSED_SECONDS, lambda: self._accuse(poster))

        def back() -> None:
            poster.alive = True
            poster.look(self.now)
            for each in self.servers:
                each.silent.discard(poster.id)
                each.value = b""
            self._post(poster)

        self.after(self.rng.choice((20.0, 300.0, 1800.0)) * self.rng.uniform(0.5, 1.5), back)

    def _accuse(self, poster: DayReporter) -> None:
        leader = next((each for each in self.servers if each.alive), None)
        if leader is not None and not poster.alive:
            leader.silent.add(poster.id)
            leader.value = b""
            self._post(leader)

    def _wrong_clocks(self) -> None:
        """Set the clocks of a minority wrong, then those of another minority, or of none."""
        self.after(self.rng.uniform(0.5, 2) * HOUR, self._wrong_clocks)
        for each in self.servers:
            each.error_ms = 0
        self.after(3 * INTERVAL, self._set_wrong)  # by then the log has no more wrong records of the old minority

    def _set_wrong(self) -> None:
        most = max((len(self.servers) - 1) // 2 - self._bad_servers(), 0)
        for each in self.rng.sample([each for each in self.servers if each.alive], most):
            if self.rng.random() < 0.7:
                self._strikes("clocks wrong")
                each.error_ms = self.rng.choice((-1, 1)) * self.rng.randint(10_000, _WRONG_MS)

    def _load(self, server: DayReporter) -> None:
        """Change the figures of a server's router every few minutes, within the values of a good router."""
        self.after(self.rng.uniform(60, 600), lambda: self._load(server))
        server.router = {
            "uptime": 90_000_000 + int(self.now * 1000),
            "reachability": "ok",
            "exploratoryTunnels": self.rng.randint(4, 9),
            "jobLag": self.rng.randint(1, 90),
            "configuredInboundBandwidth": 1_000_000,
            "currentInboundBandwidth": self.rng.randint(50_000, 450_000),
        }
        server.value = b""

    def _plan_leaf(self, poster: DayReporter) -> None:
        self.after(self.rng.expovariate(1 / (4 * HOUR)), lambda: self._leaf(poster))

    def _leaf(self, poster: DayReporter) -> None:
        """Something befalls a leaf: down, silent, flapping, or another load."""
        rng = self.rng
        kind = rng.choices(("leaves down", "members silent", "leaves flapping", "loads changed"), (3, 2, 1, 10))[0]
        if kind == "members silent" and poster.id < FIRST_LEAF_MEMBER_ID:
            kind = "leaves down"
        self._strikes(kind)
        if kind == "loads changed":
            poster.connections = rng.randint(0, 100)
            poster.look(self.now)
            self._plan_leaf(poster)
            return
        if kind == "leaves flapping":
            self._flap(poster, rng.uniform(20, 300), self.now + rng.uniform(600, 7200))
            return

        def back() -> None:
            if kind == "leaves down":
                poster.leaf_up = True
            else:
                poster.alive = True
            poster.look(self.now)
            self._post(poster)
            self._plan_leaf(poster)

        if kind == "leaves down":
            poster.leaf_up = False
        else:
            poster.alive = False
        poster.look(self.now)
        self._post(poster)
        self.after(rng.choice((45.0, 600.0, 3600.0)) * rng.uniform(0.5, 1.5), back)

    def _flap(self, poster: DayReporter, half: float, ends: float) -> None:
        poster.leaf_up = not poster.leaf_up or self.now >= ends
        poster.look(self.now)
        self._post(poster)
        if self.now < ends:
            self.after(half, lambda: self._flap(poster, half, ends))
        else:
            self._plan_leaf(poster)

    # Results --------------------------------------------------------------------------------------------------------

    def _changed(self) -> None:
        old, new = self._publisher, self.state.publisher
        self._publisher = new
        if old is None:
            self.changes.append(Change(self.now, old, new, "there was none", needed=True))
            return
        poster = self.posters[old]
        if not poster.alive:
            why, needed = "it had crashed", True
        elif abs(poster.posted_error_ms) > CLOCK_MS:
            why, needed = f"its clock was {poster.posted_error_ms / 1000:.0f} s wrong", True
        else:
            why, needed = f"not needed: {self.state.choice.why_not.get(old, '?')}", False
        self.changes.append(Change(self.now, old, new, why, needed))

    def _look(self) -> None:
        self.after(_LOOK_SECONDS, self._look)
        listing = self.state.listing
        listed = frozenset(listing.listed)
        if listed != self._listed:
            self.set_changes[int(self.now // HOUR)] += 1
            self._listed = listed
            for leaf in listed:
                poster = self.posters[listing.listed[leaf].owner]
                if poster.bad_since is not None and self.now - poster.bad_since > LONG_DOWN and len(self.wrong) < 20:
                    self.wrong.append(f"at {self.now:.0f} s leaf of {poster.id} is listed, down for {LONG_DOWN:.0f} s")
        choice = self.state.choice if self.now % 300 < _LOOK_SECONDS else None
        if choice is None:
            return
        sizes = [len(choice.entries) + len(choice.branches), *(len(branch.entries) for branch in choice.branches)]
        self.largest, self.branches = max(self.largest, *sizes), max(self.branches, len(choice.branches))
        if max(sizes) > MOST_ENTRIES and len(self.wrong) < 20:
            self.wrong.append(f"at {self.now:.0f} s a set has {max(sizes)} entries")
        known = {leaf for _, poster in self.state.posters for leaf in poster.leaves}
        told = set(choice.left_out) | {entry.hash for entry in choice.listed}
        if known != told and len(self.wrong) < 20:
            self.wrong.append(
                f"at {self.now:.0f} s {len(known ^ told)} leaves are neither listed nor left out, or both"
            )
        self.left_out = Counter(_kind(why) for why in choice.left_out.values())

    def _copy_begins(self) -> None:
        self.after(HOUR, self._copy_begins)
        data = self.state.encode()
        self.snapshot_bytes = max(self.snapshot_bytes, len(data))
        self._copy = FarmState.decode(_CLUSTER, data)
        self.after(min(_COPY_SECONDS, HOUR), self._copy_ends)

    def _copy_ends(self) -> None:
        assert self._copy is not None
        self.copies += 1
        if self._copy.encode() != self.state.encode() or self._copy.choice != self.state.choice:
            self.wrong.append(f"at {self.now:.0f} s a state restored {_COPY_SECONDS:.0f} s before differs")
        self._copy = None


def _kind(why: str) -> str:
    """Return a reason without the numbers in the text."""
    return " ".join(word for word in why.split() if not any(letter.isdigit() for letter in word))


def figures_of(day: Day, options: argparse.Namespace, took: float) -> Figures:
    """Judge a day; return the figures in the order of printing."""
    unneeded = [change for change in day.changes if not change.needed]
    wrong = list(day.wrong)
    if len(unneeded) > MOST_UNNEEDED:
        wrong.append(f"{len(unneeded)} changes of publisher were not needed: {MOST_UNNEEDED} is allowed")
    hours = [day.set_changes[hour] for hour in range(max(int(options.hours), 1))]
    return {
        "seed": options.seed,
        "hours": options.hours,
        "servers": options.servers,
        "members": options.leaves,
        "tree": options.tree,
        "entries": day.entries,
        "seconds": round(took, 1),
        "entries_a_second": round(day.entries / took),
        "changes_of_publisher": len(day.changes),
        "not_needed": [f"{change.at / HOUR:.2f} h: {change.old} -> {change.new}, {change.why}" for change in unneeded],
        "needed": dict(Counter(change.why.split(" was ")[0] for change in day.changes if change.needed)),
        "largest_set": day.largest,
        "branches": day.branches,
        "listed_at_the_end": len(day.state.listing.listed),
        "changes_of_the_set_an_hour": f"median {median(hours):.0f}, most {max(hours)}",
        "left_out_at_the_end": sum(day.left_out.values()),
        "left_out_why": [f"{count} {why}" for why, count in day.left_out.most_common()],
        "snapshot_bytes": day.snapshot_bytes,
        "restored_copies": day.copies,
        "faults": dict(day.faults),
        "wrong": wrong,
    }


def main(arguments: list[str] | None = None) -> int:
    """Run the simulation; return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--hours", type=between(0.1, 240), default=24, metavar="H", help="farm time (default: 24)")
    parser.add_argument("--leaves", type=between(0, 4000), default=1000, metavar="N", help="members (default: 1000)")
    parser.add_argument("--servers", type=between(1, 9), default=5, metavar="N", help="voters (default: 5)")
    parser.add_argument("--tree", choices=("best", "tree"), default="best", help="the choice with more than 16 leaves")
    parser.add_argument("--seed", type=int, default=None, metavar="S", help="the same seed is the same day")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    options = parser.parse_args(arguments)
    options.seed = options.seed or 1 + secrets.randbelow(10**9)
    say(f"seed {options.seed}")

    async def work() -> Figures:
        day = Day(options.hours, options.leaves, options.servers, options.tree, options.seed)
        began = time.monotonic()
        try:
            await asyncio.to_thread(day.run, say)
        finally:
            day.until = 0.0  # ends the thread soon if this process was told to stop
        return figures_of(day, options, time.monotonic() - began)

    return conclude(options, "day", work, limit=3600.0)


if __name__ == "__main__":
    sys.exit(main())
