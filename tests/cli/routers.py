"""A node's directory beside a router; the router's interfaces are scripts with recorded answers of real routers."""

import asyncio
import contextlib
import os
import ssl
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from aiohttp import web

from bridges.i2cp.settings import RouterKind
from gf_i2p.cli.doctor.checks import CheckResult, CheckState, examine
from gf_i2p.cli.doctor.command import all_checks
from gf_i2p.netdb.private_keys import DestinationKeys
from gf_i2p.node.access.login_keys import is_signed
from gf_i2p.node.files.config import Config, Secrets
from gf_i2p.node.files.farm_setup import make_farm
from gf_i2p.node.files.file_names import (
    CONFIG_FILE,
    DATABASE_FILE,
    HISTORY_DIRECTORY,
    MASTER_FILE,
    SECRETS_FILE,
    SOCKET_FILE,
)
from gf_i2p.node.files.trust import dialled
from gf_i2p.storage.private_files import Lock
from gf_i2p.wire.digest import Authenticator
from gf_i2p.wire.upgrade import ServerHandshake
from integration.harness.processes import free_ports
from tests.bridges.i2cp.fake_router import Clock, FakeRouter
from tests.bridges.simulated_i2pcontrol import I2PD, JAVA, PASSWORD, Recording, SimulatedRouter
from tests.transport.harness import Identity
from tests.transport.i2p.locked_router import LockedRouter

CLUSTER: Final = "farm"
PATIENCE: Final = 60.0
_TURNS: Final = 10
"""Turns of the event loop; an accepted connection is served three turns later."""
INTERFACES: Final = ("proxy", "sam", "i2cp", "i2pcontrol")

