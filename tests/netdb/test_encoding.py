"""I2P's base64 and base32."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gf_i2p.netdb.encoding import from_b32_address, from_base64, to_b32_address, to_base64
from gf_i2p.netdb.errors import StructureError


@given(st.binary(max_size=100))
def test_base64_round_trips_and_differs_from_the_standard_in_two_characters(data: bytes) -> None:
    text = to_base64(data)
    assert text == base64.b64encode(data).decode().replace("+", "-").replace("/", "~")
    assert from_base64(text, 100) == data
    assert from_base64(text.rstrip("="), 100) == data


@pytest.mark.parametrize("text", ["a", "ab+c", "ab/c", "ab c", "ab\nc", "abc\u00fc", "=abc", "ab=c", "abcd====", "ab"])
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(StructureError):
        from_base64(text, 100)


def test_a_base64_text_is_measured_before_it_is_decoded() -> None:
    assert from_base64("AAAA" * 2, 6) == bytes(6)
    with pytest.raises(StructureError, match="longer than 6 bytes need"):
        from_base64("AAAA" * 3, 6)


@given(st.binary(min_size=32, max_size=32))
def test_addresses_round_trip(hash_: bytes) -> None:
    address = to_b32_address(hash_)
    assert len(address) == 52 + len(".b32.i2p")
    assert address == address.lower()
    assert from_b32_address(address) == hash_
    assert from_b32_address(address.upper()) == hash_


@pytest.mark.parametrize(
    "address",
    [
        "",
        "a" * 52,
        "a" * 52 + ".i2p",
        "a" * 51 + ".b32.i2p",
        "a" * 56 + ".b32.i2p",  # of an encrypted lease set
        "1" + "a" * 51 + ".b32.i2p",
        "\u00fc" + "a" * 51 + ".b32.i2p",
        "a" * 51 + "b.b32.i2p",  # bits beyond the 32nd byte
        "example.i2p",
    ],
)
def test_other_addresses_are_refused(address: str) -> None:
    with pytest.raises(StructureError, match="is no b32 address"):
        from_b32_address(address)
