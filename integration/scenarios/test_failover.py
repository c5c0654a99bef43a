"""A farm in `failover` mode: an unmodified client behind another router still gets pages after each kill.

The client asks anew every second through the router's HTTP proxy, as people do with the reload key. The length of the
outage is printed, not asserted, because the outage depends on the machine, too.
"""

import itertools
import os
import time
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import pytest
import pytest_asyncio

from gf_i2p.farm.record.master_load import NAMES as LOAD_NAMES
from gf_i2p.netdb.session_config import SERVICE_OPTIONS
from integration.harness.commands import command
from integration.harness.local_farm import becomes, until
from integration.scenarios.failover_site import (
    ASK_SECONDS,
    HEAL_SECONDS,
    STEADY_PAGES,
    FailoverSite,
    failover_site,
)
from integration.scenarios.router_choice import spare_routers
from integration.testnet.router_network import RouterNetwork

KILLS: Final = int(os.environ.get("GF_I2P_KILLS", "2"))
"""Number of publishers to kill, one after the other."""
SERVERS: Final = 3

pytestmark = pytest.mark.timeout(900 + 600 * KILLS)


@pytest_asyncio.fixture
async def site(network: RouterNetwork, tmp_path: Path) -> AsyncIterator[FailoverSite]:
    """Three nodes, each beside a router; the client is behind a floodfill without a node."""
    routers = spare_routers(network, "i2pd", SERVERS)[-SERVERS:]
    clients = {"i2pd": network.floodfills[0]}
    async with failover_site(tmp_path, routers, clients, password=network.password) as made:
        yield made


@pytest.mark.slow  # kills one publisher after the other
async def test_pages_come_again_after_each_kill_of_the_publisher(site: FailoverSite) -> None:
    farm = site.farm
    began = time.monotonic()
    publisher = await site.publisher()
    await site.page_since(began)
    print(f"the first page came {time.monotonic() - began:.1f} s after the farm had a leader")
    outages = []
    for number in range(1, KILLS + 1):
        publisher = await site.publisher()
        await site.page_since(time.monotonic())
        leads = await farm.leader(HEAL_SECONDS) == publisher
        began = time.monotonic()
        farm.kill(publisher)
        next_one = await site.publisher()
        serving = time.monotonic() - began
        page = await site.page_since(began, not_from=publisher)
        outage = page.ended - began
        outages.append(outage)
        print(
            f"kill {number} of server {publisher}{', which led' if leads else ''}: a page after {outage:.1f} s, from "
            f"server {page.server}; that one's lease set was with its router after {serving:.1f} s, the rest, "
            f"{max(outage - serving, 0.0):.1f} s, is the life of the old one in the client's router"
        )
        assert next_one == page.server != publisher
        farm.start(publisher)
        await farm.leader(HEAL_SECONDS)
        await farm.converged(HEAL_SECONDS)
    print(f"outages: {', '.join(f'{outage:.1f}' for outage in outages)} s")
    pages = site.visitor.pages
    served = [page for page in pages if page.server is not None]
    by = Counter(page.server for page in served)
    print(f"{len(pages)} requests, {len(pages) - len(served)} without a page; pages by server: {dict(by)}")
    (client,) = {page.client for page in served}
    assert client is not None
    assert client.endswith(".b32.i2p"), "the service is told who asks"
    # Never two at a time: after the first page of the next server, the server before makes no page.
    changes = [page.server for page in sorted(served, key=lambda page: page.ended)]
    if sum(before != after for before, after in itertools.pairwise(changes)) != KILLS:
        print(farm.complaints())  # the logs say which server was chosen, when and why
        raise AssertionError(changes)


@pytest.mark.slow  # minutes until the farm publishes
async def test_a_planned_move_loses_no_request(site: FailoverSite) -> None:
    farm = site.farm
    publisher = await site.publisher()
    began = time.monotonic()
    await site.page_since(began)
    to = next(server for server in farm.ids if server != publisher)
    await becomes(f"{STEADY_PAGES} pages, one after the other", site.visitor.steady, HEAL_SECONDS)
    loads: list[dict[str, int]] = []

    async def is_told() -> bool:
        meta = (await farm.records(publisher))[publisher]["meta"]
        loads.append({name: value for name, value in meta.items() if name in LOAD_NAMES})
        return loads[-1].get("currentBandwidth", 0) > 0

    await until("a record tells the traffic of the master's session", HEAL_SECONDS, is_told, poll=1.0)
    print(f"the load in the record: {loads[-1]}")
    assert loads[-1].keys() == LOAD_NAMES
    assert loads[-1]["uptime"] > 0
    assert loads[-1]["configuredTunnels"] == int(SERVICE_OPTIONS["inbound.quantity"])
    assert loads[-1]["currentTunnels"] > 0
    moved = time.monotonic()
    await command("publisher", "move", farm.node(to), str(to), "--reason", "repairs")

    async def has_moved() -> bool:
        return any(page.began > moved and page.server == to for page in site.visitor.pages)

    await until("a page of the next one", HEAL_SECONDS, has_moved)
    first = min(page.ended for page in site.visitor.pages if page.began > moved and page.server == to)
    print(f"server {to} serves {first - moved:.1f} s after publishing was moved to it")

    async def is_drained() -> bool:
        answer = await farm.status(publisher)
        return answer is not None and answer["farm"]["publishing"] is None

    await until("the old one has ended its session", HEAL_SECONDS, is_drained)
    await site.page_since(time.monotonic())
    lost = [page for page in site.visitor.pages if page.began > moved - ASK_SECONDS and page.server is None]
    asked = sum(page.began > moved - ASK_SECONDS for page in site.visitor.pages)
    print(f"{len(lost)} of {asked} requests were lost; the move was ordered at {moved:.1f}")
    assert lost == []
