"""Asks a router's proxy for an address that nobody can have: it answers by itself, and shows what it is."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from bridges.i2pcontrol.router_info import Kind
from gf_i2p.transport.tls.tcp_sockets import why

HOST: Final = "gf--doctor.i2p"
"""Never anybody's: names in I2P have no two hyphens there. So nothing leaves the router."""
MAX_ANSWER_BYTES: Final = 16 * 1024
_STATUS: Final = re.compile(rb"HTTP/1\.[01] (\d{3})[ \r]")
_SOCKS_HELLO: Final = b"\x05\x01\x00"
_SOCKS_ACCEPTED: Final = b"\x05\x00"
_SOCKS_REFUSED: Final = b"\x05\xff"

_Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class ProxyError(Exception):
    """It is not there, or no proxy of an I2P router; `str()` says what it is."""


class ProxyAuthorisationError(ProxyError):
    """It wants a password of its own."""


async def ask_http(host: str, port: int) -> Kind | None:
    """Return which router's HTTP proxy it is, None when it does not show. Raises `ProxyError`."""
    request = f"GET http://{HOST}/ HTTP/1.1\r\nHost: {HOST}\r\nConnection: close\r\n\r\n"
    async with _connected(host, port) as streams:
        return read_answer(await _ask(streams, request.encode(), MAX_ANSWER_BYTES))


def read_answer(answer: bytes) -> Kind | None:
    """Tell by what came. Both answer 5xx: i2pd 500 (2.45, 2.58), Java 500, 502, 503 or 504 by version and state."""
    found = _STATUS.match(answer)
    if found is None:
        raise ProxyError("what answers does not speak HTTP" if answer else "it hangs up without an answer")
    status = int(found[1])
    if status == 407:
        raise ProxyAuthorisationError("it wants a user name and a password")
    if b"proxy.i2p" in answer:
        return Kind.JAVA  # where its pages have their style sheet from
    if b"I2Pd HTTP proxy" in answer:
        return Kind.I2PD
    if status < 500:
        raise ProxyError(f"what answers is no proxy of an I2P router: it says {status} to an address in .i2p")
    return None


async def ask_socks(host: str, port: int) -> None:
    """Return when a SOCKS 5 proxy answers that has no such address. Raises `ProxyError`."""
    async with _connected(host, port) as streams:
        greeting = await _ask(streams, _SOCKS_HELLO, 2)
        if greeting == _SOCKS_REFUSED:
            raise ProxyAuthorisationError("it wants a user name and a password")
        if greeting != _SOCKS_ACCEPTED:
            raise ProxyError("what answers does not speak SOCKS 5" if greeting else "it hangs up without an answer")
        name = HOST.encode()
        connect = b"\x05\x01\x00\x03" + bytes([len(name)]) + name + b"\x00\x50"
        if await _ask(streams, connect, 2) == _SOCKS_ACCEPTED:
            raise ProxyError("what answers is no proxy of an I2P router: it connects to an address that nobody has")


@asynccontextmanager
async def _connected(host: str, port: int) -> AsyncIterator[_Streams]:
    try:
        streams = await asyncio.open_connection(host, port)
    except OSError as error:
        raise ProxyError(f"nobody answers at {host}:{port} ({why(error)})") from error
    try:
        yield streams
    except OSError as error:
        raise ProxyError(f"it breaks the connection ({why(error)})") from error
    finally:
        streams[1].close()


async def _ask(streams: _Streams, request: bytes, most: int) -> bytes:
    """Return so many bytes of the answer, fewer when it ends before."""
    reader, writer = streams
    writer.write(request)
    try:
        return await reader.readexactly(most)
    except asyncio.IncompleteReadError as error:
        return error.partial
