"""Files are read up to the damage, in pieces of any size, and too long lines are not kept."""

import gzip
import hashlib
import io
import random
import zlib
from collections.abc import Iterator

import pytest
import zstandard

from gf_i2p.pipeline.read.stored_file import HEAD_BYTES, Lines, Overlong, UnpackedFile
from gf_i2p.storage.history_lines import MAX_LINE_BYTES
from gf_i2p.storage.packed_files import GZIP, ZSTD
from tests.storage.exported_log import zstd

SEED = 7
DATA = b"".join(b"line %d %d\n" % (number, random.Random(SEED + number).getrandbits(64)) for number in range(60_000))


def read(data: bytes, packing: str = GZIP) -> tuple[bytes, UnpackedFile]:
    stored = UnpackedFile(io.BytesIO(data), packing)
    unpacked = b"".join(stored)
    stored.finish()
    assert stored.sha256 == hashlib.sha256(data).hexdigest()
    assert stored.stored_bytes == len(data)
    return unpacked, stored


@pytest.mark.parametrize("data", [b"", b"x", DATA, bytes(5 << 20)])
def test_what_is_whole(data: bytes) -> None:
    assert read(data, "")[0] == data
    for level in (0, 1, 9):
        unpacked, stored = read(gzip.compress(data, level))
        assert unpacked == data
        assert stored.damage is None


def test_members_behind_each_other_and_padding() -> None:
    unpacked, stored = read(gzip.compress(b"one\n") + gzip.compress(b"two\n") + bytes(700))
    assert (unpacked, stored.damage) == (b"one\ntwo\n", None)


def test_a_cut_gzip_gives_all_that_there_is() -> None:
    packed = gzip.compress(DATA)
    for length in (len(packed) - 1, len(packed) - 8, len(packed) // 2, 300_000, 10):
        unpacked, stored = read(packed[:length])
        engine = zlib.decompressobj(31)
        assert unpacked == engine.decompress(packed[:length])
        assert stored.damage == "its gzip is damaged: its end is missing"


def test_a_flipped_bit_costs_what_is_behind_it_only() -> None:
    packed = bytearray(gzip.compress(DATA))
    packed[len(packed) // 2] ^= 0x40
    unpacked, stored = read(bytes(packed))
    same = next(
        (place for place, pair in enumerate(zip(unpacked, DATA, strict=False)) if pair[0] != pair[1]), len(unpacked)
    )
    assert same > len(DATA) // 2 - 100_000
    assert stored.damage is not None
    assert len(packed) // 2 - 1 <= stored.damaged_at <= len(packed)


def test_a_wrong_checksum_is_noticed() -> None:
    packed = bytearray(gzip.compress(DATA))
    packed[-6] ^= 1
    unpacked, stored = read(bytes(packed))
    assert unpacked == DATA
    assert stored.damage == "its gzip is damaged: incorrect data check"


def test_no_gzip_at_all_and_rubbish_behind_it() -> None:
    assert read(DATA)[1].damage == "its gzip is damaged: incorrect header check"
    unpacked, stored = read(gzip.compress(b"one\n") + b"rubbish")
    assert (unpacked, stored.damage) == (b"one\n", "its gzip is damaged: there is something behind its end")


@pytest.mark.parametrize("data", [b"", b"x", DATA, bytes(5 << 20)])
def test_a_whole_file_of_zstandard(data: bytes) -> None:
    unpacked, stored = read(zstd(data), ZSTD)
    assert (unpacked, stored.damage) == (data, None)
    unpacked, stored = read(zstd(data) + zstd(b"more\n"), ZSTD)
    assert (unpacked, stored.damage) == (data + b"more\n", None)


def test_a_cut_file_of_zstandard_gives_what_is_before_the_cut() -> None:
    packed = zstd(DATA)
    for length in (len(packed) - 1, len(packed) // 2, 10, 0):
        unpacked, stored = read(packed[:length], ZSTD)
        assert DATA.startswith(unpacked)
        assert len(unpacked) >= len(DATA) * length // len(packed) - 300_000
        assert stored.damage == "its zstd is damaged: its end is missing"


def test_a_flipped_bit_in_zstandard_is_noticed() -> None:
    packed = bytearray(zstd(DATA))
    packed[len(packed) // 2] ^= 0x40
    unpacked, stored = read(bytes(packed), ZSTD)
    assert DATA[: len(DATA) // 2 - 300_000] == unpacked[: len(DATA) // 2 - 300_000]
    assert stored.damage is not None
    packed = bytearray(zstd(DATA))
    packed[-1] ^= 1
    assert read(bytes(packed), ZSTD)[1].damage == "its zstd is damaged: Restored data doesn't match checksum"


def test_no_zstandard_at_all_and_rubbish_behind_it() -> None:
    assert read(DATA, ZSTD)[1].damage == "its zstd is damaged: Unknown frame descriptor"
    unpacked, stored = read(zstd(b"one\n") + b"rubbish", ZSTD)
    assert (unpacked, stored.damage) == (b"one\n", "its zstd is damaged: there is something behind its end")


def test_a_bomb_of_zstandard_gives_little_at_once() -> None:
    bomb = zstandard.ZstdCompressor(level=1).compress(bytes(200 << 20))
    assert len(bomb) < 10_000
    assert max(map(len, UnpackedFile(io.BytesIO(bomb), ZSTD))) <= 8 << 20
    wide = zstandard.ZstdCompressor(
        compression_params=zstandard.ZstdCompressionParameters(window_log=27, enable_ldm=True)
    ).compressobj()
    packed = wide.compress(DATA) + wide.flush()
    assert read(packed, ZSTD)[1].damage is not None, "this file asks for 128 MiB of memory"


def pieces(data: bytes, size: int) -> Iterator[bytes]:
    for start in range(0, len(data), size):
        yield data[start : start + size]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 100])
def test_lines_whatever_the_pieces(size: int) -> None:
    lines = Lines(pieces(b"a\n\nbcd\nef\ngh", size))
    assert list(lines) == [b"a", b"", b"bcd", b"ef"]
    assert (lines.rest, lines.bytes) == (b"gh", 12)


@pytest.mark.parametrize("size", [100_000, 1 << 20, 9 << 20])
def test_a_line_that_is_too_long_is_not_kept(size: int) -> None:
    long = bytes(MAX_LINE_BYTES * 3 + 1)
    lines = Lines(pieces(b"a\n" + long + b"\nb\nc\n" + long + b"d", size))
    digest = hashlib.md5(long).hexdigest()
    assert list(lines) == [b"a", Overlong(bytes(HEAD_BYTES), len(long), digest), b"b", b"c"]
    assert lines.rest == Overlong(bytes(HEAD_BYTES), len(long) + 1, hashlib.md5(long + b"d").hexdigest())
    assert lines.bytes == 2 * len(long) + 8


def test_a_line_of_just_the_length_is_kept() -> None:
    longest = b"x" * MAX_LINE_BYTES
    first, second = Lines(pieces(longest + b"\n" + longest + b"y\n", 1 << 20))
    assert first == longest
    assert isinstance(second, Overlong)
