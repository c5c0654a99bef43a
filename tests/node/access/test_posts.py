"""The way of a post through the checks: rights come before content, and a large post stops nothing."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from gf_i2p.farm import strict_json
from gf_i2p.farm.record.status_record import MAX_RECORD_BYTES
from gf_i2p.node.access import posts
from gf_i2p.node.access.budgets import Limits
from gf_i2p.node.access.refusals import Refusal
from gf_i2p.node.access.rights import RECORDS_AT_ONCE
from gf_i2p.node.access.roles import User
from gf_i2p.node.files.client_file import ClientFile
from gf_i2p.node.status.node_status import status
from gf_i2p.wire.entries import Entry, ValueType
from gf_i2p.wire.errors import NotCommittedError
from gf_i2p.wire.messages import MessageType, Request
from tests.farm.strategies import leaf, record
from tests.node.farm import NodeFarm
from tests.node.test_node import ask


def post(*values: bytes) -> Request:
    return Request(
        MessageType.CLIENT_REQUEST, 0, 0, 0, 0, 0, 0, tuple(Entry(0, ValueType.APPLICATION, each) for each in values)
    )


def crafted() -> bytes:
    """Make a value that is slow to decode, and no entry of the farm."""
    return json.dumps({"up": [0] * (MAX_RECORD_BYTES // 3 - 10)}, separators=(", ", ":")).encode()


class Decoded:
    """The values that are decoded while the test runs, in order."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.values: list[bytes] = []
        self._decode = strict_json._decode
        monkeypatch.setattr(strict_json, "_decode", self)

    def __call__(self, data: bytes) -> dict[str, Any]:
        self.values.append(data)
        return self._decode(data)


async def test_a_follower_names_the_leader_and_reads_no_value(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with NodeFarm(tmp_path) as farm:
        leader, follower = (await farm.calm()).driver.core, (await farm.follower()).driver.core
        file = ClientFile.load(tmp_path / "client-test.toml")
        decoded = Decoded(monkeypatch)
        forged = record(leader.id, leaf(1)).encode()
        answer = await ask(farm, follower.id, file.login, post(forged, crafted()))
        assert answer is not None
        assert (answer.accepted, answer.source, answer.destination) == (False, follower.id, leader.id)
        assert decoded.values == []
        assert await ask(farm, leader.id, file.login, post(forged)) is None


async def test_a_leaf_members_rate_counts_before_its_value(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with NodeFarm(tmp_path, servers=1) as farm:
        node = await farm.leader()
        monkeypatch.setattr(node.rights, "_clock", lambda: 1000.0)
        user = User(f"leaf-{2**31}")
        decoded = Decoded(monkeypatch)
        answers: list[object] = []
        for _ in range(RECORDS_AT_ONCE + 3):
            node.posts.take(user, post(b'{"up":[]}'), answers.append)
        assert answers[:RECORDS_AT_ONCE] == [None] * RECORDS_AT_ONCE
        assert all(answer is not None for answer in answers[RECORDS_AT_ONCE:])
        assert len(decoded.values) == RECORDS_AT_ONCE


class Turns:
    """How much of each thing happened in one turn of the event loop, at most."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.most = 0
        self._now = 0
        self._loop = asyncio.get_running_loop()
        decode = strict_json._decode

        def count(data: bytes) -> dict[str, Any]:
            if not self._now:
                self._loop.call_soon(self._end)
            self._now += 1
            self.most = max(self.most, self._now)
            return decode(data)

        monkeypatch.setattr(strict_json, "_decode", count)

    def _end(self) -> None:
        self._now = 0


async def test_a_large_post_is_checked_and_applied_in_slices_and_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(posts, "SLICE_SECONDS", 0.0)
    monkeypatch.setattr("gf_i2p.node.view.SLICE_SECONDS", 0.0)
    async with NodeFarm(tmp_path, servers=1) as farm:
        node = await farm.leader()
        turns = Turns(monkeypatch)
        user, other = User("client-test"), User("client-other")
        large = [crafted()] * 8
        answered: list[str] = []
        node.posts.take(user, post(*large), lambda _: answered.append("large"))
        node.posts.take(user, post(b"small"), lambda _: answered.append("small"))
        node.posts.take(other, post(b"of another"), lambda _: answered.append("of another"))
        await node.farm_tasks.view.reaches(node.driver.core.log.last_index + len(large) + 2)
        assert answered == ["of another", "large", "small"]
        assert farm.values(1) == [b"of another", *large, b"small"]
        assert turns.most == 1


async def test_a_forged_value_at_the_end_of_a_large_post_is_found(tmp_path: Path) -> None:
    async with NodeFarm(tmp_path, servers=1) as farm:
        node = await farm.leader()
        before = node.driver.core.log.last_index
        answer = asyncio.get_running_loop().create_future()
        values = [crafted()] * 8 + [record(1, leaf(1)).encode()]
        node.posts.take(User("client-test"), post(*values), answer.set_result)
        assert await answer is None
        assert node.driver.core.log.last_index == before


async def test_a_node_that_stops_answers_no_post_that_waits(tmp_path: Path) -> None:
    async with NodeFarm(tmp_path, servers=1) as farm:
        node = await farm.leader()
        answers: list[object] = []
        for _ in range(2):
            node.posts.take(User("client-test"), post(*[crafted()] * 100), answers.append)
        await node.posts.stop()
        assert answers == [None, None]


async def test_a_client_over_its_limit_is_told_and_counted_and_the_others_go_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with NodeFarm(tmp_path, servers=1) as farm:
        node = await farm.leader()
        node.budgets.limits = Limits(client_rate=1 << 10, server_rate=1 << 10, burst=1 << 10, in_flight=1 << 20)
        async with farm.client() as client:
            assert await client.post([b"x" * (1 << 20)], timeout=10)
            with pytest.raises(NotCommittedError, match=r"posts more than \[limits\] there allows: post less"):
                await client.post([b"one more"], timeout=1)
        assert await node.driver.post([b"the server's own"], seconds=10)
        admin = ClientFile.load(tmp_path / "admin-test.toml")
        async with admin.open() as client:
            assert await client.post([b"another user's"], timeout=10)
        answer = status(node, 0.0)["posts"]
        assert answer["refused"]["budget"] == node.refusals.counts[Refusal.BUDGET] > 0
        assert answer["in_flight"] == {}
        assert answer["client_bytes_per_second"] == 1 << 10
        printed = capsys.readouterr().out
        assert "client-test posts more than 1 KiB per second: post less, or raise client_kib_per_second" in printed
        assert b"one more" not in farm.values(1)
