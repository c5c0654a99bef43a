"""Scenarios with real JRaft servers. Each scenario is one farm, and raises an error when an expectation fails."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

from gf_i2p.raft.settings import Flow
from gf_i2p.wire.limits import MAX_VALUE_BYTES
from gf_i2p.wire.log_values import ClusterServer
from gf_i2p.wire.messages import MessageType
from integration.harness.processes import free_ports
from integration.jraft.jraft_server import JraftServer, endpoint
from integration.jraft.mixed_farm import PATIENT, TIMING, MixedFarm
from integration.jraft.plain_server import PlainServer

Scenario = Callable[[MixedFarm], Awaitable[None]]


async def short_log(farm: MixedFarm) -> None:
    """A JRaft server joins a young gf-i2p farm, whose short log needs no LogPack."""
    ours = await _alone(farm)
    await farm.post(ours, 2)
    jraft = farm.their(2)
    await farm.see("JRaft has elected itself", lambda: jraft.said("add initial configuration"))
    await farm.add(ours, jraft)
    await farm.see("it is a member", lambda: jraft.said("committed as one of cluster members"))
    await farm.post(ours, 3)
    await farm.all_have_everything()
    jraft.kill()
    farm.compare_logs(ours, jraft)


async def we_lead(farm: MixedFarm) -> None:
    """gf-i2p leads; JRaft joins by LogPacks, follows, is killed and restarted, votes, and is removed."""
    ports = free_ports(2)
    founders = [ClusterServer(i, endpoint(port)) for i, port in enumerate(ports, 1)]
    for server, port in zip(founders, ports, strict=True):
        await farm.our(server.id, founders, port=port)
    leader = await farm.our_leader([1, 2])
    await farm.post(leader, 100)
    jraft = farm.their(3, timing=PATIENT)
    await farm.see("JRaft has elected itself", lambda: jraft.said("add initial configuration"))
    await farm.add(leader, jraft)
    await farm.see("it is a member", lambda: jraft.said("committed as one of cluster members"))
    packs = leader.peers[3].sent[MessageType.SYNC_LOG_REQUEST]
    assert packs, "nothing was packed"
    await farm.post(leader, 100)
    await farm.all_have_everything()
    jraft.kill()
    await farm.post(leader, 100)
    farm.compare_logs(leader, jraft)
    jraft.start()
    await farm.all_have_everything()
    # Two of three servers remain: the winner needs JRaft's vote.
    await farm.stop_ours(leader.id)
    (other,) = farm.ours
    leader = await farm.our_leader([other])
    await farm.post(leader, 50)
    await farm.all_have_everything()
    await farm.our(3 - other, founders, port=ports[2 - other])
    await farm.post(leader, 50)
    await farm.all_have_everything()
    await farm.remove(leader, 3)
    await farm.see("JRaft was removed, and has ended", lambda: jraft.exit_status == 0)
    farm.compare_logs(leader, jraft)
    del farm.theirs[3]
    await farm.post(leader, 5)
    await farm.all_have_everything()


async def comes_again(farm: MixedFarm) -> None:
    """gf-i2p leads; JRaft joins, leaves, and joins again by the old id, which the log knows, with a new directory."""
    ours = await _alone(farm, Flow(append_entries=5))
    for posts in (20, 40):
        await farm.post(ours, posts)
        jraft = farm.their(2, timing=PATIENT)
        await farm.see("JRaft has elected itself", partial(jraft.said, "add initial configuration"))
        await farm.add(ours, jraft)
        await farm.see("it is a member", lambda: len(ours.driver.core.configuration.servers) == 2)
        await farm.post(ours, 20)
        await farm.all_have_everything()
        await farm.remove(ours, 2)
        await farm.see("JRaft was removed, and has ended", partial(_left, jraft))
        farm.compare_logs(ours, jraft)
        del farm.theirs[2]


async def interrupted(farm: MixedFarm) -> None:
    """A server is killed while joining, and restarted: first JRaft joins gf-i2p, then gf-i2p joins JRaft."""
    ours = await _alone(farm, Flow(append_entries=1))
    await farm.post(ours, 400, batch=50)
    jraft = farm.their(2)
    await farm.see("JRaft has elected itself", lambda: jraft.said("add initial configuration"))
    await farm.add(ours, jraft)
    await farm.see("JRaft has a part of the log", lambda: len(jraft.applied()[0]) > 30, poll=0.001)
    jraft.kill()
    assert len(ours.driver.core.configuration.servers) == 1, "it was too fast to be interrupted"
    jraft.start()
    await farm.see("it is a member", lambda: len(ours.driver.core.configuration.servers) == 2)
    await farm.post(ours, 20)
    await farm.all_have_everything()
    await farm.stop_ours(1)
    jraft.kill()
    del farm.theirs[2]
    farm.posted.clear()

    jraft = farm.their(3)
    await farm.jraft_leader([3])
    await farm.post(jraft, 800, batch=50)
    newcomer = await farm.our(4)
    await farm.add(jraft, newcomer)
    await farm.see("ours has a part of the log", lambda: newcomer.driver.core.log.last_index > 50, poll=0.001)
    await farm.stop_ours(4)
    newcomer = await farm.our(4, port=newcomer.port)
    assert not newcomer.driver.core.is_voter, "it was too fast to be interrupted"
    await farm.see("ours is a member", lambda: len(newcomer.driver.core.configuration.servers) == 2)
    await farm.post(jraft, 20)
    await farm.all_have_everything()


async def jraft_leads(farm: MixedFarm) -> None:
    """JRaft leads; gf-i2p joins, wins an election and leads JRaft; JRaft leads again, and gf-i2p is removed."""
    leader, ours = await _followed(farm, posts=100)
    await farm.post(leader, 100)
    await farm.post(ours, 10)  # the gf-i2p server hands the values on to the leader
    await farm.all_have_everything()
    leader.kill()
    await farm.our_leader([3])
    await farm.post(ours, 100)
    leader.start()
    await farm.all_have_everything()
    other = farm.theirs[3 - leader.id]
    other.kill()
    farm.compare_logs(ours, other)
    await farm.post(ours, 20)
    other.start()
    await farm.all_have_everything()
    port = ours.port
    await farm.stop_ours(3)
    leader = await farm.jraft_leader([1, 2])
    await farm.post(leader, 50)
    ours = await farm.our(3, port=port)
    await farm.all_have_everything()
    leader = await farm.jraft_leader([1, 2])  # the gf-i2p server may have stood for election meanwhile
    await farm.remove(leader, 3)
    await farm.see("ours was removed", lambda: not ours.driver.core.is_voter)
    # JRaft may not tell the removed server that the removal is committed. Still that server must not campaign.
    del farm.ours[3]
    try:
        began = farm.progress.seconds
        await farm.see("three time-outs have passed", lambda: farm.progress.seconds > began + 3 * TIMING.election_max)
        assert ours.driver.core.role == "follower", "who was removed stands for election"
    finally:
        await ours.stop()
    await farm.post(leader, 5)
    await farm.all_have_everything()


async def our_snapshots(farm: MixedFarm) -> None:
    """gf-i2p leads without the log's beginning: JRaft joins by a snapshot, and gets another one after an absence."""
    ours = await _alone(farm, Flow(append_entries=50, snapshot_bytes=4096))
    await farm.post(ours, 300, size=200)
    ours.keep_snapshot(keep=20)
    await farm.see("the log's beginning is dropped", lambda: ours.driver.core.log.base > 200)
    jraft = farm.their(2, timing=PATIENT)
    await farm.see("JRaft has elected itself", lambda: jraft.said("add initial configuration"))
    await farm.add(ours, jraft)
    await farm.see("it is a member", lambda: jraft.said("committed as one of cluster members"))
    await farm.post(ours, 50)
    await farm.all_have_everything()
    first = jraft.applied()[1]
    assert first, "JRaft was not sent the snapshot"
    jraft.kill()
    farm.compare_logs(ours, jraft)
    jraft.start()
    third = await farm.our(3)  # for a majority without JRaft
    await farm.add(ours, third)
    await farm.see("a third server is a member", lambda: len(ours.driver.core.configuration.servers) == 3)
    jraft.kill()
    await farm.post(ours, 300, size=200)
    ours.keep_snapshot(keep=5)
    await farm.see("what JRaft needs is dropped", lambda: ours.driver.core.log.base > 500)
    jraft.start()
    await farm.all_have_everything()
    assert len(jraft.applied()[1]) == 2, "JRaft was not sent the second snapshot"
    await farm.post(ours, 20)
    await farm.all_have_everything()
    jraft.kill()
    farm.compare_logs(ours, jraft)


