"""One stream, I/O-free: bridges/streaming/stream.py and its halves."""

import random
from dataclasses import replace
from functools import partial

import pytest

from bridges.streaming import limits
from bridges.streaming.errors import PacketError
from bridges.streaming.packet import CHOKE_MS, Flag, Packet
from bridges.streaming.stream import Stream, StreamPeer, StreamState
from gf_i2p.netdb.private_keys import DestinationKeys
from tests.bridges.streaming.streaming_client import CLIENT, Client, Network, ended, first_packet
from tests.netdb.strategies import DELEGATED, KEYS

PEER = StreamPeer(CLIENT.destination, CLIENT.key.public, 0, 0)
OURS, THEIRS = 5, 77


def opened(now: float = 0.0, keys: DestinationKeys = KEYS, first: Packet | None = None) -> Stream:
    stream = Stream(keys, PEER, first or first_packet(), OURS, now)
    if first is None:
        stream.take()
    return stream


def taken(stream: Stream) -> list[Packet]:
    return [Packet.parse(data) for data in stream.take()]


def data(sequence: int, payload: bytes = b"x", through: int = 0, **fields: object) -> Packet:
    packet = Packet(OURS, THEIRS, sequence, through, (), payload=payload)
    return Packet.parse(replace(packet, **fields).encode())  # type: ignore[arg-type]


def ack(through: int, *nacks: int, delay_ms: int | None = None) -> Packet:
    flags = Flag(0) if delay_ms is None else Flag.DELAY
    return Packet.parse(Packet(OURS, THEIRS, 0, through, nacks, flags, delay_ms=delay_ms).encode())


def signed(flag: Flag, sequence: int, keys: DestinationKeys = CLIENT, number: int = THEIRS) -> Packet:
    return Packet.parse(Packet(OURS, number, sequence, 0, flags=flag | Flag.SIGNATURE).encode(keys.key.sign))


# Whole conversations ------------------------------------------------------------------------------------------------


def converse(seed: int, inward: bytes, outward: bytes, **network: float) -> tuple[Stream, Client, bytearray, Network]:
    """Let a client and a stream exchange all packets, and move the clock whenever both wait."""
    net = Network(seed, **network)
    client = Client(inward)
    streams: list[Stream] = []
    received = bytearray()
    left = bytearray(outward)

    def to_server(raw: bytes) -> None:
        packet = Packet.parse(raw)
        if not streams:
            if packet.flags & Flag.SYNCHRONIZE:
                streams.append(Stream(KEYS, PEER, packet, OURS, net.now))
        else:
            streams[0].receive(packet, net.now)
        serve()

    def serve() -> None:
        for stream in streams:
            received.extend(stream.read())
            while left and stream.room:
                piece = bytes(left[: min(stream.room, 5000)])
                del left[: len(piece)]
                stream.write(piece, net.now)
            if not left and stream.ended:
                stream.close(net.now)
            for raw in stream.take():
                net.carry(partial(to_client, raw))

    def to_client(raw: bytes) -> None:
        client.receive(raw, net.now)
        flush()

    def flush() -> None:
        for raw in client.outgoing:
            net.carry(partial(to_server, raw))
        client.outgoing.clear()

    def clock() -> None:
        client.tick(net.now)
        flush()
        for stream in streams:
            if stream.due is not None and stream.due <= net.now:
                stream.tick(net.now)
        serve()
        net.at(net.now + 0.01, clock)

    client.start(net.now)
    flush()
    clock()
    end = net.now + 500
    while net.now < end and not (streams and streams[0].state is not StreamState.OPEN and client.done):
        net.step()
    assert streams, f"seed {seed}: never opened"
    return streams[0], client, received, net


@pytest.mark.parametrize("seed", range(12))
def test_everything_arrives_once_and_in_order_whatever_the_network_does(seed: int) -> None:
    chance = random.Random(seed)
    inward, outward = chance.randbytes(chance.randrange(60_000)), chance.randbytes(chance.randrange(200_000))
    loss, doubled = chance.choice([0.0, 0.02, 0.15]), chance.choice([0.0, 0.1])
    print(f"seed {seed}: in {len(inward)}, out {len(outward)}, loss {loss}, doubled {doubled}")
    stream, client, received, _ = converse(seed, inward, outward, loss=loss, doubled=doubled)
    assert received == inward
    assert client.received == outward
    assert (stream.state, stream.reason, client.reset) == (StreamState.CLOSED, "", False)
    assert stream.buffered == 0


