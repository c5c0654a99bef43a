"""The page of the figures for Prometheus, from the calls in `gf_i2p/admin/monitoring/metrics.py`."""

import ast
from collections.abc import Iterator
from typing import Final

from prometheus_client import CollectorRegistry, ProcessCollector

from integration.reference.docstrings import tree_of
from integration.reference.markdown import cell, code, table

_MODULE: Final = "gf_i2p.admin.monitoring.metrics"
_KINDS: Final = ("gauge", "counter", "histogram")
_OWN: Final = ("cluster", "server")


def page() -> str:
    """Return the page."""
    rows = [
        (code(name), cell(text), kind, ", ".join(map(code, labels))) for name, kind, text, labels in sorted(_figures())
    ]
    process = [
        (code(family.name + ("_total" if family.type == "counter" else "")), cell(family.documentation), family.type)
        for family in ProcessCollector(registry=CollectorRegistry()).collect()
    ]
    return f"""# Metrics

A node shows these figures to Prometheus at `/metrics`, once `[monitoring] listen` is set. Every figure of a node has
the labels `cluster`, the farm's name, and `server`, the id. The column has the further labels. "Whether" means 1 for
yes, and 0 for no. A figure that is not known is left out. A histogram has the usual `_bucket`, `_sum` and `_count`.

{table(("figure", "meaning", "type", "further labels"), rows)}
## The process

Figures of the whole process, by the client library of Prometheus, without labels.

{table(("figure", "meaning", "type"), process)}"""


def _figures() -> Iterator[tuple[str, str, str, tuple[str, ...]]]:
    """Yield name, type, meaning and further labels of each figure."""
    for function in ast.walk(tree_of(_MODULE)[0]):
        if not isinstance(function, ast.FunctionDef):
            continue
        for node in ast.walk(function):
            match node:
                case ast.Call(
                    func=ast.Attribute(attr=kind, value=ast.Name()),
                    args=[ast.Constant(value=str(name)), ast.Constant(value=str(text)), _, given],
                ) if kind in _KINDS:
                    labels = {"own": _OWN, "at": _nearest(function, node.lineno)}
                    further = tuple(each for each in _keys(given, labels) if each not in _OWN)
                    yield name + ("_total" if kind == "counter" else ""), kind, text, further


def _nearest(function: ast.FunctionDef, line: int) -> tuple[str, ...]:
    """Return the labels of the last `at = {...}` above a line."""
    found: tuple[str, ...] = ()
    for node in sorted((each for each in ast.walk(function) if isinstance(each, ast.Assign)), key=lambda n: n.lineno):
        match node:
            case ast.Assign(targets=[ast.Name(id="at")], value=ast.Dict() as given) if node.lineno < line:
                found = _keys(given, {"own": _OWN})
    return found


def _keys(given: ast.expr, known: dict[str, tuple[str, ...]]) -> tuple[str, ...]:
    match given:
        case ast.Name(id=name):
            return known[name]
        case ast.Dict(keys=keys, values=values):
            parts = zip(keys, values, strict=True)
            return tuple(
                name
                for key, value in parts
                for name in (_keys(value, known) if key is None else (str(ast.literal_eval(key)),))
            )
    raise ValueError(f"labels that this page cannot read, in line {given.lineno} of {_MODULE}")
