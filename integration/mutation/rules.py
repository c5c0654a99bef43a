"""The rules by which a mutant is made: each rule changes one place of a module's syntax tree.

Left alone, because no judge should notice a change there: docstrings, annotations, decorators, assertions, messages,
arguments of `raise`, and everything outside functions. Left alone, because every judge notices: the first values of
attributes, and indexes.
"""

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

_EDGES: Final[dict[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
}
_OPPOSITES: Final[dict[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Lt: ast.GtE,
    ast.LtE: ast.Gt,
    ast.Gt: ast.LtE,
    ast.GtE: ast.Lt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_OPERATORS: Final[dict[type[ast.operator], type[ast.operator]]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
}
_CALLS: Final = {"min": "max", "max": "min", "any": "all", "all": "any"}
_FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True, slots=True)
class Mutant:
    """One changed place of a module."""

    module: str
    number: int
    """Number of the mutant in its module, from 0 on; it changes when the module changes."""
    line: int
    code: str
    """The line of the module."""
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.module}:{self.line}: {self.before}  ->  {self.after}"


def mutants_of(module: str, source: str) -> list[Mutant]:
    """Return the mutants of a module, in the order of the source."""
    lines = source.splitlines()
    return [
        Mutant(
            module,
            number,
            place.node.lineno,
            lines[place.node.lineno - 1].strip(),
            _words(place.node),
            _words(place.new),
        )
        for number, place in enumerate(_places(ast.parse(source)))
    ]


def mutated(source: str, number: int) -> ast.Module:
    """Return the module's tree with the change of one mutant."""
    tree = ast.parse(source)
    place = list(_places(tree))[number]
    place.apply()
    return ast.fix_missing_locations(tree)


@dataclass(frozen=True, slots=True)
class _Place:
    """A node, and its replacement."""

    node: ast.expr | ast.stmt
    parent: ast.AST
    field: str
    index: int | None
    new: ast.expr | ast.stmt

    def apply(self) -> None:
        if self.index is None:
            setattr(self.parent, self.field, self.new)
        else:
            getattr(self.parent, self.field)[self.index] = self.new


def _words(node: ast.expr | ast.stmt) -> str:
    """Return the code of a node in one line; of an `if` only the head."""
    return ast.unparse(node).split("\n", 1)[0]


def _places(tree: ast.Module) -> Iterator[_Place]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            for method in node.body:
                if isinstance(method, _FUNCTIONS):
                    yield from _in_body(method)
    for function in tree.body:
        if isinstance(function, _FUNCTIONS):
            yield from _in_body(function)


def _in_body(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[_Place]:
    for index, statement in enumerate(function.body):
        if function.name == "__init__" and isinstance(statement, ast.Assign | ast.AnnAssign):
            continue  # an attribute that is not there is a crash, which every judge notices
        if not (index == 0 and _is_text(statement)):
            yield from _of(statement, function, "body", index)


def _is_text(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _of(node: ast.AST, parent: ast.AST, field: str, index: int | None) -> Iterator[_Place]:
    if isinstance(node, ast.Assert | ast.Raise | ast.JoinedStr | ast.ClassDef):
        return
    if isinstance(node, ast.expr | ast.stmt):
        for new in _replacements(node):
            yield _Place(node, parent, field, index, new)
    for name, value in ast.iter_fields(node):
        if name in {"annotation", "returns", "decorator_list", "slice", "args"} and not isinstance(node, ast.Call):
            continue
        if isinstance(value, ast.AST):
            yield from _of(value, node, name, None)
        elif isinstance(value, list):
            for position, each in enumerate(value):
                if isinstance(each, ast.AST) and not (position == 0 and isinstance(each, ast.stmt) and _is_text(each)):
                    yield from _of(each, node, name, position)


def _replacements(node: ast.expr | ast.stmt) -> Sequence[ast.expr | ast.stmt]:
    match node:
        case ast.Compare(left, [operator], comparators):
            kinds = [table[type(operator)] for table in (_EDGES, _OPPOSITES) if type(operator) in table]
            return [ast.Compare(left, [kind()], comparators) for kind in kinds]
        case ast.BoolOp(operator, values):
            return [ast.BoolOp(ast.Or() if isinstance(operator, ast.And) else ast.And(), values)]
        case ast.UnaryOp(ast.Not(), operand):
            return [operand]
        case ast.BinOp(left, operator, right) if type(operator) in _OPERATORS:
            return [ast.BinOp(left, _OPERATORS[type(operator)](), right)]
        case ast.Constant(bool(value)):
            return [ast.Constant(not value)]
        case ast.Constant(int(value)):
            return [ast.Constant(value + 1)]
        case ast.Call(ast.Name(str(name)), arguments, keywords) if name in _CALLS:
            return [ast.Call(ast.Name(_CALLS[name], ast.Load()), arguments, keywords)]
        case ast.Expr(ast.Call(function)) if not _is_log(function):
            return [ast.Pass()]
        case ast.Assign([ast.Attribute() | ast.Subscript()]) | ast.AugAssign() | ast.Delete():
            return [ast.Pass()]
        case ast.If(test, body, orelse) if not isinstance(test, ast.Compare):
            return [ast.If(ast.UnaryOp(ast.Not(), test), body, orelse)]
        case ast.Break():
            return [ast.Continue()]
        case ast.Continue():
            return [ast.Break()]
        case _:
            return []


def _is_log(function: ast.expr) -> bool:
    return "log" in ast.unparse(function).rpartition(".")[0].rpartition(".")[2]
