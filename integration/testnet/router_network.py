"""The network as programs inside the namespaces see it: the routers, and the lease sets that the floodfills hold."""

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import aiohttp

from gf_i2p.admin.local_socket import socket_address
from gf_i2p.netdb.encoding import to_b32_address
from gf_i2p.transport.tls.certificates import fingerprint_of_file
from integration.testnet.bridge import ADDRESS as BRIDGE_ADDRESS
from integration.testnet.java_store import java_holds
from integration.testnet.network_keeper import CONTROL_SOCKET, DIRECTORY_VARIABLE
from integration.testnet.router import CERTIFICATE_FILE, HTTP_PORT
from integration.testnet.router_console import StoredLeaseSet, parse_lease_sets


@dataclass(frozen=True, slots=True)
class RouterPlace:
    """One router. The ports are constants of `integration.testnet.router`."""

    number: int
    address: str
    directory: Path
    floodfill: bool
    kind: str = "i2pd"
    """"i2pd" or "java"."""

    @property
    def programs(self) -> str:
        """Address of this namespace's programs, as the router reaches them."""
        return BRIDGE_ADDRESS if self.kind == "java" else "127.0.0.1"

    @property
    def fingerprint(self) -> str:
        """Fingerprint of the certificate that the router has made for i2pcontrol."""
        return fingerprint_of_file(self.directory / CERTIFICATE_FILE)


class RouterNetwork:
    """The network that this process runs in. Use it as an asynchronous context manager."""

    def __init__(self, directory: Path) -> None:
        self._socket = directory / CONTROL_SOCKET
        self._open_directory = contextlib.ExitStack()
        self.routers: list[RouterPlace] = []
        self.password = ""
        """Password of every router's i2pcontrol."""

    @classmethod
    def here(cls) -> Self | None:
        """Return the network around this process, or None: see `python -m integration.testnet run`."""
        directory = os.environ.get(DIRECTORY_VARIABLE)
        return None if directory is None else cls(Path(directory))

    async def __aenter__(self) -> Self:
        timeout = aiohttp.ClientTimeout(total=60)
        name = self._open_directory.enter_context(socket_address(self._socket))
        self._control = aiohttp.ClientSession(connector=aiohttp.UnixConnector(name), timeout=timeout)
        self._web = aiohttp.ClientSession(timeout=timeout)
        status = await self._ask("GET", "/status")
        self.password = await self._ask("GET", "/password")
        self.routers = [
            RouterPlace(each["number"], each["address"], Path(each["directory"]), each["floodfill"], each["kind"])
            for each in status["routers"]
        ]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._control.close()
        self._open_directory.close()
        await self._web.close()

    @property
    def floodfills(self) -> list[RouterPlace]:
        """The i2pd routers that store lease sets for others."""
        return [router for router in self.of("i2pd") if router.floodfill]

    def of(self, kind: str) -> list[RouterPlace]:
        """Return the routers of this kind."""
        return [router for router in self.routers if router.kind == kind]

    async def lease_sets(self, router: RouterPlace) -> list[StoredLeaseSet]:
        """Return the lease sets in an i2pd floodfill's netDb; none when the floodfill does not answer."""
        try:
            async with self._web.get(f"http://{router.address}:{HTTP_PORT}/?page=leasesets") as response:
                return parse_lease_sets(await response.text())
        except (aiohttp.ClientError, TimeoutError):
            return []

    async def holders(self, b32: str, store_type: int) -> dict[int, StoredLeaseSet]:
        """Say which floodfills, by their numbers, hold a lease set of this type for this address."""
        found = {}
        for router in self.floodfills:
            for held in await self.lease_sets(router):
                if held.b32 == b32 and held.store_type == store_type:
                    found[router.number] = held
        return found

    async def holds(self, router: RouterPlace, hash_: bytes) -> bool:
        """Whether a floodfill of either kind holds a lease set, of any type, of this destination; see `java_store`."""
        if router.kind == "java":
            return await java_holds(router.address, hash_)
        b32 = to_b32_address(hash_)
        return any(each.b32 == b32 for each in await self.lease_sets(router))

    async def stop(self, router: RouterPlace) -> None:
        """Stop a router. Returns when the process has ended."""
        await self._ask("POST", f"/routers/{router.number}/stop")

    async def start(self, router: RouterPlace, **interfaces: bool) -> None:
        """Start a router. `interfaces` (proxy, socks, sam, i2cp, i2pcontrol) turns some on or off from now on."""
        await self._ask("POST", f"/routers/{router.number}/start", interfaces)

    async def _ask(self, method: str, path: str, body: object = None) -> Any:
        async with self._control.request(method, f"http://testnet{path}", json=body) as answer:
            if answer.status != 200:
                raise RuntimeError(f"{method} {path}: {answer.status} {await answer.text()}")
            return await answer.json()
