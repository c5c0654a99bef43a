"""Keeps root out of a directory that belongs to another user.

Files that root makes there belong to root, and the server of that user could not read them. That user could also put
links there, which root would follow. So root changes nothing there, and takes no lock there.
"""

import os
import pwd
import stat
from pathlib import Path


def user_name(number: int) -> str:
    """Return the name of a user, or "#NUMBER", as sudo takes it, for a user without a name."""
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return f"#{number}"


def why_not_root(directory: Path) -> str | None:
    """Return why this process must not change files in a directory, and the command to run instead; None: it may.

    Only root gets a reason, for a directory of another user, and for a path with a link of another user. A missing
    directory counts as its nearest parent that exists, because root would make the directory there.
    """
    if os.geteuid() != 0:
        return None
    absolute = directory.absolute()
    owner = 0
    for path in (*reversed(absolute.parents), absolute):
        try:
            status = path.lstat()
            owner = path.stat().st_uid
        except OSError:
            break
        if stat.S_ISLNK(status.st_mode) and status.st_uid != 0:
            owner = status.st_uid
            break
    if owner == 0:
        return None
    name = user_name(owner)
    return (
        f"{directory} belongs to the user {name}, and this command runs as root: the server could not read what root "
        f"writes there. Nothing was changed. Run: sudo -u '{name}' gf-i2p …"
    )
