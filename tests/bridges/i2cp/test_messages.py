"""I2CP's bytes: bridges/i2cp/messages.py. The messages of i2pd were recorded from i2pd 2.45.1."""

import struct
import tracemalloc
from collections.abc import Iterable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridges.i2cp.messages import (
    MAX_BODY_BYTES,
    MAX_DATE_MS,
    PROTOCOL_BYTE,
    Decoder,
    Disconnect,
    HostReply,
    MalformedError,
    MessagePayload,
    RequestVariableLeaseSet,
    RouterMessage,
    SessionStatus,
    SetDate,
    Status,
    Unused,
    create_lease_set2,
    create_service_lease_set,
    create_session,
    destroy_session,
    get_date,
    host_lookup,
    read_message,
    send_message,
)
from tests.netdb.strategies import KEYS

LEASE = "8b73a68110cecb8f6ce85727ac247b4eb829a08f082c4cdd6a9831f66a29e027862f0325000001a1ff1b233a"
# A whole session, with a second CreateSession in between; i2pd refuses the second one.
I2PD: list[tuple[str, RouterMessage]] = [
    ("0000000f21000001a1ff11cf8c06302e392e3537", SetDate(1795280719756, "0.9.57")),
    ("0000000314b2b101", SessionStatus(0xB2B1, Status.CREATED)),
    ("0000002f25b2b101" + LEASE, RequestVariableLeaseSet(0xB2B1, bytes.fromhex(LEASE))),
    ("0000000314d2c504", SessionStatus(0xD2C5, Status.REFUSED)),
    ("0000000314d2c500", SessionStatus(0xD2C5, Status.DESTROYED)),
]
# Answers to a probe, to a duplicate, and to a config that a transient key has signed.
I2PD_STATUS: list[tuple[str, RouterMessage]] = [
    ("0000000314ffff00", SessionStatus(0xFFFF, Status.DESTROYED)),
    ("0000000314cb8e03", SessionStatus(0xCB8E, Status.INVALID)),
    ("000000031408eb03", SessionStatus(0x08EB, Status.INVALID)),
]
RECORDED = b"".join(bytes.fromhex(text) for text, _ in I2PD + I2PD_STATUS)
MEANT = [message for _, message in I2PD + I2PD_STATUS]

# Messages, the error's text if any, bytes that wait for the rest of a message.
Outcome = tuple[list[RouterMessage], str | None, int]


def frame(kind: int, body: bytes) -> bytes:
    return struct.pack(">IB", len(body), kind) + body


def outcome(pieces: Iterable[bytes]) -> Outcome:
    decoder = Decoder()
    messages: list[RouterMessage] = []
    failure: str | None = None
    for piece in pieces:
        decoder.feed(piece)
        try:
            while (message := decoder.next()) is not None:
                assert failure is None, "a message after an error"
                messages.append(message)
        except MalformedError as error:
            if str(error) != (failure or str(error)):
                pytest.fail(f"first {failure!r}, then {error!r}")
            failure = str(error)
    return messages, failure, decoder.buffered


def bytewise(data: bytes) -> Iterator[bytes]:
    return (data[position : position + 1] for position in range(len(data)))


def assert_pieces_do_not_matter(data: bytes, cuts: Iterable[int]) -> Outcome:
    whole = outcome([data])
    assert outcome(bytewise(data)) == whole
    for cut in cuts:
        assert outcome([data[:cut], data[cut:]]) == whole, f"cut at {cut}"
    return whole


def whole_frames(data: bytes) -> tuple[int, int]:
    """Count the whole frames, and the bytes behind the last whole frame."""
    count, start = 0, 0
    while start + 5 <= len(data) and (end := start + 5 + int.from_bytes(data[start : start + 4])) <= len(data):
        count, start = count + 1, end
    return count, len(data) - start


# From a router -----------------------------------------------------------------------------------------------------


def test_what_i2pd_says_at_every_split_point() -> None:
    assert assert_pieces_do_not_matter(RECORDED, range(len(RECORDED) + 1)) == (MEANT, None, 0)


