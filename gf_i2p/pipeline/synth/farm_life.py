"""Days of invented farms: the simulator's servers and faults, with routers whose numbers go up and down.

The simulator's own routers are only up or down. Here each router has tunnels, bandwidth, peers and lag that follow the
time of day, drift, and are noisy. Farms with incidents in these numbers are in `labelled_farm`.
"""

import hashlib
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from gf_i2p.farm.record.remote_sensing import RemoteRouter
from gf_i2p.farm.record.status_record import FIRST_LEAF_MEMBER_ID, Leaf, Meta, ReportedConfig, StatusRecord
from gf_i2p.simulator.facts import Voters
from gf_i2p.simulator.life.farm import FarmLife
from gf_i2p.simulator.life.plan import BRAIN_FAULTS, CALM, LifePlan
from gf_i2p.simulator.life.reporters import CONNECTIONS, INTERVAL, MASTER_TEXT, LeafTruth, SimulatedReporter
from gf_i2p.simulator.registers import CLUSTER
from gf_i2p.storage.history_lines import record_line

DAY_SECONDS: Final = 86_400.0
FAULT_GAP: Final = 1_800.0
"""Mean seconds between two faults, as for a farm in a bad week."""
_RARE: Final = {"modes changed": 0.1, "publishing switched": 0.3, "configurations changed": 0.3}
_SKEW_MS: Final = 400
"""Largest error of a clock that counts as right."""
_STEPS: Final = (1, 1, 1, 2, 3)
"""Amounts by which an election raises the term."""
_HEAD: Final = record_line(1, 0, 0, b"0")[: -len(b'0,"term":0}\n')]
_TAIL: Final = len(b',"term":0}\n')


@dataclass(frozen=True, slots=True)
class Shape:
    """The size of a farm, which never changes."""

    number: int
    """Seed of the habits of routers and leaves."""
    servers: int
    members: int
    """Number of leaf members, which have no vote."""
    leaves: int
    """Number of leaves of each server and leaf member."""


@dataclass(frozen=True, slots=True)
class SynthEntry:
    """An entry of a life's log."""

    seconds: float
    """Time of the commit, in seconds of the day."""
    term: int
    """The first term of a life is 1."""
    leader: int
    kind: str
    """"status", "admin" or "servers"."""
    text: bytes
    """The value as in a line of the history; empty for "servers"."""
    servers: Voters
    """Servers, for "servers" only."""
    errors_ms: tuple[int, ...]
    """Milliseconds that each server's clock is ahead."""


@dataclass(slots=True)
class SynthLife:
    """A simulated day of a farm, or the first hours of a day."""

    shape: Shape
    seed: int
    entries: list[SynthEntry] = field(default_factory=list)
    away: dict[int, list[tuple[float, float]]] = field(default_factory=dict)
    """Times when each server was down, paused or cut off: seconds of the day."""
    faults: dict[str, int] = field(default_factory=dict)

    @property
    def last_term(self) -> int:
        """Term of the newest entry."""
        return self.entries[-1].term


def simulate_life(shape: Shape, seed: int, *, hours: float = 24.0) -> SynthLife:
    """Simulate a farm for `hours`, at least 0.5, from midnight on. The same arguments give the same life."""
    assert hours >= 0.5
    simulated = _SimulatedLife(_plan(shape, seed, hours), shape)
    simulated.run()
    life = SynthLife(shape, seed, faults=dict(sorted(simulated.counts.items())))
    for value, (seconds, term, leader, errors) in zip(simulated.log, simulated.stamps, strict=True):
        if isinstance(value, tuple):
            life.entries.append(SynthEntry(seconds, term, leader, "servers", b"", value, errors))
        else:
            line = record_line(1, 0, 0, value)
            assert line.startswith(_HEAD)
            kind = "admin" if b'"action":' in value else "status"
            life.entries.append(SynthEntry(seconds, term, leader, kind, line[len(_HEAD) : -_TAIL], (), errors))
    life.away = simulated.absences()
    return life


def _plan(shape: Shape, seed: int, hours: float) -> LifePlan:
    rng = Random(f"synth plan {shape} {seed}")  # noqa: S311 -- must be repeatable, and keeps no secret
    minority = (shape.servers - 1) // 2
    wrong = rng.sample(range(1, shape.servers + 1), rng.randint(0, min(minority, 1)))
    return LifePlan(
        seed=seed,
        servers=shape.servers,
        members=tuple(range(FIRST_LEAF_MEMBER_ID, FIRST_LEAF_MEMBER_ID + shape.members)),
        mode="meta",
        leaves=shape.leaves,
        odd="",
        wrong=tuple(wrong),
        chaos=hours * 3600 - CALM,
        gap=FAULT_GAP,
        faults={name: _RARE.get(name, 1.0) for name in BRAIN_FAULTS},
        latency=0.3,
        lost=0.02,
        snapshot_entries=4_000,
    )


