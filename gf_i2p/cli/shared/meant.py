"""The command or the directory that an operator may have meant."""

import difflib
import re
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Final

from gf_i2p.node.files.file_names import CONFIG_FILE

_MOST_NAMES: Final = 1000
"""Most names of a directory that are compared with a mistyped name."""


def with_known_command(message: str, program: str) -> str:
    """Return argparse's message; for an unknown command, name the command that the operator may have meant."""
    unknown = re.fullmatch(r"argument \w+: invalid choice: '(.*)' \(choose from (.*)\)", message)
    if unknown is None:
        return message
    known = re.findall(r"[\w-]+", unknown[2])
    near = difflib.get_close_matches(unknown[1], known, n=1)
    hint = f"did you mean `{program} {near[0]}`" if near else f"`{program} --help` lists the commands"
    return f"there is no command {unknown[1][:80]!r}: {hint}{'?' if near else ''}"


def no_node_directory(path: Path) -> str:
    """Return why a path is no node's directory, as a sentence that names the directory that may be meant."""
    servers = [each for each in _names(path) if _known((path / each / CONFIG_FILE).exists)]
    if servers:
        return f"{path} is a farm's directory: name one of its servers, as in {path / min(servers)}"
    near = _near(path)
    if near == path or near is None or not _known((near / CONFIG_FILE).exists):
        hint = "; `gf-i2p init` makes one"
    else:
        hint = f". Did you mean {near}?"
    return f"{path} is not a node's directory: there is no {CONFIG_FILE} in it{hint}"


def no_file(path: Path, otherwise: str) -> str:
    """Return that a file does not exist, as a sentence that names the file that may be meant.

    `otherwise`: the advice, as a clause, when no file has a similar name.
    """
    near = _near(path)
    hint = otherwise if near is None or not _known(near.is_file) else f"did you mean {near}?"
    return f"There is no file {path}: {hint}"


def _near(path: Path) -> Path | None:
    """Return the path whose name is nearest to the given path's, part by part; None: no such path."""
    found = Path(path.anchor)
    for part in path.parts[1 if path.anchor else 0 :]:
        if _known((found / part).is_dir):
            found /= part
            continue
        close = difflib.get_close_matches(part, _names(found), n=1)
        if not close:
            return None
        found /= close[0]
    return found


def _known(fact: Callable[[], bool]) -> bool:
    """Whether this user can know a fact about a path, and it is true: other users' directories may be closed."""
    try:
        return fact()
    except OSError:
        return False


def _names(path: Path) -> list[str]:
    """Return the names in a directory, in their order; none for a path that cannot be read."""
    try:
        return sorted(each.name for each in islice(path.iterdir(), _MOST_NAMES))
    except OSError:
        return []
