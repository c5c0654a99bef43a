"""Snapshots and dropped beginnings in a file."""

import random
import sqlite3
from collections.abc import Iterable
from contextlib import closing, suppress
from itertools import islice
from pathlib import Path

import pytest

from gf_i2p.raft.effects import HardState, Snapshot, Write
from gf_i2p.storage import log_tables, schema, stored_snapshot
from gf_i2p.storage.database import Storage
from gf_i2p.storage.errors import DamagedError, StorageError
from gf_i2p.wire.errors import LocalProtocolError
from gf_i2p.wire.limits import MAX_SNAPSHOT_BYTES
from gf_i2p.wire.log_values import ClusterServer, Configuration
from gf_i2p.wire.messages import NOBODY
from tests.storage.random_writes import (
    CLUSTER,
    SERVER,
    SMALL,
    app,
    create,
    filled,
    open_log,
    snapshot,
    state_beside_snapshot,
    state_of,
    store,
    stored_state,
    writes,
)
from tests.storage.refusal import refusal
from tests.tier import is_everything, some_of

COMPACTED = (*SMALL, Write(None, 0, (), snapshot(5, 3), 2))
"""Entries 3 to 6 are left, the first one in a row with two earlier ones."""


# Kept data -----------------------------------------------------------------------------------------------------------


def test_a_snapshot_and_the_base_are_there_at_the_next_opening(tmp_path: Path) -> None:
    path = filled(tmp_path, COMPACTED)
    with closing(open_log(path)) as storage:
        loaded = storage.loaded
        assert loaded.base == (2, 1)
        assert loaded.snapshot == snapshot(5, 3)
        assert loaded.snapshot_fault is None
        assert loaded.last_index == 6
        assert loaded.terms == ((2, 1), (4, 3))
        assert loaded.configurations == ((4, b"C4"),)
        assert [entry.value for entry in storage.read(3, 6, 1000)] == [b"b", b"C4", b"c", b"d"]
    after = Storage.examine(path, cluster=CLUSTER, server_id=SERVER)
    assert after.written > after.checkpointed > loaded.written
    assert after == loaded._replace(written=after.written, checkpointed=after.checkpointed)


@pytest.mark.parametrize("size", [1, 99, 100, 101, 300, 12_345])
def test_a_snapshot_of_any_size_comes_back_in_the_place_of_any_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setattr(stored_snapshot, "BLOCK_BYTES", 100)
    servers = tuple(ClusterServer(number, f"tcp://host:{number}") for number in range(5))
    new = snapshot(6, 3, random.randbytes(size))
    new = Snapshot(6, 3, Configuration(4, 1, servers), new.data)
    path = filled(tmp_path, [*COMPACTED, Write(None, 0, (), new)])
    assert stored_state(path).snapshot == new
    with closing(sqlite3.connect(path)) as raw:
        assert raw.execute("SELECT max(length(data)), sum(length(data)) FROM snapshot_block").fetchone() == (
            min(size, 100),
            size,
        )


def test_the_largest_snapshot_fits(tmp_path: Path) -> None:
    new = snapshot(6, 3, bytes(MAX_SNAPSHOT_BYTES))
    assert stored_state(filled(tmp_path, [*SMALL, Write(None, 0, (), new)])).snapshot == new


def test_the_data_of_a_loaded_snapshot_is_let_go(tmp_path: Path) -> None:
    with closing(open_log(filled(tmp_path, COMPACTED))) as storage:
        assert storage.loaded.snapshot is not None
        store(storage, Write(None, 0, (), snapshot(6, 3)))
        assert storage.loaded.snapshot is None
        assert storage.loaded.snapshot_fault is None


