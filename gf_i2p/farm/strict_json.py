"""JSON from the log, read the same way on every server: with limits and type checks."""

import json
import math
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final, NoReturn

from gf_i2p.netdb.encoding import HASH_BYTES, from_base64
from gf_i2p.netdb.errors import NetDbError

MAX_DIGITS: Final = 32
"""Most digits of a number. Python's own limit depends on its environment."""
MAX_DATE_MS: Final = 2**53 - 1
"""The greatest whole number that every JSON reader holds exactly."""


class RecordError(ValueError):
    """The bytes are not the expected value; `str()` says why."""


def decode_object(data: bytes, what: str, *, max_bytes: int, max_openings: int) -> dict[str, Any]:
    """Read a JSON object in UTF-8. Raises `RecordError`.

    `what` names the value in the error, as in "a status record". `max_openings` limits the lists and objects, and so
    the depth. Without this limit one server could read a value that another server cannot read: a JSON parser's depth
    depends on its caller.
    """
    check_limits(data, what, max_bytes=max_bytes, max_openings=max_openings)
    try:
        return _decode(data)
    except RecordError:
        raise
    except ValueError as error:
        raise RecordError(f"{what} is a JSON object in UTF-8") from error


def check_limits(data: bytes, what: str, *, max_bytes: int, max_openings: int) -> None:
    """Raise `RecordError` for a text over these limits, see `decode_object`."""
    if len(data) > max_bytes:
        raise RecordError(f"{what} has up to {max_bytes} bytes, not {len(data)}")
    if data.count(b"{") + data.count(b"[") > max_openings:
        raise RecordError(f"{what} has up to {max_openings} lists and objects")


def an_object(value: object, what: str) -> dict[str, Any]:
    """Return `value`, a JSON object. Raises `RecordError` for any other value; `what` names the value in the error."""
    if not isinstance(value, dict):
        raise RecordError(f"{what} is an object")
    return value


def a_list(fields: Mapping[str, Any], name: str, limit: int) -> list[Any]:
    """Return the field `name`: a list of up to `limit` items; empty if the field is missing. Raises `RecordError`."""
    value = fields.get(name, [])
    if not isinstance(value, list) or len(value) > limit:
        raise RecordError(f"{name} is a list of up to {limit}")
    return value


def text(fields: Mapping[str, Any], name: str) -> str:
    """Return the field `name`, a text. Raises `RecordError` if the field is missing or no text."""
    value = fields.get(name)
    if not isinstance(value, str):
        raise RecordError(f"{name} is a text")
    return value


def text_or_none(fields: Mapping[str, Any], name: str) -> str | None:
    """Return the field `name`, a text; None if the field is missing or null. Raises `RecordError` for another value."""
    return None if fields.get(name) is None else text(fields, name)


def integer(fields: Mapping[str, Any], name: str, high: int) -> int:
    """Return the field `name`, a whole number from 0 to `high`. Raises `RecordError`, also for a missing field."""
    value = fields.get(name)
    if type(value) is not int or not 0 <= value <= high:
        raise integer_error(name, high)
    return value


def integer_or_none(fields: Mapping[str, Any], name: str, high: int = MAX_DATE_MS) -> int | None:
    """Return the field `name`, a whole number from 0 to `high`; None if missing or null. Raises `RecordError`."""
    value = fields.get(name)
    if value is None:
        return None
    if type(value) is not int or not 0 <= value <= high:
        raise integer_error(name, high)
    return value


def integer_error(name: str, high: int) -> RecordError:
    """Return the error for a field `name` that is no whole number from 0 to `high`."""
    return RecordError(f"{name} is a whole number from 0 to {high}")


def flag(fields: Mapping[str, Any], name: str) -> bool:
    """Return the field `name`, true or false. Raises `RecordError` if the field is missing or another value."""
    value = fields.get(name)
    if type(value) is not bool:
        raise RecordError(f"{name} is true or false")
    return value


