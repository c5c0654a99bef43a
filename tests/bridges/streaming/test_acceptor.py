"""All streams of a destination: the stream of each packet, and the peer that opens a stream.

bridges/streaming/acceptor.py.
"""

import contextlib
import random
import struct
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bridges.hosting_protocol import StreamLimits
from bridges.streaming import limits
from bridges.streaming.acceptor import Acceptor, StreamRefusedError
from bridges.streaming.envelope import pack_packet
from bridges.streaming.errors import PacketError, StreamingError
from bridges.streaming.packet import Flag, Packet
from bridges.streaming.stream import Stream, StreamState
from gf_i2p.netdb.private_keys import DestinationKeys
from tests.bridges.streaming.streaming_client import CLIENT, CLIENT_DELEGATED, first_packet
from tests.netdb.strategies import KEYS, NOW, entropy
from tests.tier import examples


def acceptor(wall: float = NOW, most: StreamLimits | None = None) -> Acceptor:
    return Acceptor(KEYS, entropy(31), lambda: wall, most=most)


def first(number: int = 77, keys: DestinationKeys = CLIENT, payload: bytes = b"") -> bytes:
    return pack_packet(first_packet(keys, number, payload).encode(keys.key.sign), 0, 0)


def answers(accepting: Acceptor) -> list[Packet]:
    return [Packet.parse(raw) for _, raw in accepting.take()]


def opened(accepting: Acceptor, payload: bytes, now: float = 0.0) -> Stream:
    """Open a stream: by a first packet with data, or by one without and the acknowledgement of its answer."""
    found = accepting.receive(payload, now)
    if found is None:
        (answer,) = answers(accepting)
        found = accepting.receive(pack_packet(Packet(answer.number, answer.to).encode(), 0, 0), now)
    assert found is not None
    assert found[1], "it was not a new one"
    return found[0]


def data(stream: Stream, sequence: int, payload: bytes = b"x") -> bytes:
    return pack_packet(Packet(stream.number, stream.remote_number, sequence, 0, payload=payload).encode(), 0, 0)


def test_packets_find_their_streams() -> None:
    accepting = acceptor()
    one, other = opened(accepting, first(1)), opened(accepting, first(2, CLIENT_DELEGATED))
    assert one.number != other.number
    assert accepting.receive(data(other, 1, b"other"), 0.1) == (other, False)
    assert accepting.receive(data(one, 1, b"one"), 0.1) == (one, False)
    assert (one.read(), other.read()) == (b"one", b"other")
    assert accepting.streams == [one, other]
    with pytest.raises(PacketError, match="to no stream"):
        accepting.receive(pack_packet(Packet(12345, 1, 1, payload=b"x").encode(), 0, 0), 0.1)


def test_ports_are_kept_for_the_answers() -> None:
    stream = opened(acceptor(), pack_packet(first_packet().encode(CLIENT.key.sign), 80, 443))
    assert (stream.peer.port, stream.peer.local_port) == (80, 443)


def test_a_first_packet_that_comes_twice_opens_one_stream() -> None:
    accepting = acceptor()
    stream = opened(accepting, first(payload=b"GET"))
    stream.take()
    assert accepting.receive(first(payload=b"GET"), 1.0) == (stream, False)
    assert len(stream.take()) == 1  # the answer again
    assert accepting.open == 1


def test_a_first_packet_that_somebody_has_recorded_opens_none_again() -> None:
    accepting = acceptor()
    stream = opened(accepting, first())
    stream.reset("over")
    accepting.ended(stream, 1.0)
    assert accepting.open == 0
    with pytest.raises(StreamRefusedError, match="has opened a stream before"):
        accepting.receive(first(), 1.0 + limits.LINGER)
    opened(accepting, first(78), 2.0 + limits.LINGER)
    assert accepting.refused == 1


