"""What must hold in every farm, one class each: who publishes, what, and when. Judged from the log and from the truth.

To add one: a class whose docstring is the statement and where it stands, and its name in `FARM_RULES`.
"""

from collections import defaultdict, deque
from typing import TYPE_CHECKING, Final

from gf_i2p.farm.publisher import Choice
from gf_i2p.simulator.facts import Violation
from gf_i2p.simulator.ledger import FRESH_MS
from gf_i2p.simulator.office import LEASE, Announced
from gf_i2p.simulator.reporters import INTERVAL, MASTER_HASH

if TYPE_CHECKING:
    from gf_i2p.simulator.farm_watch import Watch

MOST_ENTRIES: Final = 16
SLACK: Final = 20.0
"""Seconds for what takes no time in theory: ticks, ways, posts that wait."""
HOUR: Final = 3600.0
SETTLED: Final = 4 * INTERVAL
"""A farm that begins, or goes on after a time without a leader, has found its time by then."""
MOST_ENTERINGS: Final = 8
"""A leaf comes into the set so often in an hour, at most: one that flaps waits twice as long each time."""


class FarmRule:
    """One of them. The methods are called when something has happened that one of that name may care for."""

    def __init__(self, watch: "Watch") -> None:
        self.watch = watch

    def violated(self, seen: str) -> Violation:
        """Return what to raise."""
        return Violation(type(self).__name__, f"after {self.watch.now:.0f} s, at {self.watch.ledger.index}: {seen}")

    def committed(self) -> None:
        """An entry is committed; the watch has taken it in."""

    def chose(self, server: int, index: int, choice: Choice) -> None:
        """A server has made this choice by its log up to `index`."""

    def kept(self, server: int, index: int, data: bytes) -> None:
        """A server's state at this index is `data`."""

    def gives(self, server: int, applied: int, announced: Announced) -> None:
        """A server that has applied so much gives a set to its router."""

    def passes(self) -> None:
        """Some seconds have passed."""

    def ends(self) -> None:
        """Nothing has happened for minutes but records."""


class SameFarmChoice(FarmRule):
    """Servers that have applied the same log make the same choice, also after a restart (Proposal 150; DESIGN 4)."""

    def __init__(self, watch: "Watch") -> None:
        super().__init__(watch)
        self._choices: list[Choice] = []

    def committed(self) -> None:
        self._choices.append(self.watch.choice)

    def chose(self, server: int, index: int, choice: Choice) -> None:
        ours = self._choices[index - 1]
        if choice != ours:
            raise self.violated(f"at {index} server {server} chooses {choice}, and another one {ours}")


class SameFarmBytes(FarmRule):
    """Servers that have applied the same log keep the same bytes as a snapshot (DESIGN 4)."""

    def __init__(self, watch: "Watch") -> None:
        super().__init__(watch)
        self._states: dict[int, bytes] = {}

    def kept(self, server: int, index: int, data: bytes) -> None:
        if index == self.watch.ledger.index:
            self._states.setdefault(index, self.watch.state.encode())
        if self._states.setdefault(index, data) != data:
            raise self.violated(f"server {server} has another state at {index} than another server had")

    def ends(self) -> None:
        ours = self.watch.state.encode()
        for node in self.watch.brain.servers:
            if node.applied == self.watch.ledger.index and node.state.encode() != ours:
                raise self.violated(f"server {node.id} ends with another state than the log's")


class SetSize(FarmRule):
    """No set has more than 16 entries, or than administrators allow (i2p-facts; DESIGN 4)."""

    def committed(self) -> None:
        most = self.watch.ledger.parameter("maxEntries", MOST_ENTRIES)
        choice = self.watch.choice
        for entries in (choice.entries, *(branch.entries for branch in choice.branches)):
            if len(entries) > most:
                raise self.violated(f"a set has {len(entries)} entries, and {most} are allowed")


