"""The envelope of I2CP's payloads: bridges/streaming/envelope.py."""

import gzip
import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridges.streaming.envelope import STREAMING, Envelope, pack_packet, unpack
from bridges.streaming.errors import PacketError
from bridges.streaming.limits import MAX_PACKET

ports = st.integers(0, 65_535)


@given(st.binary(max_size=MAX_PACKET), ports, ports)
def test_what_is_packed_is_unpacked_again_by_us_and_by_gzip(payload: bytes, source: int, destination: int) -> None:
    packed = pack_packet(payload, source, destination)
    assert unpack(packed) == Envelope(payload, source, destination, STREAMING)
    assert gzip.decompress(packed) == payload
    assert len(packed) == len(payload) + 23


def test_the_head_byte_for_byte() -> None:
    assert pack_packet(b"x", 0x0102, 0x0304)[:15] == bytes.fromhex("1f8b0800 0102 0304 02 06 01 0100 feff")


def test_what_another_router_has_compressed_is_unpacked() -> None:
    packed = bytearray(gzip.compress(b"data" * 500, 9))
    struct.pack_into(">HHBB", packed, 4, 7, 8, 2, 17)
    assert unpack(bytes(packed)) == Envelope(b"data" * 500, 7, 8, 17)


def test_a_bomb_is_refused_before_it_goes_off() -> None:
    packer = zlib.compressobj(9, zlib.DEFLATED, 16 + zlib.MAX_WBITS)
    bomb = packer.compress(bytes(30_000_000)) + packer.flush()
    assert len(bomb) < 64_000
    with pytest.raises(PacketError, match="more than 4096 bytes"):
        unpack(bomb)


def test_every_truncation_addition_and_damage_is_refused() -> None:
    good = pack_packet(b"some data", 0, 0)
    for end in range(len(good)):
        with pytest.raises(PacketError):
            unpack(good[:end])
    with pytest.raises(PacketError, match="too early, or too late"):
        unpack(good + b"\0")
    for at in [0, 1, 2, 3, *range(10, len(good))]:  # the others: ports, protocol, an unread byte
        with pytest.raises(PacketError):
            unpack(good[:at] + bytes([good[at] ^ 0xFF]) + good[at + 1 :])


@given(st.binary(max_size=200))
def test_any_bytes_are_refused_or_unpacked(data: bytes) -> None:
    with pytest.raises(PacketError):
        unpack(data)
