"""The transport asks only the router's proxy for a name in .i2p, and never the system's resolver."""

import asyncio
import contextlib
import re
import socket
import sys
from collections.abc import AsyncIterator
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from gf_i2p.transport.connection_gate import Gate
from gf_i2p.transport.errors import DialError, TransportError
from gf_i2p.transport.i2p.i2p_listener import ConfiguredTunnel
from gf_i2p.transport.i2p.i2p_transport import I2pTransport, ProxyMethod, ProxySettings
from gf_i2p.transport.stream_protocol import StreamProtocol
from gf_i2p.transport.tls.tls_transport import TlsSettings, TlsTransport
from tests.storage.disk_after_crash import ROOT, why_no_strace
from tests.transport.harness import PATIENCE, ask, connected, echo, request, soon
from tests.transport.i2p.i2p_harness import PLACE, Router, attempt, listening, serving_inside, taken_port, through

pytestmark = pytest.mark.usefixtures("unhandled")

every_way = pytest.mark.parametrize("way", ProxyMethod)
RESOLVERS = ("getaddrinfo", "gethostbyname", "gethostbyname_ex", "gethostbyaddr", "getnameinfo", "getfqdn")


def is_address(host: object) -> bool:
    host = host[0] if isinstance(host, tuple) else host
    try:
        ip_address(host.decode() if isinstance(host, bytes) else str(host))
    except ValueError:
        return host is None
    return True


