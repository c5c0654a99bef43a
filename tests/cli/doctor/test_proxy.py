"""Whether a port belongs to a proxy, and to which one: by the answers of real proxies."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from bridges.i2pcontrol.router_answers import RouterProgram
from gf_i2p.cli.doctor.proxy import ProxyAuthorisationError, ProxyError, ask_http, ask_socks, read_answer
from tests.cli.routers import I2PD_DOWN, I2PD_UNKNOWN, JAVA_UNKNOWN
from tests.transport.harness import soon


@asynccontextmanager
async def answering(*answers: bytes) -> AsyncIterator[int]:
    """Serve one answer for each read, then hang up; yield the server's port."""

    served = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            for answer in answers:
                await reader.read(1024)
                writer.write(answer)
                await writer.drain()
        except ConnectionError:
            pass  # the client has heard enough
        finally:
            writer.close()
            served.set()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1]
        await soon(served.wait())  # each test makes one connection: the garbage collector must find none


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (I2PD_UNKNOWN, RouterProgram.I2PD),
        (I2PD_DOWN, RouterProgram.I2PD),
        (JAVA_UNKNOWN, RouterProgram.JAVA),
        (b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\n\r\n", None),
    ],
)
async def test_proxies(answer: bytes, kind: RouterProgram | None) -> None:
    assert read_answer(answer) is kind
    async with answering(answer) as port:
        assert await ask_http("127.0.0.1", port) is kind


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (
            b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n",
            "the answer to an address in .i2p is 200",
        ),  # i2pd's console
        (b"HTTP/1.1 404 Not Found\r\n\r\n", "the answer to an address in .i2p is 404"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "the answer is not HTTP"),
        (b"", "closes the connection without an answer"),  # i2pd's SAM
    ],
)
async def test_what_is_no_proxy(answer: bytes, text: str) -> None:
    async with answering(answer) as port:
        with pytest.raises(ProxyError, match=text):
            await ask_http("127.0.0.1", port)


def test_a_proxy_with_a_password() -> None:
    with pytest.raises(ProxyAuthorisationError):
        read_answer(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n<link href=http://proxy.i2p/x>")


async def test_socks() -> None:
    async with answering(b"\x05\x00", b"\x05\x04\x00\x01\x00\x00\x00\x00\x00\x00") as port:
        await ask_socks("127.0.0.1", port)
    async with answering(b"\x05\xff") as port:
        with pytest.raises(ProxyAuthorisationError):
            await ask_socks("127.0.0.1", port)
    async with answering(b"HTTP/1.1 400 Bad Request\r\n\r\n") as port:
        with pytest.raises(ProxyError, match="the answer is not SOCKS 5"):
            await ask_socks("127.0.0.1", port)
    async with answering(b"\x05\x00", b"\x05\x00\x00\x01\x00\x00\x00\x00\x00\x00") as port:
        with pytest.raises(ProxyError, match="connects to an address that nobody has"):
            await ask_socks("127.0.0.1", port)
