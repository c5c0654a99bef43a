"""Messages out of a stream in pieces: gf_i2p/wire/message_stream.py."""

import struct
import tracemalloc
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import takewhile
from typing import TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gf_i2p.wire import messages
from gf_i2p.wire.entries import Entry, ValueType, read_entries
from gf_i2p.wire.errors import RemoteProtocolError
from gf_i2p.wire.limits import MAX_ENTRIES, MAX_ENTRIES_BYTES, MAX_VALUE_BYTES
from gf_i2p.wire.message_stream import LARGE_BYTES, RequestDecoder, ResponseDecoder
from gf_i2p.wire.messages import (
    REQUEST_HEADER_BYTES,
    MessageType,
    OversizedRequest,
    Request,
    Response,
    decode_request,
    decode_response,
    encode_request,
    encode_response,
)
from tests.wire import jraft, strategies

Decoder: TypeAlias = RequestDecoder | ResponseDecoder
# Messages, the error's text if any, bytes that wait for the rest of a message.
Outcome: TypeAlias = tuple[list[Request | Response], str | None, int]

MIB = 2**20
VALUE = bytes(MIB - 13)
CLIENT = Request(MessageType.CLIENT_REQUEST, 1, 2, 0, 0, 0, 0)
APPEND = Request(MessageType.APPEND_ENTRIES_REQUEST, 1, 2, 5, 4, 99, 97)
LARGEST = Request(
    MessageType.APPEND_ENTRIES_REQUEST, 1, 2, 5, 4, 99, 97, (Entry(1, ValueType.APPLICATION, VALUE),) * 16
)


def encode(message: Request | Response) -> bytes:
    return encode_request(message) if isinstance(message, Request) else encode_response(message)


def outcome(decoder: Decoder, pieces: Iterable[bytes]) -> Outcome:
    messages: list[Request | Response] = []
    failure: str | None = None
    for piece in pieces:
        try:
            found = decoder.feed(piece)
        except RemoteProtocolError as error:
            found = decoder.before_error if failure is None else []
            failure = failure or str(error)
            if str(error) != failure:
                pytest.fail(f"first {failure!r}, then {error!r}")
        messages += found
    return messages, failure, decoder.buffered


def bytewise(data: bytes) -> Iterator[bytes]:
    return (data[position : position + 1] for position in range(len(data)))


def assert_pieces_do_not_matter(make: Callable[[], Decoder], data: bytes, cuts: Iterable[int]) -> Outcome:
    whole = outcome(make(), [data])
    assert outcome(make(), bytewise(data)) == whole
    for cut in cuts:
        assert outcome(make(), [data[:cut], data[cut:]]) == whole, f"cut at {cut}"
    return whole


def test_all_jraft_requests_at_every_split_point() -> None:
    vectors = jraft.messages("request")
    data = b"".join(vectors)
    found = assert_pieces_do_not_matter(RequestDecoder, data, range(len(data) + 1))
    assert found == ([decode_request(vector) for vector in vectors], None, 0)


def test_all_jraft_responses_at_every_split_point() -> None:
    vectors = jraft.messages("response")
    data = b"".join(vectors)
    found = assert_pieces_do_not_matter(ResponseDecoder, data, range(len(data) + 1))
    assert found == ([decode_response(vector) for vector in vectors], None, 0)


