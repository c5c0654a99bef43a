"""Makes farms with incidents, and labels that say which incident was when: to measure what `health` finds.

The simulator's lives repeat day by day. Here each farm has a course of its own, minute by minute: a daily and a weekly
cycle, slow changes that all servers share and slow changes of each server, heavy tails, restarts, short bursts. All
these are normal. Incidents (`incident_kinds`) change the course. The records of the course are those of real nodes.
"""

import gzip
import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from gf_i2p.farm.record.status_record import FIRST_LEAF_MEMBER_ID, Leaf, Meta, ReportedConfig, StatusRecord
from gf_i2p.netdb.encoding import to_base64
from gf_i2p.pipeline.days import DAY_MS, HOUR_MS
from gf_i2p.pipeline.errors import UsageError
from gf_i2p.pipeline.synth.incident_kinds import (
    FARM,
    KINDS,
    LEAF,
    Kind,
    LeafCourse,
    Numbers,
    PosterCourse,
    Stretch,
)
from gf_i2p.simulator.life.reporters import CONNECTIONS, MASTER_TEXT
from gf_i2p.storage.history_lines import Header, header_line, record_line, servers_line, trailer_line
from gf_i2p.storage.history_reader import plain_name
from gf_i2p.storage.packed_files import GZIP

LABELS: Final = "labels.json"
_HOUR: Final = 60
_DAY: Final = 24 * _HOUR
_MINUTE_MS: Final = HOUR_MS // 60
_CALM_DAYS: Final = 4
"""Days at the beginning of a farm without incidents."""
LEAST_DAYS: Final = 2 * _CALM_DAYS + 4
"""Least days of a farm: the longest incidents need eight days between the calm days and the last half day."""
_APART: Final = 36 * _HOUR
"""Least minutes between two incidents of one server."""
_TRIES: Final = 200


@dataclass(frozen=True, slots=True)
class Climate:
    """The normal life of made-up farms, and how strong and long incidents are."""

    peaks: tuple[float, ...] = (19.5,)
    """Hours of the day with the most traffic."""
    swing: float = 0.45
    """Share by which traffic rises and falls in the day."""
    weekend: float = 1.2
    """Factor of the traffic on Saturdays and Sundays."""
    noise: float = 0.3
    """Standard deviation of the logarithm of a record's bandwidth."""
    wander: float = 0.08
    """Standard deviation of slow changes, as a logarithm."""
    bursts: float = 0.6
    """Mean number of short bursts a day of each server."""
    restarts: float = 1.5
    """Mean number of restarts a week of each router."""
    severity: float = 1.0
    length: float = 1.0
    """Factor of the duration of incidents."""
    servers: tuple[int, ...] = (3, 2, 3, 5)
    """Number of servers of each farm, in turn."""
    members: tuple[int, ...] = (0, 0, 1)
    leaves: tuple[int, ...] = (2, 1)


CLIMATES: Final = {
    "usual": Climate(),
    "other": Climate(
        peaks=(8.0, 21.0),
        swing=0.3,
        weekend=0.85,
        noise=0.4,
        wander=0.1,
        bursts=1.0,
        restarts=2.0,
        severity=0.85,
        length=0.8,
        servers=(4, 3, 2, 3),
        members=(1, 0),
        leaves=(1, 3),
    ),
}
"""The climate "usual" was there when the rules of `health` were made. The rules have not seen the climate "other"."""


@dataclass(frozen=True, slots=True)
class Label:
    """An incident of a farm."""

    kind: Kind
    first: int
    last: int
    poster: PosterCourse | None
    """None: the incident happened to the whole farm."""
    leaf: LeafCourse | None

    def encode(self, farm: str, began_ms: int) -> dict[str, Any]:
        """Return the label as a JSON object."""
        return {
            "farm": farm,
            "kind": self.kind.name,
            "server": None if self.poster is None else self.poster.id,
            "destination": None if self.leaf is None else to_base64(self.leaf.hash),
            "beginMs": began_ms + self.first * _MINUTE_MS,
            "endMs": began_ms + self.last * _MINUTE_MS,
            "measures": list(self.kind.measures),
        }