@pytest.mark.parametrize(
    ("packet", "why"),
    [
        (replace(first_packet(), number=0), "no number for its stream"),
        (replace(first_packet(), sequence=1), "another sequence number than 0"),
        (first_packet(server=CLIENT.destination.hash), "meant for another destination"),
        (replace(first_packet(), source=None, flags=Flag.SYNCHRONIZE | Flag.SIGNATURE), "does not name its sender"),
    ],
)
def test_a_first_packet_that_is_not_right_opens_nothing(packet: Packet, why: str) -> None:
    accepting = acceptor()
    packet = packet if packet.source is None else replace(packet, max_payload=1730)
    packet = packet if packet.source is not None else replace(packet, max_payload=None)
    with pytest.raises(PacketError, match=why):
        accepting.receive(pack_packet(packet.encode(CLIENT.key.sign), 0, 0), 0.0)
    assert accepting.open == 0


def test_nobody_opens_a_stream_as_another() -> None:
    stranger = DestinationKeys.generate(entropy(32))
    with pytest.raises(PacketError, match="not signed by its sender"):
        acceptor().receive(pack_packet(first_packet(CLIENT).encode(stranger.key.sign), 0, 0), 0.0)
    unsigned = Packet(0, 77, flags=Flag.SYNCHRONIZE | Flag.FROM | Flag.SIGNATURE, source=CLIENT.destination)
    raw = bytearray(unsigned.encode(CLIENT.key.sign))
    flags, length = struct.unpack_from(">HH", raw, 18)
    struct.pack_into(">HH", raw, 18, flags & ~Flag.SIGNATURE, length - 64)
    del raw[-64:]
    with pytest.raises(PacketError, match="must be signed"):
        acceptor().receive(pack_packet(bytes(raw), 0, 0), 0.0)
    with pytest.raises(PacketError, match="may not sign"):
        acceptor(NOW + 86_400).receive(first(keys=CLIENT_DELEGATED), 0.0)


def test_other_protocols_and_pings_are_not_served() -> None:
    datagram = bytearray(first())
    datagram[9] = 17
    with pytest.raises(PacketError, match="protocol 17"):
        acceptor().receive(bytes(datagram), 0.0)
    with pytest.raises(PacketError, match="pings"):
        acceptor().receive(pack_packet(Packet(1, 0, flags=Flag.ECHO).encode(), 0, 0), 0.0)


def test_what_overtakes_the_first_packet_is_kept_for_it_but_not_for_long() -> None:
    accepting = acceptor()
    follower = pack_packet(Packet(0, 77, 1, payload=b"second").encode(), 0, 0)
    assert accepting.receive(follower, 0.0) is None
    stream = opened(accepting, first(payload=b"first "), 0.1)
    assert stream.read() == b"first second"
    third = pack_packet(
        Packet(0, 77, 2, payload=b" third").encode(), 0, 0
    )  # the client has not heard the server's number yet
    assert accepting.receive(third, 0.2) == (stream, False)
    assert stream.read() == b" third"

    assert accepting.receive(pack_packet(Packet(0, 78, 1, payload=b"old").encode(), 0, 0), 1.0) is None
    assert opened(accepting, first(78), 1.0 + limits.EARLY).read() == b""
    for number in range(limits.MAX_EARLY):
        accepting.receive(pack_packet(Packet(0, 1000 + number, 1, payload=b"x").encode(), 0, 0), 20.0)
    with pytest.raises(PacketError, match="too many packets wait"):
        accepting.receive(pack_packet(Packet(0, 999, 1, payload=b"x").encode(), 0, 0), 20.0)


def test_streams_have_limits_in_all_and_for_each_client() -> None:
    accepting = acceptor(most=StreamLimits(5, 3))
    streams = [opened(accepting, first(number, payload=b"x")) for number in (1, 2, 3)]
    with pytest.raises(StreamRefusedError, match="the client has 3 streams"):
        accepting.receive(first(4, payload=b"x"), 0.0)
    other = DestinationKeys.generate(entropy(33))
    for number in (1, 2):
        opened(accepting, first(number, other, b"x"))
    with pytest.raises(StreamRefusedError, match="there are 5"):
        accepting.receive(first(3, other, b"x"), 0.0)
    streams[0].reset("over")
    accepting.ended(streams[0], 1.0)
    assert (accepting.open, accepting.refused) == (4, 2)
    opened(accepting, first(5, payload=b"x"), 1.0)