@pytest.mark.parametrize("drop", range(1, 7))
def test_what_was_dropped_cannot_be_read(tmp_path: Path, drop: int) -> None:
    """Rows of one entry, of three and of two: the base is in the middle of each row, and at the row's end."""
    path = create(tmp_path)
    old = [app(b"1"), app(b"2"), app(b"3"), app(b"4", 2), app(b"5", 3), app(b"6", 3)]

    def check(storage: Storage) -> None:
        for first in range(drop + 1):
            for last in range(first, 7):
                with pytest.raises(StorageError, match=f"does not hold the entries {first} to {last}"):
                    storage.read(first, last, 1000)
        for first in range(drop + 1, 7):
            assert storage.read(first, 6, 1000) == old[first - 1 :]

    with closing(open_log(path)) as storage:
        for begin, end in ((0, 1), (1, 4), (4, 6)):
            store(storage, Write(HardState(9, 1), begin + 1, tuple(old[begin:end])))
        store(storage, Write(None, 0, (), snapshot(drop, old[drop - 1].term), drop))
        check(storage)
    with closing(open_log(path)) as storage:
        check(storage)
        store(storage, Write(None, drop + 1, (app(b"new", 9),)))
        assert storage.read(drop + 1, drop + 1, 1000) == [app(b"new", 9)]
    with closing(open_log(path)) as storage:
        assert storage.loaded.terms == ((drop, old[drop - 1].term), (drop + 1, 9))
        assert storage.loaded.last_index == drop + 1


@pytest.mark.parametrize(("index", "term"), [(3, 2), (5, 4), (6, 3), (6, 4), (9, 4)])
def test_an_installed_snapshot_replaces_the_log(tmp_path: Path, index: int, term: int) -> None:
    path = create(tmp_path)
    with closing(open_log(path)) as storage:
        store(storage, *SMALL)
        store(storage, Write(HardState(5, NOBODY), 0, (), snapshot(index, term), install=True))
        for first in range(11):
            with pytest.raises(StorageError, match="does not hold"):
                storage.read(first, first, 1000)
    with closing(open_log(path)) as storage:
        loaded = storage.loaded
        assert (loaded.base, loaded.last_index) == ((index, term), index)
        assert loaded.terms == ((index, term),)
        assert loaded.configurations == ()
        assert loaded.snapshot == snapshot(index, term)
        store(storage, Write(None, index + 1, (app(b"on", term), app(b"and on", 5))))
    with closing(open_log(path)) as storage:
        assert storage.loaded.terms == ((index, term), (index + 2, 5))
        assert storage.read(index + 1, index + 2, 1000) == [app(b"on", term), app(b"and on", 5)]


def test_a_snapshot_whose_configuration_is_none_changes_nothing(tmp_path: Path) -> None:
    path = filled(tmp_path, SMALL)
    servers = (ClusterServer(1, "tcp://one:1"), ClusterServer(1, "tcp://one:1"))
    bad = Snapshot(5, 3, Configuration(1, 0, servers), b"x")
    with closing(open_log(path)) as storage:
        with pytest.raises(LocalProtocolError):
            store(storage, Write(None, 0, (), bad, 4))
        assert len(storage.read(1, 6, 1000)) == 6
    assert stored_state(path).base == (0, 0)


# Space ---------------------------------------------------------------------------------------------------------------


def rows(path: Path) -> list[int]:
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as raw:
        return [first for (first,) in raw.execute("SELECT first_index FROM chunk ORDER BY first_index")]


def test_dropped_rows_go_a_few_with_each_transaction(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_tables, "SWEEP_ROWS", 4)
    path = create(tmp_path)
    with closing(open_log(path)) as storage:
        for index in range(1, 21):
            store(storage, Write(HardState(1, 1), index, (app(b"x"),)))
        store(storage, Write(None, 0, (), snapshot(20), 18))
        assert rows(path) == list(range(5, 21))
        store(storage, Write(None, 21, (app(b"x"),)))
        assert rows(path) == list(range(11, 22))
    # The same after another opening.
    with closing(open_log(path)) as storage:
        assert storage.loaded.base == (18, 1)
        store(storage, Write(None, 22, (app(b"x"),)))
        assert rows(path) == list(range(17, 23))
        store(storage, Write(None, 23, (app(b"x"),)))
        assert rows(path) == list(range(19, 24))
        assert not storage._tables._unswept
        store(storage, Write(None, 24, (app(b"x"),)))
        assert rows(path) == list(range(19, 25))


