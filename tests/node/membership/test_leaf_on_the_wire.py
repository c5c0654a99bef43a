"""Leaf members and administrators, over real connections to a real farm."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from gf_i2p.farm.admin_entries import AdminEntry
from gf_i2p.farm.record.status_record import StatusRecord
from gf_i2p.node.access.rights import RECORDS_AT_ONCE
from gf_i2p.node.files.client_file import ClientFile
from gf_i2p.node.files.config import Secrets
from gf_i2p.node.files.leaf_file import LeafFile
from gf_i2p.node.membership import leaf_member
from gf_i2p.node.membership.leaf_invitation import accept, invite, remove
from gf_i2p.node.membership.leaf_member import LeafMember, LeafMemberReport
from gf_i2p.node.node import Node
from gf_i2p.transport.backoff import Backoff
from gf_i2p.wire.entries import Entry, ValueType
from gf_i2p.wire.messages import MessageType, Request
from integration.harness.local_farm import becomes
from tests.node.farm import NodeFarm
from tests.node.routers import FakeBridge
from tests.node.test_node import ask


def reload(farm: NodeFarm, node: Node, server: int) -> None:
    assert node.reload(node._config, Secrets.load(farm.path(server))) == []


def invited(farm: NodeFarm, directory: Path) -> LeafFile:
    """Invite a member; have the servers, running or not, accept the member."""
    made = invite(farm.path(1), directory)
    for server in farm.endpoints:
        accept(farm.path(server), made.accept)
        if server in farm.nodes:
            reload(farm, farm.nodes[server], server)
    return LeafFile.load(LeafFile.find(made.member))


def post(value: bytes) -> Request:
    return Request(MessageType.CLIENT_REQUEST, 0, 0, 0, 0, 0, 0, (Entry(0, ValueType.APPLICATION, value),))


@asynccontextmanager
async def running(file: LeafFile, bridge: FakeBridge, interval: float) -> AsyncIterator[LeafMemberReport]:
    async with file.open() as client:
        member = LeafMember(
            file.id,
            file.cluster,
            client,
            bridge,
            look_seconds=0.02,
            tell=lambda _: None,
            interval=interval,
            pause=Backoff(floor=0.01, ceiling=0.1),
        )
        task = asyncio.ensure_future(member.run())
        try:
            yield member.report
        finally:
            task.cancel()
            await asyncio.wait([task])


async def test_a_members_record_gets_to_every_server_whoever_leads(tmp_path: Path) -> None:
    async with NodeFarm(tmp_path) as farm:
        leader = await farm.leader()
        file = invited(farm, tmp_path / "new")
        bridge = FakeBridge(leaf=1)

        def known(*, up: bool) -> bool:
            values = [StatusRecord.parse(value) for value in farm.values(leader.driver.core.id) if b'"up"' in value]
            return any(each.id == file.id and [leaf.up for leaf in each.leaves] == [up] for each in values)

        async with running(file, bridge, 1000.0) as report:
            await becomes("in the log", lambda: known(up=True))
            await becomes("heard of", lambda: report.index is not None)
            assert report.error is None
            await farm.stop(leader.driver.core.id)
            leader = await farm.leader()
            bridge.leaf_up = False
            await becomes("in the log of the next leader", lambda: known(up=False))
            await farm.equal()


async def test_a_member_posts_for_nobody_else(tmp_path: Path) -> None:
    async with NodeFarm(tmp_path, servers=1) as farm:
        await farm.leader()
        file = invited(farm, tmp_path / "new")
        record = StatusRecord("farm", 5, file.id, router_up=True).encode()
        for value in (StatusRecord("farm", 5, 1, router_up=True).encode(), b"hello"):
            assert await ask(farm, 1, file.login, post(value)) is None
        client = ClientFile.load(tmp_path / "client-test.toml")
        assert await ask(farm, 1, client.login, post(record)) is None
        answer = await ask(farm, 1, file.login, post(record))
        assert answer is not None
        assert answer.accepted
        assert farm.values(1) == [record]


async def test_a_member_that_posts_too_often_is_refused_and_not_hung_up_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with NodeFarm(tmp_path, servers=1) as farm:
        monkeypatch.setattr((await farm.leader()).rights, "_clock", lambda: 1000.0)  # or one more may post by then
        file = invited(farm, tmp_path / "new")
        record = StatusRecord("farm", 5, file.id, router_up=True).encode()
        answers = [await ask(farm, 1, file.login, post(record)) for _ in range(RECORDS_AT_ONCE + 1)]
        assert [answer is not None and answer.accepted for answer in answers] == [True] * RECORDS_AT_ONCE + [False]
        assert answers[-1] is not None
        assert answers[-1].source == answers[-1].destination == 1, "the leader's own refusal"
        assert len(farm.values(1)) == RECORDS_AT_ONCE


async def test_a_member_that_is_removed_is_out_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leaf_member, "POST_SECONDS", 1.0)
    async with NodeFarm(tmp_path, servers=1) as farm:
        node = await farm.leader()
        file = invited(farm, tmp_path / "new")
        async with running(file, FakeBridge(leaf=1), 0.05) as report:
            await becomes("posted", lambda: report.index is not None)
            assert remove(farm.path(1), file.id)
            reload(farm, node, 1)
            await becomes("refused", lambda: report.error is not None)
            await becomes("hung up on", lambda: node.server.counters.current == 0)


async def test_what_an_administrator_says_is_said_in_its_own_name(tmp_path: Path) -> None:
    async with NodeFarm(tmp_path, servers=1) as farm:
        node = await farm.leader()
        file = ClientFile.load(tmp_path / "admin-test.toml")
        for by in ("admin-other", "server-1"):
            forged = AdminEntry("farm", 5, by, "release").encode()
            assert await ask(farm, 1, file.login, post(forged)) is None
        client = ClientFile.load(tmp_path / "client-test.toml")
        own = AdminEntry("farm", 5, "admin-test", "release").encode()
        assert await ask(farm, 1, client.login, post(own)) is None
        answer = await ask(farm, 1, file.login, post(own))
        assert answer is not None
        assert answer.accepted
        assert farm.values(1) == [own]
        assert await node.objection_to(None, [own]) is not None
        assert await node.objection_to(None, [AdminEntry("farm", 5, "server-1", "release").encode()]) is None
