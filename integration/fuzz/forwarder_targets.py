"""Targets of HTTP between strangers and services: the forwarder's requests and answers, and `bridge serve`."""

from typing import Final

from bridges.serving.post_reader import BadPostError, PostReader
from bridges.streaming.http_headers import HttpRequest, RequestError
from bridges.streaming.http_response import HttpResponse, ResponseError
from integration.fuzz import samples
from integration.fuzz.target import Target

_TOKENS: Final = (
    b"HTTP/1.1", b"HTTP/1.0", b"\r\n", b"\r\n\r\n", b"\n\n", b"Content-Length: 5", b"Transfer-Encoding: chunked",
    b"5\r\nhello\r\n", b"0\r\n\r\n", b"Connection: x-a, close", b"X-I2P-DestHash: a", b"Content_Length: 9",
    b"Expect: 100-continue", b"Origin: a", b"Proxy-Authorization: a", b"A:" + b" " * 900, b"A: a\r\n b", b"\x00",
    b"\x0b", b"\x80", b":", b"\t", b";ext=1", b"ffffffffffffffff\r\n",
)  # fmt: skip
_POST: Final = b'POST / HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 8\r\n\r\n{"id":1}'
_CHUNKED: Final = (
    b"POST /a?b=c HTTP/1.1\r\nHost: a\r\nConnection: close, x-b\r\nX-B: 1\r\nX-Forwarded-For: 1.2.3.4\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n5;a=b\r\nhello\r\n0\r\nTrailer: x\r\n\r\n"
)
_ANSWER: Final = (
    b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nDate: now\r\nServer: x\r\nProxy-A: b\r\nX-A: b\r\n"
    b"Content-Length: 5\r\n\r\nhello"
)


def _pieces(data: bytes) -> tuple[list[bytes], list[bytes]]:
    middle = len(data) // 2
    cut = [data[:7], data[7:middle], data[middle : middle + 1], data[middle + 1 :]]
    return [data] if data else [], [piece for piece in cut if piece]


def _request(data: bytes) -> None:
    """The server gets the same bytes, however the client's bytes are cut; and only one request."""
    results = []
    for pieces in _pieces(data):
        request = HttpRequest(samples.keys("leaf").destination)
        try:
            out = b"".join(request.feed(piece) for piece in pieces)
        except RequestError:
            out = b""
        results.append((out.partition(b"\r\n\r\n")[0], request.finished))
        head = out.partition(b"\r\n\r\n")[0].lower()
        names = [line.partition(b":")[0] for line in head.split(b"\r\n")[1:]]
        assert names.count(b"x-i2p-desthash") <= 1
        assert not any(name.startswith(b"x-forwarded-") for name in names)
    if b"" not in {results[0][0], results[1][0]}:
        assert results[0] == results[1]


def _answer(data: bytes) -> None:
    for pieces in _pieces(data):
        answer = HttpResponse()
        out = b"".join(answer.feed(piece) for piece in pieces)
        if answer.begun:
            head = out.partition(b"\r\n\r\n")[0].lower()
            assert b"\r\nserver:" not in head
            assert b"\r\ndate:" not in head


def _post(data: bytes) -> None:
    """The body is the same, however the caller's bytes are cut."""
    whole, cut = (_body(pieces) for pieces in _pieces(data))
    if isinstance(whole, bytes) and isinstance(cut, bytes):  # a long line of a chunk may be refused by where it is cut
        assert whole == cut


def _body(pieces: list[bytes]) -> bytes | int | None:
    reader = PostReader(head_bytes=8192, body_bytes=16_384)
    try:
        for piece in pieces:
            body = reader.feed(piece)
            if body is not None:
                return body
    except BadPostError as error:
        return error.status
    return None


TARGETS: Final = (
    Target(
        "forwarded-request",
        _request,
        (),
        lambda: (_POST, _CHUNKED, _POST.replace(b"HTTP/1.1", b"HTTP/1.0")),
        _TOKENS,
    ),
    Target(
        "forwarded-answer",
        _answer,
        (ResponseError,),
        lambda: (_ANSWER, b"HTTP/1.0 404 x\r\n\r\n"),
        _TOKENS,
    ),
    Target(
        "served-post",
        _post,
        (),
        lambda: (
            _POST,
            _CHUNKED,
            _POST.replace(b"POST", b"GET"),
            _POST.replace(b"Host", b"Expect: 100-continue\r\nHost"),
        ),
        _TOKENS,
    ),
)