class LabelledFarm:
    """A farm of some weeks with incidents. The same arguments give the same farm."""

    def __init__(self, number: int, days: int, seed: int, climate: Climate) -> None:
        """`number`: of the farm, from 0. `days`: at least `LEAST_DAYS`."""
        assert days >= LEAST_DAYS
        self._chance = np.random.default_rng([seed, number])
        self._climate = climate
        self._minutes = days * _DAY
        shared = _wander(self._chance, days * 24, 18.0, climate.wander)
        servers = climate.servers[number % len(climate.servers)]
        members = climate.members[number % len(climate.members)]
        self._leaves = climate.leaves[number % len(climate.leaves)]
        ids = [*range(1, servers + 1), *range(FIRST_LEAF_MEMBER_ID, FIRST_LEAF_MEMBER_ID + members)]
        self.posters = [self._poster(number, id_, shared) for id_ in ids]
        self.labels: list[Label] = []
        first_kind = number * 7
        for turn in range(round(len(ids) * (days - _CALM_DAYS) / 4)):
            self._add(KINDS[(first_kind + turn * 5) % len(KINDS)])

    def _poster(self, farm: int, id_: int, shared: Numbers) -> PosterCourse:
        chance, minutes, climate = self._chance, self._minutes, self._climate
        own = _wander(chance, minutes // _HOUR, 4.0, climate.wander)
        hours = np.arange(minutes) / _HOUR
        peak = chance.normal(0.0, 1.5)
        day = sum(np.cos((hours - each - peak) * np.pi / 12) for each in climate.peaks) / len(climate.peaks)
        week = np.where((hours // 24 + 2) % 7 >= 5, climate.weekend, 1.0)  # the first day is a Wednesday
        busy = (1 + climate.swing * day) * week * np.exp(np.repeat(own + shared, _HOUR))
        traffic = busy * np.exp(chance.normal(0, climate.noise, minutes) + 0.1 * chance.standard_t(3, minutes))
        for at in chance.integers(0, minutes, chance.poisson(climate.bursts * minutes / _DAY)):
            traffic[at : at + chance.integers(5, 40)] *= chance.uniform(1.5, 4)
        lag = chance.uniform(2, 25) * np.sqrt(busy) * np.exp(chance.normal(0, 0.7, minutes))
        lag += np.where(chance.random(minutes) < 0.003, np.minimum(100 * chance.pareto(1.2, minutes), 20_000), 0)
        bandwidth = chance.uniform(80_000, 900_000)
        router = {
            "participatingTunnels": chance.uniform(150, 3_000) * busy**0.6 * np.exp(chance.normal(0, 0.04, minutes)),
            "jobLag": lag,
            "currentInboundBandwidth": bandwidth * traffic,
            "currentOutboundBandwidth": bandwidth * traffic * chance.uniform(0.9, 1.15, minutes),
            "knownPeers": chance.uniform(2_000, 6_000) * np.exp(np.repeat(own, _HOUR) / 3)
            + chance.normal(0, 10, minutes),
        }
        visitors = chance.uniform(8, 45)
        leaves = [
            LeafCourse(
                hashlib.sha256(f"labelled leaf {farm} {id_} {number}".encode()).digest(),
                np.ones(minutes, bool),
                np.minimum(visitors * busy * np.exp(chance.normal(0, 0.1, minutes)), CONNECTIONS),
            )
            for number in range(self._leaves)
        ]
        clock_ms = chance.uniform(-300, 300) + np.repeat(_wander(chance, minutes // _HOUR, 24.0, 40.0), _HOUR)
        poster = PosterCourse(id_, np.ones(minutes, bool), np.ones(minutes, bool), clock_ms, router, leaves)
        for at in chance.integers(0, minutes - _DAY, chance.poisson(climate.restarts * minutes / _DAY / 7)):
            _restart(poster, int(at), int(chance.integers(2, 6)), is_heard=chance.random() < 0.6)
        return poster

    def _add(self, kind: Kind) -> None:
        """Add an incident at a random time to a random server, unless no free time is found."""
        chance = self._chance
        for _ in range(_TRIES):
            length = int(chance.uniform(*kind.hours) * self._climate.length * _HOUR)
            first = int(chance.integers(_CALM_DAYS * _DAY, self._minutes - length - _DAY // 2))
            poster = None if kind.scope == FARM else self.posters[chance.integers(len(self.posters))]
            if any(
                first < each.last + _APART and each.first < first + length + _APART
                for each in self.labels
                if poster is None or each.poster is None or each.poster is poster
            ):
                continue
            leaf = poster.leaves[chance.integers(len(poster.leaves))] if poster and kind.scope == LEAF else None
            stretch = Stretch(chance, first, first + length, self._climate.severity)
            kind.change(self.posters if poster is None else [poster], leaf, stretch)
            self.labels.append(Label(kind, first, first + length, poster, leaf))
            return

    def write(self, directory: Path, farm: str, began_ms: int) -> int:
        """Write the history of server 1, a packed file for each day; return the number of entries. Raises `OSError`.

        That history goes on while server 1 posts no records.
        """
        directory.mkdir(mode=0o700, parents=True)
        servers = [each.id for each in self.posters if each.id < FIRST_LEAF_MEMBER_ID]
        index = 0
        for day in range(self._minutes // _DAY):
            first, opened_ms = index + 1, began_ms + day * DAY_MS
            lines = [header_line(Header(farm, 1, first, opened_ms)), servers_line(first, 1, opened_ms, servers, 1)]
            index += 1
            for received_ms, value in self._records(farm, range(day * _DAY, (day + 1) * _DAY), began_ms):
                index += 1
                lines.append(record_line(index, 1, received_ms, value))
            lines.append(trailer_line(index))
            packed = gzip.compress(b"".join(lines), 1, mtime=0)
            (directory / (plain_name(first) + GZIP)).write_bytes(packed)
        return index

    def _records(self, farm: str, minutes: range, began_ms: int) -> Iterator[tuple[int, bytes]]:
        """Yield the records of some minutes, each with the time at which server 1 received the record."""
        chance, exporter = self._chance, self.posters[0]
        phases = [number * 60_000 // len(self.posters) for number in range(len(self.posters))]
        for minute in minutes:
            for phase, poster in zip(phases, self.posters, strict=True):
                if not poster.posts[minute]:
                    continue
                at_ms = began_ms + minute * _MINUTE_MS + phase + int(chance.integers(0, 5_000))
                date_ms = at_ms + round(poster.clock_ms[minute])
                received_ms = at_ms + int(chance.integers(20, 400)) + round(exporter.clock_ms[minute])
                yield received_ms, _record(poster, farm, minute, date_ms).encode()


@dataclass(frozen=True, slots=True)
class LabelledFigures:
    """Counts of one run."""

    farms: int
    days: int
    entries: int
    incidents: int


def write_labelled(
    out: Path, climate: str, farms: int, days: int, seed: int, began_ms: int, say: Callable[[str], None]
) -> LabelledFigures:
    """Write farms with incidents, and the labels of all incidents as a list in `LABELS`.

    `out`: a directory. `climate`: one of `CLIMATES`. `began_ms`: the first midnight. `say`: called with each step.
    Raises `UsageError` and `OSError`.
    """
    if days < LEAST_DAYS:
        raise UsageError(f"Farms with incidents need {LEAST_DAYS} days: give --days {LEAST_DAYS} or more.")
    entries, labels = 0, []
    for number in range(farms):
        name = f"farm-{number}"
        farm = LabelledFarm(number, days, seed, CLIMATES[climate])
        entries += farm.write(out / name / "server-1", name, began_ms)
        labels += [each.encode(name, began_ms) for each in farm.labels]
        say(f"{number + 1} of {farms} farms written")
    (out / LABELS).write_text(json.dumps(labels, indent=1) + "\n", encoding="utf-8")
    return LabelledFigures(farms, days, entries, len(labels))


def _record(poster: PosterCourse, farm: str, minute: int, date_ms: int) -> StatusRecord:
    is_server, is_up = poster.id < FIRST_LEAF_MEMBER_ID, bool(poster.up[minute])
    return StatusRecord(
        cluster=farm,
        date_ms=date_ms,
        id=poster.id,
        router_up=is_up,
        router={name: max(round(each[minute]), 0) for name, each in poster.router.items()} if is_up else {},
        meta=Meta(MASTER_TEXT, "auto", poster.id == 1, 0) if is_server else None,
        leaves=tuple(
            Leaf(
                leaf.hash,
                bool(leaf.up[minute]) and is_up,
                configured_connections=CONNECTIONS,
                current_connections=round(leaf.connections[minute]),
            )
            for leaf in poster.leaves
        ),
        config=ReportedConfig("meta", _MINUTE_MS, "0.1.0") if is_server else None,
    )


def _restart(poster: PosterCourse, at: int, lasts: int, *, is_heard: bool) -> None:
    """Restart a router, or the whole machine when nothing is heard meanwhile: tunnels come back in 40 minutes."""
    (poster.up if is_heard else poster.posts)[at : at + lasts] = False
    back = np.linspace(0.05, 1.0, 40)
    for name in ("participatingTunnels", "currentInboundBandwidth", "currentOutboundBandwidth"):
        poster.router[name][at + lasts : at + lasts + len(back)] *= back


def _wander(chance: np.random.Generator, hours: int, memory: float, spread: float) -> Numbers:
    """Return hourly values around 0 that change slowly. `memory`: hours in which a value fades to a third."""
    keeps = np.exp(-1 / memory)
    steps = chance.normal(0, spread * np.sqrt(1 - keeps**2), hours)
    values = np.empty(hours)
    value = chance.normal(0, spread)
    for hour, step in enumerate(steps):
        value = value * keeps + step
        values[hour] = value
    return values
