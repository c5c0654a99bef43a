"""The run of one seed: a time of faults, then a calm in which the farm must recover.

Some seeds also run hours of a farm's life (`life`).
"""

from collections import Counter
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from random import Random
from typing import Final

from gf_i2p.simulator.cluster.farm import SimulatedFarm
from gf_i2p.simulator.cluster.plan import draw
from gf_i2p.simulator.facts import Violation
from gf_i2p.simulator.life.farm import FarmLife
from gf_i2p.simulator.life.plan import draw as draw_life
from gf_i2p.storage.errors import StorageError
from gf_i2p.wire.errors import ProtocolError

RECOVERY_TIMEOUTS: Final = 20
"""Time within which the farm must recover after the faults, in maximum election time-outs."""
MOST_EVENTS: Final = 100_000
"""Most events of one run: about twenty times the usual number."""
LIVES: Final = 0.02
"""Share of seeds that also run hours of a farm's life (`life`), because such a run takes as long as several others."""


@dataclass(slots=True)
class SeedResult:
    """Result of one seed."""

    seed: int
    nodes: int
    profile: str
    violation: Violation | None = None
    counts: Counter[str] = field(default_factory=Counter)
    """Number of faults and of other events, by name."""
    events: int = 0
    entries: int = 0
    """Committed entries."""
    elections: int = 0
    operations: int = 0
    """Number of operations on registers whose outcome is known."""
    unknown: int = 0
    undecided: int = 0
    recovery: float = 0.0
    """Time of the farm's recovery after the faults, in maximum election time-outs."""
    hours: float = 0.0
    """Simulated hours of a farm's life on a given log (`life`)."""
    digest: str | None = None
    """Digest of the trace; None without a trace."""


def simulate(
    seed: int, nodes: int | None = None, *, trace: bool = False, write: Callable[[str], None] | None = None
) -> SeedResult:
    """Run one seed, and return the result; a broken invariant is part of the result.

    Args:
        seed: decides everything that happens in the run.
        nodes: number of servers, 1 to 9; None: the seed decides.
        trace: whether to make a trace, and its digest.
        write: takes the lines of the trace; None: the lines are not kept.
    """
    plan = draw(seed, nodes)
    result = SeedResult(seed, plan.nodes, plan.profile)
    with closing(SimulatedFarm(plan, trace=trace, write=write)) as farm:
        try:
            farm.begin()
            _run_until(farm, plan.chaos)
            _recover(farm, result)
            farm.history.check()
        except Violation as violation:
            result.violation = violation
        except (StorageError, ProtocolError) as error:  # the storage refuses a write, or the wire code a message
            result.violation = Violation("StepsSucceed", str(error))
    result.counts = farm.counts
    result.events = farm.events.happened
    result.entries = len(farm.checker.facts.committed)
    result.elections = farm.checker.elections
    result.operations, result.unknown = farm.history.operations, farm.history.unknown
    result.undecided = farm.history.undecided
    result.digest = farm.trace.digest if farm.trace else None
    if result.violation is None and Random(f"life {seed}").random() < LIVES:  # noqa: S311 -- as the plan's
        _run_life(result, write)
    return result


def run_life(seed: int, *, write: Callable[[str], None] | None = None) -> SeedResult:
    """Run only the hours of a farm's life that this seed decides. `write` takes the lines of a trace."""
    plan = draw_life(seed)
    result = SeedResult(seed, plan.servers, "given log")
    _run_life(result, write)
    return result


def _run_life(result: SeedResult, write: Callable[[str], None] | None) -> None:
    life = FarmLife(draw_life(result.seed), write=write)
    try:
        life.run()
    except Violation as violation:
        result.violation = violation
    result.counts.update(life.counts)
    result.hours += life.events.now / 3600


def _run_until(farm: SimulatedFarm, until: float) -> None:
    if not farm.events.run(until, MOST_EVENTS):
        raise Violation("Bounded", f"{MOST_EVENTS} events in {farm.events.now:.3f} s")


def _recover(farm: SimulatedFarm, result: SeedResult) -> None:
    """Stop the faults, and wait for one leader, then for a record of each server, then for equal logs.

    Raises `Violation` if that takes longer than `RECOVERY_TIMEOUTS`, and longer than servers need to reach each other's
    terms (`SimulatedFarm.terms_apart`).
    """
    unit = farm.plan.timing.election_max
    began = farm.events.now
    farm.stop_faults()
    end = began + RECOVERY_TIMEOUTS * unit + farm.terms_apart()
    problem = _await(farm, farm.unsettled, end)
    while problem is None:
        for router in farm.routers.values():
            router.post()
        # With tight time-outs an election may come in between even now: then try once more.
        problem = _await(farm, farm.unequal, min(farm.events.now + 4 * unit, end))
        if problem is None:
            result.recovery = (farm.events.now - began) / unit
            return
        if farm.events.now < end:
            problem = _await(farm, farm.unsettled, end)
    raise Violation("Liveness", f"{(end - began) / unit:.0f} election time-outs after the last fault, {problem}")


def _await(farm: SimulatedFarm, find_problem: Callable[[], str | None], until: float) -> str | None:
    """Run events until `find_problem` returns None, or until the time `until`; return the last problem."""
    pause = farm.plan.timing.heartbeat
    while (problem := find_problem()) is not None and farm.events.now < until:
        _run_until(farm, farm.events.now + pause)
    return problem
