"""A lost WAL is noticed after a kill; a log after a kill or a power cut is never refused."""

import os
import random
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from gf_i2p.raft.effects import HardState, Write
from gf_i2p.storage import database, schema, wal
from gf_i2p.storage.errors import DamagedError, StorageError
from tests.storage.disk_after_crash import Disk, start, start_over, traced
from tests.storage.random_writes import (
    SMALL,
    State,
    app,
    copied,
    create,
    eventful_seed,
    filled,
    history_states,
    open_log,
    store,
    stored_state,
)
from tests.storage.refusal import refusal
from tests.tier import is_everything, mostly_slow

SEED = 11
CHILD_WAL_BYTES = 128 << 10
"""WAL size that the writing child sets."""


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[State]]:
    """A log whose owner was killed during writes, and the possible states of the log."""
    path = create(tmp_path_factory.mktemp("busy"))
    with start(path, SEED, 0, 1_000_000, 1) as child:
        assert child.stdout is not None
        lines = [child.stdout.readline() for _ in range(40)]
        child.kill()
        lines += child.stdout.readlines()
    least = max(int(line) for line in lines if line.strip().isdigit())
    return path, history_states(SEED, least + 2)[least:]


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log whose owner was killed right after opening."""
    path = create(tmp_path_factory.mktemp("fresh"))
    with start(path, SEED, 0, 0, 1) as child:  # ends alone, without closing
        assert child.communicate()[0] == "opened\n"
    return path


def alone(path: Path, directory: Path) -> Path:
    """Copy the database file without its WAL."""
    directory.mkdir()
    copy = directory / path.name
    copy.write_bytes(path.read_bytes())
    return copy


# Refusals ------------------------------------------------------------------------------------------------------------

LOSSES: dict[str, Callable[[Path], object]] = {
    "deleted": Path.unlink,
    "emptied": lambda path: os.truncate(path, 0),
    "cut to its header": lambda path: os.truncate(path, 32),
    "cut in the middle": lambda path: os.truncate(path, CHILD_WAL_BYTES // 2),
    "cut by a byte": lambda path: os.truncate(path, CHILD_WAL_BYTES - 1),
    "zeroed": lambda path: path.write_bytes(bytes(path.stat().st_size)),
    "a new one": lambda path: path.write_bytes(bytes(database.WAL_BYTES)),
    "something else": lambda path: path.write_bytes(b"server = 7\n" * 1_000_000),
}


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("killed", ["busy", "fresh"])
def test_a_wal_that_is_lost_after_a_kill_is_noticed(
    tmp_path: Path, request: pytest.FixtureRequest, killed: str, loss: str
) -> None:
    found = request.getfixturevalue(killed)
    path = copied(found[0] if killed == "busy" else found, tmp_path / "copy")
    beside = wal.wal_path(path)
    LOSSES[loss](beside)
    left = beside.read_bytes() if beside.exists() else None
    text = refusal(path)
    assert str(beside) in text
    assert "was not closed" in text
    assert "bring the whole directory" in text
    assert "add a new one, with a new id" in text
    assert ("is missing" in text) == (loss == "deleted")
    assert (f"of at least {CHILD_WAL_BYTES} bytes" in text) == loss.startswith("cut")
    assert (beside.read_bytes() if beside.exists() else None) == left


def test_with_its_wal_a_killed_log_has_everything(tmp_path: Path, busy: tuple[Path, list[State]], fresh: Path) -> None:
    path, states = busy
    assert stored_state(copied(path, tmp_path / "busy")) in states
    assert stored_state(copied(fresh, tmp_path / "fresh")) == State()


def test_a_log_whose_wal_was_moved_completely_cannot_prove_it(tmp_path: Path) -> None:
    with closing(open_log(create(tmp_path))) as storage:
        store(storage, *SMALL)
        storage.checkpoint()
        assert "is missing" in refusal(alone(storage.path, tmp_path / "alone"))


def test_a_refusal_for_another_reason_does_not_lose_the_wal(tmp_path: Path, busy: tuple[Path, list[State]]) -> None:
    path = copied(busy[0], tmp_path / "copy")
    before = wal.wal_path(path).read_bytes()
    assert "configuration says server 8" in refusal(path, server_id=8)
    assert wal.wal_path(path).read_bytes() == before
    assert stored_state(path) in busy[1]


# No refusals ---------------------------------------------------------------------------------------------------------


def test_a_new_log_needs_no_wal(tmp_path: Path) -> None:
    assert stored_state(alone(create(tmp_path), tmp_path / "alone")) == State()


def test_a_log_that_was_closed_needs_no_wal(tmp_path: Path, busy: tuple[Path, list[State]]) -> None:
    path = copied(busy[0], tmp_path / "copy")
    state = stored_state(path)
    assert state in busy[1]
    assert stored_state(alone(path, tmp_path / "alone")) == state


def test_a_wal_that_was_begun_anew_and_has_no_frame_is_none_that_was_lost(tmp_path: Path) -> None:
    """A power cut right after a checkpoint leaves this state, which the random tests with `Disk` seldom reach."""
    with closing(open_log(create(tmp_path))) as storage:
        store(storage, *SMALL)
        storage.checkpoint()
        copy = copied(storage.path, tmp_path / "copy")
    state = stored_state(copied(copy, tmp_path / "whole"))
    assert len(state.entries) == 6
    start_over(wal.wal_path(copy))
    assert stored_state(copy) == state


@pytest.mark.parametrize("closed", [False, True])
@pytest.mark.parametrize("lost", [1, 2])
def test_a_lost_checkpoint_is_noticed_though_the_new_wal_has_no_frame(tmp_path: Path, lost: int, closed: bool) -> None:
    """The disk lies about the latest checkpoints, and the power fails right behind the new header of the WAL."""
    path = create(tmp_path)
    if closed:
        open_log(path).close()
    with closing(open_log(path)) as storage:
        for number, write in enumerate(SMALL[: lost + 1]):
            if number == 1:
                old = path.read_bytes()
            store(storage, write)
            storage.checkpoint()
        copy = copied(path, tmp_path / "copy")
    start_over(wal.wal_path(copy))
    assert len(stored_state(copied(copy, tmp_path / "honest")).entries) == len(stored_state(path).entries)
    copy.write_bytes(old)
    assert "log.db is older than log.db-wal" in refusal(copy, DamagedError)


@pytest.mark.parametrize("size", [0, 1000, 64 << 10])
def test_a_wal_that_was_not_yet_filled_is_none_that_was_lost(tmp_path: Path, size: int) -> None:
    path = filled(tmp_path, SMALL)
    wal.wal_path(path).write_bytes(bytes(size))
    with closing(open_log(path)) as storage:
        assert wal.wal_path(path).stat().st_size == database.WAL_BYTES
        assert storage.loaded.last_index == 6


# Closing -------------------------------------------------------------------------------------------------------------


def test_a_log_that_failed_keeps_its_wal_and_needs_it(tmp_path: Path) -> None:
    path = create(tmp_path)
    storage = open_log(path)
    store(storage, *SMALL)
    (pages,) = storage._writing.execute("PRAGMA page_count").fetchone()
    storage._writing.execute(f"PRAGMA max_page_count = {pages + 3}")
    with pytest.raises(StorageError, match="is full"):
        store(storage, Write(None, 7, (app(bytes(200_000), 3),)))
    storage.close()
    assert "is missing" in refusal(alone(path, tmp_path / "alone"))
    assert len(stored_state(path).entries) == 6


@pytest.mark.parametrize("number", [1, 2])
def test_a_close_that_fails_keeps_the_wal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    path = create(tmp_path)
    storage = open_log(path)
    store(storage, *SMALL)
    move = storage._move_wal
    calls: list[str] = []

    def failing(mode: str) -> bool:
        calls.append(mode)
        if len(calls) == number:
            raise OSError(5, "Input/output error")
        return move(mode)

    monkeypatch.setattr(storage, "_move_wal", failing)
    with pytest.raises(StorageError, match="Input/output error"):
        storage.close()
    assert "is missing" in refusal(alone(path, tmp_path / "alone"))
    assert len(stored_state(path).entries) == 6


@pytest.mark.parametrize("end", ["sys.exit(1)", "raise RuntimeError", "del storage; gc.collect(); os._exit(1)"])
def test_an_owner_that_never_closes_keeps_the_wal(tmp_path: Path, end: str) -> None:
    """Python closes left-over connections, and SQLite then deletes the WAL, unless something prevents that."""
    path = create(tmp_path)
    code = (
        "import gc, os, sys; from pathlib import Path; from tests.storage.random_writes import SMALL, open_log, store\n"
        f"storage = open_log(Path(sys.argv[1])); store(storage, *SMALL); {end}"
    )
    command = [sys.executable, "-c", code, str(path)]
    assert subprocess.run(command, capture_output=True, check=False).returncode == 1
    assert "is missing" in refusal(alone(path, tmp_path / "alone"))
    assert len(stored_state(path).entries) == 6


def test_closing_beside_a_reader_lets_the_reader_finish(tmp_path: Path) -> None:
    path = create(tmp_path)
    storage = open_log(path)
    store(storage, SMALL[0])
    with closing(sqlite3.connect(path)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM server").fetchall()
        store(storage, *SMALL[1:])
        storage.close()
        assert "is missing" in refusal(alone(path, tmp_path / "too early"))
    assert not wal.wal_path(path).exists()
    assert len(stored_state(path).entries) == 6


@pytest.mark.parametrize("killed", [False, True])
def test_opening_beside_a_reader_that_does_not_end_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, busy: tuple[Path, list[State]], killed: bool
) -> None:
    """The main file cannot record yet that the WAL is needed."""
    monkeypatch.setattr(schema, "PATIENCE_SECONDS", 0.01)
    path = copied(busy[0], tmp_path / "copy")
    state = stored_state(copied(path, tmp_path / "other"))
    if not killed:
        open_log(path).close()
    with closing(sqlite3.connect(path)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM server").fetchall()
        with pytest.raises(StorageError, match=r"held by another program.*then start this node"):
            open_log(path)
    assert not wal.wal_path(path).exists()
    assert stored_state(path) == state


CHECKPOINTING = """
import fcntl, sqlite3, sys
connection = sqlite3.connect(sys.argv[1])
connection.execute("SELECT * FROM server").fetchall()
with open(sys.argv[1] + "-shm", "r+b") as index:
    fcntl.lockf(index, fcntl.LOCK_EX, 1, 121)  # SQLite's lock of the one who checkpoints
    print("held", flush=True)
    sys.stdin.read()