def a_hash(value: object, what: str) -> bytes:
    """Return the 32 bytes that `value` tells, a text in I2P's base64. Raises `RecordError`; `what` names the value."""
    if not isinstance(value, str):
        raise RecordError(f"{what} is a text")
    try:
        digest = _decoded(value)
    except NetDbError as error:
        raise RecordError(f"{what}: {error}") from error
    if len(digest) != HASH_BYTES:
        raise RecordError(f"{what} has {HASH_BYTES} bytes, not {len(digest)}")
    return digest


@lru_cache(maxsize=8192)  # the same few texts come again in each record
def _decoded(text: str) -> bytes:
    return from_base64(text, HASH_BYTES)  # raises for a longer text, which is not cached


def unknown_fields(fields: Mapping[str, Any], known_names: frozenset[str]) -> dict[str, Any]:
    """Return the fields that this version does not know, to pass them on."""
    if fields.keys() <= known_names:
        return {}
    return {name: value for name, value in fields.items() if name not in known_names}


def without_none(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields whose values are not None."""
    return {name: value for name, value in fields.items() if value is not None}


def _no_number(name: str) -> NoReturn:
    raise RecordError(f"{name} is no number in JSON")


# This decoder calls no Python for a number. With hooks for numbers, a text full of zeros takes four times as long.
_JSON: Final = json.JSONDecoder(parse_constant=_no_number)
_SPACE: Final = " \t\n\r"
_SHAPES: Final = bytes.maketrans(b"123456789E", b"000000000e")
_LONG: Final = b"0" * MAX_DIGITS
_LARGE: Final = (b"0e000", b"0e+000")
"""Exponents that may be too large, in the shape that `_SHAPES` makes: each digit is 0. A number of up to `MAX_DIGITS`
digits with a shorter exponent is surely finite."""
# The closing quote may be missing: otherwise a text of quotes without an end would cost the square of its length.
_STRINGS: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
_RUNS: Final = re.compile(_LONG + rb"0*+")
_REST: Final = re.compile(rb"[-+.0-9eE]*+")
_LARGE_EXPONENTS: Final = re.compile(rb"(?<![-+.0-9eE])[-.0-9]++[eE]\+?[0-9]{3,}")


def _decode(data: bytes) -> dict[str, Any]:
    """Decode the JSON text of an object, in one pass. Raises `ValueError`, of which `RecordError` is one kind."""
    text = data.decode("utf-8")
    shapes = data.translate(_SHAPES)
    if _LONG in shapes or _LARGE[0] in shapes or _LARGE[1] in shapes:
        _check_numbers(_STRINGS.sub(b"", data))  # most often a string looks like such a number
    start = 0 if text.startswith("{") else len(text) - len(text.lstrip(_SPACE))
    if not text.startswith("{", start):
        raise ValueError("no object")
    value, end = _JSON.raw_decode(text, start)
    if end != len(text) and text[end:].strip(_SPACE):
        raise ValueError("more text after the object")
    assert isinstance(value, dict)
    return value


def _check_numbers(text: bytes) -> None:
    """Check the numbers in a JSON text from which all strings were removed.

    Raises `RecordError` for a number with too many digits, and for a number that is too large for a float. Raises
    another `ValueError` for a malformed number.
    """
    shapes = text.translate(_SHAPES)
    for run in _RUNS.finditer(shapes):
        start, end = run.span()
        if shapes[start - 1 : start] in {b".", b"e", b"+"}:
            continue  # a fraction, or an exponent with leading zeros: those are judged below
        if shapes[start - 1 : start] == b"-":
            start -= 1
        if shapes[end : end + 1] not in {b".", b"e"}:
            if end - start > MAX_DIGITS and shapes[start - 1 : start] != b"e":
                raise RecordError(f"a number has up to {MAX_DIGITS} digits")
        elif (rest := _REST.match(text, start)) is not None and math.isinf(float(rest[0])):
            raise RecordError("a number is too large")
    if (_LARGE[0] in shapes or _LARGE[1] in shapes) and any(
        map(math.isinf, map(float, _LARGE_EXPONENTS.findall(text)))
    ):
        raise RecordError("a number is too large")
