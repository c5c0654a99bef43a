"""The rules that hold in every farm's life, one class each: about the publisher, the sets, and their times.

The rules judge by the `Ledger` of the log, and by the true state of the simulated servers. To add a rule: write a
class, state the rule and its source in the docstring, and add the class to `FARM_RULES`.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from gf_i2p.farm.choice.publisher import Choice
from gf_i2p.farm.record.status_record import FIRST_LEAF_MEMBER_ID
from gf_i2p.simulator.facts import Violation, Voters
from gf_i2p.simulator.life.ledger import AHEAD_MS, FRESH_MS, LEASE, PostedRecord
from gf_i2p.simulator.life.publisher import GivenSet
from gf_i2p.simulator.life.reporters import INTERVAL, MASTER_HASH

if TYPE_CHECKING:
    from gf_i2p.simulator.life.checker import LifeChecker

MOST_ENTRIES: Final = 16
SLACK: Final = 20.0
"""Seconds that the rules allow for ticks, messages on the way, and posts that wait."""
STOP_SECONDS: Final = 30.0
"""Seconds within which a server stops: for the next step of the machine, and for the router's answer."""
SETTLED: Final = 4 * INTERVAL
"""Seconds after which farm time is right, counted from the beginning or from the end of a time without a leader."""
MOST_FLAPS: Final = 12
"""Most flaps of a leaf that the rule counts."""


class FarmRule:
    """One rule. The checker calls each method at the event that the method's docstring tells.

    A rule defines only the methods that it needs, and raises `Violation`.
    """

    def __init__(self, checker: "LifeChecker") -> None:
        self.checker = checker

    def violated(self, observation: str) -> Violation:
        """Return the error that the rule must raise. `observation`: a clause that tells what was observed."""
        return Violation(
            type(self).__name__, f"after {self.checker.now:.0f} s, at {self.checker.ledger.index}: {observation}"
        )

    def committed(self) -> None:
        """Called when an entry is committed, and the checker has applied the entry to its state and its ledger."""

    def chose(self, server: int, index: int, choice: Choice) -> None:
        """Called when a server has made a choice by its log up to `index`."""

    def kept(self, server: int, index: int, data: bytes) -> None:
        """Called when a server keeps or restores a snapshot of its state at this index. `data`: the snapshot."""

    def gives(self, server: int, applied: int, lease_set: GivenSet) -> None:
        """Called when a server, which has applied the log up to `applied`, gives a set to its router."""

    def passes(self) -> None:
        """Called every few seconds."""

    def ends(self) -> None:
        """Called when the run ends, after minutes without faults."""


class SameFarmChoice(FarmRule):
    """Servers that have applied the same log make the same choice, also after a restart (Proposal 150)."""

    def __init__(self, checker: "LifeChecker") -> None:
        super().__init__(checker)
        self._choices: list[Choice] = []

    def committed(self) -> None:
        self._choices.append(self.checker.choice)

    def chose(self, server: int, index: int, choice: Choice) -> None:
        log_choice = self._choices[index - 1]
        if choice != log_choice:
            raise self.violated(f"at {index} server {server} chooses {choice}, but the whole log gives {log_choice}")


class SameFarmBytes(FarmRule):
    """Servers that have applied the same log keep the same bytes as a snapshot (docs/design/simulator.md)."""

    def __init__(self, checker: "LifeChecker") -> None:
        super().__init__(checker)
        self._states: dict[int, bytes] = {}

    def kept(self, server: int, index: int, data: bytes) -> None:
        if index == self.checker.ledger.index:
            self._states.setdefault(index, self.checker.state.encode())
        if self._states.setdefault(index, data) != data:
            raise self.violated(f"server {server} has a state at {index} that differs from another server's")

    def ends(self) -> None:
        log_state = self.checker.state.encode()
        for node in self.checker.life.servers:
            if node.applied == self.checker.ledger.index and node.state.encode() != log_state:
                raise self.violated(f"server {node.id} ends with a state that differs from the log's")


