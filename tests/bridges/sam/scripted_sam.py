"""A SAM that gives the recorded answers of i2pd 2.45.1 (`recorded_sam.json`), or the answers that a test sets."""

import asyncio
import contextlib
import json
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest
from i2plib.sam import Message

from bridges.sam.client import Sam, _Exchange
from gf_i2p.netdb.private_keys import DestinationKeys
from tests.transport.harness import close_server, hang_up, until

_RECORDED: Final = json.loads(Path(__file__).with_name("recorded_sam.json").read_text())["exchanges"]
REQUESTS: Final[dict[str, str]] = {name: exchange["request"] for name, exchange in _RECORDED.items()}
REPLIES: Final[dict[str, bytes]] = {name: exchange["reply"].encode() + b"\n" for name, exchange in _RECORDED.items()}
KEYS: Final = DestinationKeys.from_base64(REPLIES["generate"].split(b"PRIV=")[1].decode().strip())
PEER: Final = "b" * 52 + ".b32.i2p"
CONNECTED: Final = b"STREAM STATUS RESULT=OK\n"
"""Recorded in a network of several routers, because a single router cannot connect to any destination."""


class Instead:
    """Something that SAM does instead of an answer."""


HANG_UP: Final = Instead()
SILENCE: Final = Instead()
ENDLESS: Final = Instead()

Answer = bytes | Instead
USUAL: Final[dict[str, Answer]] = {
    "HELLO VERSION": REPLIES["hello"],
    "DEST GENERATE": REPLIES["generate"],
    "NAMING LOOKUP": REPLIES["lookup"],
    "SESSION CREATE": REPLIES["session"],
    "STREAM FORWARD": REPLIES["forward"],
    "STREAM CONNECT": CONNECTED,
}


def same(request: str) -> str:
    """Give a request without the part that differs each time: the session's id."""
    return re.sub(r"ID=gf[0-9a-f]{16} ", "ID=gf ", request)


@dataclass
class Connection:
    """One connection that a client has made."""

    address: str
    writer: asyncio.StreamWriter
    heard: list[str] = field(default_factory=list)
    gone: bool = False
    """Whether the client has hung up."""

    @property
    def verb(self) -> str:
        """The first words of the last request."""
        return " ".join(self.heard[-1].split()[:2]) if self.heard else ""


class ScriptedSam:
    """A simulated SAM that gives scripted answers and keeps each request. Tests make one by `scripted`."""

    def __init__(self, answers: dict[str, Answer]) -> None:
        self.answers = {**USUAL, **answers}
        """Answers by the first two words of a request."""
        self.login: tuple[str, str] | None = None
        """User and password that HELLO must bring, as Java wants when its SAM asks for them."""
        self.connections: list[Connection] = []
        self.sam = Sam("127.0.0.1", 1)
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    @property
    def heard(self) -> list[str]:
        """The requests of all connections, without the HELLOs."""
        lines = [line for connection in self.connections for line in connection.heard]
        return [line for line in lines if not line.startswith("HELLO")]

    def connection(self, verb: str) -> Connection:
        """Give the latest connection with this request."""
        return [each for each in self.connections if each.verb == verb][-1]

    async def start(self, port: int = 0) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", port)
        self.sam = Sam("127.0.0.1", self._server.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        """End every connection, as a router does at a stop."""
        assert self._server is not None
        await close_server(self._server)
        for task in list(self._tasks):
            task.cancel()
        await until(lambda: not self._tasks)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        connection = Connection(writer.get_extra_info("peername")[0], writer)
        self.connections.append(connection)
        try:
            with contextlib.suppress(OSError, asyncio.CancelledError):
                await self._talk(connection, reader)
        finally:
            connection.gone = True
            with contextlib.suppress(asyncio.CancelledError):
                await hang_up(writer)
            self._tasks.discard(task)

    def _refusal(self, connection: Connection) -> bytes | None:
        """Give Java's answer to a HELLO without the right login (SAMHandlerFactory, SAMBridge)."""
        if self.login is None or connection.verb != "HELLO VERSION":
            return None
        words = words_of(connection.heard[-1])
        given = words.get("USER"), words.get("PASSWORD")
        if given == self.login:
            return None
        reason = "USER and PASSWORD required" if None in given else "Authorization failed"
        return f'HELLO REPLY RESULT=I2P_ERROR MESSAGE="{reason}"\n'.encode()

    async def answer(self, connection: Connection) -> Answer:
        """Give the answer to the last request of a connection."""
        return self.answers[connection.verb]

    async def _talk(self, connection: Connection, reader: asyncio.StreamReader) -> None:
        while line := await reader.readline():
            assert line.endswith(b"\n")
            connection.heard.append(line.decode("ascii").removesuffix("\n"))
            answer = await self.answer(connection) if (refused := self._refusal(connection)) is None else refused
            if answer is HANG_UP:
                return
            if answer is ENDLESS:
                while True:
                    connection.writer.write(b"A" * 1000)
                    await connection.writer.drain()
                    await asyncio.sleep(0)
            if isinstance(answer, bytes):
                connection.writer.write(answer)
            if connection.verb == "STREAM CONNECT" and answer is not SILENCE:
                break
        while await reader.read(1000):
            pass


def words_of(line: str) -> dict[str, str]:
    """Read the parameters of a request as Java does (SAMUtils.parseParams, without quotes)."""
    return dict(word.split("=", 1) for word in line.split()[2:])


def soon_tired(monkeypatch: pytest.MonkeyPatch, verb: str, limit: float, short: float) -> None:
    """Shorten the client's limit for the answer to this request; earlier requests keep their time."""
    patient = _Exchange.ask

    async def ask(self: _Exchange, request: bytes, expected: str, seconds: float, *, ok: bool = True) -> Message:
        if request.startswith(verb.encode()):
            assert seconds == limit
            seconds = short
        return await patient(self, request, expected, seconds, ok=ok)

    monkeypatch.setattr(_Exchange, "ask", ask)


@contextlib.asynccontextmanager
async def scripted(**answers: Answer) -> AsyncIterator[ScriptedSam]:
    """`answers`: by the first two words, with "_" between them. In the end all clients have hung up."""
    found = ScriptedSam({verb.replace("_", " "): answer for verb, answer in answers.items()})
    await found.start()
    try:
        yield found
        await until(lambda: all(connection.gone for connection in found.connections))
    finally:
        await found.stop()
