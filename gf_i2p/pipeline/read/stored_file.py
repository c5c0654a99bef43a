"""Reads and unpacks one file of a history on any file system. Of a damaged file, the readable part is saved."""

import hashlib
import zlib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, Protocol

import pyarrow.fs as pafs

from gf_i2p.storage.history_lines import MAX_LINE_BYTES

HEAD_BYTES: Final = 4 << 10
"""Bytes of a bad line or record that the quarantine keeps."""
_PIECE_BYTES: Final = 256 << 10
_UNPACKED_BYTES: Final = 1 << 20
_GZIP: Final = 31
"""zlib's `wbits` for the format of gzip."""


class Readable(Protocol):
    """A file that is open to be read."""

    def read(self, size: int, /) -> bytes:
        """Return up to `size` bytes; no bytes at the end of the file."""


def file_system(path: str) -> tuple[Any, str]:
    """Return the file system of `path`, and the path on that file system. `path`: absolute, or an address."""
    system, inside = pafs.FileSystem.from_uri(path)
    return system, inside


def open_stored(path: str) -> tuple[Any, bool]:
    """Open a file, or its packed form if the plain file is gone; return also whether the file is packed.

    Raises `OSError`.
    """
    system, inside = file_system(path)
    try:
        return system.open_input_stream(inside, compression=None), path.endswith(".gz")
    except FileNotFoundError:
        if path.endswith(".gz"):
            raise
        return system.open_input_stream(inside + ".gz", compression=None), True


class UnpackedFile:
    """An iterator, to use once, of a file's unpacked bytes. Afterwards the attributes tell how the file ended."""

    def __init__(self, file: Readable, *, packed: bool) -> None:
        """`packed`: whether the file is in gzip's format."""
        self._file = file
        self._packed = packed
        self._sha256 = hashlib.sha256()
        self.stored_bytes = 0
        """Stored bytes that were read, before unpacking."""
        self.damage: str | None = None
        """The reason why the unpacking ended before the end of the file; None: no damage."""
        self.damaged_at = 0
        """Upper bound of the damage's place, in stored bytes from the beginning of the file."""

    @property
    def sha256(self) -> str:
        """Digest of the file as it is stored, in hex."""
        return self._sha256.hexdigest()

    def __iter__(self) -> Iterator[bytes]:
        """Yield the content in pieces of up to about a MiB."""
        if not self._packed:
            while piece := self._read():
                yield piece
            return
        yield from self._unpack()

    def finish(self) -> None:
        """Read the rest of the file, for the digest."""
        while self._read():
            pass

    def _read(self) -> bytes:
        piece = self._file.read(_PIECE_BYTES)
        self._sha256.update(piece)
        self.stored_bytes += len(piece)
        return piece

    def _unpack(self) -> Iterator[bytes]:
        engine = zlib.decompressobj(_GZIP)
        while piece := self._read():
            has_more = True
            while has_more:
                if engine.eof:
                    piece = piece.lstrip(b"\0")  # gzip(1) accepts padding with zeros, too
                    if not piece:
                        break
                    if not piece.startswith(b"\x1f"):
                        self._note_damage("there is something behind its end")
                        return
                    engine = zlib.decompressobj(_GZIP)
                before = engine.copy()
                try:
                    unpacked = engine.decompress(piece, _UNPACKED_BYTES)
                except zlib.error as error:
                    yield _salvage(before, piece)
                    self._note_damage(str(error).rpartition(": ")[2])
                    return
                if unpacked:
                    yield unpacked
                piece = engine.unused_data if engine.eof else engine.unconsumed_tail
                has_more = bool(piece) or (not engine.eof and len(unpacked) == _UNPACKED_BYTES)
        if not engine.eof:
            self._note_damage("its end is missing")

    def _note_damage(self, why: str) -> None:
        self.damage = f"its gzip is damaged: {why}"
        self.damaged_at = self.stored_bytes


def _salvage(engine: Any, piece: bytes) -> bytes:
    """Unpack a piece byte by byte, up to the first byte that is wrong."""
    saved: list[bytes] = []
    with suppress(zlib.error):
        saved.extend(engine.decompress(piece[byte : byte + 1]) for byte in range(len(piece)))
    return b"".join(saved)


@dataclass(frozen=True, slots=True)
class Overlong:
    """A line that is longer than `MAX_LINE_BYTES`, of which only the beginning is kept."""

    head: bytes
    length: int
    digest: str
    """Digest of the whole line: md5 in hex."""


class Lines:
    """An iterator of a file's lines, without line breaks. Afterwards `rest` has the bytes after the last line break."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces = iter(pieces)
        self.rest: bytes | Overlong = b""
        self.bytes = 0
        """Unpacked bytes that were read."""

    def __iter__(self) -> Iterator[bytes | Overlong]:
        """Yield each line without its line break, and an `Overlong` for a line that is too long."""
        rest = bytearray()  # grows in place: a packed file can give single bytes
        for next_piece in self._pieces:
            piece = next_piece
            self.bytes += len(piece)
            if len(rest) > MAX_LINE_BYTES and b"\n" not in piece:
                piece, overlong = self._overlong(bytes(rest + piece))
                if overlong is None:
                    return
                yield overlong
                rest.clear()
            first, *others = piece.split(b"\n")
            rest += first
            if not others:
                continue
            yield _bounded(bytes(rest))
            rest = bytearray(others.pop())
            yield from others if len(piece) <= MAX_LINE_BYTES else map(_bounded, others)
        self.rest = _bounded(bytes(rest))

    def _overlong(self, beginning: bytes) -> tuple[bytes, Overlong | None]:
        """Read an overlong line to its end.

        Return the bytes after the line break, and the line (None: no line break).
        """
        digest, length, head = hashlib.md5(beginning, usedforsecurity=False), len(beginning), beginning[:HEAD_BYTES]
        for piece in self._pieces:
            self.bytes += len(piece)
            part, line_break, rest = piece.partition(b"\n")
            digest.update(part)
            length += len(part)
            if line_break:
                return rest, Overlong(head, length, digest.hexdigest())
        self.rest = Overlong(head, length, digest.hexdigest())
        return b"", None


def _bounded(line: bytes) -> bytes | Overlong:
    if len(line) <= MAX_LINE_BYTES:
        return line
    return Overlong(line[:HEAD_BYTES], len(line), hashlib.md5(line, usedforsecurity=False).hexdigest())
