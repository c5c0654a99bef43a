"""The disk budget of log and history."""

from pathlib import Path

import pytest

from gf_i2p.farm.admin_entries import AdminEntry
from gf_i2p.node import disk_use
from gf_i2p.node.access.refusals import Refusal
from gf_i2p.node.disk_use import measure
from gf_i2p.node.files.checked_read import ConfigError
from gf_i2p.node.files.client_file import ClientFile
from gf_i2p.node.files.config import LOG_MIB, Config, HistoryTable
from gf_i2p.node.files.file_names import CONFIG_FILE, HISTORY_DIRECTORY
from gf_i2p.node.status.node_status import status
from gf_i2p.wire.errors import NotCommittedError
from integration.harness.local_farm import becomes
from tests.farm.strategies import leaf, record
from tests.node.farm import NodeFarm


async def test_over_the_budget_clients_are_refused_and_the_farm_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(disk_use, "CHECK_SECONDS", 0.01)
    async with NodeFarm(tmp_path, servers=1) as farm:
        node = await farm.leader()
        filler = farm.path(1) / HISTORY_DIRECTORY / "filler"
        node.disk.budget = 64 << 20
        async with farm.client() as client:
            assert await client.post([b"there is room"], timeout=10)
            filler.touch()
            with filler.open("r+b") as file:
                file.truncate(64 << 20)
            await becomes("full", lambda: node.disk.full is not None)
            with pytest.raises(NotCommittedError, match="its queue or disk is full"):
                await client.post([b"no room"], timeout=0.5)
            assert node.refusals.counts[Refusal.DISK] > 0
            shown = status(node, 0.0)["disk"]
            assert shown["used"] >= shown["budget"] == 64 << 20
            assert "move packed files out of history/" in shown["full"]

            own = record(1, leaf(1)).encode()
            assert await node.objection_to(None, [own]) is None
            assert await node.objection_to(None, [b"data of an application"]) == shown["full"]
            assert await node.driver.post([own], seconds=10)
            async with ClientFile.load(tmp_path / "admin-test.toml").open() as admin:
                assert await admin.post([AdminEntry("farm", 5, "admin-test", "release").encode()], timeout=10)

            filler.unlink()
            await becomes("room", lambda: node.disk.full is None)
            assert await client.post([b"there is room again"], timeout=10)
        assert b"no room" not in farm.values(1)
        printed = capsys.readouterr().out
        assert printed.count("the disk budget is used up, the farm goes on") == 1
        assert printed.count("there is room in the disk budget again") == 1


def test_the_logs_companions_count_and_what_is_not_there_does_not(tmp_path: Path) -> None:
    database, history = tmp_path / "log", tmp_path / "history"
    assert measure(database, history) == 0
    history.mkdir()
    for number, path in enumerate(
        (database, tmp_path / "log-wal", tmp_path / "log-shm", history / "a", tmp_path / "b")
    ):
        path.write_bytes(bytes(10**number))
    assert measure(database, history) == 1111


def test_the_operator_chooses_what_happens_at_the_limit(tmp_path: Path) -> None:
    assert HistoryTable().rotation.keep_bytes == 0
    assert HistoryTable(max_mib=0, when_full="remove").rotation.keep_bytes == 0
    assert HistoryTable(max_mib=4096, when_full="remove").rotation.keep_bytes == (4096 - LOG_MIB) << 20
    farm = NodeFarm(tmp_path, servers=1)
    path = farm.path(1) / CONFIG_FILE
    path.write_text(path.read_text().replace("max_mib = 16384", "max_mib = 100"))
    with pytest.raises(ConfigError, match=r"history\.max_mib: the log alone needs up to 512 MiB: give 1024 at least"):
        Config.load(farm.path(1))
