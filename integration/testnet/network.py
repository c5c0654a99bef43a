"""The network: routers that know each other, have built tunnels, and have carried bytes. Runs inside the namespaces.

A network has i2pd routers, and may have Java routers besides (`JavaBuild`).
"""

import asyncio
import contextlib
import secrets
import signal
import socket
import subprocess
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import aiohttp

from gf_i2p.netdb.private_keys import DestinationKeys
from integration.harness.local_farm import NotSeenError, until
from integration.harness.network_namespaces import enter
from integration.harness.processes import listens
from integration.testnet.bridge import Bridge
from integration.testnet.java_build import JavaBuild
from integration.testnet.java_router import PASSWORD, JavaRouter
from integration.testnet.java_status import JavaStatus, ask_java
from integration.testnet.router import (
    HTTP_PORT,
    I2CP_PORT,
    PROXY_PORT,
    SAM_PORT,
    TUNNELS_FILE,
    RouterProcess,
    router_hash,
    server_tunnel,
)
from integration.testnet.router_console import ConsoleSummary, StoredLeaseSet, parse_lease_sets, parse_summary

MIN_ROUTERS: Final = 4
MAX_ROUTERS: Final = 32
MAX_JAVA: Final = 8
"""Most Java routers: each takes 130 MB, and several seconds of a core at the start."""
START_SECONDS: Final = 300.0
"""The longest wait for one condition. All conditions together take half a minute on an idle machine."""
CROSS_SECONDS: Final = 15.0
"""The longest wait for bytes to cross the network, in one try."""
MIN_TUNNELS: Final = 4
"""Least number of client tunnels that a router must have built: two each way."""
_WATCH_SECONDS: Final = 0.5

Say = Callable[[str], None]


def _say_nothing(line: str) -> None:
    del line


