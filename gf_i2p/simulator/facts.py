"""What the simulator knows of a run and no server does: all logs, in memory and on disk, and what was committed."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from gf_i2p.raft.effects import HardState, Snapshot, Write
from gf_i2p.wire.entries import Entry, ValueType
from gf_i2p.wire.log_values import Configuration
from gf_i2p.wire.messages import NOBODY

Members = tuple[int, ...]


class Violation(Exception):  # noqa: N818 -- it is what a run is looked at for, and no mistake of ours
    """An invariant does not hold; `str()` says what was seen."""

    def __init__(self, invariant: str, seen: str) -> None:
        super().__init__(f"{invariant}: {seen}")
        self.invariant = invariant
        self.seen = seen

    def __reduce__(self) -> tuple[type["Violation"], tuple[str, str]]:
        return Violation, (self.invariant, self.seen)  # to come out of another process


class ShadowLog:
    """A log as its writes make it: entries 1 to `last_index`, also those that the server has dropped.

    What a server has dropped, or never had because it began with a snapshot, is known all the same: it was committed.
    """

    __slots__ = ("_entries", "base", "snapshot")

    def __init__(self, entries: Iterable[Entry] = ()) -> None:
        self._entries = list(entries)
        self.base = 0
        """Up to here the server has dropped the entries."""
        self.snapshot: Snapshot | None = None
        """The one that it has; None also when that is damaged."""

    @property
    def last_index(self) -> int:
        """Index of the last entry; 0 when there is none."""
        return len(self._entries)

    def term(self, index: int) -> int:
        """Term of the entry at that index; 0 where there is none."""
        return self._entries[index - 1].term if 1 <= index <= len(self._entries) else 0

    def slice(self, first: int, last: int) -> Sequence[Entry]:
        """Entries from `first` to `last`, as far as they are there."""
        return self._entries[first - 1 : last]

    def take(self, write: Write, committed: Sequence[Entry]) -> None:
        """Do what a write says. `committed`: by index, from 1; a snapshot takes the place of those that it covers."""
        if write.entries:
            self._entries[write.first_index - 1 :] = write.entries
        if write.snapshot is not None:
            self.snapshot = write.snapshot
            if write.install:
                self._entries[:] = committed[: write.snapshot.index]
                self.base = write.snapshot.index
        self.base = max(self.base, write.drop)

    def copy(self) -> "ShadowLog":
        """Return another one with the same content."""
        other = ShadowLog(self._entries)
        other.base, other.snapshot = self.base, self.snapshot
        return other

    def runs(self) -> tuple[tuple[int, int], ...]:
        """Return (first index, term) of each run of one term, as a storage has them: the base's first."""
        entries, base = self._entries, self.base
        return (
            *(((base, self.term(base)),) if base else ()),
            *(
                (index, entry.term)
                for index, entry in enumerate(entries[base:], base + 1)
                if index == 1 or entries[index - 2].term != entry.term
            ),
        )


@dataclass(slots=True)
class ServerFacts:
    """One server."""

    id: int
    bootstrap: Members
    """Whom it begins with: nobody, when it was added later."""
    memory: ShadowLog = field(default_factory=ShadowLog)
    """Its log as its core has it: what is not durable included."""
    durable: ShadowLog = field(default_factory=ShadowLog)
    """What would be left after a crash."""
    hard_state: HardState = field(default_factory=lambda: HardState(0, NOBODY))
    """The same of term and vote."""
    up: bool = False
    term: int = 0
    leads: bool = False
    commit: int = 0
    configurations: list[tuple[int, Members]] = field(default_factory=list)
    """Of the log in memory: index and servers."""

    @property
    def members(self) -> Members:
        """The servers that count for it."""
        return self.configurations[-1][1] if self.configurations else self.bootstrap

    def take(self, write: Write, committed: Sequence[Entry]) -> None:
        """Its log in memory changes. See `ShadowLog.take`."""
        self.memory.take(write, committed)
        if write.install:
            self._find_configurations()
        elif write.entries:
            self.configurations = [item for item in self.configurations if item[0] < write.first_index]
            self.configurations += _configurations(write.entries, write.first_index)

    def make_durable(self, writes: Iterable[Write], committed: Sequence[Entry]) -> None:
        """Writes have come to its disk."""
        for write in writes:
            if write.hard_state is not None:
                self.hard_state = write.hard_state
            self.durable.take(write, committed)

    def restart(self) -> None:
        """What was not durable is gone."""
        self.memory = self.durable.copy()
        self._find_configurations()
        self.up = True
        self.term, self.leads = self.hard_state.term, False
        self.commit = self.memory.base if self.memory.snapshot is None else self.memory.snapshot.index

    def _find_configurations(self) -> None:
        self.configurations = _configurations(self.memory.slice(1, self.memory.last_index), 1)


def _configurations(entries: Sequence[Entry], first: int) -> list[tuple[int, Members]]:
    return [
        (index, members_of(entry))
        for index, entry in enumerate(entries, first)
        if entry.value_type is ValueType.CONFIGURATION
    ]


@dataclass(slots=True)
class Facts:
    """The farm."""

    servers: dict[int, ServerFacts]
    committed: list[Entry] = field(default_factory=list)
    """Every entry that any server has ever held for committed, by index from 1."""
    marks: list[tuple[int, int]] = field(default_factory=list)
    """(index, term): up to this index they were committed in this term."""


def members_of(entry: Entry) -> Members:
    """Return the servers that a Configuration names."""
    return _members(entry.value)


@lru_cache(maxsize=256)
def _members(value: bytes) -> Members:
    return tuple(server.id for server in Configuration.decode(value).servers)
