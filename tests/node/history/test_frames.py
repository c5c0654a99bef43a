"""The frames: what a node and its history process say to each other."""

import errno
import io

import pytest

from gf_i2p.node.history.frames import FrameError, describe_error, encode_frame, error_of, read_frame
from gf_i2p.storage.history_reader import HistoryError

FRAME = b"".join(encode_frame({"do": "append", "led": [3, 1]}, b"entries"))


class Trickle(io.RawIOBase):
    """An input that gives one byte at a time."""

    def __init__(self, data: bytes) -> None:
        self._rest = data

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        taken, self._rest = self._rest[:1], self._rest[1:]
        buffer[: len(taken)] = taken
        return len(taken)


def test_a_frame_is_read_byte_by_byte() -> None:
    assert read_frame(Trickle(FRAME)) == ({"do": "append", "led": [3, 1]}, b"entries")


@pytest.mark.parametrize("end", range(len(FRAME)))
def test_a_frame_that_ends_early_is_the_end(end: int) -> None:
    assert read_frame(Trickle(FRAME[:end])) is None


@pytest.mark.parametrize(
    "frame",
    [
        b"\xff\xff\xff\xff\0\0\0\0",
        b"\0\0\0\2\xff\xff\xff\xff{}",
        b"\0\0\0\2\0\0\0\0[]",
        b"\0\0\0\1\0\0\0\0{",
        b"\0\0\0\1\0\0\0\0\xff",
    ],
)
def test_other_bytes_are_no_frame(frame: bytes) -> None:
    with pytest.raises(FrameError):
        read_frame(Trickle(frame))


def test_errors_keep_their_kind_and_words() -> None:
    lost = error_of(describe_error(HistoryError("move the directory away")))
    assert isinstance(lost, HistoryError)
    assert str(lost) == "move the directory away"
    full = error_of(describe_error(OSError(errno.ENOSPC, "No space left on device", "/disk/file")))
    assert isinstance(full, OSError)
    assert (full.errno, full.strerror, full.filename) == (errno.ENOSPC, "No space left on device", "/disk/file")
