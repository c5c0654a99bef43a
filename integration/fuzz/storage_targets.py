"""Targets of the storage: lines and files of a history, rows of the log, and a snapshot's file."""

import gzip
import hashlib
import io
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, Final, cast

import zstandard

from gf_i2p.raft.effects import Snapshot
from gf_i2p.storage.entry_chunks import Chunk, pack_chunk, unpack_chunk
from gf_i2p.storage.history_lines import (
    MAX_LINE_BYTES,
    ApplicationLine,
    Header,
    LineError,
    gap_line,
    header_line,
    other_line,
    parse_line,
    read_json,
    record_line,
    restored_line,
    servers_line,
    trailer_line,
)
from gf_i2p.storage.history_reader import HistoryError, Scan
from gf_i2p.storage.packed_files import unpack_zstd
from gf_i2p.storage.snapshot_file import SavedSnapshot, SnapshotFileError
from gf_i2p.wire.entries import Entry, ValueType
from gf_i2p.wire.log_values import ClusterServer, Configuration
from integration.fuzz import samples
from integration.fuzz.target import PIECE_BYTES, Target

HISTORY_TOKENS: Final = (
    b'{"index":', b'"received":', b'"record":{', b'"term":', b'"base64":"', b'{"other":[', b'{"gap":[',
    b'"servers":[', b'{"last":', b'{"restored":[', b'"leader":', b"\n", b"\n ", b"null", b"[", b"{", b"}", b"\\u2028",
    b"\xe2\x80\xa8", b"\\ud800",
)  # fmt: skip


def history_lines() -> list[bytes]:
    """Return the lines of a whole small file."""
    return [
        header_line(Header("farm", 2, 1, samples.NOW_MS)),
        servers_line(1, 1, samples.NOW_MS, (1, 2, 3), 2),
        record_line(2, 1, samples.NOW_MS, b'{"id":1,"x":[1.5,"\xc3\xa9"]}'),
        record_line(3, 1, samples.NOW_MS, b"\xff"),
        other_line(4, 5),
        gap_line(6, 900, (1, 2)),
        gap_line(901, 902),
        restored_line(903, 905, 7, (1, 2)),
        record_line(906, 7, samples.NOW_MS, b"[]"),
        trailer_line(906),
    ]


def _line(data: bytes) -> None:
    parse_line(data)


def _values() -> Iterator[bytes]:
    yield b'{"b":1,"a":[1.0e15,-0,"\\u2028\\ud83d\\ude00",{"x":null}]}'
    yield b" [1E400] "
    yield b"\xff\x00"
    yield b"[" * 101 + b"]" * 101
    yield b"1" * 33


def _value(data: bytes) -> None:
    """The line of any value that a client posts can be read, and has the same value."""
    line = record_line(7, 3, 5, data)
    assert len(line) <= MAX_LINE_BYTES
    assert line.count(b"\n") == 1
    found = parse_line(line)
    assert isinstance(found, ApplicationLine)
    if found.raw is not None:
        assert found.raw == data
    else:
        assert record_line(7, 3, 5, line[line.index(b'"record":') + 9 : line.rindex(b',"term"')]) == line


def _scan(data: bytes) -> None:
    for torn in (False, True):
        for _ in Scan(Path("entries"), io.BytesIO(data), 1, may_be_torn=torn):
            pass


class _Beginning:
    """The beginning of a file: lines up to `PIECE_BYTES`, since the time is limited by the bytes before unpacking."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._left = PIECE_BYTES

    def readline(self, limit: int) -> bytes:
        """Return the next line."""
        line = self._file.readline(limit) if self._left > 0 else b""
        self._left -= len(line)
        return line


def _gzip_scan(data: bytes) -> None:
    with gzip.open(io.BytesIO(data), "rb") as file:
        beginning = cast(BinaryIO, _Beginning(cast(BinaryIO, file)))
        for _ in Scan(Path("entries.gz"), beginning, 1, may_be_torn=False):
            pass


def _zstd_scan(data: bytes) -> None:
    with unpack_zstd(io.BytesIO(data)) as file:
        for _ in Scan(Path("entries.zst"), cast(BinaryIO, _Beginning(file)), 1, may_be_torn=False):
            pass


def zstd_history() -> Iterator[bytes]:
    """Give whole and bomb-like files of Zstandard."""
    lines = history_lines()
    pack = zstandard.ZstdCompressor(level=1, write_checksum=True).compress
    yield pack(b"".join(lines))
    yield b"".join(map(pack, lines))
    yield pack(lines[0] + b" " * (4 << 20))
    yield pack(lines[0] + b"\n" * (1 << 20))


def gzip_history() -> Iterator[bytes]:
    """Give whole and bomb-like files of gzip."""
    lines = history_lines()
    yield gzip.compress(b"".join(lines), mtime=0)
    yield b"".join(gzip.compress(line, mtime=0) for line in lines)
    yield gzip.compress(lines[0] + b" " * (4 << 20), mtime=0)
    yield gzip.compress(lines[0] + b"\n" * (1 << 20), mtime=0)


def _chunk(data: bytes) -> None:
    """The first byte is the number of entries; the checksum is right, unless the number is odd and high."""
    length = data[0] if data else 0
    content = data[1:]
    checksum = zlib.crc32(content, 9) ^ (length > 250)
    entries = unpack_chunk(Chunk(9, length, checksum, content))
    assert pack_chunk(9, entries).data == content


def _chunks() -> Iterator[bytes]:
    entry = Entry(3, ValueType.APPLICATION, b"{}")
    for count in (1, 3):
        yield bytes([count]) + pack_chunk(9, [entry] * count).data


def _snapshot_file(data: bytes) -> None:
    """Read the bytes as they are, and again with the right checksum."""
    try:
        SavedSnapshot.decode(data)
    except SnapshotFileError:
        body = data[:-32]
        saved = SavedSnapshot.decode(body + hashlib.sha256(body).digest())
        assert saved.encode()[:-32] == body


def _snapshot_files() -> Iterator[bytes]:
    configuration = Configuration(17, 1, (ClusterServer(1, "tcp://a.example:1"),))
    yield SavedSnapshot("farm", 1, 9, samples.NOW_MS, 20, Snapshot(20, 8, configuration, b"state")).encode()


def _json(data: bytes) -> Any:
    return read_json(data)


TARGETS: Final = (
    Target(
        "history-line",
        _line,
        (LineError,),
        history_lines,
        HISTORY_TOKENS,
    ),
    Target("history-json", _json, (ValueError, RecursionError), _values, HISTORY_TOKENS),
    Target("history-value", _value, (), _values, HISTORY_TOKENS),
    Target(
        "history-file",
        _scan,
        (HistoryError,),
        lambda: (b"".join(history_lines()), b"".join(history_lines()[:-2]) + b'{"tor'),
        HISTORY_TOKENS,
    ),
    Target("history-gzip", _gzip_scan, (HistoryError,), gzip_history, HISTORY_TOKENS),
    Target("history-zstd", _zstd_scan, (HistoryError,), zstd_history, HISTORY_TOKENS),
    Target(
        "log-row",
        _chunk,
        (ValueError,),
        _chunks,
    ),
    Target(
        "snapshot-file",
        _snapshot_file,
        (SnapshotFileError,),
        _snapshot_files,
    ),
)
