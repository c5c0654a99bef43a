import random
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path

import pytest

from gf_i2p.raft.effects import HardState, Write
from gf_i2p.storage import database
from gf_i2p.storage.database import Storage
from gf_i2p.storage.errors import StorageError
from gf_i2p.storage.write_group import MAX_GROUP_BYTES, WriteGroup
from gf_i2p.storage.writer import LogWriter
from tests.storage.random_writes import State, app, create, open_log, state_of, stored_state, writes

PATIENCE = 30.0


class Log:
    """A log in a directory, the log's writer, and the writer's reports."""

    def __init__(self, directory: Path) -> None:
        self.path = create(directory)
        self.storage = open_log(self.path)
        self.writer = LogWriter(self.storage, on_durable=self.on_durable, on_failure=self.on_failure)
        self.durable: list[int] = []
        self.failures: list[BaseException] = []
        self.threads: set[str] = set()
        self._submitted = 0
        self._changed = threading.Condition()

    def on_durable(self, number: int) -> None:
        with self._changed:
            self.threads.add(threading.current_thread().name)
            self.durable.append(number)
            self._changed.notify_all()

    def on_failure(self, error: BaseException) -> None:
        with self._changed:
            self.failures.append(error)
            self._changed.notify_all()

    def submit(self, write: Write) -> int:
        self._submitted += 1
        self.writer.submit(write._replace(number=self._submitted))
        return self._submitted

    def wait(self, condition: Callable[[], object]) -> None:
        with self._changed:
            assert self._changed.wait_for(condition, PATIENCE)

    def wait_for(self, number: int) -> None:
        self.wait(lambda: self.durable and self.durable[-1] >= number)

    def close(self) -> None:
        self.writer.stop()
        self.storage.close()


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with closing(Log(tmp_path)) as log:
        yield log


