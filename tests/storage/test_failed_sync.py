"""A failed sync: the written data stays readable until the power fails, and never reaches the disk.

Linux marks the pages of a failed write-back as clean. A restarted node may find frames in the WAL that are not on the
disk. The node must not build on such frames there.
"""

from pathlib import Path

import pytest

from gf_i2p.raft.effects import HardState, Write
from tests.storage.disk_after_crash import SECTOR
from tests.storage.random_writes import app, copied, create, open_log, state_of, store, stored_state

LOST = {
    "entries": [Write(None, 11 + number, (app(b"new" * 100),)) for number in range(5)],
    "a vote": [Write(HardState(2, 3), 0, ())],
    "both": [Write(HardState(2, 3), 11, tuple(app(b"new" * 100, 2) for _ in range(5)))],
}


def sectors_that_differ(one: bytes, other: bytes) -> list[int]:
    assert len(one) == len(other)
    return [at for at in range(0, len(one), SECTOR) if one[at : at + SECTOR] != other[at : at + SECTOR]]


@pytest.mark.parametrize("lost", LOST.values(), ids=LOST)
def test_what_the_second_start_takes_for_durable_is_so_after_a_power_cut(tmp_path: Path, lost: list[Write]) -> None:
    (tmp_path / "running").mkdir()
    path = create(tmp_path / "running")
    wal = path.with_name(path.name + "-wal")
    first = open_log(path)
    store(first, Write(HardState(1, 1), 1, tuple(app(b"old" * 100) for _ in range(5))))
    for index in range(6, 11):
        store(first, Write(None, index, (app(b"old" * 100),)))
    on_disk = wal.read_bytes()
    store(first, *lost)
    first._sound = False  # the sync of the process has failed: so the process ends
    first.close()
    in_memory = wal.read_bytes()

    second = open_log(path)
    believed = state_of(second)
    power_cut = bytearray(wal.read_bytes())
    for at in sectors_that_differ(on_disk, in_memory):
        if power_cut[at : at + SECTOR] == in_memory[at : at + SECTOR]:  # not written again since
            power_cut[at : at + SECTOR] = on_disk[at : at + SECTOR]
    after = copied(path, tmp_path / "after")
    after.with_name(after.name + "-wal").write_bytes(power_cut)
    second.close()
    assert stored_state(after) == believed
