"""A log that is shortened while the farm lives, and servers that go on from a snapshot."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from gf_i2p.node import view
from gf_i2p.node.files.file_names import DATABASE_FILE, HISTORY_DIRECTORY
from gf_i2p.node.node import Node
from gf_i2p.raft.log import size_of
from gf_i2p.storage.history_lines import Gap
from gf_i2p.storage.history_reader import read_history
from integration.harness.local_farm import until
from tests.farm.strategies import leaf, record
from tests.node.farm import NodeFarm
from tests.node.membership.test_server_changes import joins, sees


@pytest.fixture(autouse=True)
def short_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(view, "SNAPSHOT_ENTRIES", 50)
    monkeypatch.setattr(view, "KEPT_ENTRIES", 5)


async def shortened(node: Node, leader: Node, least: int) -> None:
    """Post until this node has dropped the given number of entries. Entries that the history lacks are not dropped."""

    async def dropped() -> bool:
        await leader.driver.post([b'{"more":true}'], seconds=20)
        return node.driver.core.log.base >= least

    await until(f"the first {least} entries are dropped", 60, dropped)


async def fills(node: Node, first: int, count: int) -> None:
    """Post one by one: the test is about many posts, and several values in one post are one post."""
    for number in range(first, first + count):
        await node.driver.post([b'{"number":%d}' % number], seconds=20)


async def same_state(*nodes: Node) -> None:
    async def equal() -> bool:
        return len({(node.farm_tasks.view.applied, node.farm_tasks.view.state.encode()) for node in nodes}) == 1

    await until("the same state everywhere", 30, equal)


async def test_a_node_goes_on_from_its_snapshot(tmp_path: Path) -> None:
    async with NodeFarm(tmp_path, servers=1) as farm:
        node = await farm.leader()
        await node.driver.post([record(1, leaf(1)).encode()], seconds=10)
        await fills(node, 0, 120)
        await shortened(node, node, 100)
        before = node.farm_tasks.view.state.encode()
        await farm.stop(1)
        again = await farm.start(1)
        assert again.farm_tasks.view.applied >= 100, "without reading what came before"
        await farm.leader()
        await fills(again, 120, 5)
        assert again.farm_tasks.view.state.encode() == before


async def test_large_entries_are_kept_for_less_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(view, "KEPT_ENTRIES", 10_000)
    monkeypatch.setattr(view, "KEPT_BYTES", 100_000)
    async with NodeFarm(tmp_path, servers=1) as farm:
        node = await farm.leader()
        for _ in range(20):
            await node.driver.post([bytes(1_000)] * 10, seconds=20)
        await shortened(node, node, 50)
        core = node.driver.core
        kept = core.log.slice(core.log.base + 1, core.applicable, max_entries=10_000, max_bytes=1 << 30)
        assert sum(map(size_of, kept)) >= 100_000


async def test_a_follower_that_was_away_too_long_goes_on_from_the_leaders_snapshot(tmp_path: Path) -> None:
    async with NodeFarm(tmp_path) as farm:
        leader = await farm.calm()
        gone = next(server for server in farm.nodes if server != leader.driver.core.id)
        await fills(leader, 0, 10)
        await farm.stop(gone)
        await leader.driver.post([record(1, leaf(1)).encode()], seconds=10)
        await fills(leader, 10, 150)
        await shortened(leader, leader, 100)
        back = await farm.start(gone)
        await same_state(leader, back)
        assert back.driver.core.log.base >= 100
        await fills(leader, 160, 5)
        await same_state(*farm.nodes.values())
        history = farm.path(gone) / HISTORY_DIRECTORY

        async def has_gap() -> bool:
            gaps = [line for line in read_history(history) if isinstance(line, Gap)]
            assert {gap.servers for gap in gaps} <= {(1, 2, 3)}
            return bool(gaps)

        await until("its history has a gap", 20, has_gap)


async def test_a_new_server_gets_the_snapshot_first(tmp_path: Path) -> None:
    async with NodeFarm(tmp_path, servers=2) as farm:
        first = await farm.calm()
        await first.driver.post([record(1, leaf(1)).encode()], seconds=10)
        await fills(first, 0, 120)
        await shortened(first, first, 100)
        new = await joins(farm, 3)
        await sees(new, 1, 2, 3)
        await fills(new, 120, 5)
        await same_state(first, new)


async def test_a_damaged_snapshot_is_sent_again_by_the_leader(tmp_path: Path) -> None:
    async with NodeFarm(tmp_path) as farm:
        leader = await farm.calm()
        await fills(leader, 0, 120)
        other = next(node for server, node in farm.nodes.items() if node is not leader)
        server = other.driver.core.id
        await shortened(other, leader, 100)
        await shortened(leader, leader, 100)
        await farm.stop(server)
        damage(farm.path(server))
        await fills(leader, 120, 70)  # so that the leader has a newer snapshot
        back = await farm.start(server)
        assert back.driver.core.snapshot is None
        await same_state(leader, back)
        assert back.driver.core.snapshot is not None


def damage(directory: Path) -> None:
    """Change one byte of the stored snapshot."""
    with closing(sqlite3.connect(directory / DATABASE_FILE)) as database:
        position, old = database.execute("SELECT position, data FROM snapshot_block LIMIT 1").fetchone()
        new = bytes([old[0] ^ 1]) + old[1:]
        database.execute("UPDATE snapshot_block SET data = ? WHERE position = ?", (new, position))
        database.commit()
