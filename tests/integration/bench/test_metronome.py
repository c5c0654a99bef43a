"""The unit of the guard: the beats of a process beside the load."""

import time
from pathlib import Path

import pytest

from integration.bench.metronome import Beat, Metronome, unit
from integration.bench.systems.system import BenchError
from integration.harness.local_farm import becomes


def test_a_unit_leaves_out_interrupts_and_follows_the_machine() -> None:
    calm = [(0.01 * number, 100e-6) for number in range(10)]
    interrupted = [*calm[:9], (0.09, 9.0)]
    assert unit(calm, 0.0, 0.1) == unit(interrupted, 0.0, 0.1) == pytest.approx(100e-6)
    slow = [(0.1 + 0.01 * number, 200e-6) for number in range(10)]
    assert unit(calm + slow, 0.0, 0.2) == pytest.approx(150e-6)
    assert unit(calm + slow, 0.1, 0.2) == pytest.approx(200e-6), "only the beats of the time count"


def test_a_metronome_that_was_held_up_says_so() -> None:
    beats = [(0.05, 100e-6), (0.95, 100e-6)]
    with pytest.raises(BenchError, match="held up"):
        unit(beats, 0.0, 1.0)
    with pytest.raises(BenchError, match="held up"):
        unit([], 0.0, 0.1)


def test_a_beat_costs_processor_time() -> None:
    beat = Beat()
    assert beat() > 0
    beat.close()


async def test_a_metronome_beats_beside_the_load(tmp_path: Path) -> None:
    with Metronome(tmp_path) as metronome:
        output = tmp_path / "metronome"
        await becomes("three beats", lambda: output.read_bytes().count(b"\n") >= 3)
        end = time.perf_counter()
        begin = float(output.read_text().split()[0])
        assert 0 < metronome.unit(begin, max(end, begin + 0.1)) < 1