class Excluded(FarmRule):
    """No set lists a leaf from the entry on that excludes it (issue: exclusion acts at once)."""

    def committed(self) -> None:
        self._check(_hashes(self.watch.choice))

    def gives(self, server: int, applied: int, announced: Announced) -> None:
        if applied == self.watch.ledger.index:
            self._check({entry.hash for entry in announced.entries})

    def _check(self, hashes: set[bytes]) -> None:
        found = hashes & self.watch.ledger.excluded
        if found:
            raise self.violated(f"leaf {min(found).hex()} is listed, and excluded")


class PublishedRises(FarmRule):
    """`published` is greater in every set than in those that were announced before it (DESIGN 4).

    Otherwise the netDb keeps the old one.
    """

    def __init__(self, watch: "Watch") -> None:
        super().__init__(watch)
        self._given: list[tuple[int, int]] = []  # index of the announcement, version

    def gives(self, server: int, applied: int, announced: Announced) -> None:
        this = (self.watch.ledger.announced.get((server, announced.version_ms), 0), announced.version_ms)
        for index, version in self._given[-20:]:
            if (index < this[0]) != (version < this[1]):
                raise self.violated(
                    f"server {server} gives {this[1]}, announced at {this[0]}; {version} was at {index}"
                )
        self._given.append(this)


class AnnouncedFirst(FarmRule):
    """Nobody gives a set that he has not announced in the log, and applied there (DESIGN 4)."""

    def gives(self, server: int, applied: int, announced: Announced) -> None:
        index = self.watch.ledger.announced.get((server, announced.version_ms))
        if index is None or index > applied:
            raise self.violated(
                f"server {server} has applied {applied} and gives {announced.version_ms}, announced at {index}"
            )


class ChosenGives(FarmRule):
    """Nobody gives a set whom the log as he has applied it does not name, or who is no server (DESIGN 4)."""

    def gives(self, server: int, applied: int, announced: Announced) -> None:
        chosen = self.watch.publisher_at(applied)
        if chosen != server:
            raise self.violated(f"server {server} gives a set at {applied}, where {chosen} is chosen")


class WithinLease(FarmRule):
    """Nobody gives a set when its announcement was posted longer ago than its lease (DESIGN 4)."""

    def gives(self, server: int, applied: int, announced: Announced) -> None:
        age = self.watch.now - announced.posted
        if age > LEASE:
            raise self.violated(f"server {server} gives a set {age:.0f} s after it was posted")


class WakesUp(FarmRule):
    """Who was stopped for a while gives nothing that it had posted before (issue: the publisher's lease)."""

    def gives(self, server: int, applied: int, announced: Announced) -> None:
        resumed = self.watch.resumed.get(server)
        if resumed is not None and announced.posted <= resumed:
            raise self.violated(
                f"server {server} gives what it had posted {resumed - announced.posted:.0f} s before it woke up"
            )


class Overlap(FarmRule):
    """Who is not chosen any more stops within its lease, though it may not hear of it (DESIGN 4)."""

    def passes(self) -> None:
        watch = self.watch
        for node in watch.brain.servers:
            serving = node.office.serving is not None and node.up and not node.paused
            if serving and watch.choice.publisher != node.id:
                since = max(watch.changed_at, watch.resumed.get(node.id, 0.0))
                if watch.now - since > LEASE + SLACK:
                    raise self.violated(
                        f"server {node.id} publishes {watch.now - since:.0f} s after it lost the office"
                    )


class PublisherIsCandidate(FarmRule):
    """No publisher is stale by farm time, or ahead of it, down, turned off, silent, or out of the farm (DESIGN 4)."""

    def committed(self) -> None:
        publisher, before = self.watch.choice.publisher, self.watch.before.publisher
        why = None if publisher is None else self.watch.ledger.objection(publisher, in_office=publisher == before)
        if why is not None:
            raise self.violated(f"server {publisher} is chosen, and {why}")


class OthersMode(FarmRule):
    """Who would publish in another mode than most servers is not chosen (DESIGN 4: the netDb has one slot)."""

    def committed(self) -> None:
        publisher, mode = self.watch.choice.publisher, self.watch.ledger.mode
        if publisher is not None and mode is not None and self.watch.ledger.said[publisher].mode != mode:
            raise self.violated(f"server {publisher} is chosen, and most servers are in mode {mode}")


