"""A destination served by the project's own streaming, through real i2pd routers, to an unmodified i2pd client.

Tests bridges/i2cp/service_hosting.py and bridges/streaming/. Another scenario tests the node's use of both.
"""

import asyncio
import hashlib
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

import aiohttp
import pytest
import pytest_asyncio
from aiohttp import web

from bridges.errors import RouterUnreachableError
from bridges.hosting_protocol import ServiceOffer
from bridges.i2cp.service_hosting import I2cpHosting, I2cpService
from bridges.i2cp.settings import I2cpSettings
from bridges.streaming.limits import IDLE
from gf_i2p.farm.publishing.failover import DRAIN_SECONDS
from gf_i2p.netdb.lease_set import LeaseSet2
from gf_i2p.netdb.private_keys import DestinationKeys
from gf_i2p.netdb.session_config import SERVICE_OPTIONS, session_config
from integration.harness.local_farm import becomes, until
from integration.harness.web_server import web_server
from integration.testnet.router import I2CP_PORT, PROXY_PORT
from integration.testnet.router_network import RouterNetwork, RouterPlace

pytestmark = pytest.mark.timeout(3000)

OPTIONS: Final = {**SERVICE_OPTIONS, "inbound.length": "1", "outbound.length": "1"}
BIG: Final = b"".join(hashlib.sha256(b"%d" % number).digest() for number in range(100_000))
HEAL_SECONDS: Final = 480.0
"""The tests print the real time, tens of seconds as a rule. When a router dies, the neighbours' tunnels die, too.
i2pd keeps to a broken tunnel for up to half a minute, by chance several times."""
REQUEST_SECONDS: Final = 60.0
STEADY_PAGES: Final = 10
FORM_SECONDS: Final = 180.0
STREAM_SECONDS: Final = IDLE + 120.0
"""Time for all streams to end, seconds as a rule. When the client loses a stream's last packet, the packet is sent four
times, up to 20 s apart. When the client falls silent, the stream ends after `IDLE`."""
DAY: Final = 86_400

Figure = Callable[[str, float], None]


@pytest.fixture
def figure(record_property: Callable[[str, object], None], capsys: pytest.CaptureFixture[str]) -> Figure:
    """Keeps and prints a number for the report."""

    def keep(what: str, value: float) -> None:
        record_property(what, round(value, 2))
        with capsys.disabled():
            print(f"\n  {what}: {value:.4g}", flush=True)

    return keep


@pytest_asyncio.fixture
async def site() -> AsyncIterator[tuple[str, int]]:
    """A web server: / returns the request's headers and digest, /big returns `BIG`."""

    async def hello(request: web.Request) -> web.Response:
        digest = hashlib.sha256(await request.read()).hexdigest()
        return web.json_response({"headers": dict(request.headers), "digest": digest})

    async def big(_request: web.Request) -> web.Response:
        return web.Response(body=BIG)

    app = web.Application(client_max_size=2 * len(BIG))
    app.add_routes([web.route("*", "/", hello), web.get("/big", big)])
    async with web_server(app) as place:
        yield place


class StreamingMaster:
    """A destination on one router after the other, and a client behind another router's HTTP proxy."""

    def __init__(self, network: RouterNetwork, target: tuple[str, int], *, delegated: bool = False) -> None:
        self.master = DestinationKeys.generate()
        self._keys = self.master.delegate(int(time.time()) + DAY) if delegated else self.master
        self._network = network
        self._target = target
        self._published = 0
        self._services: list[I2cpService] = []

    async def serve(self, router: RouterPlace) -> I2cpService:
        offer = ServiceOffer(
            self._keys,
            self._target,
            self._next_published,
            self._announce,
            http=True,
            options=OPTIONS,
            signed_session=session_config(self.master, 1, OPTIONS),
        )
        hosting = I2cpHosting(I2cpSettings(router.address, I2CP_PORT, allow_plain=True))
        made: list[I2cpService] = []

        async def opened() -> bool:
            try:
                service = await hosting.open(offer)
            except RouterUnreachableError as error:  # another scenario has just restarted the router
                print(error)
                return False
            assert isinstance(service, I2cpService)
            made.append(service)
            return True

        await until("the router takes a service", HEAL_SECONDS, opened, poll=1.0)
        self._services += made
        return made[0]

    async def close(self) -> None:
        await asyncio.gather(*(service.close() for service in self._services))

    def _next_published(self) -> int:
        self._published = max(int(time.time()), self._published + 1)
        return self._published

    async def _announce(self, lease_set: LeaseSet2) -> None:
        assert lease_set.published == self._published

    # The client -----------------------------------------------------------------------------------------------------

    async def ask(self, path: str = "/", method: str = "GET", **options: Any) -> bytes | None:
        """Ask as a browser with the router's proxy; return None when there is no page."""
        proxy = f"http://{self._network.routers[-1].address}:{PROXY_PORT}"
        url = f"http://{self.master.destination.b32}{path}"
        options.setdefault("timeout", aiohttp.ClientTimeout(total=REQUEST_SECONDS))
        try:
            async with (
                aiohttp.ClientSession() as session,
                session.request(method, url, proxy=proxy, **options) as answer,
            ):
                body = await answer.read()
                if answer.status == 200:
                    return body
                why = f"{answer.status} {answer.reason}"
        except (aiohttp.ClientError, TimeoutError) as error:
            why = repr(error)
        print(f"{method} {path}: no page: {why}")
        return None

    async def page(self, path: str = "/", method: str = "GET", **options: Any) -> bytes:
        """Ask until there is a page. i2pd may need minutes to drop a tunnel that leads nowhere."""
        found: list[bytes] = []

        async def asked() -> bool:
            found[:] = [body for body in [await self.ask(path, method, **options)] if body is not None]
            return bool(found)

        await until(f"a page for {method} {path}", HEAL_SECONDS, asked, poll=0.5)
        return found[0]

    async def reached(self) -> bool:
        return await self.ask() is not None

    async def outage(self, began: float) -> float:
        """Ask anew once a second until there is a page; return the seconds since `began` (monotonic)."""
        asking: set[asyncio.Task[bool]] = set()
        try:
            while time.monotonic() < began + HEAL_SECONDS:
                asking.add(asyncio.create_task(self.reached()))
                done, asking = await asyncio.wait(asking, timeout=1.0, return_when=asyncio.FIRST_COMPLETED)
                if any(task.result() for task in done):
                    return time.monotonic() - began
        finally:
            for task in asking:
                task.cancel()
            await asyncio.gather(*asking, return_exceptions=True)
        raise AssertionError("nobody serves any more")


