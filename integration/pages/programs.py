"""The programs that a reader of a page has: those of a bare Debian, and those that the page says to install."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from integration.pages.page import Page

ROOT: Final = Path(__file__).parents[2]
_SAID: Final = re.compile(r"apt-get install ([a-z0-9. +-]+)`")
_BY_MAKE: Final = re.compile(r"^\$\(VENV\)/\.([a-z]+)-programs:.*\n\t\$\(call install,(.*)\)", re.MULTILINE)
"""A target of the Makefile, and the programs that the target installs."""
_PAIR: Final = re.compile(r"([a-z0-9]+):([a-z0-9.-]+)")
"""The command and the package of a program there."""


def only_what_a_reader_has(page: Page, directory: Path) -> str:
    """Make `directory`, with links to the programs that a reader of the page has; return the value of PATH.

    A page that uses another program fails as in a bare Debian: "command not found". A reader in the lab also has what
    `make lab` installs. Without Debian's list of packages, the reader has all programs of this system.
    """
    environment = str(Path(sys.executable).parent)
    if shutil.which("dpkg-query") is None:
        return f"{environment}:{os.environ['PATH']}"
    directory.mkdir()
    for name, program in (_bare_debian() | _found(_installed(page))).items():
        (directory / name).symlink_to(program)
    return f"{environment}:{directory}"


def _bare_debian() -> dict[str, Path]:
    """Return the programs of the packages that each Debian has, with git, make and Python, by name."""
    listed = _dpkg("--show", "--showformat=${Priority} ${Package}\n").splitlines()
    required = [line.removeprefix("required ") for line in listed if line.startswith("required ")]
    files = map(Path, _dpkg("--listfiles", *required).splitlines())
    found = {file.name: file for file in files if file.parent.name in ("bin", "sbin") and os.access(file, os.X_OK)}
    return found | _found(("awk", "git", "make", "python3"))  # a link of Debian's alternatives leads to awk


def _installed(page: Page) -> list[str]:
    """Return the commands of the packages that the page names, and in the lab those that `make lab` installs."""
    said = " ".join(_SAID.findall(page.path.read_text())).split()
    commands: list[str] = []
    for target, programs in _BY_MAKE.findall((ROOT / "Makefile").read_text()):
        by_lab = target == "network" and page.place.startswith("lab")
        commands += [command for command, package in _PAIR.findall(programs) if by_lab or package in said]
    return commands


def _found(commands: Iterable[str]) -> dict[str, Path]:
    return {command: Path(path) for command in commands if (path := shutil.which(command))}


def _dpkg(*arguments: str) -> str:
    return subprocess.run(["dpkg-query", *arguments], check=True, capture_output=True, text=True).stdout
