"""A farm of real nodes that talk through I2P only: commits, faults and connections."""

import asyncio
import contextlib
import re
import subprocess
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import pytest
import pytest_asyncio

from gf_i2p.cli.shared import local_client
from gf_i2p.cli.shared.errors import CommandError, Exit
from gf_i2p.node.files.client_file import ClientFile
from gf_i2p.wire.errors import OutcomeUnknownError
from integration.harness.commands import command
from integration.harness.local_farm import becomes, until
from integration.testnet.i2p_farm import I2pFarm
from integration.testnet.router import I2CP_PORT, I2PCONTROL_PORT, PROXY_PORT, SAM_PORT
from integration.testnet.router_network import RouterNetwork

pytestmark = pytest.mark.timeout(1800)

ENTRIES: Final = 500
PADDING: Final = "x" * 1000
POSTS: Final = 3
AWAY_SECONDS: Final = 60.0
HEAL_SECONDS: Final = 300.0
LOOK_SECONDS: Final = 0.1
ROUTER_PORTS: Final = {PROXY_PORT, SAM_PORT, I2CP_PORT, I2PCONTROL_PORT}


@pytest_asyncio.fixture
async def farm(network: RouterNetwork, tmp_path: Path) -> AsyncIterator[I2pFarm]:
    """Three nodes with a leader, each beside a router of its own."""
    routers = [router for router in network.routers if not router.floodfill][-3:]
    with I2pFarm(tmp_path, routers, password=network.password, admins=["far"]) as made:
        made.place(themselves=True)
        made.start_all()
        await made.leader(HEAL_SECONDS)
        yield made


async def post(farm: I2pFarm, server: int, value: str) -> bool:
    """Post one entry; return whether the entry is surely committed."""
    body = {"values": [value]}
    try:
        await local_client.request(farm.node(server), "POST", "/v1/entries?timeout=60", seconds=65, body=body)
    except CommandError:
        return False
    return True


async def posted_for_sure(farm: I2pFarm, server: int, value: str) -> None:
    """Post one entry until the entry is committed. The log may then hold the entry twice."""

    async def done() -> bool:
        farm.check()
        return await post(farm, server, value)

    await until("an entry is committed", HEAL_SECONDS, done)


async def posted(farm: I2pFarm, server: int) -> list[str]:
    """Return this test's entries in the log of one server, in order."""
    found: list[str] = []
    first = 1
    while True:
        path = f"/v1/entries?first={first}&limit=1000&stale=1"
        page = (await local_client.request(farm.node(server), "GET", path, seconds=60))["entries"]
        found += [entry["value"] for entry in page if entry.get("value", "").endswith(PADDING)]
        if not page:
            return found
        first = page[-1]["index"] + 1


