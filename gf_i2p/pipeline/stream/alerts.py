"""Alerts: each alert makes one event when the alert begins, and one event when the alert ends.

A farm is judged by its state at its newest report. If the stream catches up with a long time, only the health tables
tell of that time. An alert ends at another limit than the limit at which the alert begins, so that a value near one
limit does not make event after event.
"""

from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import attrgetter
from statistics import fmean, median
from typing import Final, NamedTuple

from gf_i2p.farm.record.status_record import FIRST_LEAF_MEMBER_ID
from gf_i2p.pipeline.days import HOUR_MS
from gf_i2p.pipeline.health.episodes import LEAST_WATCHED_MS
from gf_i2p.pipeline.health.status_reports import FRESH_MS, MEMORY_MS
from gf_i2p.pipeline.stream.tail import Configuration, Report

BEGINS: Final = "begins"
ENDS: Final = "ends"
_NEWS_MS: Final = 300_000
"""Time over which a clock's skew is averaged: the time of some ten records."""

_ORDER: Final = attrgetter("received_ms", "index", "term")
AlertKey = tuple[str, int | None, str]
"""Farm, server and alert. The server is None for an alert of the whole farm."""


@dataclass(frozen=True, slots=True)
class AlertChange:
    """The beginning or end of an alert, without the time when it was noticed."""

    farm: str
    server: int | None
    """None for an alert of the whole farm."""
    alert: str
    event: str
    """`BEGINS` or `ENDS`."""
    at_ms: int
    """Time of the farm's newest report, in ms since the epoch."""
    value: float | None
    text: str


@dataclass(frozen=True, slots=True)
class AlertLimits:
    """Limits at which alerts begin and end."""

    silent_ms: int = FRESH_MS
    """Milliseconds between a server's newest record and the farm's newest record, above which the server is silent."""
    availability: float = 0.9
    """Availability in the last hour. An alert begins below this limit, and ends half way from the limit to 1."""
    flaps: int = 4
    """Changes of a router between up and down in the last hour. An alert ends at 1 change."""
    skew_ms: int = 30_000
    """Difference between a server's clock and the farm's median. An alert ends at two thirds of the limit."""
    farm_silent_ms: int = 600_000
    """Age of a silent farm's newest record, by the clock of the stream's machine; see `silent_farms`."""


class Condition(NamedTuple):
    """An alert that is possible at a farm's newest report: whether the alert begins or ends if it may."""

    server: int | None
    alert: str
    begins: bool
    ends: bool
    value: float | None
    text: str


class ServerState(NamedTuple):
    """A server at the farm's newest report. None: the reports do not tell."""

    server: int
    belongs: bool
    """Whether the server belongs to the farm by its newest Configuration."""
    first_ms: int
    last_ms: int
    availability: float | None
    flaps: int
    skew_ms: float | None
    published_ms: int | None
    would: bool


def _share_up(reports: Sequence[Report], at: int, limits: AlertLimits) -> float | None:
    watched = min(HOUR_MS, at - reports[0].received_ms)
    if watched < LEAST_WATCHED_MS:
        return None
    up_ms, until = 0, at
    for report in reversed(reports):
        heard = report.received_ms
        covered = min(until, heard + limits.silent_ms) - max(heard, at - HOUR_MS)
        up_ms += covered if report.up and covered > 0 else 0
        until = heard
        if heard <= at - HOUR_MS:
            break
    return up_ms / watched


def _flaps(reports: Sequence[Report], at: int) -> int:
    return sum(before.up != after.up for before, after in pairwise(reports) if after.received_ms > at - HOUR_MS)


def _ahead_ms(reports: Sequence[Report], at: int) -> float | None:
    recent = [report.ahead_ms for report in reports if report.received_ms > at - _NEWS_MS]
    return fmean(recent) if recent else None


class FarmWatch:
    """The reports of one farm in its last day."""

    def __init__(self) -> None:
        self._heard: defaultdict[int, list[Report]] = defaultdict(list)  # by server, in the order `_ORDER`
        self._seen: dict[tuple[int, int], Report] = {}  # by (index, term)
        self._newest: tuple[int, int] = (0, 0)
        self._configured: frozenset[int] | None = None

    @property
    def at_ms(self) -> int:
        """Time of the newest report, in ms since the epoch; 0: there is no report."""
        return max((reports[-1].received_ms for reports in self._heard.values() if reports), default=0)

    def add(self, news: Report | Configuration) -> None:
        """Take in a report or a Configuration, each once.

        Of the copies of several exporters the one counts that was received at the time nearest to the record's date.
        """
        if isinstance(news, Configuration):
            if (news.index, news.term) > self._newest:
                self._newest, self._configured = (news.index, news.term), frozenset(news.servers)
            return
        copy = self._seen.get((news.index, news.term))
        if copy is not None:
            if abs(copy.ahead_ms) <= abs(news.ahead_ms):
                return
            of_copy = self._heard[copy.server]
            del of_copy[bisect_left(of_copy, _ORDER(copy), key=_ORDER)]
        self._seen[news.index, news.term] = news
        insort(self._heard[news.server], news, key=_ORDER)

    def _forget(self) -> None:
        """Forget what was heard more than a day ago."""
        since = self.at_ms - MEMORY_MS
        for server, reports in [*self._heard.items()]:
            reports[:] = [report for report in reports if report.received_ms > since]
            if not reports:
                del self._heard[server]
        self._seen = {key: report for key, report in self._seen.items() if report.received_ms > since}

    def belongs(self, server: int) -> bool:
        """Return whether a server belongs to the farm by the newest Configuration. Leaf members are in none."""
        return self._configured is None or server >= FIRST_LEAF_MEMBER_ID or server in self._configured

    def servers(self, limits: AlertLimits) -> list[ServerState]:
        """Return each server's state."""
        self._forget()
        at = self.at_ms
        ahead = {server: _ahead_ms(reports, at) for server, reports in self._heard.items()}
        middle = median(known) if (known := [each for each in ahead.values() if each is not None]) else 0
        states = []
        for server, reports in sorted(self._heard.items()):
            ahead_ms = ahead[server]
            states.append(
                ServerState(
                    server,
                    self.belongs(server),
                    reports[0].received_ms,
                    reports[-1].received_ms,
                    _share_up(reports, at, limits),
                    _flaps(reports, at),
                    None if ahead_ms is None else ahead_ms - middle,
                    max((report.received_ms for report in reports if report.publishing), default=None),
                    reports[-1].would,
                )
            )
        return states


