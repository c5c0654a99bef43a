"""Removes other servers from a server's files: their endpoints, and the verifiers of their passwords.

One server is removed when a new server gets its endpoint. All other servers are removed when a farm begins anew with
this server alone (`gf_i2p.node.recovery`). A removed server that comes back with its old log has no rights here. So a
newly invited server may have the endpoint of a removed server and, where the farm began anew, also the id.

Only whole tables are taken out of the text, so that everything else stays as the operator wrote it. The result is
parsed again, and must be the same but for those tables. tomlkit 0.15 does not serve here: with a table, tomlkit removes
the comment before the next table, and `[[servers]]` tables with another table between them are moved together.
"""

import tomllib
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

from gf_i2p.node.files.checked_read import TABLE_HEADER, ConfigError, has_tables
from gf_i2p.node.files.file_names import CONFIG_FILE, SECRETS_FILE


def without_others(directory: Path, own_id: int) -> dict[str, str]:
    """Return a node's files without other servers, as texts by file name. Writes nothing.

    Raises `ConfigError`, and `OSError` when a file cannot be read.
    """
    return {
        CONFIG_FILE: forget_servers(
            (directory / CONFIG_FILE).read_text(encoding="utf-8"), lambda server: server != own_id
        ),
        SECRETS_FILE: forget_users(
            (directory / SECRETS_FILE).read_text(encoding="utf-8"),
            lambda user: user.startswith("server-") and user != f"server-{own_id}",
        ),
    }


def forget_servers(text: str, is_removed: Callable[[int], bool]) -> str:
    """Return a `gf-i2p.toml` text without the `[[servers]]` whose id `is_removed` accepts. Raises `ConfigError`."""

    def holds_removed(table: dict[str, Any]) -> bool:
        servers = table.get("servers")
        return isinstance(servers, list) and len(servers) == 1 and is_removed(servers[0]["id"])

    expected = tomllib.loads(text)
    servers = expected.get("servers", [])
    expected["servers"] = [server for server in servers if not is_removed(server["id"])]
    gone = [str(server["id"]) for server in servers if is_removed(server["id"])]
    return _checked(_without(text, holds_removed), expected, f"the [[servers]] tables of the servers {', '.join(gone)}")


def forget_users(text: str, is_removed: Callable[[str], bool]) -> str:
    """Return a `secrets.toml` text without the users whose name `is_removed` accepts. Raises `ConfigError`."""

    def holds_removed(table: dict[str, Any]) -> bool:
        users = table.get("users")
        return isinstance(users, dict) and len(users) == 1 and is_removed(next(iter(users)))

    expected, new_text = tomllib.loads(text), _without(text, holds_removed)
    users = expected.get("users", {})
    gone = [user for user in users if is_removed(user)]
    for user in gone:
        del users[user]
    return _checked(
        new_text + "\n[users]\n" if gone and not users else new_text, expected, f"the users {', '.join(gone)}"
    )


def _without(text: str, holds_removed: Callable[[dict[str, Any]], bool]) -> str:
    """Return the text without the tables that `holds_removed` accepts. A table ends at the next header."""
    starts = [*(match.start() for match in TABLE_HEADER.finditer(text)), len(text)]
    pieces = [text[: starts[0]]]
    for start, end in pairwise(starts):
        piece = text[start:end]
        try:
            gone = holds_removed(tomllib.loads(piece))
        except ValueError:
            gone = False
        pieces.append(_comments_behind(piece) if gone else piece)
    return "".join(pieces)


def _comments_behind(piece: str) -> str:
    """Return the comments after the last line of a table, which belong to the next table; "" without comments."""
    lines = piece.splitlines(keepends=True)
    end = len(lines)
    while end and (not lines[end - 1].strip() or lines[end - 1].lstrip().startswith("#")):
        end -= 1
    behind = "".join(lines[end:])
    return behind if behind.strip() else ""


def _checked(new_text: str, expected: dict[str, Any], tables: str) -> str:
    """Return the new text if its tables are those of `expected`. Raises `ConfigError` otherwise.

    `tables`: the removed tables, for the error.
    """
    if has_tables(new_text, expected):
        return new_text
    raise ConfigError(f"{tables} cannot be removed from the file as it is written: remove them by hand, then try again")
