"""The exporter of a real node: the exporter follows the log, and no trouble of the exporter touches the node."""

import asyncio
import contextlib
import errno
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from gf_i2p.node.clock import now_ms
from gf_i2p.node.files.client_file import ClientFile
from gf_i2p.node.files.file_names import CONFIG_FILE, DATABASE_FILE, HISTORY_DIRECTORY
from gf_i2p.node.history import exporter as module
from gf_i2p.node.history.exporter import Exporter
from gf_i2p.node.node import Node
from gf_i2p.node.status.node_status import status
from gf_i2p.raft.core import Core
from gf_i2p.storage.database import Storage
from gf_i2p.storage.history_lines import ApplicationLine, ConfigurationLine, Gap
from gf_i2p.storage.history_reader import HistoryError, read_history, summarize
from gf_i2p.storage.history_writer import History, Rotation
from gf_i2p.wire.entries import ValueType
from gf_i2p.wire.errors import NotCommittedError, OutcomeUnknownError
from gf_i2p.wire.log_values import Configuration
from integration.harness.local_farm import LocalFarm, becomes, until
from tests.node.farm import NodeFarm
from tests.node.threaded_history import HistoryThread
from tests.storage.exported_log import plain

WELL = {"lag": 0, "paused": False, "trouble": None}


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_GATHER_SECONDS", 0.01)
    monkeypatch.setattr(module, "_AGAIN_SECONDS", 0.02)
    monkeypatch.setattr(module, "_MAX_AGAIN_SECONDS", 0.04)


def exporter(node: Node) -> Exporter:
    assert node.farm_tasks.exporter is not None
    return node.farm_tasks.exporter


async def post(node: Node, *values: bytes) -> int:
    return await node.driver.post(values, seconds=10)


async def reaches(made: Exporter, index: int) -> None:
    await becomes("exported", lambda: made.durable_index >= index)


async def exported(node: Node, index: int) -> None:
    await reaches(exporter(node), index)


def history(farm: NodeFarm, server: int = 1) -> Path:
    return farm.path(server) / HISTORY_DIRECTORY


def values(farm: NodeFarm, server: int = 1) -> list[Any]:
    """Give the posted values, and the gaps."""
    lines = read_history(history(farm, server))
    return [
        each.value if isinstance(each, ApplicationLine) else each
        for each in lines
        if not isinstance(each, ConfigurationLine)
    ]


def configurations(directory: Path) -> list[ConfigurationLine]:
    return [line for line in read_history(directory) if isinstance(line, ConfigurationLine)]


async def test_every_server_exports_the_same(tmp_path: Path) -> None:
    async with NodeFarm(tmp_path) as farm:
        leader = await farm.calm()
        for number in range(20):
            index = await post(leader, *[b"%d" % (10 * number + n) for n in range(10)])
        for server, node in farm.nodes.items():
            await exported(node, index)
            assert values(farm, server) == list(range(200))
            assert status(node, 0.0)["history"] == {**WELL, "exported": index}
        assert exporter(leader).releasable == index
        found = [each for server in farm.nodes for each in configurations(history(farm, server))]
        assert {each.servers for each in found} == {(1, 2, 3)}
        led = {(each.term, each.leader) for each in found if each.leader is not None}
        assert (leader.driver.core.log.term(index), leader.driver.core.id) in led
        assert len(led) == len({term for term, _ in led}), "nobody says otherwise"


async def test_who_led_earlier_terms_is_not_known(tmp_path: Path) -> None:
    async with NodeFarm(tmp_path, servers=1) as farm:
        await exported(await farm.leader(), 1)
        await farm.stop(1)
        await farm.start(1)
        node = await farm.leader()
        index = await post(node, b"1")
        late = Exporter(
            tmp_path / "late", "farm", 1, node.driver, rotation=Rotation(), start_process=HistoryThread.start
        )
        task = asyncio.create_task(late.run())
        await reaches(late, index)
        task.cancel()
        await late.close()
        await exported(node, index)
        known = configurations(history(farm))
        assert [each.leader for each in known] == [1] * len(known)
        assert [each.index for each in known] == [each.index for each in configurations(tmp_path / "late")]
        leaders = [each.leader for each in configurations(tmp_path / "late")]
        assert leaders == [None] * (len(leaders) - 1) + [1]
        assert len(leaders) > 1


