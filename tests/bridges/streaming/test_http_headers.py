"""A web server is told which client asks, and no client passes for another: bridges/streaming/http_headers.py."""

import io
import random
import re
import time
from http.server import BaseHTTPRequestHandler
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridges.streaming.http_headers import MAX_HEAD_BYTES, MAX_HEAD_LINES, HttpRequest, RequestError
from gf_i2p.netdb.encoding import to_base64
from tests.bridges.streaming.streaming_client import CLIENT

WHO = (
    f"X-I2P-DestHash: {to_base64(CLIENT.destination.hash)}\r\nX-I2P-DestB64: {CLIENT.destination.base64}\r\n"
    f"X-I2P-DestB32: {CLIENT.destination.b32}\r\nConnection: close\r\n\r\n"
).encode()
GET = b"GET / HTTP/1.1\r\nHost: farm.i2p\r\n"
POST = b"POST / HTTP/1.1\r\nHost: farm.i2p\r\n"
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n"
SECOND = b"GET /admin HTTP/1.1\r\nHost: farm.i2p\r\nX-I2P-DestB32: forged\r\n\r\n"


def passed(*pieces: bytes) -> tuple[bytes, bool]:
    request = HttpRequest(CLIENT.destination)
    return b"".join(request.feed(piece) for piece in pieces), request.finished


def body_of(data: bytes) -> bytes:
    """Join the chunks behind a head; nothing may stand between or behind the chunks."""
    head, _, rest = data.partition(b"\r\n\r\n")
    body = bytearray()
    while True:
        line, _, rest = rest.partition(b"\r\n")
        size = int(line, 16)
        body += rest[:size]
        assert rest[size : size + 2] == b"\r\n"
        rest = rest[size + 2 :]
        if not size:
            assert not rest
            return head + bytes(body)


class WebServer(BaseHTTPRequestHandler):
    """Python's own web server as a reader of the head, without any code of h11."""

    def __init__(self, data: bytes) -> None:
        self.rfile = io.BytesIO(data)
        self.raw_requestline = self.rfile.readline()
        assert self.parse_request()

    @property
    def told(self) -> list[str]:
        """Give all values that a CGI program would take for a statement about the caller."""
        names = [(re.sub(r"[^A-Z0-9]", "_", name.upper()), value) for name, value in self.headers.items()]
        return [value for name, value in names if name.startswith("X_I2P_")]


TOLD = [to_base64(CLIENT.destination.hash), CLIENT.destination.base64, CLIENT.destination.b32]


def test_the_three_headers_are_added_and_the_connection_ends_after_one_request() -> None:
    assert passed(GET + b"\r\n") == (GET + WHO, True)


def test_the_request_keeps_its_version_and_the_writing_of_its_headers() -> None:
    old = b"HEAD /a?b=%20 HTTP/1.0\r\n"
    assert passed(old + b"\r\n") == (old + WHO, True)
    kept = b"Accept-Encoding: gzip\r\nUser-Agent: MYOB/6.66 (AN/ON)\r\nVia: 1.1 a\r\n"
    kept += b"Accept: */*\r\nCOOKIE: a=b; c=d\r\ncookie: e\r\nX-Empty: \r\nX-Text: \xc3\xa9\tx\r\n"
    assert passed(GET + kept + b"\r\n") == (GET + kept + WHO, True)


@pytest.mark.parametrize(
    "forged",
    [
        b"X-I2P-DestHash: x",
        b"x-i2p-destb32: x",
        b"X-I2P-DESTB64:x",
        b"X-I2P-DestB32:\tx",
        b"X_I2P_DestHash: x",
        b"x-I2p_Dest: x",
        b"X_I2P-DestB32: x",
        b"X.I2P.DestB32: x",
        b"X~I2P!DestB64: x",
        b"X-I2P-Anything: x",
        b"Connection: keep-alive",
        b"Connection: X-I2P-DestB32",
        b"connection: Upgrade",
        b"Upgrade: websocket",
        b"Keep-Alive: 5",
        b"Keep_Alive: 5",
        b"Proxy-Connection: keep-alive",
        b"HTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA",
        b"TE: trailers",
        b"Trailer: X-Sum",
        b"X-Forwarded-For: 10.0.0.1",
        b"x_forwarded_for: 10.0.0.1",
        b"X-Forwarded-Host: a",
        b"X-Forwarded-Server: a",
        b"X-FORWARDED-PROTO: https",
        b"Forwarded: for=10.0.0.1",
        b"X-Real-IP: 10.0.0.1",
        b"Proxy: http://10.0.0.1",
        b"Proxy-Authorization: Basic YTpi",
        b"X-Accept-Encoding: x-i2p-gzip",
        b"Connection: X-Sum, close\r\nX-Sum: 5",
        b"X-Sum: 5\r\nx_more: 6\r\nConnection: close\r\nConnection: ,x-sum ,\tX-More,",
    ],
)
def test_what_the_client_must_not_say_is_left_out(forged: bytes) -> None:
    assert passed(b"GET / HTTP/1.1\r\n" + forged + b"\r\nHost: farm.i2p\r\n" + forged + b"\r\n\r\n") == (
        GET + WHO,
        True,
    )


