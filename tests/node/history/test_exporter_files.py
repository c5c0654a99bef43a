"""The exporter whose files are taken away, also while the files are ended and packed."""

import asyncio
import errno
import shutil
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from gf_i2p.node import view
from gf_i2p.node.history import exporter as module
from gf_i2p.node.history import packing
from gf_i2p.node.history.exporter import Exporter
from gf_i2p.node.node import Node
from gf_i2p.node.status.node_status import status
from gf_i2p.storage import history_writer as files
from gf_i2p.storage.history_lines import ApplicationLine, Gap
from gf_i2p.storage.history_reader import HistoryFile, read_history
from gf_i2p.storage.history_writer import History, Rotation
from integration.harness.local_farm import becomes
from tests.node.farm import NodeFarm
from tests.node.history.test_exporter import exported, exporter, history, post, reaches, values
from tests.node.threaded_history import HistoryThread

PAUSED = "the history is paused, the node goes on"


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_GATHER_SECONDS", 0.01)
    monkeypatch.setattr(module, "_AGAIN_SECONDS", 0.02)
    monkeypatch.setattr(module, "_MAX_AGAIN_SECONDS", 0.04)


class Gate:
    """While the gate is shut, no history is opened."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.is_open = threading.Event()
        self.is_open.set()
        real = History.open

        def opened(*args: Any, **kwargs: Any) -> History:
            assert self.is_open.wait(20)
            return real(*args, **kwargs)

        monkeypatch.setattr(History, "open", opened)


@asynccontextmanager
async def running(directory: Path, node: Node, rotation: Rotation) -> AsyncIterator[Exporter]:
    """One more exporter of this node; the exporter has to stop soon."""
    made = Exporter(directory, "farm", 1, node.driver, rotation=rotation, start_process=HistoryThread.start)
    task = asyncio.create_task(made.run())
    try:
        yield made
    finally:
        task.cancel()
        await asyncio.wait_for(made.close(), 10)


def until(interrupted: Callable[[], bool]) -> None:
    """Work in a thread of the exporter's until an interruption."""
    while not interrupted():
        threading.Event().wait(0.01)


def _unlink(directory: Path) -> None:
    (file,) = directory.iterdir()
    file.unlink()


def _copy(directory: Path) -> None:
    (file,) = directory.iterdir()
    shutil.copy(file, directory / "copy")
    (directory / "copy").rename(file)


def _move(directory: Path) -> None:
    directory.rename(directory.with_name("aside"))


@pytest.mark.parametrize(
    ("take_away", "told"),
    [
        (_unlink, "was removed or replaced while the node wrote to it"),
        (_copy, "was removed or replaced while the node wrote to it"),
        (_move, "was removed or moved away while the node wrote to it. The node makes a new directory"),
        (shutil.rmtree, "was removed or moved away while the node wrote to it. The node makes a new directory"),
    ],
)
async def test_what_is_taken_away_is_told_once_and_comes_from_the_log_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, take_away: Callable[[Path], None], told: str
) -> None:
    gate = Gate(monkeypatch)
    with capture_logs() as logs:
        async with NodeFarm(tmp_path, servers=1) as farm:
            node = await farm.leader()
            await exported(node, await post(node, b"1", b"2"))
            gate.is_open.clear()
            take_away(history(farm))
            index = await post(node, b"3")
            await becomes("told", lambda: told in (exporter(node).trouble or ""))
            assert any(told in trouble for trouble in status(node, 0.0)["farm"]["trouble"])
            shown = {"exported": 0, "lag": index, "paused": True, "trouble": exporter(node).trouble}
            assert status(node, 0.0)["history"] == shown
            assert exporter(node).releasable == 0, "the log is the only place where these entries are sure to be"
            gate.is_open.set()
            await exported(node, index)
            await becomes("all is well", lambda: exporter(node).trouble is None)
            assert values(farm) == [1, 2, 3]
            assert exporter(node).releasable == index
    assert len([entry for entry in logs if entry["event"] == PAUSED]) == 1
    assert len([entry for entry in logs if entry["event"] == "the history goes on"]) == 1


async def test_it_is_noticed_also_when_nothing_happens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_CHECK_SECONDS", 0.02)
    async with NodeFarm(tmp_path, servers=1) as farm:
        node = await farm.leader()
        index = await post(node, b"1", b"2")
        await exported(node, index)
        shutil.rmtree(history(farm))
        await becomes("noticed", lambda: history(farm).exists())
        await exported(node, index)
        assert values(farm) == [1, 2]


