"""Recognises a router by its proxy's answer about an address that nobody can have."""

import asyncio
import os
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from bridges.i2pcontrol.router_answers import RouterProgram
from gf_i2p.transport.errors import error_text
from gf_i2p.wire.errors import RemoteProtocolError
from gf_i2p.wire.http_get import Challenges, Retry, response_of, values_of
from gf_i2p.wire.http_head import HeadReader
from gf_i2p.wire.proxy_login import AUTHENTICATE, AUTHORIZATION, ProxyAuthorization, ProxyLogin, ProxyLoginError

HOST: Final = "gf--doctor.i2p"
"""A name that nobody can register: in I2P, the third and fourth characters of a name must not both be hyphens.

So no request for this name leaves the router.
"""
MAX_ANSWER_BYTES: Final = 16 * 1024
_STATUS: Final = re.compile(rb"HTTP/1\.[01] (\d{3})[ \r]")
_URL: Final = f"http://{HOST}/"
_SOCKS_HELLO: Final = b"\x05\x01\x00"
_SOCKS_HELLO_WITH_LOGIN: Final = b"\x05\x02\x00\x02"
_SOCKS_LOGIN_WANTED: Final = b"\x05\x02"
_SOCKS_LOGIN_ACCEPTED: Final = b"\x01\x00"
_SOCKS_ACCEPTED: Final = b"\x05\x00"
_SOCKS_REFUSED: Final = b"\x05\xff"

_Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class ProxyError(Exception):
    """No proxy answers, or the answer is not from the proxy of an I2P router; `str()` says more."""


class ProxyAuthorisationError(ProxyError):
    """The proxy wants a user name and a password, or refuses those that are set."""


async def ask_http(host: str, port: int, login: ProxyLogin | None = None) -> RouterProgram | None:
    """Return the kind of router whose HTTP proxy answers; None: the answer shows no known kind. Raises `ProxyError`."""
    challenges = Challenges()
    while True:
        now = asyncio.get_running_loop().time()
        sent = None if login is None else login.authorize("GET", _URL, now, os.urandom)
        authorization = "" if sent is None else f"{AUTHORIZATION}: {sent.value}\r\n"
        request = f"GET {_URL} HTTP/1.1\r\nHost: {HOST}\r\nConnection: close\r\n{authorization}\r\n"
        async with _connected(host, port) as streams:
            answer = await _ask(streams, request.encode(), MAX_ANSWER_BYTES)
        status_line = _STATUS.match(answer)
        if login is None or status_line is None or status_line[1] != b"407":
            return read_answer(answer)
        _take_challenge(login, answer, now, sent)
        if not challenges.admit(Retry(by_proxy=True)):
            raise ProxyAuthorisationError("the proxy asks for the user name and the password again and again")


def _take_challenge(login: ProxyLogin, answer: bytes, now: float, sent: ProxyAuthorization | None) -> None:
    try:
        head = HeadReader().feed(answer)
        if head is None:
            raise ProxyError("the answer 407 is not whole")
        login.challenged(values_of(response_of(head.text), AUTHENTICATE), now, sent)
    except ProxyLoginError as error:
        raise ProxyAuthorisationError(str(error).partition(": check ")[0]) from error
    except RemoteProtocolError as error:
        raise ProxyError(f"the answer 407 cannot be read: {error}") from error


def read_answer(answer: bytes) -> RouterProgram | None:
    """Return the kind of router that has sent this answer of its HTTP proxy; None: the kind is not known.

    i2pd 2.45 and 2.58 answer with status 500. Java answers with 500, 502, 503 or 504, by version and state. Raises
    `ProxyError` when the answer is not from a router's proxy, or asks for a login.
    """
    status_line = _STATUS.match(answer)
    if status_line is None:
        raise ProxyError("the answer is not HTTP" if answer else "the proxy closes the connection without an answer")
    status = int(status_line[1])
    if status == 407:
        raise ProxyAuthorisationError("the proxy wants a user name and a password")
    if b"proxy.i2p" in answer:
        return RouterProgram.JAVA  # Java's error pages load their style sheet from this host
    if b"I2Pd HTTP proxy" in answer:
        return RouterProgram.I2PD
    if status < 500:
        raise ProxyError(f"this is not the proxy of an I2P router: the answer to an address in .i2p is {status}")
    return None


async def ask_socks(host: str, port: int, login: tuple[str, str] | None = None) -> None:
    """Return when a SOCKS 5 proxy does not connect to the address that nobody has. Otherwise raises `ProxyError`.

    `login`: user and password in ASCII, sent only to a proxy that asks (RFC 1929).
    """
    async with _connected(host, port) as streams:
        greeting = await _ask(streams, _SOCKS_HELLO if login is None else _SOCKS_HELLO_WITH_LOGIN, 2)
        if login is not None and greeting == _SOCKS_LOGIN_WANTED:
            user, password = (text.encode("ascii") for text in login)
            request = b"\x01" + bytes([len(user)]) + user + bytes([len(password)]) + password
            if await _ask(streams, request, 2) != _SOCKS_LOGIN_ACCEPTED:
                raise ProxyAuthorisationError(f"the proxy refuses user {login[0]} or its password")
            greeting = _SOCKS_ACCEPTED
        if greeting == _SOCKS_REFUSED:
            raise ProxyAuthorisationError("the proxy wants a user name and a password")
        if greeting != _SOCKS_ACCEPTED:
            raise ProxyError(
                "the answer is not SOCKS 5" if greeting else "the proxy closes the connection without an answer"
            )
        name = HOST.encode()
        connect = b"\x05\x01\x00\x03" + bytes([len(name)]) + name + b"\x00\x50"
        if await _ask(streams, connect, 2) == _SOCKS_ACCEPTED:
            raise ProxyError("this is not the proxy of an I2P router: it connects to an address that nobody has")


@asynccontextmanager
async def _connected(host: str, port: int) -> AsyncIterator[_Streams]:
    try:
        streams = await asyncio.open_connection(host, port)
    except OSError as error:
        raise ProxyError(f"nobody answers at {host}:{port} ({error_text(error)})") from error
    try:
        yield streams
    except OSError as error:
        raise ProxyError(f"the proxy breaks the connection ({error_text(error)})") from error
    finally:
        streams[1].close()


async def _ask(streams: _Streams, request: bytes, length: int) -> bytes:
    """Send the request; return the first `length` bytes of the answer, or fewer when the answer is shorter."""
    reader, writer = streams
    writer.write(request)
    try:
        return await reader.readexactly(length)
    except asyncio.IncompleteReadError as error:
        return error.partial
