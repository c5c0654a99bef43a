"""Runs the programs that make packages, in the source tree."""

import os
import subprocess
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]


class PackageError(Exception):
    """A package cannot be made. The text says what is missing."""


def run(command: list[str], cwd: Path = ROOT, **environment: str) -> str:
    """Run a command; return its standard output. `environment`: further variables. Raises `PackageError`."""
    done = subprocess.run(
        command, cwd=cwd, env=os.environ | environment, capture_output=True, text=True, check=False, timeout=1800
    )
    if done.returncode != 0:
        raise PackageError(f"{' '.join(command[:4])}: {done.stdout}{done.stderr}")
    return done.stdout
