"""Digest and the upgrade against programs of other authors, over real sockets on loopback.

Our server against curl, requests and aiohttp; our client against Apache httpd and lighttpd.
"""

import asyncio
import contextlib
import re
import secrets
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
import pytest
import requests
import requests.auth

from gf_i2p.wire.digest import Authenticator, Credentials, Secret
from gf_i2p.wire.http_get import HandshakeRefused, Retry
from gf_i2p.wire.upgrade import AuthenticatedUser, ClientHandshake, ServerHandshake, Upgraded
from integration.harness.processes import free_ports
from tests.wire.handshakes import PASSWORD, PATH, USER
from tests.wire.web_servers import (
    CURL,
    apache,
    lighttpd,
    needs_apache,
    needs_curl,
    needs_lighttpd,
    public_folder,
    websocket_backend,
)

# --- Our server -------------------------------------------------------------------------------------------

UPGRADE = {"Connection": "keep-alive, Upgrade", "Upgrade": "websocket"}
OFFERS = pytest.mark.parametrize(
    ("offer", "used"), [("SHA-256", "SHA-256"), ("MD5", "MD5"), ("SHA-256 MD5", None)], ids=["SHA-256", "MD5", "both"]
)


@dataclass
class Served:
    """The results of the project's server half behind a socket."""

    offer: str
    port: int = 0
    statuses: list[int] = field(default_factory=list)
    users: list[AuthenticatedUser] = field(default_factory=list)
    authorizations: list[str] = field(default_factory=list)
    farm: Authenticator = field(
        default_factory=lambda: Authenticator(
            "farm", {USER: Secret.derive(USER, "farm", PASSWORD)}, key=secrets.token_bytes(32)
        )
    )

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}{PATH}"

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        handshake = ServerHandshake({"farm": self.farm}, entropy=secrets.token_bytes)
        answer = None
        while answer is None and (data := await reader.read(4096)):
            self.authorizations += re.findall(r"(?mi)^Authorization: (.*)\r$", data.decode("latin-1"))
            answer = handshake.receive(data, time.monotonic())
        if answer is not None:
            self.statuses.append(int(answer.data.split()[1]))
            if answer.user is not None:
                self.users.append(answer.user)
            writer.write(b"".join(line for line in answer.data.splitlines(keepends=True) if self._is_offered(line)))
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()

    def _is_offered(self, line: bytes) -> bool:
        algorithm = re.search(rb"algorithm=([^,]+)", line)
        return algorithm is None or algorithm[1].decode() in self.offer.split()

    def check(self, used: str | None, statuses: list[int]) -> None:
        assert self.statuses == statuses
        assert self.users == [AuthenticatedUser("farm", USER)] * statuses.count(101)
        for header in self.authorizations:
            assert used is None or re.search(rf'algorithm="?{used}"?,|algorithm="?{used}"?$', header)


@contextlib.asynccontextmanager
async def serving(offer: str) -> AsyncIterator[Served]:
    served = Served(offer)
    server = await asyncio.start_server(served.handle, "127.0.0.1", 0)
    served.port = server.sockets[0].getsockname()[1]
    try:
        yield served
    finally:
        server.close()
        await server.wait_closed()