def judge(farm: str, watch: FarmWatch, limits: AlertLimits, present: Mapping[AlertKey, int]) -> list[AlertChange]:
    """Return the events that make the present alerts agree with the farm's state. `present`: the alerts that stand."""
    events = []
    servers = watch.servers(limits)
    for server, alert, begins, ends, value, text in conditions(servers, watch.at_ms, limits):
        stands = (farm, server, alert) in present
        if (begins and not stands) or (ends and stands):
            events.append(AlertChange(farm, server, alert, ENDS if stands else BEGINS, watch.at_ms, value, text))
    return [*events, *_of_forgotten(farm, watch, {each.server for each in servers}, present)]


def _of_forgotten(
    farm: str, watch: FarmWatch, heard: Collection[int], present: Collection[AlertKey]
) -> Iterator[AlertChange]:
    """Yield the ends of alerts of servers that were not heard for a day, and left the farm or are leaf members."""
    for of, server, alert in present:
        if of != farm or server is None or server in heard:
            continue
        if not watch.belongs(server):
            yield AlertChange(farm, server, alert, ENDS, watch.at_ms, None, _left(server))
        elif server >= FIRST_LEAF_MEMBER_ID:
            yield AlertChange(farm, server, alert, ENDS, watch.at_ms, None, f"{_name(server)} was not heard for a day")


def _name(server: int) -> str:
    return f"{'server' if server < FIRST_LEAF_MEMBER_ID else 'member'} {server}"


def _left(server: int) -> str:
    return f"{_name(server)} belongs to the farm no more"


def conditions(servers: Sequence[ServerState], at_ms: int, limits: AlertLimits) -> Iterator[Condition]:
    """Yield the possible alerts of a farm whose newest report was received at `at_ms`."""
    for state in servers:
        for each in _of_server(state, at_ms, limits):
            if state.belongs:
                yield each
            else:
                yield each._replace(begins=False, ends=True, text=_left(state.server))
    yield _publisher(servers, at_ms, limits)


def _of_server(state: ServerState, at_ms: int, limits: AlertLimits) -> Iterator[Condition]:
    who = _name(state.server)
    silent_ms, share, skew_ms = at_ms - state.last_ms, state.availability, state.skew_ms
    text = f"{who} was last heard {silent_ms // 1000} s before the farm's newest entry"
    is_silent = silent_ms > limits.silent_ms
    yield Condition(state.server, "silent", is_silent, not is_silent, silent_ms / 1000, text)
    if share is not None:
        text = f"{who} was available for {share * 100:.1f} % of the last hour"
        begins, ends = share < limits.availability, share >= (1 + limits.availability) / 2
        yield Condition(state.server, "availability", begins, ends, share, text)
    text = f"the router of {who} went up or down {state.flaps} times in the last hour"
    yield Condition(state.server, "flapping", state.flaps >= limits.flaps, state.flaps <= 1, float(state.flaps), text)
    if skew_ms is not None:
        text = f"the clock of {who} is {skew_ms / 1000:+.1f} s off the farm's"
        begins, ends = abs(skew_ms) > limits.skew_ms, abs(skew_ms) <= limits.skew_ms * 2 // 3
        yield Condition(state.server, "skew", begins, ends, skew_ms / 1000, text)


def _publisher(servers: Sequence[ServerState], at_ms: int, limits: AlertLimits) -> Condition:
    """Return the alert that no server publishes, though a server should."""
    first_ms = min((each.first_ms for each in servers), default=at_ms)
    since_ms = at_ms - max((each.published_ms for each in servers if each.published_ms is not None), default=first_ms)
    would = any(each.belongs and each.would and at_ms - each.last_ms <= limits.silent_ms for each in servers)
    is_vacant = would and since_ms > limits.silent_ms
    text = "there is a publisher" if would else "nobody is configured to publish"
    if is_vacant:
        text = f"nobody has published for {since_ms // 1000} s"
    return Condition(None, "publisher", is_vacant, not is_vacant, since_ms / 1000, text)
