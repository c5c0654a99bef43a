"""Logs of made-up farms: servers that die, stand still, are slow to post, and leaves that go up and down.

Only the records are made up here. The replay of such a log decides by the production `FarmState`. All follows from a
seed. Times are seconds since the farm's first day began.
"""

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, replace
from random import Random
from typing import Any, Final

from gf_i2p.farm.record.remote_sensing import RemoteRouter
from gf_i2p.farm.record.status_record import Leaf
from gf_i2p.pipeline.backtest.replay import ReplayedEntry
from tests.farm.strategies import leaf, record

BEGAN_MS: Final = 1_735_689_600_000
"""2025-01-01, midnight UTC."""
DAY: Final = 86_400.0
INTERVAL: Final = 30.0
INTERVAL_MS: Final = 30_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """The troubles of a farm. Rates are mean numbers in a day, of each server."""

    mode: str = "failover"
    servers: int = 3
    deaths: float = 0.0
    death_seconds: tuple[float, float] = (300.0, 1800.0)
    pauses: float = 0.0
    pause_seconds: tuple[float, float] = (40.0, 150.0)
    noticed: float = 0.0
    """Chance, 0 to 1, that another server soon reports that a dead server is not heard."""
    slow: float = 0.0
    """Chance, 0 to 1, that a record takes 20 to 70 s until the log has the record."""
    leaf_falls: float = 0.0
    leaf_seconds: tuple[float, float] = (20.0, 600.0)
    lags: float = 0.0
    """Hours in which a router's jobs lag, so that the router's score is lower by one step or two."""
    uneven: float = 0.5
    """How much the days differ: the spread of the logarithm of each day's rates."""


@dataclass(slots=True)
class _Server:
    id: int
    away: list[tuple[float, float, bool]]
    """Begin, end, and whether the process ends: a process that only stands still keeps its uptime."""
    falls: list[tuple[float, float]]
    lags: list[tuple[float, float]]
    started: float = -DAY


def log(kind: Kind, seed: int, days: float) -> Iterator[ReplayedEntry]:
    """Yield the log of a farm, entry by entry."""
    chance = Random(f"made-up farm {seed}")
    servers = [_server(kind, chance, number, days) for number in range(1, kind.servers + 1)]
    yield ReplayedEntry(1, 1, BEGAN_MS, "servers", servers=tuple(range(1, kind.servers + 1)))
    queue = [(chance.random() * INTERVAL, number, "post") for number in range(kind.servers)]
    for number, server in enumerate(servers):
        queue += [(end, number, "back") for _, end, _ in server.away]
        queue += [(at + 0.5, number, "changed") for fall in server.falls for at in fall]
        for begin, end, ends in server.away:
            if ends and end - begin > 10 and chance.random() < kind.noticed:
                queue.append((begin + chance.uniform(3.0, 8.0), number, "accused"))
    heapq.heapify(queue)
    waiting: list[tuple[float, int, bytes]] = []
    posted, index = 0, 1
    while queue and queue[0][0] < days * DAY:
        now, number, what = heapq.heappop(queue)
        while waiting and waiting[0][0] <= now:
            committed, _, value = heapq.heappop(waiting)
            index += 1
            yield ReplayedEntry(index, 1, BEGAN_MS + int(committed * 1000), "status", value)
        if what == "post":
            heapq.heappush(queue, (now + INTERVAL * chance.uniform(0.97, 1.03), number, "post"))
        accused: tuple[RemoteRouter, ...] = ()
        if what == "accused":
            accused = (RemoteRouter(servers[number].id, reachable=False),)
            number = next((other for other, each in enumerate(servers) if not _is_away(each, now)), number)
        server = servers[number]
        if _is_away(server, now):
            continue
        late = chance.uniform(20.0, 70.0) if chance.random() < kind.slow else chance.uniform(0.05, 0.5)
        posted += 1
        heapq.heappush(waiting, (now + late, posted, _record(kind, server, now, accused)))


def away(kind: Kind, seed: int, days: float) -> dict[int, list[tuple[float, float]]]:
    """Return when each server of the same farm could not serve, by id."""
    chance = Random(f"made-up farm {seed}")
    servers = [_server(kind, chance, number, days) for number in range(1, kind.servers + 1)]
    return {each.id: [(begin, end) for begin, end, _ in each.away] for each in servers}


def _server(kind: Kind, chance: Random, number: int, days: float) -> _Server:
    rates = [chance.lognormvariate(0.0, kind.uneven) for _ in range(int(days) + 1)]
    deaths = [(*each, True) for each in _times(chance, kind.deaths, kind.death_seconds, rates)]
    pauses = [(*each, False) for each in _times(chance, kind.pauses, kind.pause_seconds, rates)]
    return _Server(
        number,
        sorted([*deaths, *pauses]),
        _times(chance, kind.leaf_falls, kind.leaf_seconds, rates),
        _times(chance, kind.lags, (600.0, 7200.0), rates),
    )


def _times(chance: Random, rate: float, seconds: tuple[float, float], rates: list[float]) -> list[tuple[float, float]]:
    times: list[tuple[float, float]] = []
    for day, factor in enumerate(rates):
        now = day * DAY
        while rate and (now := now + chance.expovariate(rate * factor / DAY)) < (day + 1) * DAY:
            end = now + chance.uniform(*seconds)
            times.append((now, end))
            now = end + 300.0
    return times


def _is_away(server: _Server, now: float) -> bool:
    while server.away and server.away[0][1] <= now:
        _, end, ends = server.away.pop(0)
        server.started = end if ends else server.started
    return bool(server.away) and server.away[0][0] <= now


def _within(times: list[tuple[float, float]], now: float) -> bool:
    while times and times[0][1] <= now:
        del times[0]
    return bool(times) and times[0][0] <= now


def _record(kind: Kind, server: _Server, now: float, accused: tuple[RemoteRouter, ...]) -> bytes:
    router: dict[str, Any] = {"uptime": int((now - server.started) * 1000), "reachability": "ok"}
    router["jobLag"] = 1_500 if _within(server.lags, now) else 20
    leaves: tuple[Leaf, ...] = ()
    if kind.mode == "meta":
        one = leaf(server.id, up=not _within(server.falls, now))
        leaves = (replace(one, configured_connections=100, current_connections=10),)
    made = record(server.id, *leaves, date=BEGAN_MS + int(now * 1000), mode=kind.mode, router=router)
    assert made.config is not None
    made.config.interval_ms = INTERVAL_MS
    return replace(made, remote_routers=accused).encode()
