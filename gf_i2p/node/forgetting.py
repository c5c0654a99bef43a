"""Makes a server's files forget the other servers: where they are, and what checks their passwords.

Only whole tables are taken out of the text, so that everything else, comments included, stays as the operator wrote it;
and what comes out is read again, and must be the same but for those tables.
"""

import re
import tomllib
from collections.abc import Callable
from itertools import pairwise
from typing import Any, Final

from gf_i2p.node.errors import ConfigError

_HEADER: Final = re.compile(r"^[ \t]*\[", re.MULTILINE)


def forget_servers(text: str, own_id: int) -> str:
    """Return the text of a `gf-i2p.toml` without the `[[servers]]` of others. Raises `ConfigError`."""

    def goes(table: dict[str, Any]) -> bool:
        servers = table.get("servers")
        return isinstance(servers, list) and len(servers) == 1 and servers[0].get("id") != own_id

    new = _without(text, goes)
    wanted = tomllib.loads(text)
    wanted["servers"] = [server for server in wanted.get("servers", []) if server.get("id") == own_id]
    return _checked(new, wanted, f"the [[servers]] tables of other servers than {own_id}")


def forget_users(text: str, own_id: int) -> str:
    """Return the text of a `secrets.toml` without the users `server-ID` of others. Raises `ConfigError`."""

    def other(user: str) -> bool:
        return user.startswith("server-") and user != f"server-{own_id}"

    def goes(table: dict[str, Any]) -> bool:
        users = table.get("users")
        return isinstance(users, dict) and len(users) == 1 and other(next(iter(users)))

    new = _without(text, goes)
    wanted = tomllib.loads(text)
    if "users" in wanted:
        wanted["users"] = {user: table for user, table in wanted["users"].items() if not other(user)}
        if not wanted["users"]:
            new += "\n[users]\n"
    return _checked(new, wanted, f"the users server-ID of other servers than {own_id}")


def _without(text: str, goes: Callable[[dict[str, Any]], bool]) -> str:
    """Leave out the tables of which this says so; a table goes from its header to the next."""
    starts = [0, *(match.start() for match in _HEADER.finditer(text)), len(text)]
    kept = []
    for start, end in pairwise(starts):
        piece = text[start:end]
        try:
            gone = start > 0 and goes(tomllib.loads(piece))
        except ValueError:
            gone = False
        if not gone:
            kept.append(piece)
    return "".join(kept)


def _checked(new: str, wanted: dict[str, Any], what: str) -> str:
    try:
        if tomllib.loads(new) == wanted:
            return new
    except ValueError:
        pass
    raise ConfigError(f"{what} cannot be taken out of the file as it is written: take them out by hand, then go on")
