"""Runs of fixed seeds, runs of seeds that once failed, and the events that these runs contain."""

from collections import Counter
from pathlib import Path

import pytest

from gf_i2p.cli.commands.simulate import read_seeds
from gf_i2p.simulator.seed_run import SeedResult, simulate
from gf_i2p.simulator.totals import COUNTED
from tests.tier import examples, mostly_slow

FAILED = read_seeds(Path(__file__).parent / "failed_seeds.txt")
CLEAN = examples(100)
PARTS = 4
"""Number of tests, and of workers, that share the seeds."""


def passes(result: SeedResult) -> bool:
    assert result.violation is None, f"seed {result.seed}: {result.violation}; see gf-i2p simulate --seed {result.seed}"
    return True


@pytest.mark.parametrize("part", mostly_slow(range(PARTS), 0, 1))  # `make simulate` runs fresh seeds
def test_seeds_are_clean_and_farms_get_something_done(part: int) -> None:
    results = [simulate(seed) for seed in range(1 + part, 1 + CLEAN, PARTS)]
    assert all(passes(result) for result in results)
    assert not sum(result.undecided for result in results), "no check of a register was given up"
    assert sum(result.entries for result in results) > 30 * len(results)
    assert sum(result.operations for result in results) > 30 * len(results)


@pytest.mark.slow  # `make simulate` runs the same seeds
@pytest.mark.parametrize("seed", FAILED, ids=lambda seed: str(seed.number))
def test_a_seed_that_once_failed(seed: object) -> None:
    assert passes(simulate(seed.number, seed.nodes))  # type: ignore[attr-defined]


@pytest.mark.slow  # many seeds, until the rarest fault has come
def test_every_fault_happens() -> None:
    counts: Counter[str] = Counter()
    for seed in range(1, 500):
        counts.update(simulate(seed).counts)
        if all(counts[name] for name in COUNTED):
            return
    pytest.fail(f"never: {[name for name in COUNTED if not counts[name]]}")


@pytest.mark.parametrize("nodes", [1, 2, 7, 9])
def test_the_number_of_servers_can_be_given(nodes: int) -> None:
    result = simulate(5, nodes)
    assert passes(result)
    assert result.nodes == nodes
