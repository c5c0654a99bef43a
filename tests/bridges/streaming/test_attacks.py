"""Floods of streams, and crowds of honest ones: bridges/streaming/acceptor.py, half_open.py, crowding.py."""

import tracemalloc
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridges.hosting_protocol import StreamLimits
from bridges.streaming import limits
from bridges.streaming.acceptor import Acceptor, StreamRefusedError
from bridges.streaming.crowding import gives_way
from bridges.streaming.envelope import pack_packet
from bridges.streaming.errors import PacketError
from bridges.streaming.packet import Flag, Packet
from bridges.streaming.stream import Stream, StreamPeer, StreamState
from gf_i2p.netdb.private_keys import DestinationKeys
from tests.bridges.streaming.streaming_client import CLIENT, CLIENT_DELEGATED, first_packet
from tests.netdb.strategies import DELEGATED, KEYS, NOW, entropy

ATTACKERS = [DestinationKeys.generate(entropy(100 + number)) for number in range(8)]
PART = b"GET / HT"


class Door:
    """An acceptor and a clock of its own. Each new stream is marked as served, if its request is whole."""

    def __init__(self, most: StreamLimits | None = None, keys: DestinationKeys = KEYS) -> None:
        self.now = 0.0
        self.acceptor = Acceptor(keys, entropy(31), lambda: NOW, most=most)
        self._numbers = iter(range(1, 1 << 30))

    def first(
        self, keys: DestinationKeys = CLIENT, payload: bytes = b"GET", number: int | None = None
    ) -> Stream | None:
        """Take a first packet; return the new stream."""
        packet = first_packet(keys, number or next(self._numbers), payload)
        found = self.acceptor.receive(pack_packet(packet.encode(keys.key.sign), 0, 0), self.now)
        if found is None:
            return None
        stream, new = found
        assert new
        stream.served = payload != PART
        return stream

    def active(self, keys: DestinationKeys = CLIENT) -> Stream:
        """Open a stream that is served, and whose client acknowledges."""
        stream = self.first(keys)
        assert stream is not None
        self.send(stream)
        return stream

    def send(self, stream: Stream, sequence: int = 0, payload: bytes = b"") -> None:
        """Have the stream's client send a packet."""
        packet = Packet(stream.number, stream.remote_number, sequence, payload=payload)
        self.acceptor.receive(pack_packet(packet.encode(), 0, 0), self.now)

    def attack(self, count: int, payload: bytes, seconds: float = 0.8) -> Iterator[None]:
        """Have the attackers send so many first packets, one after the other."""
        for number in range(count):
            self.now += seconds / count
            with suppress(StreamRefusedError):
                self.first(ATTACKERS[number % len(ATTACKERS)], payload)
            yield


# Honest use -----------------------------------------------------------------------------------------------------------


def test_one_destination_asks_fifty_times_a_second() -> None:
    door = Door()
    for _ in range(50 * int(limits.LINGER)):
        door.now += 0.02
        stream = door.first()
        assert stream is not None
        stream.write(b"page", door.now)
        stream.close(door.now)
        close = Packet(stream.number, stream.remote_number, 1, 2, (), Flag.CLOSE | Flag.SIGNATURE)
        door.acceptor.receive(pack_packet(close.encode(CLIENT.key.sign), 0, 0), door.now)
        assert stream.state is StreamState.CLOSED
        door.acceptor.ended(stream, door.now)
    assert (door.acceptor.open, door.acceptor.refused, door.acceptor.evicted) == (0, 0, 0)


def test_ended_streams_take_no_more_than_their_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_ENDED", 3)
    door = Door()
    streams = []
    for _ in range(5):
        stream = door.first()
        assert stream is not None
        stream._end(StreamState.CLOSED)
        door.acceptor.ended(stream, door.now)
        streams.append(stream)
    for gone in streams[:2]:
        with pytest.raises(PacketError, match="to no stream"):
            door.send(gone, 1, b"x")
    for kept in streams[2:]:
        door.send(kept, 1, b"x")
    assert len(door.acceptor.take()) == 3


# Floods of first packets ----------------------------------------------------------------------------------------------


def test_first_packets_without_data_displace_only_each_other() -> None:
    door = Door()
    honest = [door.active() for _ in range(20)]
    for _ in door.attack(1000, b""):
        assert door.acceptor.half_open <= StreamLimits().streams
    assert (door.acceptor.open, door.acceptor.evicted) == (20, 0)
    assert all(stream.state is StreamState.OPEN for stream in honest)
    assert door.first() is not None


