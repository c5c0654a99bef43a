"""Pings of I2P streaming: bytes only, no I/O and no clock (streaming specification, "Ping").

A ping has the flag ECHO, the sender's destination and signature, and in the field `to` a number that the sender chose.
The answer has ECHO, the same number in the field `from`, and the payload of the ping. Servers of both routers answer
pings by default (`i2p.streaming.answerPings`; Java I2P 2.8.0, i2pd 2.45.1), whatever the service behind them does.
"""

from typing import Final, NamedTuple

from bridges.streaming.envelope import STREAMING, pack_packet, unpack
from bridges.streaming.errors import PacketError
from bridges.streaming.packet import Flag, Packet
from gf_i2p.netdb.private_keys import DestinationKeys

TOKEN_BYTES: Final = 16
"""Bytes of a ping's payload; Java returns 32 at most."""


def ping(keys: DestinationKeys, number: int, token: bytes) -> bytes:
    """Return the I2CP payload of a ping.

    `keys`: of the sending destination. `number`: 1 to 2**32 - 1. `token`: `TOKEN_BYTES` random bytes.
    """
    assert len(token) == TOKEN_BYTES
    flags = Flag.ECHO | Flag.FROM | Flag.SIGNATURE
    packet = Packet(number, 0, flags=flags, payload=token, source=keys.destination)
    return pack_packet(packet.encode(keys.key.sign), 0, 0)


class Echo(NamedTuple):
    """A ping, or the answer to a ping."""

    number: int
    """The ping's number, 1 to 2**32 - 1."""
    token: bytes
    is_answer: bool


def read_echo(payload: bytes) -> Echo | None:
    """Return the ping or the answer that an I2CP payload is; None for any other payload. Verifies no signature."""
    try:
        envelope = unpack(payload)
        packet = Packet.parse(envelope.payload)
    except PacketError:
        return None
    number = packet.to or packet.number
    if envelope.protocol != STREAMING or not packet.flags & Flag.ECHO or not number:
        return None
    return Echo(number, packet.payload, is_answer=not packet.to)
