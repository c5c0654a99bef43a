"""The benchmark's load on clusters without processes, and the benchmark's child processes."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from integration.bench import load
from integration.bench.systems.system import BenchError, ClusterProcess, SystemClient
from integration.bench.workloads import Sample
from integration.harness.processes import ProcessEndedError, Processes, cpu_seconds


class Clock:
    """Stands for the module `time`: the test moves the clock, and each look moves the clock next to nothing."""

    process_time = staticmethod(time.process_time)

    def __init__(self) -> None:
        self.now = 0.0

    def perf_counter(self) -> float:
        self.now += 1e-6
        return self.now


class Fake:
    """A cluster of this process; the log is a counter, and `answer` makes the answer from the position."""

    def __init__(self, answer: Callable[[int], int] = lambda position: position) -> None:
        self.clock = Clock()
        self.nodes: Sequence[ClusterProcess] = [ClusterProcess("one", os.getpid()), ClusterProcess("two", os.getpid())]
        self.answer = answer
        self.position = 0
        self.batches: set[int] = set()
        self.values: set[int] = set()
        self.answered: list[float] = []
        self.open = 0
        self.opened = 0

    async def leader(self) -> ClusterProcess:
        return self.nodes[0]

    async def connect(self, leader: ClusterProcess) -> SystemClient:
        assert leader is self.nodes[0]
        self.open += 1
        self.opened += 1
        return self

    async def post(self, values: Sequence[bytes]) -> int:
        self.batches.add(len(values))
        self.values |= {len(value) for value in values}
        self.position += len(values)
        position = self.position
        await asyncio.sleep(0)
        self.clock.now += 0.001
        self.answered.append(self.clock.now)
        return self.answer(position)

    async def close(self) -> None:
        self.open -= 1


async def test_a_run_counts_what_is_answered_after_the_warm_up(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = Fake()
    monkeypatch.setattr(load, "time", fake.clock)
    sample = await load.run(fake, batch=100, writers=3, warmup=0.1, seconds=0.1)
    assert fake.clock.now >= 0.2
    assert sample.entries == 100 * len(sample.latencies)
    # No answer of the warm-up counts, but each writer may have one request on the way when the time begins.
    late = sum(answered >= 0.1 for answered in fake.answered)
    assert 0 < len(sample.latencies) <= late + 3
    assert late + 3 < len(fake.answered)
    assert all(0 < latency < 0.2 for latency in sample.latencies)
    assert (fake.batches, fake.values, fake.opened, fake.open) == ({100}, {1024}, 3, 0)
    assert set(sample.cpu) == {"client", "leader", "followers", "children", "others"}
    assert not sample.leader_moved


async def test_a_cluster_with_a_load_of_its_own_gets_no_client_of_ours() -> None:
    class OwnLoaded(Fake):
        async def load(self, batch: int, writers: int, *, warmup: float, seconds: float) -> Sample:
            return Sample(warmup + seconds, batch * writers, [0.5])

    cluster = OwnLoaded()
    sample = await load.run(cluster, batch=10, writers=3, warmup=0.01, seconds=0.02)
    assert (sample.seconds, sample.entries, sample.latencies, cluster.opened) == (0.03, 30, [0.5], 0)
    assert set(sample.cpu) == {"client", "leader", "followers", "children", "others"}


async def test_an_answer_that_does_not_rise_ends_the_run() -> None:
    fake = Fake(answer=lambda position: min(position, 50))
    with pytest.raises(BenchError, match="position 50 after 50"):
        await load.run(fake, batch=1, writers=1, warmup=0.05, seconds=0.05)
    assert fake.open == 0


async def test_a_writer_that_fails_ends_the_run_with_its_reason() -> None:
    def refuse(position: int) -> int:
        raise ConnectionError("the node went away")

    fake = Fake(refuse)
    with pytest.raises(BenchError, match="ConnectionError: the node went away"):
        await load.run(fake, batch=1, writers=4, warmup=0.05, seconds=60.0)  # ends at the first failure
    assert fake.open == 0


async def test_a_request_that_is_never_answered_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    class Silent(Fake):
        async def post(self, values: Sequence[bytes]) -> int:
            return await asyncio.Event().wait()

    monkeypatch.setattr(load, "PATIENCE", 0.05)
    with pytest.raises(BenchError, match="not answered"):
        await load.run(Silent(), batch=1, writers=1, warmup=0.01, seconds=0.5)


def test_children_end_with_the_block_even_when_they_ignore_the_signal(tmp_path: Path) -> None:
    code = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('ready', flush=True); signal.pause()"
    log = tmp_path / "log"
    with pytest.raises(KeyError), Processes(signal.SIGTERM, grace=0.05) as processes:  # noqa: PT012
        pid = processes.start("stubborn", [sys.executable, "-c", code], log)
        while b"ready" not in log.read_bytes():
            processes.check()
        assert cpu_seconds(pid) >= 0
        raise KeyError
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_killed_child_is_no_surprise(tmp_path: Path) -> None:
    with Processes() as processes:
        pid = processes.start("steady", [sys.executable, "-c", "input()"], tmp_path / "log")
        processes.kill(pid)
        processes.check()
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
        with pytest.raises(ValueError, match="no child"):
            processes.kill(pid)


def test_a_child_that_stops_by_itself_is_reported_with_its_log(tmp_path: Path) -> None:
    with Processes() as processes:
        pid = processes.start("brief", [sys.executable, "-c", "raise SystemExit('no disk')"], tmp_path / "log")
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        with pytest.raises(ProcessEndedError, match=r"brief stopped by itself \(status 1\)(?s:.*)no disk"):
            processes.check()


def test_the_command_line_names_what_is_wrong_with_it() -> None:
    command = [sys.executable, "-m", "integration.bench", "--only", "etcd", "--profile"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "add --only farm" in done.stderr
