"""The 17 messages: gf_i2p/wire/messages.py."""

from dataclasses import replace
from typing import Any, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gf_i2p.wire.entries import Entry, ValueType, encode_entries
from gf_i2p.wire.errors import LocalProtocolError, RemoteProtocolError
from gf_i2p.wire.limits import (
    MAX_ENDPOINT_BYTES,
    MAX_ENTRIES_BYTES,
    MAX_ID,
    MAX_INTEGER,
    MAX_SERVERS,
    MAX_SNAPSHOT_BLOCK_BYTES,
)
from gf_i2p.wire.log_values import ClusterServer, Configuration, LogPack, SnapshotSyncRequest, encode_server_id
from gf_i2p.wire.messages import (
    NOBODY,
    REQUEST_HEADER_BYTES,
    RESPONSE_BYTES,
    RESPONSE_TYPE,
    MessageType,
    Request,
    Response,
    decode_request,
    decode_response,
    encode_request,
    encode_response,
)
from tests.wire import jraft, strategies

MessageT = TypeVar("MessageT", Request, Response)

APPLICATION = Entry(0, ValueType.APPLICATION, b"{}")
CONFIGURATION = Entry(1, ValueType.CONFIGURATION, bytes(16))
SERVER = Entry(0, ValueType.CLUSTER_SERVER, ClusterServer(4, "tcp://localhost:9004").encode())
SERVER_ID = Entry(0, ValueType.CLUSTER_SERVER, encode_server_id(4))
PACK = Entry(0, ValueType.LOG_PACK, LogPack((CONFIGURATION,)).encode())
BLOCK = Entry(0, ValueType.SNAPSHOT_SYNC_REQUEST, bytes(8 + 8 + 3) + b"\x10" + bytes(16 + 8 + 4 + 1))

VOTE = Request(MessageType.REQUEST_VOTE_REQUEST, 1, 2, 5, 4, 99, 0)
APPEND = Request(MessageType.APPEND_ENTRIES_REQUEST, 1, 2, 5, 4, 99, 97)
ANSWER = Response(MessageType.APPEND_ENTRIES_RESPONSE, 2, 1, 5, 103, accepted=True)

LEGAL = {
    MessageType.REQUEST_VOTE_REQUEST: (),
    MessageType.APPEND_ENTRIES_REQUEST: (APPLICATION, CONFIGURATION, SERVER, SERVER_ID, PACK, BLOCK),
    MessageType.CLIENT_REQUEST: (APPLICATION, APPLICATION),
    MessageType.ADD_SERVER_REQUEST: (SERVER,),
    MessageType.REMOVE_SERVER_REQUEST: (SERVER_ID,),
    MessageType.SYNC_LOG_REQUEST: (PACK,),
    MessageType.JOIN_CLUSTER_REQUEST: (CONFIGURATION,),
    MessageType.LEAVE_CLUSTER_REQUEST: (),
    MessageType.INSTALL_SNAPSHOT_REQUEST: (BLOCK,),
}
ILLEGAL = [
    (MessageType.REQUEST_VOTE_REQUEST, (APPLICATION,)),
    (MessageType.CLIENT_REQUEST, (CONFIGURATION,)),
    (MessageType.CLIENT_REQUEST, (APPLICATION, SERVER)),
    (MessageType.ADD_SERVER_REQUEST, ()),
    (MessageType.ADD_SERVER_REQUEST, (SERVER, SERVER)),
    (MessageType.ADD_SERVER_REQUEST, (SERVER_ID,)),
    (MessageType.ADD_SERVER_REQUEST, (CONFIGURATION,)),
    (MessageType.REMOVE_SERVER_REQUEST, ()),
    (MessageType.REMOVE_SERVER_REQUEST, (SERVER,)),
    (MessageType.REMOVE_SERVER_REQUEST, (SERVER_ID._replace(value_type=ValueType.APPLICATION),)),
    (MessageType.SYNC_LOG_REQUEST, ()),
    (MessageType.SYNC_LOG_REQUEST, (PACK, PACK)),
    (MessageType.SYNC_LOG_REQUEST, (APPLICATION,)),
    (MessageType.JOIN_CLUSTER_REQUEST, ()),
    (MessageType.JOIN_CLUSTER_REQUEST, (CONFIGURATION, CONFIGURATION)),
    (MessageType.JOIN_CLUSTER_REQUEST, (SERVER,)),
    (MessageType.LEAVE_CLUSTER_REQUEST, (APPLICATION,)),
    (MessageType.INSTALL_SNAPSHOT_REQUEST, ()),
    (MessageType.INSTALL_SNAPSHOT_REQUEST, (BLOCK, BLOCK)),
    (MessageType.INSTALL_SNAPSHOT_REQUEST, (BLOCK._replace(value_type=ValueType.APPLICATION),)),
]