class SetSize(FarmRule):
    """No set has more entries than `maxEntries`, 16 unless administrators set another limit.

    docs/explanation/publisher-choice.md, "Which leaves".
    """

    def committed(self) -> None:
        limit = self.checker.ledger.parameter("maxEntries", MOST_ENTRIES)
        choice = self.checker.choice
        for entries in (choice.entries, *(branch.entries for branch in choice.branches)):
            if len(entries) > limit:
                raise self.violated(f"a set has {len(entries)} entries, but the limit is {limit}")


class Excluded(FarmRule):
    """No set lists an excluded leaf: the administrator's entry acts at once (docs/explanation/publisher-choice.md)."""

    def committed(self) -> None:
        self._check(_hashes(self.checker.choice))

    def gives(self, server: int, applied: int, lease_set: GivenSet) -> None:
        if applied == self.checker.ledger.index:
            self._check({entry.hash for entry in lease_set.entries})

    def _check(self, hashes: set[bytes]) -> None:
        excluded = hashes & self.checker.ledger.excluded
        if excluded:
            raise self.violated(f"leaf {min(excluded).hex()} is listed, but administrators have excluded the leaf")


class PublishedRises(FarmRule):
    """`published` is greater in every set than in the sets that were announced before.

    Otherwise the netDb keeps the old set (ARCHITECTURE.md, "The path of a lease set").
    """

    def __init__(self, checker: "LifeChecker") -> None:
        super().__init__(checker)
        self._versions: list[tuple[int, int]] = []  # index of the announcement, version

    def gives(self, server: int, applied: int, lease_set: GivenSet) -> None:
        new_index = self.checker.ledger.announced.get((server, lease_set.version_ms), 0)
        new_version = lease_set.version_ms
        for index, version in self._versions[-20:]:
            if (index < new_index) != (version < new_version):
                raise self.violated(
                    f"server {server} gives version {new_version}, announced at entry {new_index}, but version "
                    f"{version} was announced at entry {index}"
                )
        self._versions.append((new_index, new_version))


class AnnouncedFirst(FarmRule):
    """A server gives a set only after the server has applied the set's announcement.

    ARCHITECTURE.md, "The path of a lease set".
    """

    def gives(self, server: int, applied: int, lease_set: GivenSet) -> None:
        index = self.checker.ledger.announced.get((server, lease_set.version_ms))
        if index is None or index > applied:
            raise self.violated(
                f"server {server} has applied the log up to {applied}, but gives version {lease_set.version_ms}, "
                f"announced at entry {index}"
            )


class ChosenGives(FarmRule):
    """A server gives a set only if the log that the server has applied names the server as publisher.

    ARCHITECTURE.md, "The path of a lease set".
    """

    def gives(self, server: int, applied: int, lease_set: GivenSet) -> None:
        publisher = self.checker.publisher_at(applied)
        if publisher != server:
            raise self.violated(f"server {server} gives a set at entry {applied}, but there {publisher} is chosen")


class WithinLease(FarmRule):
    """No server gives a set whose announcement was posted longer ago than the lease (docs/design/publishing.md)."""

    def gives(self, server: int, applied: int, lease_set: GivenSet) -> None:
        age = self.checker.now - lease_set.posted
        if age > LEASE:
            raise self.violated(f"server {server} gives a set {age:.0f} s after posting the announcement")


class WakesUp(FarmRule):
    """After a pause of more than `PAUSE` seconds, a server gives no set that was announced before the pause's end.

    docs/design/publishing.md, "A process that stood still gives nothing".
    """

    def gives(self, server: int, applied: int, lease_set: GivenSet) -> None:
        resumed = self.checker.resumed.get(server)
        if resumed is not None and lease_set.posted <= resumed:
            raise self.violated(
                f"server {server} gives a set whose announcement was posted {resumed - lease_set.posted:.0f} s before "
                "the end of the server's pause"
            )


class Overlap(FarmRule):
    """A replaced publisher stops within its lease, even without news of the change (docs/design/publishing.md)."""

    def passes(self) -> None:
        checker = self.checker
        for node in checker.life.servers:
            serving = node.publisher.publishes and node.up and not node.paused
            if serving and checker.choice.publisher != node.id:
                since = max(checker.changed_at, checker.resumed.get(node.id, 0.0))
                if checker.now - since > LEASE + SLACK:
                    raise self.violated(
                        f"server {node.id} publishes {checker.now - since:.0f} s after the farm chose another"
                    )


