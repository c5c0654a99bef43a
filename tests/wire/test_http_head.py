import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gf_i2p.wire.errors import RemoteProtocolError
from gf_i2p.wire.http_head import Head, HeadReader, path_of_target
from gf_i2p.wire.limits import MAX_HTTP_HEAD_BYTES, MAX_HTTP_HEADERS


def read(*pieces: bytes) -> Head | str | None:
    """Give the head, or the error's text, or None before the blank line; `rest` with all later pieces."""
    reader = HeadReader()
    try:
        for number, piece in enumerate(pieces):
            head = reader.feed(piece)
            if head is not None:
                return Head(head.text, head.rest + b"".join(pieces[number + 1 :]))
    except RemoteProtocolError as error:
        return str(error)
    return None


def one_by_one(data: bytes) -> list[bytes]:
    return [data[i : i + 1] for i in range(len(data))]


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r\r\n"])
def test_line_ends_with_none_one_or_two_crs_become_crlf(end: bytes) -> None:
    assert read(end.join([b"GET / HTTP/1.1", b"A: b", b"", b"\r\r\nrest"])) == Head(
        b"GET / HTTP/1.1\r\nA: b\r\n\r\n", b"\r\r\nrest"
    )


def test_the_ends_may_be_mixed_as_i2pd_mixes_them() -> None:
    answer = b"HTTP/1.1 101 X\r\nConnection: Upgrade\r\r\nProxy-Connection: close\r\n\r\n\x01"
    assert read(answer) == Head(answer[:-1].replace(b"\r\r\n", b"\r\n"), b"\x01")


@pytest.mark.parametrize("data", [b"GET\rX / HTTP/1.1\r\n\r\n", b"G\r\r\r\nA: b\r\n\r\n", b"G\n\r\r\rA: b\n\n"])
def test_a_cr_inside_a_line_is_refused(data: bytes) -> None:
    assert read(data) == "an HTTP head with a CR inside a line"


@pytest.mark.parametrize("byte", sorted({*range(32), 127} - {9, 10, 13}))
def test_control_characters_are_refused_without_waiting_for_the_end(byte: int) -> None:
    assert read(b"GET /", bytes([byte])) == "control characters where an HTTP head should be"


def test_tabs_and_bytes_above_ascii_pass() -> None:
    assert read(b"A:\tb\xff\n\n") == Head(b"A:\tb\xff\r\n\r\n", b"")


def test_control_characters_after_the_head_are_the_sessions() -> None:
    assert read(b"A\n\n\x00\x01") == Head(b"A\r\n\r\n", b"\x00\x01")


def filled(size: int) -> bytes:
    return b"GET / HTTP/1.1\r\nA: ".ljust(size - 4, b"x") + b"\r\n\r\n"


def test_the_longest_head_is_read_and_one_byte_more_is_refused() -> None:
    assert read(filled(MAX_HTTP_HEAD_BYTES) + b"rest") == Head(filled(MAX_HTTP_HEAD_BYTES), b"rest")
    assert read(filled(MAX_HTTP_HEAD_BYTES + 1)) == f"an HTTP head of more than {MAX_HTTP_HEAD_BYTES} bytes"


def test_a_head_without_an_end_is_refused_at_the_limit() -> None:
    reader = HeadReader()
    assert reader.feed(b"x" * MAX_HTTP_HEAD_BYTES) is None
    with pytest.raises(RemoteProtocolError, match="more than 16384 bytes"):
        reader.feed(b"x")


def test_the_most_header_lines_are_read_and_one_more_is_refused() -> None:
    def lines(count: int) -> bytes:
        return b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * count + b"\r\n"

    assert read(lines(MAX_HTTP_HEADERS)) == Head(lines(MAX_HTTP_HEADERS), b"")
    assert read(lines(MAX_HTTP_HEADERS + 1)) == "an HTTP head with more than 64 header lines"


@given(st.lists(st.sampled_from([b"\r", b"\n", b"a", b": ", b"\x01"]), max_size=24).map(b"".join), st.data())
def test_the_pieces_do_not_matter(data: bytes, draw: st.DataObject) -> None:
    whole = read(data)
    pieces = [read(data[:cut], data[cut:]) for cut in range(1, len(data))] + [read(*one_by_one(data))]
    if isinstance(whole, str):
        assert all(isinstance(piece, str) for piece in pieces)
    else:
        assert pieces == [whole] * len(pieces)


@pytest.mark.parametrize("byte", [b"\n\r\r", b"\r", b" ", b"x", b"x\n"])
def test_byte_by_byte_costs_linear_time(byte: bytes) -> None:
    pieces = one_by_one((byte * MAX_HTTP_HEAD_BYTES)[:MAX_HTTP_HEAD_BYTES])
    started = time.process_time()
    read(*pieces)
    assert time.process_time() - started < 0.5  # about 0.02; rescanning earlier bytes takes seconds


@pytest.mark.parametrize(
    ("target", "path"),
    [
        ("/a/b?c", "/a/b?c"),
        ("http://x.b32.i2p/a/b?c", "/a/b?c"),
        ("HTTP://x:80/a", "/a"),
        ("https://[::1]:80/a", "/a"),
        ("http://x", "/"),
        ("http://x?c", "?c"),
        ("http:///a", "/a"),
        ("ftp://x/a", "ftp://x/a"),
        ("*", "*"),
        ("", ""),
        ("//x/a", "//x/a"),
    ],
)
def test_path_of(target: str, path: str) -> None:
    assert path_of_target(target) == path
