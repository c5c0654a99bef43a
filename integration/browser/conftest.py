"""The browser, and a farm for it to show, which all tests share."""

import asyncio
import time
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Final

import pytest
from playwright.async_api import Browser, async_playwright

from gf_i2p.cli.page.console import Console, Farm
from gf_i2p.cli.shared.local_client import request
from gf_i2p.farm.record.status_record import Leaf, StatusRecord
from integration.browser.chromium import FLAGS, PROGRAM
from integration.harness.local_farm import LocalFarm

pytest_plugins = ["tests.conftest"]

SECONDS: Final = 60.0
LEAVES: Final = 3


@pytest.fixture
async def chromium() -> AsyncIterator[Browser]:
    """A browser of its own for each test. Without Chromium the tests are skipped, with the reason."""
    if PROGRAM is None:
        pytest.skip("Chromium is not installed. On Debian: sudo apt-get install -y chromium")
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=PROGRAM, args=list(FLAGS))
        yield browser
        await browser.close()


@pytest.fixture
async def farm(tmp_path: Path) -> AsyncIterator[LocalFarm]:
    """Three servers on loopback, each with a record that reports a leaf, as beside a router."""
    with LocalFarm(tmp_path, servers=LEAVES) as farm:
        farm.start_all()
        await farm.leader()
        await post_records(farm)
        yield farm


async def post_records(farm: LocalFarm, tunnels: int = 40) -> None:
    """Post a record of each running server, as its node does beside a router. `tunnels`: those of server 1."""
    for server in farm.running:
        router = {"uptime": 7_200_000 + server, "participatingTunnels": tunnels * server, "bandwidthIn": 1000 * server}
        leaf = Leaf(bytes([server]) * 32, up=True)
        record = StatusRecord(
            "farm", int(time.time() * 1000), server, router_up=True, router=router, leaves=(leaf,)
        ).encode()
        async with asyncio.timeout(SECONDS):
            await request(farm.node(server), "POST", "/v1/entries", body={"values": [record.decode()]})


@pytest.fixture
async def link(farm: LocalFarm) -> AsyncIterator[str]:
    """The one-time link of a console for the farm's first server."""
    console = Console([Farm(partial(request, farm.node(1)), "farm, by server-1", None)])
    async with console.serving() as link:
        yield link