def test_a_header_that_the_web_server_needs_stays_even_if_connection_names_the_header() -> None:
    named = b"Connection: Host, Content-Length, Transfer-Encoding\r\n"
    for head, body in ((POST + b"Content-Length: 4\r\n", b"body"), (CHUNKED, b"4\r\nbody\r\n0\r\n\r\n")):
        assert passed(head + named + b"\r\n" + body) == (head + WHO + body, True)


@given(
    st.sampled_from(["DestHash", "DestB64", "DestB32", "Other", ""]),
    st.lists(st.sampled_from("-_.~!#$%&'*+^`|"), min_size=2, max_size=2),
    st.randoms(use_true_random=False),
)
def test_no_writing_of_an_identity_reaches_a_web_server(name: str, between: list[str], chance: random.Random) -> None:
    cased = "".join(chance.choice((letter.lower(), letter.upper())) for letter in f"x{between[0]}i2p{between[1]}{name}")
    out, finished = passed(GET + f"{cased}: forged\r\n\r\n".encode())
    assert finished
    assert WebServer(out).told == TOLD


def test_a_second_request_is_not_passed_on() -> None:
    assert passed(GET + b"\r\n" + SECOND, SECOND) == (GET + WHO, True)
    post = POST + b"Content-Length: 4\r\n"
    assert passed(post + b"\r\nbo", b"dy" + SECOND, SECOND) == (post + WHO + b"body", True)
    body = b"4\r\nbody\r\n0\r\n\r\n"
    assert passed(CHUNKED + b"\r\n" + body + SECOND, SECOND) == (CHUNKED + WHO + body, True)


def test_chunks_pass_without_extensions_and_trailers() -> None:
    chunked = POST + b"Transfer-Encoding: Chunked\r\n"
    body = b'A;name="value"\r\n0123456789\r\n1;x\r\na\r\n000\r\nX-I2P-DestB32: forged\r\n\r\nmore'
    assert passed(chunked + b"\r\n" + body) == (CHUNKED + WHO + b"b\r\n0123456789a\r\n0\r\n\r\n", True)


WHOLE = [
    GET + b"X-I2P-DestHash: forged\r\n\r\n",
    POST + b"Content-Length: 9\r\nX-I2P-DestHash: forged\r\n\r\n\r\n\r\nbody\n",
    CHUNKED + b"X_I2P_DestHash: forged\r\n\r\n5\r\nhello\r\n10;a=b\r\n" + bytes(16) + b"\r\n0\r\na: b\r\n\r\n",
]


@pytest.mark.parametrize("whole", WHOLE)
def test_a_request_cut_at_any_byte_is_the_same_request(whole: bytes) -> None:
    normal = body_of if whole.startswith(CHUNKED) else bytes
    expected, finished = passed(whole)
    assert finished
    for second in (b"", SECOND):
        data = whole + second
        for cut in range(len(data) + 1):
            out, finished = passed(data[:cut], data[cut:])
            assert (normal(out), finished) == (normal(expected), True)
        out, finished = passed(*[data[at : at + 1] for at in range(len(data))])
        assert (normal(out), finished) == (normal(expected), True)


@given(st.integers(0, 2**32))
def test_it_does_not_matter_where_the_bytes_are_cut(seed: int) -> None:
    chance = random.Random(seed)
    whole = WHOLE[2] + SECOND
    cuts = sorted(chance.sample(range(1, len(whole)), chance.randrange(12)))
    out, finished = passed(*[whole[start:end] for start, end in pairwise([0, *cuts, len(whole)])])
    assert finished
    assert body_of(out) == body_of(passed(whole)[0])


def test_a_large_body_passes_whole() -> None:
    body = random.Random(7).randbytes(300_000)
    for length, framed in (
        (b"Content-Length: 300000", body),
        (b"Transfer-Encoding: chunked", b"493e0\r\n" + body + b"\r\n0\r\n\r\n"),
    ):
        assert passed(POST + length + b"\r\n\r\n" + framed + SECOND) == (
            POST + length + b"\r\n" + WHO + framed,
            True,
        )


