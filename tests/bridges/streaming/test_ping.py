"""Pings of streaming: bridges/streaming/ping.py. The expected bytes follow Java I2P 2.8.0 and i2pd 2.45.1."""

import struct

from hypothesis import given
from hypothesis import strategies as st

from bridges.streaming.envelope import pack_packet, unpack
from bridges.streaming.packet import Flag, Packet, signing_key
from bridges.streaming.ping import TOKEN_BYTES, Echo, ping, read_echo
from tests.netdb.strategies import KEYS, NOW

TOKEN = bytes(range(TOKEN_BYTES))


def pong(number: int, token: bytes) -> bytes:
    """Give the answer as i2pd writes it: zeros, the ping's number as the answerer's, ECHO, the payload."""
    return pack_packet(struct.pack(">II", 0, number) + bytes(10) + struct.pack(">HH", 0x200, 0) + token, 0, 0)


def test_a_ping_names_and_proves_its_sender() -> None:
    packet = Packet.parse(unpack(ping(KEYS, 7, TOKEN)).payload)
    assert (packet.to, packet.number, packet.sequence, packet.payload) == (7, 0, 0, TOKEN)
    assert packet.flags == Flag.ECHO | Flag.FROM | Flag.SIGNATURE
    assert packet.source == KEYS.destination
    assert signing_key(packet, NOW) == KEYS.destination.signing_key


def test_an_answer_is_read_and_nothing_else_is_taken_for_one() -> None:
    assert read_echo(pong(7, TOKEN)) == Echo(7, TOKEN, is_answer=True)
    assert read_echo(pong(0, TOKEN)) is None
    assert read_echo(pack_packet(Packet(0, 7, payload=TOKEN).encode(), 0, 0)) is None, "no ECHO"
    assert read_echo(pong(7, TOKEN)[:-1]) is None
    assert read_echo(b"") is None


def test_a_ping_is_read_and_nothing_else_is_taken_for_one() -> None:
    assert read_echo(ping(KEYS, 7, TOKEN)) == Echo(7, TOKEN, is_answer=False)
    assert read_echo(pack_packet(Packet(7, 0, payload=TOKEN).encode(), 0, 0)) is None, "no ECHO"
    assert read_echo(ping(KEYS, 7, TOKEN)[:-1]) is None


@given(st.binary(max_size=200))
def test_any_bytes_are_an_answer_or_none(data: bytes) -> None:
    read_echo(data)
    read_echo(pack_packet(data, 0, 0))
