"""The check that no frame in the middle of a write-ahead log (WAL) is damaged or lost.

Each frame has a page, and a checksum over all frames up to this one. SQLite drops all frames from the first bad one
on, without a message: after a power cut the bad frame is the last write, which nobody was promised. A bad frame in the
middle is damage, and all later transactions would be lost.

The two cases differ. A transaction ends with a sync, and the next one begins after that. So when frames of two
transactions stand behind a bad frame, one right behind the other, the first transaction was on the disk as a whole,
with all frames before it. Damage of the last transactions leaves no such frames and is not noticed.

On a disk that is honest, no other way leads to two such frames. A start-over changes the salt of all later frames. A
killed process's last frames are one transaction, and the next process syncs all frames before it writes behind them
(`Storage.open`). After a failed sync a process writes nothing more. The newer salt of a frame is damage, too: the
header with this salt was synced before the frame was written. (After a failed sync, a power cut in the first
milliseconds of the next start may lead to a refusal. The disk is faulty then, too.)

Layout and checksum: https://www.sqlite.org/fileformat2.html#walformat
"""

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

from gf_i2p.storage.errors import damaged
from gf_i2p.storage.wal import wal_path

_HEADER: Final = struct.Struct(">8I")  # magic, version, page size, number, two salts, two checksums
_FRAME: Final = struct.Struct(">6I")  # page number, pages after a commit or 0, two salts, two checksums
_SUMMED: Final = 24
"""Bytes of the header before its checksum."""
_MASK: Final = 0xFFFFFFFF

Sum = tuple[int, int]


class _Header(NamedTuple):
    page_bytes: int
    salts: Sum
    checksum: Sum
    """The checksum of the header, which the checksums of the frames continue."""
    big: bool
    """Whether the words of the checksums are big-endian."""


class _Frame(NamedTuple):
    summed: bytes
    """The bytes that the checksum covers."""
    commits: bool
    salts: Sum
    checksum: Sum


def checksum(data: bytes, before: Sum, *, big: bool) -> Sum:
    """Continue SQLite's checksum `before` over `data`, a multiple of 8 bytes. `big`: words are big-endian."""
    one, other = before
    words = iter(struct.unpack(f"{'>' if big else '<'}{len(data) // 4}I", data))
    for first, second in zip(words, words, strict=True):
        one = (one + first + other) & _MASK
        other = (other + second + one) & _MASK
    return one, other


def check_frames(database: Path) -> None:
    """Raise `DamagedError` when frames behind a bad frame prove that the bad frame was on the disk.

    Call this for a WAL that SQLite accepts (`wal.usable_bytes`), before SQLite opens the database. Takes about 0.3 ms
    for each frame since the last start-over.
    """
    path = wal_path(database)
    with path.open("rb") as file:
        start = file.read(_HEADER.size)
        header = _header(start)
        if header is None:
            return
        if checksum(start[:_SUMMED], (0, 0), big=header.big) != header.checksum:
            # A disk writes a sector as a whole, so no start-over breaks off inside the header.
            raise damaged(path, "its header does not match the header's checksum")
        number = sum(1 for _ in _sound_frames(file, header))
        bad = number
        previous: _Frame | None = None
        while (frame := _read(file, number, header.page_bytes)) is not None:
            newer = not (frame.salts[0] - header.salts[0] - 1) & 0x80000000
            if (
                (newer or frame.salts == header.salts)
                and previous is not None
                and previous.commits
                and frame.salts == previous.salts
                and frame.checksum == checksum(frame.summed, previous.checksum, big=header.big)
            ):
                raise damaged(
                    path,
                    f"its frame {bad + 1} is damaged or lost, but frame {number + 1} was written after that had been "
                    "synced: acknowledged entries and votes are lost",
                )
            previous = frame
            number += 1


def is_empty(database: Path) -> bool:
    """Return whether SQLite finds no transaction in a WAL that `check_frames` has accepted.

    Frames without the last frame of their transaction do not count. SQLite may begin such a WAL with a random salt, by
    which old frames could look newer than the header.
    """
    with wal_path(database).open("rb") as file:
        header = _header(file.read(_HEADER.size))
        return header is None or not any(frame.commits for frame in _sound_frames(file, header))


def _header(start: bytes) -> _Header | None:
    """Read the header at the start of a WAL; None when the WAL is shorter."""
    if len(start) < _HEADER.size:
        return None
    magic, _, page_bytes, _, *numbers = _HEADER.unpack(start)
    return _Header(page_bytes, (numbers[0], numbers[1]), (numbers[2], numbers[3]), bool(magic & 1))


def _sound_frames(file: BinaryIO, header: _Header) -> Iterator[_Frame]:
    """Give the frames from the first on, up to the first one with another salt or a wrong checksum."""
    before, number = header.checksum, 0
    while (frame := _read(file, number, header.page_bytes)) is not None and frame.salts == header.salts:
        before = checksum(frame.summed, before, big=header.big)
        if frame.checksum != before:
            return
        yield frame
        number += 1


def _read(file: BinaryIO, number: int, page_bytes: int) -> _Frame | None:
    """Read a frame, counted from 0; None behind the last one."""
    size = _FRAME.size + page_bytes
    file.seek(_HEADER.size + number * size)
    data = file.read(size)
    if len(data) < size:
        return None
    _, commit, *numbers = _FRAME.unpack_from(data)
    return _Frame(data[:8] + data[_FRAME.size :], commit != 0, (numbers[0], numbers[1]), (numbers[2], numbers[3]))