class _SimulatedLife(FarmLife):
    """A farm's life that notes time, term and leader of each entry."""

    def __init__(self, plan: LifePlan, shape: Shape) -> None:
        self.stamps: list[tuple[float, int, int, tuple[int, ...]]] = []
        self._term = 1
        self._elects = False
        self._absences: list[tuple[int, float, float]] = []
        super().__init__(plan)
        self._leader = 1
        self._chance = Random(f"synth {shape} {plan.seed}")  # noqa: S311
        for number, node in enumerate(self.nodes.values()):
            habits = Random(f"synth router {shape.number} {number}")  # noqa: S311
            names = [f"leaf {shape.number} {node.id} {leaf}" for leaf in range(shape.leaves)]
            leaves = [LeafTruth(hashlib.sha256(name.encode()).digest()) for name in names]
            router = _Router(habits, self._chance, lambda: self.events.now)
            node.poster = _SyntheticReporter(node.id, leaves, habits=router)
            if not node.error_ms:
                node.error_ms = habits.randint(-_SKEW_MS, _SKEW_MS)

    def _run_until(self, until: float) -> None:
        self.events.run(until, 1 << 62)  # no limit: a day with many members has more events than a test

    def commit(self, value: bytes | Voters) -> int:
        """Append an entry. Before the first entry of a new leader, append the leader's Configuration."""
        if self._elects and not self.leaderless:
            self._elects = False
            self._term += self._chance.choice(_STEPS)
            working = [node.id for node in self.servers if node.works and node.id in self.checker.ledger.servers]
            if self._leader not in working and working:
                self._leader = self._chance.choice(working)
            self.commit(tuple(self.checker.ledger.servers))
        errors = tuple(node.error_ms for node in self.servers)
        self.stamps.append((self.events.now, self._term, self._leader or 1, errors))
        return super().commit(value)

    def without_leader(self, seconds: float) -> None:
        """Commit nothing for `seconds`; then a new term begins."""
        super().without_leader(seconds)
        self._elects = True

    def back(self, node: Any) -> None:
        """Note the past absence of a node that works again."""
        if node.works and node.away_since is not None:
            self._absences.append((node.id, node.away_since, self.events.now))
        super().back(node)

    def absences(self) -> dict[int, list[tuple[float, float]]]:
        """Return the times when each server was away, in seconds of the day."""
        by_server: dict[int, list[tuple[float, float]]] = {node.id: [] for node in self.servers}
        for server, since, until in self._absences:
            by_server[server].append((since, until))
        return by_server


@dataclass(slots=True)
class _SyntheticReporter(SimulatedReporter):
    """A simulated poster whose records also have the router's numbers and the leaves' connections."""

    habits: "_Router" = field(kw_only=True)

    def record(self, date_ms: int, *, version_ms: int = 0, publishing: bool = False) -> bytes:
        """Return the next record's bytes."""
        router = self.habits
        for leaf in self.leaves:
            leaf.connections = router.visitors(leaf.connections)
        return StatusRecord(
            cluster=CLUSTER,
            date_ms=date_ms,
            id=self.id,
            router_up=self.router_up,
            router=router.numbers(self.lag_ms) if self.router_up else {},
            meta=Meta(MASTER_TEXT, self.publish, publishing, version_ms) if self.is_server else None,
            leaves=tuple(
                Leaf(
                    leaf.hash,
                    leaf.up and self.router_up,
                    configured_connections=CONNECTIONS,
                    current_connections=leaf.connections,
                )
                for leaf in self.leaves
            ),
            config=ReportedConfig(self.mode, int(INTERVAL * 1000), "0.1.0") if self.is_server else None,
            remote_routers=tuple(RemoteRouter(*each) for each in sorted(self.accused.items())),
        ).encode()


class _Router:
    """A router's numbers. `habits`: random numbers that are the same in all of the router's lives.

    `chance`: random numbers that differ from life to life.
    """

    def __init__(self, habits: Random, chance: Random, now: Callable[[], float]) -> None:
        self._now = now
        self._chance = chance
        self._tunnels = habits.uniform(150, 3_000)
        self._bandwidth = habits.uniform(80_000, 900_000)
        self._peers = habits.uniform(2_000, 6_000)
        self._lag = habits.uniform(2, 25)
        self._visitors = habits.uniform(8, 60)
        self._peak = habits.gauss(19.5, 2.5)
        """Hour of the day with the most visitors."""
        self._drift = 0.0
        self._drifted_at = 0.0

    def numbers(self, more_lag_ms: int) -> dict[str, Any]:
        """Return the router's part of a record. `more_lag_ms`: lag that the simulator adds."""
        chance, day = self._chance, self._day()
        inbound = self._bandwidth * day * math.exp(chance.gauss(0.0, 0.12))
        figures = {
            "participatingTunnels": self._tunnels * (0.7 + 0.3 * day) * math.exp(chance.gauss(0.0, 0.03)),
            "jobLag": self._lag * day * math.exp(chance.gauss(0.0, 0.4)) + more_lag_ms,
            "currentInboundBandwidth": inbound,
            "currentOutboundBandwidth": inbound * chance.uniform(0.9, 1.15),
            "knownPeers": self._peers * (1 + 0.05 * self._drift) + chance.gauss(0.0, 8.0),
        }
        return {
            "uptime": int((DAY_SECONDS + self._now()) * 1000),
            "version": "2.9.0",
            "reachability": "ok",
            **{name: max(round(value), 0) for name, value in figures.items()},
            "activePeers": round(max(figures["knownPeers"], 0.0) * 0.04),
            "configuredInboundBandwidth": 2_048_000,
            "configuredOutboundBandwidth": 2_048_000,
        }

    def visitors(self, now: int) -> int:
        """Return a leaf's next number of streams. `now`: the leaf's present number of streams."""
        aim = self._visitors * self._day()
        return min(max(round(now + 0.2 * (aim - now) + self._chance.gauss(0.0, 1.5)), 0), CONNECTIONS)

    def _day(self) -> float:
        """Return how busy the network is: about 1 on average, by the time of day, with a drift over some hours."""
        now = self._now()
        fades = math.exp((self._drifted_at - now) / 7_200)
        self._drift = self._drift * fades + self._chance.gauss(0.0, 1.0) * math.sqrt(1 - fades * fades)
        self._drifted_at = now
        return 1 + 0.45 * math.cos((now / 3600 - self._peak) * math.pi / 12) + 0.06 * self._drift
