"""Reads and unpacks one file of a history on any file system. Of a damaged file, the readable part is saved."""

import hashlib
import zlib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, Protocol

import pyarrow.fs as pafs
import zstandard

from gf_i2p.storage.history_lines import MAX_LINE_BYTES
from gf_i2p.storage.packed_files import GZIP, MAX_WINDOW_BYTES, SUFFIXES

HEAD_BYTES: Final = 4 << 10
"""Bytes of a bad line or record that the quarantine keeps."""
_PIECE_BYTES: Final = 256 << 10
_UNPACKED_BYTES: Final = 1 << 20
_GZIP_FORMAT: Final = 31
"""zlib's `wbits` for the format of gzip."""
_ZSTD_BEGIN: Final = b"\x28"
"""First byte of a frame of Zstandard."""
_SLICE_BYTES: Final = 256
"""Bytes of Zstandard that are unpacked at once. 4 bytes can stand for 128 KiB, so a bomb gives 8 MiB at once."""


class Readable(Protocol):
    """A file that is open to be read."""

    def read(self, size: int, /) -> bytes:
        """Return up to `size` bytes; no bytes at the end of the file."""


def file_system(path: str) -> tuple[Any, str]:
    """Return the file system of `path`, and the path on that file system. `path`: absolute, or an address.

    Spark's name for S3 is `s3a`, and Arrow's name is `s3`.
    """
    system, inside = pafs.FileSystem.from_uri(f"s3://{path[6:]}" if path.startswith("s3a://") else path)
    return system, inside


def packing_of(path: str) -> str:
    """Return the suffix of a packed file's name (`SUFFIXES`); "" for a plain file."""
    return next((suffix for suffix in SUFFIXES if path.endswith(suffix)), "")


def open_stored(path: str, *, seekable: bool = False) -> tuple[Any, str]:
    """Open a file, or its packed form if the plain file is gone; return also the path of the file that is open.

    `seekable`: whether to open a plain file so that its reader can seek. Raises `OSError`.
    """
    system, inside = file_system(path)
    for suffix in ("",) if packing_of(path) else ("", *SUFFIXES):
        opened = path + suffix
        with suppress(FileNotFoundError):
            if seekable and not packing_of(opened):
                return system.open_input_file(inside), opened
            return system.open_input_stream(inside + suffix, compression=None), opened
    raise FileNotFoundError(f"{path}: the file is gone")


class UnpackedFile:
    """An iterator, to use once, of a file's unpacked bytes. Afterwards the attributes tell how the file ended."""

    def __init__(self, file: Readable, packing: str) -> None:
        """`packing`: see `packing_of`."""
        self._file = file
        self._packing = packing
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
        if self._packing == GZIP:
            yield from self._unpack_gzip()
        elif self._packing:
            yield from self._unpack_zstd()
        else:
            while piece := self._read():
                yield piece

    def finish(self) -> None:
        """Read the rest of the file, for the digest."""
        while self._read():
            pass

    def _read(self) -> bytes:
        piece = self._file.read(_PIECE_BYTES)
        self._sha256.update(piece)
        self.stored_bytes += len(piece)
        return piece

    def _unpack_zstd(self) -> Iterator[bytes]:
        unpacker = zstandard.ZstdDecompressor(max_window_size=MAX_WINDOW_BYTES)
        engine = unpacker.decompressobj()
        for piece in self._slices():
            part = piece
            while part:
                if engine.eof:
                    if not part.startswith(_ZSTD_BEGIN):
                        self._note_damage("there is something behind its end")
                        return
                    engine = unpacker.decompressobj()
                try:
                    unpacked = engine.decompress(part)
                except zstandard.ZstdError as error:
                    self._note_damage(str(error).rpartition(": ")[2])
                    return
                if unpacked:
                    yield unpacked
                part = engine.unused_data
        if not engine.eof:
            self._note_damage("its end is missing")

    def _slices(self) -> Iterator[bytes]:
        while piece := self._read():
            for at in range(0, len(piece), _SLICE_BYTES):
                yield piece[at : at + _SLICE_BYTES]

    def _unpack_gzip(self) -> Iterator[bytes]:
        engine = zlib.decompressobj(_GZIP_FORMAT)
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
                    engine = zlib.decompressobj(_GZIP_FORMAT)
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
        name = "gzip" if self._packing == GZIP else "zstd"
        self.damage = f"its {name} is damaged: {why}"
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
