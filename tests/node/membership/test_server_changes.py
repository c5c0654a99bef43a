"""Servers join and leave a farm of real nodes, on loopback by TLS."""

import asyncio
import itertools
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from gf_i2p.node.files.config import Config, Secrets
from gf_i2p.node.membership import joining, removal_check
from gf_i2p.node.membership.invitation import accept, invite
from gf_i2p.node.node import Node
from gf_i2p.node.status.node_status import membership
from gf_i2p.wire.endpoint import Endpoint
from gf_i2p.wire.entries import Entry, ValueType
from gf_i2p.wire.log_values import encode_server_id
from gf_i2p.wire.messages import NOBODY, MessageType, Request, Response
from integration.harness.local_farm import until
from integration.harness.processes import free_ports
from tests.node.farm import NodeFarm


def ids(node: Node) -> list[int]:
    return [server.id for server in node.driver.core.configuration.servers]


async def sees(node: Node, *members: int) -> None:
    """Wait until this node knows exactly these committed members."""

    async def committed() -> bool:
        core = node.driver.core
        return sorted(ids(node)) == sorted(members) and core.configuration.log_index <= core.commit

    await until(f"members {members}", 30, committed)


async def joins(farm: NodeFarm, server: int) -> Node:
    """Invite a server, introduce the server to all others, and start the server."""
    existing = next(iter(farm.nodes))
    written = invite(farm.path(existing), farm.directory, server, Endpoint("127.0.0.1", free_ports(1)[0]))
    for number, node in farm.nodes.items():
        accept(farm.path(number), written.accept)
        assert node.reload(Config.load(farm.path(number)), Secrets.load(farm.path(number))) == []
    return await farm.start(server)


async def removes(leader: Node, server: int) -> bool:
    request = Request(
        MessageType.REMOVE_SERVER_REQUEST,
        NOBODY,
        NOBODY,
        0,
        0,
        0,
        0,
        (Entry(0, ValueType.CLUSTER_SERVER, encode_server_id(server)),),
    )
    response = await leader.driver.change_servers(request, seconds=10)
    return response is not None and response.accepted


async def test_a_new_server_asks_as_soon_as_it_has_found_the_leader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(joining, "AGAIN_SECONDS", 3600.0)
    async with NodeFarm(tmp_path, servers=2) as farm:
        await farm.calm()
        new = await joins(farm, 3)  # the new server has no connection yet
        await sees(new, 1, 2, 3)


async def test_a_farm_grows_and_shrinks_while_it_is_written_to(tmp_path: Path) -> None:
    async with NodeFarm(tmp_path, servers=2) as farm:
        first = await farm.calm()
        for number in range(20):
            await first.driver.post([b"%d" % number], seconds=10)
        for server in (3, 4):
            node = await joins(farm, server)
            await sees(node, *range(1, server + 1))
            assert membership(node.driver.core) == "member"
            await node.driver.post([b"of %d" % server], seconds=10)
        leader = await farm.leader()
        await until("a change can begin", 20, lambda: _is(leader.driver.core.change_obstacle is None))
        farm.lively()
        assert await removes(leader, leader.driver.core.id)
        others = [node for node in farm.nodes.values() if node is not leader]
        for node in others:
            await sees(node, *(other.driver.core.id for other in others))
        await until("the one that left knows it", 20, lambda: _is(membership(leader.driver.core) == "removed"))
        await others[0].driver.post([b"without it"], seconds=20)
        await until("nobody dials it any more", 20, lambda: _is(all(len(node.links) == 2 for node in others)))
        log = others[0].driver.core.log

        def values() -> list[bytes]:
            return [e.value for e in log.slice(1, log.last_index, max_entries=1000, max_bytes=1 << 20)]

        # A follower passes the leader's answer on, and may have the entry only after that.
        await until("it has what it posted", 20, lambda: _is(b"without it" in values()))
        assert [value for value in values() if value.isdigit()] == [b"%d" % number for number in range(20)]
        assert {b"of 3", b"of 4"} <= set(values())


