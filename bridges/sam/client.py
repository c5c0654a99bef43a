"""The part of SAM 3.1 that a node needs: the login, destinations, names, and a session that forwards or opens streams.

Version 3.1 is chosen on purpose: 3.1 is enough, and with 3.1 Java I2P sends no PING. A PING makes i2pd hang up. Values
have no spaces, since i2pd splits at every space (I2P's SAM v3 specification, API 0.9.66; i2pd 2.45.1). USER and
PASSWORD belong to SAM 3.2, and Java reads them before it chooses the version (SAMHandlerFactory). i2pd ignores them.
"""

import asyncio
import contextlib
import os
import re
import secrets
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Final, Self

from i2plib import sam

from bridges.errors import LoginRefusedError, RouterError, RouterRefusedError, RouterUnreachableError
from bridges.sam.reply import destination_of, keys_of, message_of, parse_reply, printable, result_of, value_of
from gf_i2p.netdb.destination import Destination
from gf_i2p.netdb.private_keys import DestinationKeys

VERSION: Final = "3.1"
DEFAULT_PORT: Final = 7656
ANSWER_SECONDS: Final = 30.0
"""Most seconds for an answer that needs no tunnels."""
LOOKUP_SECONDS: Final = 60.0
"""Most seconds for the look-up of a name. i2pd asks one floodfill after another, for up to 40 s."""
SESSION_SECONDS: Final = 120.0
"""Most seconds for SESSION CREATE and STREAM CONNECT: the router may have to build tunnels first."""
MAX_LINE_BYTES: Final = 4096
_NO_SUCH: Final = frozenset({"KEY_NOT_FOUND", "INVALID_KEY", "LEASESET_NOT_FOUND"})
_REFUSALS: Final = frozenset({"SESSION STATUS", "STREAM STATUS"})
"""i2pd sometimes sends one of these replies where the protocol wants the other one."""
_ADVICE: Final = {
    "NOVERSION": "the router speaks no SAM 3.1: update the router",
    "DUPLICATED_DEST": "another session has this destination: no other node or tunnel may have the same keys",
    "INVALID_KEY": "check the keys or the address",
    "INVALID_ID": "the session has ended",
    "CANT_REACH_PEER": "check the address, and that the peer's router is up and has tunnels",
    "TIMEOUT": "check that the peer's router is up and has tunnels",
    "CONNECTION_REFUSED": "check that the peer's node runs",
}
_WORD: Final = re.compile(r"[!-~]{1,1024}")
"""A value without spaces and line ends: i2pd splits at spaces."""
_LOGIN_WORD: Final = re.compile(r"[!#-\[\]-~]{1,255}")
"""A user name or a password without spaces, and without quotes and backslashes, which Java removes from a value."""
_LOGIN: Final = re.compile(r"(?i)auth|password")
"""Java's messages of a refused HELLO: "Authorization failed", and "USER and PASSWORD required"."""

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass(frozen=True, slots=True)
class Sam:
    """The address of a router's SAM, and the login there.

    Raises `ValueError` for a login that cannot be sent, or that would be sent in the clear to another machine.
    """

    host: str
    """An IP address."""
    port: int = DEFAULT_PORT
    user: str | None = None
    """With `password`, for a Java router whose SAM asks for both. i2pd asks for neither."""
    password: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if (self.user is None) != (self.password is None):
            raise ValueError("SAM's user name and password belong together: set both or neither")
        if self.user is None:
            return
        for name, text in (("user name", self.user), ("password", self.password)):
            if text is None or _LOGIN_WORD.fullmatch(text) is None:
                raise ValueError(
                    f"SAM's {name} must have 1 to 255 printable ASCII characters, and no space, quote or backslash: "
                    f"choose another {name}, here and in the router"
                )
        if not ip_address(self.host).is_loopback:
            raise ValueError(
                f"SAM's password would go to {self.host} in the clear: run the router on this machine, or without a "
                "password in a network that nobody else sees"
            )

    def hello(self) -> bytes:
        """Return the first line of each connection. A secret."""
        line: bytes = sam.hello(VERSION, VERSION)
        if self.user is None:
            return line
        return line.rstrip(b"\n") + f" USER={self.user} PASSWORD={self.password}\n".encode()

    async def probe(self) -> None:
        """Return when SAM answers. Raises `RouterError`."""
        async with await _Exchange.open(self):
            pass

    async def generate(self) -> DestinationKeys:
        """Have the router make a new Ed25519 destination. Raises `RouterError`."""
        async with await _Exchange.open(self) as exchange:
            reply = await exchange.ask(sam.dest_generate(7), "DEST REPLY", ANSWER_SECONDS)
            return keys_of(value_of(reply, "PRIV"))

    async def lookup(self, name: str) -> Destination | None:
        """Return the destination of a name or b32 address; None when none is found. Raises `RouterError`."""
        request = sam.naming_lookup(_checked_word(name))
        async with await _Exchange.open(self) as exchange:
            reply = await exchange.ask(request, "NAMING REPLY", LOOKUP_SECONDS, ok=False)
            if reply.opts.get("RESULT") in _NO_SUCH:
                return None
            exchange.check(reply, "NAMING LOOKUP")
            return destination_of(value_of(reply, "VALUE"))

    async def session(self, keys: DestinationKeys, options: Mapping[str, str] | None = None) -> "SamSession":
        """Make a session for streams under this destination; wait two minutes at most. Raises `RouterError`."""
        words = {"SIGNATURE_TYPE": "7", "i2cp.leaseSetEncType": "4,0", **(options or {})}
        # A Java router that gets an id twice ends the older session. So nobody may guess this session's id.
        session_id = "gf" + secrets.token_hex(8)
        settings = " ".join(_checked_word(f"{name}={value}") for name, value in words.items())
        request = sam.session_create("STREAM", session_id, keys.base64, settings)
        async with await _Exchange.open(self) as exchange:
            await exchange.ask(request, "SESSION STATUS", SESSION_SECONDS)
            return SamSession(self, session_id, keys.destination, await exchange.keep())

    def __str__(self) -> str:
        return f"SAM at {self.host}:{self.port}"


