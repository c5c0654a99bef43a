"""The pace of packing: the entries come first."""

import time

import pytest

from gf_i2p.node.history.packing import BUSY_SECONDS, BUSY_SHARE, Pace


class Clocks:
    """The two clocks of a pace, set by the test."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        self.used = 0.0
        monkeypatch.setattr(time, "monotonic", lambda: self.now)
        monkeypatch.setattr(time, "thread_time", lambda: self.used)


def test_packing_takes_its_share_of_a_core_while_entries_come_in(monkeypatch: pytest.MonkeyPatch) -> None:
    clocks = Clocks(monkeypatch)
    pace = Pace()
    begun = clocks.now
    for _ in range(100):
        pace.note_entries()
        clocks.used += 0.05
        clocks.now += 0.05
        clocks.now += pace.pause()
    assert clocks.used / (clocks.now - begun) == pytest.approx(BUSY_SHARE)


def test_packing_makes_no_pause_on_an_idle_farm(monkeypatch: pytest.MonkeyPatch) -> None:
    clocks = Clocks(monkeypatch)
    pace = Pace()
    clocks.used = 0.05
    assert pace.pause() == 0
    pace.note_entries()
    clocks.used = 0.1
    assert pace.pause() > 0
    clocks.now += BUSY_SECONDS
    clocks.used = 0.2
    assert pace.pause() == 0


def test_the_work_counts_of_the_thread_that_pauses() -> None:
    pace = Pace()
    pace.note_entries()
    before = time.thread_time()
    while time.thread_time() < before + 0.01:
        pass
    assert pace.pause() > 0.01 * (1 / BUSY_SHARE - 2)
