"""The tables without a file, for a simulator."""

import random
import sqlite3
from contextlib import closing, suppress
from itertools import islice

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gf_i2p.raft.effects import HardState, Write
from gf_i2p.storage import entry_chunks, log_tables, stored_snapshot
from gf_i2p.storage.errors import StorageError
from gf_i2p.storage.log_tables import Tables
from tests.storage.random_writes import CLUSTER, SERVER, SMALL, State, app, snapshot, state_of, store, writes
from tests.tier import examples

NOTHING = Write(None, 0, ())


def new() -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:")
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


# A row of which the dropped part alone was left after a truncation stayed.
@example(0, [1, 1, 1, 1, 1, 1, 1, 2, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 1, 1, 1, 3, 1], 1, 1)
@settings(max_examples=examples(150), deadline=None)
@given(
    st.integers(0, 2**32),
    st.lists(st.integers(1, 4), min_size=1, max_size=40),
    st.integers(1, 3),
    st.integers(1, 5000),
)
def test_random_writes_and_crashes_leave_what_they_should(
    seed: int, groups: list[int], sweep_rows: int, sweep_bytes: int
) -> None:
    """Writes are stored in groups, and a crash may come in the middle of a group: exactly the whole groups remain."""
    rng = random.Random(seed)
    history = writes(seed, max_value=2000)
    state = State()
    with pytest.MonkeyPatch.context() as patch, closing(new()) as connection:
        patch.setattr(entry_chunks, "MAX_CHUNK_BYTES", 4 << 10)
        patch.setattr(stored_snapshot, "BLOCK_BYTES", 1000)
        patch.setattr(log_tables, "SWEEP_ROWS", sweep_rows)
        patch.setattr(log_tables, "SWEEP_BYTES", sweep_bytes)
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
                if state_of(log) != state:  # an interrupted COMMIT may have been committed
                    assert state_of(log) == before
                    store(log, *batch)
            else:
                store(log, *batch)
            assert_reads(log, state, rng)
        assert state_of(on(connection)) == state
        # Dropped entries do not take space for ever.
        while log._unswept:
            store(log)
        kept = connection.execute("SELECT min(first_index + entry_count) FROM chunk").fetchone()[0]
        assert kept is None or kept > state.base[0] + 1


@pytest.mark.parametrize(("per_write", "size"), [(1, 50), (1, 1000), (7, 1000), (100, 1000), (1, 40_000)])
def test_a_log_that_is_compacted_does_not_grow(per_write: int, size: int) -> None:
    with closing(new()) as connection:
        log = on(connection)
        index = 1
        pages = []
        for number in range(4000):
            store(log, Write(HardState(1, 1), index, (app(bytes(size)),) * per_write))
            index += per_write
            if number % 500 == 499:
                store(log, Write(None, 0, (), snapshot(index - 1, 1, bytes(50_000)), index - 101))
                pages.append(connection.execute("PRAGMA page_count").fetchone()[0])
        assert max(pages) <= 1.1 * max(pages[:3])


def crash_after(connection: sqlite3.Connection, steps: int | None) -> None:
    """Interrupt SQLite after about `count` instructions, as a crash would."""
    left = steps or 0

    def progress() -> bool:
        nonlocal left
        left -= 1
        return left < 0

    connection.set_progress_handler(progress if steps is not None else None, 1)


def assert_reads(log: Tables, state: State, rng: random.Random) -> None:
    """Any range in the log can be read, and nothing before or behind the log."""
    first = rng.randint(0, state.last_index + 2)
    last = rng.randint(first, state.last_index + 2)
    if state.base[0] < first and last <= state.last_index:
        assert log.read(first, last, 1 << 30) == state.entries[first - state.base[0] - 1 : last - state.base[0]]
    else:
        with pytest.raises(StorageError, match="does not hold"):
            log.read(first, last, 1 << 30)
