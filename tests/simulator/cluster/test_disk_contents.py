"""The simulated disk: kept writes and lost writes."""

import random
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import islice

import pytest

from gf_i2p.raft.effects import HardState, Snapshot, Write
from gf_i2p.simulator.cluster.disk import Disk, DiskFullError, Loss
from gf_i2p.simulator.cluster.disk_contents import Store
from gf_i2p.simulator.events import Events
from gf_i2p.storage.errors import StorageError
from gf_i2p.wire.log_values import Configuration
from tests.storage.random_writes import SMALL, State, app, state_of, writes


@pytest.fixture
def store() -> Iterator[Store]:
    with closing(Store(7)) as made:
        yield made


@pytest.mark.parametrize("seed", range(5))
def test_a_store_holds_what_was_written_whatever_the_groups_and_the_crashes(seed: int, store: Store) -> None:
    rng = random.Random(seed)
    expected = State()
    history = writes(seed)
    torn = set()
    for _ in range(60):
        group, after = store.group(), expected
        for write in islice(history, rng.randint(1, 4)):
            group.add(write)
            after = after.after(write)
        if rng.random() < 0.3:
            whole = store.tear(group, rng.random())
            torn.add(whole)
            store.reopen()
            assert state_of(store) == (after if whole else expected), f"seed {seed}"
            if not whole:
                store.store(group)
        else:
            store.store(group)
        expected = after
        if rng.random() < 0.3:
            store.reopen()
            assert state_of(store) == expected, f"seed {seed}"
    store.reopen()
    assert state_of(store) == expected
    assert torn == {False, True}


def test_what_is_not_there_cannot_be_read(store: Store) -> None:
    with pytest.raises(StorageError, match="does not hold the entries 1 to 2"):
        store.read(1, 2, 100)


def test_a_damaged_snapshot_is_noticed(store: Store) -> None:
    group = store.group()
    group.add(Write(HardState(1, 7), 1, (app(b"x"),)))
    group.add(Write(None, 0, (), Snapshot(1, 1, Configuration(0, 0, ()), b"it")))
    store.store(group)
    store.reopen()
    assert store.loaded.snapshot is not None
    store.damage_snapshot()
    store.reopen()
    assert store.loaded.snapshot is None
    assert store.loaded.snapshot_fault is not None
    assert store.loaded.configuration == Configuration(0, 0, ())


@dataclass
class Rig:
    """A disk that takes a second for each sync, and the disk's reports."""

    store: Store
    events: Events = field(default_factory=Events)
    durable: list[int] = field(default_factory=list)
    told: list[int] = field(default_factory=list)
    failures: list[StorageError] = field(default_factory=list)

    def disk(self, seed: int = 0) -> Disk:
        def is_durable(writes: Sequence[Write]) -> None:
            self.durable.append(len(writes))

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


@pytest.fixture
def rig(store: Store) -> Rig:
    return Rig(store)


def test_what_waits_becomes_durable_together_and_is_told_later(rig: Rig) -> None:
    disk = rig.disk()
    for number, write in enumerate(SMALL, 1):
        disk.submit(write._replace(number=number))
    rig.wait(1.0)
    assert rig.durable == [1]
    assert rig.told == []
    rig.wait(3.0)
    assert rig.durable == [1, 2]
    assert rig.told == [1, 3]


@pytest.mark.parametrize("seed", range(10))
def test_what_the_disk_says_comes_in_order(seed: int, rig: Rig) -> None:
    disk = rig.disk(seed)
    for number in range(20):
        disk.submit(Write(HardState(1, 7), number + 1, (app(b"x"),), number=number + 1))
        rig.wait(0.7 * (number % 3))
    rig.wait(30)
    assert rig.told == sorted(rig.told)
    assert rig.told[-1] == 20


def test_a_crash_loses_what_waits_and_perhaps_what_is_being_written() -> None:
    seen = set()
    for seed in range(20):
        with closing(Store(7)) as store:
            rig = Rig(store)
            disk = rig.disk(seed)
            for write in SMALL:
                disk.submit(write)
            rig.wait(0.5)
            loss, lost = disk.crash()
            rig.wait(10)
            assert rig.told == []
            store.reopen()
            last = store.loaded.last_index
        assert (last, lost) == ((3, 2) if loss is Loss.AFTER else (0, 3))
        seen.add(loss)
    assert seen == {Loss.BEFORE, Loss.AFTER, Loss.TORN}


def test_a_crash_while_nothing_is_written_loses_nothing(rig: Rig) -> None:
    disk = rig.disk()
    disk.submit(SMALL[0])
    rig.wait(5)
    assert disk.crash() == (Loss.NOTHING, 0)


def test_a_full_disk_halts_the_server_and_keeps_nothing_of_the_group(rig: Rig) -> None:
    disk = rig.disk()
    disk.full = True
    disk.submit(SMALL[0])
    rig.wait(5)
    assert [type(error) for error in rig.failures] == [DiskFullError]
    rig.store.reopen()
    assert rig.store.loaded.last_index == 0