@pytest.fixture
def groups(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Sizes of the groups that are stored, in writes."""
    sizes: list[int] = []
    store = Storage.store

    def noted(self: Storage, group: WriteGroup) -> None:
        store(self, group)
        sizes.append(group.number - sum(sizes))

    monkeypatch.setattr(Storage, "store", noted)
    return sizes


def one(index: int, value: bytes = b"x", hard_state: HardState | None = None) -> Write:
    return Write(hard_state, index, (app(value),))


FIRST = Write(HardState(1, 7), 1, ())


def test_what_waits_goes_into_one_transaction(log: Log, groups: list[int]) -> None:
    for write in (FIRST, one(1), one(2), one(3)):
        log.submit(write)
    log.writer.start()
    log.wait_for(4)
    assert groups == [4]
    assert log.durable == [4]
    log.submit(one(4))
    log.wait_for(5)
    assert groups == [4, 1]
    assert log.threads == {"log-writer"}


def test_a_group_ends_when_it_is_full(log: Log, groups: list[int]) -> None:
    log.submit(FIRST)
    for index in range(1, 11):
        log.submit(one(index, bytes(MAX_GROUP_BYTES // 4)))
    log.writer.start()
    log.wait_for(11)
    assert groups == [5, 4, 2]
    assert log.durable == [5, 9, 11]


def test_nothing_is_reported_before_it_can_be_read(tmp_path: Path) -> None:
    log = Log(tmp_path)
    found: list[list[bytes]] = []

    def read(number: int) -> None:
        if number > 1:
            found.append([entry.value for entry in log.storage.read(number - 1, number - 1, 0)])
        log.on_durable(number)

    writer = log.writer = LogWriter(log.storage, on_durable=read, on_failure=log.on_failure)
    with closing(log):
        writer.start()
        log.submit(FIRST)
        log.wait_for(1)
        for index in range(1, 20):
            log.wait_for(log.submit(one(index, b"%d" % index)) - 1)
            log.wait_for(index + 1)
    assert found == [[b"%d" % index] for index in range(1, 20)]
    assert log.failures == []


@pytest.mark.parametrize("depth", [1, 5, 100])
def test_random_writes_leave_what_they_should_however_they_are_grouped(tmp_path: Path, depth: int) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    log = Log(tmp_path)
    state = State()
    with closing(log):
        log.writer.start()
        for number, write in enumerate(islice(writes(seed), 150), 1):
            log.submit(write)
            state.apply(write)
            if number > depth:
                log.wait_for(number - depth)
    assert log.durable == sorted(set(log.durable))
    assert log.durable[-1] == 150
    assert log.failures == []
    assert stored_state(log.path) == state


def test_a_reader_beside_the_writer_always_finds_a_whole_log(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each write replaces the log's second half by entries of its own number: a reader never sees two numbers there."""
    monkeypatch.setattr(database, "CHECKPOINT_BYTES", 256 << 10)
    log.submit(Write(HardState(1, 7), 1, tuple(app(b"") for _ in range(100))))
    for number in range(300):
        log.submit(Write(None, 51, tuple(app(b"%d" % number) for _ in range(50))))
    log.writer.start()
    log.wait_for(1)
    seen: list[bytes] = []
    while not seen or seen[-1] != b"299":
        entries = log.storage.read(1, 100, 1 << 20)
        if log.durable[-1] > 1:
            assert len(entries) == 100
            assert len({entry.value for entry in entries[50:]}) == 1
        seen.append(entries[99].value)
        if log.durable[-1] == 301:
            assert log.storage.read(100, 100, 1)[0].value == b"299"
            break
    assert log.failures == []


def test_stop_writes_what_was_submitted(log: Log) -> None:
    log.writer.start()
    log.submit(FIRST)
    for index in range(1, 500):
        log.submit(one(index))
    log.writer.stop()
    assert log.durable[-1] == 500
    log.writer.stop()
    with pytest.raises(AssertionError, match="after stop"):
        log.submit(one(500))
    log.storage.close()
    assert len(stored_state(log.path).entries) == 499


def test_stop_without_start_writes_nothing(log: Log) -> None:
    log.submit(FIRST)
    log.writer.stop()
    assert (log.durable, log.failures) == ([], [])


def test_a_full_disk_ends_all_writing(log: Log) -> None:
    (pages,) = log.storage._writing.execute("PRAGMA page_count").fetchone()
    log.storage._writing.execute(f"PRAGMA max_page_count = {pages + 20}")
    log.writer.start()
    log.submit(FIRST)
    index = 1
    while not log.failures:
        number = log.submit(one(index, bytes(50_000)))
        log.wait(lambda number=number: log.failures or log.durable[-1:] == [number])  # type: ignore[misc]
        index += 1
    durable = log.durable.copy()
    assert len(durable) > 2
    (failure,) = log.failures
    assert isinstance(failure, StorageError)
    assert "is full: free some space" in str(failure)

    log.storage._writing.execute(f"PRAGMA max_page_count = {pages + 1000}")
    log.submit(one(1))
    log.writer.stop()
    assert log.durable == durable
    assert len(log.failures) == 1
    log.storage.close()
    assert len(stored_state(log.path).entries) == durable[-1] - 1


def test_a_full_disk_in_the_middle_of_a_transaction_leaves_all_of_it_out(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.writer.start()
    log.submit(FIRST)
    log.wait_for(log.submit(one(1, b"old")))
    (pages,) = log.storage._writing.execute("PRAGMA page_count").fetchone()
    log.storage._writing.execute(f"PRAGMA max_page_count = {pages + 3}")
    log.submit(Write(HardState(2, 7), 1, (app(bytes(200_000), 2),)))
    log.wait(lambda: log.failures)
    monkeypatch.setattr(log.storage._tables, "store_server", None)  # nor is anything written when the log is closed
    assert state_of(log.storage).hard_state == HardState(0, 0xFFFFFFFF)
    assert log.storage.read(1, 1, 0) == [app(b"old")]
    log.close()
    state = stored_state(log.path)
    assert (state.hard_state, state.entries) == (HardState(1, 7), [app(b"old")])


def test_a_write_that_leaves_a_gap_ends_all_writing(log: Log) -> None:
    log.writer.start()
    log.wait_for(log.submit(FIRST))
    log.submit(one(2))
    log.wait(lambda: log.failures)
    assert "defect" in str(log.failures[0])
    log.submit(one(1))
    log.writer.stop()
    assert log.durable == [1]


def test_an_owner_that_cannot_be_told_is_a_failure(tmp_path: Path) -> None:
    log = Log(tmp_path)

    def closed(number: int) -> None:
        raise RuntimeError("the event loop is closed")

    log.writer = LogWriter(log.storage, on_durable=closed, on_failure=log.on_failure)
    with closing(log):
        log.writer.start()
        log.submit(FIRST)
        log.wait(lambda: log.failures)
    assert str(log.failures[0]) == "the event loop is closed"


def test_checkpoints_run_after_the_report_and_know_whether_anything_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []
    done = threading.Event()

    def checkpoint_due(self: Storage, *, idle: bool) -> bool:
        steps.append(f"idle {idle}")
        return idle

    def checkpoint(self: Storage) -> None:
        steps.append("checkpoint")
        done.set()

    log = Log(tmp_path)
    monkeypatch.setattr(Storage, "checkpoint_due", checkpoint_due)
    monkeypatch.setattr(Storage, "checkpoint", checkpoint)
    log.writer = LogWriter(
        log.storage, on_durable=lambda number: steps.append(f"durable {number}"), on_failure=log.on_failure
    )
    with closing(log):
        log.submit(FIRST)
        for index in range(1, 6):
            log.submit(one(index, bytes(MAX_GROUP_BYTES // 4)))
        log.writer.start()
        assert done.wait(PATIENCE), steps  # the word to stop waits in the same queue
        written = steps.copy()
    assert written == ["durable 5", "idle False", "durable 6", "idle True", "checkpoint"]
    assert log.failures == []
