"""Wheel and source, built as anybody would: the same bytes each time, and a version in each case."""

import importlib.util
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest

from integration.packages.distribution import digest

ROOT = Path(__file__).parents[2]
EPOCH = "1700000000"

pytestmark = [
    pytest.mark.slow,  # each build takes seconds
    pytest.mark.skipif(importlib.util.find_spec("hatch_vcs") is None, reason="hatch-vcs is not installed"),
]


def clone(folder: Path, tag: str = "v7.8.9") -> Path:
    """Clone the last commit, with this tag on it and no other."""
    subprocess.run(["git", "clone", "--quiet", "--no-tags", str(ROOT), str(folder)], check=True)
    subprocess.run(["git", "tag", tag], cwd=folder, check=True)
    return folder


def build(source: Path, into: Path, *targets: str, umask: int = 0o022) -> dict[str, str]:
    """Build in this folder; return the SHA-256 of each file by name."""
    options = [word for target in targets for word in ("-t", target)]
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", *options, "-d", str(into)],
        cwd=source,
        env=os.environ | {"SOURCE_DATE_EPOCH": EPOCH},
        umask=umask,
        check=True,
        capture_output=True,
    )
    return {file.name: digest(file) for file in into.iterdir()}


def program_version(wheel: Path) -> str:
    with zipfile.ZipFile(wheel) as packed:
        return packed.read("gf_i2p/_version.py").decode()


def test_two_builds_have_the_same_bytes(tmp_path: Path) -> None:
    first = build(clone(tmp_path / "one"), tmp_path / "first", "sdist", "wheel")
    other = clone(tmp_path / "another" / "place")
    for path in other.rglob("*"):
        if ".git" not in path.parts:
            os.utime(path, (1_000_000_000, 1_000_000_000), follow_symlinks=False)
    assert build(other, tmp_path / "second", "sdist", "wheel", umask=0o077) == first
    assert first.keys() == {"gf_i2p-7.8.9.tar.gz", "gf_i2p-7.8.9-py3-none-any.whl"}
    assert program_version(tmp_path / "first" / "gf_i2p-7.8.9-py3-none-any.whl") == "version = '7.8.9'\n"


def test_the_source_archive_makes_the_same_wheel(tmp_path: Path) -> None:
    first = build(clone(tmp_path / "one"), tmp_path / "first", "sdist", "wheel")
    options: dict[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}  # not on Debian 12
    shutil.unpack_archive(tmp_path / "first" / "gf_i2p-7.8.9.tar.gz", tmp_path, **options)
    name = "gf_i2p-7.8.9-py3-none-any.whl"
    assert build(tmp_path / "gf_i2p-7.8.9", tmp_path / "second", "wheel") == {name: first[name]}


def test_a_plain_copy_says_that_its_version_is_unknown(tmp_path: Path) -> None:
    source = clone(tmp_path / "one")
    shutil.rmtree(source / ".git")
    (name,) = build(source, tmp_path / "built", "wheel")
    assert program_version(tmp_path / "built" / name) == "version = '0.0'\n"


@pytest.mark.parametrize(
    ("changed", "version"), [(None, "7.8.9"), ("README.md", "7.8.10.dev0+changed"), ("new.md", "7.8.9+changed")]
)
def test_the_files_of_a_changed_tree_are_marked(tmp_path: Path, changed: str | None, version: str) -> None:
    source = clone(tmp_path / "one")
    if changed is not None:
        with (source / changed).open("a") as file:
            file.write("another line\n")
    command = [sys.executable, "-m", "integration.packages.distribution", "dist", "--only", "python"]
    subprocess.run(command, cwd=source, check=True, capture_output=True)
    assert {file.name for file in (source / "dist").iterdir()} == {
        f"gf_i2p-{version}.tar.gz",
        f"gf_i2p-{version}-py3-none-any.whl",
    }
    assert program_version(source / "dist" / f"gf_i2p-{version}-py3-none-any.whl") == f"version = '{version}'\n"
