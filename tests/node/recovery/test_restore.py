"""A farm that begins anew from a snapshot, while servers of the old farm still run."""

import asyncio
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from gf_i2p.node import view
from gf_i2p.node.files.checked_read import ConfigError
from gf_i2p.node.files.config import Config, Secrets
from gf_i2p.node.files.file_names import DATABASE_FILE, HISTORY_DIRECTORY
from gf_i2p.node.membership import joining
from gf_i2p.node.node import Node
from gf_i2p.node.recovery import restore as restoring
from gf_i2p.node.recovery.new_term import TERM_LEAP
from gf_i2p.node.recovery.restore import plan_restoration, restore
from gf_i2p.node.recovery.snapshot_copy import of_running, of_stopped, state_of
from gf_i2p.raft.allowance import LAST_TERM
from gf_i2p.storage.database import Storage
from gf_i2p.storage.errors import StorageError
from gf_i2p.storage.history_lines import Restored as BeginsAnew
from gf_i2p.storage.history_reader import read_history, summarize
from gf_i2p.storage.snapshot_file import SavedSnapshot
from integration.harness.local_farm import becomes, until
from tests.farm.strategies import leaf, record
from tests.node.farm import NodeFarm
from tests.node.membership.test_server_changes import ids, joins, sees
from tests.node.test_snapshots import shortened


@pytest.fixture(autouse=True)
def eager_joiners(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joining, "AGAIN_SECONDS", 0.2)


async def snapshot(node: Node) -> SavedSnapshot:
    saved = await of_running(node)
    assert saved is not None
    return saved


async def saved_farm(farm: NodeFarm) -> SavedSnapshot:
    """Post values, take a snapshot, and post values that are not in the snapshot."""
    leader = await farm.calm()
    index = await leader.driver.post([record(1, leaf(1)).encode(), b"before"], seconds=10)
    await leader.farm_tasks.view.reaches(index)
    saved = await snapshot(leader)
    await leader.driver.post([b"after %d" % number for number in range(20)], seconds=10)
    await farm.equal()
    return saved


async def test_a_running_and_a_stopped_node_give_the_same(tmp_path: Path) -> None:
    async with NodeFarm(tmp_path) as farm:
        await saved_farm(farm)
        running = await snapshot(await farm.leader())
        assert running.committed == running.snapshot.index == (await farm.leader()).driver.core.commit
        assert set(state_of(running).records) == {1}
        exporter = farm.nodes[2].farm_tasks.exporter
        assert exporter is not None
        await becomes("exported", lambda: exporter.durable_index >= running.snapshot.index)
        await farm.stop(2)
        files = {path: path.read_bytes() for path in farm.path(2).iterdir() if path.is_file()}
        stopped = of_stopped(farm.path(2))
        assert stopped.snapshot == running.snapshot
        assert (stopped.committed, stopped.reached) == (running.committed, running.reached)
        for path, content in files.items():
            assert path.name.endswith("-lock") or path.read_bytes() == content, "nothing is changed"


async def test_a_stopped_log_without_history_says_what_is_not_sure(tmp_path: Path) -> None:
    async with NodeFarm(tmp_path) as farm:
        await saved_farm(farm)
        await farm.stop(2)
        (farm.path(2) / HISTORY_DIRECTORY).rename(tmp_path / "away")
        assert of_stopped(farm.path(2)).committed == 0
    async with NodeFarm(tmp_path / "one", servers=1) as alone:
        await (await alone.leader()).driver.post([b"x"], seconds=10)
        await alone.stop(1)
        saved = of_stopped(alone.path(1))
        assert saved.committed == saved.snapshot.index, "what one server of one has is committed"


async def test_where_the_log_was_shortened_its_snapshot_is_where_it_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(view, "SNAPSHOT_ENTRIES", 50)
    monkeypatch.setattr(view, "KEPT_ENTRIES", 5)
    async with NodeFarm(tmp_path, servers=1) as farm:
        node = await farm.leader()
        await node.driver.post([record(1, leaf(1)).encode()], seconds=10)
        await shortened(node, node, 60)
        running = await snapshot(node)
        core = node.driver.core
        assert core.log.base < running.snapshot.index
        assert running.snapshot.configuration == core.configuration
        await farm.stop(1)
        stopped = of_stopped(farm.path(1))
        assert stopped.snapshot == running.snapshot
        assert set(state_of(stopped).records) == {1}
        done = restore(stopped, farm.path(1))
        assert of_stopped(farm.path(1)).snapshot.term == done.term
        again = await farm.start(1)
        await farm.leader()
        await shortened(again, again, done.index + 60)
        await farm.stop(1)
        assert set(state_of(of_stopped(farm.path(1))).records) == {1}


