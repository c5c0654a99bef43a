"""Random writes as a core could issue them, the same for the same seed, and the log's expected state after each."""

import random
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Final

from gf_i2p.raft.effects import HardState, Snapshot, Write
from gf_i2p.simulator.cluster.disk_contents import Store
from gf_i2p.storage.database import Storage
from gf_i2p.storage.log_tables import Tables
from gf_i2p.wire.entries import Entry, ValueType
from gf_i2p.wire.log_values import ClusterServer, Configuration
from gf_i2p.wire.messages import NOBODY

CLUSTER: Final = "farm"
SERVER: Final = 7


class State:
    """The state of a log."""

    def __init__(self) -> None:
        self.hard_state = HardState(0, NOBODY)
        self.base = (0, 0)
        """Index and term of the last dropped entry."""
        self.entries: list[Entry] = []
        """Entries after the base."""
        self.snapshot: Snapshot | None = None

    def after(self, write: Write) -> "State":
        """Give the state after one more write."""
        new = State()
        new.hard_state, new.base, new.snapshot = self.hard_state, self.base, self.snapshot
        new.entries = self.entries.copy()
        new.apply(write)
        return new

    def apply(self, write: Write) -> None:
        if write.hard_state is not None:
            self.hard_state = write.hard_state
        if write.entries:
            del self.entries[write.first_index - 1 - self.base[0] :]
            self.entries.extend(write.entries)
        if write.snapshot is not None:
            self.snapshot = write.snapshot
            if write.install:
                self.base = write.snapshot.index, write.snapshot.term
                self.entries.clear()
        if write.drop:
            self.base, self.entries = (write.drop, self.term(write.drop)), self.entries[write.drop - self.base[0] :]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, State) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        covered = self.snapshot.index if self.snapshot is not None else None
        return f"State({self.hard_state}, after {self.base}: {len(self.entries)} entries, snapshot {covered})"

    @property
    def last_index(self) -> int:
        return self.base[0] + len(self.entries)

    @property
    def final(self) -> int:
        """Index of the last entry in the snapshot."""
        return self.snapshot.index if self.snapshot is not None else 0

    def term(self, index: int) -> int:
        return self.base[1] if index == self.base[0] else self.entries[index - 1 - self.base[0]].term

    @property
    def numbered(self) -> Iterable[tuple[int, Entry]]:
        return enumerate(self.entries, self.base[0] + 1)

    @property
    def terms(self) -> list[tuple[int, int]]:
        runs = [self.base] if self.base[0] else []
        for index, entry in self.numbered:
            if not runs or runs[-1][1] != entry.term:
                runs.append((index, entry.term))
        return runs

    @property
    def configurations(self) -> list[tuple[int, bytes]]:
        return [(index, entry.value) for index, entry in self.numbered if entry.value_type is ValueType.CONFIGURATION]


def writes(seed: int, *, max_value: int = 3000, matching: bool = False) -> Iterator[Write]:
    """Endless: appends of one entry and of many, new terms and votes, truncations shallow and deep, empty writes,
    snapshots, dropped beginnings, and logs that are replaced by a snapshot.

    After each write, the last entry of the write is there. `matching`: no two entries have the same index and term, as
    in each server's log (Raft, "Log Matching").
    """
    rng = random.Random(seed)
    state = State()
    while True:
        hard_state = None
        term = state.hard_state.term
        if term == 0 or rng.random() < 0.15:
            if state.hard_state.vote == NOBODY and term and rng.random() < 0.5:
                hard_state = HardState(term, rng.randrange(5))
            else:
                term += rng.randint(1, 3)
                hard_state = HardState(term, rng.choice((NOBODY, 3)))
        installed = _installed(rng, state, term)
        if installed is not None and matching and installed.index <= state.last_index:
            installed = None
        if installed is not None and rng.random() < 0.04:
            write = Write(hard_state, 0, (), installed, rng.choice((0, installed.index)), install=True)
        else:
            last = state.last_index
            first = last + 1
            if last > state.final and rng.random() < 0.15:
                first = rng.randint(max(state.final + 1, last - rng.choice((3, 300))), last)
            before = state.term(first - 1) if first > 1 else 1
            if matching and first <= last:
                before = term = max(term, state.hard_state.term) + 1
                hard_state = HardState(term, rng.choice((NOBODY, 3)))
            entries = []
            for _ in range(rng.choice((0, 1, 1, 1, 2, 30))):
                before = rng.choice((before, before, before, term)) if before < term else term
                configured = rng.random() < 0.1
                kind = ValueType.CONFIGURATION if configured else ValueType.APPLICATION
                size = rng.choice((0, 1, 100, 1024, rng.randrange(max_value)))
                entries.append(Entry(before, kind, rng.randbytes(size)))
            write = Write(hard_state, first, tuple(entries))
            after = state.after(write)
            if after.last_index > after.final and rng.random() < 0.12:
                index = rng.randint(after.final + 1, after.last_index)
                write = write._replace(snapshot=_snapshot(rng, index, after.term(index)))
                after = state.after(write)
            least, most = after.base[0], min(after.final, after.last_index - bool(entries))
            if least < most and rng.random() < 0.15:
                write = write._replace(drop=rng.choice((most, rng.randint(least + 1, most))))
        state.apply(write)
        yield write


