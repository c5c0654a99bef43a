"""Text that the bridge takes for JSON, and text that the bridge refuses."""

import contextlib
import json
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bridges.i2pcontrol.strict_json import MAX_DEPTH, MAX_DIGITS, JsonError, clip, parse_object
from tests.tier import examples

SCALARS = st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    SCALARS | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=8
)  # so few leaves are nested less than MAX_DEPTH deep


@settings(max_examples=examples(50))
@given(st.dictionaries(st.text(), VALUES))
def test_what_json_writes_is_read_back(value: dict[str, object]) -> None:
    assert parse_object(json.dumps(value, ensure_ascii=False).encode()) == value


@given(st.binary(max_size=60) | st.text(alphabet='{}[]":,\\1e.-+nul', max_size=60).map(str.encode))
def test_no_bytes_raise_anything_else(data: bytes) -> None:
    with contextlib.suppress(JsonError):
        parse_object(data)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "Expecting value"),
        (b'{"id":1,"result":{,"I2PTunnel":{}}}', "property name"),
        (b'{"a":1} x', "Extra data"),
        (b"[]", "no object"),
        (b'{"a":1,"b":{"c":1,"c":2}}', "'c' comes twice in one object"),
        (b'{"a":"\xff"}', "no UTF-8"),
        (b'\xff\xfe{\x00"\x00', "no UTF-8"),
        (b'{"a":NaN}', "NaN"),
        (b'{"a":-Infinity}', "Infinity"),
        (b'{"a":1e999}', "too large"),
        (b'{"a":' + b"9" * (MAX_DIGITS + 1) + b"}", "digits"),
        (b'{"a":0.' + b"9" * MAX_DIGITS + b"}", "digits"),
        (b'{"a":' * (MAX_DEPTH + 1) + b"1" + b"}" * (MAX_DEPTH + 1), "nested"),
        (b'{"a":' + b"[" * 50_000, "nested"),
    ],
)
def test_refused(data: bytes, why: str) -> None:
    with pytest.raises(JsonError, match=why):
        parse_object(data)


def test_limits_are_reached() -> None:
    assert parse_object(b'{"a":' * MAX_DEPTH + b"1" + b"}" * MAX_DEPTH)
    assert parse_object(b'{"a":' + b"9" * MAX_DIGITS + b"}") == {"a": int("9" * MAX_DIGITS)}


def test_brackets_in_texts_are_no_depth() -> None:
    text = '\\"' + "[{" * MAX_DEPTH
    assert parse_object(json.dumps({text: text}).encode()) == {text: text}


def test_foreign_texts_are_short_and_harmless() -> None:
    assert clip("\x1b[31m\n") == "'\\x1b[31m\\n'"
    assert len(clip("x" * 1000)) < 130


def test_a_name_that_comes_twice_costs_no_quadratic_time() -> None:
    names = b",".join(b'"%x":0' % number for number in range(6000))
    began = time.process_time()
    with pytest.raises(JsonError, match="the name 'z' comes twice"):
        parse_object(b'{%b,"z":0,"z":1}' % names)
    assert time.process_time() - began < 0.7  # 0.01; comparing each name with each other name took 1.4 s
