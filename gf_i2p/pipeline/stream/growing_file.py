"""Reads a history's file that grows: finds the end of the whole lines, and notices if bytes read before have changed.

A place in a file (`ReadPosition`) is the end of a line, as a number of bytes of the unpacked content. A place has a
checksum of the bytes before the place, because these bytes may change. At the next start, a node that was killed cuts
the newest file after the last synced byte, and then writes other bytes. A reader that finds another checksum reads the
file from the beginning.
"""

import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Self

from gf_i2p.pipeline.read.stored_file import UnpackedFile, open_stored, packing_of
from gf_i2p.storage.history_lines import (
    ApplicationLine,
    ConfigurationLine,
    Gap,
    Header,
    LineError,
    Other,
    Trailer,
    parse_line,
)
from gf_i2p.wire.limits import MAX_INTEGER

TAIL_BYTES: Final = 64 << 10
"""Bytes before a place that the checksum covers. These bytes hold some lines, so that the next entry is known."""
_PIECE_BYTES: Final = 256 << 10
_FIRST: Final = re.compile(rb'"first":[0-9]{1,19}')


@dataclass(frozen=True, slots=True)
class ReadPosition:
    """How far a file was read: bytes of its content."""

    bytes: int = 0
    check: int = 0
    """CRC-32 of up to `TAIL_BYTES` bytes before the place."""
    next: int | None = None
    """Index of the entry that should follow; None: the lines before the place do not tell."""
    last: int | None = None
    """Index of the file's last entry; None: the file's closing line was not read yet."""


class ChangedError(Exception):
    """The file no longer has the bytes that were read."""


class Content:
    """The unpacked content of a file."""

    def __init__(self, path: str) -> None:
        """`path`: the plain or the packed file. If the node has packed the plain file since, the packed file is read.

        Raises `OSError`.
        """
        self._stored: UnpackedFile | None = None
        self._file, self.path = open_stored(path, seekable=True)
        self.packing = packing_of(self.path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    @property
    def damage(self) -> str | None:
        """The reason why a packed file could not be unpacked to the end; None: no damage in the bytes read so far."""
        return None if self._stored is None else self._stored.damage

    def pieces(self, begin: int) -> Iterator[bytes]:
        """Yield the content from the byte `begin` on, in pieces of up to about a MiB. Call this once."""
        if not self.packing:
            self._file.seek(min(begin, self._file.size()))
            while piece := self._file.read(_PIECE_BYTES):
                yield piece
            return
        self._stored = UnpackedFile(self._file, self.packing)
        at = 0
        for piece in self._stored:
            if at + len(piece) > begin:
                yield piece[max(begin - at, 0) :]
            at += len(piece)

    def after(self, place: ReadPosition) -> Iterator[bytes]:
        """Yield the bytes that a place's checksum covers, perhaps none; then yield the bytes that follow, in pieces.

        Raises `ChangedError` if the checksum does not match. Use once.
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


def _checked(tail: bytes, place: ReadPosition) -> bytes:
    if zlib.crc32(tail) != place.check:
        raise ChangedError
    return tail


def look(content: Content, place: ReadPosition, most: int, limit: int | None = None) -> tuple[ReadPosition, bool]:
    """Find the end of a line about `most` bytes after a place. Tell whether the file ends there.

    The range has at least one line. Only a packed file ends, because a plain file may grow. A packed file's last line
    may lack the line break. `limit`: bytes of the file that count; None: all. Raises `ChangedError` and `OSError`.
    """
    following = content.after(place)
    tail = next(following)
    pending = b""  # the bytes after the last end of a line; of `pending` and `tail`, only the last bytes are kept
    at = end = place.bytes
    stop = place.bytes + most
    for next_piece in following:
        piece = next_piece if limit is None else next_piece[: limit - at]
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
    if content.packing and pending:
        end, tail = at, (tail + pending)[-TAIL_BYTES:]
    return _place(end, tail), bool(content.packing)


def _place(end: int, tail: bytes) -> ReadPosition:
    lines = tail.split(b"\n")
    if lines[-1] == b"":
        del lines[-1]
    if end > len(tail):
        del lines[0]  # half of a line
    last: int | None = None
    follows: int | None = None  # the entry after the last line with an index
    begins = unknown_lines = 0
    for number, line in enumerate(reversed(lines)):
        span = _span(line)
        if isinstance(span, Trailer):
            last = span.last if number == 0 else last
        elif span is None:
            unknown_lines += 1
        elif follows is None:
            begins, follows = span
            unknown_lines = 0
        else:
            if not span[1] <= begins <= span[1] + unknown_lines:
                # One wrong index must not decide: the lower index counts. After a real gap, `Walk` goes on by itself.
                follows = min(span[1], follows)
            break
    return ReadPosition(end, zlib.crc32(tail), follows, last)


def _span(line: bytes) -> tuple[int, int] | Trailer | None:
    """Return the index of a line's first entry, and the index that the next line begins with; or a `Trailer`.

    None: the text is no line of a history, or its last index is the largest index, `MAX_INTEGER`.
    """
    try:
        entry = parse_line(line)
    except LineError:
        return None
    match entry:
        case Trailer():
            return entry
        case ApplicationLine(first) | ConfigurationLine(first):
            last = first
        case Gap(first, last) | Other(first, last):
            pass
        case Header(first=first):
            return first, first
    return (first, last + 1) if last < MAX_INTEGER else None


def going_on(header: bytes, place: ReadPosition) -> bytes:
    """Return the file's first line, changed as if the file began at a place."""
    return header if place.next is None or not place.bytes else _FIRST.sub(b'"first":%d' % place.next, header, count=1)
