"""The files of a release, made once from a clone of the last commit; and a clean Debian to install these in."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from integration.containers.__main__ import cache_directory
from integration.packages.clean_root import CleanRoot, booted, lacking
from integration.packages.programs import ROOT

DIST_VARIABLE: Final = "GF_I2P_DIST"
"""Names a folder that `make dist` has made; without it, the tests make these files."""


def clone(folder: Path) -> Path:
    """Clone the last commit with its tags."""
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(folder)], check=True)
    return folder


def make_dist(source: Path, umask: int = 0o022) -> Path:
    """Run `make dist`'s program in a clone; return the folder of the files."""
    subprocess.run(
        [sys.executable, "-m", "integration.packages.distribution", "dist"], cwd=source, umask=umask, check=True
    )
    return source / "dist"


@pytest.fixture(scope="session")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give the folder with the files of a release."""
    if made := os.environ.get(DIST_VARIABLE):
        return Path(made).absolute()
    return make_dist(clone(tmp_path_factory.mktemp("first") / "source"))


@pytest.fixture(scope="session")
def package(dist: Path) -> Path:
    """Give the Debian package of the release."""
    (file,) = dist.glob("*.deb")
    return file


@pytest.fixture
def root(tmp_path: Path) -> Iterator[CleanRoot]:
    """Give a clean Debian that runs."""
    if reason := lacking():
        pytest.skip(reason)
    directory = tmp_path / "root"
    directory.mkdir()
    with booted(directory, cache_directory()) as running:
        yield running
