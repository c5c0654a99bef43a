"""Envelope of a packet in an I2CP message: gzip, whose header has ports and protocol (I2CP, "Payload").

1f 8b 08 | flags 1 | source port 2 | destination port 2 | 1 unused | protocol 1 | deflate data | CRC32 4 | length 4
"""

import struct
import zlib
from dataclasses import dataclass, field
from typing import Final

from bridges.streaming.errors import PacketError
from bridges.streaming.limits import MAX_PACKET

STREAMING: Final = 6
"""The protocol's number; 17 to 20 are datagrams."""
_HEAD: Final = struct.Struct(">3sBHHBB")
_MAGIC: Final = b"\x1f\x8b\x08"
_STORED: Final = struct.Struct("<BHH")
"""Head of a deflate block: mark of a last, uncompressed block; the length; the length with inverted bits."""
_TAIL: Final = struct.Struct("<II")
_BEST: Final = 2
"""Value of the unused byte: gzip's mark for the highest compression, which routers send."""
_GZIP: Final = 16 + zlib.MAX_WBITS


@dataclass(frozen=True, slots=True)
class Envelope:
    """An unpacked payload of an I2CP message, with the ports and the protocol from its gzip header."""

    payload: bytes = field(repr=False)
    source_port: int
    destination_port: int
    protocol: int


def pack_packet(payload: bytes, source_port: int, destination_port: int) -> bytes:
    """Pack a streaming packet without compression: most packets are encrypted or compressed already."""
    assert len(payload) < 2**16
    head = _HEAD.pack(_MAGIC, 0, source_port, destination_port, _BEST, STREAMING)
    block = _STORED.pack(1, len(payload), len(payload) ^ 0xFFFF)
    return head + block + payload + _TAIL.pack(zlib.crc32(payload), len(payload))


def unpack(data: bytes) -> Envelope:
    """Unpack a payload. Raises `PacketError`, also for a payload that unpacks to more than a packet's limit."""
    if len(data) < _HEAD.size:
        raise PacketError(f"{len(data)} bytes are too few for a payload")
    magic, flags, source_port, destination_port, _, protocol = _HEAD.unpack_from(data)
    if magic != _MAGIC or flags:
        raise PacketError("a payload is not packed as in I2CP")
    inflater = zlib.decompressobj(_GZIP)
    try:
        payload = inflater.decompress(data, MAX_PACKET + 1)  # zlib checks the checksum, too
    except zlib.error as error:
        raise PacketError(f"a payload is damaged: {error}") from error
    if len(payload) > MAX_PACKET:
        raise PacketError(f"a payload has more than {MAX_PACKET} bytes when it is unpacked")
    if not inflater.eof or inflater.unused_data:
        raise PacketError("a payload ends too early, or too late")
    return Envelope(payload, source_port, destination_port, protocol)
