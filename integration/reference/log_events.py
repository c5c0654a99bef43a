"""The page of the log events, from the calls of structlog in the code."""

import ast
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Final, NamedTuple

from integration.reference.markdown import cell, code, table

_ROOT: Final = Path(__file__).parent.parent.parent
_LEVELS: Final = ("critical", "error", "exception", "warning", "info", "debug")
_LOGGERS: Final = ("logger", "log", "_log")
_CALL: Final = re.compile(rf"\b(?:{'|'.join(_LOGGERS)})\.(?:{'|'.join(_LEVELS)})\(")
_TRACE: Final = ("exc_info", "stack_info")


class LogEvent(NamedTuple):
    """One call that writes a line into the log."""

    part: str
    level: str
    event: str
    fields: tuple[str, ...]


def page() -> str:
    """Return the page."""
    parts = [
        """# Log events

A node writes these events to standard error, one a line. `[logging]` sets the least level, and the format: text, or
JSON with the keys `event`, `level`, `timestamp` and the fields. Lines also have the fields of their place, such as
`server`, `peer` or `node`. An event in braces is a value that has several texts. Events of level error or
critical need an operator. "A defect" means a fault of this program: please report it with its trace.
"""
    ]
    found = sorted(set(_events()))
    for part in dict.fromkeys(each.part for each in found):
        rows = sorted(
            (_LEVELS.index(each.level), cell(each.event), each.level, ", ".join(map(code, each.fields)))
            for each in found
            if each.part == part
        )
        shown = [(event, "error" if level == "exception" else level, fields) for _, event, level, fields in rows]
        parts.append(f"## `{part}`\n\n{_about(part)}\n\n{table(('event', 'level', 'fields'), shown)}")
    return "\n".join(parts)


def _about(part: str) -> str:
    """Return the first paragraph of a package's docstring."""
    text = ast.get_docstring(ast.parse((_ROOT / part / "__init__.py").read_text(encoding="utf-8"))) or ""
    return cell(text.split("\n\n", maxsplit=1)[0])


def _events() -> Iterator[LogEvent]:
    for folder in ("gf_i2p", "bridges"):
        for path in sorted((_ROOT / folder).rglob("*.py")):
            source = path.read_text(encoding="utf-8")
            if not _CALL.search(source):
                continue
            module = ".".join(path.relative_to(_ROOT).with_suffix("").parts)
            for node in ast.walk(ast.parse(source)):
                match node:
                    case ast.Call(func=ast.Attribute(attr=level, value=logger), args=[event, *_]) if (
                        level in _LEVELS and _name(logger) in _LOGGERS
                    ):
                        fields = tuple(each.arg for each in node.keywords if each.arg and each.arg not in _TRACE)
                        yield LogEvent(_part(path), level, _text(event, module), fields)


def _part(path: Path) -> str:
    """Return the folder below the package that an event comes from."""
    folders = path.relative_to(_ROOT).parent.parts
    return "/".join(folders[:2]) if folders[0] == "gf_i2p" else folders[0]


def _name(logger: ast.expr) -> str:
    match logger:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return ""


def _text(event: ast.expr, module: str) -> str:
    """Return the event's text; for a constant of the module its value, and for a variable its name in italics."""
    match event:
        case ast.Constant(value=str(text)):
            return text
        case ast.Name(id=name) if name.isupper():
            return str(vars(import_module(module))[name])
    return f"{{{ast.unparse(event)}}}"
