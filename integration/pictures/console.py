"""A picture of the console's page, for a farm that publishes. Runs inside a private network (`make pictures`)."""

import argparse
import asyncio
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Final

from playwright.async_api import async_playwright, expect

from gf_i2p.cli.page.console import Console, Farm
from gf_i2p.cli.shared.local_client import request
from integration.browser.chromium import FLAGS, PROGRAM
from integration.harness.local_farm import until
from integration.testnet.i2p_farm import I2pFarm
from integration.testnet.router_network import RouterNetwork

SERVERS: Final = 3
SECONDS: Final = 300.0
SIZE: Final = (1280, 800)


async def make(file: Path) -> None:
    """Write the picture. Raises `NotSeenError`, or `AssertionError` when the page does not say that all is well."""
    network = RouterNetwork.here()
    assert network is not None, "use `make pictures`"
    with tempfile.TemporaryDirectory() as directory:
        async with network:
            farm = I2pFarm(Path(directory) / "farm", network.routers[-SERVERS:], password=network.password)
        farm.place(themselves=True)
        with farm:
            farm.start_all()

            async def published() -> bool:
                farm.check()
                told = [await farm.status(server) for server in farm.ids]
                sent = any(each is not None and each["farm"]["publishing"] is not None for each in told)
                return sent and all(each is not None and len(each["farm"]["leaves"]) == SERVERS for each in told)

            await until("the farm publishes all its leaves", SECONDS, published, poll=0.5)
            node = farm.node(1)
            async with Console([Farm(partial(request, node), "farm, by server-1", None)]).serving() as link:
                await take(link, file)


async def take(link: str, file: Path) -> None:
    """Open the page in Chromium, and write its picture."""
    width, height = SIZE
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=PROGRAM, args=list(FLAGS))
        page = await browser.new_page(viewport={"width": width, "height": height}, color_scheme="light")
        await page.goto(link)
        await expect(page.get_by_role("heading", name="All is well")).to_be_visible(timeout=SECONDS * 1000)
        await page.screenshot(path=file)
        await browser.close()


def main() -> int:
    """Parse the arguments, and make the picture."""
    parser = argparse.ArgumentParser(description="Use `make pictures`.")
    parser.add_argument("file", type=Path)
    asyncio.run(make(parser.parse_args().file))
    return 0


if __name__ == "__main__":
    sys.exit(main())