@pytest.mark.slow  # a router is away, and comes back
async def test_what_is_acknowledged_survives_a_router_that_is_away(network: RouterNetwork, farm: I2pFarm) -> None:
    leader = await farm.leader(HEAL_SECONDS)
    away = next(server for server in farm.ids if server != leader)
    router = farm.routers[away]
    acknowledged: list[str] = []
    everything = [f"{number}:{PADDING}" for number in range(ENTRIES)]
    pending = iter(everything)

    async def writer() -> None:
        for value in pending:
            await posted_for_sure(farm, leader, value)
            acknowledged.append(value)

    async def disturbance() -> None:
        await becomes("some entries are there", lambda: len(acknowledged) > ENTRIES // 10, HEAL_SECONDS)
        await network.stop(router)
        began = time.monotonic()
        await asyncio.sleep(AWAY_SECONDS)
        await network.start(router)
        print(f"router {router.number} was away for {time.monotonic() - began:.0f} s")

    began = time.monotonic()
    await asyncio.gather(disturbance(), *(writer() for _ in range(4)))
    print(f"{ENTRIES} entries in {time.monotonic() - began:.0f} s")
    healed = time.monotonic()
    await farm.converged(HEAL_SECONDS)
    print(f"all logs are equal {time.monotonic() - healed:.0f} s after the last acknowledgement and the router's start")
    logs = [await posted(farm, server) for server in farm.ids]
    assert logs[0] == logs[1] == logs[2]
    assert set(acknowledged) == set(everything) == set(logs[0])


async def test_a_client_that_knows_one_server_finds_the_leader(network: RouterNetwork, farm: I2pFarm) -> None:
    """The client is behind another router, which has never heard of the farm."""
    leader = await farm.leader(HEAL_SECONDS)
    follower = next(server for server in farm.ids if server != leader)
    router = next(router for router in network.routers if router not in farm.routers.values() and not router.floodfill)
    head, *tables = farm.client_file.read_text().split("[[servers]]")
    table = next(table for table in tables if f"id = {follower}\n" in table)
    path = farm.directory / "client-one.toml"
    path.touch(mode=0o600)
    path.write_text(f"{head.replace('127.0.0.1', router.address)}[[servers]]{table}")
    value = f"by way of server {follower}:{PADDING}"
    began = time.monotonic()
    async with ClientFile.load(path).open() as one:
        index = posts = 0
        while not index and posts < POSTS:
            posts += 1
            with contextlib.suppress(OutcomeUnknownError):  # the outcome is unknown, so post again
                index = await one.post([value.encode()], timeout=HEAL_SECONDS)
        assert index > 0, f"no answer to {POSTS} posts\n{farm.complaints()}"
        print(f"posted {time.monotonic() - began:.1f} s after the client's start")
        began = time.monotonic()
        found = await one.find(timeout=HEAL_SECONDS)
        print(f"found server {found.leader} leading, entry {found.log_index}, in {time.monotonic() - began:.2f} s more")
    assert found.trouble is None
    assert [(place.server, place.configured, place.current) for place in found.places] == [
        (server, server == follower, True) for server in farm.ids
    ]
    await farm.converged(HEAL_SECONDS)
    logs = [await posted(farm, server) for server in farm.ids]
    assert logs[0] == logs[1] == logs[2]
    assert set(logs[0]) == {value}
    assert len(logs[0]) <= posts, "each post is there once at most"
    await administered(farm, router.address)


async def administered(farm: I2pFarm, router: str) -> None:
    """See and steer the farm with an administrator's file, through a router at this address."""
    file = farm.directory / "admin-far.toml"
    file.write_text(file.read_text().replace("127.0.0.1", router))

    async def said(*words: str) -> dict[str, Any]:
        began = time.monotonic()
        answer = await command(*words[:2], file, *words[2:], may_be=(Exit.OK, Exit.DEGRADED))
        print(f"{' '.join(words)}, {time.monotonic() - began:.2f} s")
        return answer

    leader = (await said("members", "list"))["leader"]
    assert leader in farm.ids
    hash_ = farm.leaves[1].destination.b32
    assert (await said("leaves", "exclude", hash_, "--reason", "repairs"))["index"] > 0

    async def logged() -> bool:
        return any(change["by"] == "admin-far" for change in (await said("farm", "log"))["log"])

    # Each command asks the server that answers first, and a follower learns of a commit a moment after the leader.
    await until("the server that answers has the change", HEAL_SECONDS, logged)
    after = (await said("members", "stepdown"))["leader"]
    assert after != leader, "another server leads, or none yet"


@pytest.mark.slow  # two minutes of connections
async def test_nodes_have_connections_to_routers_only(farm: I2pFarm) -> None:
    """Every connection of a node leads to the node's router, or from the router to the listener.

    The test looks while entries are committed, and while a killed server comes back.
    """
    leader = await farm.leader(HEAL_SECONDS)
    away = next(server for server in farm.ids if server != leader)
    looks: list[str] = []
    busy = True

    async def look() -> None:
        while busy:
            looks.append(await asyncio.to_thread(_sockets))
            await asyncio.sleep(LOOK_SECONDS)

    async def writing() -> None:
        for number in range(50):
            await posted_for_sure(farm, leader, f"{number}:{PADDING}")

    looking = asyncio.create_task(look())
    await writing()
    farm.kill(away)
    await writing()
    farm.start(away)
    began = time.monotonic()
    await farm.converged(HEAL_SECONDS)
    print(f"a server that was killed has caught up {time.monotonic() - began:.1f} s after its start")
    await writing()
    busy = False
    await looking
    pids = {server: farm.pid(server) for server in farm.ids}
    seen = {server: _connections(looks, pid) for server, pid in pids.items()}
    print(f"{len(looks)} looks; connections of each server: { {server: len(of) for server, of in seen.items()} }")
    for server, connections in seen.items():
        assert connections, "a node without any connection shows nothing"
        router = farm.routers[server].address
        for local, remote in connections:
            ours = re.fullmatch(rf"127\.0\.0\.1:{4150 + server}", local)
            host, _, port = remote.rpartition(":")
            assert ours or (host == router and int(port) in ROUTER_PORTS), (local, remote)


def _connections(looks: list[str], pid: int) -> set[tuple[str, str]]:
    """Return the local and remote addresses of a process' sockets."""
    lines = [line.split() for text in looks for line in text.splitlines() if f"pid={pid}," in line]
    return {(columns[4], columns[5]) for columns in lines}


def _sockets() -> str:
    """List the connected sockets: netid, state, two lengths, local and remote address, process."""
    return subprocess.run(
        ["ss", "--tcp", "--udp", "--numeric", "--processes", "--no-header"], capture_output=True, text=True, check=True
    ).stdout