class StopsWhenTold(FarmRule):
    """A server that knows of another publisher soon stops: the lease is only for a server without news.

    docs/design/publishing.md.
    """

    def __init__(self, checker: "LifeChecker") -> None:
        super().__init__(checker)
        self._since: dict[int, float] = {}
        """Since when each server publishes and knows of another publisher: true seconds, by server id."""

    def passes(self) -> None:
        for node in self.checker.life.servers:
            told = node.up and not node.paused and node.state.choice.publisher != node.id
            if not told or not node.publisher.publishes:
                self._since.pop(node.id, None)
            elif self.checker.now - self._since.setdefault(node.id, self.checker.now) > STOP_SECONDS:
                raise self.violated(
                    f"server {node.id} publishes {STOP_SECONDS:.0f} s after it has read that "
                    f"{node.state.choice.publisher} is chosen"
                )


class PublisherIsCandidate(FarmRule):
    """The publisher is a fresh, reachable server of the farm: not far ahead of farm time, not off, its router is up.

    docs/explanation/publisher-choice.md, "Who can publish".
    """

    def committed(self) -> None:
        publisher, previous = self.checker.choice.publisher, self.checker.previous.publisher
        if publisher is None:
            return
        objection = self.checker.ledger.objection(publisher, is_publisher=publisher == previous)
        if objection is not None:
            raise self.violated(f"server {publisher} is chosen, but {objection}")


class OthersMode(FarmRule):
    """No server with another mode than most servers is chosen, because the netDb has one place for a destination.

    docs/explanation/publisher-choice.md, "Who can publish".
    """

    def committed(self) -> None:
        publisher, mode = self.checker.choice.publisher, self.checker.ledger.mode
        if publisher is not None and mode is not None and self.checker.ledger.records[publisher].mode != mode:
            raise self.violated(f"server {publisher} is chosen, but most servers are in mode {mode}")


class MovedAndDrained(FarmRule):
    """No server is chosen while a server of better rank can publish. `Ledger.rank` compares without the scores.

    An administrator's entry changes the publisher at once. A server that becomes able to publish is chosen only after
    `freshMs` (docs/explanation/publisher-choice.md). The rule counts only servers that can surely publish:
    `Ledger.is_sure`.
    """

    def __init__(self, checker: "LifeChecker") -> None:
        super().__init__(checker)
        self._since: dict[int, int] = {}
        """The servers that can publish: by id, the value of `Ledger.lasted_ms` since which the server can publish."""
        self._last_orders: tuple[object, ...] = ()

    def committed(self) -> None:
        ledger, publisher = self.checker.ledger, self.checker.choice.publisher
        orders = (ledger.moved_to, set(ledger.drained))
        orders_changed = self._last_orders[1:] == (ledger.servers,) and self._last_orders[0] != orders
        self._last_orders = (orders, ledger.servers)
        able = [server for server in ledger.servers if ledger.is_sure(server)]
        self._since = {server: self._since.get(server, ledger.lasted_ms) for server in able}
        wait = 0 if orders_changed else ledger.parameter("freshMs", FRESH_MS)
        settled = [each for each in able if ledger.lasted_ms - self._since[each] >= wait]
        first = min(settled, key=ledger.rank, default=None)
        if first is not None and publisher in ledger.records and ledger.rank(first) < ledger.rank(publisher):
            raise self.violated(
                f"server {publisher} is chosen, but server {first} has a better rank; moved to {ledger.moved_to}, "
                f"drained {sorted(ledger.drained)}"
            )


