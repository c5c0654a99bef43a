"""Says whose a path is, to a person whose command may not use the path."""

from pathlib import Path

from gf_i2p.storage.ownership import user_name


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
        whose, me = user_name(owner), user_name(user)
        return (
            f"{place} belongs to the user {whose}, and this command runs as {me}: name another path, or run the "
            f"command as {whose}."
        )
    return None