@pytest_asyncio.fixture
async def looked_up(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[list[str]]:
    """Record each name that this process looks up, and let each look-up fail. IP addresses pass unrecorded."""
    lookups: list[str] = []
    loop = asyncio.get_running_loop()

    def refuse(name: str, host: object) -> None:
        if not is_address(host):
            lookups.append(f"{name}({host!r})")
            raise socket.gaierror(socket.EAI_NONAME, "nothing is found in this test")

    def watch(name: str) -> None:
        resolve = getattr(socket, name)

        def watched(host: Any, *arguments: Any, **options: Any) -> Any:
            refuse(name, host)
            return resolve(host, *arguments, **options)

        monkeypatch.setattr(socket, name, watched)

    def watch_loop(name: str) -> None:
        resolve = getattr(loop, name)

        async def watched(host: Any, *arguments: Any, **options: Any) -> Any:
            refuse(name, host)
            return await resolve(host, *arguments, **options)

        monkeypatch.setattr(loop, name, watched)

    for name in RESOLVERS:
        watch(name)
    for name in ("getaddrinfo", "getnameinfo"):
        watch_loop(name)  # uvloop has a separate resolver
    yield lookups


@every_way
async def test_nothing_is_looked_up_when_a_farm_is_reached(way: ProxyMethod, looked_up: list[str]) -> None:
    router = Router()
    async with (
        serving_inside(router, echo) as farm,
        listening(router.proxy(way)) as port,
        connected(farm, transport=through(port, way)) as link,
    ):
        assert await soon(ask(link, request())) is not None
    assert looked_up == []


@every_way
@pytest.mark.parametrize("failure", ["unknown", "absent", "hanging", "closing"])
async def test_nothing_is_looked_up_when_it_is_not(way: ProxyMethod, failure: str, looked_up: list[str]) -> None:
    router = Router()

    async def behave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if failure == "unknown":
            await router.proxy(way)(reader, writer)
        elif failure == "hanging":
            await reader.read()

    deadline = 0.05 if failure == "hanging" else PATIENCE
    if failure == "absent":
        with taken_port() as sock:
            await attempt(sock.getsockname()[1], way)
    else:
        async with listening(behave) as port:
            await attempt(port, way, deadline=deadline)
    assert looked_up == []


async def test_nothing_is_looked_up_that_is_given_to_the_wrong_place(looked_up: list[str]) -> None:
    with pytest.raises(DialError):
        await TlsTransport(TlsSettings(fingerprints={PLACE: ["ab" * 32]})).dial(
            PLACE, StreamProtocol, deadline=PATIENCE
        )
    with pytest.raises(TransportError):
        ProxySettings(PLACE.host)
    for transport in (
        I2pTransport(ProxySettings(), inbound=ConfiguredTunnel(), host=PLACE.host),
        TlsTransport(TlsSettings(), host=PLACE.host),
    ):
        with pytest.raises(TransportError):
            await transport.listen(lambda _: StreamProtocol(), Gate())
    assert looked_up == []


async def test_the_watch_of_these_tests_sees_what_is_looked_up(looked_up: list[str]) -> None:
    with contextlib.suppress(OSError):
        await asyncio.open_connection("a.i2p", 1, local_addr=None)
    for name in RESOLVERS:
        arguments: list[Any] = {"getaddrinfo": ["b.i2p", 1], "getnameinfo": [("c.i2p", 1), 0]}.get(name, ["d.i2p"])
        with pytest.raises(socket.gaierror):
            getattr(socket, name)(*arguments)
    with pytest.raises(socket.gaierror):
        await asyncio.get_running_loop().getaddrinfo("e.i2p", 1)
    assert {call.partition("(")[0] for call in looked_up} == set(RESOLVERS)
    assert "getaddrinfo('e.i2p')" in looked_up


# --- Calls that the kernel sees ---------------------------------------------------------------------------

CALL = re.compile(
    r"^\d+ +(?:connect|bind|send\w+)\(.*?sa_family=(\w+)(?:.*?htons\((\d+)\).*?\"([^\"]*)\")?", re.MULTILINE
)


def places(trace: str) -> list[str]:
    """Return from strace's output the addresses that the process has connected to or sent packets to."""
    return [f"{host}:{port}" if port else family for family, port, host in CALL.findall(trace)]


def test_places_are_read_from_a_trace() -> None:
    trace = """\
7 socketpair(AF_UNIX, SOCK_STREAM|SOCK_CLOEXEC, 0, [4, 5]) = 0
7 getsockname(6, {sa_family=AF_INET, sin_port=htons(38242), sin_addr=inet_addr("127.0.0.1")}, [16]) = 0
7 sendto(6, "GET http://ukeu3k5oycgaauneqgtnv"..., 234, 0, NULL, 0) = 234
8 connect(5, {sa_family=AF_UNIX, sun_path="/var/run/nscd/socket"}, 110) = -1 ENOENT (No such file or directory)
8 connect(5, {sa_family=AF_INET, sin_port=htons(53), sin_addr=inet_addr("192.0.2.1")}, 16 <unfinished ...>
8 sendmmsg(5, [{msg_hdr={msg_name=NULL, msg_namelen=0}, msg_len=28}], 1, MSG_NOSIGNAL) = 1
8 sendto(5, "q", 1, 0, {sa_family=AF_INET6, sin6_port=htons(5), inet_pton(AF_INET6, "::1", 9)}, 28) = 1
8 +++ exited with 0 +++
"""
    assert places(trace) == ["AF_UNIX", "192.0.2.1:53", "::1:5"]


@every_way
@pytest.mark.parametrize("reached", [True, False])
async def test_the_kernel_sees_connections_to_the_proxy_and_nothing_else(
    way: ProxyMethod, reached: bool, tmp_path: Path
) -> None:
    if (reason := why_no_strace()) is not None:
        pytest.skip(reason)
    loop = "uvloop" if "uvloop" in type(asyncio.get_running_loop()).__module__ else "asyncio"
    router = Router()
    async with serving_inside(router, echo), listening(router.proxy(way)) as port:
        process = await asyncio.create_subprocess_exec(
            *["strace", "-f", "-e", "trace=network", "-o", str(tmp_path / "trace"), sys.executable],
            *[
                "-m",
                "tests.transport.i2p.dialler",
                way,
                str(port),
                loop,
                PLACE.host if reached else "nobody.i2p",
                "7001",
            ],
            cwd=ROOT,
            stdout=asyncio.subprocess.PIPE,
        )
        output, _ = await soon(process.communicate())
    assert (output.splitlines()[-1] == b"up") is reached, output
    dials = 2 if reached else 1
    connections = 2 * dials if way is ProxyMethod.SOCKS5 else dials  # each dial greets first
    assert places((tmp_path / "trace").read_text()) == [f"127.0.0.1:{port}"] * connections
