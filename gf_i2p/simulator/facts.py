"""What the simulator knows of a run and no server does: all logs, in memory and on disk, and what was committed."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from gf_i2p.raft.effects import HardState
from gf_i2p.wire.entries import Entry, ValueType
from gf_i2p.wire.messages import NOBODY
from gf_i2p.wire.values import Configuration

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
    """A log as its writes make it: entries 1 to `last_index`.

    A snapshot will take its beginning away: everything here goes through these methods, so that only they must know.
    """

    __slots__ = ("_entries",)

    def __init__(self, entries: Iterable[Entry] = ()) -> None:
        self._entries = list(entries)

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

    def replace_from(self, first: int, entries: Sequence[Entry]) -> None:
        """Cut before `first`, and append."""
        self._entries[first - 1 :] = entries

    def copy(self) -> "ShadowLog":
        """Return another one with the same entries."""
        return ShadowLog(self._entries)

    def runs(self) -> tuple[tuple[int, int], ...]:
        """Return (first index, term) of each run of one term."""
        entries = self._entries
        return tuple(
            (i + 1, entry.term) for i, entry in enumerate(entries) if not i or entries[i - 1].term != entry.term
        )


@dataclass(slots=True)
class ServerFacts:
    """One server."""

    id: int
    bootstrap: Members
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

    def write(self, first: int, entries: Sequence[Entry]) -> None:
        """Its log in memory is cut before `first` and continued."""
        self.memory.replace_from(first, entries)
        self.configurations = [item for item in self.configurations if item[0] < first]
        self.configurations += [
            (index, members_of(entry))
            for index, entry in enumerate(entries, first)
            if entry.value_type is ValueType.CONFIGURATION
        ]

    def restart(self) -> None:
        """What was not durable is gone."""
        entries = self.durable.slice(1, self.durable.last_index)
        self.memory = ShadowLog()
        self.configurations = []
        self.write(1, entries)
        self.up = True
        self.term, self.leads, self.commit = self.hard_state.term, False, 0


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