def test_data_has_a_limit_of_all_streams_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_BUFFERED", 20_000)
    accepting = acceptor()
    stream = opened(accepting, first())
    for sequence in range(1, 200):
        with contextlib.suppress(PacketError):
            accepting.receive(data(stream, sequence, bytes(4000)), 0.1)
    assert 20_000 <= stream.buffered < 64 * 4100
    with pytest.raises(PacketError, match="no room for more data"):
        accepting.receive(data(stream, 65, bytes(4000)), 0.1)
    with pytest.raises(StreamRefusedError, match="the other streams hold too much"):
        accepting.receive(first(78, payload=b"x"), 0.1)


def test_when_no_more_are_taken_the_open_ones_go_on() -> None:
    accepting = acceptor()
    stream = opened(accepting, first())
    accepting.accepts_streams = False
    with pytest.raises(StreamRefusedError, match="no new streams are taken"):
        accepting.receive(first(78), 0.1)
    accepting.receive(data(stream, 1), 0.1)
    assert stream.read() == b"x"


@given(st.integers(0, 2**32))
@settings(max_examples=examples(60))
def test_whatever_comes_is_taken_or_dropped_and_limits_hold(seed: int) -> None:
    """Packets of every kind for known and unknown streams, some signed, some damaged."""
    chance = random.Random(seed)
    accepting = acceptor()
    streams = [opened(accepting, first(number)) for number in (1, 2, 3)]
    now = 0.0
    for _ in range(150):
        now += chance.choice([0.0, 0.01, 1.0, 30.0])
        known = chance.choice(streams)
        flags = Flag(chance.choice([0, 0, 0, Flag.NO_ACK, Flag.CLOSE, Flag.RESET, Flag.SYNCHRONIZE, Flag.DELAY]))
        signed = flags & (Flag.CLOSE | Flag.RESET | Flag.SYNCHRONIZE)
        packet = Packet(
            chance.choice([known.number, known.number, 0, chance.randrange(2**32)]),
            chance.choice([known.remote_number, known.remote_number, 0, 9]),
            chance.choice([0, 1, 2, 3, chance.randrange(600), 2**31 - 1]),
            chance.choice([0, 1, chance.randrange(2**32)]),
            tuple(chance.randrange(20) for _ in range(chance.randrange(3))),
            flags | (Flag.SIGNATURE if signed else Flag(0)),
            bytes(chance.choice([0, 1, 3000])),
            delay_ms=chance.choice([0, 65_535]) if flags & Flag.DELAY else None,
        )
        raw = bytearray(packet.encode(chance.choice([CLIENT, KEYS]).key.sign if signed else None))
        if chance.random() < 0.2:
            raw[chance.randrange(len(raw))] ^= 1 << chance.randrange(8)
        with contextlib.suppress(StreamingError):
            accepting.receive(pack_packet(bytes(raw), 0, 0), now)
        for stream in streams:
            if chance.random() < 0.3:
                stream.write(bytes(min(stream.room, 5000)), now)
            if chance.random() < 0.02:
                stream.close(now)
            stream.tick(now)
            for out in stream.take():
                Packet.parse(out)
            if stream.state is not StreamState.OPEN:
                accepting.ended(stream, now)
            assert stream.buffered <= 2 * limits.MAX_UNREAD + limits.MAX_UNSENT + (limits.MAX_WINDOW + 1) * 4096
            assert stream.state is not StreamState.OPEN or (stream.due is not None and stream.due > now)


def test_an_ended_stream_answers_for_a_while_and_is_forgotten() -> None:
    accepting = acceptor()
    stream = opened(accepting, first())
    stream.close(0.1)
    close = Packet(stream.number, 77, 1, 1, flags=Flag.CLOSE | Flag.SIGNATURE).encode(CLIENT.key.sign)
    accepting.receive(pack_packet(close, 0, 0), 0.2)
    assert stream.state is StreamState.CLOSED
    accepting.ended(stream, 0.2)
    stream.take()
    assert accepting.receive(pack_packet(close, 0, 0), 0.3) is None
    assert [packet.acknowledged for packet in answers(accepting)] == [1]
    with pytest.raises(PacketError, match="to no stream"):
        accepting.receive(pack_packet(close, 0, 0), 0.2 + limits.LINGER)
