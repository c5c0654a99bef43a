"""Releases, each installed in a virtual environment of its own, from the commit in `releases.toml`."""

import os
import shutil
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from integration.harness.checkouts import ROOT, CommitMissingError, checkout

RELEASES: Final = Path(__file__).with_name("releases.toml")
PLACE: Final = ROOT / "build" / "upgrades"


class ReleaseMissingError(OSError):
    """The release cannot be installed; `str()` says what to do."""


@dataclass(frozen=True, slots=True)
class Release:
    """A release, or an earlier state."""

    version: str
    """The version's number (PEP 440)."""
    commit: str
    """A tag, or a commit."""

    @property
    def _place(self) -> Path:
        return PLACE / f"{self.version}-{self.commit}"

    @property
    def python(self) -> Path:
        """The interpreter that has this release, after `install`."""
        return self._place / "venv" / "bin" / "python"

    def install(self) -> None:
        """Install the release with the packages that the release has locked. Does nothing when the release is there.

        Raises `ReleaseMissingError`. Takes a minute, and needs the index of packages.
        """
        done = self._place / "installed"
        if done.exists():
            return
        shutil.rmtree(self._place, ignore_errors=True)
        source = self._place / "source"
        try:
            checkout(self.commit, source)
        except CommitMissingError as error:
            raise ReleaseMissingError(f"{self.version}: {error}") from error
        _run([sys.executable, "-m", "venv", str(self._place / "venv")])
        pip = [str(self.python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        for locked in ("build", "run"):
            _run([*pip, "--no-build-isolation", "--require-hashes", "-r", f"{source}/requirements/{locked}.txt"])
        # An archive of git has no tag that tells the version.
        _run([*pip, "--no-build-isolation", "--no-deps", str(source)], SETUPTOOLS_SCM_PRETEND_VERSION=self.version)
        done.touch()


def environment() -> dict[str, str]:
    """Return the variables for another release's interpreter: it must find no module of this source."""
    return {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")} | {
        "PYTHONSAFEPATH": "1"
    }


def releases() -> list[Release]:
    """Read the list of releases, the oldest first."""
    return [Release(each["version"], each["commit"]) for each in tomllib.loads(RELEASES.read_text())["releases"]]


def _run(arguments: list[str], **variables: str) -> None:
    done = subprocess.run(
        arguments,
        env=environment() | variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        raise ReleaseMissingError(f"{' '.join(arguments)} failed:\n{done.stdout}")
