"""Packets of I2P streaming: bytes to values and back (streaming specification, "Packet Format").

    to 4 | from 4 | sequence 4 | acknowledged 4 | NACK count 1 | NACKs, 4 each
    resend delay 1 | flags 2 | length of options 2 | options | payload

The options stand in this order: delay, destination, largest payload, offline signature, signature. All numbers are
big-endian.
"""

import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntFlag
from typing import Final, Self

from bridges.streaming.errors import PacketError
from bridges.streaming.limits import MAX_NACKS, MAX_PACKET
from gf_i2p.netdb.byte_reader import Reader
from gf_i2p.netdb.destination import Destination
from gf_i2p.netdb.errors import NetDbError, SignatureError
from gf_i2p.netdb.offline_signature import OfflineSignature
from gf_i2p.netdb.signing import SIGNATURE_BYTES, verify

CHOKE_MS: Final = 60_001
"""A delay of more than 60,000 ms tells the peer to send nothing for now."""
REPLAY_NACKS: Final = 8
"""Number of NACK fields, four bytes each, that hold the receiver's hash in a first packet."""
_HEAD: Final = struct.Struct(">IIIIB")
_TAIL: Final = struct.Struct(">BHH")
_MAX_SEQUENCE: Final = 2**31 - 1
"""i2pd's limit: i2pd reads a signed number."""


class Flag(IntFlag):
    """Flags of a packet."""

    SYNCHRONIZE = 0x001
    CLOSE = 0x002
    RESET = 0x004
    SIGNATURE = 0x008
    SIGNATURE_REQUESTED = 0x010
    FROM = 0x020
    DELAY = 0x040
    MAX_PAYLOAD = 0x080
    INTERACTIVE = 0x100
    ECHO = 0x200
    NO_ACK = 0x400
    OFFLINE_SIGNATURE = 0x800


NO_FLAGS: Final = Flag(0)
_WITH_SIGNATURE: Final = Flag.SYNCHRONIZE | Flag.CLOSE | Flag.RESET