def test_a_request_that_is_not_whole_yet_says_nothing() -> None:
    assert passed(GET) == (b"", False)
    assert passed(POST + b"Content-Length: 2\r\n\r\nx")[1] is False
    assert passed(CHUNKED + b"\r\n1\r\nx\r\n0\r\n")[1] is False


@pytest.mark.parametrize(
    "head",
    [
        b"GET /\r\n\r\n",
        b"GET / HTTP/2.0\r\nHost: a\r\n\r\n",
        b"GET / HTTP/1.2\r\nHost: a\r\n\r\n",
        b"GET / http/1.1\r\nHost: a\r\n\r\n",
        b"GET /a b HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET  / HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET\t/ HTTP/1.1\r\nHost: a\r\n\r\n",
        b"\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET / HTTP/1.1\nHost: a\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\n\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\n\nX: b\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",  # RFC 9112, 3.2
        GET + b"Host: another\r\n\r\n",
        GET + b"Accept : a\r\n\r\n",
        GET + b"X-I2P-DestB32 : forged\r\n\r\n",
        GET + b"X-I2P-DestB32\0: forged\r\n\r\n",
        GET + b": a\r\n\r\n",
        GET + b"\xe9: a\r\n\r\n",
        b"GET / HTTP/1.1\r\n folded: a\r\nHost: a\r\n\r\n",
        GET + b"A: b\r\n c\r\n\r\n",
        GET + b"A: b\r\n\tX-I2P-DestB32: forged\r\n\r\n",
        GET + b"A: b\nX-I2P-DestB32: forged\r\n\r\n",
        GET + b"A: b\rX-I2P-DestB32: forged\r\n\r\n",
        GET + b"A: b\0\r\n\r\n",
        GET + b"A: \x0b\r\n\r\n",
        GET + b"A: \x7f\r\n\r\n",
        GET + b"nothing\r\n\r\n",
        POST + b"Content-Length: 4\r\nContent-Length: 5\r\n\r\n",
        POST + b"Content-Length: 4\r\nContent-Length: 4\r\n\r\n",
        POST + b"Content-Length: 4\r\ncontent_length: 5\r\n\r\n",
        POST + b"Content_Length: 4\r\n\r\n",
        POST + b"Content.Length: 4\r\n\r\n",
        POST + b"Transfer_Encoding: chunked\r\n\r\n",
        POST + b"Content-Length: 4, 4\r\n\r\n",
        POST + b"Content-Length: +4\r\n\r\n",
        POST + b"Content-Length: -1\r\n\r\n",
        POST + b"Content-Length: 0x4\r\n\r\n",
        POST + b"Content-Length: 4 4\r\n\r\n",
        POST + b"Content-Length: \xb2\r\n\r\n",
        POST + b"Content-Length:\r\n\r\n",
        POST + b"Content-Length : 4\r\n\r\n",
        POST + b"Content-Length: " + b"9" * 40 + b"\r\n\r\n",
        POST + b"Content-Length: 18446744073709551621\r\n\r\n",  # 5 to a service that counts with 64 bits
        POST + b"Content-Length: 1000000000000000000\r\n\r\n",
        CHUNKED + b"Content-Length: 4\r\n\r\n",
        POST + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n",
        POST + b"Content-Length: 4\r\nTransfer_Encoding: chunked\r\n\r\n",
        CHUNKED + b"Transfer-Encoding: chunked\r\n\r\n",
        CHUNKED + b"Transfer-Encoding: identity\r\n\r\n",
        POST + b"Transfer-Encoding: gzip, chunked\r\n\r\n",
        POST + b"Transfer-Encoding: chunked, chunked\r\n\r\n",
        POST + b"Transfer-Encoding: chunked, identity\r\n\r\n",
        POST + b"Transfer-Encoding: identity\r\n\r\n",
        POST + b"Transfer-Encoding: xchunked\r\n\r\n",
        POST + b'Transfer-Encoding: "chunked"\r\n\r\n',
        POST + b"Transfer-Encoding: chunked;q=1\r\n\r\n",
        POST + b"Transfer-Encoding:\r\n\r\n",
        POST + b"Transfer-Encoding:\x0bchunked\r\n\r\n",
        POST + b"Transfer-Encoding : chunked\r\n\r\n",
        POST + b"Transfer-Encoding\r\n : chunked\r\n\r\n",
        b"POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",  # RFC 9112, 6.1
        CHUNKED + b"\r\n-1\r\n",
        CHUNKED + b"\r\n5\nhello\r\n0\r\n\r\n",
        CHUNKED + b"\r\n1\r\nab\r\n",
        CHUNKED + b"\r\n1\r\na\n0\r\n\r\n",
        CHUNKED + b"\r\n0x5\r\n",
        CHUNKED + b"\r\n\r\n",
        CHUNKED + b"\r\n1 1\r\n",
        CHUNKED + b"\r\n" + b"5" * 5000,
        CHUNKED + b"\r\n1;" + b"x" * 5000,
        CHUNKED + b"\r\n0\r\n" + b"a: b\r\n" * 1000,
        CHUNKED + b"\r\n0\r\nnothing\r\n\r\n",
        GET + b"a: b\r\n" * (MAX_HEAD_LINES - 1) + b"\r\n",
        GET + b"A: " + b"b" * MAX_HEAD_BYTES + b"\r\n\r\n",
        GET + b"A: " + b"b" * MAX_HEAD_BYTES,
    ],
)
def test_what_two_could_read_in_two_ways_is_refused(head: bytes) -> None:
    with pytest.raises(RequestError):
        passed(head)
    request = HttpRequest(CLIENT.destination)
    out = bytearray()

    def feed_byte_by_byte() -> None:
        for at in range(len(head)):
            out.extend(request.feed(head[at : at + 1]))

    with pytest.raises(RequestError):
        feed_byte_by_byte()
    assert not request.finished
    assert not out or out.startswith(CHUNKED + WHO)  # a refused head is not passed on


