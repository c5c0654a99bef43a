import os
import random
import re
import sqlite3
from contextlib import closing, suppress
from itertools import islice
from pathlib import Path

import pytest

from gf_i2p.raft.effects import HardState, Write
from gf_i2p.storage import database, schema
from gf_i2p.storage.errors import DamagedError, StorageError
from tests.storage.disk_after_crash import start_over
from tests.storage.random_writes import (
    SMALL,
    app,
    configuration,
    copied,
    create,
    filled,
    open_log,
    snapshot,
    state_beside_snapshot,
    store,
    stored_state,
    writes,
)
from tests.storage.refusal import refusal
from tests.tier import examples


def test_the_log_of_another_server_or_farm_is_refused(tmp_path: Path) -> None:
    path = filled(tmp_path, SMALL)
    assert "server 7 of the farm 'farm', but the configuration says server 8 of 'farm'" in refusal(path, server_id=8)
    assert "configuration says server 7 of 'other'" in refusal(path, cluster="other")


def test_a_configuration_that_only_the_entries_have_is_noticed(tmp_path: Path) -> None:
    """The pages of the entries are new, and all other pages are old: the disk has lost writes."""
    path = filled(tmp_path, SMALL)
    old = ("server", "server_copy", "configuration")
    with closing(sqlite3.connect(path)) as raw:
        rows = {table: raw.execute(f"SELECT * FROM {table}").fetchall() for table in old}
    with closing(open_log(path)) as storage:
        last = storage.loaded.last_index
        store(storage, Write(None, last + 1, (app(b"x", 3), configuration(b"late", 3), app(b"y", 3))))
    with closing(sqlite3.connect(path)) as raw:
        for table in old:
            raw.execute(f"DELETE FROM {table}")
            raw.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * len(rows[table][0]))})", rows[table])
        raw.commit()
    assert f"entry {last + 2} is a Configuration, and is not stored as one" in refusal(path, DamagedError)


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("UPDATE server SET term = 4", "checksum"),
        ("UPDATE server SET vote = 1", "checksum"),
        ("UPDATE server SET id = 8", "checksum"),
        ("UPDATE server SET cluster = 'other'", "checksum"),
        ("UPDATE server_copy SET term = 4", "differ from their copy"),
        ("DELETE FROM server_copy", "differ from their copy"),
        ("DELETE FROM server", "names 0 servers"),
        ("INSERT INTO server SELECT * FROM server", "names 2 servers"),
        ("DELETE FROM term_run", "checksum"),
        ("DELETE FROM configuration WHERE log_index = 1", "checksum"),
        ("UPDATE term_run SET first_index = 2 WHERE term = 1", "do not cover"),
        ("UPDATE term_run SET term = 9 WHERE first_index = 1", "terms do not rise"),
        ("UPDATE term_run SET term = 'x' WHERE first_index = 1", "terms do not rise"),
        ("UPDATE term_run SET term = 2 WHERE first_index = 1", "entries 1 to 3 should have the term 1|term 2"),
        ("UPDATE term_run SET term = 9 WHERE first_index = 4", "term 9, but has 3"),
        ("UPDATE term_run SET first_index = 3 WHERE first_index = 4", "should have the term"),
        ("UPDATE term_run SET first_index = 5 WHERE first_index = 4", "should have the term"),
        ("UPDATE configuration SET value = x'4332' WHERE log_index = 1", "should be a Configuration"),
        ("UPDATE configuration SET log_index = 2 WHERE log_index = 1", "should be a Configuration"),
        ("UPDATE configuration SET log_index = 7 WHERE log_index = 4", "entry 7 is missing"),
        ("UPDATE chunk SET entries = CAST('text' AS TEXT) WHERE first_index = 6", "wrong types"),
        ("UPDATE chunk SET checksum = checksum + 1 WHERE first_index = 6", "checksum"),
        ("UPDATE server SET last_index = 5", "checksum"),
        ("UPDATE server SET wal_bytes = 1", "checksum"),
        ("DELETE FROM chunk", "entries 1 to 6 are missing"),
        ("DELETE FROM chunk WHERE first_index = 6", "entries 6 to 6 are missing"),
        ("DELETE FROM chunk WHERE first_index = 1", "entry 1 is missing"),
        ("DELETE FROM chunk WHERE first_index = 4", "entry 4 is missing"),
        ("DROP TABLE configuration", "tables"),
        ("CREATE TABLE other (one)", "tables"),
        ("ALTER TABLE chunk RENAME entry_count TO many", "tables"),
    ],
)
def test_a_log_that_contradicts_itself_is_refused(tmp_path: Path, statement: str, message: str) -> None:
    path = filled(tmp_path, SMALL)
    with closing(sqlite3.connect(path)) as raw:
        raw.execute(statement)
        raw.commit()
    with pytest.raises(StorageError, match=message):
        open_log(path)


