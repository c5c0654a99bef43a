"""One file of a history that grows: how far whole lines go, and whether what was read of it still stands there.

A place in a file is a number of bytes of its content, packed or not, behind the end of a line. With it goes a checksum
of what stands before it: a node that was killed cuts its newest file back at the next start, behind what was never
synced, and then writes other bytes there. Who finds another checksum begins the file anew.
"""

import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, Self

from gf_i2p.pipeline.read.stored_file import Stored, file_system
from gf_i2p.storage.history_lines import Gap, Header, LineError, Other, Record, Servers, Trailer, glance_line
from gf_i2p.wire.limits import MAX_INTEGER

TAIL_BYTES: Final = 64 << 10
"""Before a place, that the checksum covers; in it are some lines, so that it is known which entry comes next."""
_PIECE_BYTES: Final = 256 << 10
_FIRST: Final = re.compile(rb'"first":[0-9]{1,19}')


@dataclass(frozen=True, slots=True)
class Place:
    """How far a file was read."""

    bytes: int = 0
    check: int = 0
    """Of up to `TAIL_BYTES` before it: CRC-32."""
    next: int | None = None
    """The entry that should follow, if the lines before say so."""
    last: int | None = None
    """The file's last entry, when its last line was read."""


class ChangedError(Exception):
    """The file does not have any more what was read of it."""


class Content:
    """A file's content from some byte on."""

    def __init__(self, path: str) -> None:
        """`path`: of the plain or packed file; when the plain one has been packed by now, that is read.

        Raises `OSError`.
        """
        system, inside = file_system(path)
        self.packed = path.endswith(".gz")
        self._stored: Stored | None = None
        try:
            self._file: Any = self._open(system, inside)
        except FileNotFoundError:
            if self.packed:
                raise
            self.packed = True
            self._file = self._open(system, inside + ".gz")

    def _open(self, system: Any, path: str) -> Any:
        return system.open_input_stream(path, compression=None) if self.packed else system.open_input_file(path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    @property
    def damage(self) -> str | None:
        """Why a packed file could not be unpacked to its end, once it was read so far."""
        return None if self._stored is None else self._stored.damage

    def pieces(self, begin: int) -> Iterator[bytes]:
        """Yield the content from there on, by pieces of up to about a MiB. Use once."""
        if not self.packed:
            self._file.seek(min(begin, self._file.size()))
            while piece := self._file.read(_PIECE_BYTES):
                yield piece
            return
        self._stored = Stored(self._file, packed=True)
        at = 0
        for piece in self._stored:
            if at + len(piece) > begin:
                yield piece[max(begin - at, 0) :]
            at += len(piece)

    def after(self, place: Place) -> Iterator[bytes]:
        """Yield what the checksum of a place covers, perhaps nothing, and then by pieces what follows.

        Raises `ChangedError`. Use once.
        """
        begin = max(0, place.bytes - TAIL_BYTES)
        before: bytes | None = b""
        for piece in self.pieces(begin):
            if before is None:
                yield piece
                continue
            before += piece
            if len(before) >= place.bytes - begin:
                yield _checked(before[: place.bytes - begin], place)
                if rest := before[place.bytes - begin :]:
                    yield rest
                before = None
        if before is not None:
            if begin + len(before) < place.bytes:
                raise ChangedError
            yield b""


def _checked(tail: bytes, place: Place) -> bytes:
    if zlib.crc32(tail) != place.check:
        raise ChangedError
    return tail


def look(content: Content, place: Place, most: int, limit: int | None = None) -> tuple[Place, bool]:
    """Go on from a place by about `most` bytes, at least one line, to the end of a line; say if the file ends there.

    Only of a packed file can that be told; its last line may have no end. `limit`: up to there the file counts; None:
    all of it. Raises `ChangedError` and `OSError`.
    """
    following = content.after(place)
    tail = next(following)
    pending = b""  # what follows the last end of line; of this and of `tail` the last bytes
    at = end = place.bytes
    stop = place.bytes + most
    for given in following:
        piece = given if limit is None else given[: limit - at]
        while piece:
            if at < stop:
                part = piece[: stop - at]
                cut = part.rfind(b"\n") + 1
            elif end > place.bytes:
                return _place(end, tail), False
            else:
                cut = piece.find(b"\n") + 1
                part = piece[:cut] if cut else piece
            piece = piece[len(part) :]
            if cut:
                tail, pending = (tail + pending + part[:cut])[-TAIL_BYTES:], b""
                end = at + cut
            pending = (pending + part[cut:])[-TAIL_BYTES:]
            at += len(part)
        if limit is not None and at >= limit:
            return _place(end, tail), False
    if content.packed and pending:
        end, tail = at, (tail + pending)[-TAIL_BYTES:]
    return _place(end, tail), content.packed


def _place(end: int, tail: bytes) -> Place:
    lines = tail.split(b"\n")
    if lines[-1] == b"":
        del lines[-1]
    if end > len(tail):
        del lines[0]  # half of one
    last: int | None = None
    follows: int | None = None  # on the last line that says so
    begins = missed = 0
    for number, line in enumerate(reversed(lines)):
        found = _span(line)
        if isinstance(found, Trailer):
            last = found.last if number == 0 else last
        elif found is None:
            missed += 1
        elif follows is None:
            begins, follows = found
            missed = 0
        else:
            if not found[1] <= begins <= found[1] + missed:
                # An entry that is far off must not take the others' place; what is behind a hole finds its own again.
                follows = min(found[1], follows)
            break
    return Place(end, zlib.crc32(tail), follows, last)


def _span(line: bytes) -> tuple[int, int] | Trailer | None:
    """Say with which entry a line begins, and which follows on it; None: it is none, or nothing can follow."""
    try:
        found = glance_line(line + b"\n")
    except LineError:
        return None
    match found:
        case Trailer():
            return found
        case Record(first) | Servers(first):
            last = first
        case Gap(first, last) | Other(first, last):
            pass
        case Header(first=first):
            return first, first
    return (first, last + 1) if last < MAX_INTEGER else None


def going_on(header: bytes, place: Place) -> bytes:
    """Give the first line of a file as it would be if the file began at that place."""
    return header if place.next is None or not place.bytes else _FIRST.sub(b'"first":%d' % place.next, header, count=1)
