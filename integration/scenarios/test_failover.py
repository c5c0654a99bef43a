"""A farm in `failover` mode: an unmodified client behind another router still gets pages after each kill.

The client asks anew every second through the router's HTTP proxy, as people do with the reload key. The length of the
outage is printed, not asserted, because the outage depends on the machine, too.
"""

import asyncio
import itertools
import os
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import aiohttp
import pytest
import pytest_asyncio
from aiohttp import web

from gf_i2p.farm.record.master_load import NAMES as LOAD_NAMES
from gf_i2p.netdb.session_config import SERVICE_OPTIONS
from integration.harness.commands import command
from integration.harness.local_farm import NotSeenError, becomes, until
from integration.harness.web_server import web_server
from integration.testnet.i2p_farm import I2pFarm
from integration.testnet.router import PROXY_PORT
from integration.testnet.router_network import RouterNetwork, RouterPlace

KILLS: Final = int(os.environ.get("GF_I2P_KILLS", "2"))
"""Number of publishers to kill, one after the other."""
SERVERS: Final = 3
HEAL_SECONDS: Final = 300.0
ASK_SECONDS: Final = 1.0
REQUEST_SECONDS: Final = 60.0
"""i2pd keeps to a broken tunnel for up to half a minute."""
STEADY_PAGES: Final = 10
NAME_HEADER: Final = "X-I2P-DestB32"

pytestmark = pytest.mark.timeout(900 + 600 * KILLS)


@dataclass(frozen=True, slots=True)
class PageRequest:
    """One request and the outcome. Times are monotonic seconds."""

    began: float
    ended: float
    server: int | None
    """Id of the server beside the web service that made the page. None: there was no page."""
    client: str | None = None
    """Name of the client, as the service received the name."""
    why: str = ""
    """Answer of the proxy, or reason of the failure."""


class Visitor:
    """Asks for the master's page every second, without waiting for earlier requests."""

    def __init__(self, router: RouterPlace, b32: str) -> None:
        self.pages: list[PageRequest] = []
        self._proxy = f"http://{router.address}:{PROXY_PORT}"
        self._url = f"http://{b32}/"

    async def run(self, session: aiohttp.ClientSession) -> None:
        asking: set[asyncio.Task[None]] = set()
        try:
            while True:
                task = asyncio.create_task(self._ask(session))
                asking.add(task)
                task.add_done_callback(asking.discard)
                await asyncio.sleep(ASK_SECONDS)
        finally:
            for task in asking:
                task.cancel()
            await asyncio.gather(*asking, return_exceptions=True)

    async def _ask(self, session: aiohttp.ClientSession) -> None:
        began = time.monotonic()
        found: dict[str, Any] = {}
        try:
            async with session.get(self._url, proxy=self._proxy) as answer:
                if answer.status == 200:
                    found = await answer.json()
                why = f"{answer.status} {answer.reason}"
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            why = repr(error)
        self.pages.append(PageRequest(began, time.monotonic(), found.get("server"), found.get("client"), why))

    def steady(self) -> bool:
        """Whether the last requests all brought pages: i2pd no longer uses tunnels that lead nowhere."""
        last = self.pages[-STEADY_PAGES:]
        return len(last) == STEADY_PAGES and all(page.server is not None for page in last)

    def first_since(self, began: float) -> PageRequest | None:
        """Return the earliest page of the requests that began after this time."""
        found = [page for page in self.pages if page.began >= began and page.server is not None]
        return min(found, key=lambda page: page.ended, default=None)


@asynccontextmanager
async def local_service(server: int) -> AsyncIterator[int]:
    """Run the operator's own web server beside one node; gives the port."""

    async def page(request: web.Request) -> web.Response:
        return web.json_response({"server": server, "client": request.headers.get(NAME_HEADER)})

    app = web.Application()
    app.router.add_get("/", page)
    async with web_server(app) as (_, port):
        yield port


class FailoverSite:
    """The farm, the farm's local web services, and the client that visits the master's address."""

    def __init__(self, farm: I2pFarm, visitor: Visitor) -> None:
        self.farm = farm
        self.visitor = visitor

    async def _until(self, what: str, condition: Callable[[], Awaitable[bool]]) -> None:
        """Wait for the condition. On failure, print the last requests and the servers' logs."""
        try:
            await until(what, HEAL_SECONDS, condition)
        except NotSeenError:
            print(*self.visitor.pages[-20:], self.farm.complaints(), sep="\n")
            raise

    async def publisher(self) -> int:
        """Wait until one server serves, and all running servers name this server; return the id."""
        found: list[int] = []

        async def agreed() -> bool:
            self.farm.check()
            answers = {server: await self.farm.status(server) for server in self.farm.running}
            chosen = {None if answer is None else answer["farm"]["publisher"] for answer in answers.values()}
            found[:] = [each for each in chosen if each is not None]
            if len(chosen) != 1 or not found:
                return False
            answer = answers.get(found[0])
            serving = None if answer is None else answer["farm"]["publishing"]
            return serving is not None and serving["state"] == "serving"

        await self._until("one publisher that all know, and that serves", agreed)
        return found[0]

    async def page_since(self, began: float, *, not_from: int | None = None) -> PageRequest:
        """Wait for a page of a request that began after this time."""

        async def seen() -> bool:
            page = self.visitor.first_since(began)
            return page is not None and page.server != not_from

        await self._until("a page", seen)
        page = self.visitor.first_since(began)
        assert page is not None
        return page


@pytest_asyncio.fixture
async def site(network: RouterNetwork, tmp_path: Path) -> AsyncIterator[FailoverSite]:
    """Three nodes, each beside a router; the client is behind a floodfill without a node."""
    routers = [router for router in network.routers if not router.floodfill][-SERVERS:]
    timeout = aiohttp.ClientTimeout(total=REQUEST_SECONDS)
    async with AsyncExitStack() as stack:
        ports = {server: await stack.enter_async_context(local_service(server)) for server in range(1, SERVERS + 1)}
        farm = stack.enter_context(I2pFarm(tmp_path, routers, password=network.password))
        farm.place(targets=ports)
        farm.start_all()
        await farm.leader(HEAL_SECONDS)
        visitor = Visitor(network.floodfills[0], farm.master.destination.b32)
        # A connection to the proxy for each request, as each new visitor would make one.
        connector = aiohttp.TCPConnector(force_close=True, limit=0)
        session = await stack.enter_async_context(aiohttp.ClientSession(timeout=timeout, connector=connector))
        visiting = asyncio.create_task(visitor.run(session))
        try:
            yield FailoverSite(farm, visitor)
        finally:
            visiting.cancel()
            await asyncio.wait([visiting])


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