class MovedAndDrained(FarmRule):
    """The office goes where administrators move it, and to a drained server only for want of others (issue).

    At once when they say so; to a server that can publish again, when that has lasted for as long as a record is fresh.
    """

    def __init__(self, watch: "Watch") -> None:
        super().__init__(watch)
        self._since: dict[int, float] = {}
        """Of those that can publish, for how long they could."""
        self._said: tuple[int | None, set[int]] = (None, set())

    def committed(self) -> None:
        watch, ledger = self.watch, self.watch.ledger
        said = (ledger.moved_to, set(ledger.drained))
        told, self._said = said != self._said, said
        able = [each for each in ledger.candidates() if each not in watch.wrong]
        self._since = {server: self._since.get(server, watch.now) for server in able}
        wait = 0.0 if told else ledger.parameter("freshMs", FRESH_MS) / 1000 + SETTLED
        settled = [
            each
            for each in able
            if watch.now - self._since[each] >= wait and watch.now - ledger.said[each].at < FRESH_MS / 2000
        ]
        moved, publisher = ledger.moved_to, watch.choice.publisher
        if moved in settled and moved not in ledger.drained and publisher != moved:
            raise self.violated(f"server {publisher} is chosen, and administrators want {moved}, which could")
        if publisher in ledger.drained:
            others = [each for each in settled if each not in ledger.drained]
            if others:
                raise self.violated(f"server {publisher} is chosen, which is drained, and {others} could")


class GoodStays(FarmRule):
    """A good publisher is not unseated, whatever clocks of a minority say (issue; DESIGN 4).

    Good: nothing in the log speaks against it, it has posted lately, and its clock is right. It goes only when an
    administrator, an "on" or a clearly better score wants another one.
    """

    def committed(self) -> None:
        watch, ledger = self.watch, self.watch.ledger
        old, new = watch.before.publisher, watch.choice.publisher
        if old is None or old == new or old not in ledger.servers or self._is_wanted(old, new):
            return
        said = ledger.said.get(old)
        if said is None or not said.router_up or not said.publishes or old in ledger.accused:
            return
        if ledger.mode is None or said.mode != ledger.mode:
            return
        right = [server for server in ledger.said if server not in watch.wrong]
        if 2 * len(right) <= len(ledger.servers):  # too few have posted yet
            return
        if old in watch.wrong or watch.now - said.at > 2 * INTERVAL + SLACK:
            return
        raise self.violated(
            f"server {old} loses the office to {new} though it is good; wrong clocks: {sorted(watch.wrong)}"
        )

    def _is_wanted(self, old: int, new: int | None) -> bool:
        watch, ledger = self.watch, self.watch.ledger
        if old in ledger.drained or ledger.moved_to is not None:
            return True
        if new is None:
            return False
        if ledger.said[new].publish == "on" != ledger.said[old].publish:
            return True
        scores = watch.choice.scores
        better = scores[new].total - scores[old].total if new in scores and old in scores else 0
        hold = ledger.parameter("holdMs", 600_000) / 1000
        return bool(better >= ledger.parameter("margin", 50) and watch.held >= hold - SETTLED)


class DeadReplaced(FarmRule):
    """A publisher that is gone is replaced when its records are no longer fresh, if another server can (DESIGN 4)."""

    def passes(self) -> None:
        watch = self.watch
        publisher = watch.choice.publisher
        bound = watch.ledger.parameter("freshMs", FRESH_MS) / 1000 + 2 * INTERVAL + SLACK
        if watch.now - max(watch.flows_since, watch.changed_at) < bound:
            return
        able = [server for server in watch.good_since if watch.good_for(server) >= bound]
        if not able:
            return
        if publisher is None:
            raise self.violated(f"nobody publishes, and {able} could for {bound:.0f} s")
        away = watch.brain.nodes[publisher].away_since
        if away is not None and watch.now - away > bound:
            raise self.violated(f"server {publisher} is gone for {watch.now - away:.0f} s, chosen, and {able} could")