def test_dropped_rows_go_by_their_bytes_and_one_at_least(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_tables, "SWEEP_BYTES", 1000)
    path = create(tmp_path)
    with closing(open_log(path)) as storage:
        for index in range(1, 6):
            store(storage, Write(HardState(1, 1), index, (app(bytes(2000 if index < 3 else 300)),)))
        store(storage, Write(None, 0, (), snapshot(5), 5))
        assert rows(path) == [2, 3, 4, 5]
        store(storage, Write(HardState(2, 1), 0, ()))
        assert rows(path) == [3, 4, 5]
        store(storage, Write(HardState(3, 1), 0, ()))
        assert rows(path) == []
    assert stored_state(path).last_index == 5


def test_a_row_on_both_sides_of_the_base_goes_when_the_base_has_passed_it(tmp_path: Path) -> None:
    path = create(tmp_path)
    with closing(open_log(path)) as storage:
        for write in SMALL:
            store(storage, write)
        for drop, left in ((1, [1, 4, 6]), (2, [1, 4, 6]), (3, [4, 6]), (5, [6]), (6, [])):
            new = snapshot(drop, 1 if drop < 4 else 3)
            store(storage, Write(None, 0, (), new, drop))
            assert rows(path) == left


def test_the_files_of_a_log_that_is_compacted_do_not_grow(tmp_path: Path) -> None:
    path = create(tmp_path)
    per_write = 40
    index = 1
    with closing(open_log(path)) as storage:
        pages = []
        while index <= 12_000:
            store(storage, Write(HardState(1, 1), index, (app(bytes(1000)),) * per_write))
            index += per_write
            if index % 1000 < per_write:
                store(storage, Write(None, 0, (), snapshot(index - 1, 1, bytes(50_000)), index - 101))
                pages.append(storage._writing.execute("PRAGMA page_count").fetchone()[0])
            if storage.checkpoint_due(idle=False):
                storage.checkpoint()
        assert max(pages) == max(pages[:4])
        assert path.with_name("log.db-wal").stat().st_size <= 8 << 20
    assert path.stat().st_size < 5 << 20


# Damage --------------------------------------------------------------------------------------------------------------

DAMAGES = {
    "its data": "UPDATE snapshot_block SET data = CAST('other' AS BLOB)",
    "a bit of it": "UPDATE snapshot_block SET data = CAST('statf' AS BLOB)",
    "its type": "UPDATE snapshot_block SET data = CAST(x'ff3031ff32' AS TEXT)",
    "its checksum": "UPDATE snapshot SET checksum = checksum + 1",
    "its index": "UPDATE snapshot SET log_index = 6",
    "its term": "UPDATE snapshot SET term = 1",
    "its size": "UPDATE snapshot SET size = 4",
    "no size": "UPDATE snapshot SET size = 'five'",
    "a huge size": "UPDATE snapshot SET size = 1 << 40",
    "its Configuration": "UPDATE snapshot SET configuration = zeroblob(16)",
    "no Configuration": "UPDATE snapshot SET configuration = 5",
    "a block less": "DELETE FROM snapshot_block",
    "a block more": "INSERT INTO snapshot_block VALUES (7, x'00')",
    "a block without data": """
        PRAGMA writable_schema = ON;
        UPDATE sqlite_master SET sql = replace(sql, 'BLOB NOT NULL)', 'BLOB)') WHERE name = 'snapshot_block';
        PRAGMA writable_schema = RESET;
        INSERT INTO snapshot_block VALUES (7, NULL);
        PRAGMA writable_schema = ON;
        UPDATE sqlite_master SET sql = replace(sql, 'BLOB)', 'BLOB NOT NULL)') WHERE name = 'snapshot_block';
        PRAGMA writable_schema = RESET
    """,
    "no row": "DELETE FROM snapshot",
    "two rows": "INSERT INTO snapshot SELECT * FROM snapshot",
    "nothing at all": "DELETE FROM snapshot_block; DELETE FROM snapshot",
}


