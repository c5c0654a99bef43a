"""One page of a log file is not what was written last: the log is refused, or is exactly what was stored.

A page is damaged, or came back from an earlier time (a lost write), or has the content of another page (a misdirected
write). Only the snapshot may be lost without a refusal: the log then says so.
"""

import errno
import os
import random
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Final

import pytest

from gf_i2p.raft.effects import HardState, Write
from gf_i2p.storage import database
from gf_i2p.storage.errors import DamagedError, StorageError
from gf_i2p.storage.schema import PAGE_BYTES
from integration.harness.sqlite_files import FileCall, Perform, SqliteFiles, why_not
from tests.storage.random_writes import (
    State,
    app,
    create,
    eventful_seed,
    filled,
    open_log,
    state_beside_snapshot,
    store,
    writes,
)
from tests.storage.recorded_run import without_syncs
from tests.storage.refusal import refusal
from tests.storage.write_run import use_small_sizes
from tests.tier import is_everything

pytestmark = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))

COUNT: Final = 300
SHARE: Final = 1.0 if is_everything() else 0.25
"""Share of the damages that are tried."""


class Versions:
    """A closed log, with its file as each closing before left the file."""

    def __init__(self, directory: Path, seed: int) -> None:
        self.state = State()
        self.files: list[bytes] = []
        path = create(directory)
        history = writes(seed, matching=True, max_value=2000)
        for _ in range(10):
            with closing(open_log(path)) as storage:
                for write in islice(history, COUNT // 10):
                    store(storage, write)
                    self.state.apply(write)
            self.files.append(path.read_bytes())
        path.unlink()
        self.newest = self.files.pop()
        self.pages = len(self.newest) // PAGE_BYTES
        self.next = next(history)

    def page(self, number: int, content: bytes | None = None) -> bytes:
        """The page of this number from 0, of `content` or of the newest file; empty behind the end."""
        return (content or self.newest)[number * PAGE_BYTES : (number + 1) * PAGE_BYTES]


def wrong_pages(versions: Versions, number: int, rng: random.Random) -> dict[str, bytes]:
    """Contents that the page of this number may have by a fault."""
    page = versions.page(number)
    made = {"zeros": bytes(PAGE_BYTES), "noise": rng.randbytes(PAGE_BYTES)}
    for sector in (0, 1, rng.randrange(32)):
        torn = bytearray(page)
        torn[sector * 512 : (sector + 1) * 512] = bytes(512)
        made[f"sector {sector} lost"] = bytes(torn)
    for at in range(4):
        flipped = bytearray(page)
        flipped[rng.choice((rng.randrange(PAGE_BYTES), rng.randrange(64)))] ^= 1 << rng.randrange(8)
        made[f"bit {at}"] = bytes(flipped)
    for age, file in enumerate(versions.files):
        if len(old := versions.page(number, file)) == PAGE_BYTES:
            made[f"version {age}"] = old
    for other in rng.sample(range(versions.pages), min(4, versions.pages)):
        made[f"page {other + 1}"] = versions.page(other)
    return {what: content for what, content in made.items() if content != page}


def test_no_wrong_page_ever_becomes_another_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_small_sizes(monkeypatch)
    seed = eventful_seed(0, COUNT, matching=True)
    rng = random.Random(seed)
    refused = sound = without_snapshot = 0
    path = tmp_path / "log.db"
    with without_syncs():
        versions = Versions(tmp_path, seed)
        for number in range(versions.pages):
            for what, content in wrong_pages(versions, number, rng).items():
                if number and rng.random() > SHARE:
                    continue
                data = bytearray(versions.newest)
                data[number * PAGE_BYTES : (number + 1) * PAGE_BYTES] = content
                if what.startswith("page"):
                    continue_with = int(what.split()[1]) - 1
                    for file in versions.files[-1:]:
                        # A misdirected write: the other page's content is here, and that page kept its old content.
                        if rng.random() < 0.5 and len(old := versions.page(continue_with, file)) == PAGE_BYTES:
                            data[continue_with * PAGE_BYTES : (continue_with + 1) * PAGE_BYTES] = old
                path.write_bytes(data)
                try:
                    with closing(open_log(path)) as storage:
                        found = state_beside_snapshot(storage)
                        lost = storage.loaded.snapshot_fault is not None
                        expected = vars(versions.state) | ({"snapshot": None} if lost else {})
                        assert vars(found) == expected, f"page {number + 1}: {what}"
                        if not lost:
                            store(storage, versions.next)
                    if not lost:
                        with closing(open_log(path)) as storage:
                            assert state_beside_snapshot(storage) == versions.state.after(versions.next)
                except StorageError:
                    refused += 1
                else:
                    without_snapshot += lost
                    sound += not lost
                path.with_name("log.db-wal").unlink(missing_ok=True)
    print(f"{versions.pages} pages: {refused} refused, {without_snapshot} without the snapshot, {sound} as stored")
    assert refused > 20


def test_an_old_vote_does_not_come_back(tmp_path: Path) -> None:
    """The row of the server has a checksum, and an old row has the right one. The copy on another page tells."""
    path = filled(tmp_path, [Write(HardState(5, 3), 0, ())])
    old = path.read_bytes()
    with closing(open_log(path)) as storage:
        store(storage, Write(HardState(6, 4), 0, ()))
    new = path.read_bytes()
    changed = [at for at in range(0, len(new), PAGE_BYTES) if new[at : at + PAGE_BYTES] != old[at : at + PAGE_BYTES]]
    voted = 0
    for at in changed:
        if at:
            path.write_bytes(new[:at] + old[at : at + PAGE_BYTES] + new[at + PAGE_BYTES :])
            assert "differ from their copy" in refusal(path, DamagedError)
            voted += 1
    assert voted == 2


def test_entries_that_were_replaced_do_not_come_back(tmp_path: Path) -> None:
    """The row of old entries has the right checksum, index and length: only the term is another one."""
    path = filled(tmp_path, [Write(HardState(1, 1), index, (app(b"old"),)) for index in range(1, 4)])
    with closing(open_log(path)) as storage:
        store(storage, *[Write(HardState(2, 1), index, (app(b"new", 2),)) for index in range(1, 4)])
        store(storage, Write(None, 4, (app(b"new", 2),)))
        old = storage._writing.execute("SELECT checksum FROM chunk").fetchall()
    with closing(open_log(path)) as storage:
        row = storage._writing.execute("SELECT * FROM chunk WHERE first_index = 1").fetchone()
        assert old
        assert row[1] == 3
        # One row of three entries; the old rows had one each.
    other = filled(_made(tmp_path / "other"), [Write(HardState(1, 1), 1, (app(b"old"),) * 3)])
    with closing(open_log(other)) as storage:
        stale = storage._writing.execute("SELECT * FROM chunk WHERE first_index = 1").fetchone()
    with closing(open_log(path)) as storage:
        storage._writing.execute("UPDATE chunk SET checksum = ?, entries = ? WHERE first_index = 1", stale[2:])
        with pytest.raises(DamagedError, match="entry 3 should have the term 2, but has 1"):
            storage.read(1, 4, 1000)


def _made(directory: Path) -> Path:
    directory.mkdir()
    return directory


def test_a_read_that_fails_is_no_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite's check of all pages tells a failed read as if the page were wrong."""
    monkeypatch.setattr(database, "WAL_BYTES", 64 << 10)
    path = filled(tmp_path, islice(writes(3), 60))
    failing = reads = 0

    def handle(call: FileCall, perform: Perform) -> None:
        nonlocal reads
        if call.name == "read" and call.path == path:
            reads += 1
            if reads == failing:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
        perform(call)

    with SqliteFiles(handle):
        while reads >= failing:
            failing, reads = failing + 1, 0
            try:
                open_log(path).close()
            except StorageError as error:
                assert type(error) is StorageError, error  # noqa: PT017
                assert "the disk under" in str(error)  # noqa: PT017
    assert failing > 10
