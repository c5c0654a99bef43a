"""Keys that end, and key files that are replaced while a node runs."""

import asyncio
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog.testing

from gf_i2p.netdb.private_keys import DestinationKeys
from gf_i2p.node.files.file_names import MASTER_FILE
from gf_i2p.node.publish import keys_watch
from gf_i2p.node.publish.keys_watch import KeysWatch
from gf_i2p.node.publish.publishing_keys import HANDOVER_SECONDS, PublishingKeys, Stage
from gf_i2p.node.status.node_status import status
from integration.harness.local_farm import becomes
from tests.netdb.strategies import KEYS, NOW
from tests.node.farm import NodeFarm
from tests.node.routers import FakeBridge

DAY = 86_400


class Watched:
    def __init__(self, path: Path, keys: PublishingKeys) -> None:
        self.path = path
        self.now = float(NOW)
        self.put(keys.encode())
        self.watch = KeysWatch(keys, path, router="i2pd", server=1, clock=lambda: self.now)
        self.logs: list[Any] = []

    def put(self, data: bytes, mode: int = 0o600) -> None:
        """Replace the file in the right way: a new file takes the name of the old one."""
        new = self.path.with_suffix(".new")
        new.touch(mode=mode)
        new.write_bytes(data)
        new.rename(self.path)

    def check(self) -> str | None:
        self.watch.check()
        return self.watch.trouble


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[Watched]:
    made = Watched(tmp_path / "keys", PublishingKeys.delegate(KEYS, NOW + 90 * DAY, NOW, server=1))
    with structlog.testing.capture_logs() as made.logs:
        yield made


def test_their_end_is_told_in_time_and_once_a_day(watched: Watched) -> None:
    assert watched.check() is None
    watched.now = NOW + 77 * DAY
    for _ in range(3):
        assert "end soon" in (watched.check() or "")
        watched.now += 60
    assert watched.watch.ended is None
    assert [entry["log_level"] for entry in watched.logs] == ["warning"] * 2, "13 and 12 days are left"
    watched.now = NOW + 90 * DAY - HANDOVER_SECONDS
    assert "gf-i2p keys delegate" in (watched.check() or "")
    assert watched.watch.trouble == watched.watch.ended
    assert watched.watch.stage is Stage.ENDED


def test_their_end_is_told_once_an_hour_in_the_last_days(watched: Watched) -> None:
    for start in (NOW + 89 * DAY - 3600, NOW + 90 * DAY - HANDOVER_SECONDS - 3600):
        watched.logs.clear()
        for second in range(0, 3600, 10):
            watched.now = start + second
            watched.check()
        assert 1 <= len(watched.logs) <= 2, watched.logs


def test_a_file_that_was_replaced_is_taken_over(watched: Watched) -> None:
    before = watched.watch.keys
    watched.now = NOW + 90 * DAY
    assert watched.check() is not None
    new = PublishingKeys.delegate(KEYS, NOW + 180 * DAY, int(watched.now), server=1)
    watched.put(new.encode())
    assert watched.check() is None
    assert watched.watch.keys.encode() == new.encode()
    assert watched.watch.ended is None
    assert [entry["event"] for entry in watched.logs].count("new keys for publishing") == 1
    watched.path.write_bytes(before.encode())  # a write into the same file, too
    assert watched.check() is not None
    assert watched.watch.keys.encode() == before.encode()


def test_a_file_that_cannot_be_used_leaves_the_keys_as_they_were(watched: Watched) -> None:
    before = watched.watch.keys
    new = PublishingKeys.delegate(KEYS, NOW + 180 * DAY, NOW, server=1)
    for data, mode, why in [
        (new.encode()[:-100], 0o600, "is neither a private key file"),
        (b"root:x:0:0:root:/root:/bin/bash\n", 0o644, "is neither a private key file"),
        (new.encode(), 0o644, f"chmod 600 {watched.path}. This node goes on with the keys"),
        (PublishingKeys(DestinationKeys.generate()).encode(), 0o600, "restart it to change the master"),
    ]:
        watched.put(data, mode)
        assert why in (watched.check() or "")
        assert watched.watch.keys is before
    watched.path.unlink()
    assert "cannot be read: No such file or directory. This node goes on with the keys" in (watched.check() or "")
    assert "No such file" in watched.logs[-1]["reason"], "the log says so, too"
    assert watched.watch.keys is before
    watched.put(new.encode(), 0o644)
    assert "chmod 600" in (watched.check() or "")
    watched.path.chmod(0o600)
    assert watched.check() is None
    assert watched.watch.keys.encode() == new.encode()


@pytest.mark.timeout(20)
async def test_a_pipe_in_the_place_of_the_file_holds_up_nothing(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keys_watch, "CHECK_SECONDS", 0.01)
    before = watched.watch.keys
    watched.path.unlink()
    os.mkfifo(watched.path, 0o600)
    task = asyncio.ensure_future(watched.watch.run())
    await becomes("told", lambda: "is a pipe or a device" in (watched.watch.trouble or ""))
    assert watched.watch.keys is before
    watched.put(before.encode())
    await becomes("well", lambda: watched.watch.trouble is None)
    task.cancel()
    await asyncio.wait([task])


def test_keys_that_fit_badly(watched: Watched) -> None:
    watched.put(PublishingKeys.delegate(KEYS, NOW + 90 * DAY, NOW, server=2).encode())
    assert "made for server 2, and this is server 1" in (watched.check() or "")
    watched.put(KEYS.delegate(NOW + 90 * DAY).encode())
    assert "i2pd opens a session only for the master's own key" in (watched.check() or "")
    watched.put(KEYS.encode())
    assert watched.check() is None
    assert watched.watch.stage is Stage.LASTING


def test_nothing_secret_is_logged(watched: Watched) -> None:
    watched.now = NOW + 89 * DAY
    watched.check()
    watched.put(PublishingKeys.delegate(KEYS, NOW + 180 * DAY, NOW, server=1).encode())
    watched.check()
    watched.put(watched.watch.keys.encode()[:-30])
    watched.check()
    assert len(watched.logs) == 3
    for keys in (watched.watch.keys.keys, KEYS):
        assert keys.base64[-44:] not in repr(watched.logs)
        assert keys.key.private.hex() not in repr(watched.logs)


async def test_a_node_takes_new_keys_over_and_its_status_says_until_when(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keys_watch, "CHECK_SECONDS", 0.02)
    master, now = DestinationKeys.generate(), int(time.time())
    farm = NodeFarm(tmp_path, servers=1, bridges={1: FakeBridge(leaf=1)}, keys=master)
    path = farm.path(1) / MASTER_FILE
    async with farm:
        node = await farm.leader()
        assert status(node, 0.0)["farm"]["keys"] == {
            "master": master.destination.b32,
            "delegated": False,
            "made": None,
            "ends": None,
            "stage": "lasting",
        }
        new = PublishingKeys.delegate(master, now + 4 * DAY, now - 15 * DAY, server=1)
        path.write_bytes(new.encode())
        await becomes("taken over", lambda: status(node, 0.0)["farm"]["keys"]["ends"] == now + 4 * DAY)
        farm_says = status(node, 0.0)["farm"]
        assert (farm_says["keys"]["stage"], farm_says["keys"]["made"]) == ("ending", now - 15 * DAY)
        assert any("end soon" in trouble for trouble in farm_says["trouble"])
