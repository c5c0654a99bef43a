"""A bad frame in the middle of a write-ahead log is damage; at its end it may be a power cut."""

import random
import struct
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Final

import pytest

from gf_i2p.raft.effects import HardState, Write
from gf_i2p.storage import wal
from gf_i2p.storage.errors import DamagedError
from gf_i2p.storage.schema import PAGE_BYTES
from gf_i2p.storage.wal_frames import is_empty
from tests.storage.random_writes import State, app, copied, create, open_log, state_of, store, stored_state, writes
from tests.storage.refusal import refusal
from tests.storage.write_run import use_small_sizes
from tests.tier import examples

FRAME: Final = 24 + PAGE_BYTES
HEADER: Final = 32


@pytest.fixture
def killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, list[State], int]:
    """A log whose owner was killed after 30 writes, its states, and the number of frames of its WAL.

    A write that changes nothing is no transaction, and gives no state.
    """
    use_small_sizes(monkeypatch)
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    states = [State()]
    with closing(open_log(create(tmp_path))) as storage:
        for write in islice(writes(seed, matching=True, max_value=200), 30):
            store(storage, write)
            after = states[-1].after(write)
            states += [after] if after != states[-1] else []
        path = copied(storage.path, tmp_path / "killed")
    content = wal.wal_path(path).read_bytes()
    salts = content[16:24]
    frames = 0
    while content[HEADER + frames * FRAME + 8 :][:8] == salts:
        frames += 1
    return path, states, frames


def test_damage_in_the_middle_is_refused_and_costs_two_transactions_at_the_end(
    tmp_path: Path, killed: tuple[Path, list[State], int]
) -> None:
    path, states, frames = killed
    rng = random.Random(frames)
    file = wal.wal_path(path)
    whole = file.read_bytes()
    refused = lost = 0
    for number in range(examples(120)):
        content = bytearray(whole)
        frame = rng.randrange(frames)
        at = HEADER + frame * FRAME
        match number % 4:
            case 0:  # a bit of the frame's header
                content[at + rng.randrange(24)] ^= 1 << rng.randrange(8)
            case 1:  # a bit of the page
                content[at + rng.randrange(24, FRAME)] ^= 1 << rng.randrange(8)
            case 2:  # a write that never happened
                content[at : at + FRAME] = bytes(FRAME)
            case _:  # a write that went to another frame
                other = HEADER + rng.randrange(frames) * FRAME
                content[other : other + FRAME] = content[at : at + FRAME]
                content[at : at + FRAME] = bytes(FRAME)
        copy = copied(path, tmp_path / str(number))
        wal.wal_path(copy).write_bytes(content)
        try:
            found = stored_state(copy)
        except DamagedError:
            refused += 1
        else:
            assert found in states[-3:]
            lost += found != states[-1]
    print(f"{refused} refused, {lost} lost one or two transactions")
    assert refused > lost


def test_a_refusal_changes_nothing(killed: tuple[Path, list[State], int]) -> None:
    path, _, _ = killed
    file = wal.wal_path(path)
    content = bytearray(file.read_bytes())
    content[HEADER + 100] ^= 1
    file.write_bytes(content)
    assert "its frame 1 is damaged or lost" in refusal(path, DamagedError)
    assert file.read_bytes() == bytes(content)


def test_a_damaged_header_is_refused(killed: tuple[Path, list[State], int]) -> None:
    path, _, _ = killed
    file = wal.wal_path(path)
    content = bytearray(file.read_bytes())
    content[17] ^= 1
    file.write_bytes(content)
    assert "does not match the header's checksum" in refusal(path, DamagedError)


def test_frames_of_a_beginning_that_was_lost_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The header of the WAL is older than its frames: the disk has lost the header's write."""
    use_small_sizes(monkeypatch)
    with closing(open_log(create(tmp_path))) as storage:
        file = wal.wal_path(storage.path)
        old = file.read_bytes()[:HEADER]
        store(storage, Write(HardState(1, 1), 1, (app(b"a"),)))
        storage.checkpoint()
        for index in range(2, 6):
            store(storage, Write(None, index, (app(b"b"),)))
        path = copied(storage.path, tmp_path / "copy")
    content = wal.wal_path(path).read_bytes()
    assert struct.unpack_from(">I", content, 12) > struct.unpack_from(">I", old, 12)
    assert stored_state(copied(path, tmp_path / "whole")).last_index == 5
    wal.wal_path(path).write_bytes(old + content[HEADER:])
    assert "its frame 1 is damaged or lost" in refusal(path, DamagedError)


# Another WAL ---------------------------------------------------------------------------------------------------------


def test_an_older_wal_and_an_older_main_file_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_small_sizes(monkeypatch)
    copies = []
    with closing(open_log(create(tmp_path))) as storage:
        for number in range(4):
            for index in (2 * number + 1, 2 * number + 2):
                store(storage, Write(HardState(1, 1), index, (app(b"x"),)))
            storage.checkpoint()
            store(storage, Write(HardState(1, 1), 2 * number + 3, (app(b"x"),)))
            copies.append(copied(storage.path, tmp_path / str(number)))
    for main in range(4):
        for beside in range(4):
            made = copied(copies[main], tmp_path / f"{main} and {beside}")
            wal.wal_path(made).write_bytes(wal.wal_path(copies[beside]).read_bytes())
            if main == beside:
                assert stored_state(made).last_index == 2 * main + 3
            else:
                older, newer = ("log.db-wal", "log.db") if beside < main else ("log.db", "log.db-wal")
                assert f"{older} is older than {newer}" in refusal(made, DamagedError)


def test_after_a_kill_at_any_time_the_log_opens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Copies of the files, made while the log is open, are as a kill would leave them."""
    use_small_sizes(monkeypatch)
    state = State()
    path = create(tmp_path)
    for number, write in enumerate(islice(writes(7, matching=True), 40)):
        with closing(open_log(copied(path, tmp_path / f"a{number}"))) as storage:
            store(storage, write)
            state.apply(write)
            path = copied(storage.path, tmp_path / f"b{number}")
            with closing(open_log(copied(path, tmp_path / f"c{number}"))) as again:
                assert state_of(again) == state


def test_a_wal_without_a_whole_transaction_counts_as_empty(killed: tuple[Path, list[State], int]) -> None:
    """SQLite finds no transaction either, and begins such a WAL with a random salt."""
    path, _, frames = killed
    content = bytearray(wal.wal_path(path).read_bytes())
    commits = [bool(struct.unpack_from(">I", content, HEADER + number * FRAME + 4)[0]) for number in range(frames)]
    first = commits.index(True)
    assert first > 0, "the server's row and its copy are on two pages"
    assert not is_empty(path)
    content[HEADER + first * FRAME :] = bytes(len(content) - HEADER - first * FRAME)
    wal.wal_path(path).write_bytes(content)
    assert is_empty(path)