class GoodStays(FarmRule):
    """A good publisher is not replaced, whatever the clocks of a minority say (docs/explanation/publisher-choice.md).

    A good publisher is a sure candidate (`Ledger.is_sure`), or has posted lately by a right clock and the log has
    nothing against it. It loses only to a server of better rank (`Ledger.rank`), or to a better score. The score must
    have been higher by more than `margin` for `freshMs`, and the publisher must have published for `holdMs`.
    `Ledger.risen_ms` measures both times: the farm's stopwatch never runs faster.
    """

    def __init__(self, checker: "LifeChecker") -> None:
        super().__init__(checker)
        self._began_ms = 0
        """The value of `Ledger.risen_ms` when the publisher was chosen."""
        self._beaten_ms: int | None = None
        """The value of `Ledger.risen_ms` since which another server's score is higher by more than the margin; None: no
        score is."""

    def committed(self) -> None:
        checker, ledger = self.checker, self.checker.ledger
        old, new = checker.previous.publisher, checker.choice.publisher
        if old is not None and old != new and self._is_good(old) and not self._may_replace(old, new):
            raise self.violated(
                f"server {new} replaces {old} as publisher though {old} is good; wrong clocks: "
                f"{sorted(checker.wrong_clocks)}"
            )
        if old != new:
            self._began_ms, self._beaten_ms = ledger.risen_ms, None
        scores = checker.choice.scores
        best = max((scores[server].total for server in scores if server != new), default=0)
        if new is None or new not in scores or best - scores[new].total <= ledger.parameter("margin", 50):
            self._beaten_ms = None
        elif self._beaten_ms is None:
            self._beaten_ms = ledger.risen_ms

    def _is_good(self, old: int) -> bool:
        checker, ledger = self.checker, self.checker.ledger
        record = ledger.records.get(old)
        if old not in ledger.servers or record is None:
            return False
        if ledger.is_sure(old):
            return True
        if not record.router_up or not record.publishes or old in ledger.accused or old in checker.wrong_clocks:
            return False
        if ledger.mode is None or record.mode != ledger.mode:
            return False
        max_age = min(2 * INTERVAL + SLACK, ledger.parameter("freshMs", FRESH_MS) / 1000 - SLACK)
        max_clock_age = min(2 * INTERVAL + SLACK, ledger.parameter("aheadMs", AHEAD_MS) / 1000 - SLACK)
        right_clocks = [
            server
            for server, other in ledger.records.items()
            if server not in checker.wrong_clocks and checker.now - other.at <= max_clock_age
        ]
        # Right clocks decide farm time only while a majority with right clocks posts. A silent server counts as wrong.
        return 2 * len(right_clocks) > len(ledger.servers) and checker.now - record.at <= max_age

    def _may_replace(self, old: int, new: int | None) -> bool:
        ledger, scores = self.checker.ledger, self.checker.choice.scores
        if new is None or new not in ledger.records:
            return False
        if ledger.rank(new) != ledger.rank(old):
            return ledger.rank(new) < ledger.rank(old)
        if self._beaten_ms is None or new not in scores or old not in scores:
            return False
        return bool(
            scores[new].total - scores[old].total > ledger.parameter("margin", 50)
            and ledger.risen_ms - self._beaten_ms >= ledger.parameter("freshMs", FRESH_MS)
            and ledger.risen_ms - self._began_ms >= ledger.parameter("holdMs", 600_000)
        )


class DeadReplaced(FarmRule):
    """An absent publisher is replaced when its records are no longer fresh, if another server can publish.

    docs/design/publishing.md, "The lease is 90 s".
    """

    def passes(self) -> None:
        checker = self.checker
        publisher = checker.choice.publisher
        bound = checker.ledger.parameter("freshMs", FRESH_MS) / 1000 + 2 * INTERVAL + SLACK
        if checker.now - max(checker.flows_since, checker.changed_at) < bound:
            return
        able = [server for server in checker.good_since if checker.good_for(server) >= bound]
        if not able:
            return
        if publisher is None:
            raise self.violated(f"nobody is chosen, but servers {able} could publish for {bound:.0f} s")
        away_since = checker.life.nodes[publisher].away_since
        if away_since is not None and checker.now - away_since > bound:
            raise self.violated(
                f"server {publisher} is away for {checker.now - away_since:.0f} s and still chosen, but servers {able} "
                "could publish"
            )


class AccusedReplaced(FarmRule):
    """A publisher that the leader reports as unreachable is replaced at once, if another server can publish.

    docs/design/publishing.md, "An accusation replaces a dead publisher quickly".
    """

    def committed(self) -> None:
        checker, ledger = self.checker, self.checker.ledger
        previous, publisher = checker.previous.publisher, checker.choice.publisher
        if previous is None or previous not in ledger.accused:
            return
        if publisher == previous:
            raise self.violated(f"server {previous} is reported as unreachable, but still chosen")
        others = [server for server in ledger.servers if ledger.is_sure(server)]
        if publisher is None and others:
            raise self.violated(
                f"server {previous} is reported as unreachable and nobody is chosen, but servers {others} could publish"
            )


