"""The source of an earlier commit, in a directory of its own."""

import subprocess
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]


class CommitMissingError(OSError):
    """The clone does not have the commit; `str()` says what to do."""


def checkout(commit: str, place: Path) -> None:
    """Write the files of a commit or of a tag into `place`, which must not exist. Raises `CommitMissingError`."""
    archive = subprocess.run(["git", "archive", "--format=tar", commit], cwd=ROOT, capture_output=True, check=False)
    if archive.returncode:
        raise CommitMissingError(
            f"{commit}: {archive.stderr.decode(errors='replace').strip()}. Is this clone shallow? Then run: "
            "git fetch --unshallow --tags"
        )
    place.mkdir(parents=True)
    subprocess.run(["tar", "-x", "-C", str(place)], input=archive.stdout, check=True)