# The answer of i2pd 2.45.1 to GET http://gf--doctor.i2p/, without the style sheet and the list of jump services.
I2PD_UNKNOWN: Final = (
    b"HTTP/1.1 500 Internal Server Error\r\nConnection: close\r\nContent-Length: 276\r\n"
    b"Content-Type: text/html; charset=UTF-8\r\nDate: Sat, 21 Nov 2026 17:58:28 GMT\r\n\r\n"
    b"<html>\r\n<head>\r\n  <title>I2Pd HTTP proxy</title>\r\n</head>\r\n"
    b"<body><h1>Proxy error: Host not found</h1>\r\n<p>Remote host not found in router's addressbook</p>\r\n"
)
# The answer of Java I2P, by the status line and the links of the page dnfh-header.ht.
JAVA_UNKNOWN: Final = (
    b"HTTP/1.1 500 Domain Not Found\r\nContent-Type: text/html; charset=UTF-8\r\nReferrer-Policy: no-referrer\r\n"
    b"Cache-Control: no-cache\r\nConnection: close\r\nProxy-Connection: close\r\n\r\n<html><head>\n"
    b'<link href="http://proxy.i2p/themes/console/default/console.css" rel="stylesheet" type="text/css">\n'
)
# The answer of i2pd 2.45.1 when the router could make no stream.
I2PD_DOWN: Final = (
    b"HTTP/1.1 500 Internal Server Error\r\nConnection: close\r\nContent-Length: 80\r\n\r\n"
    b"<html><head><title>I2Pd HTTP proxy</title></head><body><h1>Proxy error: Host is down</h1>"
)

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class ScriptedRouter:
    """A simulated router: SOCKS or HTTP proxy, SAM, I2CP and i2pcontrol on loopback, with recorded answers.

    The router runs as long as the asynchronous context lasts. `without`: interfaces that are off.
    """

    def __init__(
        self,
        identity: Identity,
        *,
        java: bool = False,
        without: tuple[str, ...] = (),
        ahead: float = 0.0,
        i2cp_tls: bool = False,
    ) -> None:
        """`ahead`: seconds that the router's clock is ahead of this machine's. `i2cp_tls`: I2CP shows the identity."""
        self.java = java
        self.without = without
        self.fingerprint = identity.fingerprint
        self.ports = dict(zip(INTERFACES, free_ports(len(INTERFACES)), strict=True))
        self.peers: dict[str, Authenticator] = {}
        """Authenticators of the farm nodes, by address."""
        self.mute: set[str] = set()
        """Addresses from which no answer ever comes."""
        self.asked: list[str] = []
        """Hosts that the proxy was asked for."""
        self.proxy_says = JAVA_UNKNOWN if java else I2PD_UNKNOWN
        self.locked: LockedRouter | None = None
        """Lets only requests with a login through the proxy."""
        self.sam_login: tuple[str, str] | None = None
        """User and password that SAM wants."""
        self.sam_says: bytes | None = None
        """Bytes that SAM sends instead of an answer, before SAM hangs up."""
        self.silent: set[str] = set()
        """Interfaces that take connections, and say nothing."""
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(identity.certificate, identity.key)
        self.control = SimulatedRouter(Recording.load(JAVA if java else I2PD), tls, checks_tokens=java)
        clock = Clock()
        clock.now = time.time() + ahead
        self.i2cp = FakeRouter(RouterKind.JAVA if java else RouterKind.I2PD, clock, tls=tls if i2cp_tls else None)
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        for name, handler in (("proxy", self._proxy), ("sam", self._sam)):
            if name not in self.without:
                await self._serve(name, handler)
        if "i2cp" not in self.without:
            self.i2cp.port = self.ports["i2cp"]
            await self._stack.enter_async_context(self.i2cp)
        if "i2pcontrol" not in self.without:
            await self._stack.enter_async_context(self.control)
            self.ports["i2pcontrol"] = int(self.control.url.rstrip("/").rpartition(":")[2])
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    async def _serve(self, name: str, handler: Handler) -> None:
        tasks: set[asyncio.Task[None]] = set()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            tasks.add(task)
            try:
                with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
                    if name in self.silent:
                        await reader.read()
                    await handler(reader, writer)
            finally:
                tasks.discard(task)
                writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", self.ports[name])

        async def stop() -> None:
            # asyncio forgets a connection that is being accepted when the server closes: first accept no more.
            for listener in server.sockets:
                asyncio.get_running_loop().remove_reader(listener)
            for _ in range(_TURNS):
                await asyncio.sleep(0)
            server.close()
            for task in list(tasks):
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

        self._stack.push_async_callback(stop)

    async def _proxy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        whole = await reader.readuntil(b"\r\n\r\n")
        head = whole if self.locked is None else self.locked.admitted(whole, writer)
        if head is None:
            return
        host = head.split()[1].decode().removeprefix("http://").partition("/")[0].partition(":")[0]
        self.asked.append(host)
        if host in self.mute:
            await reader.read()
        elif host in self.peers:
            handshake = ServerHandshake({CLUSTER: self.peers[host]}, entropy=os.urandom)
            answer = handshake.receive(head, asyncio.get_running_loop().time())
            assert answer is not None
            writer.write(answer.data)
            if answer.user is not None:
                assert await reader.read() == b"", "nothing is sent after the handshake"
        else:
            writer.write(self.proxy_says if not host.endswith(".b32.i2p") else I2PD_DOWN)
        await writer.drain()

    async def _sam(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := (await reader.readline()).decode().strip():
            if self.sam_says is not None:
                writer.write(self.sam_says)
                return
            assert line.startswith("HELLO VERSION"), line
            if self.sam_login is not None and not line.endswith(" USER={} PASSWORD={}".format(*self.sam_login)):
                reason = "Authorization failed" if "USER=" in line else "USER and PASSWORD required"
                writer.write(f'HELLO REPLY RESULT=I2P_ERROR MESSAGE="{reason}"\n'.encode())
                return
            writer.write(b"HELLO REPLY RESULT=OK VERSION=3.1\n")
            await writer.drain()


class Place:
    """The directory of server 1 of a farm of three inside I2P: set up without faults to publish beside `router`."""

    def __init__(self, directory: Path, router: ScriptedRouter) -> None:
        self.router = router
        make_farm(directory, dict.fromkeys((1, 2, 3)), cluster=CLUSTER, profile="i2p", clients=[])
        self.directory = directory / "server-1"
        self.master, self.leaf = DestinationKeys.generate(), DestinationKeys.generate()
        url = f"https://127.0.0.1:{router.ports['i2pcontrol']}/"
        control = f'i2pcontrol = "{url}"\ni2pcontrol_fingerprint = "{router.fingerprint}"'
        self.change(
            CONFIG_FILE,
            ("127.0.0.1:4444", f"127.0.0.1:{router.ports['proxy']}"),
            ("127.0.0.1:7656", f"127.0.0.1:{router.ports['sam']}"),
            ("127.0.0.1:7654", f"127.0.0.1:{router.ports['i2cp']}"),
            ('# i2pcontrol = "https://127.0.0.1:7650/"', control),
            ('mode = "off"', 'mode = "meta"'),
            ('# leaf = "....b32.i2p"', f'leaf = "{self.leaf.destination.b32}"'),
        )
        key = '\nkey = "ed25519-private:'
        self.change(SECRETS_FILE, (key, f'\ni2pcontrol_password = "{PASSWORD}"{key}'))
        self.write_master(self.master)
        own = DestinationKeys.parse((self.directory / "destination.dat").read_bytes())
        router.i2cp.netdb = {keys.destination.hash: keys.destination for keys in (self.leaf, own)}
        for number in (2, 3):
            path = directory / f"server-{number}"
            address = DestinationKeys.parse((path / "destination.dat").read_bytes()).destination.b32
            router.peers[address] = Authenticator(
                CLUSTER,
                Secrets.load(path).verifiers,
                key=os.urandom(32),
                dialled=dialled(path, Config.load(path)),
                verify_signature=is_signed,
            )

    @property
    def own(self) -> str:
        keys = DestinationKeys.parse((self.directory / "destination.dat").read_bytes())
        return keys.destination.b32

    @property
    def peers(self) -> list[str]:
        return list(self.router.peers)

    def change(self, name: str, *pairs: tuple[str, str]) -> None:
        path = self.directory / name
        text = path.read_text()
        for old, new in pairs:
            assert text.count(old) == 1, (old, text.count(old))
            text = text.replace(old, new)
        path.write_text(text)

    def write_master(self, keys: DestinationKeys) -> None:
        path = self.directory / MASTER_FILE
        path.touch(mode=0o600)
        path.write_bytes(keys.encode())

    async def look(self, **seconds: float) -> dict[str, CheckResult]:
        """Make all checks. `seconds`: time-outs of single checks by name; the other checks have a long time-out."""
        checks = [
            replace(check, seconds=seconds.get(check.name, max(check.seconds, PATIENCE)))
            for group in all_checks(self.directory)
            for check in group
        ]
        findings = await examine(checks, lambda _: None, lambda *_: None)
        return {finding.name: finding.result for finding in findings}


class RunningNode:
    """The visible parts of a running node: the socket and the lock.

    Both exist as long as the asynchronous context lasts.
    """

    def __init__(self, directory: Path, *, tree: str | None = None, **status: Any) -> None:
        """`tree`: the farm's parameter of this name; None: the node does not tell."""
        self._directory = directory
        self._tree = tree
        self.status = {
            "id": 1, "leader": 2, "healthy": True, "membership": "member", "uptime": 3725.5,
            "quorum": {"reachable": 3, "needed": 2, "servers": 3}, "servers": [],
            "log": {"applied": 0}, "history": {"exported": 0, "lag": 0}, **status,
        }  # fmt: skip

    async def __aenter__(self) -> Self:
        self._lock = Lock(self._directory / DATABASE_FILE)
        (self._directory / HISTORY_DIRECTORY).mkdir(mode=0o700, exist_ok=True)
        app = web.Application()
        app.add_routes([web.get("/v1/status", self._answer)])
        if self._tree is not None:
            app.add_routes([web.get("/v1/administration", self._administration)])
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
        await self._runner.setup()
        await web.UnixSite(self._runner, str(self._directory / SOCKET_FILE)).start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._runner.cleanup()
        self._lock.close()

    async def _answer(self, _: web.Request) -> web.Response:
        return web.json_response(self.status)

    async def _administration(self, _: web.Request) -> web.Response:
        return web.json_response({"parameters": {"tree": {"value": self._tree}}})


def having(state: CheckState, results: dict[str, CheckResult]) -> dict[str, str]:
    """Give the texts of the checks with this outcome, by name."""
    return {name: result.text for name, result in results.items() if result.state is state}


def remedy(result: CheckResult) -> str:
    """Give both sentences of a remedy."""
    assert result.remedy is not None
    return f"{result.remedy.i2pd}\n{result.remedy.java}"