@dataclass(slots=True)
class _Past:
    """The history of a leaf, by the log."""

    up: bool
    since_ms: int
    flaps: int
    proven: bool


class FlapsBounded(FarmRule):
    """A leaf that was down is listed again only after it was up for min(leafUpMs * 2^f, flapMs); f counts recent flaps.

    The rule holds while some listed leaf is steady (docs/explanation/publisher-choice.md, "Which leaves"): the leaf is
    up, and its poster is heard. Without a steady leaf, the set lists leaves that come and go. `Ledger.risen_ms`
    measures time. The farm's stopwatch never runs faster, so neither f nor the wait of this rule is above the farm's
    own. A leaf that was never down does not wait. When the servers change, leaves that no newest record names lose
    their history.

    A poster that was silent for longer than freshMs (a leaf member: 105 s at least), or accused for unheardMs, returns
    as if its leaves had been down until then. `Ledger.lasted_ms` measures these times: the farm's stopwatch never runs
    slower.
    """

    def __init__(self, checker: "LifeChecker") -> None:
        super().__init__(checker)
        self._listed: set[bytes] = set()
        self._past: dict[bytes, _Past] = {}
        self._servers: Voters = ()
        self._heard: dict[int, int] = {}  # by poster, `Ledger.lasted_ms` at its newest record
        self._accused: dict[int, int] = {}  # by accused server, `Ledger.lasted_ms` at the accusation

    def committed(self) -> None:
        ledger = self.checker.ledger
        if ledger.servers != self._servers:
            leaves = ledger.leaves()
            self._servers = ledger.servers
            self._past = {leaf: past for leaf, past in self._past.items() if leaf in leaves}
        steady: set[bytes] = set()
        for records in (ledger.records, ledger.member_records):
            for poster, record in records.items():
                if record.index == ledger.index:
                    self._take_in(record, interrupted=self._was_away(poster))
                    self._heard[poster] = ledger.lasted_ms
                is_heard = ledger.risen_ms - record.risen_ms <= ledger.parameter("freshMs", FRESH_MS)
                if is_heard and record.router_up and poster not in ledger.accused:
                    steady |= {leaf for leaf, (up, _, _) in record.leaves.items() if up}
        posters = ledger.records.keys() | ledger.member_records.keys()
        self._heard = {poster: at for poster, at in self._heard.items() if poster in posters}
        self._accused = {server: self._accused.get(server, ledger.lasted_ms) for server in ledger.accused}
        listed = _hashes(self.checker.choice)
        if steady & self._listed & listed:
            for leaf in sorted(listed - self._listed):
                self._check(leaf)
        self._listed = listed

    def _was_away(self, poster: int) -> bool:
        """Whether the poster was surely silent, or accused, for so long that its leaves count as having been down."""
        ledger = self.checker.ledger
        silence = ledger.lasted_ms - self._heard.get(poster, ledger.lasted_ms)
        accused = self._accused.get(poster)
        fresh_ms = ledger.parameter("freshMs", FRESH_MS)
        return bool(
            silence > (max(fresh_ms, FRESH_MS) if poster >= FIRST_LEAF_MEMBER_ID else fresh_ms)
            or (accused is not None and ledger.lasted_ms - accused >= ledger.parameter("unheardMs", 90_000))
        )

    def _take_in(self, record: PostedRecord, *, interrupted: bool) -> None:
        """Update the leaves' histories by a record. `interrupted`: whether the poster was away, see `_was_away`."""
        now = self.checker.ledger.risen_ms
        for leaf, (says_up, _, _) in record.leaves.items():
            up = says_up and record.router_up
            past = self._past.setdefault(leaf, _Past(up, now, 0, up))
            if past.up and (interrupted or not up):
                quiet = now - past.since_ms
                while past.flaps and quiet >= self._wait_ms(past.flaps):
                    quiet -= self._wait_ms(past.flaps)
                    past.flaps -= 1
                past.flaps, past.proven, past.since_ms = min(past.flaps + 1, MOST_FLAPS), False, now
            if past.up != up:
                past.up, past.since_ms = up, now

    def _wait_ms(self, flaps: int) -> int:
        ledger = self.checker.ledger
        return int(min(ledger.parameter("leafUpMs", 60_000) << flaps, ledger.parameter("flapMs", 1_800_000)))

    def _check(self, leaf: bytes) -> None:
        past = self._past[leaf]
        if not past.up:
            raise self.violated(f"leaf {leaf.hex()} comes into the set, but is down")
        lasted = self.checker.ledger.risen_ms - past.since_ms
        if not past.proven and lasted < self._wait_ms(past.flaps):
            raise self.violated(
                f"leaf {leaf.hex()} comes into the set after {lasted / 1000:.0f} s up, instead of "
                f"{self._wait_ms(past.flaps) / 1000:.0f} s for a leaf that went down {past.flaps} times lately"
            )