def raw_request(request_type: int, body: bytes, size: int | None = None) -> bytes:
    """Encode a request that `encode_request` may refuse."""
    size = len(body) if size is None else size
    return bytes([request_type]) + bytes(REQUEST_HEADER_BYTES - 5) + size.to_bytes(4, "big") + body


def with_field(message: MessageT, field: str, number: int) -> MessageT:
    change: dict[str, Any] = {field: number}
    return replace(message, **change)


@jraft.parameters("request")
def test_jraft_requests_round_trip(fields: dict[str, Any], data: bytes) -> None:
    assert decode_request(data) == jraft.request(fields)
    assert encode_request(jraft.request(fields)) == data


@jraft.parameters("response")
def test_jraft_responses_round_trip(fields: dict[str, Any], data: bytes) -> None:
    assert decode_response(data) == jraft.response(fields)
    assert encode_response(jraft.response(fields)) == data


@given(strategies.requests)
def test_every_request_round_trips(request: Request) -> None:
    data = encode_request(request)
    assert len(data) == REQUEST_HEADER_BYTES + len(encode_entries(request.entries))
    decoded = decode_request(data)
    assert decoded == request
    assert type(decoded.type) is MessageType


@given(strategies.responses)
def test_every_response_round_trips(response: Response) -> None:
    data = encode_response(response)
    assert len(data) == RESPONSE_BYTES
    decoded = decode_response(data)
    assert decoded == response
    assert type(decoded.type) is MessageType
    assert type(decoded.accepted) is bool


@given(st.one_of(st.binary(max_size=90), strategies.mutated(strategies.requests.map(encode_request))))
def test_any_bytes_are_a_request_or_refused(data: bytes) -> None:
    try:
        request = decode_request(data)
    except RemoteProtocolError:
        return
    assert encode_request(request) == data


@given(
    st.one_of(
        st.binary(max_size=40),
        st.binary(min_size=RESPONSE_BYTES, max_size=RESPONSE_BYTES),
        strategies.mutated(strategies.responses.map(encode_response)),
    )
)
def test_any_bytes_are_a_response_or_refused(data: bytes) -> None:
    try:
        response = decode_response(data)
    except RemoteProtocolError:
        return
    assert encode_response(response) == data


def test_the_17_types_are_the_requests_and_their_responses() -> None:
    assert sorted(MessageType) == list(range(1, 18))
    pairs = {3: 4, 5: 4, 1: 2, 6: 7, 8: 9, 10: 11, 12: 13, 14: 15, 16: 17}
    assert {int(request): int(response) for request, response in RESPONSE_TYPE.items()} == pairs
    assert NOBODY == 0xFFFFFFFF


@pytest.mark.parametrize("request_type", RESPONSE_TYPE, ids=lambda each: each.name)
def test_legal_entries_of_each_type(request_type: MessageType) -> None:
    request = replace(APPEND, type=request_type, entries=LEGAL[request_type])
    assert decode_request(encode_request(request)) == request


@pytest.mark.parametrize("request_type", [MessageType.APPEND_ENTRIES_REQUEST, MessageType.CLIENT_REQUEST])
def test_heartbeats_and_questions_for_the_leader_have_no_entries(request_type: MessageType) -> None:
    request = replace(APPEND, type=request_type)
    assert decode_request(encode_request(request)) == request


@pytest.mark.parametrize(("request_type", "entries"), ILLEGAL)
def test_entries_that_break_the_shape_rules_are_neither_taken_nor_sent(
    request_type: MessageType, entries: tuple[Entry, ...]
) -> None:
    with pytest.raises(RemoteProtocolError, match=request_type.name):
        decode_request(raw_request(request_type, encode_entries(entries)))
    with pytest.raises(LocalProtocolError, match=request_type.name):
        encode_request(replace(APPEND, type=request_type, entries=entries))


def test_a_value_of_the_largest_legal_size_fits_into_its_request() -> None:
    servers = tuple(ClusterServer(number, "a" * MAX_ENDPOINT_BYTES) for number in range(MAX_SERVERS))
    configuration = Configuration(1, 0, servers)
    block = SnapshotSyncRequest(1, 1, configuration, 0, bytes(MAX_SNAPSHOT_BLOCK_BYTES), done=False)
    for request_type, value_type, value in (
        (MessageType.ADD_SERVER_REQUEST, ValueType.CLUSTER_SERVER, servers[0].encode()),
        (MessageType.JOIN_CLUSTER_REQUEST, ValueType.CONFIGURATION, configuration.encode()),
        (MessageType.INSTALL_SNAPSHOT_REQUEST, ValueType.SNAPSHOT_SYNC_REQUEST, block.encode()),
    ):
        request = replace(APPEND, type=request_type, entries=(Entry(1, value_type, value),))
        data = encode_request(request)
        assert decode_request(data) == request
        body = data[REQUEST_HEADER_BYTES:]
        with pytest.raises(RemoteProtocolError, match="bytes of entries"):
            decode_request(raw_request(request_type, body + b"\0"))


