"""The packed forms of a history's file: Zstandard (RFC 8878), and gzip, which earlier versions wrote.

Level 1 of Zstandard costs least for each byte saved. 22 MB of status records: level 1 packs 1,130 MB/s to 1/18.6, gzip
(level 6) 120 MB/s to 1/16.8. 29 MB of random values of 1 KiB: 634 MB/s to 1/1.38, gzip 37 MB/s to 1/1.37. Higher levels
save up to 6 % more, for five to twenty times the time. A frame ends with a checksum of its content.
"""

import gzip
import io
import zlib
from pathlib import Path
from typing import BinaryIO, Final, cast

import zstandard

ZSTD: Final = ".zst"
GZIP: Final = ".gz"
SUFFIXES: Final = (ZSTD, GZIP)
"""The suffixes of packed files. The node writes files with the first suffix."""
DAMAGED: Final = (EOFError, zlib.error, gzip.BadGzipFile, zstandard.ZstdError)
"""The errors of reading a packed file that is damaged."""
MAX_WINDOW_BYTES: Final = 8 << 20
"""Most memory that a packed file may ask of its reader. Level 1 asks for 512 KiB."""
_LEVEL: Final = 1


def packer() -> "zstandard.ZstdCompressionObj":
    """Return an object that packs: call `compress` for each piece, and `flush` at the end."""
    return zstandard.ZstdCompressor(level=_LEVEL, write_checksum=True).compressobj()


def open_packed(path: Path) -> BinaryIO:
    """Open a packed file to read its content. Reading raises one of `DAMAGED`; `OSError` also comes from the disk.

    A file of Zstandard whose end is missing just ends early.
    """
    return cast(BinaryIO, gzip.open(path, "rb")) if path.suffix == GZIP else unpack_zstd(path.open("rb"))


def unpack_zstd(file: BinaryIO) -> BinaryIO:
    """Return the content of a file of Zstandard; closing the content closes the file. See `open_packed`."""
    unpacker = zstandard.ZstdDecompressor(max_window_size=MAX_WINDOW_BYTES)
    reader = unpacker.stream_reader(file, read_across_frames=True)
    return cast(BinaryIO, io.BufferedReader(cast(io.RawIOBase, reader)))