def streams(messages: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    whole = st.lists(messages, min_size=1, max_size=4).map(b"".join)
    return st.one_of(st.binary(max_size=100), whole, strategies.mutated(whole))


@given(streams(strategies.requests.map(encode_request)), st.data())
def test_any_bytes_in_any_pieces_give_the_same_requests_or_the_same_error(data: bytes, draw: st.DataObject) -> None:
    messages, error, buffered = assert_pieces_do_not_matter(
        RequestDecoder, data, draw.draw(st.lists(st.integers(0, len(data)), max_size=5))
    )
    whole = list(takewhile(lambda message: not isinstance(message, OversizedRequest), messages))
    taken = b"".join(encode(message) for message in whole)
    assert data.startswith(taken)
    # The entries of an oversized request are dropped, so the bytes behind it are not counted here.
    assert error is not None or len(whole) < len(messages) or len(taken) + buffered == len(data)


def test_the_header_of_a_request_over_the_limit_is_all_that_has_come() -> None:
    """An example that a random test has found."""
    data = struct.pack(">BIIqqqqI", 3, 0, 0, 0, 0, 0, 1, MAX_ENTRIES_BYTES + 1)
    (found,), error, buffered = assert_pieces_do_not_matter(RequestDecoder, data, range(len(data) + 1))
    assert isinstance(found, OversizedRequest)
    assert (error, buffered) == (None, 0)


@given(streams(strategies.responses.map(encode_response)), st.data())
def test_any_bytes_in_any_pieces_give_the_same_responses_or_the_same_error(data: bytes, draw: st.DataObject) -> None:
    messages, error, buffered = assert_pieces_do_not_matter(
        ResponseDecoder, data, draw.draw(st.lists(st.integers(0, len(data)), max_size=5))
    )
    taken = b"".join(encode(message) for message in messages)
    assert data.startswith(taken)
    assert error is not None or len(taken) + buffered == len(data)


def test_entries_that_end_early_give_the_same_error_with_and_without_a_message_behind_them() -> None:
    short = encode_request(APPEND)[:-4] + (5).to_bytes(4, "big") + bytes(5)
    for data in (short, short + encode_request(APPEND), short + bytes(100)):
        found = assert_pieces_do_not_matter(RequestDecoder, data, range(len(data)))
        assert found == ([], "the log entries end inside an entry", 0)


def test_many_messages_in_one_piece_and_the_begin_of_the_next() -> None:
    data = encode_request(APPEND)
    decoder = RequestDecoder()
    assert decoder.feed(data * 100 + data[:44]) == [APPEND] * 100
    assert decoder.buffered == 44
    assert decoder.feed(data[44:] + data) == [APPEND] * 2
    assert decoder.buffered == 0
    assert decoder.feed(b"") == []


def test_a_stranger_is_refused_at_the_first_byte() -> None:
    for decoder in (RequestDecoder(), ResponseDecoder()):
        with pytest.raises(RemoteProtocolError, match="type 71 where"):
            decoder.feed(b"G")


def test_a_bad_header_is_refused_before_its_entries_arrive() -> None:
    header = encode_request(CLIENT)[:-4] + (MAX_ENTRIES_BYTES + 1).to_bytes(4, "big")
    assert len(header) == REQUEST_HEADER_BYTES
    with pytest.raises(RemoteProtocolError, match="bytes of entries"):
        RequestDecoder().feed(header)


def test_of_a_leaders_request_over_the_limit_the_header_comes_at_once_and_the_entries_are_passed_over() -> None:
    size = MAX_ENTRIES_BYTES + 100_000
    header = encode_request(replace(APPEND, entries=()))[:-4] + size.to_bytes(4, "big")
    decoder = RequestDecoder()
    (request,) = decoder.feed(header)
    assert isinstance(request, OversizedRequest)
    assert (request.term, request.source, request.entries) == (APPEND.term, APPEND.source, ())
    assert request.fault == f"a request with {size} bytes of entries; the limit is {MAX_ENTRIES_BYTES}"
    piece = bytes(1 << 16)
    for _ in range(size // len(piece)):
        assert decoder.feed(piece) == []
        assert decoder.buffered == 0, "nothing is kept"
    assert decoder.to_skip == size % len(piece)
    assert decoder.feed(bytes(decoder.to_skip) + encode_request(APPEND)) == [APPEND], "the next request is read"
    assert decoder.to_skip == 0


@pytest.mark.parametrize("cut", [1, REQUEST_HEADER_BYTES, REQUEST_HEADER_BYTES + 20])
def test_a_value_over_the_limit_in_a_leaders_request(cut: int) -> None:
    value = bytes(MAX_VALUE_BYTES + 1)
    body = struct.pack(">qBI", 1, 1, len(value)) + value
    data = encode_request(replace(APPEND, entries=()))[:-4] + struct.pack(">I", len(body)) + body
    decoder = RequestDecoder()
    found = decoder.feed(data[:cut]) + decoder.feed(data[cut:] + encode_request(APPEND))
    assert isinstance(found[0], OversizedRequest)
    assert found[0].fault == f"a log value of {MAX_VALUE_BYTES + 1} bytes; the limit is {MAX_VALUE_BYTES}"
    assert found[1:] == [APPEND]
    client = bytes([MessageType.CLIENT_REQUEST]) + data[1:]
    with pytest.raises(RemoteProtocolError, match="the limit is"):
        RequestDecoder().feed(client)


def large_bodies() -> list[bytes]:
    """Make the entries of requests that are decoded while they arrive: legal ones, and each kind of fault."""
    entry = struct.Struct(">qBI")
    small, zeros = entry.pack(1, 1, 1000) + bytes(1000), bytes(LARGE_BYTES)
    largest = entry.pack(1, 1, MAX_VALUE_BYTES) + bytes(MAX_VALUE_BYTES)
    return [
        small * 300,
        largest + small + largest,
        small * 300 + entry.pack(1, 1, 999) + bytes(998),
        small * 300 + bytes(5),
        small * 300 + entry.pack(1, 9, 0),
        small + entry.pack(-1, 1, 0) + small * 300,
        small + entry.pack(1, 1, MAX_VALUE_BYTES + 1) + bytes(MAX_VALUE_BYTES + 1) + small,
        entry.pack(1, 1, 200) + bytes(200) + (entry.pack(1, 1, 200) + bytes(200)) * MAX_ENTRIES,
        (entry.pack(1, 1, 200) + bytes(200)) * MAX_ENTRIES,
        small * 300 + entry.pack(1, 3, 20) + bytes(20),
        entry.pack(1, 1, 2**32 - 1) + zeros,
    ]


class LittleAtOnce(RequestDecoder):
    """Decodes one request in each step."""

    def feed(self, data: bytes, most: int | None = 1) -> list[Request]:
        found = super().feed(data, most)
        while self.rest:
            try:
                found += super().feed(self.rest, most)
            except RemoteProtocolError:
                self.before_error = found + self.before_error
                raise
        return found


@pytest.mark.parametrize("kind", [MessageType.APPEND_ENTRIES_REQUEST, MessageType.CLIENT_REQUEST])
@pytest.mark.parametrize("number", range(len(large_bodies())))
def test_a_large_request_in_any_pieces_is_what_it_is_in_one(kind: MessageType, number: int) -> None:
    body = large_bodies()[number]
    head = encode_request(replace(CLIENT, type=kind))[:-4] + struct.pack(">I", len(body))
    data = encode_request(CLIENT) + head + body + encode_request(APPEND) * 2 + b"\xff"
    found, error, _ = whole = outcome(RequestDecoder(), [data])
    assert found, "the first"
    assert error is not None, "the last byte is no request"
    for size in (7_001, 65_536, 100_003, LARGE_BYTES, len(data) - 1, len(data) - 200):
        pieces = [data[at : at + size] for at in range(0, len(data), size)]
        assert outcome(RequestDecoder(), pieces) == whole, size
        assert outcome(LittleAtOnce(), pieces) == whole, size


def test_an_unfinished_large_request_counts_with_all_its_bytes() -> None:
    data = encode_request(LARGEST)
    decoder = RequestDecoder()
    taken = 0
    for at in range(0, len(data) - 1, 200_000):
        piece = data[at : at + 200_000][: len(data) - 1 - at]
        assert decoder.feed(piece) == []
        taken += len(piece)
        assert decoder.buffered == taken
    assert decoder.feed(data[-1:] + encode_request(APPEND)) == [LARGEST, APPEND]
    assert decoder.buffered == 0


@given(st.lists(strategies.requests, max_size=8), st.integers(1, 200))
def test_one_call_decodes_no_more_than_it_may_and_loses_nothing(requests: list[Request], most: int) -> None:
    decoder, data = RequestDecoder(), b"".join(map(encode, requests))
    found: list[Request] = []
    rest = data
    while rest:
        begun = len(rest)
        messages = decoder.feed(rest, most)
        rest = decoder.rest
        found += messages
        assert sum(len(encode(message)) for message in messages[:-1]) < most, "the last may begin before the end"
        assert len(rest) < begun
    assert found == requests
    assert decoder.buffered == 0


def test_an_oversized_request_is_skipped_when_a_call_may_decode_little() -> None:
    body = bytes(MAX_ENTRIES_BYTES + 1)
    data = encode_request(replace(APPEND, entries=()))[:-4] + struct.pack(">I", len(body)) + body[:100]
    decoder = RequestDecoder()
    (found,) = decoder.feed(data, 1)
    assert isinstance(found, OversizedRequest)
    assert (decoder.rest, decoder.to_skip) == (b"", len(body) - 100)


def test_too_many_entries_in_a_leaders_request() -> None:
    body = struct.pack(">qBI", 1, 1, 0) * (MAX_ENTRIES + 1)
    data = encode_request(replace(APPEND, entries=()))[:-4] + struct.pack(">I", len(body)) + body
    (found,) = RequestDecoder().feed(data)
    assert isinstance(found, OversizedRequest)
    assert found.fault == f"more than {MAX_ENTRIES} log entries in one request"


def test_a_leaders_request_over_the_limit_that_is_illegal_too_is_refused() -> None:
    bad_type = struct.pack(">qBI", 1, 9, MAX_VALUE_BYTES + 1) + bytes(MAX_VALUE_BYTES + 1)
    for size, term, body in ((len(bad_type), 1, bad_type), (MAX_ENTRIES_BYTES + 1, -1, b"")):
        data = struct.pack(">BIIqqqqI", 3, 1, 2, term, 0, 0, 0, size) + body
        with pytest.raises(RemoteProtocolError):
            RequestDecoder().feed(data)


def test_messages_before_a_bad_one_are_not_lost_and_nothing_after_it_is_read() -> None:
    good = encode_request(APPEND)
    decoder = RequestDecoder()
    assert decoder.feed(good) == [APPEND]
    with pytest.raises(RemoteProtocolError, match="type 2 where"):
        decoder.feed(good * 3 + b"\x02" + good)
    assert decoder.before_error == [APPEND] * 3
    with pytest.raises(RemoteProtocolError, match="type 2 where"):
        decoder.feed(good)


def test_an_announced_size_alone_takes_no_memory() -> None:
    header = encode_request(LARGEST)[:1000]
    tracemalloc.start()
    try:
        decoder = RequestDecoder()
        assert decoder.feed(header) == []
        assert tracemalloc.get_traced_memory()[1] < 64 * 1024
    finally:
        tracemalloc.stop()
    assert decoder.buffered == 1000


def test_the_largest_message_in_small_pieces_takes_linear_work_and_bounded_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Work is counted in bytes that are given to the decoder of entries."""
    data = encode_request(LARGEST)
    assert len(data) == REQUEST_HEADER_BYTES + MAX_ENTRIES_BYTES
    decoder = RequestDecoder()
    given = list[int]()

    def counting(piece: bytes, start: int, end: int, entries: list[Entry], *, left: int = 0) -> tuple[int, int]:
        given.append(end - start)
        return read_entries(piece, start, end, entries, left=left)

    monkeypatch.setattr(messages, "read_entries", counting)
    found: list[Request] = []
    tracemalloc.start()
    try:
        for position in range(0, len(data), 1000):
            found += decoder.feed(data[position : position + 1000])
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert found == [LARGEST]
    assert sum(given) < 1.1 * len(data)
    assert max(given) < MAX_VALUE_BYTES + 2000
    # The parts are the values, and one value in the buffer and as bytes.
    assert peak < len(data) + 3 * MAX_VALUE_BYTES
    assert decoder.buffered == 0
