"""A network namespace of its own with a router, and nothing else: the machine of a user who is far from the farm.

The router joins the private network that runs already. The namespace has one link, to the network of the routers.
"""

import asyncio
import socket
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import aiohttp

from integration.harness.local_farm import until
from integration.harness.network_namespaces import enter, ip_output, socket_inside
from integration.testnet.bridge import Bridge
from integration.testnet.network import MIN_TUNNELS, START_SECONDS
from integration.testnet.router import HTTP_PORT, INTERFACES, RouterProcess
from integration.testnet.router_console import parse_summary
from integration.testnet.router_network import RouterNetwork

_LOOPBACK: Final = "127.0.0.1"
_CONNECT_SECONDS: Final = 5.0


@dataclass
class _FarRouter(RouterProcess):
    """An i2pd whose interfaces for programs are on the loopback of another namespace."""

    where: tuple[str, ...] = ()
    """Prefix that runs a command in the router's namespace."""

    @property
    def address(self) -> str:
        return _LOOPBACK

    def _command(self) -> list[str]:
        return [*self.where, *super()._command()]


class FarPlace:
    """The namespace and the router. Use it as an asynchronous context manager; entering ends with built tunnels.

    The router offers its HTTP proxy at the usual place, 127.0.0.1:4444 of the namespace, and no other interface.
    """

    def __init__(self, network: RouterNetwork, directory: Path) -> None:
        """`network`: without Java routers, which are behind a bridge of the same name."""
        self._network = network
        self._directory = directory
        self._pid = 0
        self._router = _FarRouter(
            len(network.routers),
            directory / "router",
            floodfill=False,
            password=network.password,
            interfaces={name: name == "proxy" for name in INTERFACES},
        )
        self._open = ExitStack()

    @property
    def where(self) -> list[str]:
        """The prefix that runs a command in the namespace."""
        return enter(self._pid)

    @property
    def routes(self) -> list[str]:
        """The routes of the namespace, as `ip route` shows them."""
        return ip_output(self._pid, "route show").splitlines()

    async def __aenter__(self) -> Self:
        self._directory.mkdir(mode=0o700)
        try:
            bridge = self._open.enter_context(Bridge(self._directory / "bridge.log"))
            self._pid = await bridge.join(self._router.network_address)
            self._router.where = tuple(self.where)
            for other in self._network.routers:
                self._router.learn((other.directory / "router.info").read_bytes())
            self._router.start()
            self._open.callback(self._router.stop)
            await until("the far router has tunnels", START_SECONDS, self._has_tunnels, poll=0.5)
        except BaseException:
            self._open.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self._open.close)

    def web(self, **options: Any) -> aiohttp.ClientSession:
        """Return an HTTP client of the namespace, for IPv4 addresses. `options`: see `aiohttp.ClientSession`."""
        connector = aiohttp.TCPConnector(family=socket.AF_INET, socket_factory=lambda _: socket_inside(self._pid))
        return aiohttp.ClientSession(connector=connector, **options)

    async def trouble(self, host: str, port: int) -> OSError | None:
        """Try a TCP connection from the namespace; return why there is none, or None when there is one."""
        with socket_inside(self._pid) as tried:
            try:
                async with asyncio.timeout(_CONNECT_SECONDS):
                    await asyncio.get_running_loop().sock_connect(tried, (host, port))
            except OSError as error:  # TimeoutError is one, too
                return error
        return None

    async def _has_tunnels(self) -> bool:
        try:
            async with (
                self.web(timeout=aiohttp.ClientTimeout(total=_CONNECT_SECONDS)) as web,
                web.get(f"http://{_LOOPBACK}:{HTTP_PORT}/") as response,
            ):
                return parse_summary(await response.text()).client_tunnels >= MIN_TUNNELS
        except (aiohttp.ClientError, TimeoutError):
            return False
