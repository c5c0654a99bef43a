"""Two makes of one commit, in two folders, with other times, modes and umask: the same bytes."""

import json
import os
import re
from pathlib import Path

import pytest

from integration.packages.conftest import clone, make_dist
from integration.packages.programs import ROOT


@pytest.mark.timeout(1800)
def test_two_makes_have_the_same_bytes(dist: Path, tmp_path: Path) -> None:
    source = clone(tmp_path / "some" / "other place")
    for path in source.rglob("*"):
        if path.is_file() and ".git" not in path.parts:
            path.chmod(0o700 if os.access(path, os.X_OK) and path.stat().st_mode & 0o100 else 0o600)
            os.utime(path, (1_000_000_000, 1_000_000_000))
    assert (make_dist(source, umask=0o077) / "SHA256SUMS").read_text() == (dist / "SHA256SUMS").read_text()


def test_the_list_of_parts_has_what_is_locked_and_nothing_else(dist: Path) -> None:
    (file,) = dist.glob("*.cdx.json")
    parts = json.loads(file.read_text())
    lock = (ROOT / "requirements/run.txt").read_text()
    locked = set(re.findall(r"^([a-z0-9.-]+)(?:\[.*\])?==(\S+)", lock, re.MULTILINE))
    listed = {(re.sub(r"[-_.]+", "-", part["name"]).lower(), part["version"]) for part in parts["components"]}
    name, version = file.name.removesuffix(".cdx.json").split("-")
    assert listed - {(name.replace("_", "-"), version)} <= locked
    assert len(listed) > len(locked) - 5, "some are for another Python or system"
    assert parts["metadata"]["component"]["version"] == version