async def answers_lost(farm: MixedFarm) -> None:
    """gf-i2p leads; JRaft's answers are lost, and JRaft then drops the entries that these answers named."""
    ports = free_ports(2)
    founders = [ClusterServer(i, endpoint(port)) for i, port in enumerate(ports, 1)]
    for server, port in zip(founders, ports, strict=True):
        await farm.our(server.id, founders, port=port)
    leader = await farm.our_leader([1, 2])
    await farm.post(leader, 20)
    jraft = farm.their(3, timing=PATIENT, snapshot_distance=20)
    await farm.see("JRaft has elected itself", lambda: jraft.said("add initial configuration"))
    await farm.add(leader, jraft)
    await farm.see("it is a member", lambda: jraft.said("committed as one of cluster members"))
    await farm.all_have_everything()
    leader.peers[3].deaf = True
    known = leader.driver.core.match[3]
    await farm.post(leader, 400, batch=50)
    await farm.see("JRaft has dropped what we do not know that it has", lambda: jraft.snapshot_index() > known + 1)
    leader.peers[3].deaf = False
    leader.peers[3].reset("its answers are lost")
    await farm.post(leader, 20)
    await farm.all_have_everything()


async def jraft_snapshots(farm: MixedFarm) -> None:
    """JRaft leads and makes snapshots: gf-i2p starts from one, joins by one, and gets another after an absence."""
    ports = free_ports(4)
    servers = [ClusterServer(i, endpoint(port)) for i, port in enumerate(ports[:3], 1)]
    for server, port in zip(servers[:2], ports[:2], strict=True):
        farm.their(server.id, [other for other in servers if other != server], port=port)
    leader = await farm.jraft_leader([1, 2])
    await farm.post(leader, 150, size=200)
    # A JRaft leader that begins with an empty log and then drops entries cannot serve a server that was not reached
    # before, and sometimes no client either. So snapshots come in a later term.
    leader = await _again(farm, snapshot_distance=50)
    await farm.post(leader, 10, size=200)
    await farm.see("JRaft has dropped its log's beginning", lambda: leader.snapshot_index() > 100)
    leader = await _again(farm, snapshot_distance=50)
    late = await farm.our(3, servers, port=ports[2], timing=PATIENT)
    await farm.all_have_everything()
    assert late.restored, "a late founder was not sent the snapshot"
    ours = await farm.our(4, port=ports[3], timing=PATIENT)
    await farm.add(leader, ours)
    await farm.see("ours is a member", lambda: len(ours.driver.core.configuration.servers) == 4)
    await farm.all_have_everything()
    assert ours.restored, "the newcomer was not sent the snapshot"
    await farm.post(leader, 20, size=200)
    await farm.all_have_everything()
    await farm.stop_ours(4)
    await farm.post(leader, 150, size=200)
    ours = await farm.our(4, port=ports[3], timing=PATIENT)
    await farm.all_have_everything()
    assert len(ours.restored) == 2, f"the server that was away was not sent a snapshot: {ours.restored}"
    await farm.post(leader, 20)
    await farm.all_have_everything()