async def test_what_the_log_has_no_more_is_a_gap_then(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(view, "SNAPSHOT_ENTRIES", 20)
    monkeypatch.setattr(view, "KEPT_ENTRIES", 5)
    async with NodeFarm(tmp_path, servers=1) as farm:
        node = await farm.leader()
        log = node.driver.core.log
        while not log.base:
            await exported(node, await post(node, b"0"))
        shutil.rmtree(history(farm))
        monkeypatch.setattr(view, "SNAPSHOT_ENTRIES", 10_000)
        base = log.base
        index = await post(node, b"1")
        await becomes("noticed", lambda: history(farm).exists())
        await exported(node, index)
        gap, *rest = values(farm)
        assert gap == Gap(1, base, servers=(1,))
        assert rest == [0] * (index - base - 1) + [1]


async def test_a_backlog_is_no_reason_for_a_larger_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PAGE_ENTRIES", 7)
    async with NodeFarm(tmp_path, servers=1) as farm:
        node = await farm.leader()
        index = await post(node, *[b"%d" % number for number in range(300)])
        directory = tmp_path / "late"
        async with running(directory, node, Rotation(bytes=2000)) as late:
            await reaches(late, index)
            begun = [int(path.name[8:28]) for path in directory.glob("entries-*")]
            assert len(set(begun)) > 5
            await becomes("packed", lambda: len(list(directory.glob("*.jsonl"))) == 1)
        assert [each.value for each in read_history(directory) if isinstance(each, ApplicationLine)] == list(range(300))


async def test_neither_exporting_nor_stopping_waits_for_packing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[int] = []
    real = files._pack

    def endless(file: HistoryFile, interrupted: Callable[[], bool]) -> bool:
        begun.append(file.first)
        until(interrupted)
        return False

    async with NodeFarm(tmp_path, servers=1) as farm:
        node = await farm.leader()
        monkeypatch.setattr(files, "_pack", endless)
        directory = tmp_path / "other"
        async with running(directory, node, Rotation(bytes=1)) as made:
            for number in range(5):
                await reaches(made, await post(node, b"%d" % number))
            await becomes("being packed", lambda: len(begun) == 1)
            index = made.durable_index
        assert begun == [1], "one at a time"
        assert not list(directory.glob("*.zst*"))
        monkeypatch.setattr(files, "_pack", real)
        async with running(directory, node, Rotation(bytes=1)) as made:
            await reaches(made, index)
            await becomes("packed at the next start", lambda: len(list(directory.glob("*.jsonl"))) == 1)
        assert [each.value for each in read_history(directory) if isinstance(each, ApplicationLine)] == list(range(5))


async def test_stopping_does_not_wait_until_large_files_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reading = threading.Event()

    def endless(*_: object, interrupted: Callable[[], bool], **__: object) -> History:
        reading.set()
        until(interrupted)
        raise InterruptedError

    async with NodeFarm(tmp_path, servers=1) as farm:
        node = await farm.leader()
        monkeypatch.setattr(History, "open", endless)
        async with running(tmp_path / "other", node, Rotation()) as made:
            await becomes("reading", reading.is_set)
        assert made.trouble is None


async def test_what_is_being_packed_is_left_before_the_history_is_opened_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_work = 0
    real_pack, real_open = History.pack, History.open

    def pack(self: History, interrupted: Callable[[], bool]) -> bool:
        nonlocal at_work
        at_work += 1
        until(interrupted)
        at_work -= 1
        return False

    def opened(*args: Any, **kwargs: Any) -> History:
        assert not at_work
        return real_open(*args, **kwargs)

    async with NodeFarm(tmp_path, servers=1) as farm:
        node = await farm.leader()
        directory = tmp_path / "other"
        monkeypatch.setattr(History, "pack", pack)
        made = Exporter(
            directory, "farm", 1, node.driver, rotation=Rotation(bytes=1), start_process=HistoryThread.start
        )
        task = asyncio.create_task(made.run())
        await reaches(made, await post(node, b"1"))
        await becomes("being packed", lambda: at_work == 1)
        monkeypatch.setattr(History, "open", opened)
        monkeypatch.setattr(History, "pack", real_pack)
        max(directory.iterdir()).unlink()
        index = await post(node, b"2")
        await becomes("all is exported, and packed", lambda: made.durable_index >= index and made.trouble is None)
        assert not task.done()
        task.cancel()
        await made.close()
        assert [each.value for each in read_history(directory) if isinstance(each, ApplicationLine)] == [1, 2]


async def test_packing_that_fails_is_told_and_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tried = 0

    def fail(*_: object) -> bool:
        nonlocal tried
        tried += 1
        raise OSError(errno.ENOSPC, "No space left on device")

    real = History.pack
    monkeypatch.setattr(packing, "AGAIN_SECONDS", 0.0)
    monkeypatch.setattr(History, "pack", fail)
    with capture_logs() as logs:
        async with NodeFarm(tmp_path, servers=1) as farm:
            node = await farm.leader()
            made = Exporter(
                tmp_path / "other",
                "farm",
                1,
                node.driver,
                rotation=Rotation(bytes=1),
                start_process=HistoryThread.start,
            )
            task = asyncio.create_task(made.run())
            for number in range(5):
                index = await post(node, b"%d" % number)
                await reaches(made, index)
            await becomes("told", lambda: "is full: free some space" in (made.trouble or ""))
            assert made.releasable == made.durable_index == index
            await becomes("tried again", lambda: tried > 2)
            monkeypatch.setattr(History, "pack", real)
            await becomes("all is well", lambda: made.trouble is None)
            task.cancel()
            await made.close()
    assert PAUSED not in [entry["event"] for entry in logs]
    told = [entry["event"] for entry in logs if "ended files" in entry["event"]]
    assert told == [
        "the history's ended files cannot be packed, the history goes on",
        "packing the history's ended files goes on",
    ]
