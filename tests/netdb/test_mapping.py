"""Mappings: the options of I2P's structures."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gf_i2p.netdb.byte_reader import Reader
from gf_i2p.netdb.errors import LimitError, StructureError
from gf_i2p.netdb.mapping import encode_mapping, read_mapping
from tests.netdb.strategies import mappings


def read(data: bytes) -> dict[str, str]:
    reader = Reader(data, "a test")
    pairs = read_mapping(reader)
    reader.finish()
    return pairs


@given(mappings)
def test_they_round_trip_sorted(pairs: dict[str, str]) -> None:
    data = encode_mapping(pairs)
    assert read(data) == pairs
    assert list(read(data)) == sorted(pairs)
    assert encode_mapping(dict(reversed(pairs.items()))) == data, "whatever the order was"


def test_the_bytes() -> None:
    assert encode_mapping({}) == b"\x00\x00"
    assert encode_mapping({"b": "", "a": "xy"}) == b"\x00\x0c\x01a=\x02xy;\x01b=\x00;"


@pytest.mark.parametrize("text", ["\u00fc", "a;b", "\n", "x" * 256])
def test_texts_that_some_parser_stumbles_over_are_not_written(text: str) -> None:
    for pairs in ({text: "x"}, {"x": text}):
        with pytest.raises(LimitError, match="is not allowed in options"):
            encode_mapping(pairs)


def test_base64_can_be_a_value_but_no_key() -> None:
    assert read(encode_mapping({"a": "eA=="})) == {"a": "eA=="}
    with pytest.raises(LimitError, match="without = and ;"):
        encode_mapping({"eA==": "a"})


def test_too_many_are_refused() -> None:
    many = {f"{number:03}": "x" * 250 for number in range(9)}
    with pytest.raises(LimitError, match="are more than the"):
        encode_mapping(many)
    with pytest.raises(StructureError, match="are more than the"):
        read(b"\xff\xff" + bytes(65_535))


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"\x01b=\x00;\x01a=\x00;", "ascending"),
        (b"\x01a=\x00;\x01a=\x00;", "twice"),
        (b"\x01a:\x00;", "lacks a '='"),
        (b"\x01a=\x00,", "lacks a ';'"),
        (b"\x01\xff=\x00;", "not UTF-8"),
        (b"\x05a=\x00;", "ends"),
        (b"\x01a=\x00", "ends"),
    ],
)
def test_bytes_that_java_would_write_otherwise_are_refused(body: bytes, expected: str) -> None:
    with pytest.raises(StructureError, match=expected):
        read(len(body).to_bytes(2, "big") + body)


@given(st.binary(max_size=200))
def test_any_bytes_give_options_or_the_documented_error(data: bytes) -> None:
    try:
        pairs = read(data)
    except StructureError:
        return
    texts = [text for pair in pairs.items() for text in pair]
    if "=" not in "".join(pairs) and all(t.isascii() and t.isprintable() and ";" not in t for t in texts):
        assert encode_mapping(pairs) == data