def _installed(rng: random.Random, state: State, term: int) -> Snapshot | None:
    """Make a snapshot as a leader may send it: of a longer log, or of a log with other terms; None if none fits."""
    index = rng.randint(state.final + 1, state.last_index + rng.choice((1, 30)))
    if index > state.last_index:
        return _snapshot(rng, index, rng.randint(state.terms[-1][1] if state.terms else 1, term))
    least = state.term(index - 1) if index > 1 else 1
    terms = [each for each in range(least, term + 1) if each != state.term(index)]
    return _snapshot(rng, index, rng.choice(terms)) if terms else None


def _snapshot(rng: random.Random, index: int, term: int) -> Snapshot:
    servers = tuple(ClusterServer(number, f"tcp://host:{number}") for number in range(rng.randrange(4)))
    data = rng.randbytes(rng.choice((1, 100, rng.randrange(1, 20_000))))
    return Snapshot(index, term, Configuration(rng.randint(0, index), 0, servers), data)


def eventful_seed(begin: int, end: int, *, matching: bool = False) -> int:
    """Any seed whose writes from number `begin` + 1 to `end` store a snapshot, drop, and install."""
    while True:
        seed = random.randrange(2**32)
        history = list(islice(writes(seed, matching=matching), begin, end))
        if (
            any(write.install for write in history)
            and any(write.snapshot is not None and not write.install for write in history)
            and any(write.drop and not write.install for write in history)
        ):
            print(f"seed {seed}")
            return seed


def history_states(seed: int, count: int) -> list[State]:
    states = [State()]
    for write in islice(writes(seed), count):
        states.append(states[-1].after(write))
    return states


def create(directory: Path) -> Path:
    path = directory / "log.db"
    Storage.create(path, cluster=CLUSTER, server_id=SERVER)
    return path


def copied(path: Path, directory: Path) -> Path:
    """Copy the log, open or not, as a kill now would leave the files."""
    directory.mkdir()
    for file in path.parent.glob(path.name + "*"):
        if not file.name.endswith(("-lock", "-shm")):
            shutil.copy(file, directory)
    return directory / path.name


def open_log(path: Path) -> Storage:
    return Storage.open(path, cluster=CLUSTER, server_id=SERVER)


def state_of(storage: Storage | Tables | Store) -> State:
    """The whole state of an open log, after a check that the log agrees with itself."""
    assert storage.loaded.snapshot_fault is None
    return state_beside_snapshot(storage)


def state_beside_snapshot(storage: Storage | Tables | Store) -> State:
    """The state, also with a damaged snapshot."""
    state = State()
    loaded = storage.loaded
    state.hard_state, state.base, state.snapshot = loaded.hard_state, loaded.base, loaded.snapshot
    while state.last_index < loaded.last_index:
        state.entries.extend(storage.read(state.last_index + 1, loaded.last_index, 1 << 20))
    assert list(loaded.terms) == state.terms
    assert list(loaded.configurations) == state.configurations
    return state


def newest_write(states: Sequence[State], storage: Storage) -> int:
    """Return the number of the last write that leaves what is stored; -1: no write does.

    A snapshot that the log calls damaged does not count.
    """
    found = vars(state_beside_snapshot(storage))
    ignored = {"snapshot": None} if storage.loaded.snapshot_fault is not None else {}
    return max((number for number, each in enumerate(states) if vars(each) | ignored == found), default=-1)


def stored_state(path: Path) -> State:
    with closing(open_log(path)) as storage:
        return state_of(storage)


def store(storage: Storage | Tables, *batch: Write) -> None:
    """Store all writes in one transaction."""
    group = storage.group()
    for write in batch:
        group.add(write)
    storage.store(group)


def app(value: bytes, term: int = 1) -> Entry:
    return Entry(term, ValueType.APPLICATION, value)


def configuration(value: bytes, term: int = 1) -> Entry:
    return Entry(term, ValueType.CONFIGURATION, value)


def snapshot(index: int, term: int = 1, data: bytes = b"state") -> Snapshot:
    return Snapshot(index, term, Configuration(1, 0, (ClusterServer(7, "tcp://host:1"),)), data)


def filled(directory: Path, history: Iterable[Write]) -> Path:
    """Make a log that holds `history`, close the log, and return its path."""
    path = create(directory)
    with closing(open_log(path)) as storage:
        for write in history:
            store(storage, write)
    return path


SMALL = (
    Write(HardState(1, 7), 1, (configuration(b"C1"), app(b"a"), app(b"b"))),
    Write(HardState(3, NOBODY), 4, (configuration(b"C4", 3), app(b"c", 3))),
    Write(None, 6, (app(b"d", 3),)),
)
