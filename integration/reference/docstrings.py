"""Descriptions that stand beside names in the code: docstrings below fields and constants, and comments above them."""

import ast
import inspect
import re
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple


class Constant(NamedTuple):
    """A documented constant of a module."""

    name: str
    value: Any
    text: str
    """The docstring below, or else the comment above; empty: neither."""


@cache
def tree_of(module: str) -> tuple[ast.Module, tuple[str, ...]]:
    """Return the tree and the lines of a module."""
    source = inspect.getsource(import_module(module))
    return ast.parse(source), tuple(source.splitlines())


def _named(body: list[ast.stmt]) -> Iterator[tuple[str, int, str]]:
    """Yield name, line and docstring of each assignment."""
    for each, following in zip(body, [*body[1:], None], strict=True):
        match each:
            case ast.AnnAssign(target=ast.Name(id=name)) | ast.Assign(targets=[ast.Name(id=name)]):
                match following:
                    case ast.Expr(value=ast.Constant(value=str(text))):
                        yield name, each.lineno, inspect.cleandoc(text)
                    case _:
                        yield name, each.lineno, ""


def of_fields(model: type) -> dict[str, str]:
    """Return the docstrings of a class's fields, also of inherited ones."""
    found: dict[str, str] = {}
    for each in reversed(model.__mro__):
        if each.__module__.startswith("gf_i2p."):
            tree, _ = tree_of(each.__module__)
            body = next(
                node.body for node in tree.body if isinstance(node, ast.ClassDef) and node.name == each.__name__
            )
            found.update({name: text for name, _, text in _named(body)})
    return found


def constants(module: str) -> list[Constant]:
    """Return the public constants in capitals of a module, in their order."""
    tree, lines = tree_of(module)
    values = vars(import_module(module))
    return [
        Constant(name, values[name], text or _comment_above(lines, line))
        for name, line, text in _named(tree.body)
        if re.fullmatch(r"[A-Z][A-Z0-9_]*", name)
    ]


def _comment_above(lines: tuple[str, ...], line: int) -> str:
    first = line - 1
    while first > 0 and lines[first - 1].startswith("# ") and not lines[first - 1].startswith("# ---"):
        first -= 1
    return " ".join(each.removeprefix("# ") for each in lines[first : line - 1])


def summary(thing: object) -> str:
    """Return the docstring of a class or a module, without line breaks inside a paragraph."""
    return " ".join((inspect.getdoc(thing) or "").split())
