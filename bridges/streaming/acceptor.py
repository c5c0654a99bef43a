"""All streams to one destination: finds the stream of a packet, and opens new streams. No I/O, no clock.

A first packet without data makes a small record, and gets one answer (`half_open`). The next packet of the client, or a
first packet with data, makes a stream. A stream that has ended leaves a small record that still acknowledges.
"""

import hashlib
from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace

from bridges.hosting_protocol import StreamLimits
from bridges.streaming import limits
from bridges.streaming.crowding import gives_way
from bridges.streaming.envelope import STREAMING, Envelope, unpack
from bridges.streaming.errors import PacketError, StreamingError
from bridges.streaming.half_open import HalfOpenStreams
from bridges.streaming.packet import Flag, Packet, meant_for, signing_key
from bridges.streaming.stream import HalfOpen, Stream, StreamPeer, StreamState, answer_to
from gf_i2p.netdb.private_keys import DestinationKeys


class StreamRefusedError(StreamingError):
    """A stream that was not opened, because of a limit or because the acceptor takes no more streams."""


@dataclass(slots=True)
class _Early:
    """A packet of a stream that is not open yet."""

    packet: Packet
    until: float


@dataclass(slots=True)
class _Ended:
    """The last acknowledgement of a stream that both sides have closed."""

    peer: StreamPeer
    remote_number: int
    acknowledgement: bytes
    until: float