async def large_value(farm: MixedFarm) -> None:
    """JRaft leads, with a value over 1 MiB: gf-i2p cannot follow, says so, and unseats nobody."""
    leader, ours = await _followed(farm, posts=20)
    await farm.all_have_everything()
    await farm.post(leader, 1, size=MAX_VALUE_BYTES + 1)
    await _goes_on_without_us(farm, leader, ours)


async def large_request(farm: MixedFarm) -> None:
    """JRaft leads, and sends over 16 MiB in one request to gf-i2p, which was away; then as with a large value."""
    leader, ours = await _followed(farm, posts=20)
    await farm.all_have_everything()
    port = ours.port
    await farm.stop_ours(3)
    await farm.post(leader, 20, size=MAX_VALUE_BYTES - 1)
    ours = await farm.our(3, port=port)
    await _goes_on_without_us(farm, leader, ours)


async def _followed(farm: MixedFarm, *, posts: int) -> tuple[JraftServer, PlainServer]:
    """Start two JRaft servers, post so many values, and let a gf-i2p server join; give the leader and that server."""
    ports = free_ports(2)
    servers = [ClusterServer(i, endpoint(port)) for i, port in enumerate(ports, 1)]
    for server, port in zip(servers, ports, strict=True):
        farm.their(server.id, [other for other in servers if other != server], port=port, timing=PATIENT)
    leader = await farm.jraft_leader([1, 2])
    await farm.post(leader, posts)
    ours = await farm.our(3)
    await farm.add(leader, ours)
    await farm.see("ours is a member", lambda: len(ours.driver.core.configuration.servers) == 3)
    return leader, ours


