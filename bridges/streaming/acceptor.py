"""All streams to one destination: finds the stream of a packet, and opens new streams. No I/O, no clock."""

import hashlib
from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from bridges.streaming import limits
from bridges.streaming.envelope import STREAMING, Envelope, unpack
from bridges.streaming.errors import PacketError, StreamingError
from bridges.streaming.packet import Flag, Packet, meant_for, signing_key
from bridges.streaming.stream import Stream, StreamPeer, StreamState
from gf_i2p.netdb.private_keys import DestinationKeys


class RefusedError(StreamingError):
    """A stream that was not opened, because of a limit or because the acceptor takes no more streams."""


@dataclass(slots=True)
class _Early:
    """A packet of a stream that is not open yet."""

    packet: Packet
    until: float


class Acceptor:
    """Takes the packets for a destination, and makes streams. Times are of any clock that does not go back."""

    def __init__(
        self,
        keys: DestinationKeys,
        entropy: Callable[[int], bytes],
        wall: Callable[[], float],
        *,
        idle: float = limits.IDLE,
    ) -> None:
        """Begin without streams.

        Args:
            keys: of the destination.
            entropy: gives random bytes.
            wall: seconds since the epoch, for keys that are good until a date.
            idle: seconds of silence after which a stream is reset.
        """
        self.accepts_streams = True
        """Whether new streams are opened. Otherwise the peer hears nothing, and tries again with a later lease set."""
        self.refused = 0
        """Number of streams that were not opened, for any reason."""
        self._keys = keys
        self._entropy = entropy
        self._wall = wall
        self._idle = idle
        self._streams: dict[int, Stream] = {}  # by this side's number
        self._by_first: dict[tuple[bytes, int], Stream] = {}  # by peer and the peer's number
        self._by_remote: dict[int, Stream] = {}  # by the peer's number, until the peer knows this side's number
        self._per_peer: Counter[bytes] = Counter()
        self._ended: OrderedDict[int, float] = OrderedDict()  # by this side's number: end of the linger time
        self._recent: OrderedDict[bytes, float] = OrderedDict()
        self._early: list[_Early] = []
        self._buffered = 0
        self._count = 0

    @property
    def open(self) -> int:
        """Number of open streams."""
        return len(self._streams) - len(self._ended)

    @property
    def streams(self) -> list[Stream]:
        """The open streams."""
        return [stream for stream in self._streams.values() if stream.state is StreamState.OPEN]

    def receive(self, payload: bytes, now: float) -> tuple[Stream, bool] | None:
        """Take an I2CP payload. Return its stream, which may have packets to send, and whether the stream is new.

        None: the payload waits for its stream's first packet. Raises `StreamingError` for a dropped payload.
        """
        envelope = unpack(payload)
        if envelope.protocol != STREAMING:
            raise PacketError(f"protocol {envelope.protocol} is not served, only streaming")
        packet = Packet.parse(envelope.payload)
        self._expire(now)
        if packet.flags & Flag.ECHO:
            raise PacketError("pings are not answered")
        if packet.flags & Flag.SYNCHRONIZE and packet.to == 0:
            return self._open_stream(packet, envelope, now)
        stream = self._streams.get(packet.to) if packet.to else self._by_remote.get(packet.number)
        if stream is None:
            if packet.to == 0 and packet.sequence:
                self._keep_early(packet, now)
                return None
            raise PacketError("a packet belongs to no stream")
        if packet.payload and self._is_full():
            raise PacketError("all streams together have no room for more data")
        stream.receive(packet, now)
        return stream, False

    def ended(self, stream: Stream, now: float) -> None:
        """Note that a stream has ended. The stream still answers for a while."""
        if self._streams.get(stream.number) is stream and stream.number not in self._ended:
            self._ended[stream.number] = now + limits.LINGER

    # Opening ----------------------------------------------------------------------------------------------------------

    def _open_stream(self, packet: Packet, envelope: Envelope, now: float) -> tuple[Stream, bool]:
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
        self._check_room(source)
        self._check_new(source, packet, now)
        peer = StreamPeer(packet.source, key, envelope.source_port, envelope.destination_port)
        stream = Stream(self._keys, peer, packet, self._new_number(), now, idle=self._idle)
        self._streams[stream.number] = stream
        self._by_first[source, packet.number] = stream
        self._by_remote.setdefault(packet.number, stream)
        self._per_peer[source] += 1
        early = [each.packet for each in self._early if each.packet.number == packet.number]
        self._early = [each for each in self._early if each.packet.number != packet.number]
        for each in early:
            stream.receive(each, now)
        return stream, True

    def _check_room(self, source: bytes) -> None:
        reason = None
        if not self.accepts_streams:
            reason = "no new streams are taken"
        elif len(self._streams) >= limits.MAX_STREAMS:
            reason = f"there are {limits.MAX_STREAMS} streams already"
        elif self._per_peer[source] >= limits.MAX_STREAMS_PER_PEER:
            reason = f"the client has {limits.MAX_STREAMS_PER_PEER} streams already"
        elif self._is_full():
            reason = "the other streams hold too much data"
        if reason is not None:
            self.refused += 1
            raise RefusedError(f"a stream was not opened: {reason}")

    def _check_new(self, source: bytes, packet: Packet, now: float) -> None:
        """Raise for a first packet that has opened a stream before: somebody may repeat a recorded packet."""
        digest = hashlib.sha256(source + packet.raw).digest()
        if digest in self._recent:
            self.refused += 1
            raise RefusedError("a stream was not opened: the same first packet has opened a stream before")
        self._recent[digest] = now + limits.RECENT
        if len(self._recent) > limits.MAX_RECENT:
            self._recent.popitem(last=False)

    def _new_number(self) -> int:
        while True:
            number = int.from_bytes(self._entropy(4), "big")
            if number and number not in self._streams:
                return number

    def _keep_early(self, packet: Packet, now: float) -> None:
        if len(self._early) >= limits.MAX_EARLY:
            raise PacketError("too many packets wait for the first packets of their streams")
        if packet.flags & (Flag.CLOSE | Flag.RESET):
            raise PacketError("a stream is closed before it is opened")
        self._early.append(_Early(packet, now + limits.EARLY))

    # Room -----------------------------------------------------------------------------------------------------------

    def _is_full(self) -> bool:
        self._count += 1
        if self._count % 64 == 1:  # the sum takes a while, and changes little in between
            self._buffered = sum(stream.buffered for stream in self._streams.values())
        return self._buffered >= limits.MAX_BUFFERED

    def _expire(self, now: float) -> None:
        while self._ended and next(iter(self._ended.values())) <= now:
            number, _ = self._ended.popitem(last=False)
            stream = self._streams.pop(number)
            source = stream.peer.destination.hash
            self._by_first.pop((source, stream.remote_number), None)
            if self._by_remote.get(stream.remote_number) is stream:
                del self._by_remote[stream.remote_number]
            self._per_peer[source] -= 1
            if not self._per_peer[source]:
                del self._per_peer[source]
        while self._recent and next(iter(self._recent.values())) <= now:
            self._recent.popitem(last=False)
        if self._early and self._early[0].until <= now:
            self._early = [each for each in self._early if each.until > now]