def test_more_entries_than_a_request_may_hold_are_refused_at_the_header() -> None:
    for size in (MAX_ENTRIES_BYTES + 1, 2**32 - 1):
        for kind in (MessageType.APPEND_ENTRIES_REQUEST, MessageType.CLIENT_REQUEST):
            with pytest.raises(RemoteProtocolError, match=f"{size} bytes of entries"):
                decode_request(raw_request(kind, b"", size))


@pytest.mark.parametrize("size", [0, 1, REQUEST_HEADER_BYTES - 1, REQUEST_HEADER_BYTES + 1])
def test_one_request_is_not_less_and_not_more(size: int) -> None:
    with pytest.raises(RemoteProtocolError, match="where one request"):
        decode_request((encode_request(VOTE) * 2)[:size])


@pytest.mark.parametrize("size", [0, 1, RESPONSE_BYTES - 1, RESPONSE_BYTES + 1])
def test_one_response_is_not_less_and_not_more(size: int) -> None:
    with pytest.raises(RemoteProtocolError, match="where one response"):
        decode_response((encode_response(ANSWER) * 2)[:size])


@pytest.mark.parametrize("number", [0, 2, 4, 7, 9, 11, 13, 15, 17, 18, 255])
def test_types_that_are_no_request_are_refused(number: int) -> None:
    data = bytes([number]) + encode_request(VOTE)[1:]
    for piece in (data, data[:1]):
        with pytest.raises(RemoteProtocolError, match=f"type {number} where a request is expected"):
            decode_request(piece)


@pytest.mark.parametrize("number", [0, 1, 3, 5, 6, 8, 10, 12, 14, 16, 18, 255])
def test_types_that_are_no_response_are_refused(number: int) -> None:
    data = bytes([number]) + encode_response(ANSWER)[1:]
    for piece in (data, data[:1]):
        with pytest.raises(RemoteProtocolError, match=f"type {number} where a response is expected"):
            decode_response(piece)


def test_a_request_is_not_sent_as_a_response_nor_the_other_way_round() -> None:
    with pytest.raises(LocalProtocolError, match="where a request is expected"):
        encode_request(replace(VOTE, type=MessageType.REQUEST_VOTE_RESPONSE))
    with pytest.raises(LocalProtocolError, match="where a response is expected"):
        encode_response(replace(ANSWER, type=MessageType.CLIENT_REQUEST))


@pytest.mark.parametrize("field", ["term", "last_log_term", "last_log_index", "commit_index"])
def test_terms_and_indexes_of_requests_end_at_the_highest_signed_number(field: str) -> None:
    highest = with_field(APPEND, field, MAX_INTEGER)
    data = bytearray(encode_request(highest))
    assert decode_request(bytes(data)) == highest
    data[data.index(b"\x7f\xff\xff\xff")] = 0x80
    with pytest.raises(RemoteProtocolError, match="term or index"):
        decode_request(bytes(data))
    for number in (-1, MAX_INTEGER + 1, 2**64):
        with pytest.raises(LocalProtocolError, match=r"range|outside"):
            encode_request(with_field(APPEND, field, number))


@pytest.mark.parametrize("field", ["term", "next_index"])
def test_terms_and_indexes_of_responses_end_at_the_highest_signed_number(field: str) -> None:
    highest = with_field(ANSWER, field, MAX_INTEGER)
    data = bytearray(encode_response(highest))
    assert decode_response(bytes(data)) == highest
    data[data.index(b"\x7f\xff\xff\xff")] = 0x80
    with pytest.raises(RemoteProtocolError, match="term or next index"):
        decode_response(bytes(data))
    for number in (-1, MAX_INTEGER + 1, 2**64):
        with pytest.raises(LocalProtocolError, match=r"range|outside"):
            encode_response(with_field(ANSWER, field, number))


@pytest.mark.parametrize("field", ["source", "destination"])
def test_ids_have_32_bits_and_all_are_legal(field: str) -> None:
    for number in (0, 2**31, MAX_ID):
        request, response = with_field(VOTE, field, number), with_field(ANSWER, field, number)
        assert decode_request(encode_request(request)) == request
        assert decode_response(encode_response(response)) == response
    for number in (-1, MAX_ID + 1):
        with pytest.raises(LocalProtocolError, match="out of range"):
            encode_request(with_field(VOTE, field, number))
        with pytest.raises(LocalProtocolError, match="out of range"):
            encode_response(with_field(ANSWER, field, number))


@pytest.mark.parametrize("byte", [2, 0x80, 0xFF])
def test_an_accepted_byte_other_than_0_and_1_is_no_refusal_but_an_error(byte: int) -> None:
    with pytest.raises(RemoteProtocolError, match=f"accepted byte is {byte}"):
        decode_response(encode_response(ANSWER)[:-1] + bytes([byte]))
