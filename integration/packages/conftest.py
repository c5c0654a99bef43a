"""The files of a release, made once from a clone of the last commit."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

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
