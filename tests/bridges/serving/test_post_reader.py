"""One POST of a stranger, without sockets: bridges/serving/post_reader.py."""

import time

import pytest

from bridges.serving.post_reader import BadPostError, PostReader

POST = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 8\r\n\r\n"
CHUNKED = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"


def fed(*pieces: bytes) -> bytes | int | None:
    """Return the body, the status of a refusal, or None while bytes are missing."""
    reader = PostReader(head_bytes=8192, body_bytes=1000)
    try:
        for piece in pieces:
            if (body := reader.feed(piece)) is not None:
                return body
    except BadPostError as error:
        return error.status
    return None


@pytest.mark.parametrize("request_", [POST + b"contents", CHUNKED + b"3\r\ncon\r\n5;x=y\r\ntents\r\n0\r\nA: b\r\n\r\n"])
def test_a_body_is_the_same_at_every_cut(request_: bytes) -> None:
    for cut in range(1, len(request_)):
        assert fed(request_[:cut]) is None
        assert fed(request_[:cut], request_[cut:]) == b"contents"
    assert fed(*(request_[place : place + 1] for place in range(len(request_)))) == b"contents"


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (POST.replace(b"POST", b"GET"), 404),
        (POST.replace(b"Host", b"Origin: b\r\nHost"), 404),
        (POST.replace(b" 8", b" 1001"), 413),
        (CHUNKED + b"3e9\r\n" + bytes(1001), 413),
        (b"\x16\x03\x01", 400),
        (b"\r\n\r\n", 400),
        (POST.replace(b"\r\n\r\n", b"\r\nContent-Length: 9\r\n\r\n"), 400),
        (CHUNKED + b"x\r\n", 400),
        (b"POST / HTTP/1.1\r\nHost: " + b"a" * 9000, 400),
    ],
)
def test_other_requests_are_refused(request_: bytes, status: int) -> None:
    assert fed(request_) == status


def test_who_hangs_up_gets_no_answer() -> None:
    with pytest.raises(ConnectionResetError):
        fed(POST[:9], b"")


def test_a_body_that_ends_early_is_refused() -> None:
    assert fed(POST + b"con", b"") == 400


def test_a_caller_may_wait_for_continue() -> None:
    reader = PostReader(head_bytes=8192, body_bytes=1000)
    assert not reader.wants_continue
    reader.feed(POST.replace(b"Host", b"Expect: 100-continue\r\nHost"))
    assert reader.wants_continue


@pytest.mark.parametrize("end", [b"\x00", b"\x0b", b"\rx", b"\x7f"])
def test_no_head_costs_quadratic_time(end: bytes) -> None:
    """h11 alone needs half a second for such a line of 8 KiB."""
    began = time.process_time()
    for _ in range(10):
        assert fed(b"POST / HTTP/1.1\r\nA:" + b" " * 8000 + end + b"\r\n\r\n") == 400
    assert time.process_time() - began < 0.5


def test_no_trailers_cost_quadratic_time() -> None:
    began = time.process_time()
    for _ in range(10):
        assert fed(CHUNKED + b"0\r\nA:" + b" " * 8000 + b"\x00\r\n\r\n") == 400
    assert time.process_time() - began < 0.5
