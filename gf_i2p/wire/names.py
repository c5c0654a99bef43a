"""The legal names of clusters and users.

Names occur in HTTP paths, quoted strings, log lines and command lines. In this narrow alphabet, no name needs an
escape, and each name has only one form on the wire.
"""

import re

from gf_i2p.wire.limits import MAX_NAME_BYTES

_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*+", re.ASCII)


def check_name(kind: str, name: str, *, most: int = MAX_NAME_BYTES) -> str:
    """Return `name` if it can name a cluster or a user.

    Args:
        kind: the kind of name, for the error's sentence ("cluster name", "user name").
        name: 1 to `most` ASCII letters, digits, `.`, `_` and `-`; the first is not a dot.

        most: most characters.

    Raises:
        ValueError: the name is not legal; the text lists the legal characters.
    """
    if len(name) > most or _NAME.fullmatch(name) is None:
        raise ValueError(
            f"{name!r} cannot be a {kind}: use 1 to {most} letters, digits, '.', '_' or '-' "
            "(ASCII only, not starting with a dot)"
        )
    return name
