"""One stream that a peer has opened: no I/O, no clock. The caller fetches packets with `take`, and sends these.

States and transitions:

    open ── the peer closes ──► its side ended ── we close, all acknowledged ──► closed
      │ we close ──► closing: all is sent, CLOSE last ── all acknowledged, and the peer has closed ──► closed
      └─ reset by either side, silence, too many attempts ──► reset

Streaming specification. Our first packet answers the peer's first packet at once, so that the peer may send more.
"""

from dataclasses import dataclass
from enum import StrEnum

from bridges.streaming.errors import PacketError
from bridges.streaming.limits import (
    ACK_DELAY,
    ACK_EVERY,
    IDLE,
    LINGER,
    MAX_ATTEMPTS,
    MAX_LAST_ATTEMPTS,
    MAX_PAYLOAD,
    MAX_UNPROVEN,
    MAX_UNSENT,
    MIN_PAYLOAD,
)
from bridges.streaming.packet import CHOKE_MS, NO_FLAGS, Flag, Packet
from bridges.streaming.receiver import Receiver
from bridges.streaming.sender import Sender
from gf_i2p.netdb.destination import Destination
from gf_i2p.netdb.private_keys import DestinationKeys


class StreamState(StrEnum):
    """State of a stream."""

    OPEN = "open"
    CLOSED = "closed"
    """Both sides have closed, or this side has closed and the peer no longer answers."""
    RESET = "reset"
    """The stream was broken off. Earlier data of the peer can still be read."""


@dataclass(frozen=True, slots=True)
class StreamPeer:
    """The peer of a stream, and its ports."""

    destination: Destination
    key: bytes
    """The public key that signs the peer's packets: its own, or a transient one."""
    port: int
    """The peer's port, for the envelope."""
    local_port: int
    """This side's port."""


def answer_to(remote_number: int, number: int, keys: DestinationKeys) -> bytes:
    """Return this side's first packet, which answers the peer's first packet.

    The answer is as long as a first packet without data, or 102 bytes longer with delegated keys.
    """
    flags = Flag.SYNCHRONIZE | Flag.FROM | Flag.SIGNATURE | Flag.MAX_PAYLOAD
    if keys.offline is not None:
        flags |= Flag.OFFLINE_SIGNATURE
    packet = Packet(
        remote_number,
        number,
        0,
        0,
        flags=flags,
        source=keys.destination,
        max_payload=MAX_PAYLOAD,
        offline=keys.offline,
    )
    return packet.encode(keys.key.sign)


@dataclass(slots=True)
class HalfOpen:
    """A verified first packet without data, and its answer: all that is kept until the peer's next packet."""

    peer: StreamPeer
    first: Packet
    """The first packet without its bytes."""
    number: int
    """This side's number for the stream."""
    digest: bytes
    """SHA-256 of the peer's hash and the first packet's bytes: recognises a repeated packet."""
    answer: bytes
    at: float
    """When the answer was last sent."""
    until: float
    answers: int = 1
    """Number of answers, one to each time that the first packet came."""


