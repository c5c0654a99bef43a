"""The publishers of one parameter set over time, and the outages that the hindsight truth finds in their office."""

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Final

from gf_i2p.netdb.meta_lease_set import MAX_AGE_SECONDS
from gf_i2p.pipeline.backtest.hindsight import Hindsight, Times, lasting, outside

USABLE_MS: Final = MAX_AGE_SECONDS * 1000
"""Time for which clients can use a published Meta lease set, in ms: a Java router takes no older set."""


@dataclass(frozen=True, slots=True)
class _Office:
    since_ms: int
    publisher: int | None
    """None: the office is vacant."""
    failover: bool
    continued: bool = False
    """Whether an earlier part of this office is settled already."""


@dataclass(slots=True)
class Offices:
    """The publishers of one run, in the order of time. Times are of the farm's stopwatch, in ms."""

    _past: list[_Office] = field(default_factory=list)
    """The offices whose time is not settled yet. The last office is the present one."""
    _published_ms: int | None = None
    """Time of the last set's publication; None: no set yet."""
    _serving_ms: int | None = None
    """Time since which the publisher serves without a break; None: nobody serves."""

    def change(self, now_ms: int, publisher: int | None, *, failover: bool) -> None:
        """Note the publisher from now on. None: nobody. `failover`: whether the farm's mode is `failover`."""
        office = _Office(now_ms, publisher, failover)
        if self._past and self._past[-1].since_ms == now_ms:
            self._past[-1] = office
        else:
            self._past.append(office)

    def settle(
        self, since_ms: int, until_ms: int, truth: Hindsight, servers: Collection[int], republish_ms: int
    ) -> int:
        """Return the outage, in ms, from `since_ms` or the last call on, up to `until_ms`.

        An outage is a time in which nobody was in office, or a publisher that could not serve, although some server
        could. In mode `meta` it only begins when clients cannot use the newest set any more: `USABLE_MS` after the
        publication. A publisher publishes when it takes office, when it is able again, and every `republish_ms`.
        """
        outage_ms = 0
        for place, office in enumerate(self._past):
            end_ms = self._past[place + 1].since_ms if place + 1 < len(self._past) else until_ms
            begin_ms, end_ms = max(office.since_ms, since_ms), min(end_ms, until_ms)
            if begin_ms < end_ms:
                times = self._unserved(office, begin_ms, end_ms, truth, republish_ms)
                if times:
                    outage_ms += lasting(outside(times, truth.nobody(servers, begin_ms, end_ms)))
        later = [each for each in self._past if each.since_ms > until_ms]
        if len(later) < len(self._past):
            present = self._past[len(self._past) - len(later) - 1]
            continued = present.continued or present.since_ms < until_ms
            later.insert(0, _Office(until_ms, present.publisher, present.failover, continued))
        self._past = later
        return outage_ms

    def _unserved(self, office: _Office, begin_ms: int, end_ms: int, truth: Hindsight, republish_ms: int) -> Times:
        """Return when clients could not be served, as far as one office says."""
        whole = [(begin_ms, end_ms)]
        unable = whole if office.publisher is None else truth.unable(office.publisher, begin_ms, end_ms)
        if office.failover:
            return unable
        unserved: Times = []
        at_ms = begin_ms
        if not office.continued:
            self._serving_ms = None
        for begin, end in [*unable, (end_ms, end_ms)]:
            if at_ms < begin:
                self._publish(at_ms, begin, republish_ms)
            if begin < end:
                self._serving_ms = None
                usable_ms = begin if self._published_ms is None else self._published_ms + USABLE_MS
                if usable_ms < end:
                    unserved.append((max(begin, usable_ms), end))
            at_ms = end
        return unserved

    def _publish(self, since_ms: int, until_ms: int, republish_ms: int) -> None:
        """Note the last set of a publisher that serves between two times."""
        if self._serving_ms is None:
            self._serving_ms = since_ms
        self._published_ms = until_ms - (until_ms - self._serving_ms) % republish_ms
