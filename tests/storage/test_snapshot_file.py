"""A snapshot in a file: the snapshot comes back unchanged, or is refused with a sentence."""

import hashlib
import os
import struct
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gf_i2p.raft.effects import Snapshot
from gf_i2p.storage.snapshot_file import MAGIC, SavedSnapshot, SnapshotFileError, load_snapshot_file
from gf_i2p.wire.errors import LocalProtocolError
from gf_i2p.wire.limits import MAX_CONFIGURATION_BYTES, MAX_ID, MAX_INTEGER, MAX_SNAPSHOT_BYTES
from gf_i2p.wire.log_values import ClusterServer, Configuration

SERVERS = (ClusterServer(1, "tcp://192.0.2.1:9001"), ClusterServer(7, "tcp://abc.b32.i2p:80"))
SAVED = SavedSnapshot(
    "blue",
    7,
    reached=9,
    saved_ms=1_795_000_000_000,
    committed=40,
    snapshot=Snapshot(51, 8, Configuration(12, 1, SERVERS), b'{"format":1}'),
)
DATA = SAVED.encode()


@st.composite
def saved(draw: st.DrawFn) -> SavedSnapshot:
    index = draw(st.integers(1, MAX_INTEGER))
    term = draw(st.integers(1, MAX_INTEGER))
    ids = draw(st.lists(st.integers(0, MAX_ID - 1), unique=True, max_size=4))
    log_index = draw(st.integers(0, index))
    return SavedSnapshot(
        draw(st.from_regex(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}", fullmatch=True)),
        draw(st.integers(0, MAX_ID - 1)),
        reached=draw(st.integers(term, MAX_INTEGER)),
        saved_ms=draw(st.integers(0, 2**53 - 1)),
        committed=draw(st.integers(0, index)),
        snapshot=Snapshot(
            index,
            term,
            Configuration(
                log_index, draw(st.integers(0, MAX_INTEGER)), tuple(ClusterServer(i, f"tcp://h:{i}") for i in ids)
            ),
            draw(st.binary(min_size=1, max_size=200)),
        ),
    )


def refused(data: bytes) -> str:
    with pytest.raises(SnapshotFileError) as caught:
        SavedSnapshot.decode(data)
    return str(caught.value)


# --- There and back -----------------------------------------------------------------------------------------------


@given(saved())
def test_it_comes_back_as_it_was(one: SavedSnapshot) -> None:
    assert SavedSnapshot.decode(one.encode()) == one


def test_the_layout_is_the_documented_one() -> None:
    configuration = SAVED.snapshot.configuration.encode()
    assert DATA.startswith(
        b"\x89GFS\r\n\x1a\n"
        + struct.pack(">IHIQIQQQQQ", 1, 4, len(configuration), 12, 7, 51, 8, 9, 1_795_000_000_000, 40)
        + b"blue"
        + configuration
        + b'{"format":1}'
    )


@pytest.mark.parametrize(
    "change",
    [
        {"cluster": "no name"},
        {"server_id": MAX_ID},
        {"reached": 7},
        {"saved_ms": -1},
        {"committed": 52},
        {"snapshot": Snapshot(0, 1, Configuration(0, 0, ()), b"x")},
        {"snapshot": Snapshot(51, 0, Configuration(0, 0, ()), b"x")},
        {"snapshot": Snapshot(51, 8, Configuration(52, 0, ()), b"x")},
        {"snapshot": Snapshot(51, 8, Configuration(0, 0, ()), b"")},
    ],
)
def test_what_cannot_be_is_not_written(change: dict[str, object]) -> None:
    with pytest.raises(LocalProtocolError):
        replace(SAVED, **change).encode()  # type: ignore[arg-type]


# --- Damage -------------------------------------------------------------------------------------------------------


def test_every_bit_counts() -> None:
    for position in range(len(DATA)):
        for bit in range(8):
            data = bytearray(DATA)
            data[position] ^= 1 << bit
            assert refused(bytes(data))


def test_one_that_was_cut_anywhere_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "s"
    for length in range(len(DATA)):
        refused(DATA[:length])
        path.write_bytes(DATA[:length])
        with pytest.raises(SnapshotFileError, match="cannot be used"):
            load_snapshot_file(path)
    assert "should have" in refused(DATA + b"\0")


@given(st.binary(max_size=300) | st.binary(max_size=300).map(lambda rest: DATA[:12] + rest))
def test_whatever_else_it_is_gets_a_sentence(data: bytes) -> None:
    assert refused(data).endswith(("written", "snapshot", "another copy"))


@given(st.data())
def test_numbers_that_cannot_be_are_refused_with_the_right_checksum_too(data: st.DataObject) -> None:
    """The checksum is no secret: the contents of the file are checked all the same."""
    head = bytearray(DATA[:-32])
    for _ in range(data.draw(st.integers(1, 3))):
        head[data.draw(st.integers(12, len(head) - 1))] = data.draw(st.integers(0, 255))
    body = bytes(head)
    try:
        found = SavedSnapshot.decode(body + hashlib.sha256(body).digest())
    except SnapshotFileError:
        return
    assert SavedSnapshot.decode(found.encode()) == found


@pytest.mark.parametrize(
    ("position", "layout", "value"),
    [(14, ">I", MAX_CONFIGURATION_BYTES + 1), (18, ">Q", MAX_SNAPSHOT_BYTES + 1), (18, ">Q", 2**64 - 1), (18, ">Q", 0)],
)
def test_sizes_are_checked_before_anything_is_read_by_them(
    tmp_path: Path, position: int, layout: str, value: int
) -> None:
    data = bytearray(DATA)
    struct.pack_into(layout, data, position, value)
    path = tmp_path / "s"
    path.write_bytes(data)
    with path.open("r+b") as file:
        file.truncate(1 << 40)  # a hole: a program that reads all of the file runs out of memory
    with pytest.raises(SnapshotFileError, match="are legal"):
        load_snapshot_file(path)


def test_another_format_is_named() -> None:
    data = MAGIC + (2).to_bytes(4, "big") + DATA[12:]
    assert "format 2, and this program reads only 1" in refused(data)


# --- Files --------------------------------------------------------------------------------------------------------


def test_a_file_gives_the_snapshot_back(tmp_path: Path) -> None:
    (tmp_path / "s").write_bytes(DATA)
    assert load_snapshot_file(tmp_path / "s") == SAVED


def test_pipes_and_directories_are_no_files(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path, Path("/dev/zero")):
        with pytest.raises(SnapshotFileError, match="it is not a regular file"):
            load_snapshot_file(path)