DATA_ONLY = {"its data", "a bit of it", "its type", "a block less", "a block more", "a block without data"}
"""Faults that spare the row about the snapshot."""


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_snapshot_leaves_the_log_as_it_is_and_can_be_sent_again(tmp_path: Path, damage: str) -> None:
    path = filled(tmp_path, COMPACTED)
    before = stored_state(path)
    with closing(sqlite3.connect(path)) as raw:
        raw.executescript(DAMAGES[damage])
    for new in (snapshot(2, 1, b"of another server"), snapshot(6, 3, b"a later one")):
        with closing(open_log(path)) as storage:
            if new.index == 2:
                fault = storage.loaded.snapshot_fault
                assert fault is not None
                assert f"the snapshot in {path} is damaged: " in fault
                assert "The log begins at 3: the leader has to send another snapshot." in fault
                assert vars(state_beside_snapshot(storage)) == vars(before) | {"snapshot": None}
                kept = snapshot(5, 3).configuration if damage in DATA_ONLY else None
                assert storage.loaded.configuration == kept, "who belongs to the farm is known without the state"
            else:
                state_of(storage)
            store(storage, Write(None, 0, (), new))
        after = stored_state(path)
        assert vars(after) == vars(before) | {"snapshot": new}


def test_every_opening_says_so_until_it_is_replaced(tmp_path: Path) -> None:
    path = filled(tmp_path, COMPACTED)
    with closing(sqlite3.connect(path)) as raw:
        raw.executescript(DAMAGES["its data"])
    before = path.read_bytes()
    loaded = Storage.examine(path, cluster=CLUSTER, server_id=SERVER)
    assert loaded.snapshot_fault is not None
    assert "checksum" in loaded.snapshot_fault
    assert path.read_bytes() == before
    for index in range(7, 10):
        with closing(open_log(path)) as storage:
            assert storage.loaded.snapshot_fault is not None
            store(storage, Write(None, index, (app(b"on", 3),)))
    with closing(open_log(path)) as storage:
        assert len(storage.read(3, 9, 1000)) == 7


def test_a_damaged_snapshot_of_a_whole_log_is_no_loss(tmp_path: Path) -> None:
    path = filled(tmp_path, [*SMALL, Write(None, 0, (), snapshot(5, 3))])
    with closing(sqlite3.connect(path)) as raw:
        raw.executescript(DAMAGES["its data"])
    with closing(open_log(path)) as storage:
        assert storage.loaded.snapshot_fault is not None
        assert "The log still has all entries." in storage.loaded.snapshot_fault
        assert len(state_beside_snapshot(storage).entries) == 6


def test_a_snapshot_that_ends_before_the_log_begins_is_none(tmp_path: Path) -> None:
    path = filled(tmp_path, COMPACTED)
    with closing(sqlite3.connect(path)) as raw:
        old = snapshot(1, 1)
        stored_snapshot.replace_snapshot(raw, stored_snapshot.describe_snapshot(old), old.data, set_aside=False)
        raw.commit()
    with closing(open_log(path)) as storage:
        assert storage.loaded.snapshot is None
        assert "covers the entries up to 1 only" in str(storage.loaded.snapshot_fault)
        assert storage.loaded.configuration is None


