"""The files inside archives and compressed files: tar, zip, wheels, Debian packages, and archives in archives."""

import bz2
import gzip
import io
import lzma
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from typing import IO, Final, Protocol

import zstandard

MAX_DEPTH: Final = 8
"""Archives in archives that are opened; a package of Debian needs three."""
MAX_BYTES: Final = 64 << 20
"""Bytes that one file may hold, with all archives in it unpacked. The record of a release holds some 9 MB."""
_AR: Final = b"!<arch>\n"
_AR_HEADER: Final = 60


def packed_files(name: str, data: bytes) -> Iterator[tuple[str, bytes]]:
    """Give name and content of each file that is packed in this file, and of none for a file that is no archive.

    The kind follows from the content. Raises `ValueError` for archives that are packed too deep, or hold too much.
    """
    return _files(name, data, 0, _Budget(name))


class _Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


class _Budget:
    """How much may still be unpacked. The sizes that an archive states are not believed."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._left = MAX_BYTES

    def read(self, file: _Readable) -> bytes:
        """Read a file to its end."""
        data = file.read(self._left + 1)
        self._left -= len(data)
        if self._left < 0:
            raise ValueError(f"{self._name}: more than {MAX_BYTES} bytes when unpacked")
        return data


def _files(name: str, data: bytes, depth: int, budget: _Budget) -> Iterator[tuple[str, bytes]]:
    if (unpack := _unpacker(data)) is None:
        if depth:
            yield name, data
        return
    if depth == MAX_DEPTH:
        raise ValueError(f"{name}: more than {MAX_DEPTH} archives in one another")
    for inner, content in unpack(data, budget):
        yield from _files(f"{name}!{inner}", content, depth + 1, budget)


def _unpacker(data: bytes) -> Callable[[bytes, _Budget], Iterator[tuple[str, bytes]]] | None:
    compressed: dict[bytes, Callable[[IO[bytes]], _Readable]] = {
        b"\x1f\x8b": lambda packed: gzip.GzipFile(fileobj=packed),
        b"\xfd7zXZ\0": lzma.LZMAFile,
        b"BZh": bz2.BZ2File,
        b"\x28\xb5\x2f\xfd": _zstd,
    }
    for magic, decompress in compressed.items():
        if data.startswith(magic):
            return lambda packed, budget: iter([("", budget.read(decompress(io.BytesIO(packed))))])
    if data.startswith(b"PK\x03\x04"):
        return _zip
    if data.startswith(_AR):
        return _ar
    return _tar if data[257:262] == b"ustar" else None


def _zstd(packed: IO[bytes]) -> _Readable:
    return zstandard.ZstdDecompressor().stream_reader(packed, read_across_frames=True)


def _zip(data: bytes, budget: _Budget) -> Iterator[tuple[str, bytes]]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        for entry in archive.infolist():
            with archive.open(entry) as file:
                yield entry.filename, budget.read(file)


def _tar(data: bytes, budget: _Budget) -> Iterator[tuple[str, bytes]]:
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        for member in archive:
            if member.isfile() and (file := archive.extractfile(member)) is not None:
                yield member.name, budget.read(file)


def _ar(data: bytes, budget: _Budget) -> Iterator[tuple[str, bytes]]:
    """Read the archive of a package of Debian (deb(5), ar(5))."""
    place = len(_AR)
    while place + _AR_HEADER <= len(data):
        header = data[place : place + _AR_HEADER]
        size = int(header[48:58])
        place += _AR_HEADER
        yield header[:16].decode().rstrip(" /"), budget.read(io.BytesIO(data[place : place + size]))
        place += size + size % 2
