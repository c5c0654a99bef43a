"""Random writes as a core could issue them, the same for the same seed, and what a log must hold after each."""

import random
import shutil
from collections.abc import Iterable, Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Final

from gf_i2p.raft.effects import HardState, Write
from gf_i2p.storage.database import Storage
from gf_i2p.storage.tables import Tables
from gf_i2p.wire.entries import Entry, ValueType
from gf_i2p.wire.messages import NOBODY

CLUSTER: Final = "farm"
SERVER: Final = 7


class State:
    """What a log holds."""

    def __init__(self) -> None:
        self.hard_state = HardState(0, NOBODY)
        self.entries: list[Entry] = []

    def after(self, write: Write) -> "State":
        """What it holds after one more write."""
        new = State()
        new.hard_state, new.entries = self.hard_state, self.entries.copy()
        new.apply(write)
        return new

    def apply(self, write: Write) -> None:
        if write.hard_state is not None:
            self.hard_state = write.hard_state
        if write.entries:
            del self.entries[write.first_index - 1 :]
            self.entries.extend(write.entries)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, State) and (self.hard_state, self.entries) == (other.hard_state, other.entries)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"State({self.hard_state}, {len(self.entries)} entries)"

    @property
    def terms(self) -> list[tuple[int, int]]:
        runs: list[tuple[int, int]] = []
        for index, entry in enumerate(self.entries, 1):
            if not runs or runs[-1][1] != entry.term:
                runs.append((index, entry.term))
        return runs

    @property
    def configurations(self) -> list[tuple[int, bytes]]:
        return [
            (index, entry.value)
            for index, entry in enumerate(self.entries, 1)
            if entry.value_type is ValueType.CONFIGURATION
        ]


def writes(seed: int, *, max_value: int = 3000) -> Iterator[Write]:
    """Endless: appends of one entry and of many, new terms and votes, truncations shallow and deep, empty writes."""
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
        last = len(state.entries)
        first = last + 1
        if last and rng.random() < 0.15:
            first = rng.randint(max(1, last - rng.choice((3, 300))), last)
        before = state.entries[first - 2].term if first > 1 else 1
        entries = []
        for _ in range(rng.choice((0, 1, 1, 1, 2, 30))):
            before = rng.choice((before, before, before, term)) if before < term else term
            configuration = rng.random() < 0.1
            kind = ValueType.CONFIGURATION if configuration else ValueType.APPLICATION
            entries.append(Entry(before, kind, rng.randbytes(rng.choice((0, 1, 100, 1024, rng.randrange(max_value))))))
        write = Write(hard_state, first, tuple(entries))
        state.apply(write)
        yield write


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
    """A copy of the log, open or not, as a process that is killed now leaves it."""
    directory.mkdir()
    for file in path.parent.glob(path.name + "*"):
        if not file.name.endswith(("-lock", "-shm")):
            shutil.copy(file, directory)
    return directory / path.name


def open_log(path: Path) -> Storage:
    return Storage.open(path, cluster=CLUSTER, server_id=SERVER)


def state_of(storage: Storage | Tables) -> State:
    """Everything that an open log holds, after a check that it agrees with itself."""
    state = State()
    state.hard_state = storage.loaded.hard_state
    last = storage.loaded.last_index
    while len(state.entries) < last:
        state.entries.extend(storage.read(len(state.entries) + 1, last, 1 << 20))
    assert list(storage.loaded.terms) == state.terms
    assert list(storage.loaded.configurations) == state.configurations
    return state


def stored_state(path: Path) -> State:
    with closing(open_log(path)) as storage:
        return state_of(storage)


def store(storage: Storage | Tables, *batch: Write) -> None:
    """All writes in one transaction."""
    group = storage.group()
    for write in batch:
        group.add(write)
    storage.store(group)


def app(value: bytes, term: int = 1) -> Entry:
    return Entry(term, ValueType.APPLICATION, value)


def configuration(value: bytes, term: int = 1) -> Entry:
    return Entry(term, ValueType.CONFIGURATION, value)


def filled(directory: Path, history: Iterable[Write]) -> Path:
    """A closed log that holds `history`."""
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
