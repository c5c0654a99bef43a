"""A file of version 1 is read, and made one of version 2 when it is opened."""

import random
import sqlite3
import zlib
from collections.abc import Iterable, Iterator
from contextlib import closing
from itertools import takewhile
from pathlib import Path

import pytest

from gf_i2p.raft.effects import Write
from gf_i2p.storage import database, wal
from gf_i2p.storage.database import Storage
from gf_i2p.storage.entry_chunks import pack
from gf_i2p.storage.errors import DamagedError, StorageError
from gf_i2p.storage.loading import Loaded
from tests.storage.disk_after_crash import Disk, traced
from tests.storage.random_writes import (
    CLUSTER,
    SERVER,
    SMALL,
    State,
    app,
    copied,
    open_log,
    snapshot,
    store,
    stored_state,
    writes,
)
from tests.storage.refusal import refusal

SCHEMA_1 = """
PRAGMA page_size = 16384;
PRAGMA auto_vacuum = NONE;
BEGIN;
PRAGMA application_id = 0x47464932;
PRAGMA user_version = 1;
CREATE TABLE server (
    cluster TEXT NOT NULL, id INTEGER NOT NULL, term INTEGER NOT NULL, vote INTEGER NOT NULL,
    last_index INTEGER NOT NULL, wal_bytes INTEGER NOT NULL, openings INTEGER NOT NULL,
    checksum INTEGER NOT NULL
);
CREATE TABLE chunk (
    first_index INTEGER PRIMARY KEY, entry_count INTEGER NOT NULL, checksum INTEGER NOT NULL, entries BLOB NOT NULL
);
CREATE TABLE term_run (first_index INTEGER PRIMARY KEY, term INTEGER NOT NULL);
CREATE TABLE configuration (log_index INTEGER PRIMARY KEY, value BLOB NOT NULL);
COMMIT;
PRAGMA journal_mode = WAL;
"""


def stored_1(history: Iterable[Write]) -> State:
    state = State()
    for write in history:
        state.apply(write._replace(snapshot=None, drop=0))
    return state


def filled_1(directory: Path, history: Iterable[Write], wal_bytes: int = 0) -> Path:
    """A closed file as version 1 made it."""
    state = stored_1(history)
    path = directory / "log.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.executescript(SCHEMA_1)
        packed = pack(1, state.entries, 0)
        values = (CLUSTER, SERVER, *state.hard_state, state.last_index, wal_bytes, 4)
        checksum = zlib.crc32(repr((*values, len(packed.runs), len(packed.configurations))).encode())
        connection.execute("INSERT INTO server VALUES (?, ?, ?, ?, ?, ?, ?, ?)", (*values, checksum))
        connection.executemany("INSERT INTO chunk VALUES (?, ?, ?, ?)", packed.chunks)
        connection.executemany("INSERT INTO term_run VALUES (?, ?)", packed.runs)
        connection.executemany("INSERT INTO configuration VALUES (?, ?)", packed.configurations)
    return path


def history_1(seed: int) -> Iterator[Write]:
    """What version 1 knew of a history, up to the first log that is replaced."""
    return takewhile(
        lambda write: not write.install, (write for write, _ in zip(writes(seed), range(60), strict=False))
    )


def version(path: Path) -> int:
    return int.from_bytes(path.read_bytes()[60:64])


def test_a_file_of_version_1_is_upgraded_when_it_is_opened(tmp_path: Path) -> None:
    path = filled_1(tmp_path, SMALL)
    before = path.read_bytes()
    expected = stored_1(SMALL)
    loaded = Storage.examine(path, cluster=CLUSTER, server_id=SERVER)
    assert path.read_bytes() == before
    assert loaded == Loaded(
        expected.hard_state, 6, tuple(expected.terms), tuple(expected.configurations), 4, (0, 0), None, None, None
    )
    with closing(open_log(path)) as storage:
        assert version(path) == 2  # not in the WAL only
        assert storage.loaded == loaded
        store(storage, Write(None, 7, (app(b"e", 3),), snapshot(5, 3), 4))
    state = stored_state(path)
    assert (state.base, [entry.value for entry in state.entries]) == ((4, 3), [b"c", b"d", b"e"])


def test_any_log_of_version_1_is_the_same_after_it(tmp_path: Path) -> None:
    for seed in range(8):
        directory = tmp_path / str(seed)
        directory.mkdir()
        path = filled_1(directory, history_1(seed))
        expected = stored_1(history_1(seed))
        assert stored_state(path) == expected
        assert stored_state(path) == expected


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("UPDATE server SET term = 4", "checksum"),
        ("UPDATE server SET wal_bytes = 1", "checksum"),
        ("DELETE FROM server", "names 0 servers"),
        ("DELETE FROM chunk", "entries 1 to 6 are missing"),
        ("UPDATE term_run SET first_index = 3 WHERE first_index = 4", "should have the term"),
        ("CREATE TABLE snapshot (one)", "tables"),
        ("DROP TABLE chunk", "tables"),
    ],
)
def test_a_damaged_file_of_version_1_is_not_upgraded(tmp_path: Path, statement: str, message: str) -> None:
    path = filled_1(tmp_path, SMALL)
    with closing(sqlite3.connect(path)) as raw:
        raw.execute(statement)
        raw.commit()
    assert message in refusal(path, DamagedError)
    assert version(path) == 1


def test_a_file_of_version_1_whose_wal_was_lost_is_not_upgraded(tmp_path: Path) -> None:
    path = filled_1(tmp_path, SMALL, wal_bytes=1000)
    assert "is missing" in refusal(path)
    assert version(path) == 1


@pytest.mark.parametrize("number", range(2))
def test_an_upgrade_that_fails_leaves_version_1(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    path = filled_1(tmp_path, SMALL)
    with monkeypatch.context() as patch:
        if number:
            patch.setattr("gf_i2p.storage.upgrade.SCHEMA_VERSION", "nonsense here")
        else:
            patch.setattr("gf_i2p.storage.upgrade.INSERT_SERVER", "INSERT INTO server VALUES (?)")
        with pytest.raises((StorageError, sqlite3.Error)):
            open_log(path)
    assert version(path) == 1
    assert stored_state(path) == stored_1(SMALL)


@pytest.mark.usefixtures("strace")
def test_an_upgrade_may_be_killed_or_cut_off_from_power_at_any_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "WAL_BYTES", 128 << 10)
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    path = filled_1(tmp_path, SMALL)
    expected = stored_1(SMALL)
    disk = Disk(tmp_path)
    run, said = traced(tmp_path, path, seed, 0, 0, 1)
    assert said == ["opened"]
    versions = set()
    for call in run:
        if not disk.take(call):
            continue
        for made in (disk.killed(tmp_path / "killed"), disk.cut(tmp_path / "cut", rng)):
            examined = copied(made, made.parent / "examined")
            assert Storage.examine(examined, cluster=CLUSTER, server_id=SERVER).last_index == 6
            versions.add((version(made), wal.path_of(made).exists()))
            assert stored_state(made) == expected
            assert version(made) == 2
    assert {(1, True), (2, True)} <= versions
