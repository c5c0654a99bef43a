"""The plan of a run, which the seed decides: the number of servers, network, disks and faults."""

from dataclasses import dataclass, replace
from random import Random
from typing import Final

from gf_i2p.raft import settings
from gf_i2p.raft.settings import Flow, Timing
from gf_i2p.simulator.cluster import network
from gf_i2p.simulator.cluster.network import CLIENTS, Delay
from gf_i2p.wire.log_values import ClusterServer, Configuration

MOST_NODES: Final = 9
USUAL_NODES: Final = (1, 2, 3, 3, 3, 4, 5, 5, 7)
"""Numbers of servers from which a seed chooses: sizes of small farms, odd and even."""
SLOWER: Final = (1.0, 1.0, 1.4, 2.0)
"""Factors on the time-outs from which a change of a server's time-outs chooses."""
MOST_SPARES: Final = 3
"""Most spare servers, which the operator may add to the farm."""

TROUBLE: Final = "trouble in a join"
"""This fault is drawn apart from the others."""
FAULTS: Final = (
    "one-way cuts",
    "partitions",
    "resets",
    "stalls",
    "pauses",
    "crashes",
    "power cuts",
    "farm-wide power cuts",
    "crashes in a write",
    "strikes at a new leader",
    "disks full",
    "slow disks",
    "clock jumps",
    "routers down",
    "late answers",
    "snapshots damaged",
    "returns",
    "routers restart",
    TROUBLE,
)
"""Names of the servers' faults; `faults.Faults` has the code. `faults.MESSAGE_FAULTS` names the faults of messages."""

SELDOM: Final = {"farm-wide power cuts": 0.1, "power cuts": 0.5, "disks full": 0.5, "snapshots damaged": 0.5}
"""Factors for the weights of faults that would otherwise leave the farm no time for anything else."""


@dataclass(frozen=True, slots=True)
class RunPlan:
    """The plan of one run. Times are seconds, unless the name ends in `_ms`. Chances are from 0 to 1."""

    seed: int
    nodes: int
    profile: str
    """Name of the network: "lan", "i2p", "mixed", or "tight", whose ways take almost as long as the time-outs."""
    strict: bool
    """Whether messages travel alone (`datagrams`) instead of on connections (`links`)."""
    timing: Timing
    ways: dict[tuple[int, int], Delay]
    sync: Delay
    """Distribution of the time that a disk's sync takes."""
    flow: Flow
    cache_bytes: int
    chaos: float
    """Seconds for which faults happen, before the calm."""
    gap: float
    """Mean seconds between two faults."""
    faults: dict[str, float]
    """Weight of each fault in the random choice, by the fault's name."""
    message_faults: tuple[float, float, float]
    """Chances that a single message is dropped, doubled, or takes very long."""
    patience: float
    """Time for which a server waits for the answer to a request that travels alone."""
    answers_lost: float
    """Chance that an answer to a client is lost."""
    rates: tuple[float, ...]
    """Speed of each server's monotonic clock, by the order of `ids`; real time has speed 1.0."""
    errors_ms: tuple[int, ...]
    """Error of each server's wall clock at the beginning, by the order of `ids`."""
    report: float
    """Time between two status records of a server."""
    silent: frozenset[int]
    """Servers that post no status records before the calm, as servers of JRaft."""
    reset: float
    """Mean time between two changes of a server's publishing settings by the server's operator; 0: no changes."""
    think: float
    """Mean pause of a client between two operations."""
    clients: int
    keys: int
    spares: int
    """Number of servers beside the first `nodes`; the operator may add these servers to the farm."""
    orders: float
    """Mean time between two orders of the operator; 0: no orders."""
    snapshot_entries: int
    """Number of new entries after which a server keeps a snapshot."""
    kept_entries: int
    """Most entries that stay in the log although a snapshot covers these entries."""
    retime: float
    """Mean time between two changes of some server's time-outs; 0: no changes."""
    forge: float
    """Mean time between two forged messages; 0: none."""
    far_terms: bool
    """Whether the forged messages claim terms of the far future."""
    foreign: float
    """Chance that an answer is one of another program's server (`foreign_answers`); 0: never."""
    whole_commit: bool
    """Whether each request tells the leader's whole commit index, as JRaft's requests do. This program's leaders
    tell the part that the request proves."""

    @property
    def ids(self) -> range:
        """Ids of all servers, spare servers included."""
        return range(1, self.nodes + self.spares + 1)

    @property
    def first_ids(self) -> range:
        """Ids of the servers with which the farm begins."""
        return range(1, self.nodes + 1)

    @property
    def slowest(self) -> Timing:
        """The longest time-outs that a server ever has."""
        return slower(self.timing, max(SLOWER)) if self.retime else self.timing

    @property
    def bootstrap(self) -> Configuration:
        """The farm's first Configuration."""
        return Configuration(0, 0, tuple(map(cluster_server, self.first_ids)))


def cluster_server(server_id: int) -> ClusterServer:
    """Return the part of a Configuration that names this server."""
    return ClusterServer(server_id, f"tcp://server-{server_id}.i2p:1")


def slower(timing: Timing, factor: float) -> Timing:
    """Return time-outs that are longer by this factor."""
    return Timing(timing.heartbeat * factor, timing.election_min * factor, timing.election_max * factor)


