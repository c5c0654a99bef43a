"""Removes other servers from a server's files: their endpoints, and the verifiers of their passwords.

One server is removed when a new server gets its endpoint. All other servers are removed when a farm begins anew with
this server alone (`gf_i2p.node.recovery`). A removed server that comes back with its old log has no rights here. So a
newly invited server may have the endpoint of a removed server and, where the farm began anew, also the id.

A farm that begins anew is kept apart from the old farm's log, too: the new log goes on in a term that the old farm
cannot have reached (`term_beyond`).

Only whole tables are taken out of the text, so that everything else stays as the operator wrote it. The result is
parsed again, and must be the same but for those tables. tomlkit 0.15 does not serve here: with a table, tomlkit removes
the comment before the next table, and `[[servers]]` tables with another table between them are moved together.
"""

import re
import secrets as randomness
import shutil
import tomllib
from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from gf_i2p.node.files.checked_read import ConfigError
from gf_i2p.node.files.farm_setup import write_private
from gf_i2p.node.files.layout import CONFIG_FILE, SECRETS_FILE
from gf_i2p.raft.core import MAX_TERM_STEP
from gf_i2p.storage.private_files import sync_directory, sync_file

ELECTIONS_A_SECOND: Final = 2
"""Most elections a second by a server that has lost the others, with the shortest time-outs of any profile."""
TERM_LEAP: Final = 2**28
"""Terms added for a farm that went on for an unknown time, or for wrong clocks: four years of such elections. At least
six new beginnings fit below `MAX_TERM_STEP`, the largest step of terms that a new server with an empty log accepts."""
TERM_SCATTER: Final = 2**20
"""A random number of terms below this is added, so that two recoveries from one state go on in different terms."""
_TERM_END: Final = MAX_TERM_STEP - 3 * TERM_LEAP

_CHANCE: Final = "[0-9a-f]" * 16
"""Pattern for the end of a temporary file's name."""
_HEADER: Final = re.compile(r"^[ \t]*\[", re.MULTILINE)


def term_beyond(term: int, *, since: float = 0.0) -> int:
    """Return a term that the farm cannot have reached, `since` seconds after the farm was in term `term`.

    A farm that was recovered from the same state before counts as an old farm, too: see `TERM_SCATTER`. Raises
    `ConfigError` when no such term is left.
    """
    if term >= _TERM_END:
        raise ConfigError(f"the farm has reached term {term}, and too few terms are left: begin a new farm")
    elections = min(int(ELECTIONS_A_SECOND * max(since, 0.0)), TERM_LEAP)
    return term + elections + TERM_LEAP + randomness.randbelow(TERM_SCATTER)


def without_others(directory: Path, own_id: int) -> dict[str, str]:
    """Return a node's files without other servers, as texts by file name; writes nothing. Raises `ConfigError`."""
    return {
        CONFIG_FILE: forget_servers(
            (directory / CONFIG_FILE).read_text(encoding="utf-8"), lambda server: server != own_id
        ),
        SECRETS_FILE: forget_users(
            (directory / SECRETS_FILE).read_text(encoding="utf-8"),
            lambda user: user.startswith("server-") and user != f"server-{own_id}",
        ),
    }


def replace_files(directory: Path, texts: Mapping[str, str], backup: Path | None = None) -> None:
    """Replace the files by these texts, in this order; each file is replaced whole or not at all.

    `backup` gets a copy of each old file. All new files are on the disk before the first is replaced. The caller must
    have locked the directory (`changing`) before the old files were read.
    """
    new_files: dict[str, Path] = {}
    try:
        for name, text in texts.items():
            path = directory / name
            if backup is not None:
                shutil.copy2(path, backup / name)
                sync_file(backup / name)
            for stale in directory.glob(f"{name}-new-{_CHANCE}"):  # left by a command that was killed
                stale.unlink(missing_ok=True)
            new_file = directory / f"{name}-new-{randomness.token_hex(8)}"
            write_private(new_file, text)
            new_files[name] = new_file
            new_file.chmod(path.stat().st_mode & 0o777)
            sync_file(new_file)
        if backup is not None:
            sync_directory(backup)
        for name, new_file in new_files.items():
            new_file.replace(directory / name)
    finally:
        for new_file in new_files.values():
            new_file.unlink(missing_ok=True)
    sync_directory(directory)


def free_path(directory: Path, name: str) -> Path:
    """Return a path in `directory` that does not exist: `name`, or `name` with a number.

    A name with the time in seconds is not enough: two commands may run within one second.
    """
    path, number = directory / name, 1
    while path.exists():
        number += 1
        path = directory / f"{name}-{number}"
    return path


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
    starts = [*(match.start() for match in _HEADER.finditer(text)), len(text)]
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
    """Return the comments after the last line of a table, which belong to the next table; else an empty text."""
    lines = piece.splitlines(keepends=True)
    end = len(lines)
    while end and (not lines[end - 1].strip() or lines[end - 1].lstrip().startswith("#")):
        end -= 1
    behind = "".join(lines[end:])
    return behind if behind.strip() else ""


def _checked(new_text: str, expected: dict[str, Any], tables: str) -> str:
    """Return the new text if it means `expected`. Raises `ConfigError`; `tables` names the removed tables in it."""
    try:
        if tomllib.loads(new_text) == expected:
            return new_text
    except ValueError:
        pass
    raise ConfigError(f"{tables} cannot be removed from the file as it is written: remove them by hand, then try again")