@asynccontextmanager
async def mastering(
    network: RouterNetwork, target: tuple[str, int], *, delegated: bool = False
) -> AsyncIterator[StreamingMaster]:
    master = StreamingMaster(network, target, delegated=delegated)
    try:
        yield master
    finally:
        await master.close()


@pytest.mark.parametrize("delegated", [False, True], ids=["own key", "transient key"])
async def test_pages_and_forms_pass_and_the_service_knows_who_asks(
    network: RouterNetwork, site: tuple[str, int], figure: Figure, *, delegated: bool
) -> None:
    async with mastering(network, site, delegated=delegated) as master:
        began = time.monotonic()
        service = await master.serve(network.routers[-2])
        await master.page()
        figure("from nothing to the first page, seconds", time.monotonic() - began)

        page = await master.page(headers={"X-I2P-DestB32": "forged", "X_I2P_DestHash": "forged"})
        assert b"forged" not in page
        assert b".b32.i2p" in page.partition(b"X-I2P-DestB32")[2]

        patience = aiohttp.ClientTimeout(total=FORM_SECONDS)
        form = await master.page(method="POST", data=BIG[:1_000_000], timeout=patience)
        assert hashlib.sha256(BIG[:1_000_000]).hexdigest().encode() in form

        began = time.monotonic()
        assert await master.page("/big", timeout=patience) == BIG
        figure("out, MB/s", len(BIG) / 1e6 / (time.monotonic() - began))
        await asyncio.gather(*(master.page() for _ in range(20)))
        await becomes("all streams have ended", lambda: service.streams == 0, STREAM_SECONDS)
        await becomes("nothing is wrong any more", lambda: service.trouble is None, HEAL_SECONDS)
        assert service.dropped == 0


@pytest.mark.slow  # a router dies
async def test_another_router_takes_over_when_the_holder_dies(
    network: RouterNetwork, site: tuple[str, int], figure: Figure
) -> None:
    async with mastering(network, site) as master:
        holder = network.routers[-2]
        service = await master.serve(holder)
        await master.page()
        for router in network.routers[-4:-2]:
            began = time.monotonic()
            await network.stop(holder)
            await service.lost()
            took, service = await asyncio.gather(master.outage(began), master.serve(router))
            figure("outage of a holder whose router died, seconds", took)
            await network.start(holder)
            holder = router


@pytest.mark.slow  # minutes of requests
async def test_a_planned_move_loses_no_request(network: RouterNetwork, site: tuple[str, int], figure: Figure) -> None:
    async with mastering(network, site) as master:
        old = await master.serve(network.routers[-2])
        for _ in range(STEADY_PAGES):  # i2pd no longer uses tunnels that lead nowhere
            await master.page()
        began = time.monotonic()
        new = await master.serve(network.routers[-3])
        draining = asyncio.create_task(old.drain(DRAIN_SECONDS))
        moved = None
        while not draining.done():
            assert await master.reached(), "a request was lost"
            if moved is None and new.served:
                moved = time.monotonic() - began
            await asyncio.wait([draining], timeout=0.5)
        assert draining.result()
        while moved is None:  # the old service is gone, so the client's router has to find the new lease set now
            assert time.monotonic() < began + HEAL_SECONDS, "nobody came to the next one"
            assert await master.reached(), "a request was lost"
            if new.served:
                moved = time.monotonic() - began
        figure("served by the next one after, seconds", moved)