def draw(seed: int, nodes: int | None = None) -> RunPlan:
    """Return the plan of a seed. `nodes`: 1 to `MOST_NODES` servers; None: the seed decides."""
    rng = Random(f"plan {seed}")  # noqa: S311 -- it must be repeatable, and keeps no secret
    usual = rng.choice(USUAL_NODES)
    nodes = usual if nodes is None else nodes
    profile = rng.choice(("lan", "lan", "i2p", "mixed", "tight", "tight"))
    timing = settings.LAN if profile in {"lan", "tight"} else settings.I2P
    unit = timing.election_max
    # Few kinds of faults find errors that many kinds hide: a crash, say, ends a situation that a pause has prepared.
    share = rng.choice((0.1, 0.3, 0.7))
    kinds = [name for name in FAULTS if name != TROUBLE]
    chosen = [name for name in kinds if rng.random() < share] or [rng.choice(kinds)]
    changing = rng.random() < 0.6
    spares = rng.randint(nodes == 1, MOST_SPARES) if changing else 0
    strict = rng.random() < 0.35
    # Drawn apart: what the other draws give to a seed stays.
    apart = Random(f"records {seed}")  # noqa: S311
    unlike = apart.random() < 0.3
    silence = apart.choice((0.3, 0.6, 0.9)) if unlike else 0.0
    adapting = Random(f"time-outs {seed}")  # noqa: S311
    forging = Random(f"forgeries {seed}")  # noqa: S311
    answering = Random(f"answers {seed}")  # noqa: S311
    disturbing = changing and Random(f"joins {seed}").random() < 0.6  # noqa: S311
    skewed = rng.random() < 0.5
    return RunPlan(
        seed=seed,
        nodes=nodes,
        profile=profile,
        strict=strict,
        timing=timing,
        ways=_ways(rng, profile, nodes + spares, timing),
        sync=_sync(rng, timing),
        flow=_flow(rng, seed),
        cache_bytes=rng.choice((300, 16 << 20)),
        chaos=unit * rng.uniform(10, 20),
        gap=unit * rng.choice((0.2, 0.5, 1.0)),
        faults={name: rng.choice((1.0, 1.0, 4.0)) * SELDOM.get(name, 1.0) for name in chosen}
        | ({TROUBLE: 2.0} if disturbing else {}),
        message_faults=(rng.choice((0.0, 0.02, 0.15)), rng.choice((0.0, 0.05, 0.3)), rng.choice((0.0, 0.02, 0.1))),
        patience=rng.choice((timing.election_min / 2, 2 * timing.election_max)),
        answers_lost=rng.choice((0.0, 0.02, 0.1)),
        rates=tuple(rng.uniform(0.75, 1.35) if skewed else 1.0 for _ in range(nodes + spares)),
        errors_ms=tuple(int(rng.gauss(0, 3_000)) for _ in range(nodes + spares)),
        report=unit * rng.uniform(0.7, 2.0) * nodes,
        silent=frozenset(i for i in range(1, nodes + spares + 1) if apart.random() < silence),
        reset=unit * apart.choice((0.0, 1.0, 5.0)) if unlike else 0.0,
        think=unit * rng.choice((0.02, 0.1, 0.3)),
        clients=rng.choice((1, 3, 4)),
        keys=rng.choice((1, 2, 4)),
        spares=spares,
        orders=unit * rng.choice((0.3, 1.0, 3.0)) if changing else 0.0,
        snapshot_entries=rng.choice((3, 15, 50, 10_000)),
        kept_entries=rng.choice((0, 5, 30)),
        whole_commit=rng.random() < 0.3,
        retime=unit * adapting.choice((0.3, 1.0, 3.0)) if adapting.random() < 0.4 else 0.0,
        forge=unit * forging.choice((0.3, 1.0, 3.0)) if forging.random() < 0.4 else 0.0,
        far_terms=forging.random() < 0.25,
        foreign=answering.choice((0.1, 0.5, 1.0)) if answering.random() < 0.3 else 0.0,
    )


def _flow(rng: Random, seed: int) -> Flow:
    """Return limits of replication. Some are below the size of one entry, which then goes alone."""
    flow = rng.choice(
        (
            Flow(),
            Flow(append_entries=1, in_flight=2, snapshot_bytes=250),
            Flow(append_entries=3, queue_entries=8, snapshot_bytes=300),
        )
    )
    apart = Random(f"bytes {seed}")  # noqa: S311 -- see `draw`
    if apart.random() >= 0.6:
        flow = replace(flow, append_bytes=apart.choice((1, 60, 200, 1000)))
    if apart.random() >= 0.6:
        flow = replace(flow, queue_bytes=apart.choice((100, 300, 1000)))
    return flow


def _ways(rng: Random, profile: str, servers: int, timing: Timing) -> dict[tuple[int, int], Delay]:
    """Return the random delay of each way, by (sender, receiver): equal in both directions of a pair."""
    tight = Delay(0.0, timing.election_min * rng.uniform(0.05, 0.3), 0.01, timing.election_min)
    kinds = {"lan": [network.LAN], "i2p": [network.I2P], "mixed": [network.LAN, network.I2P], "tight": [tight]}
    ways: dict[tuple[int, int], Delay] = {}
    for one in range(CLIENTS, servers + 1):
        for other in range(one + 1, servers + 1):
            ways[one, other] = ways[other, one] = rng.choice(kinds[profile])
    return ways


def _sync(rng: Random, timing: Timing) -> Delay:
    """Return the delay of a disk's sync, at random short or long, compared with the heartbeat interval."""
    unit = timing.heartbeat
    return rng.choice((Delay(unit * 0.001, unit * 0.01), Delay(unit * 0.01, unit * 0.3, 0.01, unit)))
