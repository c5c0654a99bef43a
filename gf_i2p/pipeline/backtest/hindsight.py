"""The truth about a farm's servers, with hindsight: when each server was dead, or unable to publish.

All records of the log count, also the records that came later than the time in question. The truth depends on the log
alone, and on no parameter set under trial. Times are of the farm's stopwatch (`FarmClock.passed_ms`), in ms.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from gf_i2p.farm.parameters import Parameters
from gf_i2p.farm.publishing.lease import lease_seconds, record_seconds

Times = list[tuple[int, int]]
"""Periods (begin, end), one after the other, without overlaps."""
LATE_MS: Final = 600_000
"""Most time for which a record may still change the truth about the past."""
USUAL_INTERVAL_MS: Final = 30_000
"""Time between two records of a server that does not tell this time."""


@dataclass(slots=True)
class _Newest:
    """The newest record of a server."""

    heard_ms: int
    date_ms: int
    able: bool
    due_ms: int
    """Time when the next record is due."""
    lease_ms: int
    judged_ms: int = 0
    """Time up to which a silence after this record stands in the truth already."""


class Hindsight:
    """The truth about the servers of one farm, as the log goes on.

    A server could not serve in these times:

    - From a record that says so (`able` is False) up to the server's next record.
    - In a silence that is longer than the lease, from the time when the next record was due. A publisher whose records
      the log does not take stops serving by itself when its lease is over (`publishing/lease.py`).
    - In a silence, from the end of the lease, if the next record came late only: by its dates, the server has made that
      record in time.
    """

    def __init__(self) -> None:
        self._newest: dict[int, _Newest] = {}
        self._unable: dict[int, Times] = {}
        self._removed: dict[int, int] = {}  # by server: time of its removal from the farm

    def heard(
        self, server: int, now_ms: int, date_ms: int, *, able: bool, interval_ms: int | None, parameters: Parameters
    ) -> None:
        """Take in a record.

        Args:
            server: the id of the server.
            now_ms: time when the log has taken the record.
            date_ms: the record's own date, by the server's clock, in ms since the epoch.
            able: whether the server can publish, by this record.
            interval_ms: time between two records of this server, by the record; None: the record does not tell.
            parameters: the parameters that the farm had at this time.
        """
        newest = self._newest.get(server)
        times = self._unable.setdefault(server, [(0, now_ms)])
        if server in self._removed:
            _add(times, self._removed.pop(server), now_ms)
        if newest is not None:
            made_in_time = 0 <= date_ms - newest.date_ms <= newest.lease_ms
            begin = _unable_since(newest, now_ms, made_in_time=made_in_time)
            if begin is not None:
                _add(times, begin, now_ms)
        lease = lease_seconds(parameters)
        period = record_seconds((USUAL_INTERVAL_MS if interval_ms is None else interval_ms) / 1000, parameters)
        due_ms, lease_ms = now_ms + int(period * 1000), int(lease * 1000)
        self._newest[server] = _Newest(now_ms, date_ms, able, due_ms, lease_ms)

    def keep(self, servers: Collection[int], now_ms: int) -> None:
        """Take no more records of the servers that do not belong to the farm any more."""
        for server in self._newest.keys() - set(servers):
            self._judge(server, now_ms)
            del self._newest[server]
            self._removed[server] = now_ms

    def judge(self, now_ms: int) -> None:
        """Take the present silence of each server up to `now_ms` into the truth."""
        for server in self._newest:
            self._judge(server, now_ms)

    def _judge(self, server: int, now_ms: int) -> None:
        newest = self._newest[server]
        begin = _unable_since(newest, now_ms, made_in_time=False)
        if begin is not None and begin < now_ms:
            _add(self._unable[server], begin, now_ms)
            newest.judged_ms = now_ms

    def unable(self, server: int, since_ms: int, until_ms: int) -> Times:
        """Return when a server could not serve, between two times. A server without a record could never serve."""
        return within(self._unable.get(server, [(since_ms, until_ms)]), since_ms, until_ms)

    def nobody(self, servers: Iterable[int], since_ms: int, until_ms: int) -> Times:
        """Return when no server could serve, between two times."""
        times: Times = [(since_ms, until_ms)]
        for server in servers:
            times = common(times, self.unable(server, since_ms, until_ms))
        return times

    def forget(self, before_ms: int) -> None:
        """Forget the truth about the time before `before_ms`."""
        for server, times in self._unable.items():
            self._unable[server] = [each for each in times if each[1] > before_ms]


def _unable_since(newest: _Newest, now_ms: int, *, made_in_time: bool) -> int | None:
    """Return since when a server cannot serve, if its newest record is `newest` up to `now_ms`; None: it can serve."""
    if not newest.able:
        begin = newest.heard_ms
    elif now_ms - newest.heard_ms <= newest.lease_ms:
        return None
    else:
        begin = newest.heard_ms + newest.lease_ms if made_in_time else newest.due_ms
    return max(begin, newest.judged_ms)


def _add(times: Times, begin_ms: int, end_ms: int) -> None:
    if times and begin_ms <= times[-1][1]:
        times[-1] = (times[-1][0], max(times[-1][1], end_ms))
    elif begin_ms < end_ms:
        times.append((begin_ms, end_ms))


def within(times: Sequence[tuple[int, int]], since_ms: int, until_ms: int) -> Times:
    """Return the parts of periods between two times."""
    return [(max(begin, since_ms), min(end, until_ms)) for begin, end in times if begin < until_ms and since_ms < end]


def common(one: Sequence[tuple[int, int]], other: Sequence[tuple[int, int]]) -> Times:
    """Return the times that belong to both."""
    return [part for begin, end in one for part in within(other, begin, end)]


def outside(times: Sequence[tuple[int, int]], others: Sequence[tuple[int, int]]) -> Times:
    """Return the parts of `times` that belong to no period of `others`. Both are in order."""
    left: Times = []
    for begin, end in times:
        for other_begin, other_end in within(others, begin, end):
            if begin < other_begin:
                left.append((begin, other_begin))
            begin = other_end  # noqa: PLW2901 -- the rest of the period
        if begin < end:
            left.append((begin, end))
    return left


def lasting(times: Sequence[tuple[int, int]]) -> int:
    """Return the sum of the lengths, in ms."""
    return sum(end - begin for begin, end in times)
