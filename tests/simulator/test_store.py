"""The simulated disk: what it keeps, and what it loses."""

import random
from dataclasses import dataclass, field
from itertools import islice

import pytest

from gf_i2p.raft.effects import HardState, Write
from gf_i2p.simulator.disk import Disk, DiskFullError, Loss
from gf_i2p.simulator.events import Events
from gf_i2p.simulator.store import MemoryStore, Store
from gf_i2p.storage.errors import StorageError
from gf_i2p.storage.group import Group
from tests.storage.history import SMALL, State, app, writes


def state_of(store: Store) -> State:
    state = State()
    state.hard_state = store.loaded.hard_state
    while len(state.entries) < store.loaded.last_index:
        state.entries += store.read(len(state.entries) + 1, store.loaded.last_index, 5_000)
    assert list(store.loaded.terms) == state.terms
    assert list(store.loaded.configurations) == state.configurations
    return state


@pytest.mark.parametrize("seed", range(5))
def test_a_store_holds_what_was_written_whatever_the_groups(seed: int) -> None:
    rng = random.Random(seed)
    store, expected = MemoryStore(), State()
    history = writes(seed)
    for _ in range(60):
        group = store.group()
        for write in islice(history, rng.randint(1, 4)):
            group.add(write)
            expected.apply(write)
        if rng.random() < 0.3:
            store.tear(group, rng.random())
            lost = store.reopen()
            assert lost.loaded.last_index == len(state_of(lost).entries), "all or nothing: here nothing"
        store.store(group)
        if rng.random() < 0.3:
            store = store.reopen()
            assert state_of(store) == expected, f"seed {seed}"
    assert state_of(store.reopen()) == expected


def test_what_is_not_there_cannot_be_read() -> None:
    store = MemoryStore()
    with pytest.raises(StorageError, match="does not hold the entries 1 to 2"):
        store.read(1, 2, 100)


@dataclass
class Rig:
    """A disk that takes a second for each sync, and what it says."""

    events: Events = field(default_factory=Events)
    store: MemoryStore = field(default_factory=MemoryStore)
    durable: list[int] = field(default_factory=list)
    told: list[int] = field(default_factory=list)
    failures: list[StorageError] = field(default_factory=list)

    def disk(self, seed: int = 0) -> Disk:
        def is_durable(group: Group) -> None:
            self.durable.append(group.count)

        return Disk(
            self.events,
            random.Random(seed),
            self.store,
            seconds=lambda: 1.0,
            on_durable=is_durable,
            on_stored=self.told.append,
            on_failure=self.failures.append,
        )

    def wait(self, seconds: float) -> None:
        assert self.events.run(self.events.now + seconds, 1_000)


def test_what_waits_becomes_durable_together_and_is_told_later() -> None:
    rig = Rig()
    disk = rig.disk()
    for write in SMALL:
        disk.submit(write)
    rig.wait(1.0)
    assert rig.durable == [1]
    assert rig.told == []
    rig.wait(3.0)
    assert rig.durable == [1, 2]
    assert rig.told == [1, 3]


@pytest.mark.parametrize("seed", range(10))
def test_what_the_disk_says_comes_in_order(seed: int) -> None:
    rig = Rig()
    disk = rig.disk(seed)
    for number in range(20):
        disk.submit(Write(HardState(1, 7), number + 1, (app(b"x"),)))
        rig.wait(0.7 * (number % 3))
    rig.wait(30)
    assert rig.told == sorted(rig.told)
    assert rig.told[-1] == 20


def test_a_crash_loses_what_waits_and_perhaps_what_is_being_written() -> None:
    seen = set()
    for seed in range(20):
        rig = Rig()
        disk = rig.disk(seed)
        for write in SMALL:
            disk.submit(write)
        rig.wait(0.5)
        loss, lost = disk.crash()
        rig.wait(10)
        assert rig.told == []
        last = rig.store.reopen().loaded.last_index
        assert (last, lost) == ((3, 2) if loss is Loss.AFTER else (0, 3))
        seen.add(loss)
    assert seen == {Loss.BEFORE, Loss.AFTER, Loss.TORN}


def test_a_crash_while_nothing_is_written_loses_nothing() -> None:
    rig = Rig()
    disk = rig.disk()
    disk.submit(SMALL[0])
    rig.wait(5)
    assert disk.crash() == (Loss.NOTHING, 0)


def test_a_full_disk_halts_the_server_and_keeps_nothing_of_the_group() -> None:
    rig = Rig()
    disk = rig.disk()
    disk.full = True
    disk.submit(SMALL[0])
    rig.wait(5)
    assert [type(error) for error in rig.failures] == [DiskFullError]
    assert rig.store.reopen().loaded.last_index == 0
