"""The facts of a run that no server knows as a whole: all logs, in memory and on disk, and the committed entries."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

from gf_i2p.farm.choice.candidates import Setting
from gf_i2p.raft.effects import HardState, Snapshot, Write
from gf_i2p.raft.log import CACHE_BYTES
from gf_i2p.raft.settings import LAN, Flow, Timing
from gf_i2p.wire.entries import Entry, ValueType
from gf_i2p.wire.log_values import Configuration
from gf_i2p.wire.messages import NOBODY

Voters = tuple[int, ...]


class Violation(Exception):  # noqa: N818 -- a violation is a run's result, and no error of this code
    """An invariant does not hold; `str()` describes the observation."""

    def __init__(self, invariant: str, observation: str) -> None:
        super().__init__(f"{invariant}: {observation}")
        self.invariant = invariant
        self.observation = observation

    def __reduce__(self) -> tuple[type["Violation"], tuple[str, str]]:
        return Violation, (self.invariant, self.observation)  # so that another process can send a violation


class ShadowLog:
    """A log that follows from a server's writes: entries 1 to `last_index`, dropped entries included.

    Entries that a snapshot replaced stay known here: these entries were committed.
    """

    __slots__ = ("_entries", "base", "snapshot")

    def __init__(self, entries: Iterable[Entry] = ()) -> None:
        self._entries = list(entries)
        self.base = 0
        """Index of the last dropped entry; 0 for none."""
        self.snapshot: Snapshot | None = None
        """The server's snapshot; None also when the snapshot is damaged."""

    @property
    def last_index(self) -> int:
        """Index of the last entry; 0 for an empty log."""
        return len(self._entries)

    def term(self, index: int) -> int:
        """Return the term of the entry at that index; 0 without an entry."""
        return self._entries[index - 1].term if 1 <= index <= len(self._entries) else 0

    def slice(self, first: int, last: int) -> Sequence[Entry]:
        """Return the log's entries from index `first` to index `last`, both included; fewer at the log's end."""
        return self._entries[first - 1 : last]

    def take(self, write: Write, committed: Sequence[Entry]) -> None:
        """Take in a write. `committed`: the farm's committed entries from index 1 on.

        An installed snapshot holds no entries, so the log gets the entries that the snapshot covers from `committed`.
        """
        if write.entries:
            self._entries[write.first_index - 1 :] = write.entries
        if write.snapshot is not None:
            self.snapshot = write.snapshot
            if write.install:
                self._entries[:] = committed[: write.snapshot.index]
                self.base = write.snapshot.index
        self.base = max(self.base, write.drop)

    def copy(self) -> "ShadowLog":
        """Return another log with the same content."""
        other = ShadowLog(self._entries)
        other.base, other.snapshot = self.base, self.snapshot
        return other

    def runs(self) -> tuple[tuple[int, int], ...]:
        """Return (first index, term) of each run of entries of one term, in order, like `Loaded.terms`.

        After dropped entries, the first pair is the index and the term of the last dropped entry.
        """
        entries, base = self._entries, self.base
        return (
            *(((base, self.term(base)),) if base else ()),
            *(
                (index, entry.term)
                for index, entry in enumerate(entries[base:], base + 1)
                if index == 1 or entries[index - 2].term != entry.term
            ),
        )


class FarmChoice(NamedTuple):
    """A server's choice by the log."""

    publisher: int | None
    setting: Setting
    leaves: tuple[bytes, ...]
    """Hashes of the listed leaves, in their order."""


@dataclass(slots=True)
class Hearing:
    """A time in which a follower has heard one leader: each message came soon after the last. Times are in seconds."""

    leader: int
    term: int
    since: float
    """Time of the first message."""
    at: float
    """Time of the last message."""