async def curl(*arguments: str) -> list[int]:
    """Give the statuses of the last answers, one to a URL."""
    assert CURL is not None
    fixed = ("--silent", "--show-error", "--noproxy", "*", "--http1.1", "--max-time", "20", "--digest")
    process = await asyncio.create_subprocess_exec(
        CURL,
        *fixed,
        *("--write-out", "%{http_code}\n", "--output", "/dev/null"),
        *arguments,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    output, errors = await process.communicate()
    # 52: after a 101 curl waits for an HTTP answer, but the server closes.
    assert process.returncode in (0, 52), errors
    return [int(line) for line in output.split()]


CURL_UPGRADE = ("--header", "Connection: Upgrade", "--header", "Upgrade: websocket")


@needs_curl
@OFFERS
async def test_our_server_takes_curl(offer: str, used: str | None) -> None:
    async with serving(offer) as served:
        assert await curl("--user", f"{USER}:{PASSWORD}", *CURL_UPGRADE, served.url) == [101]
    served.check(used, [401, 101])


@needs_curl
@pytest.mark.parametrize("user", [f"{USER}:wrong", f"server-77:{PASSWORD}"])
async def test_our_server_refuses_curl_with_wrong_credentials(user: str) -> None:
    async with serving("SHA-256 MD5") as served:
        assert await curl("--user", user, *CURL_UPGRADE, served.url) == [401]
    served.check(None, [401, 401])


@needs_curl
async def test_curl_through_the_absolute_form_of_a_proxy() -> None:
    # curl takes the server for a proxy and so sends the absolute form, with the path as Digest's uri.
    async with serving("SHA-256 MD5") as served:
        arguments = ("--noproxy", "", "--proxy", f"http://127.0.0.1:{served.port}", "--user", f"{USER}:{PASSWORD}")
        assert await curl(*arguments, *CURL_UPGRADE, f"http://abcd.b32.i2p{PATH}") == [101]
    served.check(None, [401, 101])


def get_with_requests(url: str, times: int, password: str = PASSWORD) -> list[int]:
    """Make GETs with one Digest client's memory, but separate connections: the server closes after the 101."""
    auth = requests.auth.HTTPDigestAuth(USER, password)
    statuses = []
    for _ in range(times):
        with requests.Session() as session:
            session.trust_env = False
            statuses.append(session.get(url, headers=UPGRADE, auth=auth, timeout=20).status_code)
    return statuses


@OFFERS
async def test_our_server_takes_requests_and_its_reconnect_is_one_request(offer: str, used: str | None) -> None:
    async with serving(offer) as served:
        assert await asyncio.to_thread(get_with_requests, served.url, 3) == [101, 101, 101]
    served.check(used, [401, 101, 101, 101])


async def test_our_server_refuses_requests_with_a_wrong_password() -> None:
    async with serving("SHA-256 MD5") as served:
        assert await asyncio.to_thread(get_with_requests, served.url, 1, "wrong") == [401]
    served.check(None, [401, 401])


@OFFERS
async def test_our_server_takes_aiohttp_and_its_reconnect_is_one_request(offer: str, used: str | None) -> None:
    middleware = aiohttp.DigestAuthMiddleware(USER, PASSWORD)
    async with serving(offer) as served, aiohttp.ClientSession(middlewares=(middleware,)) as session:
        for _ in range(3):
            async with session.get(served.url, headers=UPGRADE) as response:
                assert response.status == 101
    served.check(used, [401, 101, 101, 101])


async def test_our_server_refuses_aiohttp_with_a_wrong_password() -> None:
    middleware = aiohttp.DigestAuthMiddleware(USER, "wrong")
    async with (
        serving("SHA-256 MD5") as served,
        aiohttp.ClientSession(middlewares=(middleware,)) as session,
        session.get(served.url, headers=UPGRADE) as response,
    ):
        assert response.status == 401
    served.check(None, [401, 401])


# --- Our client -------------------------------------------------------------------------------------------


@dataclass
class Dialler:
    """Connects as a link does; `sent` are the requests, and `statuses` the answers' status codes."""

    credentials: Credentials
    sent: list[str] = field(default_factory=list)
    statuses: list[int] = field(default_factory=list)

    async def dial(self, port: int) -> int:
        """Connect until the server accepts the client, check the connection; return the number of requests."""
        for number in (1, 2):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            try:
                outcome = await self._shake_hands(port, reader, writer)
                if isinstance(outcome, Upgraded):
                    raft = bytes(range(256))
                    writer.write(raft)
                    assert outcome.rest + await reader.readexactly(256) == raft
                    writer.write_eof()
                    assert await reader.read() == b""
                    return number
                assert outcome == Retry()
            finally:
                writer.close()
                with contextlib.suppress(ConnectionError):
                    await writer.wait_closed()
        raise AssertionError("a third request would be needed")

    async def _shake_hands(
        self, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> Upgraded | Retry:
        client = ClientHandshake(
            host=f"127.0.0.1:{port}",
            cluster="farm",
            credentials=self.credentials,
            now=time.monotonic(),
            entropy=secrets.token_bytes,
        )
        self.sent.append(client.request().decode())
        writer.write(client.request())
        line = await reader.readuntil(b"\n")
        self.statuses.append(int(line.split()[1]))
        outcome = client.receive(line, time.monotonic())
        while outcome is None:
            data = await reader.read(4096)
            assert data, "closed before the answer was complete"
            outcome = client.receive(data, time.monotonic())
        return outcome

    def counts(self) -> list[str]:
        return [" ".join(re.findall(r"nc=0*(\w+)", request)) for request in self.sent]

    def algorithms(self) -> set[str]:
        return set(re.findall(r"algorithm=([^,]*)", "".join(self.sent)))


Starter = Callable[[Path, int, int], contextlib.AbstractAsyncContextManager[None]]


def lighttpd_with(algorithms: str) -> Starter:
    return lambda folder, port, backend: lighttpd(folder, port, backend, algorithms)


SERVERS = pytest.mark.parametrize(
    ("start", "algorithm"),
    [
        pytest.param(apache, "MD5", marks=needs_apache, id="Apache"),
        pytest.param(lighttpd_with("MD5"), "MD5", marks=needs_lighttpd, id="lighttpd-MD5"),
        pytest.param(lighttpd_with("SHA-256"), "SHA-256", marks=needs_lighttpd, id="lighttpd-SHA-256"),
        pytest.param(lighttpd_with("MD5|SHA-256"), "SHA-256", marks=needs_lighttpd, id="lighttpd-both"),
    ],
)


@SERVERS
async def test_our_client_is_let_in_and_its_reconnect_is_one_request(start: Starter, algorithm: str) -> None:
    client = Dialler(Credentials(USER, PASSWORD))
    [port] = free_ports(1)
    with public_folder() as folder:
        async with websocket_backend() as backend, start(folder, port, backend):
            assert [await client.dial(port) for _ in range(3)] == [2, 1, 1]
    assert client.statuses == [401, 101, 101, 101]
    assert client.counts() == ["", "1", "2", "3"]
    assert client.algorithms() == {algorithm}


@needs_apache
async def test_after_a_restart_apache_says_stale_and_we_come_back_with_its_new_nonce() -> None:
    client = Dialler(Credentials(USER, PASSWORD))
    [port] = free_ports(1)
    with public_folder() as folder:
        async with websocket_backend() as backend:
            async with apache(folder, port, backend):
                assert await client.dial(port) == 2
            async with apache(folder, port, backend):
                assert [await client.dial(port) for _ in range(2)] == [2, 1]
    assert client.statuses == [401, 101, 401, 101, 101]
    assert client.counts() == ["", "1", "2", "1", "2"]


@SERVERS
async def test_our_client_is_refused_with_a_wrong_password(start: Starter, algorithm: str) -> None:
    client = Dialler(Credentials(USER, "wrong"))
    [port] = free_ports(1)
    with public_folder() as folder:
        async with websocket_backend() as backend, start(folder, port, backend):
            with pytest.raises(HandshakeRefused, match=f"the peer refuses user {USER} or its password"):
                await client.dial(port)
    assert client.statuses == [401, 401]


@needs_lighttpd
async def test_our_client_notices_that_a_server_was_made_weaker() -> None:
    client = Dialler(Credentials(USER, PASSWORD))
    [port] = free_ports(1)
    with public_folder() as folder:
        async with websocket_backend() as backend:
            async with lighttpd(folder, port, backend, "MD5|SHA-256"):
                assert await client.dial(port) == 2
            async with lighttpd(folder, port, backend, "MD5"):
                with pytest.raises(HandshakeRefused, match="offered SHA-256 earlier and now only MD5"):
                    await client.dial(port)
