"""Hours of farms' lives: the lives keep the rules, and the right rule notices each farm that is broken on purpose."""

from collections import Counter

import pytest

from gf_i2p.farm.admin_entries import AdminEntry
from gf_i2p.farm.publishing.failover import FailoverMachine
from gf_i2p.farm.publishing.lease import PublisherLease
from gf_i2p.farm.publishing.meta import MetaMachine
from gf_i2p.farm.state import FarmState
from gf_i2p.simulator.canaries import CANARIES
from gf_i2p.simulator.life.farm import take_in
from gf_i2p.simulator.life.invariants import FARM_RULES
from gf_i2p.simulator.life.ledger import Ledger
from gf_i2p.simulator.life.plan import BRAIN_FAULTS, draw
from gf_i2p.simulator.life.reporters import LeafTruth, SimulatedReporter
from gf_i2p.simulator.registers import CLUSTER
from gf_i2p.simulator.seed_run import run_life
from tests.tier import examples

CLEAN = examples(24)
"""Lives without a mistake; `make simulate` lives more of them in either tier."""
PARTS = 2
SEEDS = 60
"""Number of seeds within which each canary is caught, from the seed that `QUICK` names."""
QUICK = {
    "lists-excluded": ("Excluded", 26),
    "never-moves": ("MovedAndDrained", 71),
    "any-router": ("PublisherIsCandidate", 5),
    "any-mode": ("OthersMode", 11),
    "no-hysteresis": ("GoodStays", 21),
    "oldest-clock": ("GoodStays", 2),
    "stays-empty": ("DeadReplaced", 5),
    "one-too-many": ("SetSize", 1),
    "room-for-one": ("SteadyIsListed", 2),
    "own-leaf": ("NotItsOwnLeaf", 4),
    "left-out": ("AllAreKnown", 1),
    "accusations": ("AccusedReplaced", 7),
    "no-damping": ("FlapsBounded", 2),
    "half-a-clock": ("SameFarmBytes", 13),
    "other-scores": ("SameFarmChoice", 13),
    "own-versions": ("PublishedRises", 5),
    "no-new-version": ("WithinLease", 1),
    "wakes-and-gives": ("WakesUp", 84),
    "before-the-log": ("AnnouncedFirst", 2),
    "no-lease": ("Overlap", 51),
    "gives-anyway": ("ChosenGives", 23),
    "serves-anyway": ("ChosenGives", 9),
    "serves-on": ("StopsWhenTold", 9),
    "stays-open": ("StopsWhenTold", 114),
    "service-versions": ("PublishedRises", 64),
}
"""Canaries, each with the first rule that catches the canary, and the seed to begin with, which catches it soon.

`make canaries` counts the seeds that each canary survives, from other starts too.
"""
FAILED_ONCE = (798697641, 220816910, 94639)
"""Seeds of lives that failed. 798697641: with `unheardMs` 0, the rule `FlapsBounded` took each poster for accused.
220816910: with `freshMs` 35 s, the farm took a leaf member that posts every 30 s for silent. 94639: a
router was off for less than the time between two looks of the rules, and `SteadyIsListed` did not know that."""


@pytest.mark.parametrize("part", range(PARTS))
def test_farms_keep_the_rules_and_get_something_done(part: int) -> None:
    counts: Counter[str] = Counter()
    for seed in range(1 + part, 1 + CLEAN, PARTS):
        result = run_life(seed)
        assert result.violation is None, f"{result.violation}; see gf-i2p simulate --lives --seed {seed} --trace"
        counts.update(result.counts)
    assert counts["sets given"] > CLEAN


@pytest.mark.parametrize("seed", FAILED_ONCE)
def test_a_life_that_failed_once_keeps_the_rules_now(seed: int) -> None:
    assert run_life(seed).violation is None


@pytest.mark.parametrize("name", QUICK)
def test_a_broken_farm_is_noticed_by_its_rule(name: str) -> None:
    rule, first = QUICK[name]
    with CANARIES[name].applied():
        for seed in range(first, first + SEEDS):
            violation = run_life(seed).violation
            if violation is not None and violation.invariant == rule:
                return
    pytest.fail(f"{name} survives {SEEDS} seeds from {first}")


def test_each_rule_has_a_canary_that_it_is_the_first_to_notice() -> None:
    assert {rule for rule, _ in QUICK.values()} == {rule.__name__ for rule in FARM_RULES}


@pytest.mark.parametrize("machine", [MetaMachine, FailoverMachine, PublisherLease])
def test_each_machine_has_a_canary(machine: type) -> None:
    assert any(machine is owner for name in QUICK for owner, _, _ in CANARIES[name].patches)


def test_a_third_of_the_farms_begins_in_mode_failover() -> None:
    modes = Counter(draw(seed).mode for seed in range(300))
    assert modes.keys() == {"meta", "failover"}
    assert 80 <= modes["failover"] <= 120


def test_the_same_seed_is_the_same_life() -> None:
    lines: list[str] = []
    again: list[str] = []
    assert run_life(26, write=lines.append) == run_life(26, write=again.append) == run_life(26)
    assert lines == again
    assert len(lines) > 5


@pytest.mark.slow  # many lives, until the rarest fault has come
def test_every_fault_happens() -> None:
    counts: Counter[str] = Counter()
    for seed in range(1, 200):
        counts.update(run_life(seed).counts)
        if all(counts[name] for name in BRAIN_FAULTS):
            return
    pytest.fail(f"never: {[name for name in BRAIN_FAULTS if not counts[name]]}")


def test_a_minority_is_wrong_and_a_majority_is_not() -> None:
    plans = [draw(seed) for seed in range(300)]
    assert all(2 * len(plan.wrong) < plan.servers for plan in plans)
    assert any(plan.wrong for plan in plans)


def test_each_rule_says_what_it_is() -> None:
    assert all(rule.__doc__ and rule.__doc__.strip().endswith(".") for rule in FARM_RULES)
    assert len({rule.__name__ for rule in FARM_RULES}) == len(FARM_RULES) >= 18


def test_the_ledger_and_the_state_read_the_same() -> None:
    """A second and simple calculation agrees with the state where both say the same thing."""
    ledger, state = Ledger(), FarmState(CLUSTER)
    posters = {each: SimulatedReporter(each, [LeafTruth(bytes([each]) * 32)]) for each in (1, 2, 3)}
    log: list[bytes | tuple[int, ...]] = [(1, 2, 3)]
    log += [posters[each].record(1_000_000 + each) for each in (1, 2, 3)]
    log.append(AdminEntry(CLUSTER, 1, "admin-ann", "drain", server=2).encode())
    log.append(AdminEntry(CLUSTER, 1, "admin-ann", "exclude", hash=bytes([1]) * 32).encode())
    posters[3].accused = {1: False}
    log.append(posters[3].record(1_000_500))
    for index, value in enumerate(log, 1):
        if isinstance(value, bytes):
            ledger.apply(value, float(index))
        else:
            ledger.configure(value)
        take_in(state, index, value)
    assert (ledger.index, ledger.now_ms, ledger.mode) == (7, state.now_ms, "meta")
    assert ledger.accused == {1: 3} == {server: found.by for server, found in state.accused.items()}
    assert (ledger.drained, ledger.excluded) == ({2}, {bytes([1]) * 32})
    able = [server for server in ledger.servers if ledger.objection(server) is None]
    assert able == [2, 3] == sorted(state.merits())
    assert state.publisher == 3