@pytest.mark.parametrize("length", [b"5", b"05", b"0" * 17 + b"5"])
def test_the_length_of_a_body_is_written_anew(length: bytes) -> None:
    out = passed(POST + b"Content-Length: " + length + b"\r\n\r\nhello" + SECOND)
    assert out == (POST + b"Content-Length: 5\r\n" + WHO + b"hello", True)


def test_the_largest_head_passes() -> None:
    many = GET + b"a: b\r\n" * (MAX_HEAD_LINES - 2)
    assert passed(many + b"\r\n") == (many + WHO, True)
    long = GET + b"A: " + b"b" * (MAX_HEAD_BYTES - len(GET) - 3)
    assert passed(long + b"\r\n\r\n") == (long + b"\r\n" + WHO, True)
    with pytest.raises(RequestError):
        passed(long + b"b\r\n\r\n")


def test_a_line_without_its_end_brings_nothing_to_the_web_server() -> None:
    assert passed(CHUNKED + b"\r\n5\n") == (CHUNKED + WHO, False)


@given(st.sampled_from(WHOLE), st.data())
def test_a_request_with_a_few_bytes_changed_is_refused_or_says_who_asks_once(whole: bytes, data: st.DataObject) -> None:
    changed = bytearray(whole + SECOND)
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(changed) - 1))
        changed[at : at + data.draw(st.integers(0, 2))] = data.draw(st.sampled_from(b"\r\n\0 \t:,;_-0aX")).to_bytes()
    request = HttpRequest(CLIENT.destination)
    try:
        out = request.feed(bytes(changed))
    except RequestError:
        return
    if out:
        assert WebServer(out).told == TOLD


@given(st.binary(max_size=200))
def test_any_bytes_are_refused_or_wait(data: bytes) -> None:
    request = HttpRequest(CLIENT.destination)
    try:
        out = request.feed(data + b"\r\n\r\n")
    except RequestError:
        return
    assert out.endswith(WHO) or not out


def test_a_head_that_comes_byte_by_byte_is_searched_once() -> None:
    searched = 0

    class Head(bytearray):
        def find(self, sub: Any, start: Any = 0, end: Any = None, /) -> int:
            nonlocal searched
            searched += len(self) - start
            return super().find(sub, start, end)

    request = HttpRequest(CLIENT.destination)
    request._head = Head()
    head = GET + b"A: " + b"b" * 30_000 + b"\r\n\r\n"
    out = b"".join(request.feed(head[at : at + 1]) for at in range(len(head)))
    assert (out, request.finished) == (head[:-2] + WHO, True)
    assert searched <= 4 * len(head)


def test_lines_that_match_nothing_take_little_time() -> None:
    worst = [
        GET + b"a:" + b" " * (MAX_HEAD_BYTES - 100) + b"\0\r\n\r\n",
        GET + b"content-length:" + b" " * (MAX_HEAD_BYTES - 100) + b"x\r\n\r\n",
        CHUNKED + b"\r\n0\r\na:" + b" " * MAX_HEAD_BYTES + b"\0\r\n\r\n",
        CHUNKED + b"\r\n0;" + b" " * MAX_HEAD_BYTES + b"\n\r\n",
    ]
    for data in worst:
        began = time.process_time()
        with pytest.raises(RequestError):
            passed(data)
        assert time.process_time() - began < 0.5