class Stream:
    """The server's side of a stream. Times are seconds of any clock that does not go back.

    After every call except the properties, fetch the packets to send with `take`, and call `tick` at `due`.
    """

    __slots__ = (
        "_ack_at",
        "_choke_sent",
        "_choked_by_peer",
        "_close_sent",
        "_closing",
        "_heard",
        "_idle",
        "_keys",
        "_last",
        "_out",
        "_payload",
        "_receiver",
        "_sender",
        "_unacknowledged",
        "_unsent",
        "number",
        "peer",
        "progress",
        "proven",
        "reason",
        "remote_number",
        "served",
        "state",
    )

    def __init__(
        self,
        keys: DestinationKeys,
        peer: StreamPeer,
        first: Packet,
        number: int,
        now: float,
        *,
        idle: float = IDLE,
        answered: HalfOpen | None = None,
    ) -> None:
        """Take a verified first packet.

        Args:
            keys: of this side.
            peer: who opens the stream.
            first: the first packet.
            number: this side's number for the stream, random, not 0.
            now: the time.
            idle: seconds of silence after which the stream is reset.
            answered: the record of the first packet, if that packet has its answer already.
        """
        self.peer = peer
        self.number = number
        self.remote_number = first.number
        self.state = StreamState.OPEN
        self.reason = ""
        """Why the stream was reset, in a sentence."""
        self.progress = now
        """When data last came in order, or the peer last acknowledged something new."""
        self.proven = False
        """Whether the peer has shown that packets reach the peer: the peer knows this side's number."""
        self.served = False
        """Whether the local service has a connection for the stream; the caller sets this."""
        self._heard = False
        """Whether the peer has sent anything else than its first packet."""
        self._keys = keys
        self._idle = idle
        self._receiver = Receiver()
        self._sender = Sender()
        self._payload = MAX_PAYLOAD
        if first.max_payload is not None:
            self._payload = min(max(first.max_payload, MIN_PAYLOAD), MAX_PAYLOAD)
        self._unsent = bytearray()
        self._closing = False
        self._close_sent = False
        self._choked_by_peer = False
        self._choke_sent = False
        self._out: list[bytes] = []
        self._unacknowledged = 0
        """Received packets that are not acknowledged yet."""
        self._ack_at: float | None = None
        self._last = now
        """When the latest packet of the peer came."""
        self._receiver.first(first.payload)
        if first.flags & Flag.CLOSE:
            self._receiver.ended = True
        if answered is None:
            self._put_under_way(answer_to(first.number, number, keys), now)
        else:
            self._sender.sent(answered.answer, answered.at, answered.answers)

    # Calls of the local side ----------------------------------------------------------------------------------------

    @property
    def readable(self) -> bool:
        """Whether `read` returns any bytes now."""
        return self._receiver.readable

    @property
    def ended(self) -> bool:
        """Whether no bytes will come after those that can be read now."""
        return self._receiver.ended or self.state is not StreamState.OPEN

    def read(self) -> bytes:
        """Take the bytes that have come, in order; b"" when there are no bytes now."""
        data = self._receiver.read()
        if self._choke_sent and self.state is StreamState.OPEN:
            self._acknowledge()  # this tells the peer that there is room again
        return data

    @property
    def room(self) -> int:
        """Number of bytes that `write` takes now."""
        if self.state is not StreamState.OPEN or self._closing:
            return 0
        if not self.proven:
            return max(MAX_UNPROVEN - len(self._unsent) - self._sender.buffered, 0)
        return max(MAX_UNSENT - len(self._unsent), 0)

    def write(self, data: bytes, now: float) -> None:
        """Send these bytes, at most `room`."""
        assert len(data) <= self.room
        self._unsent += data
        self._send(now)

    def close(self, now: float) -> None:
        """Close this side after the written bytes. The peer's bytes can still be read."""
        if self.state is StreamState.OPEN and not self._closing:
            self._closing = True
            self._send(now)

    def reset(self, reason: str) -> None:
        """Break the stream off, and tell the peer."""
        if self.state is StreamState.OPEN:
            flags = Flag.RESET | Flag.SIGNATURE
            self._out.append(self._packet(self._sender.next, flags).encode(self._keys.key.sign))
            self._end(StreamState.RESET, reason)

    @property
    def buffered(self) -> int:
        """Number of bytes kept, in both directions."""
        return self._receiver.buffered + len(self._unsent) + self._sender.buffered

    @property
    def acknowledgement(self) -> bytes:
        """A packet that only acknowledges all that has come."""
        through, nacks = self._receiver.acknowledgement
        return Packet(self.remote_number, self.number, 0, through, nacks).encode()

    # Received packets -----------------------------------------------------------------------------------------------

    def receive(self, packet: Packet, now: float) -> None:
        """Take a packet of this stream. Raises `PacketError` when the packet is not the peer's."""
        if packet.number not in {self.remote_number, 0} or (packet.number == 0 and not packet.flags & Flag.RESET):
            raise PacketError("a packet for a stream has another stream's number")
        if packet.flags & (Flag.CLOSE | Flag.RESET):
            packet.verify(self.peer.key)
        if self.state is not StreamState.OPEN:
            if not packet.plain_ack and not packet.flags & Flag.RESET and self.state is StreamState.CLOSED:
                self._acknowledge()  # the peer has missed the last acknowledgement
            return
        self._last = now
        self._heard |= not packet.flags & Flag.SYNCHRONIZE
        self.proven |= packet.to == self.number
        if packet.flags & Flag.RESET:
            self._end(StreamState.RESET, "the client has reset the stream")
            return
        if packet.to and not packet.flags & Flag.NO_ACK:  # a peer without this side's number can acknowledge nothing
            self._take_acknowledgement(packet, now)
        if packet.flags & Flag.SYNCHRONIZE:
            self._out += self._sender.first_again(now)  # the peer has no answer to its first packet yet
        elif not packet.plain_ack:
            self._take(packet, now)
        elif packet.delay_ms == 0:
            self._acknowledge()
        self._settle(now)

    def _take_acknowledgement(self, packet: Packet, now: float) -> None:
        self._choked_by_peer = packet.delay_ms is not None and packet.delay_ms >= CHOKE_MS - 1
        resends, new = self._sender.acknowledge(packet.acknowledged, packet.nacks, now)
        self._out += resends
        if new:
            self.progress = now

    def _take(self, packet: Packet, now: float) -> None:
        if not self._receiver.take(packet):
            self._acknowledge()
            return
        self.progress = now
        self._unacknowledged += 1
        if self._receiver.ended or packet.delay_ms == 0 or self._unacknowledged >= ACK_EVERY:
            self._acknowledge()
        elif self._ack_at is None:
            self._ack_at = now + ACK_DELAY

    # Time -----------------------------------------------------------------------------------------------------------

    @property
    def due(self) -> float | None:
        """Time at which to call `tick`; None when the stream has ended."""
        if self.state is not StreamState.OPEN:
            return None
        times = [self._last + (LINGER if self._close_sent and self._sender.all_acknowledged else self._idle)]
        if self._ack_at is not None:
            times.append(self._ack_at)
        overdue = self._overdue_at
        if overdue is not None:
            times.append(overdue)
        return min(times)

    @property
    def _overdue_at(self) -> float | None:
        """When to repeat packets; None: never.

        While the peer sends only its first packet, each copy gets one answer and no repetition: a stranger must not
        make this side send more than the stranger sends.
        """
        return None if self._sender.next == 1 and not self._heard else self._sender.due()

    def tick(self, now: float) -> None:
        """Repeat overdue packets, send a delayed acknowledgement, end a silent stream. An early call does nothing."""
        if self.state is not StreamState.OPEN:
            return
        if self._close_sent and self._sender.all_acknowledged and now >= self._last + LINGER:
            self._end(StreamState.CLOSED)  # i2pd forgets a stream that the other side has closed
            return
        if now >= self._last + self._idle:
            self.reset(f"nothing was heard of the client for {self._idle:g} s")
            return
        overdue = self._overdue_at
        if overdue is not None and now >= overdue:
            max_attempts = MAX_LAST_ATTEMPTS if self._receiver.ended or self._close_sent else MAX_ATTEMPTS
            if self._sender.attempts >= max_attempts and self._close_sent and self._sender.only_last:
                self._end(StreamState.CLOSED)  # the peer has acknowledged all data, and misses only the CLOSE
                return
            if self._sender.attempts >= max_attempts:
                self.reset(f"the client has not acknowledged a packet that was sent {max_attempts} times")
                return
            self._out += self._sender.overdue(now)
        if self._ack_at is not None and now >= self._ack_at:
            self._acknowledge()
        self._send(now)

    def take(self) -> list[bytes]:
        """Take the packets to send now."""
        out, self._out = self._out, []
        return out

    # Sent packets ---------------------------------------------------------------------------------------------------

    def _send(self, now: float) -> None:
        while self._unsent and self._may_send:
            piece = bytes(self._unsent[: self._payload])
            del self._unsent[: self._payload]
            self._put_under_way(self._packet(self._sender.next, NO_FLAGS, piece).encode(), now)
        if self._closing and not self._unsent and not self._close_sent:
            self._close_sent = True
            packet = self._packet(self._sender.next, Flag.CLOSE | Flag.SIGNATURE)
            self._put_under_way(packet.encode(self._keys.key.sign), now)
        self._settle(now)

    def _put_under_way(self, data: bytes, now: float) -> None:
        self._sender.sent(data, now)
        self._out.append(data)
        self._acknowledged()

    def _acknowledge(self) -> None:
        flags, delay_ms = NO_FLAGS, None
        self._choke_sent = self._receiver.choked
        if self._choke_sent:
            flags, delay_ms = Flag.DELAY, CHOKE_MS
        through, nacks = self._receiver.acknowledgement
        self._out.append(Packet(self.remote_number, self.number, 0, through, nacks, flags, delay_ms=delay_ms).encode())
        self._acknowledged()

    def _acknowledged(self) -> None:
        self._unacknowledged = 0
        self._ack_at = None

    def _packet(self, sequence: int, flags: Flag, payload: bytes = b"") -> Packet:
        through, nacks = self._receiver.acknowledgement
        return Packet(self.remote_number, self.number, sequence, through, nacks, flags, payload)

    def _settle(self, now: float) -> None:
        if self.state is not StreamState.OPEN:
            return
        if self._unsent and self._may_send:
            self._send(now)
        elif self._close_sent and self._sender.all_acknowledged and self._receiver.close_seen:
            self._end(StreamState.CLOSED)

    @property
    def _may_send(self) -> bool:
        if self._choked_by_peer:
            return self._sender.all_acknowledged  # one packet at a time: the packet that ends the choke may get lost
        return self._sender.room

    def _end(self, state: StreamState, reason: str = "") -> None:
        self.state = state
        self.reason = reason
        self._unsent.clear()
