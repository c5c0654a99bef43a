"""The tables without a file, as a simulator has them."""

import random
import sqlite3
from contextlib import closing, suppress
from itertools import islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gf_i2p.raft.effects import Write
from gf_i2p.storage import chunks
from gf_i2p.storage.errors import StorageError
from gf_i2p.storage.tables import Tables
from tests.storage.history import CLUSTER, SERVER, SMALL, State, state_of, store, writes

NOTHING = Write(None, 0, ())


def new() -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    Tables.create(connection, cluster=CLUSTER, server_id=SERVER)
    return connection


def on(connection: sqlite3.Connection) -> Tables:
    return Tables.on(connection, cluster=CLUSTER, server_id=SERVER)


def test_a_database_in_memory_is_a_log() -> None:
    with closing(new()) as connection:
        log = on(connection)
        assert state_of(log) == State()
        store(log, *SMALL)
        assert log.read(6, 6, 0) == [SMALL[2].entries[0]]
        with pytest.raises(StorageError, match=r"^:memory: does not hold the entries 7 to 7"):
            log.read(7, 7, 0)
        assert len(state_of(on(connection)).entries) == 6
        with pytest.raises(StorageError, match="log of server 7"):
            Tables.on(connection, cluster=CLUSTER, server_id=8)


@settings(max_examples=150, deadline=None)
@given(
    st.integers(0, 2**32),
    st.lists(st.integers(1, 4), min_size=1, max_size=40),
)
def test_random_writes_and_crashes_leave_what_they_should(seed: int, groups: list[int]) -> None:
    """Stored in groups, one of which may end anywhere in the middle; what was stored whole is there, nothing else."""
    rng = random.Random(seed)
    history = writes(seed, max_value=2000)
    state = State()
    with pytest.MonkeyPatch.context() as patch, closing(new()) as connection:
        patch.setattr(chunks, "MAX_CHUNK_BYTES", 4 << 10)
        log = on(connection)
        for size in groups:
            batch = list(islice(history, size))
            before = state.after(NOTHING)
            for write in batch:
                state.apply(write)
            if rng.random() < 0.3:
                crash_after(connection, rng.randrange(300))
                with suppress(sqlite3.OperationalError):
                    store(log, *batch)
                    before = state
                crash_after(connection, None)
                log = on(connection)
                if state_of(log) != state:  # an interrupted COMMIT may have been one
                    assert state_of(log) == before
                    store(log, *batch)
            else:
                store(log, *batch)
            assert_reads(log, state, rng)
        assert state_of(on(connection)) == state


def crash_after(connection: sqlite3.Connection, steps: int | None) -> None:
    """Interrupt SQLite after about so many of its instructions, wherever it is then."""
    left = steps or 0

    def progress() -> bool:
        nonlocal left
        left -= 1
        return left < 0

    connection.set_progress_handler(progress if steps is not None else None, 1)


def assert_reads(log: Tables, state: State, rng: random.Random) -> None:
    """What is in the log can be read from anywhere, and nothing before and behind it."""
    first = rng.randint(0, len(state.entries) + 2)
    last = rng.randint(first, len(state.entries) + 2)
    if first > 0 and last <= len(state.entries):
        assert log.read(first, last, 1 << 30) == state.entries[first - 1 : last]
    else:
        with pytest.raises(StorageError, match="does not hold"):
            log.read(first, last, 1 << 30)
