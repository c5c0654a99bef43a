"""The programs that a reader of a page has: those of a bare Debian, and those that the page says to install."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from integration.pages.page import Page

ROOT: Final = Path(__file__).parents[2]
_SAID: Final = re.compile(r"apt-get install ([a-z0-9. +-]+)`")
_BY_MAKE: Final = re.compile(r"\.network-programs:.*\n\t\$\(call install,(.*)\)")
_COMMANDS: Final = {"curl": "curl", "default-jre-headless": "java"}
"""The command of each package that a page may name."""


def only_what_a_reader_has(page: Page, directory: Path) -> str:
    """Fill `directory` with links to the programs that a reader of the page has; return the value of PATH.

    A page that uses another program fails as in a bare Debian: "command not found". A reader in the lab also has what
    `make lab` installs. Without Debian's list of packages, the reader has all programs of this system.
    """
    environment = str(Path(sys.executable).parent)
    if shutil.which("dpkg-query") is None:
        return f"{environment}:{os.environ['PATH']}"
    for program in {*_bare_debian(), *_installed(page)}:
        (directory / program.name).symlink_to(program)
    return f"{environment}:{directory}"


def _bare_debian() -> list[Path]:
    """Return the programs of the packages that each Debian has, with git, make and Python."""
    listed = _dpkg("--show", "--showformat=${Priority} ${Package}\n").splitlines()
    required = [line.removeprefix("required ") for line in listed if line.startswith("required ")]
    files = map(Path, _dpkg("--listfiles", *required).splitlines())
    found = {file.name: file for file in files if file.parent.name in ("bin", "sbin") and os.access(file, os.X_OK)}
    found |= {name: Path(path) for name in ("awk", "git", "make", "python3") if (path := shutil.which(name))}
    return list(found.values())


def _installed(page: Page) -> list[Path]:
    packages = " ".join(_SAID.findall(page.path.read_text())).split()
    commands = [_COMMANDS[package] for package in packages if package in _COMMANDS]
    if page.place.startswith("lab") and (made := _BY_MAKE.search((ROOT / "Makefile").read_text())):
        commands += [each.partition(":")[0] for each in made[1].split()]
    return [Path(path) for command in commands if (path := shutil.which(command))]


def _dpkg(*arguments: str) -> str:
    return subprocess.run(["dpkg-query", *arguments], check=True, capture_output=True, text=True).stdout