strings = st.binary(max_size=255).map(lambda raw: bytes([len(raw)]) + raw)
bodies = st.one_of(
    st.tuples(st.just(33), st.tuples(st.binary(min_size=8, max_size=8), strings).map(b"".join)),
    st.tuples(st.just(20), st.binary(min_size=3, max_size=4)),
    st.tuples(
        st.just(37),
        st.integers(0, 5).flatmap(lambda n: st.binary(min_size=44 * n, max_size=44 * n).map(bytes([1, 2, n]).__add__)),
    ),
    st.tuples(st.just(30), strings),
    st.tuples(st.integers(0, 255), st.binary(max_size=60)),
)
streams = st.one_of(
    st.binary(max_size=100),
    st.lists(bodies, max_size=4).map(lambda found: b"".join(frame(*each) for each in found)),
)


@given(streams, st.data())
def test_any_bytes_in_any_pieces_give_the_same_messages_or_the_same_error(data: bytes, draw: st.DataObject) -> None:
    cuts = draw.draw(st.lists(st.integers(0, len(data)), max_size=5))
    messages, error, buffered = assert_pieces_do_not_matter(data, cuts)
    count, rest = whole_frames(data)
    if error is None:
        assert (len(messages), buffered) == (count, rest)
    else:
        assert len(messages) <= count


@given(st.integers(0, 255), st.binary(max_size=200))
def test_any_body_is_read_or_refused(kind: int, body: bytes) -> None:
    ours = kind in {20, 30, 31, 33, 37, 39}
    try:
        message = read_message(kind, body)
    except MalformedError:
        assert ours
    else:
        assert isinstance(message, Unused) is not ours


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (33, bytes(7)),
        (33, bytes(8) + b"\x030."),
        (20, bytes(2)),
        (37, bytes(2)),
        (37, b"\0\1\2" + bytes(44)),
        (30, b"\x05quit"),
        (39, bytes(6)),
        (39, bytes(7) + bytes(386)),
        (39, bytes(7) + bytes(385) + b"\0\4abc"),
    ],
    ids=["date", "version", "status", "request", "leases", "reason", "reply", "destination", "certificate"],
)
def test_a_message_that_ends_too_early_is_an_error(kind: int, body: bytes) -> None:
    with pytest.raises(MalformedError, match=f"type {kind} ends after {len(body)} bytes"):
        read_message(kind, body)


def test_a_newer_router_may_say_more() -> None:
    assert read_message(20, b"\0\1\1new") == SessionStatus(1, Status.CREATED)
    assert read_message(33, bytes(8) + b"\x03abcnew") == SetDate(0, "abc")


def test_an_older_router_may_say_less() -> None:
    assert read_message(33, bytes(8)) == SetDate(0, "")
    assert read_message(30, b"") == Disconnect("")


def test_messages_for_clients_with_traffic_are_passed_over() -> None:
    message_status = struct.pack(">HIBII", 1, 2, 22, 0, 3)
    assert outcome([frame(22, message_status) + frame(23, bytes(30_000)) + frame(99, b"")]) == (
        [Unused(22), Unused(23), Unused(99)],
        None,
        0,
    )


def test_a_reason_cannot_write_into_the_log() -> None:
    raw = "Invalid\n\x1b[31mleaseset\u202e\xff".encode() + b"\xff"
    message = read_message(30, bytes([len(raw)]) + raw)
    assert message == Disconnect("Invalid??[31mleaseset?ÿ\ufffd")


def test_the_largest_frame_is_taken_and_a_larger_one_refused_by_its_header() -> None:
    assert outcome([frame(23, bytes(MAX_BODY_BYTES))]) == ([Unused(23)], None, 0)
    for length in (MAX_BODY_BYTES + 1, 2**32 - 1):
        messages, error, _ = outcome([struct.pack(">IB", length, 31)])
        assert messages == []
        assert error == (
            f"the router announces a message of {length} bytes, and an I2CP message has at most {MAX_BODY_BYTES}: "
            "check that the port is I2CP's"
        )


