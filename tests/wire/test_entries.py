"""Log entries: gf_i2p/wire/entries.py."""

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gf_i2p.wire.entries import ENTRY_HEADER_BYTES, Entry, ValueType, decode_entries, encode_entries
from gf_i2p.wire.errors import LocalProtocolError, RemoteProtocolError
from gf_i2p.wire.limits import MAX_ENTRIES, MAX_ENTRIES_BYTES, MAX_INTEGER, MAX_VALUE_BYTES
from tests.wire import strategies

APPLICATION = ValueType.APPLICATION
EMPTY = Entry(0, APPLICATION, b"")


def header(term: int, value_type: int, size: int) -> bytes:
    return term.to_bytes(8, "big") + bytes([value_type]) + size.to_bytes(4, "big")


def test_layout_is_term_type_size_value() -> None:
    encoded = encode_entries([Entry(0x0102030405060708, ValueType.CONFIGURATION, b"abc")])
    assert encoded == bytes.fromhex("0102030405060708 02 00000003 616263")
    assert len(encoded) == ENTRY_HEADER_BYTES + 3


@given(strategies.entries_of(*ValueType))
def test_round_trip(entries: tuple[Entry, ...]) -> None:
    decoded = decode_entries(encode_entries(entries))
    assert decoded == entries
    assert all(type(entry) is Entry and type(entry.value_type) is ValueType for entry in decoded)


@given(st.one_of(st.binary(max_size=80), strategies.mutated(strategies.encoded_entries)))
def test_any_bytes_are_entries_or_refused(data: bytes) -> None:
    try:
        entries = decode_entries(data)
    except RemoteProtocolError:
        return
    assert encode_entries(entries) == data


@given(strategies.entries_of(*ValueType), st.binary(max_size=20), st.binary(max_size=20))
def test_only_the_given_range_is_read(entries: tuple[Entry, ...], before: bytes, after: bytes) -> None:
    data = encode_entries(entries)
    assert decode_entries(before + data + after, len(before), len(before) + len(data)) == entries


def test_a_range_that_ends_inside_an_entry_is_refused_although_the_bytes_go_on() -> None:
    data = encode_entries([Entry(1, APPLICATION, b"abcd")]) * 2
    for end in (1, ENTRY_HEADER_BYTES - 1, ENTRY_HEADER_BYTES, ENTRY_HEADER_BYTES + 3, ENTRY_HEADER_BYTES + 5):
        with pytest.raises(RemoteProtocolError, match="end inside an entry"):
            decode_entries(data, 0, end)


@pytest.mark.parametrize("value_type", [0, 6, 255])
def test_value_types_outside_1_to_5_are_refused(value_type: int) -> None:
    with pytest.raises(RemoteProtocolError, match=f"type {value_type};"):
        decode_entries(header(1, value_type, 0))
    with pytest.raises(LocalProtocolError, match=f"type {value_type};"):
        encode_entries([Entry(1, value_type, b"")])  # type: ignore[arg-type]


def test_terms_end_at_the_highest_signed_number() -> None:
    highest = (Entry(MAX_INTEGER, APPLICATION, b""),)
    assert decode_entries(encode_entries(highest)) == highest
    with pytest.raises(RemoteProtocolError, match="term"):
        decode_entries(header(MAX_INTEGER + 1, 1, 0))
    for term in (-1, MAX_INTEGER + 1, 2**64):
        with pytest.raises(LocalProtocolError, match="term"):
            encode_entries([Entry(term, APPLICATION, b"")])


def test_replicated_values_end_at_their_limit_and_carriers_go_beyond() -> None:
    largest = (Entry(1, APPLICATION, bytes(MAX_VALUE_BYTES)),)
    assert decode_entries(encode_entries(largest)) == largest
    larger = bytes(MAX_VALUE_BYTES + 1)
    for value_type in (APPLICATION, ValueType.CONFIGURATION, ValueType.CLUSTER_SERVER):
        with pytest.raises(RemoteProtocolError, match="the limit is 1048576"):
            decode_entries(header(1, value_type, len(larger)) + larger)
        with pytest.raises(LocalProtocolError, match="the limit is 1048576"):
            encode_entries([Entry(1, value_type, larger)])
    for value_type in (ValueType.LOG_PACK, ValueType.SNAPSHOT_SYNC_REQUEST):
        carrier = (Entry(1, value_type, larger),)
        assert decode_entries(encode_entries(carrier)) == carrier


def test_as_many_entries_as_allowed_and_not_one_more() -> None:
    data = encode_entries([EMPTY] * MAX_ENTRIES)
    assert len(decode_entries(data)) == MAX_ENTRIES
    with pytest.raises(RemoteProtocolError, match=f"more than {MAX_ENTRIES}"):
        decode_entries(data + header(0, 1, 0))
    with pytest.raises(LocalProtocolError, match="do not fit into one request"):
        encode_entries([EMPTY] * (MAX_ENTRIES + 1))


def test_entries_larger_than_a_request_are_not_sent() -> None:
    entry = Entry(1, APPLICATION, bytes(MAX_VALUE_BYTES - ENTRY_HEADER_BYTES))
    assert len(encode_entries([entry] * 16)) == MAX_ENTRIES_BYTES
    with pytest.raises(LocalProtocolError, match="do not fit into one request"):
        encode_entries([entry] * 16 + [EMPTY])


def test_the_smallest_entries_in_the_largest_request_do_not_fill_the_memory() -> None:
    data = header(0, 1, 0) * (MAX_ENTRIES_BYTES // ENTRY_HEADER_BYTES)
    tracemalloc.start()
    try:
        with pytest.raises(RemoteProtocolError):
            decode_entries(data)
        assert tracemalloc.get_traced_memory()[1] < 8 * 2**20
    finally:
        tracemalloc.stop()
