"""Who asks, said to a web server, and nobody pretending: bridges/streaming/http_headers.py."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridges.streaming.http_headers import MAX_HEAD_BYTES, Request, RequestError
from gf_i2p.netdb.encoding import to_base64
from tests.bridges.streaming.streaming_client import CLIENT

WHO = (
    f"X-I2P-DestHash: {to_base64(CLIENT.destination.hash)}\r\nX-I2P-DestB64: {CLIENT.destination.base64}\r\n"
    f"X-I2P-DestB32: {CLIENT.destination.b32}\r\nConnection: close\r\n\r\n"
).encode()
GET = b"GET / HTTP/1.1\r\nHost: farm.i2p\r\n"


def passed(*pieces: bytes) -> tuple[bytes, bool]:
    request = Request(CLIENT.destination)
    return b"".join(request.feed(piece) for piece in pieces), request.finished


def test_the_three_headers_are_added_and_the_connection_ends_after_one_request() -> None:
    assert passed(GET + b"\r\n") == (GET + WHO, True)


@pytest.mark.parametrize(
    "forged",
    [
        b"X-I2P-DestHash: x",
        b"x-i2p-destb32: x",
        b"X-I2P-DESTB64:x",
        b"X_I2P_DestHash: x",
        b"x-I2p_Dest: x",
        b"Connection: keep-alive",
        b"connection: Upgrade",
        b"Upgrade: websocket",
        b"Keep-Alive: 5",
        b"Proxy-Connection: keep-alive",
    ],
)
def test_what_the_client_must_not_say_is_left_out(forged: bytes) -> None:
    assert passed(b"GET / HTTP/1.1\r\n" + forged + b"\r\nHost: farm.i2p\r\n" + forged + b"\r\n\r\n") == (
        GET + WHO,
        True,
    )


def test_a_second_request_is_not_passed_on() -> None:
    second = b"GET /admin HTTP/1.1\r\nX-I2P-DestB32: forged\r\n\r\n"
    assert passed(GET + b"\r\n" + second, second) == (GET + WHO, True)
    post = b"POST / HTTP/1.1\r\nContent-Length: 4\r\n"
    assert passed(post + b"\r\nbo", b"dy" + second, second) == (post + WHO + b"body", True)
    chunked = b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n"
    body = b"4\r\nbody\r\n0\r\n\r\n"
    assert passed(chunked + b"\r\n" + body + second, second) == (chunked + WHO + body, True)


def test_chunks_pass_without_extensions_and_trailers() -> None:
    chunked = b"POST / HTTP/1.1\r\nTransfer-Encoding: Chunked\r\n"
    body = b'A;name="value"\r\n0123456789\r\n1 ;x\r\na\r\n000\r\nX-I2P-DestB32: forged\r\n\r\nmore'
    assert passed(chunked + b"\r\n" + body) == (chunked + WHO + b"a\r\n0123456789\r\n1\r\na\r\n0\r\n\r\n", True)


@given(st.integers(0, 2**32))
def test_it_does_not_matter_where_the_bytes_are_cut(seed: int) -> None:
    chance = random.Random(seed)
    head = b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nX-I2P-DestHash: forged\r\n\r\n"
    whole = head + b"5\r\nhello\r\n10;a=b\r\n" + bytes(16) + b"\r\n0\r\na: b\r\n\r\nGET / HTTP/1.1\r\n\r\n"
    cuts = sorted(chance.sample(range(1, len(whole)), chance.randrange(12)))
    pieces = [whole[start:end] for start, end in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    assert passed(*pieces) == passed(whole)
    assert passed(whole)[1]


def test_a_request_that_is_not_whole_yet_says_nothing() -> None:
    assert passed(GET) == (b"", False)
    assert passed(b"POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\nx")[1] is False


@pytest.mark.parametrize(
    "head",
    [
        b"GET /\r\n\r\n",
        b"GET / HTTP/2.0\r\n\r\n",
        b"GET /a b HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\nHost: a\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost : a\r\n\r\n",
        b"GET / HTTP/1.1\r\n folded: a\r\n\r\n",
        b"GET / HTTP/1.1\r\nA: b\r\n c\r\n\r\n",
        b"GET / HTTP/1.1\r\nA: b\nX-I2P-DestB32: forged\r\n\r\n",
        b"GET / HTTP/1.1\r\nA: b\rX-I2P-DestB32: forged\r\n\r\n",
        b"GET / HTTP/1.1\r\nA: b\0\r\n\r\n",
        b"GET / HTTP/1.1\r\nnothing\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: +4\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: 4, 4\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"POST / HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
        b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n",
        b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5\n",
        b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n",
        b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0x5\r\n",
        b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n" + b"5" * 5000,
        b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 101 + b"\r\n",
        b"GET / HTTP/1.1\r\nA: " + b"b" * MAX_HEAD_BYTES + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\nA: " + b"b" * MAX_HEAD_BYTES,
    ],
)
def test_what_two_could_read_in_two_ways_is_refused(head: bytes) -> None:
    with pytest.raises(RequestError):
        passed(head)


@given(st.binary(max_size=200))
def test_any_bytes_are_refused_or_wait(data: bytes) -> None:
    request = Request(CLIENT.destination)
    try:
        out = request.feed(data + b"\r\n\r\n")
    except RequestError:
        return
    assert out.endswith(WHO) or not out
