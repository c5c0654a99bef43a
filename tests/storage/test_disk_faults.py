"""The disk fails, or lies, at any operation of a run, under the real SQLite and the real threads of a writer.

A failure: the writer ends with a declared error or goes on rightly. Then the process ends, perhaps the power fails,
too, and the next start has all that was acknowledged. A lie: the log never becomes one that never was, and never serves
an entry that was not written; the next start may be refused.
"""

import errno
import os
import random
from collections import Counter
from collections.abc import Callable
from contextlib import closing, suppress
from itertools import islice
from pathlib import Path

import pytest

from gf_i2p.raft.effects import Write
from gf_i2p.storage.errors import StorageError
from gf_i2p.wire.entries import Entry
from integration.harness.sqlite_files import SqliteFiles, why_not
from tests.storage.file_operations import Lie, Operations
from tests.storage.random_writes import State, copied, create, newest_write, open_log, store, stored_state, writes
from tests.storage.recorded_run import without_syncs
from tests.storage.write_run import WriteRun, use_small_sizes, write_history
from tests.tier import is_everything, mostly_slow

pytestmark = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))

COUNT = 24
TRIES = 600 if is_everything() else 15
"""Runs for each kind of fault; a run has about 130 operations."""


class Outcome:
    """A run with a fault, and what the next start found."""

    def __init__(self, directory: Path, seed: int) -> None:
        self.directory = directory
        self.history: list[Write] = list(islice(writes(seed, matching=True), COUNT))
        self.states = [State()]
        for write in self.history:
            self.states.append(self.states[-1].after(write))
        self.acknowledged = -1
        """Number of the last acknowledged write; -1: the log was not yet created."""
        self.error: str | None = None

    def run(self, prepare: Callable[[Operations], None]) -> Operations:
        """Create, write, close, open, write and close; end at the first error. `prepare` sets the faults."""
        self.directory.mkdir()
        with pytest.MonkeyPatch.context() as patch:
            operations = Operations(self.directory, patch)
            prepare(operations)
            with SqliteFiles(operations.take_from_sqlite) as files:
                try:
                    self._run(create(self.directory))
                except StorageError as error:
                    self.error = str(error)
            assert files.error is None
        return operations

    def _run(self, path: Path) -> None:
        self.acknowledged = 0
        for done, limit in ((0, COUNT // 2), (COUNT // 2, COUNT)):
            run = write_history(path, 0, done, limit, 3, self._hear, self.history)
            try:
                if run.failed:
                    return
                self._read(run)
            finally:
                run.close()

    def _hear(self, line: str) -> None:
        if line.isdigit():
            self.acknowledged = int(line)
        elif line.startswith("failed: "):
            self.error = line.removeprefix("failed: ")

    def _read(self, run: WriteRun) -> None:
        """Read all that is there: what is not refused is right."""
        state = self.states[self.acknowledged]
        entries: list[Entry] = []
        while (first := state.base[0] + len(entries) + 1) <= state.last_index:
            read = run.storage.read(first, state.last_index, 4000)
            assert read == state.entries[first - 1 - state.base[0] :][: len(read)]
            entries += read


def total(directory: Path, seed: int) -> Operations:
    outcome = Outcome(directory, seed)
    operations = outcome.run(lambda _: None)
    assert (outcome.acknowledged, outcome.error) == (COUNT, None)
    return operations


FAILURES = {
    "one operation fails": (errno.EIO, False, False),
    "all operations fail from one on": (errno.EIO, True, False),
    "the disk is full once": (errno.ENOSPC, False, False),
    "the disk stays full": (errno.ENOSPC, True, False),
    "a read fails": (errno.EIO, False, True),
    "all reads fail from one on": (errno.EIO, True, True),
}


@pytest.mark.parametrize("name", mostly_slow([*FAILURES], "one operation fails", "the disk stays full", "a read fails"))
def test_a_disk_that_fails_costs_nothing_acknowledged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    code, stays, reads = FAILURES[name]
    use_small_sizes(monkeypatch)
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    whole = total(tmp_path / "whole", seed)
    count = whole.reads if reads else whole.count
    declared = 0
    for number in rng.sample(range(1, count + 1), min(TRIES, count)):

        def fail(at: int, what: str, number: int = number) -> None:
            full = code == errno.ENOSPC
            if (at == number or (stays and at > number)) and not (full and what in {"fsync", "unlink", "rename"}):
                raise OSError(code, os.strerror(code))

        def prepare(operations: Operations) -> None:
            operations.partly = rng if code == errno.EIO else None
            if reads:
                operations.before_read = fail
            else:
                operations.before = fail

        outcome = Outcome(tmp_path / "running", seed)
        operations = outcome.run(prepare)
        declared += outcome.error is not None
        assert "is damaged:" not in (outcome.error or ""), "an operator would give up a sound log"
        with without_syncs():
            paths = [outcome.directory / "log.db"]
            for cut in range(2):
                operations.cut(tmp_path / f"cut {cut}", rng)
                paths.append(tmp_path / f"cut {cut}" / "log.db")
            for path in paths:
                if path.exists() or outcome.acknowledged >= 0:
                    with closing(open_log(path)) as storage:
                        assert storage.loaded.snapshot_fault is None
                        newest = newest_write(outcome.states, storage)
                        assert newest >= max(outcome.acknowledged, 0), f"operation {number}"
        _remove(outcome.directory)
    print(f"{declared} runs ended with an error")
    assert declared > 0


@pytest.mark.parametrize("reads", [True, False], ids=["a read fails", "a change fails"])
def test_a_start_that_fails_leaves_a_log_that_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reads: bool
) -> None:
    """Any one operation of the start after a kill fails: no connection takes the WAL with it."""
    use_small_sizes(monkeypatch)
    state = State()
    with closing(open_log(create(tmp_path))) as storage:
        for write in islice(writes(5, matching=True), COUNT):
            store(storage, write)
            state.apply(write)
        killed = copied(storage.path, tmp_path / "killed")
    step = 1 if is_everything() else 20
    number = random.randint(1 - step, 0)
    print(f"every {step}th operation from {number + step} on")
    while True:
        number += step
        path = copied(killed, tmp_path / f"{number}")
        seen = start_with_failure(path, number, reads=reads)
        with without_syncs():
            assert stored_state(path) == state, f"operation {number}"
        _remove(path.parent)
        if seen < number:
            break
    assert number > 10


def start_with_failure(path: Path, number: int, *, reads: bool) -> int:
    """Open and close the log while one read, or one change, fails; return how many there were."""

    def fail(at: int, _: str) -> None:
        if at == number:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    with pytest.MonkeyPatch.context() as patch:
        operations = Operations(path.parent, patch)
        operations.before, operations.before_read = ((lambda *_: None), fail) if reads else (fail, (lambda *_: None))
        with SqliteFiles(operations.take_from_sqlite) as files, suppress(StorageError), closing(open_log(path)):
            pass
        assert files.error is None
    return operations.reads if reads else operations.count


@pytest.mark.parametrize("lie", list(Lie))
def test_a_disk_that_lies_never_makes_another_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lie: Lie) -> None:
    use_small_sizes(monkeypatch)
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    count = total(tmp_path / "whole", seed).count
    found: Counter[str] = Counter()
    for number in rng.sample(range(1, count + 1), min(TRIES, count)):

        def prepare(operations: Operations, number: int = number) -> None:
            operations.lies[number] = lie
            operations.place = rng.randrange(20) * 512

        outcome = Outcome(tmp_path / "running", seed)
        operations = outcome.run(prepare)
        with without_syncs():
            operations.cut(tmp_path / "cut", rng)
            for path in (outcome.directory / "log.db", tmp_path / "cut" / "log.db"):
                with suppress(StorageError):
                    found["refused"] += 1
                    with closing(open_log(path)) as storage:
                        newest = newest_write(outcome.states, storage)
                    found["refused"] -= 1
                    assert newest >= 0, f"operation {number}"
                    found["noticed by nobody" if newest < outcome.acknowledged else "harmless"] += 1
        _remove(outcome.directory)
    print(f"{lie.value}: {dict(found)}")


def _remove(directory: Path) -> None:
    for path in directory.iterdir():
        path.unlink()
    directory.rmdir()