@pytest.mark.parametrize(("index", "term"), [(7, 3), (5, 2), (2, 2)])
def test_a_sound_snapshot_that_ends_with_no_entry_of_a_sound_log_is_damage(
    tmp_path: Path, index: int, term: int
) -> None:
    """Log or snapshot is older than the other: the log may have forgotten acknowledged entries."""
    path = filled(tmp_path, COMPACTED)
    with closing(sqlite3.connect(path)) as raw:
        new = snapshot(index, term)
        stored_snapshot.replace_snapshot(raw, stored_snapshot.describe_snapshot(new), new.data, set_aside=False)
        raw.commit()
    assert f"entry {index}, with which its snapshot ends, is not in the log" in refusal(path, DamagedError)


def large(count: int) -> Iterable[Write]:
    """A log whose rows and snapshot take many pages each."""
    yield Write(HardState(1, 1), 1, (app(bytes(1000)),) * count)
    for index in range(count + 1, 2 * count + 1):
        yield Write(None, index, (app(bytes(1000)),))
    yield Write(None, 0, (), snapshot(count, 1, random.randbytes(300_000)), count // 2)


SHARE = 4


def test_no_lost_page_takes_the_log_along_when_its_snapshot_is_replaced(tmp_path: Path) -> None:
    """Each page is zeroed in turn, in `make test` one of four.

    Pages that SQLite deletes in a damaged table may belong to another table.
    """
    path = filled(tmp_path, large(100))
    state = stored_state(path)
    original = path.read_bytes()
    faults = errors = 0
    for page in some_of(len(original) // schema.PAGE_BYTES, SHARE):
        start = (page - 1) * schema.PAGE_BYTES
        data = bytearray(original)
        data[start : start + schema.PAGE_BYTES] = bytes(schema.PAGE_BYTES)
        path.write_bytes(data)
        try:
            with closing(open_log(path)) as storage:
                found = state_beside_snapshot(storage)
                if storage.loaded.snapshot_fault is None:
                    assert found == state
                    continue
                faults += 1
                store(storage, Write(None, 0, (), snapshot(150, 1, random.randbytes(300_000)), 120))
                for index in range(201, 260):  # whatever was freed is used again
                    store(storage, Write(None, index, (app(bytes(20_000)),)))
            found = stored_state(path)
            assert (found.base, len(found.entries)) == ((120, 1), 139)
            with closing(sqlite3.connect(path)) as raw:
                assert raw.execute("SELECT count(*) FROM sqlite_master WHERE name LIKE 'damaged%'").fetchone() == (2,)
        except StorageError:
            errors += 1
        finally:
            with suppress(FileNotFoundError):
                path.with_name("log.db-wal").unlink()
    share = 1 if is_everything() else SHARE
    assert faults >= 300_000 // schema.PAGE_BYTES // share
    assert errors > 5 // share


def test_several_snapshots_may_be_damaged_one_after_another(tmp_path: Path) -> None:
    path = filled(tmp_path, COMPACTED)
    for index in range(7, 10):
        with closing(sqlite3.connect(path)) as raw:
            raw.executescript(DAMAGES["its data"])
        with closing(open_log(path)) as storage:
            assert storage.loaded.snapshot_fault is not None
            new = snapshot(index, 3)
            store(storage, Write(None, index, (app(b"x", 3),), new, index - 1))
        assert stored_state(path).snapshot == new


def test_a_group_that_fails_in_the_middle_leaves_snapshot_base_and_log_as_they_were(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = filled(tmp_path, islice(writes(4), 30))
    state = stored_state(path)
    last, term = state.last_index, state.hard_state.term
    batches = [
        [Write(None, last + 1, (app(b"x", term),), snapshot(last + 1, term), last + 1)],
        [Write(None, 0, (), snapshot(last + 5, term), install=True), Write(None, last + 6, (app(b"x", term),))],
    ]
    for batch in batches:
        storage = open_log(path)
        monkeypatch.setattr(storage._tables, "store_server", None)  # the last step but one
        with pytest.raises(TypeError):
            store(storage, *batch)
        storage.close()
        assert stored_state(path) == state