"""


def test_opening_beside_a_foreign_checkpoint_is_refused(tmp_path: Path) -> None:
    path = create(tmp_path)
    with subprocess.Popen(
        [sys.executable, "-c", CHECKPOINTING, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        with pytest.raises(StorageError, match="held by another program"):
            open_log(path)
        other.communicate()
    assert stored_state(path) == State()


# Every moment --------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("strace")
def test_a_log_is_there_whenever_its_creation_is_killed_or_can_be_created_then(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    disk = Disk(tmp_path / "run")
    run, said = traced(tmp_path, tmp_path / "run" / "log.db")
    assert said == ["created"]
    found = []
    for call in run:
        if disk.take(call):
            path = disk.killed(tmp_path / "killed")
            found.append(path.exists())
            if not path.exists():
                create(path.parent)
            assert stored_state(path) == State()
    assert found == sorted(found)
    assert (found[0], found[-1]) == (False, True)


@pytest.mark.usefixtures("strace")
@pytest.mark.parametrize("before", mostly_slow([0, 8], 8))
def test_a_log_opens_after_every_moment_and_without_its_wal_only_when_it_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: int
) -> None:
    """Opening, writing and closing, with a kill and a power cut after each system call; in `make test` after some.

    `before`: writes before a kill; 0: a clean close came before.
    """
    monkeypatch.setattr(database, "WAL_BYTES", CHILD_WAL_BYTES)
    count = before + 16
    seed = eventful_seed(before, count)
    rng = random.Random(seed)
    path = create(tmp_path)
    if before:
        traced(tmp_path, path, seed, 0, before, 1)
    disk = Disk(tmp_path)
    run, said = traced(tmp_path, path, seed, before, count, 1, 1)
    assert said[-1] == "closed"
    states = history_states(seed, count)

    def newest(path: Path) -> int:
        found = stored_state(path)
        return max(number for number, state in enumerate(states) if state == found)

    acknowledged = before
    opened = False
    refused = 0
    share = 1 if is_everything() else 8
    for call in run:
        if call.data == b"opened\n":
            opened = True
            # An unsynced mark does not count: the mark must be on the disk.
            (lonely := tmp_path / "synced").mkdir()
            (lonely / "log.db").write_bytes(disk.files["log.db"].synced)
            assert "is missing" in refusal(lonely / "log.db")
        elif call.name == "write" and call.data.strip().isdigit():
            acknowledged = int(call.data)
        if not disk.take(call) or (acknowledged < count and rng.randrange(share)):
            continue
        for made in (disk.killed(tmp_path / "killed"), disk.cut(tmp_path / "cut", rng)):
            main = made.read_bytes()
            assert newest(made) >= acknowledged
            (made.parent / "alone").mkdir()
            main_alone = made.parent / "alone" / "log.db"
            main_alone.write_bytes(main)
            try:
                assert newest(main_alone) >= acknowledged
            except StorageError:
                assert main_alone.read_bytes() == main
                refused += 1
            else:
                assert not opened or acknowledged == count, "only what was closed needs no WAL"
    assert refused > (50 if is_everything() else 5)
    assert stored_state(main_alone) == states[count]


def test_the_term_and_the_vote_are_not_forgotten_with_the_wal(tmp_path: Path) -> None:
    """The case behind all these rules: the main file alone would vote again in a term with an earlier vote."""
    path = create(tmp_path)
    with closing(open_log(path)) as storage:
        store(storage, Write(HardState(5, 3), 1, ()))
        copy = copied(path, tmp_path / "copy")
    assert stored_state(copied(copy, tmp_path / "whole")).hard_state == HardState(5, 3)
    wal.wal_path(copy).unlink()
    assert "the vote may be only in " in refusal(copy)