class Acceptor:
    """Takes the packets for a destination, and makes streams. Times are of any clock that does not go back.

    After each `receive`, fetch packets to send with `take`, and streams that have given way with `take_evicted`.
    """

    def __init__(
        self,
        keys: DestinationKeys,
        entropy: Callable[[int], bytes],
        wall: Callable[[], float],
        *,
        idle: float = limits.IDLE,
        most: StreamLimits | None = None,
    ) -> None:
        """Begin without streams.

        Args:
            keys: of the destination.
            entropy: `entropy(n)` returns n random bytes.
            wall: returns seconds since the epoch, for keys that are good until a date.
            idle: seconds of silence after which a stream is reset.
            most: the limits of streams; None: the defaults.
        """
        self.accepts_streams = True
        """Whether new streams are opened. Otherwise the peer hears nothing, and tries again with a later lease set."""
        self.refused = 0
        """Number of streams that were not opened, for any reason."""
        self.evicted = 0
        """Number of streams that were reset to make room for others."""
        self._keys = keys
        self._entropy = entropy
        self._wall = wall
        self._idle = idle
        self._most = most or StreamLimits()
        self._streams: dict[int, Stream] = {}  # by this side's number
        self._by_first: dict[tuple[bytes, int], Stream] = {}  # by peer and the peer's number
        self._by_remote: dict[int, Stream] = {}  # by the peer's number, until the peer knows this side's number
        self._per_peer: Counter[bytes] = Counter()
        self._half_open = HalfOpenStreams(self._most)
        self._ended: OrderedDict[int, _Ended] = OrderedDict()  # by this side's number
        self._recent: OrderedDict[bytes, float] = OrderedDict()
        self._early: list[_Early] = []
        self._out: list[tuple[StreamPeer, bytes]] = []
        self._evicted: list[Stream] = []
        self._buffered = 0
        self._count = 0

    @property
    def open(self) -> int:
        """Number of open streams."""
        return len(self._streams)

    @property
    def half_open(self) -> int:
        """Number of first packets whose clients have not sent a second packet."""
        return len(self._half_open)

    @property
    def streams(self) -> list[Stream]:
        """The open streams."""
        return [stream for stream in self._streams.values() if stream.state is StreamState.OPEN]

    def receive(self, payload: bytes, now: float) -> tuple[Stream, bool] | None:
        """Take an I2CP payload. Return its stream, which may have packets to send, and whether the stream is new.

        None: the payload's stream is not open yet, or not open any more. Raises `StreamingError` for a dropped payload.
        """
        envelope = unpack(payload)
        if envelope.protocol != STREAMING:
            raise PacketError(f"protocol {envelope.protocol} is not served, only streaming")
        packet = Packet.parse(envelope.payload)
        self._expire(now)
        if packet.flags & Flag.ECHO:
            raise PacketError("pings are not answered")
        if packet.flags & Flag.SYNCHRONIZE and packet.to == 0:
            return self._take_first(packet, envelope, now)
        stream = self._streams.get(packet.to) if packet.to else self._by_remote.get(packet.number)
        if stream is None:
            return self._without_stream(packet, now)
        if packet.payload and self._is_full() and not self._free_bytes(stream, now):
            raise PacketError("all streams together have no room for more data")
        stream.receive(packet, now)
        return stream, False

    def take(self) -> list[tuple[StreamPeer, bytes]]:
        """Take the packets to send that belong to no open stream."""
        out, self._out = self._out, []
        return out

    def take_evicted(self) -> list[Stream]:
        """Take the streams that were reset to make room for others; these streams have packets to send."""
        evicted, self._evicted = self._evicted, []
        return evicted

    def ended(self, stream: Stream, now: float) -> None:
        """Note that a stream has ended. A closed stream still acknowledges for a while."""
        if self._streams.get(stream.number) is not stream:
            return
        self._remove(stream)
        if stream.state is StreamState.CLOSED:
            self._ended[stream.number] = _Ended(
                stream.peer, stream.remote_number, stream.acknowledgement, now + limits.LINGER
            )
            if len(self._ended) > limits.MAX_ENDED:
                self._ended.popitem(last=False)

    # Opening ----------------------------------------------------------------------------------------------------------

    def _take_first(self, packet: Packet, envelope: Envelope, now: float) -> tuple[Stream, bool] | None:
        if packet.sequence or packet.number == 0 or packet.flags & Flag.RESET:
            raise PacketError("a first packet has another sequence number than 0, no number for its stream, or RESET")
        key = signing_key(packet, int(self._wall()))
        if not meant_for(packet, self._keys.destination.hash):
            raise PacketError("a first packet was meant for another destination")
        assert packet.source is not None
        source = packet.source.hash
        stream = self._by_first.get((source, packet.number))
        if stream is not None:
            stream.receive(packet, now)
            return stream, False
        if (known := self._half_open.of(source, packet.number)) is not None:
            known.answers += 1
            known.at = now
            self._out.append((known.peer, known.answer))
            return None
        if not self.accepts_streams:
            raise self._refusal("no new streams are taken")
        digest = hashlib.sha256(source + packet.raw).digest()
        if digest in self._recent:  # somebody may repeat a recorded packet
            raise self._refusal("the same first packet has opened a stream before")
        peer = StreamPeer(packet.source, key, envelope.source_port, envelope.destination_port)
        if packet.payload or any(each.packet.number == packet.number for each in self._early):
            return self._open_stream(peer, packet, self._new_number(), digest, now), True
        number = self._new_number()
        answer = answer_to(packet.number, number, self._keys)
        first = replace(packet, raw=b"", nacks=(), source=None, offline=None)
        self._half_open.add(HalfOpen(peer, first, number, digest, answer, now, now + limits.HALF_OPEN))
        self._out.append((peer, answer))
        return None

    def _without_stream(self, packet: Packet, now: float) -> tuple[Stream, bool] | None:
        half = self._half_open.addressed(packet.to, packet.number)
        if half is not None:
            return self._finish_opening(half, packet, now)
        ended = self._ended.get(packet.to) if packet.to else None
        if ended is not None:
            self._acknowledge_again(ended, packet)
            return None
        if packet.to == 0 and packet.sequence:
            self._keep_early(packet, now)
            return None
        raise PacketError("a packet belongs to no stream")

    def _finish_opening(self, half: HalfOpen, packet: Packet, now: float) -> tuple[Stream, bool] | None:
        """Take the second packet of a client: make the stream, or drop the record if the packet has RESET."""
        _check_number(packet, half.first.number)
        if packet.flags & (Flag.CLOSE | Flag.RESET):
            packet.verify(half.peer.key)
        if packet.flags & Flag.RESET:
            self._half_open.remove(half)
            return None
        if not self.accepts_streams:
            raise self._refusal("no new streams are taken")
        stream = self._open_stream(half.peer, half.first, half.number, half.digest, now, half)
        stream.receive(packet, now)
        return stream, True

    def _open_stream(
        self, peer: StreamPeer, first: Packet, number: int, digest: bytes, now: float, half: HalfOpen | None = None
    ) -> Stream:
        source = peer.destination.hash
        self._make_room(source, now)
        if half is not None:
            self._half_open.remove(half)
        self._recent[digest] = now + limits.RECENT
        if len(self._recent) > limits.MAX_RECENT:
            self._recent.popitem(last=False)
        stream = Stream(self._keys, peer, first, number, now, idle=self._idle, answered=half)
        self._streams[number] = stream
        self._by_first[source, first.number] = stream
        self._by_remote.setdefault(first.number, stream)
        self._per_peer[source] += 1
        early = [each.packet for each in self._early if each.packet.number == first.number]
        self._early = [each for each in self._early if each.packet.number != first.number]
        for each in early:
            stream.receive(each, now)
        return stream

    def _refusal(self, reason: str) -> StreamRefusedError:
        self.refused += 1
        return StreamRefusedError(f"a stream was not opened: {reason}")

    def _new_number(self) -> int:
        while True:
            number = int.from_bytes(self._entropy(4), "big")
            taken = number in self._streams or number in self._half_open or number in self._ended
            if number and not taken:
                return number

    def _keep_early(self, packet: Packet, now: float) -> None:
        if len(self._early) >= limits.MAX_EARLY:
            raise PacketError("too many packets wait for the first packets of their streams")
        if packet.flags & (Flag.CLOSE | Flag.RESET):
            raise PacketError("a stream is closed before it is opened")
        self._early.append(_Early(packet, now + limits.EARLY))

    # Room -----------------------------------------------------------------------------------------------------------

    def _make_room(self, source: bytes, now: float) -> None:
        """Have another stream give way if there is no room for a stream of this client. Raises `StreamRefusedError`."""
        reason, victim = None, None
        if self._per_peer[source] >= self._most.per_destination:
            own = [stream for stream in self.streams if stream.peer.destination.hash == source]
            reason = f"the client has {self._most.per_destination} streams already"
            victim = gives_way(own, source, now)
        elif len(self._streams) >= self._most.streams:
            reason = f"there are {self._most.streams} streams already"
            victim = gives_way(self.streams, source, now)
        if victim is not None:
            self._evict(victim, now)
        elif reason is not None:
            raise self._refusal(reason)
        if self._is_full() and not self._free_bytes(source, now):
            raise self._refusal("the other streams hold too much data")

    def _is_full(self) -> bool:
        self._count += 1
        if self._count % 64 == 1:  # the sum takes a while, and changes little in between
            self._buffered = sum(stream.buffered for stream in self._streams.values())
        return self._buffered >= limits.MAX_BUFFERED

    def _free_bytes(self, receiver: Stream | bytes, now: float) -> bool:
        """Have a stream that holds data give way, and return whether there is room for more data now.

        `receiver`: the stream that needs room, or the hash of a client that opens a stream.
        """
        source = receiver.peer.destination.hash if isinstance(receiver, Stream) else receiver
        others = [stream for stream in self.streams if stream is not receiver]
        victim = gives_way(others, source, now, lambda stream: stream.buffered, limits.MAX_UNPROVEN)
        if victim is not None:
            self._buffered -= victim.buffered
            self._evict(victim, now)
        return self._buffered < limits.MAX_BUFFERED

    def _evict(self, stream: Stream, now: float) -> None:
        stream.reset("the stream gave way to another client's")
        self.ended(stream, now)
        self.evicted += 1
        self._evicted.append(stream)

    # Ends -------------------------------------------------------------------------------------------------------------

    def _acknowledge_again(self, ended: _Ended, packet: Packet) -> None:
        """Answer a packet that the peer repeats: the peer has missed the last acknowledgement of the ended stream."""
        _check_number(packet, ended.remote_number)
        if packet.flags & (Flag.CLOSE | Flag.RESET):
            packet.verify(ended.peer.key)
        if not packet.plain_ack and not packet.flags & Flag.RESET:
            self._out.append((ended.peer, ended.acknowledgement))

    def _remove(self, stream: Stream) -> None:
        source = stream.peer.destination.hash
        del self._streams[stream.number]
        self._by_first.pop((source, stream.remote_number), None)
        if self._by_remote.get(stream.remote_number) is stream:
            del self._by_remote[stream.remote_number]
        self._per_peer[source] -= 1
        if not self._per_peer[source]:
            del self._per_peer[source]

    def _expire(self, now: float) -> None:
        self._half_open.expire(now)
        while self._ended and next(iter(self._ended.values())).until <= now:
            self._ended.popitem(last=False)
        while self._recent and next(iter(self._recent.values())) <= now:
            self._recent.popitem(last=False)
        if self._early and self._early[0].until <= now:
            self._early = [each for each in self._early if each.until > now]


def _check_number(packet: Packet, remote_number: int) -> None:
    """Raise `PacketError` when a packet does not have the peer's number for the stream."""
    if packet.number != remote_number and not (packet.number == 0 and packet.flags & Flag.RESET):
        raise PacketError("a packet for a stream has another stream's number")
