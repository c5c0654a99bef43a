"""Packets that a real i2pd 2.45.1 client has sent; recorded by `integration/record/streaming.py`."""

import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from bridges.streaming.acceptor import Acceptor
from bridges.streaming.envelope import STREAMING, unpack
from bridges.streaming.errors import PacketError, StreamingError
from bridges.streaming.packet import Flag, Packet, meant_for, signing_key
from bridges.streaming.stream import Stream, StreamState
from gf_i2p.netdb.private_keys import DestinationKeys
from tests.netdb.strategies import NOW

RECORDED = json.loads(Path(__file__).with_name("recorded_streaming.json").read_text("utf-8"))
SERVER = DestinationKeys.generate(random.Random(RECORDED["seed"]).randbytes)
PAYLOADS = [bytes.fromhex(text) for text in RECORDED["payloads"]]
PACKETS = [Packet.parse(unpack(payload).payload) for payload in PAYLOADS]
FIRST = [packet for packet in PACKETS if packet.flags & Flag.SYNCHRONIZE]
NUMBERS = [next(each.to for each in PACKETS if each.number == first.number and each.to) for first in FIRST]
BODIES = (b"", b"a form", bytes(6000))


def known_signature(packet: Packet) -> Callable[[bytes], bytes] | None:
    """Give the sender's recorded signature."""
    signature = packet.raw[packet.signature_at : packet.signature_at + 64]
    return (lambda _: signature) if packet.flags & Flag.SIGNATURE else None


def test_first_packets_say_who_opens_a_stream_and_are_signed() -> None:
    assert len(FIRST) == 3
    for first in FIRST:
        assert first.flags == Flag.SYNCHRONIZE | Flag.FROM | Flag.SIGNATURE | Flag.MAX_PAYLOAD | Flag.NO_ACK
        assert (first.to, first.sequence, first.max_payload) == (0, 0, 1812)
        assert first.source is not None
        assert signing_key(first, NOW) == first.source.signing_key
        assert meant_for(first, SERVER.destination.hash)
        assert first.payload.startswith(b"POST / HTTP/1.1\r\n")
    assert len({first.source for first in FIRST}) == 1


def test_packets_come_to_port_80_and_are_made_again_byte_for_byte() -> None:
    for payload, packet in zip(PAYLOADS, PACKETS, strict=True):
        envelope = unpack(payload)
        assert (envelope.protocol, envelope.source_port, envelope.destination_port) == (STREAMING, 0, 80)
        assert packet.encode(known_signature(packet)) == packet.raw


def test_the_last_packets_are_signed_closes() -> None:
    closes = [packet for packet in PACKETS if packet.flags & Flag.CLOSE]
    assert len(closes) == 3
    for close, first in zip(closes, FIRST, strict=True):
        assert first.source is not None
        close.verify(first.source.signing_key)
        with pytest.raises(PacketError):
            close.verify(SERVER.key.public)


def test_whole_streams_are_served_again() -> None:
    numbers = iter(NUMBERS)
    acceptor = Acceptor(SERVER, lambda count: next(numbers).to_bytes(count, "big"), lambda: float(NOW))
    received: dict[Stream, bytes] = {}
    for payload in PAYLOADS:
        found = acceptor.receive(payload, 1.0)
        assert found is not None
        stream, new = found
        if new:
            stream.write(b"hello", 1.0)
            stream.close(1.0)
        received[stream] = received.get(stream, b"") + stream.read()
    assert [data.partition(b"\r\n\r\n")[2] for data in received.values()] == list(BODIES)
    assert {stream.state for stream in received} == {StreamState.CLOSED}


def test_every_truncation_is_dropped_cleanly() -> None:
    numbers = iter(NUMBERS)
    acceptor = Acceptor(SERVER, lambda count: next(numbers).to_bytes(count, "big"), lambda: float(NOW))
    for payload in PAYLOADS[:2]:
        for end in range(len(payload)):
            with pytest.raises(StreamingError):
                acceptor.receive(payload[:end], 1.0)
    assert acceptor.open == 0