def test_a_network_that_loses_and_mixes_up_nothing_needs_no_packet_twice_and_little_time() -> None:
    outward = random.Random(1).randbytes(2_000_000)
    _, client, _, net = converse(1, b"GET", outward, mixed=1.0)
    assert client.received == outward
    packets = len(outward) // 1730 + 1
    assert net.sent < 2.2 * packets  # each one, and its acknowledgement
    assert net.now - 1000 < 5


def test_a_peer_that_is_gone_is_given_up() -> None:
    stream = opened()
    stream.receive(ack(0), 0.1)
    stream.write(b"x", 0.1)
    now, sent = 0.1, len(stream.take())
    while stream.state is StreamState.OPEN:
        assert stream.due is not None
        assert stream.due > now
        now = stream.due
        stream.tick(now)
        sent += len([packet for packet in taken(stream) if not packet.flags & Flag.RESET])
    assert (stream.state, sent) == (StreamState.RESET, limits.MAX_ATTEMPTS)
    assert "has not acknowledged" in stream.reason
    assert 20 < now < 300


# The first packet ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("keys", [KEYS, DELEGATED], ids=["own key", "transient key"])
def test_the_answer_to_the_first_packet_is_signed_and_says_who_we_are(keys: DestinationKeys) -> None:
    stream = opened(keys=keys, first=first_packet(payload=b"GET"))
    (answer,) = taken(stream)
    answer.verify(keys.key.public)
    assert (answer.to, answer.number, answer.sequence, answer.acknowledged) == (THEIRS, OURS, 0, 0)
    assert answer.flags & Flag.SYNCHRONIZE
    assert not answer.flags & Flag.NO_ACK
    assert (answer.source, answer.offline, answer.max_payload) == (keys.destination, keys.offline, limits.MAX_PAYLOAD)
    assert stream.read() == b"GET"


def test_a_first_packet_that_comes_again_gets_its_answer_again_until_that_is_acknowledged() -> None:
    stream = opened(first=first_packet())
    (answer,) = stream.take()
    again = Packet.parse(first_packet().encode(CLIENT.key.sign))
    stream.receive(again, 1.0)
    assert stream.take() == [answer]
    stream.receive(ack(0), 1.1)
    stream.receive(again, 1.2)
    assert stream.take() == []


def test_the_peer_s_largest_payload_is_heeded_within_reason() -> None:
    for wish, size in [(1000, 1000), (1, limits.MIN_PAYLOAD), (60_000, limits.MAX_PAYLOAD), (None, limits.MAX_PAYLOAD)]:
        stream = opened(first=replace(first_packet(), max_payload=wish))
        stream.take()
        stream.write(bytes(4000), 0.1)
        assert len(taken(stream)[0].payload) == size


# Incoming packets ---------------------------------------------------------------------------------------------------


def test_what_is_missing_is_asked_for_and_nothing_is_given_out_of_turn() -> None:
    stream = opened()
    stream.receive(data(1, b"a"), 0.1)
    stream.receive(data(4, b"d"), 0.1)
    stream.receive(data(3, b"c"), 0.1)
    assert stream.read() == b"a"
    assert [(each.acknowledged, each.nacks) for each in taken(stream)] == [(4, (2, 3)), (4, (2,))]
    stream.receive(data(2, b"b"), 0.2)
    stream.receive(data(3, b"C"), 0.2)
    assert stream.read() == b"bcd"
    assert taken(stream)[-1].acknowledged == 4


