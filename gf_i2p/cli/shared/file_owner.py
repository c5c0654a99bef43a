"""Says whose a path is, to a person whose command may not use the path."""

import pwd
from pathlib import Path


def other_owner(path: Path, user: int) -> str | None:
    """Return the sentence about the path, for a command of this user; None when the path is the user's own.

    A user may see nothing below a directory of somebody else. Then the sentence is about that directory.
    """
    for place in (path.absolute(), *path.absolute().parents):
        try:
            owner = place.stat().st_uid
        except OSError:
            continue
        if owner == user:
            return None
        whose = _name(owner)
        return (
            f"{place} belongs to the user {whose}, and this command runs as {_name(user)}: name another path, or run "
            f"the command as {whose}."
        )
    return None


def _name(user: int) -> str:
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return str(user)
