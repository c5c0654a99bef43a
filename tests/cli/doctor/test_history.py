"""Findings of `gf-i2p doctor` about the history."""

from pathlib import Path
from typing import Any

import pytest

from gf_i2p.cli.doctor import history as module
from gf_i2p.cli.doctor.checks import CheckResult, CheckState
from gf_i2p.cli.doctor.history import MOST_BEHIND, look_at_history
from gf_i2p.node.files.config import Config
from gf_i2p.node.files.farm_setup import make_farm
from gf_i2p.node.files.file_names import HISTORY_DIRECTORY
from gf_i2p.storage.history_writer import History, Rotation
from gf_i2p.wire.endpoint import Endpoint
from gf_i2p.wire.entries import Entry, ValueType


@pytest.fixture
def node(tmp_path: Path) -> Path:
    make_farm(tmp_path, {1: Endpoint("127.0.0.1", 9001)}, cluster="farm", profile="lan", clients=[])
    return tmp_path / "server-1"


def status(exported: int, applied: int) -> dict[str, Any]:
    return {"history": {"exported": exported, "lag": applied - exported}}


def exported(node: Path, *, server_id: int = 1) -> Path:
    directory = node / HISTORY_DIRECTORY
    directory.mkdir(mode=0o700)
    history = History.open(directory, cluster="farm", server_id=server_id, rotation=Rotation(), clock=lambda: 0)
    history.append([Entry(1, ValueType.APPLICATION, b"it")])
    history.close()
    return directory


async def look(node: Path, status: dict[str, Any] | None = None) -> CheckResult:
    return await look_at_history(node, Config.load(node), status)


async def test_one_that_keeps_up(node: Path) -> None:
    exported(node)
    assert (await look(node)).text == "1 files from entry 1 on"
    result = await look(node, status(7, 7 + MOST_BEHIND))
    assert (result.state, result.text) == (CheckState.OK, "1 files from entry 1 on, exported up to 7")


async def test_a_budget_that_is_nearly_used_up(node: Path) -> None:
    exported(node)
    use = {"used": 700 << 20, "budget": 1 << 30, "full": None}
    result = await look(node, {**status(7, 7), "disk": use})
    assert result.state is CheckState.OK
    assert "log and history use 700 of 1024 MiB" in result.text
    result = await look(node, {**status(7, 7), "disk": {**use, "used": 900 << 20}})
    assert (result.state, result.text) == (
        CheckState.WARN,
        "log and history use 900 of 1024 MiB; at the limit, clients' posts are refused",
    )


async def test_one_that_falls_behind(node: Path) -> None:
    exported(node)
    result = await look(node, status(7, 8 + MOST_BEHIND))
    assert result.state is CheckState.WARN
    assert result.text.startswith(f"{MOST_BEHIND + 1} committed entries are not exported yet")


async def test_a_node_without_one(node: Path) -> None:
    assert (await look(node)).state is CheckState.OK
    assert (await look(node, status(0, 0))).state is CheckState.FAIL


async def test_another_servers(node: Path) -> None:
    exported(node, server_id=2)
    result = await look(node)
    assert result.state is CheckState.FAIL
    assert "server 2" in result.text


async def test_one_that_others_can_read(node: Path) -> None:
    directory = exported(node)
    next(directory.iterdir()).chmod(0o644)
    result = await look(node)
    assert result.state is CheckState.FAIL
    assert result.remedy is not None
    assert result.remedy.i2pd == f"chmod -R go= {directory}"


async def test_a_disk_that_gets_full(node: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    exported(node)
    monkeypatch.setattr(module, "LEAST_FREE_BYTES", 1 << 60)
    result = await look(node)
    assert result.state is CheckState.WARN
    assert "MiB are free for the history" in result.text