def test_an_acknowledgement_waits_a_little_for_company() -> None:
    stream = opened()
    stream.receive(data(1), 0.0)
    assert stream.take() == []
    assert stream.due == limits.ACK_DELAY
    stream.tick(limits.ACK_DELAY)
    assert [each.acknowledged for each in taken(stream)] == [1]
    stream.receive(data(2), 1.0)
    stream.write(b"answer", 1.0)
    assert [(each.acknowledged, each.payload) for each in taken(stream)] == [(2, b"answer")]
    for sequence in range(3, 3 + limits.ACK_EVERY):
        stream.receive(data(sequence), 2.0)
    assert len(stream.take()) == 1


def test_a_peer_that_sends_more_than_is_read_is_told_to_wait_and_then_to_go_on() -> None:
    stream = opened()
    sequence = 0
    while stream.buffered < limits.MAX_UNREAD:
        sequence += 1
        stream.receive(data(sequence, bytes(4000)), 0.1)
    stream.take()
    for more in range(1, 500):
        stream.receive(data(sequence + more, bytes(4000)), 0.2)
    assert stream.buffered < limits.MAX_UNREAD + 4000
    last = taken(stream)[-1]
    assert (last.acknowledged, last.delay_ms) == (sequence, CHOKE_MS)
    assert len(stream.read()) == sequence * 4000
    (told,) = taken(stream)
    assert (told.acknowledged, told.delay_ms) == (sequence, None)


def test_what_comes_far_ahead_is_not_kept() -> None:
    stream = opened()
    stream.receive(data(limits.MAX_AHEAD + 1, bytes(1000)), 0.1)
    assert stream.buffered == 0
    for sequence in range(2, limits.MAX_AHEAD + 1):
        stream.receive(data(sequence, bytes(4000)), 0.1)
    assert stream.buffered <= limits.MAX_UNREAD
    assert all(len(each.nacks) <= limits.MAX_NACKS for each in taken(stream))


def test_more_gaps_than_can_be_named_are_named_in_part() -> None:
    stream = opened()
    for sequence in range(3, limits.MAX_AHEAD, 3):
        stream.receive(data(sequence), 0.1)
    last = taken(stream)[-1]
    assert len(last.nacks) <= limits.MAX_NACKS
    kept = set(range(3, limits.MAX_AHEAD, 3))
    assert all(number in kept or number in last.nacks for number in range(1, last.acknowledged + 1))


def test_the_end_and_a_reset_are_only_the_peer_s_to_say() -> None:
    stream = opened()
    for flag in (Flag.CLOSE, Flag.RESET):
        with pytest.raises(PacketError, match="not signed by its sender"):
            stream.receive(signed(flag, 1, KEYS), 0.1)
        with pytest.raises(PacketError, match="another stream's number"):
            stream.receive(signed(flag, 1, number=THEIRS + 1), 0.1)
    assert (stream.state, stream.ended) == (StreamState.OPEN, False)
    stream.receive(signed(Flag.RESET, 1, number=0), 0.1)
    assert (stream.state, stream.reason) == (StreamState.RESET, "the client has reset the stream")


def test_a_word_about_packets_that_were_never_sent_changes_nothing() -> None:
    stream = opened()
    stream.write(b"x", 0.1)
    stream.take()
    stream.receive(ack(2**32 - 1), 0.2)
    stream.receive(Packet.parse(Packet(0, THEIRS, 1, 1, payload=b"y").encode()), 0.2)  # without the stream's number
    stream.tick(0.1 + limits.FIRST_TIMEOUT)
    assert b"x" in [each.payload for each in taken(stream)]


# Outgoing packets ---------------------------------------------------------------------------------------------------


def test_a_packet_that_is_asked_for_twice_is_sent_at_once() -> None:
    stream = opened()
    stream.receive(ack(0), 0.1)
    stream.write(bytes(5 * limits.MAX_PAYLOAD), 0.1)
    stream.take()
    stream.receive(ack(3, 2), 0.2)
    assert stream.take() == []
    stream.receive(ack(4, 2), 0.2)
    assert [each.sequence for each in taken(stream)] == [2]
    stream.receive(ack(5, 2), 0.21)
    stream.receive(ack(5, 2), 0.21)
    assert stream.take() == []  # the number may be on the way


