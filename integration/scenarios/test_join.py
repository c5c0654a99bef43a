"""A farm that grows by join codes, inside I2P: a newcomer has only the code, and the router beside it."""

import asyncio
import json
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from integration.harness.local_farm import PROGRAM, LocalFarm, until
from integration.testnet.i2p_farm import I2pFarm
from integration.testnet.router import PROXY_PORT
from integration.testnet.router_files import Beside, place
from integration.testnet.router_network import RouterNetwork

pytestmark = pytest.mark.timeout(1800)

SECONDS = 720.0
"""A router that has asked for an address too early may find the address only minutes later: lease sets last ten."""
FIRST_PORT = 4180


async def gf(*words: str | Path, stdin: str = "") -> dict[str, Any]:
    """Run a command; return its JSON."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *PROGRAM,
        *map(str, words),
        "--json",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    output, error = await process.communicate(stdin.encode())
    assert process.returncode == 0, (words, output.decode(), error.decode())
    answer: dict[str, Any] = json.loads(output)
    return answer


async def all_see_all(farm: LocalFarm) -> bool:
    farm.check()
    told = [await farm.status(server) for server in farm.ids]
    return all(
        each is not None and len(each["servers"]) == len(farm.ids) and all(s["connected"] for s in each["servers"])
        for each in told
    )


async def test_a_farm_of_three_grows_from_one_by_two_codes_inside_i2p(network: RouterNetwork, tmp_path: Path) -> None:
    first, *others = network.routers[-3:]
    with I2pFarm(tmp_path, [first], password=network.password, admins=["owner"], first_port=FIRST_PORT) as farm:
        farm.place()
        farm.start_all()
        await farm.leader()
        began = time.monotonic()
        for server, router in enumerate(others, 2):
            admin = farm.directory / "admin-owner.toml"
            code = (await gf("members", "invite", admin, f"{server}=i2p", "--code"))["code"]
            answer = await gf("join", farm.node(server), "--proxy", f"{router.address}:{PROXY_PORT}", stdin=f"{code}\n")
            assert answer["endpoint"].endswith(".b32.i2p:80")
            place(
                farm.node(server),
                Beside(router.address, router.fingerprint, None),
                password=network.password,
                master=farm.master,
                listen=f"{router.programs}:{FIRST_PORT + server}",
            )
            farm.start(server)
            farm.ids = (*farm.ids, server)
            print(f"server {server} has joined by its code after {time.monotonic() - began:.1f} s")
            await until(f"all {server} servers see all", SECONDS, partial(all_see_all, farm), poll=0.5)
            print(f"all {server} servers are connected after {time.monotonic() - began:.1f} s")
        assert (await gf("post", farm.node(3), "hello"))["index"] > 0
