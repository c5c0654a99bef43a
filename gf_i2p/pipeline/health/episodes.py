"""Finds a farm's episodes: stretches of odd hours of a server, of a leaf, of two servers' clocks, or of the whole farm.

Each measure of each server and leaf is judged by itself (`evidence`). An hour in which a router was mostly down tells
only of availability. A leaf is judged by what its router's own state does not explain. When the same measure of most
servers is odd to the same side at the same time, the farm has one episode and the servers have none. The skew of a
clock is the distance from the farm's median. Of two clocks, that median lies between both, so both clocks look odd to
opposite sides: then one episode tells of one of both.
"""

from base64 import b32encode, b64decode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from gf_i2p.farm.record.status_record import FIRST_LEAF_MEMBER_ID
from gf_i2p.pipeline.days import HOUR_MS
from gf_i2p.pipeline.health.evidence import DAY, PAST_DAYS, Numbers, OddHours, odd_hours
from gf_i2p.pipeline.health.measures import OF_LEAVES, OF_SERVERS, Measure

Columns: TypeAlias = Mapping[str, NDArray[Any]]
"""Columns of a table, by name. All have one length; NaN: not known."""

LEAST_WATCHED_MS: Final = HOUR_MS // 4
"""Least watched time of an hour that is judged."""
_LEAST_UP: Final = 0.75
"""Least availability of an hour whose other figures are judged: below, the router's end and start make the figures."""
_TOGETHER: Final = 0.4
"""Least time that two episodes share, as a part of the time that one or the other lasts, to have one cause."""
_SKEW: Final = "skew_ms"
_PAST_HOURS: Final = PAST_DAYS * DAY
_NAME_LETTERS: Final = 8


@dataclass(frozen=True, slots=True)
class Episode:
    """A stretch of odd hours of one measure. A row of the table `anomalies`, but for the farm's name."""

    subject: str
    """"server", "leaf", "pair" (the clocks of two servers: one of both is odd), "farm" (most servers) or "leaves"
    (leaves of most servers)."""
    server: int | None
    """None for "pair", "farm" and "leaves"."""
    destination: str | None
    """Hash of the leaf in base64; None for all other subjects."""
    servers: tuple[int, ...]
    """All servers and leaf members that the episode was seen at, in order."""
    measure: str
    begin_ms: int
    end_ms: int
    """End of the last odd hour."""
    hours: int
    """Number of odd hours; for several servers, those of the server with the most odd hours."""
    worst_ms: int
    """Beginning of the oddest hour."""
    value: float
    usual: float
    spread: float
    """Value, usual value and spread of the oddest hour, in the unit of the measure's column."""
    score: float
    """Distance of the oddest hour from the usual value, in spreads."""
    text: str = ""

    def is_together_with(self, other: "Episode") -> bool:
        """Return whether two episodes share so much time that they may have one cause."""
        shared = min(self.end_ms, other.end_ms) - max(self.begin_ms, other.begin_ms)
        return shared >= _TOGETHER * (max(self.end_ms, other.end_ms) - min(self.begin_ms, other.begin_ms))


@dataclass(frozen=True, slots=True)
class _Found:
    """An episode, with what is needed to join episodes."""

    episode: Episode
    measure: Measure
    sign: int
    of_two: bool
    """Whether only two clocks were known in the oddest hour."""


def episodes(servers: Columns, leaves: Columns) -> list[Episode]:
    """Return a farm's episodes in the order of time. The order of rows in the tables is of no importance.

    `servers`, `leaves`: rows of the tables `server_hours` and `destination_hours`, with "hour_ms", "server",
    "watched_ms", "destination", and the columns of the measures.
    """
    if not len(servers["hour_ms"]):
        return []
    grid = _Grid(servers, leaves)
    found = list(grid.found())
    last_ms = int(servers["hour_ms"].max()) + HOUR_MS
    joined = _joined(found, grid.posters)
    told = [replace(each.episode, text=_sentence(each, last_ms)) for each in joined]
    return sorted(told, key=lambda each: (each.begin_ms, each.measure, each.servers, each.destination or ""))


