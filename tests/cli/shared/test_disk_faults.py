"""The sentence about a disk that takes no data."""

import errno
import os
from pathlib import Path

import pytest

from gf_i2p.cli.shared.disk_faults import all_or_nothing_on, disk_fault
from gf_i2p.cli.shared.errors import CommandError

AGAIN = "then repeat the command"


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (errno.ENOSPC, f"the disk is full: free some space, {AGAIN}"),
        (errno.EDQUOT, f"the disk has no room left in this user's quota: free some space, or raise the quota, {AGAIN}"),
        (errno.EROFS, f"the disk is mounted read-only: mount it for writing, or name a place on another disk, {AGAIN}"),
    ],
)
def test_each_fault_has_a_next_step(code: int, text: str) -> None:
    error = OSError(code, os.strerror(code))
    assert disk_fault(error) == text
    assert disk_fault(error, Path("farm")) == text.replace("the disk", "the disk under farm", 1)
    with pytest.raises(CommandError) as raised, all_or_nothing_on(Path("farm")):
        raise error
    fault, _, step = text.replace("the disk", "the disk under farm", 1).partition(": ")
    assert str(raised.value) == f"{fault}. Nothing was changed: {step}"


def test_a_file_that_the_error_names_tells_the_disk(tmp_path: Path) -> None:
    error = OSError(errno.ENOSPC, "No space left on device", str(tmp_path / "draft-0123"))
    assert disk_fault(error, Path("farm")) == f"the disk under {tmp_path} is full: free some space, {AGAIN}"


def test_another_error_is_left_as_it_is() -> None:
    error = PermissionError(errno.EACCES, "Permission denied", "/farm")
    assert disk_fault(error) is None
    with pytest.raises(PermissionError), all_or_nothing_on(Path("farm")):
        raise error
