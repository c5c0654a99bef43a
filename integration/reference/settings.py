"""The page of the settings, from the models of the files and their docstrings.

Whether a running node takes a change over is not written here: `needs_restart`, which the node asks at a reload, is
asked about a change of each setting.
"""

import json
import re
import typing
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from pydantic import SecretStr
from pydantic.fields import FieldInfo

from gf_i2p.node.files.checked_read import Table
from gf_i2p.node.files.client_file import ClientFile
from gf_i2p.node.files.config import Config, Secrets
from gf_i2p.node.files.leaf_file import LeafFile
from gf_i2p.node.files.restart_needed import needs_restart
from integration.reference.docstrings import of_fields, summary
from integration.reference.markdown import cell, code, number, table

_CONFIG: Final = Config.model_validate(
    {
        "node": {"id": 1, "listen": "tcp://127.0.0.1:4150"},
        "servers": [{"id": 1, "endpoint": "tcp://192.0.2.1:4150"}],
        "router": {},
    }
)
_SECRETS: Final = Secrets.model_validate({"password": SecretStr("-"), "users": {}})
_OF_THE_BRIDGE: Final = ("bridge", "bridge_password")
"""Settings that only `gf-i2p bridge serve` reads, at its start."""
_AT_FIRST: Final = "node.join"
"""The setting that counts only while the log is empty."""
_TYPES: Final = {"string": "text", "integer": "whole number", "number": "number", "boolean": "true or false"}


class Setting(NamedTuple):
    """One setting, as the page shows it."""

    name: str
    path: tuple[str, ...]
    field: FieldInfo
    schema: Mapping[str, Any]
    text: str


class Chapter(NamedTuple):
    """One table of a file."""

    heading: str
    about: str
    settings: list[Setting]


def page() -> str:
    """Return the page."""
    parts = [
        """# Settings

All settings are in TOML files. A key that no table knows is a mistake, and the program names each mistake of a file. An
absent key has the default. "Takes effect" says whether a running node takes a change over when the node reloads its
files: after SIGHUP, or at once after [`gf-i2p set`](commands-node.md#gf-i2p-set). "Restart" means at the next start.
"""
    ]
    parts += _file(
        "gf-i2p.toml",
        "The settings of a node, in its directory. Other users may read this file: there are no secrets in it.",
        Config,
        _effect_of_config,
    )
    parts += _file(
        "secrets.toml",
        "The secrets of a node, beside `gf-i2p.toml`, mode 0600. The node refuses a file that others can read.",
        Secrets,
        _effect_of_secret,
    )
    parts += _file(
        "leaf.toml",
        "The file of a leaf member, mode 0600. `gf-i2p leaf run` reads the file at its start. `[router]`, `[logging]` "
        "and `[[servers]]` have the same settings as in `gf-i2p.toml`.",
        LeafFile,
        None,
        known=("router", "logging", "servers"),
        unused=("i2p",),
    )
    parts += _file(
        "client-NAME.toml, admin-NAME.toml, viewer-NAME.toml",
        "The file of a client, an administrator or a viewer, mode 0600. Each command that takes the file reads it. "
        "`[[servers]]` has the same settings as in `gf-i2p.toml`.",
        ClientFile,
        None,
        known=("servers",),
    )
    return "\n".join(parts)


def _file(
    name: str,
    about: str,
    model: type[Table],
    effect: Callable[[tuple[str, ...]], str] | None,
    *,
    known: tuple[str, ...] = (),
    unused: tuple[str, ...] = (),
) -> Iterator[str]:
    yield f"## {', '.join(map(code, name.split(', ')))}\n\n{about}\n"
    for chapter in _chapters(model, (), known, unused):
        heads = ["setting", "meaning", "type", "default", *(["takes effect"] if effect else [])]
        rows = [
            [
                code(each.name),
                cell(each.text),
                cell(_type(each.schema)),
                _default(each.field),
                *([effect(each.path)] if effect else []),
            ]
            for each in chapter.settings
        ]
        title = f"### {code(chapter.heading)}\n\n{cell(chapter.about)}\n\n" if chapter.heading else ""
        yield f"{title}{table(heads, rows)}"


