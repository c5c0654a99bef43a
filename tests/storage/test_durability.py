"""The disk after a power cut holds less than after a kill, because unsynced writes may be gone."""

import random
from itertools import takewhile
from pathlib import Path

import pytest

from tests.storage.disk_after_crash import SECTOR, Call, Disk, traced
from tests.storage.random_writes import create, eventful_seed, history_states, stored_state
from tests.tier import mostly_slow

pytestmark = pytest.mark.usefixtures("strace")


@pytest.mark.parametrize("depth", mostly_slow([1, 8], 8))
def test_a_power_cut_loses_nothing_acknowledged(tmp_path: Path, depth: int) -> None:
    count = 120
    seed = eventful_seed(0, count)
    rng = random.Random(seed)
    path = create(tmp_path)
    disk = Disk(tmp_path)
    run, said = traced(tmp_path, path, seed, 0, count, depth)
    assert said[-1] == str(count)
    states = history_states(seed, count)

    acknowledged = synced = 0
    cuts = set(rng.sample(range(len(run)), min(len(run), 60)))
    for number, call in enumerate(run):
        disk.take(call)
        if call.name == "write" and (word := call.data.decode(errors="replace").strip()).isdigit():
            acknowledged = int(word)
        synced += call.name in ("fsync", "fdatasync") and call.file == "log.db"
        if number in cuts:
            found = stored_state(disk.cut(tmp_path / "cut", rng))
            matches = [number for number, state in enumerate(states) if state == found]
            assert matches, f"{found} is not what any write left"
            assert matches[-1] >= acknowledged
    assert acknowledged == count
    assert synced > 2, "there was no checkpoint to cut into"


def test_every_acknowledgement_follows_a_sync_of_all_that_was_written(tmp_path: Path) -> None:
    path = create(tmp_path)
    run, _ = traced(tmp_path, path, 1, 0, 30, 1)
    dirty = False
    acknowledged = syncs = 0
    for call in run:
        if call.file == "log.db-wal":
            dirty = call.name == "pwrite64" or (dirty and call.name not in ("fsync", "fdatasync"))
            syncs += call.name in ("fsync", "fdatasync")
        elif call.name == "write" and call.data.strip().isdigit():
            assert not dirty
            acknowledged += 1
    assert 2 < acknowledged <= syncs


def test_a_reader_sees_nothing_before_it_is_synced(tmp_path: Path) -> None:
    """The syncs are slow, and a reader looks for each entry all the time."""
    run, _ = traced(tmp_path, create(tmp_path), 3, 0, 25, 0, inject="fdatasync,fsync:delay_enter=3000")
    dirty = False
    seen = 0
    for call in run:
        if call.file == "log.db-wal":
            dirty = call.name == "pwrite64" or (dirty and call.name not in ("fsync", "fdatasync"))
        elif call.name == "write" and call.data.startswith(b"seen"):
            assert not dirty
            seen += 1
    assert seen > 10


def test_opening_syncs_what_a_killed_process_had_only_written(tmp_path: Path) -> None:
    """New writes build on the loaded state: the loaded state must not vanish in a later power cut."""
    path = create(tmp_path)
    disk = Disk(tmp_path)
    run, _ = traced(tmp_path, path, 5, 0, 6, 1)
    states = history_states(5, 6)
    # Leave out all syncs since the log was opened, as if the kill had come before the first sync.
    opened = run.index(next(call for call in run if call.data == b"opened\n"))
    for number, call in enumerate(run):
        if number < opened or call.name == "pwrite64":
            disk.take(call)

    def survives(chance: int) -> bool:
        return stored_state(disk.cut(tmp_path / "cut", random.Random(chance))) == states[6]

    assert not all(map(survives, range(5)))
    run, _ = traced(tmp_path, path, 5, 6, 6, 1)
    opening = list(takewhile(lambda call: call.data != b"opened\n", run))
    assert ("fsync", tmp_path.name) in [(call.name, call.file) for call in opening], "the names of the files"
    for call in opening:
        disk.take(call)
    assert all(map(survives, range(5)))


@pytest.mark.parametrize(
    ("inject", "advice"),
    [
        ("fdatasync,fsync:error=EIO:when=12+", "look into the system log"),
        ("pwrite64:error=ENOSPC:when=40+", "free some space"),
        ("pwrite64:error=EIO:when=40+", "look into the system log"),
    ],
)
def test_a_disk_that_fails_ends_all_writing(tmp_path: Path, inject: str, advice: str) -> None:
    path = create(tmp_path)
    _, said = traced(tmp_path, path, 9, 0, 10_000, 1, inject=inject)
    assert said[0] == "opened"
    assert said[-1].startswith("failed: ")
    assert advice in said[-1]
    acknowledged = [int(line) for line in said[1:-1]]
    assert acknowledged
    assert stored_state(path) in history_states(9, acknowledged[-1] + 2)[acknowledged[-1] :]


def test_the_disk_of_these_tests_loses_what_was_not_synced(tmp_path: Path) -> None:
    (tmp_path / "log.db").write_bytes(b"old")
    disk = Disk(tmp_path)
    disk.take(Call("pwrite64", "log.db", b"new", [3, 0], 3))
    found = {disk.cut(tmp_path / "cut", random.Random(seed)).read_bytes() for seed in range(30)}
    assert found == {b"old", b"new"}
    disk.take(Call("fdatasync", "log.db", b"", [], 0))
    assert {disk.cut(tmp_path / "cut", random.Random(seed)).read_bytes() for seed in range(30)} == {b"new"}
    disk.take(Call("pwrite64", "log.db", bytes(3 * SECTOR), [3 * SECTOR, 8], 3 * SECTOR))
    lengths = {len(disk.cut(tmp_path / "cut", random.Random(seed)).read_bytes()) for seed in range(60)}
    assert {3, 8 + SECTOR, 8 + 3 * SECTOR} <= lengths
    assert disk.killed(tmp_path / "killed").stat().st_size == 8 + 3 * SECTOR


def test_the_disk_of_these_tests_loses_names_whose_directory_was_not_synced(tmp_path: Path) -> None:
    (tmp_path / "log.db").touch()
    disk = Disk(tmp_path)

    def found() -> set[bool]:
        return {disk.cut(tmp_path / "cut", random.Random(seed)).with_name("log.db-wal").exists() for seed in range(30)}

    disk.take(Call("openat", "log.db-wal", b"", [], 3))
    disk.take(Call("fsync", "log.db-wal", b"", [], 0))
    assert found() == {False, True}
    disk.take(Call("fsync", tmp_path.name, b"", [], 0))
    assert found() == {True}
    disk.take(Call("unlink", "log.db-wal", b"", [], 0))
    assert found() == {False, True}
    assert not disk.killed(tmp_path / "killed").with_name("log.db-wal").exists()
