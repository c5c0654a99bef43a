"""The client's side of streaming, kept small, and a network that loses, doubles and mixes up packets."""

import heapq
import random
from collections.abc import Callable

from bridges.streaming.packet import REPLAY_NACKS, Flag, Packet
from bridges.streaming.stream import Stream, StreamState
from gf_i2p.netdb.private_keys import DestinationKeys
from tests.netdb.strategies import KEYS, NOW, entropy

CLIENT = DestinationKeys.generate(entropy(11))
CLIENT_DELEGATED = CLIENT.delegate(NOW + 86_400, entropy(12))
PAYLOAD = 1000
WINDOW = 20
TIMEOUT = 2.0


def first_packet(
    keys: DestinationKeys = CLIENT, number: int = 77, payload: bytes = b"", server: bytes | None = KEYS.destination.hash
) -> Packet:
    """The packet that opens a stream; encode the packet with the keys' `key.sign`.

    `server`: the destination that the packet names as the receiver.
    """
    flags = Flag.SYNCHRONIZE | Flag.FROM | Flag.SIGNATURE | Flag.MAX_PAYLOAD | Flag.NO_ACK
    if keys.offline is not None:
        flags |= Flag.OFFLINE_SIGNATURE
    nacks: tuple[int, ...] = ()
    if server is not None:
        nacks = tuple(int.from_bytes(server[4 * n : 4 * n + 4], "big") for n in range(REPLAY_NACKS))
    return Packet(
        0,
        number,
        0,
        0,
        nacks,
        flags,
        payload,
        source=keys.destination,
        max_payload=1730,
        offline=keys.offline,
    )


class Client:
    """A client that sends all its data, acknowledges every packet, and repeats a packet without a timely answer."""

    def __init__(self, data: bytes, keys: DestinationKeys = CLIENT, number: int = 77) -> None:
        self.received = bytearray()
        self.ended = False
        """Whether the server's CLOSE packet has come, after all data before it."""
        self.reset = False
        self.number = number
        self.remote = 0
        self.outgoing: list[bytes] = []
        self._keys = keys
        pieces = [data[at : at + PAYLOAD] for at in range(0, len(data), PAYLOAD)]
        self._pieces = [*pieces, None]  # None: CLOSE
        self._under_way: dict[int, tuple[bytes, float]] = {}
        self._next = 0
        self._through = -1
        self._ahead: dict[int, Packet] = {}

    @property
    def done(self) -> bool:
        return self.ended and not self._under_way and self._next > len(self._pieces)

    def start(self, now: float) -> None:
        packet = first_packet(self._keys, self.number)
        self._put(packet.encode(self._keys.key.sign), now)

    def receive(self, data: bytes, now: float) -> None:
        packet = Packet.parse(data)
        assert packet.to == self.number
        if packet.flags & (Flag.SYNCHRONIZE | Flag.CLOSE | Flag.RESET):
            packet.verify(KEYS.destination.signing_key)
        if packet.flags & Flag.RESET:
            self.reset = True
            self._under_way.clear()
            return
        if packet.flags & Flag.SYNCHRONIZE:
            assert packet.source == KEYS.destination
            self.remote = packet.number
        if packet.flags & Flag.SYNCHRONIZE or self.remote:
            for sequence in [n for n in self._under_way if n <= packet.acknowledged and n not in packet.nacks]:
                del self._under_way[sequence]
        if not packet.plain_ack:
            self._take(packet)
            self.outgoing.append(Packet(self.remote, self.number, 0, *self._acknowledgement()).encode())
        self.send(now)

    def send(self, now: float) -> None:
        if not self.remote or self.reset:
            return
        while len(self._under_way) < WINDOW and self._next <= len(self._pieces):
            piece = self._pieces[self._next - 1]
            flags = Flag.CLOSE | Flag.SIGNATURE if piece is None else Flag(0)
            through, nacks = self._acknowledgement()
            packet = Packet(self.remote, self.number, self._next, max(through, 0), nacks, flags, piece or b"")
            self._put(packet.encode(self._keys.key.sign if piece is None else None), now)

    def tick(self, now: float) -> None:
        for sequence, (data, at) in list(self._under_way.items()):
            if now >= at + TIMEOUT:
                self._under_way[sequence] = data, now
                self.outgoing.append(data)

    def _put(self, data: bytes, now: float) -> None:
        self._under_way[self._next] = data, now
        self._next += 1
        self.outgoing.append(data)

    def _take(self, packet: Packet) -> None:
        if packet.sequence > self._through:
            self._ahead[packet.sequence] = packet
        while (following := self._ahead.pop(self._through + 1, None)) is not None:
            self._through += 1
            self.received += following.payload
            self.ended = self.ended or bool(following.flags & Flag.CLOSE)

    def _acknowledgement(self) -> tuple[int, tuple[int, ...]]:
        highest = max(self._ahead, default=self._through)
        return highest, tuple(n for n in range(self._through + 1, highest) if n not in self._ahead)[:255]


class Network:
    """The network between a client and a server's stream, with a separate clock."""

    def __init__(
        self, seed: int, *, loss: float = 0.0, doubled: float = 0.0, delay: float = 0.1, mixed: float = 2.0
    ) -> None:
        self.now = 1000.0
        self.sent = 0
        self._random = random.Random(seed)
        self._loss, self._doubled, self._delay = loss, doubled, delay
        self._mixed = mixed  # the longest delay; the shortest is its inverse
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0

    def at(self, when: float, what: Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self._due, (when, self._count, what))

    def carry(self, what: Callable[[], None]) -> None:
        self.sent += 1
        for _ in range(1 + (self._random.random() < self._doubled)):
            if self._random.random() >= self._loss:
                self.at(self.now + self._delay * self._random.uniform(1 / self._mixed, self._mixed), what)

    def step(self) -> None:
        self.now, _, what = heapq.heappop(self._due)
        what()


def ended(stream: Stream) -> bool:
    return stream.state is not StreamState.OPEN
