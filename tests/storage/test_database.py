import os
import random
import stat
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing, suppress
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gf_i2p.raft.effects import HardState, Write
from gf_i2p.storage import database, entry_chunks, loading, log_tables, private_files
from gf_i2p.storage.errors import DamagedError, StorageError
from gf_i2p.storage.loading import Loaded
from gf_i2p.wire.entries import ENTRY_HEADER_BYTES
from gf_i2p.wire.messages import NOBODY
from tests.storage.random_writes import (
    SMALL,
    State,
    app,
    configuration,
    create,
    filled,
    open_log,
    state_of,
    store,
    stored_state,
    writes,
)
from tests.storage.refusal import refusal

# Kept data -----------------------------------------------------------------------------------------------------------


def test_a_new_log_is_empty(tmp_path: Path) -> None:
    with closing(open_log(create(tmp_path))) as storage:
        assert storage.loaded == Loaded(HardState(0, NOBODY), 0, (), (), 0, 0, (0, 0), None, None, None)
        assert storage.read(1, 0, 100) == []


def test_what_was_stored_is_there_at_the_next_opening(tmp_path: Path) -> None:
    with closing(open_log(filled(tmp_path, SMALL))) as storage:
        assert storage.loaded.hard_state == HardState(3, NOBODY)
        assert storage.loaded.last_index == 6
        assert storage.loaded.terms == ((1, 1), (4, 3))
        assert storage.loaded.configurations == ((1, b"C1"), (4, b"C4"))
        assert [entry.value for entry in storage.read(1, 6, 1000)] == [b"C1", b"a", b"b", b"C4", b"c", b"d"]


def test_the_largest_numbers_fit(tmp_path: Path) -> None:
    write = Write(HardState(2**63 - 1, 2**32 - 2), 1, (app(b"", 2**63 - 1),))
    state = stored_state(filled(tmp_path, [write]))
    assert (state.hard_state, state.entries) == (write.hard_state, list(write.entries))


@settings(max_examples=12)
@given(st.integers(0, 2**32), st.lists(st.integers(1, 4), min_size=1, max_size=12), st.booleans())
def test_random_writes_in_random_groups_leave_what_they_should(
    tmp_path_factory: pytest.TempPathFactory, seed: int, groups: list[int], reopen: bool
) -> None:
    path = create(tmp_path_factory.mktemp("log"))
    history = writes(seed)
    state = State()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(database, "WAL_BYTES", 64 << 10)
        patch.setattr(entry_chunks, "MAX_CHUNK_BYTES", 8 << 10)
        storage = open_log(path)
        for number, size in enumerate(groups):
            batch = list(islice(history, size))
            store(storage, *batch)
            for write in batch:
                state.apply(write)
            if number % 3 == 2:
                storage.checkpoint()
            if reopen:
                storage.close()
                storage = open_log(path)
                assert state_of(storage) == state
        storage.close()
        assert stored_state(path) == state


@pytest.mark.parametrize("first", range(1, 9))
def test_a_truncation_cuts_rows_runs_and_configurations(tmp_path: Path, first: int) -> None:
    """The log has rows of one, of three and of two entries; the cut goes before, through and after each."""
    path = create(tmp_path)
    old = [configuration(b"C1"), app(b"2"), app(b"3"), app(b"4", 2), configuration(b"C5", 3), app(b"6", 3)]
    new = [app(b"new", 4), configuration(b"new C", 4)]
    with closing(open_log(path)) as storage:
        for begin, end in ((0, 1), (1, 4), (4, 6)):
            store(storage, Write(HardState(9, 1), begin + 1, tuple(old[begin:end])))
        if first == 8:
            with pytest.raises(StorageError, match="defect"):
                store(storage, Write(None, first, tuple(new)))
            return
        store(storage, Write(None, first, tuple(new)))
        store(storage, Write(None, first + 2, (app(b"end", 4),)))
    assert stored_state(path).entries == [*old[: first - 1], *new, app(b"end", 4)]


def test_a_refused_group_leaves_nothing_behind(tmp_path: Path) -> None:
    path = filled(tmp_path, SMALL)
    with closing(open_log(path)) as storage, pytest.raises(StorageError, match="defect"):
        store(storage, Write(HardState(9, 3), 3, (app(b"x", 9), app(b"y", 8))))
    assert stored_state(path).hard_state == HardState(3, NOBODY)
    assert len(stored_state(path).entries) == 6


# Reading -------------------------------------------------------------------------------------------------------------


