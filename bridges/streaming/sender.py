"""The sending half of a stream: keeps packets until they are acknowledged, and repeats lost ones."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from bridges.streaming.limits import FIRST_WINDOW, MAX_WINDOW, MIN_WINDOW
from bridges.streaming.round_trip import RoundTripEstimate

_FAST: Final = 2
"""NACKs of a packet after which the packet is sent again (streaming specification, "NACKs")."""


@dataclass(slots=True)
class _Sent:
    data: bytes = field(repr=False)
    at: float
    """When the packet was last sent."""
    attempts: int = 1
    nacks: int = 0


class Sender:
    """Keeps the packets that the peer has not acknowledged, and decides when to repeat a packet.

    `now` is seconds of any clock that does not go back.
    """

    __slots__ = ("_recovered", "_threshold", "_under_way", "attempts", "buffered", "next", "round_trip", "window")

    def __init__(self) -> None:
        self.next = 0
        """Number of the next packet."""
        self.round_trip = RoundTripEstimate()
        self.window = float(FIRST_WINDOW)
        """Congestion window: most packets that may be unacknowledged at one time."""
        self.attempts = 0
        """Attempts of the most repeated overdue packet; 0 after a new acknowledgement."""
        self._threshold = float(MAX_WINDOW)
        self._under_way: dict[int, _Sent] = {}  # in the order of their numbers
        self.buffered = 0
        """Bytes of data in the packets that are not acknowledged."""
        self._recovered = 0
        """A packet number. The window has shrunk once for all losses of earlier packets."""

    @property
    def room(self) -> bool:
        """Whether another packet may be sent."""
        return len(self._under_way) < int(self.window)

    @property
    def all_acknowledged(self) -> bool:
        """Whether the peer has acknowledged every packet that was sent."""
        return not self._under_way

    def sent(self, data: bytes, now: float, attempts: int = 1) -> None:
        """Note the packet with the number `next`, which goes out now. `attempts`: how often the packet has gone out."""
        self._under_way[self.next] = _Sent(data, now, attempts)
        self.buffered += len(data)
        self.next += 1

    @property
    def only_last(self) -> bool:
        """Whether all but the last packet are acknowledged."""
        return self._under_way.keys() == {self.next - 1}

    def first_again(self, now: float) -> list[bytes]:
        """Return this side's first packet, or nothing once that packet is acknowledged.

        Call this when the peer repeats the peer's first packet: the peer has probably not got this side's one.
        """
        first = self._under_way.get(0)
        if first is None:
            return []
        first.attempts += 1
        first.at = now
        return [first.data]

    def due(self) -> float | None:
        """Return when the oldest unacknowledged packet must be sent again; None without such a packet."""
        if not self._under_way:
            return None
        return next(iter(self._under_way.values())).at + self.round_trip.timeout

    def acknowledge(self, through: int, nacks: Iterable[int], now: float) -> tuple[list[bytes], bool]:
        """Take in an acknowledgement; ignore an acknowledgement of packets that were never sent.

        Return the packets to send again at once, and whether any packet is acknowledged for the first time.
        """
        if through >= self.next:
            return [], False
        missing = set(nacks)
        arrived = [number for number in self._under_way if number <= through and number not in missing]
        for number in arrived:
            sent = self._under_way.pop(number)
            self.buffered -= len(sent.data)
            if sent.attempts == 1:
                self.round_trip.sample(now - sent.at)
            self._grow()
        if arrived:
            self.round_trip.heard()
            self.attempts = 0
        return self._fast_resends(missing, now), bool(arrived)

    def overdue(self, now: float) -> list[bytes]:
        """Return the packets to send again because no acknowledgement came in time; none before that time."""
        due = self.due()
        if due is None or now < due:
            return []
        timeout = self.round_trip.timeout
        resends = [sent for sent in self._under_way.values() if sent.at + timeout <= now]
        self._threshold = max(self.window / 2, MIN_WINDOW)
        self.window = float(MIN_WINDOW) if self.attempts else self._threshold
        self._recovered = self.next
        self.round_trip.missed()
        # The window limits these packets, too. The rest is overdue again after the next acknowledgement or silence.
        resends = resends[: max(int(self.window), MIN_WINDOW)]
        for sent in resends:
            sent.attempts += 1
            sent.at = now
            sent.nacks = 0
        self.attempts = max(sent.attempts for sent in resends)
        return [sent.data for sent in resends]

    def _fast_resends(self, missing: set[int], now: float) -> list[bytes]:
        resends = []
        for number in sorted(missing & self._under_way.keys()):
            sent = self._under_way[number]
            sent.nacks += 1
            patience = self.round_trip.smoothed or 0.0
            if sent.nacks >= _FAST and (sent.attempts == 1 or now - sent.at >= patience):
                if number >= self._recovered:
                    self._threshold = max(self.window / 2, MIN_WINDOW)
                    self.window = self._threshold
                    self._recovered = self.next
                sent.nacks = 0
                sent.attempts += 1
                sent.at = now
                resends.append(sent.data)
        return resends

    def _grow(self) -> None:
        if self.window < self._threshold:
            self.window += 1
        else:
            self.window += 1 / self.window
        self.window = min(self.window, MAX_WINDOW)
