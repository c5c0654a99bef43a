"""The program that fails at random under SQLite: the same faults for the same seed, and only on the log."""

import subprocess
import sys
from pathlib import Path

import pytest

from gf_i2p.node.files.file_names import DATABASE_FILE
from integration.harness.sqlite_files import SECTOR_BYTES, FileCall, why_not
from integration.load.failing_disk import FailingDisk, program

BYTES = 4 * SECTOR_BYTES

pytestmark = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))


def outcomes(seed: int, one_in: int, name: str = DATABASE_FILE) -> list[tuple[int | None, int]]:
    """Error number, and bytes that were written, of 200 writes."""
    disk = FailingDisk(seed, one_in)
    made = []
    for _ in range(200):
        written: list[FileCall] = []
        try:
            disk(FileCall("write", Path(name), 0, bytes(BYTES)), written.append)
        except OSError as error:
            made.append((error.errno, sum(len(call.data) for call in written)))
        else:
            made.append((None, sum(len(call.data) for call in written)))
    return made


def test_the_seed_decides() -> None:
    first = outcomes(1, 5)
    assert first == outcomes(1, 5) != outcomes(2, 5)
    assert {code for code, _ in first} == {None, 5, 28}
    assert all(size == BYTES for code, size in first if code is None)
    assert any(0 < size < BYTES and size % SECTOR_BYTES == 0 for code, size in first if code == 28)


def test_other_files_never_fail() -> None:
    assert outcomes(1, 1, "history.jsonl") == [(None, BYTES)] * 200


def test_a_program_runs_on_it(tmp_path: Path) -> None:
    command = [sys.executable, *program(1, 1_000_000, ("-m", "tests.storage.writing_child"))]
    done = subprocess.run([*command, str(tmp_path / "log.db")], capture_output=True, text=True, check=False)
    assert done.stdout == "created\n", done.stderr