async def test_a_log_that_is_open_is_not_read_and_one_that_is_read_is_not_opened(tmp_path: Path) -> None:
    async with NodeFarm(tmp_path, servers=1) as farm:
        await (await farm.leader()).driver.post([b"x"], seconds=10)
        with pytest.raises(StorageError, match="in use"):
            of_stopped(farm.path(1))
        with pytest.raises(StorageError, match="in use"):
            restore(await snapshot(farm.nodes[1]), farm.path(1))
        await farm.stop(1)

        def opens(*_: int) -> None:
            with pytest.raises(StorageError, match="in use"):
                Storage.open(farm.path(1) / DATABASE_FILE, cluster="farm", server_id=1)

        of_stopped(farm.path(1), on_entry=opens)


async def test_the_farm_goes_on_and_the_old_one_stays_outside(tmp_path: Path) -> None:
    """The old servers 2 and 3 run on with their logs, under the same name and at the same places."""
    async with NodeFarm(tmp_path) as farm:
        saved = await saved_farm(farm)
        farm.lively()
        await farm.stop(1)
        old_end = (await farm.leader()).driver.core.log.last_index
        done = restore(saved, farm.path(1))
        assert done.index == saved.snapshot.index + 1
        assert done.term >= saved.reached + TERM_LEAP
        new = await farm.start(1)
        await until("it leads alone", 20, lambda: _is(new.driver.core.is_leader))
        await sees(new, 1)
        old = farm.nodes[2]
        await until("the old ones are refused", 20, lambda: _is("refuses" in (old.links[1].last_error or "")))
        await until("the old ones go on", 20, lambda: _is(old.driver.core.leader in {2, 3}))
        await old.driver.post([b"of the old farm"], seconds=20)
        index = await new.driver.post([b"of the new farm"], seconds=10)
        assert index <= old_end, "the same index is another entry there"
        assert old.driver.core.term < TERM_LEAP < new.driver.core.term
        assert set(state_of(await snapshot(new)).records) == {1}
        assert not set(ids(new)) & {2, 3}
        await farm.stop(2)
        await farm.stop(3)
        for server in (2, 3):  # the two servers begin anew, under the old ids
            farm.path(server).rename(tmp_path / f"old-{server}")
            node = await joins(farm, server)
            await sees(node, *range(1, server + 1))
        await node.driver.post([b"of all three"], seconds=20)
        await until("all have it", 20, lambda: _is(len({n.driver.core.commit for n in farm.nodes.values()}) == 1))


async def test_nothing_of_what_was_there_is_lost(tmp_path: Path) -> None:
    async with NodeFarm(tmp_path) as farm:
        saved = await saved_farm(farm)
        exporter = farm.nodes[1].farm_tasks.exporter
        assert exporter is not None
        await becomes("exported", lambda: exporter.durable_index > saved.snapshot.index)
        for server in (1, 2, 3):
            await farm.stop(server)
        names = ("log.sqlite", "gf-i2p.toml", "secrets.toml")
        before = {name: (farm.path(1) / name).read_bytes() for name in names}
        done = restore(saved, farm.path(1))
        assert {name: (done.backup / name).read_bytes() for name in names} == before
        assert done.backup.stat().st_mode & 0o077 == 0
        assert summarize(done.backup / HISTORY_DIRECTORY).last > saved.snapshot.index
        found = summarize(farm.path(1) / HISTORY_DIRECTORY)
        assert found.restored == [(1, saved.snapshot.index, done.term)]
        (line,) = read_history(farm.path(1) / HISTORY_DIRECTORY)
        assert line == BeginsAnew(1, saved.snapshot.index, done.term, servers=(1, 2, 3))
        assert not (farm.path(1) / "restoring").exists()
        assert set(Secrets.load(farm.path(1)).users) == {"server-1", "client-test", "admin-test"}
        assert [server.id for server in Config.load(farm.path(1)).servers] == [1]
        again = restore(saved, farm.path(1))
        assert again.term > done.term + TERM_LEAP - 1
        assert again.backup != done.backup
        node = await farm.start(1)
        await farm.leader()
        await node.driver.post([b'{"new":1}'], seconds=10)
        new_exporter = node.farm_tasks.exporter
        assert new_exporter is not None
        await becomes("exported", lambda: new_exporter.durable_index >= again.index + 2)
        assert new_exporter.trouble is None
        assert summarize(farm.path(1) / HISTORY_DIRECTORY).records == 1


