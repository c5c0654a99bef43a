"""The history process itself, a real one: what its end costs, and that it ends with its node."""

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from gf_i2p.node.history import exporter as exporter_module
from gf_i2p.node.history import remote_history
from gf_i2p.node.history.exporter import Exporter
from gf_i2p.node.history.process import MEMORY_BYTES, NICENESS
from gf_i2p.node.history.remote_history import HistoryProcess, Process, RemoteHistory
from gf_i2p.storage.history_lines import ApplicationLine
from gf_i2p.storage.history_reader import HistoryError, read_history
from gf_i2p.storage.history_writer import Rotation
from gf_i2p.wire.entries import Entry, ValueType
from gf_i2p.wire.limits import MAX_VALUE_BYTES
from integration.harness.local_farm import LocalFarm, becomes
from integration.harness.processes import children
from tests.node.farm import NodeFarm
from tests.node.history.test_exporter import post, reaches
from tests.tier import mostly_slow


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exporter_module, "_GATHER_SECONDS", 0.01)
    monkeypatch.setattr(exporter_module, "_AGAIN_SECONDS", 0.02)
    monkeypatch.setattr(exporter_module, "_MAX_AGAIN_SECONDS", 0.04)


class Started:
    """Starts history processes, and keeps them."""

    def __init__(self) -> None:
        self.processes: list[HistoryProcess] = []

    async def __call__(self) -> Process:
        process = await HistoryProcess.start()
        assert isinstance(process, HistoryProcess)
        self.processes.append(process)
        return process


@asynccontextmanager
async def open_history(directory: Path, process: Process | None = None) -> AsyncIterator[RemoteHistory]:
    history = RemoteHistory(process or await HistoryProcess.start(), directory, lambda: None)
    try:
        await history.open("farm", 1, Rotation())
        yield history
    finally:
        await history.close()


def entries(*values: bytes) -> list[Entry]:
    return [Entry(1, ValueType.APPLICATION, value) for value in values]


def values(directory: Path) -> list[Any]:
    return [line.value for line in read_history(directory) if isinstance(line, ApplicationLine)]


def is_alive(pid: int) -> bool:
    with suppress(FileNotFoundError):
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    return False


def most_bytes(pid: int) -> int:
    """Return the most memory that the process has used."""
    return int(Path(f"/proc/{pid}/status").read_text().split("VmHWM:")[1].split()[0]) << 10


async def test_entries_are_durable_when_the_answer_comes(tmp_path: Path) -> None:
    async with open_history(tmp_path / "history") as history:
        await history.append(entries(b"1", b"[2]"), (1, 1))
        assert history.durable_index == 2
        assert values(tmp_path / "history") == [1, [2]]
    async with open_history(tmp_path / "history") as history:
        await history.gap(9, [1, 2, 3])
        assert history.durable_index == 9


def policies(process: HistoryProcess) -> list[int]:
    """Return the scheduling policy of each thread, the main thread's first."""
    threads = sorted(int(thread.name) for thread in Path(f"/proc/{process.pid}/task").iterdir())
    return [os.sched_getscheduler(thread) for thread in threads]


@pytest.mark.parametrize("urgent", [False, True])
async def test_only_urgent_entries_compete_for_the_processor(tmp_path: Path, urgent: bool) -> None:
    start = Started()
    async with open_history(tmp_path / "history", await start()) as history:
        await history.append(entries(b"1"), None, urgent=urgent)
        await history.check_place()
        main, *others = policies(start.processes[0])
        assert main == os.SCHED_OTHER
        assert others.count(os.SCHED_IDLE) == (0 if urgent else 1)
        await history.append(entries(b"2"), None, urgent=not urgent)
        assert values(tmp_path / "history") == [1, 2]


@pytest.mark.parametrize(("seconds", "most", "urgent"), [(-1.0, 10**6, True), (600.0, 0, True), (600.0, 10**6, False)])
async def test_entries_become_urgent_when_the_history_stays_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: float, most: int, urgent: bool
) -> None:
    monkeypatch.setattr(exporter_module, "_PATIENCE_SECONDS", seconds)
    monkeypatch.setattr(exporter_module, "_PATIENT_ENTRIES", most)
    appended: list[bool] = []
    append = RemoteHistory.append

    async def recorded(history: RemoteHistory, *arguments: Any, urgent: bool) -> None:
        appended.append(urgent)
        await append(history, *arguments, urgent=urgent)

    monkeypatch.setattr(RemoteHistory, "append", recorded)
    async with NodeFarm(tmp_path, servers=1) as farm:
        node = await farm.leader()
        exporter = node.farm_tasks.exporter
        assert exporter is not None
        await reaches(exporter, await post(node, b"1"))
    assert set(appended) == {urgent}


async def test_a_process_that_is_killed_again_and_again_costs_no_entry(tmp_path: Path) -> None:
    started = Started()
    with capture_logs() as logs:
        async with NodeFarm(tmp_path, servers=1) as farm:
            node = await farm.leader()
            directory = tmp_path / "watched"
            made = Exporter(directory, "farm", 1, node.driver, rotation=Rotation(bytes=2000), start_process=started)
            task = asyncio.create_task(made.run())
            for number in range(10):
                index = await post(node, *[b"%d" % (20 * number + n) for n in range(20)])
                await becomes("started", lambda number=number: len(started.processes) > number)  # type: ignore[misc]
                os.kill(started.processes[-1].pid, signal.SIGKILL)
            await reaches(made, index)
            await becomes("all is well", lambda: made.trouble is None)
            task.cancel()
            await made.close()
            assert values(directory) == list(range(200))
    assert not any(is_alive(process.pid) for process in started.processes)
    paused = [entry for entry in logs if entry["event"] == "the history is paused, the node goes on"]
    assert paused
    told = "the history process was ended by signal 9: the node starts another one"
    assert all(told in entry["reason"] for entry in paused)