class SamSession:
    """A session: its destination, tunnels and streams last as long as the session."""

    def __init__(self, router: Sam, session_id: str, destination: Destination, control: Streams) -> None:
        self.destination = destination
        self._router = router
        self._id = session_id
        self._connections = [control]
        """Connections whose end ends the session or the forwarding."""

    async def forward(self, host: str, port: int) -> None:
        """Have the router connect every incoming stream to this TCP address. The first line is the peer's destination.

        `host`: an IP address of this machine that the router can reach. The forwarding ends with the session.
        Raises `RouterError`.
        """
        request = sam.stream_forward(self._id, port, f"HOST={host} SILENT=false")
        # i2pd before 2.57 ignores HOST, and connects to the source address of this connection.
        async with await _Exchange.open(self._router, local=host) as exchange:
            await exchange.ask(request, "STREAM STATUS", ANSWER_SECONDS)
            self._connections.append(await exchange.keep())

    async def connect(self, peer: str) -> Streams:
        """Open a stream to a destination, given in base64 or as a b32 address.

        Raises `RouterRefusedError` for a peer out of reach. i2pd opens such a stream all the same, and ends it later.
        """
        return await asyncio.open_connection(sock=await self.connect_socket(peer))

    async def connect_socket(self, peer: str) -> socket.socket:
        """Open a stream as `connect` does; return the non-blocking socket. No byte of the stream was read."""
        request = sam.stream_connect(self._id, _checked_word(peer))
        async with await _Exchange.open(self._router) as exchange:
            await exchange.ask(request, "STREAM STATUS", SESSION_SECONDS)
            return exchange.take()

    async def ended(self) -> None:
        """Return when the router has ended the session or the forwarding, or is gone."""
        ends = [asyncio.ensure_future(_ended(reader)) for reader, _ in self._connections]
        try:
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for end in ends:
                end.cancel()
            await asyncio.gather(*ends, return_exceptions=True)

    def close(self) -> None:
        """End the session and all its streams."""
        for _, writer in reversed(self._connections):
            writer.close()


async def _ended(reader: asyncio.StreamReader) -> None:
    """Return when the router has hung up."""
    with contextlib.suppress(OSError):
        while await reader.read(MAX_LINE_BYTES):
            pass  # later lines of the router do not matter


