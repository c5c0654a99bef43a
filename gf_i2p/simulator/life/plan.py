"""The plan of a farm's hours, which the seed decides: servers and leaf members, clocks, and faults."""

from dataclasses import dataclass
from random import Random
from typing import Final

from gf_i2p.farm.record.status_record import FIRST_LEAF_MEMBER_ID
from gf_i2p.simulator.life.reporters import INTERVAL

BRAIN_FAULTS: Final = (
    "servers stopped",
    "servers paused",
    "servers cut off",
    "farms without a leader",
    "routers switched off",
    "leaves down",
    "leaves that flap",
    "wrong clocks that jump",
    "publishing switched",
    "modes changed",
    "loads changed",
    "entries of administrators",
    "configurations changed",
)
"""Names of the faults; `faults.LifeFaults` has the code."""
USUAL_SERVERS: Final = (3, 3, 3, 3, 4, 5)
MOST_APPLIED: Final = 800
"""About the number of entries in one run, multiplied by the number of servers that apply the entries. So all runs take
about the same time."""
CALM: Final = 400.0
"""Seconds without faults at the end of a run."""
WRONG_MS: Final = 600_000
"""Greatest error of a wrong clock, in ms."""


@dataclass(frozen=True, slots=True)
class LifePlan:
    """The plan of one farm and its faults. Times are true seconds. Chances are from 0 to 1."""

    seed: int
    servers: int
    members: tuple[int, ...]
    """Ids of leaf members, which post records and have no vote."""
    mode: str
    """Mode of all servers at the beginning: "meta" or "failover"."""
    leaves: int
    """Number of leaves of each server and leaf member."""
    odd: str
    """An odd leaf of one server: "master" (the farm's own master), "farm" (the master of another farm), or "loop" (the
    master of a farm that leads back to this farm's master); "" for none."""
    wrong: tuple[int, ...]
    """Ids of the servers whose clocks are wrong: less than half of all servers."""
    chaos: float
    gap: float
    """Mean seconds between two faults."""
    faults: dict[str, float]
    latency: float
    """Most seconds until a message arrives."""
    lost: float
    """Chance that the answer to a post is lost."""
    snapshot_entries: int


def draw(seed: int) -> LifePlan:
    """Return the plan of a seed."""
    rng = Random(f"brain {seed}")  # noqa: S311 -- it must be repeatable, and keeps no secret
    servers = rng.choice(USUAL_SERVERS)
    count = rng.choice((0, 0, 0, 2, 20))
    share = rng.choice((0.15, 0.4, 0.7))
    chosen = [name for name in BRAIN_FAULTS if rng.random() < share] or [rng.choice(BRAIN_FAULTS)]
    wrong = rng.sample(range(1, servers + 1), rng.randint(0, (servers - 1) // 2)) if rng.random() < 0.6 else []
    rounds = MOST_APPLIED / (servers + count) / (servers + 1)
    return LifePlan(
        seed=seed,
        servers=servers,
        members=tuple(range(FIRST_LEAF_MEMBER_ID, FIRST_LEAF_MEMBER_ID + count)),
        # The mode has a random stream of its own, so that drawing the mode does not change the seed's other draws.
        mode=Random(f"brain mode {seed}").choice(("meta", "meta", "failover")),  # noqa: S311 -- as above
        leaves=rng.choice((1, 1, 1, 2, 4)),
        odd=rng.choice(("", "", "master", "loop", "farm")),
        wrong=tuple(sorted(wrong)),
        chaos=max(rounds * INTERVAL - CALM, 600.0),
        gap=rng.choice((20.0, 60.0, 120.0)),
        faults={name: rng.choice((1.0, 1.0, 4.0)) for name in chosen},
        latency=rng.choice((0.05, 1.0, 3.0)),
        lost=rng.choice((0.0, 0.05, 0.2)),
        snapshot_entries=rng.choice((5, 40, 150)),
    )
