"""A farm in `failover` mode, the farm's web services, and unmodified clients that visit the master's address."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import aiohttp
from aiohttp import web

from gf_i2p.node.files.file_names import MASTER_FILE
from gf_i2p.node.publish.publishing_keys import PublishingKeys
from integration.harness.local_farm import NotSeenError, until
from integration.harness.web_server import web_server
from integration.testnet.i2p_farm import I2pFarm
from integration.testnet.router import PROXY_PORT
from integration.testnet.router_files import LISTEN_PORT, replace
from integration.testnet.router_network import RouterPlace

HEAL_SECONDS: Final = 300.0
ASK_SECONDS: Final = 1.0
REQUEST_SECONDS: Final = 60.0
"""i2pd keeps to a broken tunnel for up to half a minute."""
STEADY_PAGES: Final = 10
NAME_HEADER: Final = "X-I2P-DestB32"
_DAY: Final = 86_400
_TUNNELS: Final = {"inbound.length": "1", "outbound.length": "1"}


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
        """Whether the last requests all brought pages: the router no longer uses tunnels that lead nowhere."""
        last = self.pages[-STEADY_PAGES:]
        return len(last) == STEADY_PAGES and all(page.server is not None for page in last)

    def first_since(self, began: float, *, not_from: int | None = None) -> PageRequest | None:
        """Return the earliest page of the requests that began after this time."""
        found = [page for page in self.pages if page.began >= began and page.server not in {None, not_from}]
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
    """A farm that runs, and its visitors by name."""

    def __init__(self, farm: I2pFarm, visitors: Mapping[str, Visitor]) -> None:
        self.farm = farm
        self.visitors = visitors

    @property
    def visitor(self) -> Visitor:
        """The first visitor."""
        return next(iter(self.visitors.values()))

    async def _until(self, what: str, condition: Callable[[], Awaitable[bool]]) -> None:
        """Wait for the condition. On failure, print the last requests and the servers' logs."""
        try:
            await until(what, HEAL_SECONDS, condition)
        except NotSeenError:
            for name, visitor in self.visitors.items():
                print(name, *visitor.pages[-20:], sep="\n")
            print(self.farm.complaints())
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

    async def page_since(
        self, began: float, *, not_from: int | None = None, visitor: Visitor | None = None
    ) -> PageRequest:
        """Wait for a page of a request that began after this time, by default of the first visitor."""
        visits = visitor or self.visitor

        async def seen() -> bool:
            return visits.first_since(began, not_from=not_from) is not None

        await self._until("a page", seen)
        page = visits.first_since(began, not_from=not_from)
        assert page is not None
        return page


@asynccontextmanager
async def failover_site(
    directory: Path,
    servers: list[RouterPlace],
    clients: Mapping[str, RouterPlace],
    *,
    password: str,
    first_port: int = LISTEN_PORT,
    delegated: bool = False,
    bystanders: int = 0,
) -> AsyncIterator[FailoverSite]:
    """Run one node beside each of `servers`, and one visitor behind each of `clients`.

    `password`: of the routers' i2pcontrol. `first_port`: see `I2pFarm`. `delegated`: no node has the master's own key.
    `bystanders`: this number of nodes, the last ones, vote but never serve.
    """
    timeout = aiohttp.ClientTimeout(total=REQUEST_SECONDS)
    async with AsyncExitStack() as stack:
        farm = I2pFarm(directory, servers, password=password, first_port=first_port)
        ports = {server: await stack.enter_async_context(local_service(server)) for server in farm.ids}
        stack.enter_context(farm)
        farm.place(targets=ports)
        for server in farm.ids[len(farm.ids) - bystanders :]:
            never_serves(farm.node(server))
        if delegated:
            _delegate(farm)
        farm.start_all()
        await farm.leader(HEAL_SECONDS)
        visitors = {name: Visitor(router, farm.master.destination.b32) for name, router in clients.items()}
        # A connection to the proxy for each request, as each new visitor would make one.
        connector = aiohttp.TCPConnector(force_close=True, limit=0)
        session = await stack.enter_async_context(aiohttp.ClientSession(timeout=timeout, connector=connector))
        visiting = [asyncio.create_task(visitor.run(session)) for visitor in visitors.values()]
        try:
            yield FailoverSite(farm, visitors)
        finally:
            for each in visiting:
                each.cancel()
            await asyncio.wait(visiting)


def never_serves(directory: Path) -> None:
    """Let a server vote, and never serve. The line is a comment in a new configuration."""
    replace(directory, {'# publish = "auto"': 'publish = "off"'})


def _delegate(farm: I2pFarm) -> None:
    """Put delegated keys in the place of the master's own key on each node."""
    now = int(time.time())
    for server in farm.ids:
        keys = PublishingKeys.delegate(farm.master, now + 30 * _DAY, now, server=server, service=_TUNNELS)
        (farm.node(server) / MASTER_FILE).write_bytes(keys.encode())