class _Exchange:
    """One connection to SAM: requests and replies, one by one.

    The `with` block closes the connection, unless `keep` or `take` was called.
    """

    def __init__(self, router: Sam, sock: socket.socket) -> None:
        self._router = router
        self._sock = sock
        self._taken = False

    @classmethod
    async def open(cls, router: Sam, local: str | None = None) -> Self:
        """Connect, from the address `local` if given, and say HELLO. Raises `RouterError`."""
        exchange = cls(router, socket.socket(socket.AF_INET6 if ":" in router.host else socket.AF_INET))
        try:
            await exchange._connect(local)
            await exchange.ask(router.hello(), "HELLO REPLY", ANSWER_SECONDS)
        except BaseException:
            exchange._sock.close()
            raise
        return exchange

    async def _connect(self, local: str | None) -> None:
        try:
            self._sock.setblocking(False)
            if local is not None:
                self._sock.bind((local, 0))
            async with asyncio.timeout(ANSWER_SECONDS):
                await asyncio.get_running_loop().sock_connect(self._sock, (self._router.host, self._router.port))
        except OSError as error:
            source = "" if local is None else f" {local}"
            reason = os.strerror(error.errno) if error.errno else str(error) or f"nothing within {ANSWER_SECONDS:g} s"
            raise RouterUnreachableError(
                f"{self._router} does not answer{source} ({reason}): check that the router runs, and that SAM is on "
                "(i2pd: [sam] enabled = true; Java: the SAM application bridge among the clients). Check SAM's host "
                "and port, too"
            ) from error

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        if not self._taken:
            self._sock.close()

    async def keep(self) -> Streams:
        """Take the connection as streams, to keep it open."""
        streams = await asyncio.open_connection(sock=self._sock, limit=MAX_LINE_BYTES)
        self.take()
        return streams

    def take(self) -> socket.socket:
        """Take the connection's socket; the caller closes it."""
        self._taken = True
        return self._sock

    async def ask(self, request: bytes, expected: str, seconds: float, *, ok: bool = True) -> sam.Message:
        """Send one line, and return the reply. Raises `RouterError`, also for a refusal unless `ok` is false.

        `expected`: the first two words of the reply. `seconds`: time limit for the reply.
        """
        command = " ".join(request.decode().split()[:2])  # only two words, for keys may follow
        try:
            async with asyncio.timeout(seconds):
                await asyncio.get_running_loop().sock_sendall(self._sock, request)
                line = await self._read_line()
        except TimeoutError as error:
            raise RouterUnreachableError(f"{self._router} did not answer {command} within {seconds:g} s") from error
        except (OSError, EOFError) as error:
            raise RouterUnreachableError(
                f"{self._router} hung up at {command}: it may be starting or stopping"
            ) from error
        if len(line) > MAX_LINE_BYTES:
            raise RouterError(f"{self._router} answered {command} with an endless line: is it SAM?")
        reply = parse_reply(line)
        kind = None if reply is None else f"{reply.cmd} {reply.action}"
        if reply is None or (kind != expected and (kind not in _REFUSALS or result_of(reply) == "OK")):
            raise RouterError(f"{self._router} answered {command} with something else: is it SAM?")
        if ok or kind != expected:
            self.check(reply, command)
        return reply

    async def _read_line(self) -> bytes:
        """Read one line, up to the limit, and no byte after the line: the next bytes may be a stream's."""
        line = b""
        while not line.endswith(b"\n") and len(line) <= MAX_LINE_BYTES:
            byte = await asyncio.get_running_loop().sock_recv(self._sock, 1)
            if not byte:
                raise EOFError
            line += byte
        return line

    def check(self, reply: sam.Message, command: str) -> None:
        """Raise `RouterRefusedError` when a reply to `command` is a refusal."""
        result = result_of(reply)
        if result == "OK":
            return
        message = message_of(reply, secret=self._router.password)
        words = [f"{self._router} said {printable(result)}", f"({message})" if message else "", f"to {command}"]
        said = " ".join(filter(None, words))
        if command == "HELLO VERSION" and _LOGIN.search(message):
            raise LoginRefusedError(f"{said}: {self._login_advice()}")
        advice = _ADVICE.get(result)
        raise RouterRefusedError(said + (f": {advice}" if advice else ""))

    def _login_advice(self) -> str:
        user = self._router.user
        if user is None:
            return "set the user name and password that Java has for SAM, or turn SAM's authorization off there"
        return f"check user {user} and its password, here and in Java's SAM"


def _checked_word(text: str) -> str:
    """Return a word that may stand in a request. Raises `RouterRefusedError` for any other text."""
    if _WORD.fullmatch(text) is None:
        raise RouterRefusedError(f"{printable(text)[:80]!r} cannot be sent to SAM, which takes ASCII without spaces")
    return text
