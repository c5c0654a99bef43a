"""The page of the administration API, from its OpenAPI document and the routes of its code."""

import inspect
import re
from typing import Any, Final, cast

from aiohttp import web

from gf_i2p.admin import api, openapi
from integration.reference.markdown import cell, code, number, table

_NEWCOMER: Final = "newcomer"
_LOCAL: Final = "operator on the server's machine"


def page() -> str:
    """Return the page."""
    document = openapi.document()
    routes = _roles()
    rows = [
        (code(method), code(path), role, cell(_summary(document, method, path)))
        for (method, path), role in routes.items()
    ]
    parts = [
        f"""# The administration API

Each server answers these requests by JSON over HTTP. [How to use the API](../how-to/administration.md) has the
addresses, the logins and examples. `GET /v1/openapi` answers with this description as an OpenAPI document for programs.

{table(("method", "path", "for", "does"), rows)}
"Operator on the server's machine" means a request to the Unix socket `node.sock` in the server's directory. The
operator may also do all that an administrator may. An error is an object with `error`, a sentence that says what to do,
and `outcome`: `no` when nothing was changed, `unknown` when the change may have been made. With `leader` in an error,
only that server takes the request.
"""
    ]
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            parts.append(_section(method.upper(), path, operation))
    parts.append("## Answers other than 200\n")
    statuses = {
        status: answer["description"]
        for methods in document["paths"].values()
        for operation in methods.values()
        for status, answer in operation["responses"].items()
        if status != "200"
    }
    parts.append(table(("status", "meaning"), [(status, cell(text)) for status, text in sorted(statuses.items())]))
    return "\n".join(parts)


def _roles() -> dict[tuple[str, str], str]:
    """Return who may send each request, by method and path, from the routes of the code.

    The interface for other machines lets viewers ask, and only administrators change.
    """
    nothing = cast("Any", None)
    each = api.Api(nothing, dict, nothing)
    found: dict[tuple[str, str], str] = {}
    for route in (*each.local_routes, each.newcomer_route):
        if route in each.remote_routes:
            role = "administrator, viewer" if route.method == "GET" else "administrator"
        else:
            role = _NEWCOMER if route is each.newcomer_route else _LOCAL
        found[_key(route)] = role
    return found


def _key(route: web.RouteDef) -> tuple[str, str]:
    return route.method, route.path


def _summary(document: Any, method: str, path: str) -> str:
    """Return what a request does: from the document, or from the list in the module's docstring."""
    operation = document["paths"].get(path, {}).get(method.lower())
    if operation is not None:
        return str(operation["summary"])
    line = re.search(
        rf"^\s*{method}\s+{re.escape(path)}\s+(.+(?:\n {{10,}}.+)*)", inspect.getdoc(api) or "", re.MULTILINE
    )
    if line is None:
        raise ValueError(f"{method} {path} is missing in the docstring of {api.__name__}")
    return re.sub(r"^\{\}\s+->\s+|\s*\([\w/.]+\)$", "", " ".join(line[1].split()))


def _section(method: str, path: str, operation: Any) -> str:
    summary = operation["summary"]
    lines = [f"## {method} {path}\n\n{cell(summary[0].upper() + summary[1:])}.\n"]
    if parameters := operation.get("parameters"):
        rows = [(code(each["name"]), cell(_type(each["schema"])), cell(each["description"])) for each in parameters]
        lines.append(table(("parameter", "type", "meaning"), rows))
    if (body := operation.get("requestBody")) is not None:
        schema = body["content"]["application/json"]["schema"]
        lines.append(f"Body: {code(_shape(schema))}.\n")
    answer = operation["responses"]["200"]["content"]["application/json"]["schema"]
    others = ", ".join(status for status in operation["responses"] if status != "200")
    lines.append(f"Answer: {code(_shape(answer))}. Other answers: {others}.\n")
    return "\n".join(lines)


def _type(schema: Any) -> str:
    kind = {"integer": "whole number", "string": "text"}.get(schema["type"], schema["type"])
    least, most = schema.get("minimum"), schema.get("maximum")
    text = "one of " + ", ".join(code(each) for each in schema["enum"]) if "enum" in schema else kind
    if least is not None and most is not None:
        text += f", {number(least)} to {number(most)}"
    elif least is not None:
        text += f", from {number(least)} on"
    return text + (f"; without: {schema['default']:g}" if "default" in schema else "")


def _shape(schema: Any) -> str:
    """Return the shape of a JSON value in one line."""
    if "$ref" in schema:
        return _shape(openapi.document()["components"]["schemas"][schema["$ref"].rpartition("/")[2]])
    if "anyOf" in schema:
        return " or ".join(_shape(each) for each in schema["anyOf"])
    if "const" in schema:
        return str(schema["const"]).lower()
    if schema.get("type") == "object" and not schema.get("properties") and not schema.get("required"):
        return "{...}"
    kinds = schema.get("type", "object")
    kind = kinds if isinstance(kinds, str) else " or ".join(kinds)
    if kind == "array":
        return f"[{_shape(schema['items'])}, ...]"
    if kind == "object":
        known = schema.get("properties", {})
        names = [*known, *(name for name in schema.get("required", []) if name not in known)]
        inner = [f'"{name}": {_shape(known[name])}' if name in known else f'"{name}": ...' for name in names]
        more = [] if schema.get("additionalProperties") is False or known else ["..."]
        return "{" + ", ".join([*inner, *(more if names else [])]) + "}"
    return str(kind)
