"""A farm of one, made from the files of one server."""

import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from gf_i2p.node.files.checked_read import ConfigError
from gf_i2p.node.files.config import Secrets
from gf_i2p.node.files.farm_setup import make_farm
from gf_i2p.node.files.file_names import DATABASE_FILE
from gf_i2p.node.files.stopped_log import read_stopped_log
from gf_i2p.node.recovery import farm_of_one
from gf_i2p.node.recovery.farm_of_one import recover
from gf_i2p.node.recovery.new_term import TERM_LEAP
from gf_i2p.storage.errors import StorageError
from gf_i2p.storage.private_files import Lock
from gf_i2p.wire.endpoint import Endpoint
from tests.node.farm import NodeFarm
from tests.node.membership.test_server_changes import joins, sees


async def test_the_one_that_is_left_goes_on_with_all_it_had_and_takes_others_in_again(tmp_path: Path) -> None:
    async with NodeFarm(tmp_path) as farm:
        leader = await farm.calm()
        left = leader.driver.core.id
        index = await leader.driver.post([b"acknowledged"], seconds=10)
        for server in (1, 2, 3):
            await farm.stop(server)
        recover(farm.path(left))
        alone = await farm.start(left)
        await farm.leader()
        await sees(alone, left)
        (entry,) = alone.driver.core.log.slice(index, index, max_entries=1, max_bytes=1 << 20)
        assert entry.value == b"acknowledged"
        await alone.driver.post([b"later"], seconds=10)
        again = next(server for server in (1, 2, 3) if server != left)
        farm.path(again).rename(tmp_path / "old")
        new = await joins(farm, again)
        await sees(new, left, again)


async def test_the_log_is_backed_up_as_it_was(tmp_path: Path) -> None:
    async with NodeFarm(tmp_path) as farm:
        leader = await farm.calm()
        await leader.driver.post([b"x"], seconds=10)
        for server in (1, 2, 3):
            await farm.stop(server)
        before = read_stopped_log(farm.path(1))
        content = (farm.path(1) / DATABASE_FILE).read_bytes()
        done = recover(farm.path(1))
        assert (done.backup / DATABASE_FILE).read_bytes() == content
        assert done.backup.stat().st_mode & 0o077 == 0
        assert done.index == before.last_index + 1
        assert done.term >= before.term + TERM_LEAP
        assert "server-2" in (done.backup / "secrets.toml").read_text()
        assert set(Secrets.load(farm.path(1)).users) == {"server-1", "client-test", "admin-test"}
        assert [server.id for server in read_stopped_log(farm.path(1)).servers] == [1]


async def test_a_running_node_is_not_touched(tmp_path: Path) -> None:
    async with NodeFarm(tmp_path, servers=1) as farm:
        await farm.leader()
        with pytest.raises(StorageError, match="in use"):
            recover(farm.path(1))


async def test_one_that_was_removed_is_no_farm(tmp_path: Path) -> None:
    async with NodeFarm(tmp_path, servers=1) as farm:
        await farm.leader()
        new = await joins(farm, 2)
        await sees(new, 1, 2)
        await farm.stop(2)
        recover(farm.path(2))
        assert [server.id for server in read_stopped_log(farm.path(2)).servers] == [2]
        await farm.stop(1)
        path = farm.path(1) / "gf-i2p.toml"
        path.write_text(path.read_text().replace("id = 1 ", "id = 9 ", 1))
        with pytest.raises((ConfigError, StorageError)):
            recover(farm.path(1))


def test_twice_in_one_second_and_under_the_logs_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_farm(tmp_path, {1: Endpoint("127.0.0.1", 4001)}, cluster="farm", profile="lan", clients=[])
    database = tmp_path / "server-1" / DATABASE_FILE
    monkeypatch.setattr(farm_of_one, "time", SimpleNamespace(strftime=lambda *_: "now", gmtime=lambda: None))
    real = shutil.copy2

    def copies(*paths: Path) -> None:
        with pytest.raises(StorageError, match="in use"):
            Lock(database)
        real(*paths)

    monkeypatch.setattr(farm_of_one, "shutil", SimpleNamespace(copy2=copies))
    first, second = recover(tmp_path / "server-1"), recover(tmp_path / "server-1")
    assert [done.backup.name for done in (first, second)] == [
        f"{DATABASE_FILE}-before-recovery-now",
        f"{DATABASE_FILE}-before-recovery-now-2",
    ]
    assert read_stopped_log(tmp_path / "server-1").last_index == second.index