def test_read_stops_at_the_last_entry_or_the_bytes_but_gives_one_at_least(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(entry_chunks, "MAX_CHUNK_ENTRIES", 3)
    entries = [app(bytes(size)) for size in (5, 0, 100, 7, 7, 7, 300, 1)]
    with closing(open_log(filled(tmp_path, [Write(HardState(1, 1), 1, tuple(entries))]))) as storage:
        for first in range(1, 9):
            for last in range(first, 9):
                sizes = [ENTRY_HEADER_BYTES + len(entry.value) for entry in entries[first - 1 : last]]
                for limit in {0, 1, *(sum(sizes[:count]) + more for count in range(1, 9) for more in (-1, 0, 1))}:
                    count = max(1, sum(sum(sizes[: number + 1]) <= limit for number in range(len(sizes))))
                    assert storage.read(first, last, limit) == entries[first - 1 : first - 1 + count]


@pytest.mark.parametrize(("first", "last"), [(6, 7), (7, 7), (100, 200), (0, 3)])
def test_entries_that_are_not_there_are_an_error(tmp_path: Path, first: int, last: int) -> None:
    with closing(open_log(filled(tmp_path, SMALL))) as storage, pytest.raises(StorageError, match="does not hold"):
        storage.read(first, last, 1000)


def test_who_reads_a_log_in_pieces_has_each_row_unpacked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A follower that catches up gets 128 KiB at a time, and a row holds twice as much."""
    unpacked: list[int] = []

    def counting(path: Path, row: Any) -> Any:
        unpacked.append(row[0])
        return loading.unpacked(path, row)

    monkeypatch.setattr(log_tables, "unpacked", counting)
    entries = [app(b"%d" % number) for number in range(12)]
    writes = [Write(HardState(1, 1), first + 1, tuple(entries[first : first + 6])) for first in (0, 6)]
    with closing(open_log(filled(tmp_path, writes))) as storage:
        assert [storage.read(index, 12, 1)[0] for index in range(1, 13)] == entries
        assert unpacked == [1, 7]


def test_what_replaces_a_row_that_was_read_is_read_afterwards(tmp_path: Path) -> None:
    with closing(open_log(filled(tmp_path, [Write(HardState(1, 1), 1, (app(b"a"), app(b"b")))]))) as storage:
        assert storage.read(1, 2, 1) == [app(b"a")]
        store(storage, Write(None, 1, (app(b"c"), app(b"d"))))
        assert storage.read(1, 2, 1000) == [app(b"c"), app(b"d")]


def test_reading_does_not_keep_the_wal_from_starting_over(tmp_path: Path) -> None:
    """A read that ends early must not leave a transaction open: the WAL would grow for ever."""
    path = create(tmp_path)
    value = bytes(64 << 10)
    with closing(open_log(path)) as storage:
        store(storage, Write(HardState(1, 1), 1, (app(value),) * 20))
        longest = 0
        for index in range(21, 250):
            store(storage, Write(None, index, (app(value),)))
            assert len(storage.read(1, 20, 100)) == 1  # leaves rows unread
            if storage.checkpoint_due(idle=False):
                storage.checkpoint()
            longest = max(longest, path.with_name("log.db-wal").stat().st_size)
    assert longest <= database.WAL_BYTES


# Files ---------------------------------------------------------------------------------------------------------------


def test_all_files_are_private(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        with closing(open_log(create(tmp_path))) as storage:
            store(storage, *SMALL)
            modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in tmp_path.iterdir()}
    finally:
        os.umask(old)
    assert modes == dict.fromkeys(("log.db", "log.db-wal", "log.db-shm", "log.db-lock"), 0o600)


def test_sqlite_keeps_its_promises_only_with_these_settings(tmp_path: Path) -> None:
    with closing(open_log(create(tmp_path))) as storage:
        for connection in (storage._writing, storage._reading):
            settings = {
                name: connection.execute(f"PRAGMA {name}").fetchone()[0]
                for name in ("journal_mode", "synchronous", "page_size", "wal_autocheckpoint")
            }
            assert settings == {"journal_mode": "wal", "synchronous": 2, "page_size": 16384, "wal_autocheckpoint": 0}


def test_create_replaces_nothing(tmp_path: Path) -> None:
    path = filled(tmp_path, SMALL)
    before = path.read_bytes()
    with pytest.raises(StorageError, match="exists already and is left as it is"):
        create(tmp_path)
    assert path.read_bytes() == before


@pytest.mark.parametrize("beside", ["log.db-wal", "log.db"])
def test_create_does_not_touch_what_a_lost_log_left_behind(tmp_path: Path, beside: str) -> None:
    (tmp_path / beside).symlink_to("nowhere")
    with pytest.raises(StorageError, match=f"{beside} exists already"):
        create(tmp_path)
    assert (tmp_path / beside).is_symlink()


def test_create_in_a_missing_directory_says_so(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="directory must exist"):
        create(tmp_path / "missing")


def test_a_create_that_fails_leaves_no_log_and_does_not_prevent_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(path: Path) -> None:
        raise OSError(5, "Input/output error", str(path))

    with monkeypatch.context() as patch:
        patch.setattr("gf_i2p.storage.private_files.sync_file", fail)
        with pytest.raises(StorageError, match="Input/output error"):
            create(tmp_path)
    assert not (tmp_path / "log.db").exists()
    (tmp_path / "log.db-new-journal").write_bytes(b"left by a killed create")
    assert stored_state(create(tmp_path)) == State()
    assert not list(tmp_path.glob("log.db-new*"))


def test_create_syncs_the_file_before_its_name_and_then_the_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []

    def noted(name: str, real: Callable[..., object]) -> Callable[..., object]:
        def call(*arguments: Path) -> object:
            steps.append(f"{name} {arguments[0].name}")
            return real(*arguments)

        return call

    monkeypatch.setattr("gf_i2p.storage.private_files.sync_file", noted("sync", private_files.sync_file))
    monkeypatch.setattr("gf_i2p.storage.private_files.sync_directory", noted("directory", private_files.sync_directory))
    monkeypatch.setattr(Path, "rename", noted("rename", Path.rename))
    create(tmp_path)
    assert steps == ["sync log.db-new", "rename log.db-new", f"directory {tmp_path.name}"]


# Refusals ------------------------------------------------------------------------------------------------------------


def test_a_missing_log_is_not_created(tmp_path: Path) -> None:
    text = refusal(tmp_path / "log.db")
    assert "is missing" in text
    assert "gf-i2p init" in text
    assert list(tmp_path.iterdir()) == []


def test_a_second_opening_is_refused_and_harms_nothing(tmp_path: Path) -> None:
    path = create(tmp_path)
    with closing(open_log(path)) as storage:
        assert f"in use by process {os.getpid()}" in refusal(path)
        (tmp_path / "alias.db").symlink_to(path)
        with pytest.raises(StorageError, match="in use by process"):
            open_log(tmp_path / "alias.db")
        store(storage, *SMALL)
    assert len(stored_state(path).entries) == 6


def test_another_process_is_refused(tmp_path: Path) -> None:
    path = create(tmp_path)
    code = (
        "import sys; from pathlib import Path; from tests.storage.random_writes import open_log\n"
        "from gf_i2p.storage.errors import StorageError\n"
        "try: open_log(Path(sys.argv[1]))\n"
        "except StorageError as error: sys.exit(str(error))"
    )
    command = [sys.executable, "-c", code, str(path)]
    with closing(open_log(path)):
        refused = subprocess.run(command, capture_output=True, text=True, check=False)
        assert f"in use by process {os.getpid()}" in refused.stderr
    assert subprocess.run(command, capture_output=True, text=True, check=False).returncode == 0


@pytest.mark.skipif(os.geteuid() == 0, reason="root may open everything, so nothing is refused")
def test_a_file_of_another_user_is_refused(tmp_path: Path) -> None:
    path = filled(tmp_path, SMALL)
    path.chmod(0)
    with pytest.raises(StorageError, match="belong to the user"):
        open_log(path)


# The write-ahead log -------------------------------------------------------------------------------------------------


def test_the_wal_is_there_from_the_start_and_does_not_grow(tmp_path: Path) -> None:
    path = create(tmp_path)
    wal = path.with_name("log.db-wal")
    with closing(open_log(path)) as storage:
        assert wal.stat().st_size == database.WAL_BYTES
        index = 1
        while index < 40_000:
            store(storage, Write(HardState(1, 1), index, (app(bytes(1000)),) * 500))
            index += 500
            if storage.checkpoint_due(idle=False):
                storage.checkpoint()
        assert wal.stat().st_size == database.WAL_BYTES
    assert not wal.exists()


def test_an_idle_checkpoint_is_due_earlier(tmp_path: Path) -> None:
    with closing(open_log(create(tmp_path))) as storage:
        assert not storage.checkpoint_due(idle=True)
        store(storage, Write(HardState(1, 1), 1, (app(bytes(1 << 20)),) * 2))
        assert storage.checkpoint_due(idle=True)
        assert not storage.checkpoint_due(idle=False)
        store(storage, Write(None, 3, (app(bytes(1 << 20)),) * 2))
        assert storage.checkpoint_due(idle=False)
        storage.checkpoint()
        assert not storage.checkpoint_due(idle=True)


def test_a_wal_that_breaks_off_anywhere_gives_the_log_after_some_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Zeros from a random byte on, or a random bit flipped: never a torn write, never a write without earlier ones.

    A flipped bit may be refused, too.
    """
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    monkeypatch.setattr(database, "WAL_BYTES", 4096)
    path = create(tmp_path)
    states = [State()]
    with closing(open_log(path)) as storage:
        opened = path.read_bytes()
        for write in islice(writes(seed), 40):
            store(storage, write)
            states.append(states[-1].after(write))
        wal = path.with_name("log.db-wal").read_bytes()

    def recovered(wal: bytes) -> set[int]:
        """Return the numbers of the writes that leave what is stored: a write may undo what the last one did."""
        with TemporaryDirectory(dir=tmp_path) as directory:
            copy = Path(directory, "log.db")
            copy.write_bytes(opened)
            copy.with_name("log.db-wal").write_bytes(wal)
            found = stored_state(copy)
        return {number for number, state in enumerate(states) if state == found}

    assert 40 in recovered(wal)
    assert 40 in recovered(wal + bytes(100_000))
    number = 0
    seen = {number}
    for end in sorted(rng.sample(range(32, len(wal)), 40)):
        number = min(each for each in recovered(wal[:end] + bytes(len(wal) - end)) if each >= number)
        seen.add(number)
    assert len(seen) > 10
    for _ in range(10):
        flipped = bytearray(wal)
        flipped[rng.randrange(8, len(wal))] ^= 1 << rng.randrange(8)
        with suppress(DamagedError):
            assert recovered(bytes(flipped))
