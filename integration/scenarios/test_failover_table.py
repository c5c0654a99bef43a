"""How long clients miss a service whose server is killed: by kind of router and kind of key, on a mixed network.

One farm for each kind of router beside the server that serves. Two clients watch the same kills, one behind an i2pd and
one behind a Java router. The routers of the clients are no floodfills, and no node is beside them.
"""

import asyncio
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from integration.harness.local_farm import becomes
from integration.scenarios.failover_site import HEAL_SECONDS, FailoverSite, failover_site
from integration.scenarios.router_choice import spare_routers
from integration.testnet.router_files import LISTEN_PORT
from integration.testnet.router_network import RouterNetwork, RouterPlace

KILLS: Final = int(os.environ.get("GF_I2P_KILLS", "2"))
"""Number of servers to kill in each farm, one after the other."""
HOLDERS: Final = os.environ.get("GF_I2P_HOLDERS", "i2pd java").split()
"""Kinds of the routers beside the servers that serve. Farms of all these kinds run side by side."""
_PORTS: Final = 10
"""Distance between the ports of two farms."""
_ROUTERS: Final = 3
"""Routers of a kind that are no floodfills: two beside servers, one for the client."""

pytestmark = [pytest.mark.timeout(900 + 600 * KILLS), pytest.mark.slow]  # kills one server after the other

Seconds = dict[str, list[float]]
"""For each client, the seconds from each kill to the client's next page."""


@pytest.mark.parametrize("keys", ["own", "delegated"])
async def test_each_kind_of_client_has_pages_again_after_each_kill(
    java_network: RouterNetwork, keys: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def tell(line: str) -> None:
        with capsys.disabled():
            print(f"\n  {line}", end="", flush=True)

    free = {kind: spare_routers(java_network, kind, _ROUTERS) for kind in ("i2pd", "java")}
    clients = {kind: routers[-1] for kind, routers in free.items()}

    async def watch(number: int, holder: str) -> Seconds:
        # The third server only votes. So a server beside a router of this kind serves after each kill, too.
        servers: list[RouterPlace] = [*free[holder][:2], free["i2pd"][2 if len(free["i2pd"]) > _ROUTERS else 0]]
        async with failover_site(
            tmp_path / holder,
            servers,
            clients,
            password=java_network.password,
            first_port=LISTEN_PORT + _PORTS * number,
            delegated=keys == "delegated",
            bystanders=1,
        ) as site:
            return await kill_all(site, lambda line: tell(f"{holder}, {keys} keys: {line}"))

    found = await asyncio.gather(*(watch(number, holder) for number, holder in enumerate(HOLDERS)))
    tell("router of the server | keys | router of the client | kills | median | least | most (s)")
    for holder, seconds in zip(HOLDERS, found, strict=True):
        for client, each in seconds.items():
            figures = f"{statistics.median(each):.1f} | {min(each):.1f} | {max(each):.1f}"
            tell(f"{holder:<4} | {keys:<9} | {client:<4} | {len(each)} | {figures}")
    tell("")


async def kill_all(site: FailoverSite, tell: Callable[[str], None]) -> Seconds:
    """Kill the server that serves, `KILLS` times. Return the outages."""
    farm, seconds = site.farm, Seconds({name: [] for name in site.visitors})
    for number in range(1, KILLS + 1):
        publisher = await site.publisher()
        for name, visitor in site.visitors.items():
            await becomes(f"the client behind {name} gets each page", visitor.steady, HEAL_SECONDS)
        leads = await farm.leader(HEAL_SECONDS) == publisher
        began = time.monotonic()
        farm.kill(publisher)
        names = list(site.visitors)
        pages = await asyncio.gather(
            *(site.page_since(began, not_from=publisher, visitor=site.visitors[name]) for name in names)
        )
        serving = await site.publisher()
        assert {page.server for page in pages} == {serving}
        for name, page in zip(names, pages, strict=True):
            seconds[name].append(page.ended - began)
        outages = ", ".join(f"{name} client {seconds[name][-1]:.1f} s" for name in names)
        tell(f"kill {number} of server {publisher}{', which led' if leads else ''}: {outages}")
        farm.start(publisher)
        await farm.leader(HEAL_SECONDS)
        await farm.converged(HEAL_SECONDS)
    return seconds
