"""Streams whose first packet brought no data: small records, until the peer shows that the peer has got the answer.

A flood of first packets fills these records only, and displaces its own: when there is no room, the oldest record of
the most crowded destination goes.
"""

from bridges.hosting_protocol import StreamLimits
from bridges.streaming.stream import HalfOpen


class HalfOpenStreams:
    """All half-open streams of an acceptor, the oldest first."""

    def __init__(self, limits: StreamLimits) -> None:
        self._limits = limits
        self._by_number: dict[int, HalfOpen] = {}
        self._by_remote: dict[int, HalfOpen] = {}
        self._by_source: dict[bytes, dict[int, HalfOpen]] = {}
        """By the peer's hash, and the peer's number."""

    def __len__(self) -> int:
        return len(self._by_number)

    def __contains__(self, number: int) -> bool:
        return number in self._by_number

    def of(self, source: bytes, remote_number: int) -> HalfOpen | None:
        """Return the record of a first packet, by the peer's hash and the peer's number; None when there is none."""
        return self._by_source.get(source, {}).get(remote_number)

    def addressed(self, to: int, remote_number: int) -> HalfOpen | None:
        """Return the record that a later packet is for, or None.

        `to`: this side's number for the stream; 0 while the peer has no answer.
        """
        return self._by_number.get(to) if to else self._by_remote.get(remote_number)

    def add(self, record: HalfOpen) -> None:
        """Keep a record. When the destination has too many records, its oldest one goes.

        When all destinations together have too many, the oldest record of the most crowded destination goes.
        """
        source = record.peer.destination.hash
        if len(self._by_source.get(source, ())) >= self._limits.per_destination:
            self._remove_oldest(source)
        elif len(self._by_number) >= self._limits.streams:
            self._remove_oldest(max(self._by_source, key=lambda each: len(self._by_source[each])))
        self._by_number[record.number] = record
        self._by_remote.setdefault(record.first.number, record)
        self._by_source.setdefault(source, {})[record.first.number] = record

    def remove(self, record: HalfOpen) -> None:
        """Forget a record."""
        source, remote_number = record.peer.destination.hash, record.first.number
        del self._by_number[record.number]
        if self._by_remote.get(remote_number) is record:
            del self._by_remote[remote_number]
        of_source = self._by_source[source]
        del of_source[remote_number]
        if not of_source:
            del self._by_source[source]

    def expire(self, now: float) -> None:
        """Forget the records that have waited too long."""
        while self._by_number and (oldest := next(iter(self._by_number.values()))).until <= now:
            self.remove(oldest)

    def _remove_oldest(self, source: bytes) -> None:
        self.remove(next(iter(self._by_source[source].values())))