async def test_the_end_of_the_process_is_told_on_an_idle_farm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started = Started()
    async with NodeFarm(tmp_path, servers=1) as farm:
        node = await farm.leader()
        directory = tmp_path / "watched"
        made = Exporter(directory, "farm", 1, node.driver, rotation=Rotation(), start_process=started)
        task = asyncio.create_task(made.run())
        await reaches(made, await post(node, b"1"))
        monkeypatch.setattr(made, "_start_process", _fails_to_start)
        os.kill(started.processes[-1].pid, signal.SIGKILL)
        await becomes("told", lambda: "Cannot allocate memory" in (made.trouble or ""))
        index = await post(node, b"2")
        monkeypatch.setattr(made, "_start_process", started)
        await reaches(made, index)
        task.cancel()
        await made.close()
        assert values(directory) == [1, 2]


async def _fails_to_start() -> Process:
    raise OSError(12, "Cannot allocate memory")


async def test_the_process_ends_with_its_node_and_not_before(tmp_path: Path) -> None:
    def history_process() -> int | None:
        return next(iter(children(farm.pid(1))), None)

    with LocalFarm(tmp_path, servers=1) as farm:
        farm.start_all()
        await farm.leader()
        await becomes("started", lambda: history_process() is not None)
        pid = history_process()
        assert pid is not None
        # The process becomes nice last of all, after it has learned to ignore signals. 19 is the most that Linux has.
        nice = min(os.getpriority(os.PRIO_PROCESS, farm.pid(1)) + NICENESS, 19)
        await becomes("nice", lambda: os.getpriority(os.PRIO_PROCESS, pid) == nice)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # as for a whole group, by a terminal
            os.kill(pid, number)
        assert is_alive(pid)
        farm.kill(1)
        await becomes("ended", lambda: not is_alive(pid))


async def test_a_process_without_an_answer_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    process = await HistoryProcess.start()
    assert isinstance(process, HistoryProcess)
    async with open_history(tmp_path / "history", process) as history:
        monkeypatch.setattr(remote_history, "ANSWER_SECONDS", 0.2)
        os.kill(process.pid, signal.SIGSTOP)
        with pytest.raises(HistoryError, match="gave no answer for 0 s: the node starts another one"):
            await history.check_place()
    assert not is_alive(process.pid)


async def test_a_request_after_the_end_says_how_the_process_ended(tmp_path: Path) -> None:
    process = await HistoryProcess.start()
    async with open_history(tmp_path / "history", process) as history:
        process.kill()
        await becomes("known", lambda: history._failure is not None)
        with pytest.raises(HistoryError, match="was ended by signal 9"):
            await history.check_place()


class FalseProcess:
    """A process that answers with bytes of the test's."""

    def __init__(self, answer: bytes) -> None:
        self.answers = asyncio.StreamReader()
        self.answers.feed_data(answer)
        self.killed = asyncio.Event()

        self.requests: Any = self

    def writelines(self, _: object) -> None:
        pass

    def close(self) -> None:
        self.kill()

    def kill(self) -> None:
        self.answers.feed_eof()
        self.killed.set()

    async def wait(self) -> str:
        await self.killed.wait()
        return "ended with code 0"


class ClosedPipe(FalseProcess):
    """A killed process whose pipe uvloop has closed, before anybody knows of the end."""

    def __init__(self) -> None:
        super().__init__(b"")

    def writelines(self, _: object) -> None:
        asyncio.get_running_loop().call_soon(self.kill)
        raise RuntimeError("unable to perform operation on <WriteUnixTransport closed=True>; the handler is closed")


async def test_a_request_to_a_process_that_has_just_been_killed_says_that_the_process_has_ended(tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match="the history process ended with code 0"):
        async with open_history(tmp_path / "history", ClosedPipe()):
            pass


async def test_bytes_that_are_no_answer_end_the_process(tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match=r"the history process answered a frame of \d+ and \d+ bytes"):
        async with open_history(tmp_path / "history", FalseProcess(b"Segmentation fault")):
            pass


LARGEST = {
    "lists": b"[" + b",".join([b"[[]]"] * (MAX_VALUE_BYTES // 5 - 1)) + b"]",
    "objects": b"[" + b",".join([b'{"a":0}'] * (MAX_VALUE_BYTES // 8 - 1)) + b"]",
    "numbers": b"[" + b",".join([b"1e9"] * (MAX_VALUE_BYTES // 4 - 1)) + b"]",
}


@pytest.mark.parametrize("kind", mostly_slow(list(LARGEST), "lists"))
async def test_the_memory_suffices_for_the_largest_values(tmp_path: Path, kind: str) -> None:
    value = LARGEST[kind]
    process = await HistoryProcess.start()
    assert isinstance(process, HistoryProcess)
    async with open_history(tmp_path / "history", process) as history:
        await history.append(entries(value, value), (1, 1))
        assert most_bytes(process.pid) < MEMORY_BYTES // 2
    lines = [line for line in read_history(tmp_path / "history") if isinstance(line, ApplicationLine)]
    assert [line.value if line.raw is None else json.loads(line.raw) for line in lines] == [json.loads(value)] * 2
