"""A node's view of the farm's log."""

import asyncio
import contextlib
from pathlib import Path

import pytest

from gf_i2p.farm.state import FarmState
from gf_i2p.node import view as view_module
from gf_i2p.node.view import FarmView
from gf_i2p.storage.errors import StorageError
from gf_i2p.wire.errors import OutcomeUnknownError
from integration.harness.local_farm import becomes
from tests.farm.strategies import NOW, leaf, record, text
from tests.node.farm import NodeFarm


def views(farm: NodeFarm) -> list[FarmView]:
    return [node.farm_tasks.view for node in farm.nodes.values()]


async def test_every_server_knows_the_same_when_it_has_applied_the_same(tmp_path: Path) -> None:
    async with NodeFarm(tmp_path) as farm:
        leader = await farm.calm()
        for server in (3, 1, 2):
            index = await leader.driver.post([record(server, leaf(server), published=NOW).encode()], seconds=10)
        await farm.equal()
        for view in views(farm):
            await asyncio.wait_for(view.reaches(index), 10)
            assert view.choice.publisher == 1, "with the second there was a majority, and the others are not better"
            assert [each[-1] for each in view.choice.leaves] == [1, 2, 3]
            assert view.state.last_published_ms == NOW
        assert len({view.applied for view in views(farm)}) == 1


async def test_what_no_majority_has_is_not_believed(tmp_path: Path) -> None:
    async with NodeFarm(tmp_path) as farm:
        leader = await farm.calm()
        index = await leader.driver.post([record(1, leaf(1)).encode()], seconds=10)
        await leader.farm_tasks.view.reaches(index)
        for server in [server for server in farm.nodes if server != leader.driver.core.id]:
            await farm.stop(server)
        post = asyncio.create_task(leader.driver.post([record(2, leaf(2)).encode()], seconds=1))
        await becomes("in the leader's log", lambda: leader.driver.core.log.last_index > index)
        with pytest.raises(Exception, match=r"not committed|may be in the log"):
            await post
        assert set(leader.farm_tasks.view.state.records) == {1}


async def test_after_a_restart_a_long_log_makes_the_same_state_page_by_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(view_module, "_PAGE_ENTRIES", 7)
    async with NodeFarm(tmp_path, servers=1) as farm:
        node = await farm.leader()
        values = [record(1, leaf(number % 5), published=NOW + number).encode() for number in range(500)]
        await node.driver.post([*values, b"{", b"\xff", text(date=float("nan"))], seconds=10)
        await node.farm_tasks.view.reaches(node.driver.core.commit)
        before = node.farm_tasks.view.state
        assert before.last_published_ms == NOW + 499
        await farm.stop(1)
        view = (await farm.start(1)).farm_tasks.view
        await becomes("all taken in", lambda: view.applied == farm.nodes[1].driver.core.commit > 500)
        assert (view.state.records, view.state.last_published_ms) == (before.records, before.last_published_ms)


async def test_an_entry_that_brings_a_defect_out_stops_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    apply = FarmState.apply

    def poisoned(state: FarmState, value: bytes, index: int) -> None:
        if value == b"poison":
            raise ZeroDivisionError
        apply(state, value, index)

    monkeypatch.setattr(FarmState, "apply", poisoned)
    monkeypatch.setattr("gf_i2p.node.farm_tasks._AGAIN_SECONDS", 3600)
    async with NodeFarm(tmp_path, servers=1) as farm:
        node = await farm.leader()
        index = await node.driver.post([b"poison", record(1).encode()], seconds=10)
        await asyncio.wait_for(node.farm_tasks.view.reaches(index), 10)
        assert set(node.farm_tasks.view.state.records) == {1}


async def test_a_part_that_died_goes_on_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gf_i2p.node.farm_tasks._AGAIN_SECONDS", 0.01)
    ours = 77  # entries: the size tells the view from the history's export, which reads the same log
    monkeypatch.setattr("gf_i2p.node.view._PAGE_ENTRIES", ours)
    async with NodeFarm(tmp_path, servers=1) as farm:
        node = await farm.leader()
        slices, log = [], node.driver.core.log
        real = log.slice

        def failing(first: int, last: int, *, max_entries: int, max_bytes: int) -> object:
            if max_entries == ours:
                slices.append(first)
                if len(slices) == 1:
                    raise ZeroDivisionError
            return real(first, last, max_entries=max_entries, max_bytes=max_bytes)

        await node.farm_tasks.view.reaches(node.driver.core.commit)
        monkeypatch.setattr(log, "slice", failing)
        index = await node.driver.post([record(1).encode()], seconds=10)
        await asyncio.wait_for(node.farm_tasks.view.reaches(index), 10)
        assert slices[0] == slices[1]


async def test_a_log_that_cannot_be_read_ends_the_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with NodeFarm(tmp_path, servers=1) as farm:
        node = await farm.leader()

        def failing(*_: int, **__: int) -> object:
            raise StorageError("the disk failed")

        monkeypatch.setattr(node.driver.core.log, "slice", failing)
        with contextlib.suppress(OutcomeUnknownError):  # the halt may come before the answer
            await node.driver.post([record(1).encode()], seconds=10)
        await becomes("the node halts", lambda: node.driver.halted)
        assert [str(error) for error in farm.halted] == ["the disk failed"]


async def test_only_a_server_posts_its_record(tmp_path: Path) -> None:
    """Anybody else could declare servers dead, or make the farm publish leaves that serve nobody."""
    async with NodeFarm(tmp_path) as farm:
        leader, follower = await farm.calm(), await farm.follower()
        for server in farm.nodes:
            async with farm.client() as client:
                with pytest.raises(Exception, match=r"(?i)not committed|may be committed"):
                    await client.post([b"harmless", record(server, up=False).encode()], timeout=2)
        async with farm.client() as client:
            await client.post([b"hello", record(99).encode(), record(1, cluster="other").encode()])
        own = record(follower.driver.core.id, leaf(1))
        index = await follower.driver.post([own.encode()], seconds=10)
        await leader.farm_tasks.view.reaches(index)
        assert leader.farm_tasks.view.state.records == {own.id: own}
        with pytest.raises(Exception, match=r"may be in the log|not committed"):
            await follower.driver.post([record(leader.driver.core.id, up=False).encode()], seconds=2)
        assert leader.farm_tasks.view.state.records == {own.id: own}
        await becomes("the connection is made again", lambda: all(link.connected for link in follower.links.values()))