COMPACTED = (*SMALL, Write(None, 0, (), snapshot(5, 3), 2), Write(None, 7, (app(b"e", 3),)))
"""Rows: 1 to 3, 4 and 5, 6, 7; the first one straddles the base."""


def forged(raw: sqlite3.Connection, **values: int) -> None:
    """Change the row of `server`, with a matching checksum."""
    *old, _ = raw.execute(schema.SERVERS[0]).fetchone()
    row = schema.ServerRow(*old)._replace(**values)  # type: ignore[arg-type]
    (runs,) = raw.execute("SELECT count(*) FROM term_run").fetchone()
    (configurations,) = raw.execute("SELECT count(*) FROM configuration").fetchone()
    for name, insert in zip(schema.SERVER_TABLES, schema.INSERT_SERVERS, strict=True):
        raw.execute(f"DELETE FROM {name}")
        raw.execute(insert, (*row, row.checksum(runs, configurations)))


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("UPDATE server SET base_index = 0", "checksum"),
        ("UPDATE server SET base_index = 1", "checksum"),
        ("UPDATE server SET base_term = 3", "checksum"),
        ("DELETE FROM chunk WHERE first_index = 1", "entry 3 is missing"),
        ("DELETE FROM chunk WHERE first_index = 4", "entry 4 is missing"),
        ("DELETE FROM chunk WHERE first_index = 7", "entries 7 to 7 are missing|entry 7 is missing"),
        ("DELETE FROM chunk", "entries 3 to 7 are missing"),
        ("UPDATE term_run SET first_index = 1 WHERE first_index = 2", "do not cover"),
        ("UPDATE term_run SET first_index = 3 WHERE first_index = 2", "do not cover"),
        ("UPDATE term_run SET term = 2 WHERE first_index = 2", "do not cover"),
        ("UPDATE configuration SET log_index = 2 WHERE log_index = 4", "entry 2 should be a Configuration"),
        ("UPDATE configuration SET log_index = 1, value = x'4331'", "entry 1 should be a Configuration"),
    ],
)
def test_a_log_with_a_base_that_contradicts_itself_is_refused(tmp_path: Path, statement: str, message: str) -> None:
    path = filled(tmp_path, COMPACTED)
    assert len(stored_state(path).entries) == 5
    with closing(sqlite3.connect(path)) as raw:
        raw.execute(statement)
        raw.commit()
    assert re.search(message, refusal(path, DamagedError))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"base_index": 0, "base_term": 0}, "do not cover"),
        ({"base_index": 3, "base_term": 1}, "do not cover"),
        ({"base_index": 2, "base_term": 2}, "do not cover"),
        ({"base_index": 8, "base_term": 3}, "do not cover"),
        ({"last_index": 8}, "entries 8 to 8 are missing"),
    ],
)
def test_a_base_that_is_another_one_is_noticed_whatever_its_checksum(
    tmp_path: Path, values: dict[str, int], message: str
) -> None:
    path = filled(tmp_path, COMPACTED)
    with closing(sqlite3.connect(path)) as raw:
        forged(raw, **values)
        raw.commit()
    assert message in refusal(path, DamagedError)