async def test_a_server_that_is_away_when_it_is_removed_comes_back_learns_it(tmp_path: Path) -> None:
    async with NodeFarm(tmp_path) as farm:
        leader = await farm.calm()
        gone = next(server for server in farm.nodes if server != leader.driver.core.id)
        await farm.stop(gone)
        await until("a change can begin", 20, lambda: _is(leader.driver.core.change_obstacle is None))
        assert await removes(leader, gone)
        await sees(leader, *(server for server in (1, 2, 3) if server != gone))
        term = leader.driver.core.term
        back = await farm.start(gone, calm=False)
        await until("it knows that it is out", 20, lambda: _is(membership(back.driver.core) == "removed"))
        for number in range(5):
            await leader.driver.post([b"%d" % number], seconds=10)
        assert leader.driver.core.is_leader
        assert leader.driver.core.term == term


async def test_time_outs_that_adapt_follow_the_servers_that_there_are(tmp_path: Path) -> None:
    """Found by a reviewer: removed servers counted as silent, and a farm that had shrunk waited for half a minute."""
    async with NodeFarm(tmp_path, servers=4, profile="auto") as farm:
        leader = await farm.leader()
        others = [server for server in farm.nodes if server != leader.driver.core.id]
        for gone in others[:2]:
            await until("a change can begin", 20, lambda: _is(leader.driver.core.change_obstacle is None))
            assert await removes(leader, gone)
        await sees(leader, leader.driver.core.id, others[2])
        silences, began = leader.driver.timeouts.silences, time.monotonic()
        heard = silences.count
        await until("its follower answers", 60, lambda: _is(silences.count > heard + 50))
        assert leader.driver.core.is_leader
        assert silences.worst < (time.monotonic() - began) / 2, "those that are gone have been silent for all of it"


async def test_a_server_that_has_left_and_is_started_again_learns_that_it_is_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server's log holds the removal without the commit, and nobody sends to this server any more."""
    monkeypatch.setattr(removal_check, "CHECK_SECONDS", 0.1)
    async with NodeFarm(tmp_path) as farm:
        leader = await farm.calm()
        gone = next(server for server in farm.nodes if server != leader.driver.core.id)
        await until("a change can begin", 20, lambda: _is(leader.driver.core.change_obstacle is None))
        assert await removes(leader, gone)
        await until("it knows", 20, lambda: _is(membership(farm.nodes[gone].driver.core) == "removed"))
        await farm.stop(gone)
        back = await farm.start(gone)
        assert membership(back.driver.core) == "leaving"
        await until("it was told", 20, lambda: _is(back.removal_check.removal is not None))


async def test_a_new_server_that_the_leader_does_not_reach_asks_ever_more_seldom(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the server would be in the queue again at once, and no other change could ever begin."""
    monkeypatch.setattr(joining, "AGAIN_SECONDS", 0.2)
    async with NodeFarm(tmp_path, servers=1) as farm:
        first = await farm.leader()
        asked: list[float] = []
        incoming = first.driver.incoming

        def noted(request: Request, done: Callable[[Response | None], None]) -> None:
            if request.type is MessageType.ADD_SERVER_REQUEST and first.driver.core.change_obstacle is None:
                asked.append(asyncio.get_running_loop().time())
            incoming(request, done)

        monkeypatch.setattr(first.driver, "incoming", noted)
        written = invite(farm.path(1), farm.directory, 2, Endpoint("127.0.0.1", free_ports(1)[0]))
        wrong = written.accept.read_text()
        digits = wrong.split("sha256:")[1][:8]
        written.accept.write_text(wrong.replace(digits, "".join("0" if digit != "0" else "1" for digit in digits)))
        accept(farm.path(1), written.accept)
        assert first.reload(Config.load(farm.path(1)), Secrets.load(farm.path(1))) == []
        await farm.start(2)
        await until("it was taken in, and given up, five times", 60, lambda: _is(len(asked) == 5))
        pauses = [
            round(later - earlier, 3) for earlier, later in itertools.pairwise(asked)
        ]  # uvloop counts milliseconds
        assert pauses[3] >= 8 * joining.AGAIN_SECONDS


async def test_one_that_was_never_accepted_does_not_get_in(tmp_path: Path) -> None:
    async with NodeFarm(tmp_path, servers=1) as farm:
        first = await farm.leader()
        invite(farm.path(1), farm.directory, 2, Endpoint("127.0.0.1", free_ports(1)[0]))
        stranger = await farm.start(2)
        await until("it was refused", 20, lambda: _is(stranger.links[1].last_error is not None))
        assert ids(first) == [1]
        assert membership(stranger.driver.core) == "joining"


async def _is(condition: bool) -> bool:
    return condition