def _chapters(
    model: type[Table], path: tuple[str, ...], known: tuple[str, ...] = (), unused: tuple[str, ...] = ()
) -> Iterator[Chapter]:
    """Yield the table of a model, and the tables inside it.

    `known`: tables that another file describes. `unused`: fields that this file may not have.
    """
    texts, own, inner = of_fields(model), [], []
    schema = model.model_json_schema(mode="validation")
    for name, field in model.model_fields.items():
        if name in unused:
            continue
        nested = _table_in(field.annotation)
        if nested is not None:
            inner.append((name, nested))
        if nested is None or name in known:
            if not texts[name]:
                raise ValueError(f"{model.__name__}.{name} has no description: write a docstring below it")
            own.append(Setting(name, (*path, name), field, _plain(schema["properties"][name], schema), texts[name]))
    heading = _heading(path)
    if own:
        yield Chapter(heading, _about(model), own)
    for name, nested in inner:
        if name not in known:
            kind = _plain(schema["properties"][name], schema).get("type")
            mark = {"array": "[[]]", "object": "NAME"}.get(str(kind), "") if nested[1] else ""
            yield from _chapters(nested[0], (*path, name + mark))


def _heading(path: tuple[str, ...]) -> str:
    """Return the table's header in TOML; empty for the beginning of the file."""
    if not path:
        return ""
    names = ".".join(part.removesuffix("[[]]").replace("NAME", ".NAME") for part in path)
    return f"[[{names}]]" if path[-1].endswith("[[]]") else f"[{names}]"


def _about(model: type[Table]) -> str:
    """Return the model's docstring, which may begin with the table's name: the heading has that."""
    text = re.sub(r"^(?:The|A) table `[^`]+`: ", "", summary(model))
    return text[0].upper() + text[1:]


def _table_in(annotation: Any) -> tuple[type[Table], bool] | None:
    """Return the model of a table inside a table, and whether there may be several; None for a plain value."""
    if isinstance(annotation, type) and issubclass(annotation, Table):
        return annotation, False
    for argument in typing.get_args(annotation):
        if (found := _table_in(argument)) is not None:
            several = typing.get_origin(annotation) in {tuple, dict}
            return found[0], several or found[1]
    return None


def _plain(schema: Mapping[str, Any], root: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the schema without the alternative null, and without references."""
    if "$ref" in schema:
        return _plain(root["$defs"][schema["$ref"].rpartition("/")[2]], root)
    if "anyOf" in schema:
        return _plain(next(each for each in schema["anyOf"] if each.get("type") != "null"), root)
    return schema


def _type(schema: Mapping[str, Any]) -> str:
    """Return the type and the range in words, from the JSON schema of a field."""
    if "enum" in schema:
        return ", ".join(f"`{json.dumps(each)}`" for each in schema["enum"])
    match schema.get("type"):
        case "array":
            most = f", at most {schema['maxItems']}" if "maxItems" in schema else ""
            return "tables" if "$ref" in schema["items"] else f"list of texts{most}"
        case "object":
            return "table of texts" if "properties" not in schema else "table"
        case "string" if "minLength" in schema and schema.get("format") == "password":
            return f"secret text, at least {schema['minLength']} characters"
        case "string" if schema.get("format") == "password":
            return "secret text"
        case other:
            span = f", {number(schema['minimum'])} to {number(schema['maximum'])}" if "maximum" in schema else ""
            return _TYPES[str(other)] + span


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "needed"
    default = field.default
    if default is None or default in ((), {}) or isinstance(default, Table):
        return "none"
    return code(json.dumps(default))


class _Other:
    """A value that is unlike every other."""


def _effect_of_config(path: tuple[str, ...]) -> str:
    """Ask the node's own rule about a change of this setting."""
    if path[0] in _OF_THE_BRIDGE:
        return "next `gf-i2p bridge serve`"
    if ".".join(path) == _AT_FIRST:
        return "first start"
    changed = _changed(_CONFIG, path)
    return _words(needs_restart((_CONFIG, _SECRETS), (changed, _SECRETS), {1}))


def _effect_of_secret(path: tuple[str, ...]) -> str:
    if path[0] in _OF_THE_BRIDGE:
        return "next `gf-i2p bridge serve`"
    changed = _SECRETS.model_copy(update={path[0].removesuffix("NAME"): _Other()})
    return _words(needs_restart((_CONFIG, _SECRETS), (_CONFIG, changed), {1}))


def _changed(at: Any, path: tuple[str, ...]) -> Any:
    """Return the tables with another value of one setting."""
    if not path:
        return _Other()
    name = path[0].removesuffix("[[]]")
    inside = getattr(at, name)
    if path[0] != name and inside:
        new: Any = (_changed(inside[0], path[1:]), *inside[1:])
    elif isinstance(inside, Table):
        new = _changed(inside, path[1:])
    else:
        new = not inside if isinstance(inside, bool) else _Other()
    return at.model_copy(update={name: new})


def _words(pending: list[str]) -> str:
    return "restart" if pending else "reload"
