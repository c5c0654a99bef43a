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
from tests.cli.file_systems import FileSystem


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
    assert "MiB are free for the history; when the disk is full, the history pauses, and the node stops" in result.text


@pytest.mark.parametrize("running", [False, True])
async def test_a_full_disk_is_a_fault(node: Path, monkeypatch: pytest.MonkeyPatch, running: bool) -> None:
    exported(node)
    FileSystem(monkeypatch, f_bfree=0, f_bavail=0)
    result = await look(node, status(7, 7) if running else None)
    assert (result.state, result.text) == (
        CheckState.FAIL,
        "the disk is full: the history pauses, and the node stops as soon as its log needs more room",
    )
    assert result.remedy is not None
    assert "Make room" in result.remedy.i2pd


async def test_the_blocks_that_only_root_may_use_are_not_free_for_others(
    node: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    exported(node)
    FileSystem(monkeypatch, f_bavail=0)
    monkeypatch.setattr(module, "_owner", lambda _: 0)
    assert (await look(node)).state is CheckState.OK, "root may use them"
    monkeypatch.setattr(module, "_owner", lambda _: 1000)
    assert (await look(node)).state is CheckState.FAIL


FULL = "the disk under history is full: free some space. The history then goes on by itself"


@pytest.mark.parametrize(
    ("paused", "free", "text"),
    [
        (True, 0, "the history is paused, and 0 MiB are free: the node stops as soon as its log needs more room"),
        (True, 1 << 40, "the history is paused, and the node goes on"),
        (False, 1 << 40, "the history goes on with a fault"),
    ],
)
async def test_a_node_that_tells_of_trouble(
    node: Path, monkeypatch: pytest.MonkeyPatch, paused: bool, free: int, text: str
) -> None:
    exported(node)
    FileSystem(monkeypatch, f_frsize=1, f_bfree=free, f_bavail=free)
    result = await look(node, {"history": {"exported": 7, "lag": 0, "paused": paused, "trouble": FULL}})
    assert (result.state, result.text) == (CheckState.FAIL, text)
    assert result.remedy is not None
    assert result.remedy.i2pd == "T" + FULL[1:]
