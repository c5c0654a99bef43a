"""One head, however its bytes arrive, and no bytes that h11 reads slowly: bridges/http_head.py."""

import time

import pytest

from bridges.http_head import Head, HeadError, HeadReader

HEAD = b"POST / HTTP/1.1\r\nHost: a\r\n\r\n"


def feed(pieces: list[bytes]) -> None:
    reader = HeadReader(100)
    for piece in pieces:
        reader.feed(piece)


@pytest.mark.parametrize("head", [HEAD, HEAD.replace(b"\r\n", b"\n"), b"X: \x80\t y\n\r\n"])
def test_a_head_is_the_same_at_every_cut(head: bytes) -> None:
    for cut in range(len(head)):
        reader = HeadReader(100)
        assert reader.feed(head[:cut]) is None
        assert reader.feed(head[cut:] + b"\x00rest\r") == Head(head, b"\x00rest\r")


def test_a_head_is_the_same_byte_by_byte() -> None:
    reader = HeadReader(len(HEAD))
    heads = [reader.feed(HEAD[place : place + 1]) for place in range(len(HEAD))]
    assert heads == [None] * (len(HEAD) - 1) + [Head(HEAD, b"")]


@pytest.mark.parametrize("wrong", [b"\x00", b"\x0b", b"\x1f", b"\x7f", b"\rx"])
def test_control_characters_are_refused_as_soon_as_they_come(wrong: bytes) -> None:
    for pieces in ([HEAD[:20] + wrong], [HEAD[:20], wrong], [HEAD[:20], *(bytes([byte]) for byte in wrong)]):
        with pytest.raises(HeadError, match="control character, or a CR"):
            feed(pieces)


def test_a_long_head_is_refused_with_and_without_its_end() -> None:
    for data in (HEAD, HEAD[:-2]):
        with pytest.raises(HeadError, match="more than 20 bytes"):
            HeadReader(20).feed(data)


def test_the_work_is_linear_in_single_bytes() -> None:
    began = time.process_time()
    reader = HeadReader(1 << 15)
    for _ in range(1 << 15):
        reader.feed(b"a")
    assert time.process_time() - began < 0.5  # about 0.05
