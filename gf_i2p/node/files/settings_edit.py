"""Changes single settings in a node's `gf-i2p.toml`, and keeps its comments and its order."""

import difflib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, get_args

import tomlkit
from pydantic import BaseModel
from tomlkit.exceptions import TOMLKitError
from tomlkit.items import AoT, Table

from gf_i2p.node.files.checked_read import ConfigError, NoNodeDirectoryError, read_text, table_of
from gf_i2p.node.files.config import Config
from gf_i2p.node.files.file_names import CONFIG_FILE
from gf_i2p.node.files.transaction import changing, replace_files

LISTS: Final = {
    "servers": "`gf-i2p members` changes the servers",
    "removed": "`gf-i2p members` changes the servers",
    "publish.leaves": "edit the tables [[publish.leaves]] in the file",
}
"""Settings that are lists of tables, each with another way to change it."""


@dataclass(frozen=True, slots=True)
class SettingChange:
    """One changed setting."""

    key: str
    old: Any
    """The value in the file before; None: the file did not have the setting."""
    new: Any
    """The value in the file now; None: the setting was removed."""


def change_settings(
    directory: Path, changes: Mapping[str, str | None], *, check: Callable[[Config], None] = lambda _: None
) -> list[SettingChange]:
    """Change settings in the file, all together or none.

    `changes` has the new value of each key as text, or None to remove the setting. A key has dots, as in
    "publish.mode". A value is TOML, as in 0.5, true or ["a", "b"]; other text is a string. Raises `ConfigError` when
    the file would no longer be valid. `check` gets the new settings, and may raise `ConfigError`, too.
    """
    path = directory / CONFIG_FILE
    if path.is_symlink():
        raise ConfigError(f"{path} is a link, which a change would replace: change the file that the link names")
    if not path.exists():
        raise NoNodeDirectoryError(directory, CONFIG_FILE)
    with changing(directory):
        text = read_text(path)
        table_of(Config, text, path)  # a fault that is there already must not be blamed on the change
        values = {key: None if value is None else _value(value) for key, value in changes.items()}
        while True:
            document = tomlkit.parse(text)
            done = [_change(document, key, value) for key, value in values.items()]
            new_text = tomlkit.dumps(document)
            try:
                config = table_of(Config, new_text, path)
                break
            except ConfigError as error:
                meant = {key for key in values if _is_no_text(str(error), key, values[key])}
                if not meant:
                    raise ConfigError(f"nothing was changed: {_with_hint(str(error))}") from error
                values |= {key: changes[key] for key in meant}
        check(config)
        replace_files(directory, {CONFIG_FILE: new_text})
    return done


def known_keys(model: type[BaseModel] = Config, prefix: str = "") -> Iterator[str]:
    """Yield the keys of all settings, with dots."""
    for name, field in model.model_fields.items():
        nested = [
            each
            for each in (field.annotation, *get_args(field.annotation))
            if isinstance(each, type) and issubclass(each, BaseModel)
        ]
        if nested:
            yield from known_keys(nested[0], f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}"


def _value(text: str) -> Any:
    """Return the TOML value that a text is, or the text itself. Dates are no values of a setting."""
    try:
        value = _plain(tomlkit.value(text))
    except (TOMLKitError, ValueError):
        return text
    return value if isinstance(value, bool | int | float | str | list | dict) else text


def _is_no_text(fault: str, key: str, value: Any) -> bool:
    """Whether the fault says that this setting takes text only, and the value is not text."""
    named = ".".join(_parts(key))
    return not isinstance(value, str) and value is not None and f"{named}: input should be a valid string" in fault


def _with_hint(fault: str) -> str:
    """Add the nearest known key to a fault that names an unknown one."""
    lines = []
    for line in fault.splitlines():
        head, unknown, _ = line.partition(": no such key")
        near = difflib.get_close_matches(head.rpartition(" ")[2], list(known_keys()), n=1) if unknown else []
        lines.append(f"{head}{unknown}; check the spelling: did you mean {near[0]}?" if near else line)
    return "\n".join(lines)


def _parts(key: str) -> Sequence[str]:
    """Split a key with dots and quotes. Raises `ConfigError`."""
    if "\n" in key:
        raise ConfigError(f"{key!r} is no key of a setting: write it in one line, as in publish.mode")
    try:
        node: Any = tomlkit.parse(f"{key} = 0")
    except TOMLKitError as error:
        raise ConfigError(f"{key} is no key of a setting: write it as in publish.mode") from error
    parts = []
    while isinstance(node, Mapping):
        (part,) = node
        parts.append(str(part))
        node = node[part]
    for name, way in LISTS.items():
        if parts[: name.count(".") + 1] == name.split("."):
            raise ConfigError(f"{name} is a list of tables: {way}")
    return parts


def _change(document: tomlkit.TOMLDocument, key: str, value: Any) -> SettingChange:
    *tables, name = _parts(key)
    table: Any = document
    for number, part in enumerate(tables, 1):
        if part not in table:
            if value is None:
                return SettingChange(key, None, None)
            table[part] = tomlkit.table(is_super_table=number < len(tables))
        table = table[part]
        if not isinstance(table, Mapping):
            raise ConfigError(f"{'.'.join(tables[:number])} is a value and no table: {key} cannot stand there")
    old = table.get(name)
    if isinstance(old, Table):
        raise ConfigError(f"{key} is a table: name one of its settings")
    if value is None:
        table.pop(name, None)
    elif old is None and isinstance(table, Table):
        _insert(table, name, value)
    else:
        table[name] = value
    return SettingChange(key, None if old is None else _plain(old), value)


def _insert(table: Table, name: str, value: Any) -> None:
    """Add a key after the last key of the table: the comments that follow belong to the next table."""
    keys = [key for key, item in table.value.body if key is not None and not isinstance(item, Table | AoT)]
    if keys:
        table.value._insert_after(keys[-1], name, value)  # noqa: SLF001 -- tomlkit has no public way to choose the place
    elif table.value.body:
        table.value._insert_at(0, name, value)  # noqa: SLF001 -- as above
    else:
        table[name] = value


def _plain(item: Any) -> Any:
    return item.unwrap() if hasattr(item, "unwrap") else item