@dataclass(slots=True)
class ServerFacts:
    """The facts of one server."""

    id: int
    bootstrap: Voters
    """Ids of the servers in this server's first Configuration; empty if this server was added later."""
    memory: ShadowLog = field(default_factory=ShadowLog)
    """The log as the core has it, with entries that are not durable yet."""
    durable: ShadowLog = field(default_factory=ShadowLog)
    """The log that a crash would leave."""
    hard_state: HardState = field(default_factory=lambda: HardState(0, NOBODY))
    """Term and vote that a crash would leave."""
    up: bool = False
    term: int = 0
    leads: bool = False
    led_since: float = 0.0
    """Time when this server was last elected, in seconds since the run began."""
    leader: int = NOBODY
    """The leader of the present term, by this server's knowledge."""
    started_at: float | None = None
    """Time of the server's own clock at the start of the present process."""
    timing: Timing = LAN
    """The present time-outs."""
    deadline: float = float("inf")
    """Time of the server's own clock at which the core wants its next tick."""
    stands_at: float = float("inf")
    """Time of the server's own clock at which the core's election time-out ends; infinity on a leader."""
    stored: int = 0
    """Index up to which the core knows its entries as durable."""
    in_memory: int = 1
    """Index of the first entry that the core has in memory."""
    heard: Mapping[int, float] = field(default_factory=dict)
    """By voter, the time of the server's own clock when this leader has heard the voter, as the core tells it."""
    was_voter: bool = False
    """Whether the core says that some Configuration in its log or its snapshot has this server."""
    cannot_follow: bool = False
    """Whether the core says that it cannot follow its leader, whose entries are over a limit."""
    contacts: Mapping[int, str] = field(default_factory=dict)
    """By id, the endpoints of the servers that the core wants to be connected to."""
    contacts_mark: object = None
    """The core's mark of these contacts."""
    commit: int = 0
    hearing: "Hearing | None" = None
    """The leader that the server hears; None: no leader, or no message has come since the start."""
    configurations: list[tuple[int, Voters]] = field(default_factory=list)
    """Each Configuration in `memory`, as the entry's index and the ids of the servers."""

    @property
    def voters(self) -> Voters:
        """Ids of the voters by the newest Configuration in this server's log, committed or not."""
        return self.configurations[-1][1] if self.configurations else self.bootstrap

    def take(self, write: Write, committed: Sequence[Entry]) -> None:
        """Take a write into the log in memory. See `ShadowLog.take`."""
        self.memory.take(write, committed)
        if write.install:
            self._find_configurations()
        elif write.entries:
            self.configurations = [item for item in self.configurations if item[0] < write.first_index]
            self.configurations += _configurations(write.entries, write.first_index)

    def make_durable(self, writes: Iterable[Write], committed: Sequence[Entry]) -> None:
        """Take writes into the log on the disk."""
        for write in writes:
            if write.hard_state is not None:
                self.hard_state = write.hard_state
            self.durable.take(write, committed)

    def restart(self) -> None:
        """Forget everything that was not durable."""
        self.memory = self.durable.copy()
        self._find_configurations()
        self.up = True
        self.term, self.leads = self.hard_state.term, False
        self.hearing = self.started_at = None
        self.commit = self.memory.base if self.memory.snapshot is None else self.memory.snapshot.index

    def _find_configurations(self) -> None:
        self.configurations = _configurations(self.memory.slice(1, self.memory.last_index), 1)


def _configurations(entries: Sequence[Entry], first: int) -> list[tuple[int, Voters]]:
    return [
        (index, voters_of(entry))
        for index, entry in enumerate(entries, first)
        if entry.value_type is ValueType.CONFIGURATION
    ]


@dataclass(slots=True)
class Facts:
    """The facts of the farm."""

    servers: dict[int, ServerFacts]
    committed: list[Entry] = field(default_factory=list)
    """Every entry that any server has ever taken for committed, from index 1 on."""
    marks: list[tuple[int, int]] = field(default_factory=list)
    """Pairs (index, term): a server in this term was the first to commit up to this index."""
    now: Callable[[], float] = lambda: 0.0
    """Seconds since the beginning of the run."""
    timing: Timing = LAN
    """The time-outs of each server at its start. No server ever has shorter ones."""
    slowest: Timing = LAN
    """The longest time-outs that a server ever has."""
    forged: bool = False
    """Whether a server takes a forged message in this step (`cluster/forgeries.py`)."""
    denier: int | None = None
    """Server that denies entries in this step, although the server has them (`cluster/foreign_answers.py`)."""
    flow: Flow = field(default_factory=Flow)
    """The limits of replication of all servers."""
    cache_bytes: int = CACHE_BYTES
    """Most bytes of entries that each core keeps in memory when these entries are durable."""


def voters_of(entry: Entry) -> Voters:
    """Return the ids of the servers that a Configuration entry names."""
    return _voters(entry.value)


@lru_cache(maxsize=256)
def _voters(value: bytes) -> Voters:
    return tuple(server.id for server in Configuration.decode(value).servers)
