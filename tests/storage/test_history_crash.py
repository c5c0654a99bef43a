"""The history is cut off at every moment, and still holds every entry once."""

import errno
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from gf_i2p.storage.history_writer import Rotation
from tests.storage.disk_after_crash import ROOT
from tests.storage.exported_log import expected, export, found, open_history, rotate
from tests.storage.file_operations import CrashError, Operations
from tests.tier import is_everything, some_of

SHARE = 4
"""One operation in so many is tried in `make test`."""
LAST = 50
SMALL = Rotation(bytes=2500)
KILLS = 12 if is_everything() else 4


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """No power fails here except in `Operations`, which still sees every sync."""
    monkeypatch.setattr(os, "fsync", lambda _: None)


def run(directory: Path, last: int = LAST) -> int:
    """Export up to `last` and close; return the last durable index, also after an error."""
    durable = 0
    history = None
    try:
        history = open_history(directory, rotation=SMALL)
        durable = history.durable_index
        for until in range(durable + 1, last + 1, 9):
            export(history, min(until + 8, last))
            durable = history.durable_index
        rotate(history)
    except (CrashError, OSError):
        if history is not None:
            durable = history.durable_index
    finally:
        if history is not None:
            history.close()
    return durable


def count_of_operations(directory: Path) -> int:
    with pytest.MonkeyPatch.context() as patch:
        operations = Operations(directory, patch)
        assert run(directory) == LAST
        assert found(directory) == expected(LAST)
        return operations.count


def test_a_process_that_ends_before_any_operation_loses_nothing_and_doubles_nothing(tmp_path: Path) -> None:
    rng = random.Random(1)
    count = count_of_operations(tmp_path / "whole")
    assert count > 50
    for number in some_of(count, SHARE):
        directory = tmp_path / str(number)
        directory.mkdir(mode=0o700)
        durable = 0
        # Then once more, mostly during an opening or during a resumed rotation.
        for crash_at in (number, rng.randrange(1, 12)):
            with pytest.MonkeyPatch.context() as patch:
                operations = Operations(directory, patch)
                operations.partly = rng
                operations.crash_at(crash_at)
                before, durable = durable, run(directory)
                assert durable >= before or operations.count == crash_at
            durable = max(before, durable)
            if any(directory.glob("entries-*.jsonl")):
                seen = found(directory)
                assert seen == expected(LAST)[: len(seen)], "a reader needs nobody to tidy first"
                assert len(seen) >= len(expected(durable))
        history = open_history(directory, rotation=SMALL)
        assert history.durable_index >= durable, f"operation {number}: what was durable is there no more"
        history.close()
        assert run(directory) == LAST
        assert found(directory) == expected(LAST), f"operation {number}"
        *packed, present = sorted(path.name for path in directory.iterdir())
        assert {Path(name).suffix for name in packed} == {".zst"}
        assert present.endswith(".jsonl")


def test_a_power_cut_before_any_operation_takes_nothing_that_was_durable(tmp_path: Path) -> None:
    rng = random.Random(2)
    count = count_of_operations(tmp_path / "whole")
    directory, after = tmp_path / "running", tmp_path / "after"
    torn = 0
    for number in some_of(count, SHARE):
        with pytest.MonkeyPatch.context() as patch:
            directory.mkdir(mode=0o700)
            operations = Operations(directory, patch)
            operations.partly = rng
            operations.crash_at(number)
            durable = run(directory)
        for _ in range(3):
            operations.cut(after, rng)
            if any(after.glob("entries-*.jsonl")):
                seen = found(after)
                assert seen == expected(LAST)[: len(seen)]
            history = open_history(after, rotation=SMALL)
            assert history.durable_index >= durable, f"operation {number}"
            torn += history.cut_bytes > 0
            history.close()
            assert run(after) == LAST
            assert found(after) == expected(LAST), f"operation {number}"
        _remove(directory)
    assert torn > 3, "cuts that leave nothing torn show nothing"


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
def test_a_disk_that_fails_once_at_any_operation_costs_nothing(tmp_path: Path, code: int) -> None:
    rng = random.Random(3)
    count = count_of_operations(tmp_path / "whole")
    directory, after = tmp_path / "running", tmp_path / "after"
    for number in some_of(count, SHARE):
        with pytest.MonkeyPatch.context() as patch:
            directory.mkdir(mode=0o700)
            operations = Operations(directory, patch)

            def fail(count: int, _: str, number: int = number) -> None:
                if count == number:
                    raise OSError(code, os.strerror(code))

            operations.before = fail
            durable = run(directory)
            again = run(directory)
            assert again == LAST >= durable
            operations.cut(after, rng)
        assert found(directory) == expected(LAST), f"operation {number}"
        assert run(after) == LAST
        assert found(after) == expected(LAST), f"operation {number}, and then the power"
        _remove(directory)


def test_what_a_failed_sync_has_lost_is_written_again_by_the_next_process(tmp_path: Path) -> None:
    """Until the power fails, the lost data can be read as if on the disk."""
    rng = random.Random(4)
    count = count_of_operations(tmp_path / "whole")
    directory, after = tmp_path / "running", tmp_path / "after"
    for number in some_of(count, SHARE):
        with pytest.MonkeyPatch.context() as patch:
            directory.mkdir(mode=0o700)
            operations = Operations(directory, patch)

            def fail(count: int, name: str, number: int = number) -> None:
                if count == number and name == "fsync":
                    raise OSError(errno.EIO, "Input/output error")
                if count >= number:
                    raise CrashError

            operations.before = fail
            run(directory)
            operations.before = lambda *_: None
            assert run(directory) == LAST
            operations.cut(after, rng)
        assert found(after) == expected(LAST), f"operation {number}"
        _remove(directory)


def test_a_disk_that_stays_full_keeps_what_it_has_and_is_not_the_fuller_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = tmp_path / "history"
    run(directory, 30)
    before = {path.name: path.read_bytes() for path in directory.iterdir()}
    operations = Operations(directory, monkeypatch)

    def fail(_: int, name: str) -> None:
        if name in {"pwrite", "open"}:
            raise OSError(errno.ENOSPC, "No space left on device")

    history = open_history(directory, rotation=SMALL)
    operations.before = fail
    for _ in range(3):
        with pytest.raises(OSError, match="No space left"):
            export(history, 40)
        assert history.durable_index == 30
        assert {path.name: path.read_bytes() for path in directory.iterdir()} == before
    operations.before = lambda *_: None
    export(history, LAST)
    history.close()
    assert found(directory) == expected(LAST)


def test_kill_9_again_and_again(tmp_path: Path) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    directory = tmp_path / "history"
    durable = 0
    for kill in range(KILLS):
        command = [sys.executable, "-m", "tests.storage.history_child", str(directory), str(rng.randrange(99))]
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as child:
            assert child.stdout is not None
            lines = [child.stdout.readline() for _ in range(rng.choice((0, 1, 2, 20, 60)) if kill else 60)]
            child.kill()
            lines += child.stdout.readlines()
        said = [int(line) for line in lines if line.endswith("\n")]
        assert not said or said[0] >= durable, "at its start it knows at least what was durable"
        durable = max([durable, *said])
        if durable:
            seen = found(directory)
            assert seen == expected(seen[-1][0] if seen else 0), (
                "none while only entry 1 is there, which is not exported"
            )
            assert len(seen) >= len(expected(durable))
    print(f"{durable} entries, {len(list(directory.iterdir()))} files")
    assert durable > KILLS


def _remove(directory: Path) -> None:
    for path in directory.iterdir():
        path.unlink()
    directory.rmdir()