class AccusedReplaced(FarmRule):
    """A publisher of which its leader hears nothing is replaced at once, if another server can (issue)."""

    def committed(self) -> None:
        watch = self.watch
        publisher = watch.before.publisher
        if publisher in watch.ledger.accused and watch.choice.publisher == publisher:
            raise self.violated(f"server {publisher} is accused, and still chosen")


class FlapsBounded(FarmRule):
    """A leaf that comes and goes does not make the set come and go, while another one is steady (issue: damping)."""

    def __init__(self, watch: "Watch") -> None:
        super().__init__(watch)
        self._listed: set[bytes] = set()
        self._entered: dict[bytes, deque[float]] = defaultdict(deque)
        self._settings: object = None

    def committed(self) -> None:
        watch = self.watch
        steady = {
            leaf.hash
            for node in watch.brain.servers
            if node.id not in watch.ever_bad
            for leaf in node.poster.leaves
            if not leaf.ever_down
        }
        settings = (watch.ledger.parameters.copy(), watch.ledger.excluded.copy(), watch.choice.publisher)
        listed = _hashes(watch.choice)
        # When nothing else is left the set has what comes and goes.
        if settings == self._settings and steady & self._listed & listed:
            for leaf in listed - self._listed:
                times = self._entered[leaf]
                times.append(watch.now)
                while times[0] < watch.now - HOUR:
                    times.popleft()
                if len(times) > MOST_ENTERINGS:
                    raise self.violated(f"leaf {leaf.hex()} came into the set {len(times)} times within an hour")
        self._listed, self._settings = listed, settings


class NotItsOwnLeaf(FarmRule):
    """No set lists its own master, nor the master of a farm that leads back to it (DESIGN 4; issue: trees)."""

    def committed(self) -> None:
        leaves = self.watch.ledger.leaves()
        for leaf in _hashes(self.watch.choice):
            _, _, below = leaves.get(leaf, (True, 3, ()))
            if leaf == MASTER_HASH or MASTER_HASH in below:
                raise self.violated(f"leaf {leaf.hex()} is the master, or leads to it")


class SteadyIsListed(FarmRule):
    """A leaf that has never been down, of a server that was always good, is listed while there is room (issue)."""

    def passes(self) -> None:
        watch = self.watch
        if watch.choice.publisher is None or watch.now - watch.flows_since < SETTLED:
            return
        leaves = watch.ledger.leaves()
        if len(leaves) > watch.ledger.parameter("maxEntries", MOST_ENTRIES):
            return
        listed = _hashes(watch.choice)
        for node in watch.brain.servers:
            if node.id in watch.ever_bad or node.id not in watch.ledger.said:
                continue
            for leaf in node.poster.leaves:
                odd = leaf.hash == MASTER_HASH or MASTER_HASH in leaf.below
                if not leaf.ever_down and not odd and leaf.hash not in watch.ledger.excluded | listed:
                    why = watch.choice.left_out.get(leaf.hash)
                    raise self.violated(f"leaf {leaf.hash.hex()} was always up, and is not listed: {why}")


class AllAreKnown(FarmRule):
    """Every known leaf is in the set, or left out with a reason, and not both (issue: status says so)."""

    def committed(self) -> None:
        choice = self.watch.choice
        if choice.publisher is None:
            return
        listed, left_out = _hashes(choice), set(choice.left_out)
        known = set(self.watch.ledger.leaves())
        if listed & left_out:
            raise self.violated(f"leaf {min(listed & left_out).hex()} is listed and left out")
        missing = known - listed - left_out
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
    WithinLease,
    WakesUp,
    Overlap,
    PublisherIsCandidate,
    OthersMode,
    MovedAndDrained,
    GoodStays,
    DeadReplaced,
    AccusedReplaced,
    FlapsBounded,
    NotItsOwnLeaf,
    SteadyIsListed,
    AllAreKnown,
)
"""All of them."""