class Testnet:
    """A private network, used as an asynchronous context manager. Entering ends when bytes have crossed the network.

    All files lie below `directory`, which must be empty or missing. Half of the routers, at least four, are
    floodfills. With Java routers, half of the i2pd are, and as many Java routers as `java_floodfills` says.
    `waiting_for` gets the next condition, `happened` gets other events.
    """

    __test__ = False  # no test class of pytest

    def __init__(
        self,
        directory: Path,
        *,
        routers: int = 8,
        java: int = 0,
        java_floodfills: int = 1,
        waiting_for: Say = _say_nothing,
        happened: Say = _say_nothing,
    ) -> None:
        """`routers`: number of i2pd. `java`: number of Java routers; raises `MissingError` without the programs."""
        if not MIN_ROUTERS <= routers <= MAX_ROUTERS:
            raise ValueError(f"a network has {MIN_ROUTERS} to {MAX_ROUTERS} routers, not {routers}")
        build = JavaBuild.find() if java else None
        self.directory = directory
        self.password = secrets.token_urlsafe(12) if build is None else PASSWORD
        floodfills = max(MIN_ROUTERS, routers // 2) if build is None else routers // 2
        i2pd = "i2pd" if build is None else build.i2pd
        self._i2pd = [
            RouterProcess(number, directory / f"router-{number}", number < floodfills, self.password, program=i2pd)
            for number in range(routers)
        ]
        self._java: list[JavaRouter] = []
        if build is not None:
            self._java = [
                JavaRouter(
                    routers + number,
                    directory / f"router-{routers + number}",
                    number < java_floodfills,
                    self.password,
                    program=str(build.directory),
                )
                for number in range(java)
            ]
        self.routers: list[RouterProcess] = [*self._i2pd, *self._java]
        self._open = contextlib.ExitStack()
        self._waiting_for = waiting_for
        self._happened = happened
        self._began = time.monotonic()
        self._keys = DestinationKeys.generate()
        self.times: dict[str, float] = {}
        """Seconds from the start until each condition was seen."""
        self.crashes: list[str] = []
        """One line for each router that has ended by itself."""
        self._watch: asyncio.Task[None] | None = None

    @property
    def floodfills(self) -> list[RouterProcess]:
        """The routers that store lease sets for others."""
        return [router for router in self.routers if router.floodfill]

    # Life -----------------------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        self._began = time.monotonic()
        try:
            self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=5))
            take_addresses([router.network_address for router in self._i2pd])
            await self._place_java()
            await self._introduce()
            self.offer(self.routers[0], "check", self._keys, HTTP_PORT)
            for java in self._java:
                java.start()
            for java in self._java:  # an i2pd that cannot connect to a router forgets that router
                await self._wait_for(f"router {java.number}: listens", partial(listens, java.address, java.i2np_port))
            for router in self._i2pd:
                router.start()
            self._watch = asyncio.create_task(self._restart_crashed())
            for router in self.routers:
                name = f"router {router.number}"
                if router.kind == "java":
                    for port in (I2CP_PORT, SAM_PORT, PROXY_PORT):
                        await self._wait_for(f"{name}: port {port} ready", partial(listens, router.address, port))
                    await self._wait_for(f"{name}: carries tunnels", partial(self._carries_tunnels, router), poll=1.0)
                    continue
                await self._wait_for(f"{name}: tunnels built", partial(self._has_tunnels, router))
                await self._wait_for(f"{name}: SAM ready", partial(listens, router.address, SAM_PORT))
                if router.interfaces["i2pcontrol"]:
                    await self._wait_for(f"{name}: i2pcontrol has its certificate", partial(_has_certificate, router))
            # Not more often: the router looks the lease set up for each try, and many look-ups block everything else.
            await self._wait_for("bytes cross the network", self._bytes_cross, poll=0.5)
        except BaseException:
            await self._end()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._end()

    async def _restart_crashed(self) -> None:
        """Restart a router that has crashed, as systemd would with Debian's unit.

        i2pd 2.45.1 crashed some twenty times in ten hours of networks: most often in the console or in SAM, once in
        NetDB and SSU2.
        """
        while True:
            for router in self.routers:
                if router.crash is not None:
                    line = f"router {router.number} has ended by itself (status {router.crash}) and was started again"
                    self.crashes.append(line)
                    router.start()
                    self._happened(line)
            await asyncio.sleep(_WATCH_SECONDS)

    async def _end(self) -> None:
        if self._watch is not None:
            self._watch.cancel()
        self._stop_all()
        self._open.close()
        await self._session.close()

    def _stop_all(self) -> None:
        """Stop all routers at the same time."""
        for router in self.routers:
            router.send(signal.SIGTERM)
        began = time.monotonic()
        for router in self.routers:
            router.stop(seconds=max(began + router.stop_seconds - time.monotonic(), 0.0))

    async def _place_java(self) -> None:
        """Give each Java router a namespace, and all of them one certificate of i2pcontrol."""
        if not self._java:
            return
        bridge = self._open.enter_context(Bridge(self.directory / "bridge.log"))
        for router in self._java:
            router.where = tuple(enter(await bridge.join(router.network_address)))
        first, *others = self._java
        await asyncio.to_thread(first.make_certificate)
        for router in others:
            router.make_certificate(first.directory)

    async def _introduce(self) -> None:
        """Let each router write its RouterInfo, and give all of them to all."""
        while without := [router for router in self.routers if router.info() is None]:
            for router in without:
                router.start()
            await self._wait_for("every router has an identity", self._all_have_info)
            # In a thread, so that signals are handled meanwhile. A router that is killed at the end of its time may
            # have begun to write its RouterInfo anew: such a router starts once more.
            await asyncio.to_thread(self._stop_all)
        infos = {router.number: info for router in self.routers if (info := router.info()) is not None}
        assert len(infos) == len(self.routers)
        for router in self.routers:
            others = [info for number, info in infos.items() if number != router.number]
            for info in others:
                router.learn(info)
            if self._java:
                router.trusted = tuple(map(router_hash, others))

    async def _wait_for(self, what: str, condition: Callable[[], Awaitable[bool]], poll: float = 0.05) -> None:
        self._waiting_for(what)
        try:
            await until(what, START_SECONDS, condition, poll=poll)
        except NotSeenError as error:
            raise NotSeenError(f"{error}\n{self.complaints()}") from None
        self.times[what] = round(time.monotonic() - self._began, 2)

    async def _all_have_info(self) -> bool:
        return all(router.info() is not None for router in self.routers)

    async def _has_tunnels(self, router: RouterProcess) -> bool:
        summary = await self.summary(router)
        return summary is not None and summary.routers >= len(self.routers) and summary.client_tunnels >= MIN_TUNNELS

    async def _carries_tunnels(self, router: RouterProcess) -> bool:
        status = await self.java_status(router)
        return status is not None and status.known >= len(self.routers) - 1 and status.carries_tunnels

    def complaints(self, most: int = 5) -> str:
        """Return the last warnings of every router, for people."""
        lines = list(self.crashes)
        for router in self.routers:
            state = "runs" if router.running else "does not run"
            said = router.complaints()
            lines.append(f"router {router.number} ({router.address}) {state}, {len(said)} warnings")
            lines += [f"    {line}" for line in said[-most:]]
        return "\n".join(lines)

    # Answers of the routers ------------------------------------------------------------------------------------------

    async def java_status(self, router: RouterProcess) -> JavaStatus | None:
        """Return what a Java router says about itself; None when the router does not answer."""
        return await ask_java(router.address, self.password)

    async def summary(self, router: RouterProcess) -> ConsoleSummary | None:
        """Return the numbers of an i2pd console's first page; None when the router does not answer, or has none."""
        if router.kind == "java":
            return None
        page = await self._page(router, "")
        return None if page is None else parse_summary(page)

    async def lease_sets(self, router: RouterProcess) -> list[StoredLeaseSet] | None:
        """Return the lease sets in the router's netDb; None when the router does not answer."""
        page = await self._page(router, "?page=leasesets")
        return None if page is None else parse_lease_sets(page)

    async def _page(self, router: RouterProcess, query: str) -> str | None:
        try:
            async with self._session.get(f"http://{router.address}:{HTTP_PORT}/{query}") as response:
                return await response.text()
        except (aiohttp.ClientError, TimeoutError):
            return None

    # Bytes ----------------------------------------------------------------------------------------------------------

    def offer(self, router: RouterProcess, name: str, keys: DestinationKeys, port: int) -> None:
        """Let an i2pd offer a TCP port of the router's address inside the network, under these keys.

        Call this method before the network starts. `name`: of the tunnel, letters only.
        """
        file = router.directory / f"{name}.dat"
        router.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        file.touch(mode=0o600)
        file.write_bytes(keys.encode())
        with (router.directory / TUNNELS_FILE).open("a") as tunnels:
            tunnels.write(server_tunnel(name, router.address, port, file.name))

    async def _bytes_cross(self) -> bool:
        """Whether the first router's console can be read through the last router's proxy."""
        last = self.routers[-1]
        proxy = f"http://{last.address}:{PROXY_PORT}"
        try:
            async with self._session.get(
                f"http://{self._keys.destination.b32}/", proxy=proxy, timeout=aiohttp.ClientTimeout(total=CROSS_SECONDS)
            ) as response:
                return response.status == 200 and "Routers" in await response.text()
        except (aiohttp.ClientError, TimeoutError):
            return False


async def _has_certificate(router: RouterProcess) -> bool:
    return router.has_certificate


def take_addresses(addresses: list[str]) -> None:
    """Give the addresses to this namespace's loopback. Refuses to do so where other interfaces are up."""
    others = [name for _, name in socket.if_nameindex() if name != "lo"]
    if others:
        raise RuntimeError(f"this is no network namespace of its own: it has {', '.join(others)}")
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    for address in addresses:
        subprocess.run(["ip", "address", "add", f"{address}/32", "dev", "lo"], check=True)
