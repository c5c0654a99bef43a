"""The same seed gives the same run."""

import os
import subprocess
import sys

import pytest

from gf_i2p.simulator.seed_run import simulate
from tests.tier import mostly_slow

SEEDS = (2, 3, 11)
"""Seeds whose runs have connections and single messages, crashes and pauses."""


def digest_elsewhere(seed: int, hash_seed: str) -> str:
    """Run a seed in another process."""
    code = f"from gf_i2p.simulator.seed_run import simulate; print(simulate({seed}, trace=True).digest)"
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    return subprocess.run(
        [sys.executable, "-c", code], env=environment, check=True, capture_output=True, text=True
    ).stdout.strip()


@pytest.mark.parametrize("seed", mostly_slow(SEEDS, 2))
def test_the_same_seed_is_the_same_run(seed: int) -> None:
    lines: list[str] = []
    first, second = simulate(seed, trace=True, write=lines.append), simulate(seed, trace=True)
    assert first.digest == second.digest
    assert len(lines) > 500
    assert first == second


def test_it_does_not_depend_on_how_the_process_hashes() -> None:
    expected = simulate(3, trace=True).digest
    assert {digest_elsewhere(3, "1"), digest_elsewhere(3, "2")} == {expected}


def test_a_trace_changes_nothing() -> None:
    with_trace, without = simulate(4, trace=True), simulate(4)
    assert (with_trace.events, with_trace.counts, with_trace.entries) == (
        without.events,
        without.counts,
        without.entries,
    )


def test_another_seed_is_another_run() -> None:
    assert simulate(2, trace=True).digest != simulate(3, trace=True).digest


def test_the_lines_of_a_trace_are_aligned() -> None:
    lines: list[str] = []
    simulate(2, trace=True, write=lines.append)
    assert {line[12:15] for line in lines} == {"  s"}
    assert {line[43:45] for line in lines} == {"  "}