class _Grid:
    """A farm's hours as rows of values: a row for each measure of each server and leaf."""

    def __init__(self, servers: Columns, leaves: Columns) -> None:
        first = int(servers["hour_ms"].min())
        self._start = first - first % (DAY * HOUR_MS)
        self._length = -(-(int(servers["hour_ms"].max()) + HOUR_MS - self._start) // (DAY * HOUR_MS)) * DAY
        self.posters = [int(each) for each in np.unique(servers["server"])]
        self._series: list[tuple[Measure, int, str | None]] = []
        self._rows: list[Numbers] = []
        by_server = {poster: servers["server"] == poster for poster in self.posters}
        self._heard = np.zeros(self._length)
        """Number of known clocks."""
        tables = {poster: self._table(servers, rows, OF_SERVERS) for poster, rows in by_server.items()}
        for table in tables.values():
            self._heard += ~np.isnan(table[_SKEW])
        week = sliding_window_view(np.pad(self._heard, (_PAST_HOURS - 1, 0)), _PAST_HOURS).max(-1)
        for poster, table in tables.items():
            # The median of two lies between both, and moves when a third is silent.
            table[_SKEW][(self._heard == 2) & (week > 2)] = np.nan
            self._add_all(table, table["availability"], OF_SERVERS, poster, None)
        places = list(zip(leaves["server"], leaves["destination"], strict=True))
        numbers = {place: number for number, place in enumerate(dict.fromkeys(places))}
        number_of = np.array([numbers[place] for place in places], int)
        for (poster, destination), number in sorted(numbers.items()):
            of_server = tables[int(poster)]
            table = self._table(leaves, number_of == number, OF_LEAVES)
            table["availability"] = np.minimum(1.0, table["availability"] + 1 - of_server["availability"])
            table["flaps"] = np.maximum(0.0, table["flaps"] - of_server["flaps"])
            self._add_all(table, of_server["availability"], OF_LEAVES, int(poster), str(destination))

    def _table(self, columns: Columns, rows: NDArray[np.bool_], measures: Sequence[Measure]) -> dict[str, Numbers]:
        """Return the measures of one server or leaf, by name, hour by hour."""
        rows = rows & (columns["watched_ms"] >= LEAST_WATCHED_MS)
        hours = (columns["hour_ms"][rows] - self._start) // HOUR_MS
        table = {}
        for each in measures:
            table[each.name] = np.full(self._length, np.nan)
            table[each.name][hours] = columns[each.name][rows]
        if "records" in table:
            table["records"][hours] *= HOUR_MS / columns["watched_ms"][rows]
        return table

    def _add_all(
        self, table: dict[str, Numbers], up: Numbers, measures: Sequence[Measure], poster: int, leaf: str | None
    ) -> None:
        for each in measures:
            values = table[each.name]
            if each.name not in ("availability", "flaps"):
                own = table["availability"]
                values = np.where((up >= _LEAST_UP) & (own >= _LEAST_UP), values, np.nan)
            elif leaf is not None:
                values = np.where(up >= _LEAST_UP, values, np.nan)
            self._series.append((each, poster, leaf))
            self._rows.append(values)

    def found(self) -> Iterator[_Found]:
        """Yield the episodes of all series."""
        for each in odd_hours(np.array(self._rows), [measure for measure, *_ in self._series]):
            measure, poster, leaf = self._series[each.series]
            yield _Found(self._episode(each, measure, poster, leaf), measure, each.sign, self._heard[each.worst] == 2)

    def _episode(self, odd: OddHours, measure: Measure, poster: int, leaf: str | None) -> Episode:
        return Episode(
            subject="server" if leaf is None else "leaf",
            server=poster,
            destination=leaf,
            servers=(poster,),
            measure=measure.name,
            begin_ms=self._start + int(odd.hours[0]) * HOUR_MS,
            end_ms=self._start + (int(odd.hours[-1]) + 1) * HOUR_MS,
            hours=len(odd.hours),
            worst_ms=self._start + odd.worst * HOUR_MS,
            value=odd.value,
            usual=odd.usual,
            spread=odd.spread,
            score=odd.score,
        )


def _joined(found: Sequence[_Found], posters: Sequence[int]) -> Iterator[_Found]:
    """Yield the episodes, with one episode in the place of those that have one cause."""
    left = sorted(found, key=lambda each: (each.episode.begin_ms, each.episode.servers, each.episode.destination or ""))
    while left:
        first, *left = left
        is_pair = first.measure.name == _SKEW
        group = [each for each in left if _have_one_cause(first, each)]
        servers = {server for each in (first, *group) for server in each.episode.servers}
        if len(servers) > 1 and (is_pair or 2 * len(servers) > len(posters)):
            left = [each for each in left if each not in group]
            of_many = "farm" if first.episode.destination is None else "leaves"
            first = _one_of([first, *group], "pair" if is_pair else of_many)
        yield first


def _have_one_cause(one: _Found, other: _Found) -> bool:
    if one.measure is not other.measure or not one.episode.is_together_with(other.episode):
        return False
    if one.measure.name == _SKEW:  # the clocks of a pair
        return one.of_two and other.of_two and one.sign == -other.sign
    return one.sign == other.sign and (one.episode.destination is None) == (other.episode.destination is None)


def _one_of(group: Sequence[_Found], subject: str) -> _Found:
    worst = max(group, key=lambda each: each.episode.score)
    all_ = [each.episode for each in group]
    return replace(
        worst,
        episode=replace(
            worst.episode,
            subject=subject,
            server=None,
            destination=None,
            servers=tuple(sorted({server for each in all_ for server in each.servers})),
            begin_ms=min(each.begin_ms for each in all_),
            end_ms=max(each.end_ms for each in all_),
            hours=max(each.hours for each in all_),
        ),
    )


def _sentence(found: _Found, last_ms: int) -> str:
    """Return a sentence for the operator. The sentence quotes no text of a record: any server may write any text."""
    episode, measure = found.episode, found.measure
    begin = _time(episode.begin_ms)
    when = f"since {begin} UTC" if episode.end_ms >= last_ms else f"from {begin} to {_time(episode.end_ms, begin)} UTC"
    value, usual = (
        f"{each * measure.scale:,.{measure.digits}f}{measure.unit}" for each in (episode.value, episode.usual)
    )
    worst = f"{value} in the worst hour, and is {usual} usually"
    if episode.subject == "pair":
        both = " and ".join(map(str, episode.servers))
        return f"the clock of server {both[0]} or of server {both[-1]} was wrong {when}: {worst}"
    hours = "1 hour" if episode.hours == 1 else f"{episode.hours:,} hours"
    return f"{measure.words} of {_subject(episode)} was {worst}; {when}, {hours}"


def _subject(episode: Episode) -> str:
    if episode.server is None:
        what = "leaves of most servers" if episode.subject == "leaves" else "most servers"
        return f"{what} ({', '.join(map(str, episode.servers))})"
    kind = "server" if episode.server < FIRST_LEAF_MEMBER_ID else "member"
    server = f"{kind} {episode.server}"
    return server if episode.destination is None else f"leaf {leaf_name(episode.destination)}… of {server}"


def leaf_name(destination: str) -> str:
    """Return the first letters of a leaf's b32 address. `destination`: the hash in I2P's base64."""
    return b32encode(b64decode(destination, b"-~")).decode().lower()[:_NAME_LETTERS]


def _time(time_ms: int, begin: str = "") -> str:
    """Return a time, without the day if `begin` has the same day."""
    text = datetime.fromtimestamp(time_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M")
    return text[11:] if text[:10] == begin[:10] else text
