"""`make release` begins here: is this tree one that can be released? Prints the version, or says why not.

A release is a clean clone at a tag vX.Y.Z. The tag is the one place that has the version.
"""

import re
import subprocess
import sys
from pathlib import Path
from typing import Final

TAG: Final = re.compile(r"v\d+\.\d+\.\d+(?:(?:a|b|rc)\d+)?")


class NotReleasableError(Exception):
    """A tree is none to release. The text says what to do."""


def released_version(tree: Path) -> str:
    """Return the version of a tree, without the "v" of the tag. Raises `NotReleasableError`."""
    if changed := changed_files(tree):
        raise NotReleasableError(f"the tree is not clean. Commit these first, or take a fresh clone:\n{changed}")
    tags = [tag for tag in _git(tree, "tag", "--points-at", "HEAD").split() if TAG.fullmatch(tag)]
    if len(tags) != 1:
        found = f"{len(tags)} tags of a version: {', '.join(tags)}" if tags else "no tag of a version"
        raise NotReleasableError(f"the commit has {found}. Give it one: git tag -a v1.2.3")
    return tags[0][1:]


def changed_files(tree: Path) -> str:
    """Return the files of a clone that differ from its commit, one a line; new ones, too, unless git ignores them.

    Raises `NotReleasableError` for a tree without git.
    """
    return _git(tree, "status", "--porcelain", "--untracked-files=normal")


def _git(tree: Path, *words: str) -> str:
    done = subprocess.run(["git", *words], cwd=tree, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise NotReleasableError(f"git {words[0]}: {done.stderr.strip()}")
    return done.stdout.rstrip()


if __name__ == "__main__":
    try:
        print(released_version(Path.cwd()))
    except NotReleasableError as error:
        sys.exit(f"release: {error}")