@dataclass(frozen=True, slots=True)
class Packet:
    """One packet. `parse` reads a received packet; `encode` makes the bytes of a packet to send."""

    to: int
    """The receiver's number for the stream (sendStreamId); 0 until the sender knows that number."""
    number: int
    """The sender's own number for the stream (receiveStreamId)."""
    sequence: int = 0
    acknowledged: int = 0
    """All packets up to this number have come, except `nacks`. Meaningless with NO_ACK."""
    nacks: tuple[int, ...] = ()
    flags: Flag = NO_FLAGS
    payload: bytes = field(default=b"", repr=False)
    delay_ms: int | None = None
    source: Destination | None = None
    max_payload: int | None = None
    offline: OfflineSignature | None = None
    resend_delay: int = 0
    """Seconds; neither router reads this field."""
    raw: bytes = field(default=b"", repr=False, compare=False)
    """For a received packet, all its bytes."""
    signature_at: int = field(default=0, compare=False)
    """Position of the signature in `raw`; 0 without a signature."""

    @property
    def plain_ack(self) -> bool:
        """Whether the packet only acknowledges, and needs no acknowledgement."""
        return self.sequence == 0 and not self.flags & Flag.SYNCHRONIZE

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """Read a packet. Raises `PacketError`; nothing is verified yet."""
        if len(data) > MAX_PACKET:
            raise PacketError(f"a packet of {len(data)} bytes is larger than {MAX_PACKET}")
        try:
            return cls._parse(Reader(data, "a packet"))
        except NetDbError as error:
            raise PacketError(str(error)) from error

    @classmethod
    def _parse(cls, reader: Reader) -> Self:
        to, number, sequence, acknowledged, count = _HEAD.unpack(reader.take(_HEAD.size))
        nacks = struct.unpack(f">{count}I", reader.take(4 * count))
        resend_delay, flag_bits, length = _TAIL.unpack(reader.take(_TAIL.size))
        if sequence > _MAX_SEQUENCE:
            raise PacketError(f"a packet has the sequence number {sequence}")
        flags = Flag(flag_bits & 0xFFF)  # the other bits are reserved
        end = reader.position + length
        delay_ms = reader.number(2) if flags & Flag.DELAY else None
        source = Destination.read(reader) if flags & Flag.FROM else None
        max_payload = reader.number(2) if flags & Flag.MAX_PAYLOAD else None
        offline = OfflineSignature.read(reader) if flags & Flag.OFFLINE_SIGNATURE else None
        signature_at = 0
        if flags & Flag.SIGNATURE:
            signature_at = reader.position
            reader.take(SIGNATURE_BYTES)
        if reader.position > end:
            raise PacketError(f"a packet's options of {length} bytes end inside a field")
        reader.take(end - reader.position)  # unknown options
        return cls(
            to,
            number,
            sequence,
            acknowledged,
            nacks,
            flags,
            reader.data[end:],
            delay_ms,
            source,
            max_payload,
            offline,
            resend_delay,
            reader.data,
            signature_at,
        )

    def verify(self, key: bytes) -> None:
        """Check that the received packet is signed by this public key. Raises `PacketError`."""
        if not self.signature_at:
            raise PacketError("a packet that must be signed has no signature")
        end = self.signature_at + SIGNATURE_BYTES
        signed = self.raw[: self.signature_at] + bytes(SIGNATURE_BYTES) + self.raw[end:]
        try:
            verify(key, self.raw[self.signature_at : end], signed)
        except SignatureError as error:
            raise PacketError(f"a packet is not signed by its sender: {error}") from error

    def encode(self, sign: Callable[[bytes], bytes] | None = None) -> bytes:
        """Return the packet's bytes; `flags` must fit the fields. `sign` makes the signature when SIGNATURE is set."""
        assert len(self.nacks) <= MAX_NACKS
        assert bool(self.flags & Flag.SIGNATURE) == (sign is not None)
        assert sign is not None or not self.flags & _WITH_SIGNATURE
        options = b"" if self.delay_ms is None else self.delay_ms.to_bytes(2, "big")
        options += b"" if self.source is None else self.source.data
        options += b"" if self.max_payload is None else self.max_payload.to_bytes(2, "big")
        options += b"" if self.offline is None else self.offline.encode()
        length = len(options) + (SIGNATURE_BYTES if sign is not None else 0)
        head = (
            _HEAD.pack(self.to, self.number, self.sequence, self.acknowledged, len(self.nacks))
            + struct.pack(f">{len(self.nacks)}I", *self.nacks)
            + _TAIL.pack(self.resend_delay, self.flags, length)
            + options
        )
        if sign is None:
            return head + self.payload
        return head + sign(head + bytes(SIGNATURE_BYTES) + self.payload) + self.payload


def signing_key(first: Packet, now: int) -> bytes:
    """Check a stream's first packet, and return the public key that signs the stream's packets.

    `now`: seconds since the epoch, for keys that are good until a date. Raises `PacketError`.
    """
    if first.source is None:
        raise PacketError("a first packet does not name its sender")
    if first.offline is None:
        key = first.source.signing_key
    else:
        try:
            first.offline.verify(first.source, now)
        except SignatureError as error:
            raise PacketError(f"a first packet's key may not sign: {error}") from error
        key = first.offline.key
    first.verify(key)
    return key


def meant_for(first: Packet, hash_: bytes) -> bool:
    """Whether a first packet is for the destination with this hash. Older routers do not name the receiver.

    A packet for another receiver is an attacker's replay (streaming specification, "Replay prevention").
    """
    if len(first.nacks) != REPLAY_NACKS:
        return not first.nacks
    return struct.pack(f">{REPLAY_NACKS}I", *first.nacks) == hash_