async def _goes_on_without_us(farm: MixedFarm, leader: JraftServer, ours: PlainServer) -> None:
    """The gf-i2p server has shorter time-outs than the JRaft servers, cannot follow, and still deposes none of them."""
    core = ours.driver.core
    await farm.see("ours says that it cannot follow", lambda: core.cannot_follow is not None)
    term, began = core.term, farm.progress.seconds
    heard = 0

    def led() -> bool:
        nonlocal heard
        heard += core.leader == leader.id
        assert (core.role, core.term) == ("follower", term), "a server that cannot follow stood for election"
        return farm.progress.seconds > began + 20 * TIMING.election_max

    await farm.see("twenty of our time-outs have passed", led)
    assert heard > 0
    assert (await farm.jraft_leader([1, 2])) is leader
    await farm.post(leader, 20)
    del farm.ours[3]  # this server lacks the entries
    try:
        await farm.all_have_everything()  # JRaft accepts what only the leader has
        leader.kill()
        other = farm.theirs[3 - leader.id]
        await farm.jraft_leader([other.id])
        assert core.role == "follower"
        await farm.post(other, 20)
        leader.start()
        await farm.all_have_everything()
        assert core.cannot_follow is not None
    finally:
        await ours.stop()


async def _again(farm: MixedFarm, *, snapshot_distance: int) -> JraftServer:
    """Kill and restart all JRaft servers; return the new leader."""
    for server in farm.theirs.values():
        server.kill()
    for server in farm.theirs.values():
        server.start(snapshot_distance=snapshot_distance)
    return await farm.jraft_leader(list(farm.theirs))


def _left(jraft: JraftServer) -> bool:
    return jraft.exit_status == 0


async def _alone(farm: MixedFarm, flow: Flow | None = None) -> PlainServer:
    (port,) = free_ports(1)
    await farm.our(1, [ClusterServer(1, endpoint(port))], port=port, flow=flow)
    return await farm.our_leader([1])


SCENARIOS: Final[dict[str, Scenario]] = {
    each.__name__.replace("_", "-"): each
    for each in (
        short_log,
        we_lead,
        comes_again,
        interrupted,
        jraft_leads,
        our_snapshots,
        answers_lost,
        jraft_snapshots,
        large_value,
        large_request,
    )
}
