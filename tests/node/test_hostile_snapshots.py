"""Snapshots that one server made up: on the way, and stored by an older version."""

from pathlib import Path

import pytest

from gf_i2p.node import view
from gf_i2p.node.files.checked_read import ConfigError
from gf_i2p.node.files.file_names import DATABASE_FILE
from gf_i2p.node.node import Node
from gf_i2p.node.recovery.farm_of_one import recover
from gf_i2p.node.recovery.restore import plan_restoration, restore
from gf_i2p.node.recovery.snapshot_copy import of_running, of_stopped
from gf_i2p.raft.effects import Snapshot, Write
from gf_i2p.storage.database import Storage
from gf_i2p.wire.entries import Entry, ValueType
from gf_i2p.wire.log_values import SnapshotSyncRequest
from gf_i2p.wire.messages import MessageType, Request, Response
from tests.node.farm import NodeFarm
from tests.node.test_snapshots import fills, same_state, shortened
from tests.tier import mostly_slow

NO_STATES = [b"[]", b'{"format":[]}', b"[" * 100_000, b'{"format":2,"servers":[1],"election":{"publisher":77}}']


@pytest.fixture(autouse=True)
def short_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(view, "SNAPSHOT_ENTRIES", 50)
    monkeypatch.setattr(view, "KEPT_ENTRIES", 5)


def made_up(node: Node, source: int, data: bytes) -> Request:
    """Give a snapshot of a server that nobody elected, in the next term, after the node's log."""
    core = node.driver.core
    index, term = core.log.last_index + 1000, core.term + 1
    block = SnapshotSyncRequest(index, term, core.configuration, 0, data, done=True)
    entry = Entry(term, ValueType.SNAPSHOT_SYNC_REQUEST, block.encode())
    return Request(MessageType.INSTALL_SNAPSHOT_REQUEST, source, core.id, term, term, index, 0, (entry,))


@pytest.mark.parametrize("data", NO_STATES)
async def test_a_made_up_snapshot_replaces_nothing_and_the_node_starts_again(tmp_path: Path, data: bytes) -> None:
    async with NodeFarm(tmp_path) as farm:
        leader = await farm.leader()
        await leader.driver.post([b"committed"], seconds=20)
        hostile, victim = (server for server in (1, 2, 3) if server != leader.driver.core.id)
        node = farm.nodes[victim]
        await node.farm_tasks.view.reaches(leader.driver.core.commit)
        log = node.driver.core.log.last_index
        answers: list[Response | None] = []
        node.driver.incoming(made_up(node, hostile, data), answers.append)
        assert answers == [None]
        assert not node.driver.halted
        assert node.driver.core.snapshot is None
        await farm.stop(hostile)
        await farm.stop(victim)
        again = await farm.start(victim)
        assert again.driver.core.log.last_index >= log
        await again.driver.post([b"afterwards"], seconds=20)
        await same_state(*farm.nodes.values())


def store(directory: Path, server: int, data: bytes, *, ahead: int | None = None) -> None:
    """Store a snapshot as an older version did. `ahead`: the snapshot replaces the log, and ends after the log."""
    storage = Storage.open(directory / DATABASE_FILE, cluster="farm", server_id=server)
    loaded = storage.loaded
    assert loaded.snapshot is not None
    last = loaded.last_index
    if ahead is None:
        snapshot = Snapshot(last, loaded.terms[-1][1], loaded.snapshot.configuration, data)
        write = Write(None, 0, (), snapshot, last)
    else:
        snapshot = Snapshot(last + ahead, loaded.hard_state.term, loaded.snapshot.configuration, data)
        write = Write(None, 0, (), snapshot, install=True)
    group = storage.group()
    group.add(write)
    storage.store(group)
    storage.close()


@pytest.mark.parametrize("data", mostly_slow(NO_STATES, NO_STATES[-1]))
async def test_a_node_starts_with_a_stored_snapshot_that_is_no_state_and_gets_the_leaders(
    tmp_path: Path, data: bytes
) -> None:
    async with NodeFarm(tmp_path) as farm:
        leader = await farm.calm()
        await fills(leader, 0, 120)
        other = next(node for node in farm.nodes.values() if node is not leader)
        server = other.driver.core.id
        await shortened(other, leader, 100)
        await farm.stop(server)
        store(farm.path(server), server, data)
        await fills(leader, 120, 70)
        back = await farm.start(server)
        assert back.driver.core.snapshot is None
        await same_state(leader, back)
        await farm.stop(server)
        assert of_stopped(farm.path(server)).snapshot.index > 120


async def test_with_a_made_up_state_nothing_begins_anew_and_the_operator_learns_the_way_on(tmp_path: Path) -> None:
    async with NodeFarm(tmp_path) as farm:
        leader = await farm.calm()
        await fills(leader, 0, 120)
        saved = await of_running(leader)
        assert saved is not None
        for server in (1, 2, 3):
            await shortened(farm.nodes[server], leader, 100)
        for server in (1, 2, 3):
            await farm.stop(server)
        for server in (1, 2):
            store(farm.path(server), server, b'{"format":[]}', ahead=10**6)
        back = await farm.start(1)
        assert not back.driver.halted, "the vote and the log are sound"
        await farm.stop(1)
        with pytest.raises(
            ConfigError, match=r"has the format .*remove the server .*recover from another one, or begin anew"
        ):
            recover(farm.path(1))
        assert not plan_restoration(saved, farm.path(1)).loses, "recovery would keep no more"
        restore(saved, farm.path(1))
        assert recover(farm.path(3)).index > 120
