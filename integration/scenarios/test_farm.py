"""A farm of real nodes that talk through I2P only: what it commits, survives and publishes."""

import asyncio
import re
import subprocess
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import pytest
import pytest_asyncio

from gf_i2p.cli import client
from gf_i2p.cli.errors import CommandError
from integration.i2pfarm import I2pFarm
from integration.localfarm import until
from integration.testnet.client import Network
from integration.testnet.router import I2CP_PORT, I2PCONTROL_PORT, PROXY_PORT, SAM_PORT

ENTRIES: Final = 500
PADDING: Final = "x" * 1000
AWAY_SECONDS: Final = 60.0
HEAL_SECONDS: Final = 300.0
ROUTER_PORTS: Final = {PROXY_PORT, SAM_PORT, I2CP_PORT, I2PCONTROL_PORT}


@pytest_asyncio.fixture
async def farm(network: Network, tmp_path: Path) -> AsyncIterator[I2pFarm]:
    """Three nodes, each beside a router of its own, that have a leader."""
    routers = [router for router in network.routers if not router.floodfill][-3:]
    with I2pFarm(tmp_path, routers, password=network.password) as made:
        made.place(themselves=True)
        made.start_all()
        await made.leader(HEAL_SECONDS)
        yield made


async def post(farm: I2pFarm, server: int, value: str) -> bool:
    """Post one entry; return whether it is committed for sure."""
    body = {"values": [value]}
    try:
        await client.request(farm.node(server), "POST", "/v1/entries?timeout=60", seconds=65, body=body)
    except CommandError:
        return False
    return True


async def posted(farm: I2pFarm, server: int) -> list[str]:
    """What the log of one server holds of our entries, in order."""
    found: list[str] = []
    first = 1
    while True:
        path = f"/v1/entries?first={first}&limit=1000&stale=1"
        page = (await client.request(farm.node(server), "GET", path, seconds=10))["entries"]
        found += [entry["value"] for entry in page if entry.get("value", "").endswith(PADDING)]
        if not page:
            return found
        first = page[-1]["index"] + 1


async def test_what_is_acknowledged_survives_a_router_that_is_away(network: Network, farm: I2pFarm) -> None:
    leader = await farm.leader(HEAL_SECONDS)
    away = next(server for server in farm.ids if server != leader)
    router = farm.routers[away]
    acknowledged: list[str] = []
    everything = [f"{number}:{PADDING}" for number in range(ENTRIES)]
    pending = iter(everything)

    async def writer() -> None:
        for value in pending:
            while not await post(farm, leader, value):
                pass  # unknown, or refused: the same entry again, which may then be there twice
            acknowledged.append(value)

    async def disturbance() -> None:
        await until("some entries are there", HEAL_SECONDS, lambda: _true(len(acknowledged) > ENTRIES // 10))
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


async def _true(condition: bool) -> bool:
    return condition


async def test_nodes_have_connections_to_routers_only(farm: I2pFarm) -> None:
    """Whatever a node's sockets are connected to is its own router, or itself listening for it."""
    for server in farm.ids:
        listing = await asyncio.to_thread(_sockets)
        mine = [line.split() for line in listing.splitlines() if f"pid={farm.pid(server)}," in line]
        assert mine, "a node without any connection shows nothing"
        router = farm.routers[server].address
        for columns in mine:
            local, remote = columns[3], columns[4]
            ours = re.fullmatch(rf"127\.0\.0\.1:{4150 + server}", local)
            host, _, port = remote.rpartition(":")
            assert ours or (host == router and int(port) in ROUTER_PORTS), columns


def _sockets() -> str:
    return subprocess.run(
        ["ss", "--tcp", "--numeric", "--processes", "--no-header"], capture_output=True, text=True, check=True
    ).stdout


@pytest.mark.timeout(900)
async def test_a_killed_publisher_is_followed_by_another(network: Network, farm: I2pFarm) -> None:
    master = farm.master.destination.b32

    async def held() -> bool:
        return len(await network.holders(master, 7)) >= 3

    await until("three floodfills hold the set", HEAL_SECONDS, held, poll=0.5)
    before = {number: held.expires for number, held in (await network.holders(master, 7)).items()}
    answers = {server: await farm.status(server) for server in farm.ids}
    publisher = next(server for server, answer in answers.items() if answer and answer["farm"]["publishing"])
    farm.kill(publisher)
    killed = time.monotonic()

    async def replaced() -> bool:
        now = await network.holders(master, 7)
        newer = [number for number, held in now.items() if held.expires > max(before.values())]
        others = [await farm.status(server) for server in farm.running]
        return len(newer) >= 3 and any(answer and answer["farm"]["publishing"] for answer in others)

    await until("another server's newer set stands on three floodfills", HEAL_SECONDS, replaced, poll=0.5)
    print(f"a newer set of another server {time.monotonic() - killed:.1f} s after kill -9")
