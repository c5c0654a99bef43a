"""A node without a leader says so once, and then once a minute, with the missing servers."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
import structlog
from structlog.testing import LogCapture

from gf_i2p.node.consensus import leader_log
from gf_i2p.node.consensus.leader_log import LeaderLog
from gf_i2p.raft import inputs
from gf_i2p.raft.core import Core
from tests.raft.lab import Lab


class Timer:
    """A timer that ends when the test says so."""

    def __init__(self, seconds: float, call: Callable[[], None]) -> None:
        self.seconds = seconds
        self.call = call
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class Clock:
    """The event loop, as far as the log needs it."""

    def __init__(self) -> None:
        self.timers: list[Timer] = []

    def call_later(self, seconds: float, call: Any, *args: Any) -> Timer:
        self.timers.append(Timer(seconds, partial(call, *args)))
        return self.timers[-1]

    def end(self) -> float:
        """End the last timer, and return its seconds."""
        timer = self.timers.pop()
        assert not timer.cancelled
        timer.call()
        return timer.seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(leader_log.asyncio, "get_running_loop", lambda: clock)  # type: ignore[attr-defined]
    return clock


@pytest.fixture
def lines() -> Iterator[list[Any]]:
    capture = LogCapture()
    before = structlog.get_config()
    structlog.configure(processors=[capture])
    yield capture.entries
    structlog.configure(**before)


def core_of_three(server: int = 1) -> Core:
    return Lab(3).core(server)


def test_a_missing_quorum_is_told_once_and_then_once_a_minute(clock: Clock, lines: list[Any]) -> None:
    core = core_of_three()
    log = LeaderLog(lambda: [9])
    for _ in range(100):  # elections
        log.note(core)
    assert [line["log_level"] for line in lines] == ["debug"] * 100
    assert len(clock.timers) == 1
    lines.clear()
    assert clock.end() == 2 * core.timing.election_max
    told = {"event": "no quorum", "log_level": "warning", "server": 1, "missing": [2, 3], "reached": 1, "needed": 2}
    assert lines == [told]
    assert clock.end() == leader_log.AGAIN_SECONDS == 60.0
    assert lines == [told, told]


def test_a_quorum_without_a_leader_is_another_thing(clock: Clock, lines: list[Any]) -> None:
    log = LeaderLog(lambda: [2])
    log.note(core_of_three())
    lines.clear()
    clock.end()
    assert (lines[0]["event"], lines[0]["missing"]) == ("no leader, and a quorum is reached", [3])


def test_a_leader_ends_the_wait_and_is_told(clock: Clock, lines: list[Any]) -> None:
    log = LeaderLog(list)
    log.note(core_of_three())
    timer = clock.timers[0]
    lab = Lab(3)
    lab.elect(2)
    lines.clear()
    log.note(lab.core(2))
    assert timer.cancelled
    assert [(line["event"], line["log_level"], line["leader"]) for line in lines] == [("role", "info", 2)]
    lab.step(2, inputs.StepDown())
    log.note(lab.core(2))
    log.stop()
    assert clock.timers[-1].cancelled


def test_a_server_that_belongs_to_no_farm_yet_misses_nobody(clock: Clock, lines: list[Any]) -> None:
    lab = Lab(3)
    lab.newcomer(4)
    LeaderLog(list).note(lab.core(4))
    lines.clear()
    clock.end()
    assert lines == []