def test_a_handshake_without_data_survives_a_flood_of_others() -> None:
    door = Door()
    waiting = door.first(payload=b"")
    assert waiting is None
    ((_, raw),) = door.acceptor.take()
    answer = Packet.parse(raw)
    for _ in door.attack(1000, b""):
        pass
    found = door.acceptor.receive(
        pack_packet(Packet(answer.number, answer.to, 1, payload=b"hello").encode(), 0, 0), 2.0
    )
    assert found is not None
    assert found[0].read() == b"hello"


@pytest.mark.parametrize("client", [CLIENT, CLIENT_DELEGATED])
def test_a_first_packet_gets_one_answer_that_is_no_larger(client: DestinationKeys) -> None:
    door = Door()
    raw = pack_packet(first_packet(client, 9).encode(client.key.sign), 0, 0)
    for times in (1, 2):
        assert door.acceptor.receive(raw, door.now) is None
        assert [len(pack_packet(answer, 0, 0)) <= len(raw) for _, answer in door.acceptor.take()] == [True], times
    delegated = Door(keys=DELEGATED)
    delegated.first(payload=b"", number=9)
    ((_, answer),) = delegated.acceptor.take()
    assert len(answer) == len(first_packet(server=None).encode(CLIENT.key.sign)) + 102


def test_nothing_is_repeated_to_a_client_that_is_silent_after_its_first_packet() -> None:
    door = Door()
    stream = door.first(payload=PART)
    assert stream is not None
    assert len(stream.take()) == 1
    assert stream.due == limits.IDLE
    stream.tick(limits.IDLE - 1)
    assert stream.take() == []


def test_a_first_packet_whose_record_has_gone_opens_a_stream_when_it_comes_again() -> None:
    door = Door(StreamLimits(2, 2))
    assert door.first(payload=b"", number=7) is None
    for _ in door.attack(40, b""):
        pass
    assert door.first(ATTACKERS[0], b"") is None
    door.acceptor.take()
    door.now += limits.HALF_OPEN
    assert door.first(payload=b"", number=7) is None
    assert door.acceptor.half_open == 1, "the old ones are over"
    assert len(door.acceptor.take()) == 1


def test_a_half_open_stream_is_only_its_client_s_to_end() -> None:
    door = Door()
    door.first(payload=b"", number=7)
    ((_, raw),) = door.acceptor.take()
    number = Packet.parse(raw).number
    with pytest.raises(PacketError, match="another stream's number"):
        door.acceptor.receive(pack_packet(Packet(number, 8, 1, payload=b"x").encode(), 0, 0), 0.0)
    reset = Packet(number, 7, flags=Flag.RESET | Flag.SIGNATURE)
    with pytest.raises(PacketError, match="not signed by its sender"):
        door.acceptor.receive(pack_packet(reset.encode(ATTACKERS[0].key.sign), 0, 0), 0.0)
    assert door.acceptor.half_open == 1
    assert door.acceptor.receive(pack_packet(reset.encode(CLIENT.key.sign), 0, 0), 0.0) is None
    assert (door.acceptor.half_open, door.acceptor.open) == (0, 0)


@pytest.mark.parametrize("payload", [PART, b"GET"])
def test_honest_clients_are_served_through_a_flood_of_streams_from_a_few_destinations(payload: bytes) -> None:
    door = Door()
    honest = [door.active() for _ in range(10)]
    for number, _ in enumerate(door.attack(1000, payload)):
        if number % 50 == 49:
            honest.append(door.active(DestinationKeys.generate(entropy(500 + number))))
    assert all(stream.state is StreamState.OPEN for stream in honest)
    assert door.acceptor.open == StreamLimits().streams
    reset = door.acceptor.take_evicted()
    assert len(reset) == door.acceptor.evicted >= 8
    assert all(Packet.parse(stream.take()[-1]).flags & Flag.RESET for stream in reset)


def test_unfinished_streams_of_as_many_destinations_as_there_are_places_give_way() -> None:
    door = Door(StreamLimits(20, 10))
    honest = door.active()
    strangers = [DestinationKeys.generate(entropy(700 + number)) for number in range(19)]
    for stranger in strangers:
        door.first(stranger, PART)
    newcomer = DestinationKeys.generate(entropy(800))
    with pytest.raises(StreamRefusedError, match="there are 20"):
        door.first(newcomer)
    door.now += limits.UNFINISHED
    assert door.first(newcomer) is not None
    assert honest.state is StreamState.OPEN