def test_a_lost_end_is_noticed_also_after_a_kill(tmp_path: Path) -> None:
    """SQLite's WAL has checksums, but the database file has none. So the log itself must remember the last index."""
    path = create(tmp_path)
    with closing(open_log(path)) as storage:
        for write in SMALL:
            store(storage, write)
        storage.checkpoint()
        killed = copied(path, tmp_path / "killed")
    start_over(killed.with_name("log.db-wal"))
    whole = copied(killed, tmp_path / "whole")
    assert len(stored_state(whole).entries) == 6
    wal = killed.with_name("log.db-wal").read_bytes()
    with closing(sqlite3.connect(killed)) as raw:
        raw.execute("DELETE FROM chunk WHERE first_index = 6")
        raw.commit()
    killed.with_name("log.db-wal").write_bytes(wal)  # SQLite has deleted the WAL
    with pytest.raises(DamagedError, match="entries 6 to 6 are missing"):
        open_log(killed)


def test_a_gap_in_the_middle_is_found_when_it_is_read(tmp_path: Path) -> None:
    path = filled(tmp_path, (Write(HardState(1, 1), index, (app(b"x"),)) for index in range(1, 30)))
    with closing(sqlite3.connect(path)) as raw:
        raw.execute("DELETE FROM chunk WHERE first_index = 15")
        raw.commit()
    with closing(open_log(path)) as storage:
        assert len(storage.read(1, 14, 10_000)) == 14
        assert len(storage.read(16, 29, 10_000)) == 14
        for first in (1, 14, 15):
            with pytest.raises(DamagedError, match="after entry 14 comes entry 16"):
                storage.read(first, 29, 10_000)


def test_a_missing_page_is_damage(tmp_path: Path) -> None:
    path = filled(tmp_path, islice(writes(1), 60))
    size = path.stat().st_size
    os.truncate(path, size // 2)
    assert "is damaged" in refusal(path, DamagedError)


def test_no_flipped_bit_ever_becomes_another_log(tmp_path: Path) -> None:
    """After random damage to the file, opening or reading fails, or the state is exactly the stored state.

    Damage may also cost the snapshot alone. Then the log says so, and storing a new snapshot repairs the log.
    """
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    path = filled(tmp_path, islice(writes(17), 60))
    state = stored_state(path)
    assert state.base[0]
    with closing(open_log(path)) as storage:
        last = state.last_index
        store(storage, Write(None, 0, (), snapshot(last, state.term(last), rng.randbytes(30_000))))
    state = stored_state(path)
    original = path.read_bytes()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(database, "WAL_BYTES", 64 << 10)
        errors = faults = 0
        count = examples(200)
        for number in range(count):
            data = bytearray(original)
            for _ in range(rng.choice((1, 1, 30))):
                position = rng.randrange(100, len(data))
                if number % 2:  # the structure of the pages, rather than the values in the pages
                    position = max(100, position // schema.PAGE_BYTES * schema.PAGE_BYTES + rng.randrange(30))
                data[position] ^= 1 << rng.randrange(8)
            path.write_bytes(data)
            try:
                with closing(open_log(path)) as storage:
                    found = state_beside_snapshot(storage)
                    fault = storage.loaded.snapshot_fault
                    assert vars(found) == vars(state) | ({} if fault is None else {"snapshot": None})
                    if fault is not None:
                        faults += 1
                        new = snapshot(last, state.term(last))
                        store(storage, Write(None, 0, (), new))
                if fault is not None:
                    assert vars(stored_state(path)) == vars(state) | {"snapshot": new}
            except StorageError:
                errors += 1
            with suppress(FileNotFoundError):
                path.with_name("log.db-wal").unlink()
    print(f"{errors} errors, {faults} snapshots lost")
    assert errors > count // 4
    assert faults > 0