@pytest.mark.parametrize("loss", ["gone", "damaged", "wal"])
async def test_it_needs_no_log(tmp_path: Path, loss: str) -> None:
    async with NodeFarm(tmp_path) as farm:
        saved = await saved_farm(farm)
        path = farm.path(1) / DATABASE_FILE
        killed = {each.name: each.read_bytes() for each in farm.path(1).glob(DATABASE_FILE + "*")}
        for server in (1, 2, 3):
            await farm.stop(server)
        match loss:
            case "gone":
                path.unlink()
            case "damaged":
                path.write_bytes(path.read_bytes()[:5000])
            case "wal":  # as after a kill, and then the WAL was lost
                path.write_bytes(killed[DATABASE_FILE])
        planned = plan_restoration(saved, farm.path(1))
        assert not planned.loses
        assert (planned.old is None) == (loss == "gone")
        restore(saved, farm.path(1))
        await farm.start(1)
        assert (await farm.leader()).driver.core.log.base == saved.snapshot.index


async def test_a_new_servers_directory_will_do(tmp_path: Path) -> None:
    async with NodeFarm(tmp_path / "old", servers=1) as old:
        saved = await saved_farm(old)
    async with NodeFarm(tmp_path / "new", servers=2) as new:
        for server in (1, 2):
            await new.stop(server)
        restore(saved, new.path(2))
        node = await new.start(2)
        await new.leader()
        await sees(node, 2)


async def test_a_log_that_has_more_is_told_of_and_another_farm_is_refused(tmp_path: Path) -> None:
    async with NodeFarm(tmp_path) as farm:
        saved = await saved_farm(farm)
        for server in (1, 2, 3):
            await farm.stop(server)
        assert plan_restoration(saved, farm.path(1)).loses
        before = (farm.path(1) / DATABASE_FILE).read_bytes()
        for bad, says in (
            (replace(saved, cluster="other"), "--cluster other"),
            (replace(saved, snapshot=replace(saved.snapshot, data=b"[]")), "state cannot be read"),
            (replace(saved, reached=LAST_TERM), "begin a new farm"),
        ):
            with pytest.raises(ConfigError, match=says):
                restore(bad, farm.path(1))
        path = farm.path(1) / "gf-i2p.toml"
        path.write_text(path.read_text().replace("id = 1 ", "id = 3 ", 1))
        with pytest.raises(StorageError, match="configuration says server 3"):
            restore(saved, farm.path(1))
        assert (farm.path(1) / DATABASE_FILE).read_bytes() == before


@pytest.mark.parametrize("step", ["_begin_log", "_begin_history", "replace_files", "_replace_log", "shutil.rmtree"])
async def test_what_is_interrupted_anywhere_can_be_done_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    async with NodeFarm(tmp_path) as farm:
        saved = await saved_farm(farm)
        for server in (1, 2, 3):
            await farm.stop(server)
        calls = 0
        real: Callable[..., object] = shutil.rmtree if "." in step else getattr(restoring, step)

        def fails(*args: object, **options: object) -> object:
            nonlocal calls
            calls += 1
            if step == "shutil.rmtree" and calls == 1:
                return real(*args, **options)
            raise OSError("the disk is full")

        with monkeypatch.context() as patch:
            patch.setattr(f"gf_i2p.node.recovery.restore.{step}", fails)
            with pytest.raises(OSError, match="disk is full"):
                restore(saved, farm.path(1))
        restore(saved, farm.path(1))
        await farm.start(1)
        leader = await farm.leader()
        await leader.driver.post([b"x"], seconds=10)
        await asyncio.wait_for(leader.farm_tasks.view.reaches(saved.snapshot.index + 1), 10)


async def _is(condition: bool) -> bool:
    return condition
