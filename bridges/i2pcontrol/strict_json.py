"""Reads one JSON object from a router or a caller, within limits."""

import json
import math
from typing import Any, Final, NoReturn, TypeAlias

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"

MAX_DEPTH: Final = 16
"""Most lists and objects inside each other. i2pcontrol's deepest answer, a SAM session's sockets, has six."""
MAX_DIGITS: Final = 32
"""Most digits of a number: longer numbers cost time, and no count of a router has so many digits."""


class JsonError(ValueError):
    """The text is refused; `str()` gives the reason as a clause that can follow "because"."""


class NoObjectError(JsonError):
    """The text is JSON, but not an object."""


def parse_object(data: bytes) -> dict[str, Json]:
    """Read UTF-8 that is one JSON object. Raises `JsonError`.

    Refused are texts that are not JSON, a name that comes twice in one object, NaN and infinities, numbers that are too
    long, and nesting that is too deep.
    """
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise JsonError("it is no UTF-8") from error
    _check_depth(text)
    try:
        value = json.loads(
            text,
            object_pairs_hook=_parse_object,
            parse_int=_parse_whole,
            parse_float=_parse_fraction,
            parse_constant=_refuse_constant,
        )
    except json.JSONDecodeError as error:
        raise JsonError(f"{error.msg} at character {error.pos}") from error
    if not isinstance(value, dict):
        raise NoObjectError("the JSON value is no object")
    return value


def clip(text: str, limit: int = 120) -> str:
    """Quote a foreign text for a message: control characters escaped, and cut to `limit` characters."""
    return repr(text if len(text) <= limit else text[:limit] + "…")


def _check_depth(text: str) -> None:
    """Raise for deep nesting, before the parser recurses."""
    depth = 0
    inside = escaped = False
    for character in text:
        if inside:
            if escaped:
                escaped = False
            elif character == "\\":
                escaped = True
            elif character == '"':
                inside = False
        elif character == '"':
            inside = True
        elif character in "[{":
            depth += 1
            if depth > MAX_DEPTH:
                raise JsonError(f"it is nested more than {MAX_DEPTH} deep")
        elif character in "]}":
            depth -= 1


def _parse_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        names: set[str] = set()
        for name, _ in pairs:
            if name in names:
                raise JsonError(f"the name {clip(name)} comes twice in one object")
            names.add(name)
    return result


def _parse_whole(digits: str) -> int:
    _check_digits(digits)
    return int(digits)


def _parse_fraction(digits: str) -> float:
    _check_digits(digits)
    number = float(digits)
    if not math.isfinite(number):
        raise JsonError("a number in it is too large")
    return number


def _check_digits(digits: str) -> None:
    if len(digits) > MAX_DIGITS:
        raise JsonError(f"a number in it has more than {MAX_DIGITS} digits")


def _refuse_constant(name: str) -> NoReturn:
    raise JsonError(f"{name} is no number")
