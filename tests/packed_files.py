"""The files inside archives and compressed files: tar, zip, wheels, Debian packages, and archives in archives."""

import bz2
import gzip
import io
import lzma
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from typing import Final

import zstandard

MAX_DEPTH: Final = 8
"""Archives in archives that are opened; a package of Debian needs three."""
_AR: Final = b"!<arch>\n"
_AR_HEADER: Final = 60


def packed_files(name: str, data: bytes, depth: int = 0) -> Iterator[tuple[str, bytes]]:
    """Give name and content of each file that is packed in this file, and of none for a file that is no archive.

    The kind follows from the content. Raises `ValueError` for archives that are packed too deep.
    """
    if (unpack := _unpacker(data)) is None:
        if depth:
            yield name, data
        return
    if depth == MAX_DEPTH:
        raise ValueError(f"{name}: more than {MAX_DEPTH} archives in one another")
    for inner, content in unpack(data):
        yield from packed_files(f"{name}!{inner}", content, depth + 1)


def _unpacker(data: bytes) -> Callable[[bytes], Iterator[tuple[str, bytes]]] | None:
    compressed: dict[bytes, Callable[[bytes], bytes]] = {
        b"\x1f\x8b": gzip.decompress,
        b"\xfd7zXZ\0": lzma.decompress,
        b"BZh": bz2.decompress,
        b"\x28\xb5\x2f\xfd": _zstd,
    }
    for magic, decompress in compressed.items():
        if data.startswith(magic):
            return lambda packed: iter([("", decompress(packed))])
    if data.startswith(b"PK\x03\x04"):
        return _zip
    if data.startswith(_AR):
        return _ar
    return _tar if data[257:262] == b"ustar" else None


def _zstd(data: bytes) -> bytes:
    return zstandard.ZstdDecompressor().stream_reader(data, read_across_frames=True).read()


def _zip(data: bytes) -> Iterator[tuple[str, bytes]]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        for name in archive.namelist():
            yield name, archive.read(name)


def _tar(data: bytes) -> Iterator[tuple[str, bytes]]:
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        for member in archive:
            if member.isfile() and (file := archive.extractfile(member)) is not None:
                yield member.name, file.read()


def _ar(data: bytes) -> Iterator[tuple[str, bytes]]:
    """Read the archive of a package of Debian (deb(5), ar(5))."""
    place = len(_AR)
    while place + _AR_HEADER <= len(data):
        header = data[place : place + _AR_HEADER]
        size = int(header[48:58])
        place += _AR_HEADER
        yield header[:16].decode().rstrip(" /"), data[place : place + size]
        place += size + size % 2