def test_a_large_announcement_allocates_nothing() -> None:
    decoder = Decoder()
    decoder.feed(struct.pack(">IB", MAX_BODY_BYTES, 31))
    tracemalloc.start()
    try:
        assert decoder.next() is None
        assert tracemalloc.get_traced_memory()[1] < 4096
    finally:
        tracemalloc.stop()


def test_a_web_server_is_no_router() -> None:
    messages, error, _ = outcome([b"HTTP/1.1 400 Bad Request\r\n\r\n"])
    assert messages == []
    assert error is not None
    assert "check that the port is I2CP's" in error


def test_answers_to_look_ups() -> None:
    head = bytes.fromhex("ffff 00000007")
    assert read_message(39, head + b"\1") == HostReply(7, 1, None)
    destination = KEYS.destination
    assert read_message(39, head + b"\0" + destination.data) == HostReply(7, 0, destination.data)
    unknown = bytes(384) + b"\5\0\6" + b"\0\x63\0\x63\1\2"
    options = b"\0\0"
    found = read_message(39, head + b"\0" + unknown + options)
    assert found == HostReply(7, 0, unknown), "the router knows keys that we do not"


# To a router -------------------------------------------------------------------------------------------------------


def test_what_we_say_byte_for_byte() -> None:
    assert PROTOCOL_BYTE == b"\x2a"
    assert get_date("0.9.57") == bytes.fromhex("0000000720 06302e392e3537")
    assert create_session(b"config") == bytes.fromhex("0000000601") + b"config"
    assert destroy_session(0xFFFF) == bytes.fromhex("0000000203 ffff")
    looked_for = bytes(range(32))
    assert host_lookup(7, looked_for, milliseconds=45_000) == (
        bytes.fromhex("0000002b26 ffff 00000007 0000afc8 00") + looked_for
    )


def test_a_login_is_a_sorted_mapping() -> None:
    assert get_date("1", ("user", "word")) == frame(
        32, b"\x011" + struct.pack(">H", 42) + b"\x0di2cp.password=\x04word;\x0di2cp.username=\x04user;"
    )


def test_a_lease_set_is_framed_for_the_router_that_gets_it() -> None:
    assert create_lease_set2(0xB2B1, b"SET", key_count=True) == bytes.fromhex("0000000729 b2b1 07") + b"SET\0"
    assert create_lease_set2(0xB2B1, b"SET", key_count=False) == bytes.fromhex("0000000629 b2b1 07") + b"SET"


# With traffic ------------------------------------------------------------------------------------------------------


def test_a_payload_is_taken_out_of_its_message() -> None:
    body = struct.pack(">HII", 0xB2B1, 7, 4) + b"data"
    assert outcome([frame(31, body)]) == ([MessagePayload(0xB2B1, b"data")], None, 0)
    for end in range(len(body)):
        with pytest.raises(MalformedError, match="type 31 ends"):
            read_message(31, body[:end])


def test_a_message_to_a_destination_byte_for_byte() -> None:
    sent = send_message(0xB2B1, b"DESTINATION", b"data", 0x0102030405_06)
    tail = bytes(4) + bytes(2) + bytes([1, 2, 3, 4, 5, 6])  # nonce, flags, expiration
    assert sent == frame(36, b"\xb2\xb1DESTINATION\0\0\0\4data" + tail)


def test_a_service_s_lease_set_brings_its_private_keys_along() -> None:
    given = create_service_lease_set(0xB2B1, b"SET", [(4, b"k" * 32), (0, b"old")])
    assert given == frame(41, b"\xb2\xb1\3SET\2" + b"\0\4\0\x20" + b"k" * 32 + b"\0\0\0\3old")


def test_a_date_that_no_lease_set_can_hold_is_refused() -> None:
    """Before, the next message to the router failed: its field for a date has six bytes."""
    latest = MAX_DATE_MS.to_bytes(8, "big")
    assert read_message(33, latest) == SetDate(MAX_DATE_MS, "")
    assert send_message(1, b"", b"", MAX_DATE_MS + 60_000)
    for date_ms in (MAX_DATE_MS + 1, 2**48, 2**64 - 1):
        with pytest.raises(MalformedError, match="date"):
            read_message(33, date_ms.to_bytes(8, "big"))
