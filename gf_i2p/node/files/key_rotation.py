"""Replaces a server's login key in the server's own `secrets.toml`.

The new key stands beside the key (`new_key`) until the farm's log has its public half. The node tries both all the
time, so a stop at any step locks nobody out, and the same command goes on. The replaced key stays in `former_keys`: a
server that was away during the change accepts only that key, until the server has the newest entries.
"""

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from gf_i2p.node.access.login_keys import LoginKey
from gf_i2p.node.files.checked_read import TABLE_HEADER, ConfigError, has_tables, read_text
from gf_i2p.node.files.config import MAX_FORMER_KEYS, Secrets
from gf_i2p.node.files.file_names import SECRETS_FILE
from gf_i2p.node.files.transaction import changing, replace_files

_FIRST_LINE = re.compile(r"^[ \t]*[^#\s]", re.MULTILINE)
_OURS: Final = ("key", "new_key", "former_keys")


def begin(directory: Path) -> LoginKey:
    """Make a new key beside the present one, unless there is one already; return the new key. Raises `ConfigError`."""
    with changing(directory):
        secrets = Secrets.load(directory)
        if secrets.new_key is not None:
            return LoginKey.parse(secrets.new_key.get_secret_value())
        new = LoginKey.generate()
        _change(directory, {"new_key": new.text}, "# to replace the key: `gf-i2p members rotate-key` goes on")
        return new


def finish(directory: Path, new: LoginKey) -> None:
    """Put the new key, which the farm has now, in the place of the key. Nothing happens when that was done already.

    Raises `ConfigError`, also when the file has another new key meanwhile.
    """
    with changing(directory):
        secrets = Secrets.load(directory)
        if secrets.key is not None and LoginKey.parse(secrets.key.get_secret_value()) == new:
            return
        if secrets.new_key is None or LoginKey.parse(secrets.new_key.get_secret_value()) != new:
            raise ConfigError(f"{directory / SECRETS_FILE} has no longer the new key: run the command again")
        former = [text.get_secret_value() for text in (secrets.key, *secrets.former_keys) if text is not None]
        values: dict[str, Any] = {"key": new.text, "new_key": None}
        if former:
            values["former_keys"] = former[:MAX_FORMER_KEYS]
        _change(directory, values, "# this server's private key")


def _change(directory: Path, values: Mapping[str, Any], comment: str) -> None:
    """Set keys at the top of secrets.toml, or remove those that are None. `comment` is for the first value.

    The keys stand on lines of their own, and the result is parsed and compared. For that alone, a library that keeps
    the comments of a file is not worth a dependency: the other surgery on a file cannot use tomlkit (`peer_removal`).
    """
    path = directory / SECRETS_FILE
    text = read_text(path)
    expected = {name: value for name, value in (tomllib.loads(text) | dict(values)).items() if value is not None}
    table = TABLE_HEADER.search(text)
    end = len(text) if table is None else table.start()
    top = text[:end]
    old_lines = re.compile(rf"^[ \t]*(?:{'|'.join(values)})[ \t]*=.*\n?", re.MULTILINE)
    place = old_lines.search(top) or _FIRST_LINE.search(top)
    at = len(top) if place is None else place.start()
    top = old_lines.sub("", top)
    lines = [f"{name} = {_toml(value)}" for name, value in values.items() if value is not None]
    lines[0] += f"  {comment}"
    new_text = top[:at] + "\n".join([*lines, ""]) + top[at:] + text[end:]
    if not has_tables(new_text, expected):
        raise ConfigError(
            f"{path} cannot be changed as it is written: write each of {', '.join(_OURS)} on one line of its own at "
            "the top, and try again. Nothing was changed."
        )
    Secrets.of_text(new_text, path)
    replace_files(directory, {SECRETS_FILE: new_text})


def _toml(value: Any) -> str:
    """Write a text or a list of texts, all without characters that need an escape."""
    return f'"{value}"' if isinstance(value, str) else "[" + ", ".join(f'"{each}"' for each in value) + "]"
