"""A web server's answer tells strangers nothing about the server: bridges/streaming/http_response.py."""

import random
import time
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridges.streaming.http_headers import MAX_HEAD_BYTES
from bridges.streaming.http_response import HttpResponse, ResponseError

OK = b"HTTP/1.1 200 OK\r\n"
KEPT = b"Content-Type: text/html\r\nSet-Cookie: a=b\r\nset-cookie: c\r\nContent-Length: 4\r\nConnection: close\r\n"


def passed(*pieces: bytes) -> bytes:
    response = HttpResponse()
    out = b"".join(response.feed(piece) for piece in pieces)
    assert response.begun
    return out


@pytest.mark.parametrize(
    "told",
    [
        b"Date: Wed, 25 Nov 2026 10:00:00 GMT",
        b"date:x",
        b"Server: Apache/2.4",
        b"SERVER: nginx",
        b"X-Powered-By: PHP/8",
        b"x-runtime: 0.1",
        b"Proxy: a",
        b"Proxy-Connection: close",
        b"Proxy-Authenticate: Basic",
        b"Server: a\r\nDate: b\r\nServer: c",
        b"Server: a\r\n folded",
    ],
)
def test_headers_that_tell_about_the_server_are_left_out(told: bytes) -> None:
    assert passed(OK + told + b"\r\n" + KEPT + told + b"\r\n\r\nbody") == OK + KEPT + b"\r\nbody"


def test_interim_answers_pass_and_are_filtered_too() -> None:
    interim = b"HTTP/1.1 100 Continue\r\nServer: a\r\n\r\n"
    assert passed(interim + OK + KEPT + b"\r\nbody") == b"HTTP/1.1 100 Continue\r\n\r\n" + OK + KEPT + b"\r\nbody"


def test_a_body_is_not_touched() -> None:
    body = b"Server: in the text\r\n\r\nHTTP/1.1 200 OK\r\nDate: x\r\n\r\n"
    assert passed(OK + b"\r\n" + body, body) == OK + b"\r\n" + body + body


@given(st.integers(0, 2**32))
def test_it_does_not_matter_where_the_bytes_are_cut(seed: int) -> None:
    chance = random.Random(seed)
    whole = OK + b"Server: a\r\n" + KEPT + b"Date: b\r\n\r\nbody"
    cuts = sorted(chance.sample(range(1, len(whole)), chance.randrange(12)))
    assert passed(*[whole[start:end] for start, end in pairwise([0, *cuts, len(whole)])]) == OK + KEPT + b"\r\nbody"


@pytest.mark.parametrize(
    "answer",
    [
        b"SSH-2.0-OpenSSH\r\n\r\n",
        b"<html>\r\n\r\n",
        b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\n\r\n",
        OK + b"Server : a\r\n\r\n",
        OK + b"A: " + b"b" * (MAX_HEAD_BYTES + 1),
    ],
)
def test_an_answer_that_is_none_is_refused(answer: bytes) -> None:
    with pytest.raises(ResponseError):
        passed(answer)


def test_an_answer_that_is_not_whole_yet_says_nothing() -> None:
    response = HttpResponse()
    assert response.feed(OK + KEPT) == b""
    assert not response.begun


@pytest.mark.parametrize("end", [b"\x00", b"\x0b", b"\rx"])
def test_no_answer_costs_quadratic_time(end: bytes) -> None:
    """h11 alone needs 7.3 s for such a line."""
    began = time.process_time()
    with pytest.raises(ResponseError, match="control character"):
        passed(OK + b"A:" + b" " * 32_000 + end + b"\r\n\r\n")
    assert time.process_time() - began < 0.5