def test_a_destination_at_its_limit_displaces_its_own_idle_stream_or_is_refused() -> None:
    door = Door(StreamLimits(20, 3))
    other = door.active(ATTACKERS[0])
    own = [door.active() for _ in range(3)]
    with pytest.raises(StreamRefusedError, match="the client has 3"):
        door.first()
    door.now += limits.STANDING
    door.send(own[0], 1, b"more")
    assert door.first() is not None
    assert [stream.state for stream in (other, *own)] == [
        StreamState.OPEN,
        StreamState.OPEN,
        StreamState.RESET,
        StreamState.OPEN,
    ]


# Memory ---------------------------------------------------------------------------------------------------------------


def test_packets_that_wait_for_a_missing_one_do_not_fill_the_memory_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_BUFFERED", 500_000)
    door = Door()
    honest = door.active()
    streams = [door.active(ATTACKERS[0]) for _ in range(3)]
    for stream in streams:
        for sequence in range(2, 60):
            with suppress(PacketError):
                door.send(stream, sequence, bytes(4000))
    honest.read()
    for sequence in range(1, 300):
        door.send(honest, sequence, bytes(4000))
        assert honest.read() == bytes(4000)
        assert sum(stream.buffered for stream in door.acceptor.streams) < 500_000 + 64 * 4100
    assert honest.state is StreamState.OPEN
    assert door.acceptor.evicted >= 1


def test_the_service_s_data_waits_until_the_client_has_shown_that_packets_arrive() -> None:
    door = Door()
    stream = door.first()
    assert stream is not None
    assert stream.room <= limits.MAX_UNPROVEN
    stream.write(bytes(stream.room), 0.0)
    assert stream.room == 0
    assert stream.buffered <= limits.MAX_UNPROVEN + 40 * 22, "the heads of packets count, too"
    door.send(stream)
    assert stream.room > limits.MAX_UNPROVEN


@pytest.mark.parametrize(("payload", "most"), [(b"", 2_600), (PART, 4_400)])
def test_a_stream_without_data_takes_little_memory(payload: bytes, most: int) -> None:
    door = Door()
    packets = [
        pack_packet(
            first_packet(ATTACKERS[number % 8], 9000 + number, payload).encode(ATTACKERS[number % 8].key.sign), 0, 0
        )
        for number in range(400)
    ]
    for packet in packets[:10]:
        door.acceptor.receive(packet, 0.0)
    tracemalloc.start()
    try:
        for packet in packets[10:]:
            found = door.acceptor.receive(packet, 0.0)
            if found is not None:
                found[0].take()
            door.acceptor.take()
        size, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert size / 390 <= most


# The choice -----------------------------------------------------------------------------------------------------------

destinations = st.integers(0, 4)


@given(
    st.lists(st.tuples(destinations, st.booleans(), st.booleans(), st.sampled_from([0, 1, 6, 20, 40])), max_size=30),
    destinations,
)
def test_no_active_stream_gives_way_to_a_client_that_has_half_as_much(
    made: list[tuple[int, bool, bool, int]], newcomer: int
) -> None:
    now = 100.0
    streams = []
    for number, (client, served, proven, idle) in enumerate(made):
        peer = StreamPeer(ATTACKERS[client].destination, b"", 0, 0)
        stream = Stream(KEYS, peer, Packet(0, number + 1), number + 1, now - idle)
        stream.served, stream.proven = served, proven
        streams.append(stream)
    counts = Counter(stream.peer.destination.hash for stream in streams)
    source = ATTACKERS[newcomer].destination.hash
    victim = gives_way(streams, source, now)
    unfinished = [each for each in streams if not (each.served and each.proven) and each.progress <= now - 5]
    if victim is None:
        assert not unfinished
        assert all(count < 2 * (counts[source] + 1) for count in counts.values())
    elif unfinished:
        assert victim in unfinished
    else:
        count = counts[victim.peer.destination.hash]
        assert count >= 2 * (counts[source] + 1) or (victim.progress <= now - 30 and count >= counts[source])
        assert count == max(counts.values()) or victim.progress <= now - 30
