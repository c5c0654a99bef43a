"""The receiving half of a stream: puts the peer's packets in order, once each, and acknowledges them."""

from bridges.streaming.limits import MAX_AHEAD, MAX_NACKS, MAX_UNREAD
from bridges.streaming.packet import Flag, Packet


class Receiver:
    """The receiving half of a stream."""

    __slots__ = ("_ahead", "_ahead_bytes", "_unread", "_unread_bytes", "ended", "through")

    def __init__(self) -> None:
        self.ended = False
        """Whether the peer has closed, and all earlier packets are here."""
        self.through = 0
        """Number of the last packet with no gap before."""
        self._unread: list[bytes] = []
        self._unread_bytes = 0
        self._ahead: dict[int, Packet] = {}
        self._ahead_bytes = 0

    @property
    def close_seen(self) -> bool:
        """Whether the peer's CLOSE has come, even after a gap that the peer may never fill."""
        return self.ended or any(packet.flags & Flag.CLOSE for packet in self._ahead.values())

    @property
    def buffered(self) -> int:
        """Bytes that were received and not yet read."""
        return self._unread_bytes + self._ahead_bytes

    @property
    def choked(self) -> bool:
        """Whether packets are refused until `read` is called."""
        return self._unread_bytes >= MAX_UNREAD

    @property
    def readable(self) -> bool:
        """Whether there are bytes to read."""
        return bool(self._unread)

    def read(self) -> bytes:
        """Take the bytes in order up to the first gap; b"" for none."""
        data = b"".join(self._unread)
        self._unread.clear()
        self._unread_bytes = 0
        return data

    def first(self, payload: bytes) -> None:
        """Take the payload of the stream's first packet, number 0."""
        self._keep(payload)

    def take(self, packet: Packet) -> bool:
        """Take a packet with data, or the closing packet. Return whether the packet is the next one in order.

        False: the packet is a repetition, or a packet before it is missing, or there is no room. Then the caller
        acknowledges at once.
        """
        if packet.sequence <= self.through or self.ended or self.choked:
            return False
        if packet.sequence != self.through + 1:
            self._put_aside(packet)
            return False
        self._append(packet)
        while (following := self._ahead.pop(self.through + 1, None)) is not None:
            self._ahead_bytes -= len(following.raw)
            self._append(following)
        return True

    @property
    def acknowledgement(self) -> tuple[int, tuple[int, ...]]:
        """The highest number that came, and the missing numbers below: the fields `acknowledged` and `nacks`."""
        highest = max(self._ahead, default=self.through)
        missing: list[int] = []
        for number in range(self.through + 1, highest):
            if number in self._ahead:
                continue
            if len(missing) == MAX_NACKS:
                return number - 1, tuple(missing)
            missing.append(number)
        return highest, tuple(missing)

    def _put_aside(self, packet: Packet) -> None:
        room = self._ahead_bytes + len(packet.raw) <= MAX_UNREAD
        if packet.sequence <= self.through + MAX_AHEAD and packet.sequence not in self._ahead and room:
            self._ahead[packet.sequence] = packet
            self._ahead_bytes += len(packet.raw)

    def _append(self, packet: Packet) -> None:
        self.through = packet.sequence
        self._keep(packet.payload)
        if packet.flags & Flag.CLOSE:
            self.ended = True
            self._ahead.clear()
            self._ahead_bytes = 0

    def _keep(self, payload: bytes) -> None:
        if payload:
            self._unread.append(payload)
            self._unread_bytes += len(payload)