def test_a_packet_that_was_sent_twice_says_nothing_about_the_round_trip() -> None:
    stream = opened()
    stream.receive(ack(0), 0.1)
    assert stream._sender.round_trip.smoothed == 0.1
    stream.write(b"x", 1.0)
    assert stream.due is not None
    stream.tick(stream.due)
    stream.receive(ack(1), 50.0)
    assert stream._sender.round_trip.smoothed == 0.1
    assert stream._sender.round_trip.timeout == limits.MIN_TIMEOUT  # but the way is open again


def test_the_window_holds_what_is_not_acknowledged() -> None:
    stream = opened()
    stream.receive(ack(0), 0.1)
    first = len(taken(stream))
    stream.write(bytes(limits.MAX_UNSENT), 0.1)
    sent = len(taken(stream)) - first
    assert limits.FIRST_WINDOW <= sent <= limits.FIRST_WINDOW + 2
    assert stream.room < limits.MAX_UNSENT
    stream.receive(ack(sent), 0.2)
    assert sent < len(taken(stream)) <= 2 * sent + 2


def test_a_peer_that_is_choked_gets_one_packet_at_a_time() -> None:
    stream = opened()
    stream.receive(ack(0, delay_ms=CHOKE_MS), 0.1)
    stream.write(bytes(10 * 1730), 0.1)  # ten packets
    assert len(stream.take()) == 1
    stream.receive(ack(1, delay_ms=CHOKE_MS), 0.2)
    assert len(stream.take()) == 1
    stream.receive(ack(2), 0.3)
    assert len(stream.take()) == 8


# Ends ---------------------------------------------------------------------------------------------------------------


def test_the_end_is_said_after_all_data_and_ends_the_stream_when_both_have_said_it() -> None:
    stream = opened()
    stream.receive(ack(0), 0.1)
    stream.write(b"bye", 0.1)
    stream.close(0.1)
    sent = taken(stream)
    assert [each.payload for each in sent] == [b"bye", b""]
    assert sent[1].flags & Flag.CLOSE
    sent[1].verify(KEYS.key.public)
    stream.receive(ack(2), 0.2)
    assert not ended(stream)  # the client may have more to say
    stream.receive(signed(Flag.CLOSE, 1), 0.3)
    assert stream.state is StreamState.CLOSED
    assert taken(stream)[-1].acknowledged == 1
    stream.receive(signed(Flag.CLOSE, 1), 0.4)
    assert taken(stream)[-1].acknowledged == 1  # the client has missed the acknowledgement


def test_a_peer_that_forgets_a_closed_stream_does_not_keep_it_open() -> None:
    stream = opened()
    stream.receive(ack(0), 0.1)
    stream.close(0.1)
    stream.receive(ack(1), 0.2)
    assert stream.due == 0.2 + limits.LINGER
    stream.tick(stream.due)
    assert stream.state is StreamState.CLOSED
    silent = opened()
    silent.receive(ack(0), 0.1)
    silent.close(0.1)
    while silent.due is not None:
        silent.tick(silent.due)
    assert (silent.state, silent.reason) == (StreamState.CLOSED, "")


def test_a_reset_is_signed_and_final() -> None:
    stream = opened()
    stream.write(b"x", 0.1)
    stream.take()
    stream.reset("because")
    (packet,) = taken(stream)
    packet.verify(KEYS.key.public)
    assert packet.flags & Flag.RESET
    assert (stream.state, stream.reason, stream.due, stream.room) == (StreamState.RESET, "because", None, 0)
    stream.close(0.2)
    stream.receive(data(1), 0.2)
    assert stream.take() == []


def test_an_idle_stream_is_reset() -> None:
    stream = opened()
    stream.receive(ack(0), 1.0)
    assert stream.due == 1.0 + limits.IDLE
    stream.tick(stream.due - 1)
    assert not ended(stream)
    stream.tick(stream.due)
    assert stream.state is StreamState.RESET
    patient = Stream(KEYS, PEER, first_packet(), OURS, 0.0, idle=limits.LONG_IDLE)
    patient.receive(ack(0), 1.0)
    assert patient.due == 1.0 + limits.LONG_IDLE