class NotItsOwnLeaf(FarmRule):
    """No set lists the farm's own master, nor the master of a farm that leads back to the own master.

    docs/explanation/publisher-choice.md, "Which leaves".
    """

    def committed(self) -> None:
        leaves = self.checker.ledger.leaves()
        for leaf in _hashes(self.checker.choice):
            _, _, below = leaves.get(leaf, (True, 3, ()))
            if leaf == MASTER_HASH or MASTER_HASH in below:
                raise self.violated(f"the listed leaf {leaf.hex()} is the master, or leads back to the master")


class SteadyIsListed(FarmRule):
    """A leaf that has never been down, of a poster that was never away, is listed while there is room.

    The poster's clock, mode and right to publish do not matter (docs/explanation/publisher-choice.md). The rule does
    not hold while nothing can be committed, nor shortly after that, because all posters have been silent.
    """

    def passes(self) -> None:
        checker, ledger = self.checker, self.checker.ledger
        if checker.choice.publisher is None or checker.now - checker.flows_since < SETTLED:
            return
        room = ledger.parameter("maxEntries", MOST_ENTRIES)
        if len(ledger.leaves()) > (room**2 if ledger.parameter("tree", "best") == "tree" else room):
            return
        listed = _hashes(checker.choice)
        for node in checker.life.nodes.values():
            if node.id in checker.ever_away or (node.id not in ledger.records and node.id not in ledger.member_records):
                continue
            for leaf in node.poster.leaves:
                odd = leaf.hash == MASTER_HASH or MASTER_HASH in leaf.below
                if not leaf.ever_down and not odd and leaf.hash not in ledger.excluded | listed:
                    reason = checker.choice.left_out.get(leaf.hash)
                    raise self.violated(f"leaf {leaf.hash.hex()} was always up, but is not listed: {reason}")


class AllAreKnown(FarmRule):
    """Each leaf that a record names is either listed, or left out with a reason (docs/design/simulator.md)."""

    def committed(self) -> None:
        choice = self.checker.choice
        if choice.publisher is None:
            return
        listed, left_out = _hashes(choice), set(choice.left_out)
        leaves = set(self.checker.ledger.leaves())
        if listed & left_out:
            raise self.violated(f"leaf {min(listed & left_out).hex()} is listed and left out")
        missing = leaves - listed - left_out
        if missing:
            raise self.violated(f"leaf {min(missing).hex()} is neither listed nor left out")
        if not all(choice.left_out.values()):
            raise self.violated("a leaf is left out without a reason")


def _hashes(choice: Choice) -> set[bytes]:
    return {entry.hash for entry in choice.listed}


FARM_RULES: Final[tuple[type[FarmRule], ...]] = (
    SameFarmChoice,
    SameFarmBytes,
    SetSize,
    Excluded,
    AnnouncedFirst,
    PublishedRises,
    ChosenGives,
    WakesUp,
    WithinLease,
    StopsWhenTold,
    Overlap,
    AccusedReplaced,
    PublisherIsCandidate,
    OthersMode,
    MovedAndDrained,
    GoodStays,
    DeadReplaced,
    FlapsBounded,
    NotItsOwnLeaf,
    SteadyIsListed,
    AllAreKnown,
)
"""All rules. Where one mistake breaks two rules, the narrower rule stands first."""