async def test_it_goes_on_where_it_was_after_a_restart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PAGE_ENTRIES", 7)
    async with NodeFarm(tmp_path, servers=1) as farm:
        for run in range(3):
            node = await farm.leader()
            index = await post(node, *[b"%d" % (100 * run + n) for n in range(100)])
            if run != 1:
                await exported(node, index)
            await farm.stop(1)
            await farm.start(1)
        node = await farm.leader()
        await becomes("the last no-op is committed", lambda: node.driver.core.applicable > index)
        await exported(node, node.driver.core.applicable)
        assert values(farm) == list(range(300))
        assert summarize(history(farm)).last == node.driver.core.applicable


async def test_kill_9_of_a_node_under_load_leaves_in_the_history_what_is_in_the_log(tmp_path: Path) -> None:
    posted = 0

    async def load() -> None:
        nonlocal posted
        async with ClientFile.load(farm.client_file).open() as client:
            while True:
                posted += 1
                with contextlib.suppress(NotCommittedError, OutcomeUnknownError):
                    await client.post([b'{"number": %d}' % posted] * (posted % 5 + 1), timeout=5)

    with LocalFarm(tmp_path, servers=1) as farm:
        farm.start_all()
        await farm.leader()
        loading = asyncio.create_task(load())
        for _ in range(2):
            before = posted
            await becomes("under load", lambda before=before: posted > before + 20)  # type: ignore[misc]
            farm.kill(1)
            farm.start(1)
            await farm.leader()
        loading.cancel()
        await asyncio.wait([loading])
        length = await farm.converged()

        async def all_exported() -> bool:
            answer = await farm.status(1)
            return answer is not None and answer["history"]["exported"] == length

        await until("all is exported", 20, all_exported)
        farm.kill(1)
        storage = Storage.open(farm.node(1) / DATABASE_FILE, cluster="farm", server_id=1)
        with contextlib.closing(storage):
            log = storage.read(1, length, 1 << 30)
        truth = [
            (index, entry.term, json.loads(entry.value) if entry.value_type is ValueType.APPLICATION else (1,))
            for index, entry in enumerate(log, 1)
        ]
        assert plain(read_history(farm.node(1) / HISTORY_DIRECTORY)) == truth
        assert len(truth) > 100


async def test_a_log_that_begins_later_makes_a_gap_in_its_place(tmp_path: Path) -> None:
    async with NodeFarm(tmp_path, servers=1) as farm:
        node = await farm.leader()
        before = await post(node, b"1", b"2")
        await exported(node, before)
        exporter(node).log_begins_after(before)
        made = asyncio.create_task(post(node, *[b"%d" % n for n in range(3, 9)]))
        index = await made
        await exported(node, index)
        exporter(node).log_begins_after(index)
        exporter(node).log_begins_after(before)
        exporter(node).log_begins_after(index + 5)  # a snapshot was installed
        await exported(node, index + 5)
        assert values(farm) == [*range(1, 9), Gap(index + 1, index + 5, servers=(1,))]


@pytest.mark.parametrize("known", [True, False])
async def test_a_history_that_begins_late_begins_with_a_gap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, known: bool
) -> None:
    async with NodeFarm(tmp_path, servers=1) as farm:
        node = await farm.leader()
        index = await post(node, *[b"%d" % n for n in range(9)])
        if not known:  # a damaged snapshot: the first Configuration of a new farm stands in
            first = Configuration(0, 0, node.driver.core.configuration.servers)
            monkeypatch.setattr(Core, "configuration_at", lambda *_: first)
        late = Exporter(
            tmp_path / "late",
            "farm",
            1,
            node.driver,
            rotation=Rotation(),
            begins_after=index - 3,
            start_process=HistoryThread.start,
        )
        task = asyncio.create_task(late.run())
        await reaches(late, index)
        task.cancel()
        await late.close()
        gap, *records = read_history(tmp_path / "late")
        assert gap == Gap(1, index - 3, servers=(1,) if known else None)
        assert [record.value for record in records if isinstance(record, ApplicationLine)] == [6, 7, 8]


class FullDisk:
    """While `full` is set, writing to a history fails."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.full = False
        self.tried = 0
        real = os.pwrite

        def pwrite(descriptor: int, data: Any, offset: int) -> int:
            if self.full:
                self.tried += 1
                raise OSError(errno.ENOSPC, "No space left on device")
            return real(descriptor, data, offset)

        monkeypatch.setattr(os, "pwrite", pwrite)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[FullDisk]:
    made = FullDisk(monkeypatch)
    yield made
    made.full = False


async def test_a_full_disk_pauses_the_history_and_not_the_node(
    tmp_path: Path, disk: FullDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "HELD_ENTRIES", 4)
    with capture_logs() as logs:
        async with NodeFarm(tmp_path, servers=1) as farm:
            node = await farm.leader()
            durable = await post(node, b"1")
            await exported(node, durable)
            disk.full = True
            index = await post(node, b"2")
            await becomes("tried again and again", lambda: disk.tried > 5)
            assert exporter(node).releasable == exporter(node).durable_index == durable
            told = status(node, 0.0)
            assert any("is full: free some space" in trouble for trouble in told["farm"]["trouble"])
            assert (told["history"]["paused"], told["history"]["trouble"]) == (True, exporter(node).trouble)
            last = await post(node, *[b"%d" % n for n in range(3, 13)])
            assert exporter(node).releasable == last - 4, "the log is not held back for ever"
            disk.full = False
            await exported(node, last)
            await becomes("all is well", lambda: exporter(node).trouble is None)
            assert exporter(node).releasable == last > index
            assert status(node, 0.0)["history"] == {**WELL, "exported": last}
            assert values(farm) == list(range(1, 13))
    paused = [entry for entry in logs if entry["event"] == "the history is paused, the node goes on"]
    assert [entry["log_level"] for entry in paused] == ["error"], "told once"
    assert len([entry for entry in logs if entry["event"] == "the history goes on"]) == 1


async def test_packing_that_fails_keeps_nobody_from_exporting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: History) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    real = History.rotate
    async with NodeFarm(tmp_path, servers=1) as farm:
        node = await farm.leader()
        monkeypatch.setattr(exporter(node), "_rotation", Rotation(bytes=1))
        monkeypatch.setattr(History, "rotate", fail)
        await farm.stop(1)
        node = await farm.start(1)
        exporter(node)._rotation = Rotation(bytes=1)
        await farm.leader()
        for number in range(20):
            index = await post(node, b"%d" % number)
            await exported(node, index)
        await becomes("told", lambda: exporter(node).trouble is not None)
        monkeypatch.setattr(History, "rotate", real)
        exporter(node)._rotate_at = 0.0
        await post(node, b"20")
        await becomes("packed", lambda: any(history(farm).glob("*.zst")))
        await becomes("all is well", lambda: exporter(node).trouble is None)
        assert values(farm) == list(range(21))


async def test_an_old_file_is_packed_when_nothing_happens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_CHECK_SECONDS", 0.02)
    now = now_ms()
    async with NodeFarm(tmp_path, servers=1) as farm:
        node = await farm.leader()
        index = await post(node, b"1")
        made = Exporter(
            tmp_path / "other",
            "farm",
            1,
            node.driver,
            rotation=Rotation(ms=1000),
            start_process=HistoryThread.with_clock(lambda: now),
        )
        task = asyncio.create_task(made.run())
        await reaches(made, index)
        now += 1000
        await becomes("packed", lambda: any((tmp_path / "other").glob("*.zst")))
        task.cancel()
        await made.close()


async def test_damaged_files_stop_the_history_until_they_are_moved_away(tmp_path: Path) -> None:
    async with NodeFarm(tmp_path, servers=1) as farm:
        node = await farm.leader()
        for number in range(5):
            await exported(node, await post(node, b"%d" % number))
        await farm.stop(1)
        (file,) = history(farm).iterdir()
        content = file.read_bytes()
        file.write_bytes(content[:120] + b"\0" + content[121:])
        node = await farm.start(1)
        await farm.leader()
        await becomes("said so", lambda: "move the whole directory" in (exporter(node).trouble or ""))
        index = await post(node, b"5")
        assert exporter(node).releasable == 0
        history(farm).rename(tmp_path / "aside")
        await exported(node, index)
        assert values(farm) == [*range(6)]
        await becomes("all is well", lambda: exporter(node).trouble is None)


async def test_a_history_of_another_log_is_not_gone_on_with(tmp_path: Path) -> None:
    async with NodeFarm(tmp_path / "farm", servers=1) as farm:
        node = await farm.leader()
        await farm.stop(1)
        shutil.copytree(farm.path(1), tmp_path / "older")
        await farm.start(1)
        node = await farm.leader()
        await exported(node, await post(node, *[b"%d" % n for n in range(50)]))
        await farm.stop(1)
        for path in farm.path(1).glob(f"{DATABASE_FILE}*"):
            path.unlink()
        for path in (tmp_path / "older").glob(f"{DATABASE_FILE}*"):
            shutil.copy(path, farm.path(1))
        before = summarize(history(farm))
        node = await farm.start(1)
        await becomes("said so", lambda: "older copy, stop the node" in (exporter(node).trouble or ""))
        assert summarize(history(farm)) == before


async def test_a_log_of_other_terms_is_another_log(tmp_path: Path) -> None:
    async with NodeFarm(tmp_path, servers=1) as farm:
        node = await farm.leader()
        index = await post(node, b"1", b"2")
        await exported(node, index)
        await farm.stop(1)
        (file,) = history(farm).iterdir()
        term = node.driver.core.log.term(index)
        file.write_bytes(file.read_bytes().replace(b'"term":%d}' % term, b'"term":%d}' % (term + 1)))
        node = await farm.start(1)
        await becomes("said so", lambda: f"in term {term + 1}, and the log" in (exporter(node).trouble or ""))


async def test_the_history_of_another_server_keeps_a_node_from_starting(tmp_path: Path) -> None:
    async with NodeFarm(tmp_path / "a", servers=1) as one, NodeFarm(tmp_path / "b", servers=1) as other:
        await exported(await one.leader(), 1)
        await exported(await other.leader(), 1)
        await other.stop(1)
        shutil.rmtree(history(other))
        config = other.path(1) / CONFIG_FILE
        shutil.copytree(history(one), history(other))
        (file,) = history(other).iterdir()
        file.write_bytes(file.read_bytes().replace(b'"cluster":"farm"', b'"cluster":"mine"'))
        with pytest.raises(HistoryError, match="server 1 of farm 'mine', where that of server 1 of farm 'farm'"):
            await other.start(1)
        config.write_text(config.read_text().replace("enabled = true", "enabled = false"))
        node = await other.start(1)
        assert node.farm_tasks.exporter is None
        assert status(node, 0.0)["history"] is None


async def test_a_defect_costs_a_moment_and_no_entry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gf_i2p.node.farm_tasks._AGAIN_SECONDS", 0.01)
    real = History.append_in_steps
    failed: list[bool] = []

    def append(self: History, entries: Any, led: Any) -> Any:
        if len(failed) < 3:
            failed.append(True)
            raise ZeroDivisionError
        return real(self, entries, led)

    monkeypatch.setattr(History, "append_in_steps", append)
    async with NodeFarm(tmp_path, servers=1) as farm:
        node = await farm.leader()
        await exported(node, await post(node, b"1", b"2"))
        assert values(farm) == [1, 2]
        assert failed == [True] * 3
