"""A router's i2pcontrol without the router: the recorded answers of real routers, and failures on demand.

For tests, ours and others'. `recorded/i2pd-*.json` holds whole exchanges as bytes, recorded by
`python -m integration.record.i2pcontrol`. Each `recorded/java-*.json` names the source of the replies in `how`.
"""

import asyncio
import contextlib
import json
import ssl
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

I2PD: Final = "i2pd-2.45.1"
JAVA: Final = "java-2.8.0"
PASSWORD: Final = "recorded"
"""The right password."""

_DIRECTORY: Final = Path(__file__).with_name("recorded")
_BUFFER_BYTES: Final = 1024
_END: Final = b"\r\n\r\n"
_UNKNOWN_TOKEN: Final = -32003


@dataclass(frozen=True, slots=True)
class Exchange:
    """One request and the reply, each with the HTTP head."""

    request: bytes
    reply: bytes

    @property
    def kind(self) -> tuple[str, frozenset[str], bool]:
        """The kind of request: the method, the names of the parameters, and whether a password is the right one."""
        call = body(self.request)
        params = call["params"]
        return call["method"], frozenset(params), params.get("Password", PASSWORD) == PASSWORD


@dataclass(frozen=True, slots=True)
class Recording:
    """All recorded answers of one router."""

    router: str
    how: str
    """Origin of the recording."""
    exchanges: tuple[Exchange, ...]

    @classmethod
    def load(cls, name: str) -> Self:
        """Read `recorded/NAME.json`."""
        stored = json.loads((_DIRECTORY / f"{name}.json").read_text("utf-8"))
        exchanges = tuple(
            Exchange(each["request"].encode("latin-1"), each["reply"].encode("latin-1")) for each in stored["exchanges"]
        )
        return cls(stored["router"], stored["how"], exchanges)

    def save(self, name: str) -> None:
        """Write the recording to a file."""
        exchanges = [
            {"request": each.request.decode("latin-1"), "reply": each.reply.decode("latin-1")}
            for each in self.exchanges
        ]
        text = json.dumps({"router": self.router, "how": self.how, "exchanges": exchanges}, indent=1)
        (_DIRECTORY / f"{name}.json").write_text(text + "\n", "utf-8")

    def find(self, request: bytes) -> Exchange | None:
        """Find the exchange of the same kind of request."""
        kind = Exchange(request, b"").kind
        return next((each for each in self.exchanges if each.kind == kind), None)

    def result(self, method: str, *names: str) -> Any:
        """Give the result for these parameters; a token goes without saying."""
        kind = method, frozenset({*names} if method == "Authenticate" else {*names, "Token"}), True
        return next(body(each.reply)["result"] for each in self.exchanges if each.kind == kind)

    def error(self, code: int) -> bytes:
        """Give the reply that has this error."""
        return next(each.reply for each in self.exchanges if b'"code":%d,' % code in each.reply)


def body(message: bytes) -> Any:
    """Read the JSON of a request or a reply."""
    return json.loads(message.partition(_END)[2])


def http(content: bytes | str, status: str = "200 OK", *headers: str) -> bytes:
    """Wrap a body into a reply."""
    data = content.encode() if isinstance(content, str) else content
    head = [f"HTTP/1.1 {status}", "Connection: close", f"Content-Length: {len(data)}", *headers]
    return "\r\n".join(head).encode() + _END + data


def result(**values: object) -> bytes:
    """Make a reply with these results; write a dot as two underscores."""
    return http(json.dumps({"id": 1, "result": {k.replace("__", "."): v for k, v in values.items()}, "jsonrpc": "2.0"}))


def error(code: int, message: str = "made up") -> bytes:
    """Make a reply with an error object."""
    return http(json.dumps({"id": None, "error": {"code": code, "message": message}, "jsonrpc": "2.0"}))


class SimulatedRouter:
    """An i2pcontrol on loopback. The router listens as long as the asynchronous context lasts.

    `tls`: of a server, with its certificate; None speaks plain HTTP. `checks_tokens`: as Java does.
    """

    def __init__(self, recording: Recording, tls: ssl.SSLContext | None, *, checks_tokens: bool = False) -> None:
        self.recording = recording
        self.requests: list[bytes] = []
        """Whole requests, in order of arrival."""
        self.strays = 0
        """Connections that have ended without a request."""
        self.complaints: list[str] = []
        """Mistakes in requests that a real i2pd would not forgive."""
        self._tls = tls
        self._checks_tokens = checks_tokens
        self._tokens: set[str] = set()
        self._orders: deque[tuple[str | None, bytes | None]] = deque()
        self._server: asyncio.Server | None = None
        self._port = 0
        self._connections: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        """The router's URL."""
        return f"{'http' if self._tls is None else 'https'}://127.0.0.1:{self._port}/"

    @property
    def methods(self) -> list[str]:
        """The methods that were called, in order."""
        return [body(request)["method"] for request in self.requests]

    def order(self, reply: bytes | None, method: str | None = None) -> None:
        """Have the next call, or the next one of this method, answered with these bytes. None: with silence.

        b"" hangs up. Orders wait for each other.
        """
        self._orders.append((method, reply))

    def speak(self) -> None:
        """Forget the orders that no call has come for."""
        self._orders.clear()

    def forget_tokens(self) -> None:
        """Forget all tokens, as after a restart, or a day later."""
        self._tokens.clear()

    async def stop(self) -> None:
        """Listen no more, and break all connections."""
        if self._server is not None:
            self._server.close()
            self._server = None
        for connection in list(self._connections):
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def start(self) -> None:
        """Listen: the first time on a port of the system's choice, later on the same port."""
        self.forget_tokens()
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", self._port, ssl=self._tls)
        self._port = self._server.sockets[0].getsockname()[1]

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    # One connection -------------------------------------------------------------------------------------------------

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            with contextlib.suppress(OSError):
                await self._serve(reader, writer)
        except asyncio.CancelledError:
            pass  # the router stops; asyncio would report a defect of this task to whoever started the task
        finally:
            writer.close()
            self._connections.discard(task)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await reader.read(_BUFFER_BYTES)  # once, as i2pd does
        if not request:
            self.strays += 1
            return
        self.requests.append(request)
        reply = self._reply(request)
        if reply is None:
            await reader.read()
            return
        writer.write(reply)
        await writer.drain()

    def _reply(self, request: bytes) -> bytes | None:
        try:
            call = self._check(request)
        except (ValueError, KeyError, AssertionError) as defect:
            self.complaints.append(f"{defect!r} in {request!r}")
            return b""
        if self._orders and self._orders[0][0] in {None, call["method"]}:
            return self._orders.popleft()[1]
        if self._checks_tokens and call["method"] != "Authenticate" and call["params"].get("Token") not in self._tokens:
            return self.recording.error(_UNKNOWN_TOKEN)
        found = self.recording.find(request)
        if found is None:
            self.complaints.append(f"nobody has recorded an answer to {request!r}")
            return b""
        if call["method"] == "Authenticate":
            self._tokens.add(body(found.reply).get("result", {}).get("Token", ""))
        return found.reply

    @staticmethod
    def _check(request: bytes) -> Any:
        """Read a request, and find all faults that i2pd would stumble over."""
        head, end, content = request.partition(_END)
        lines = head.decode("ascii").split("\r\n")
        assert end, "the head did not come in one piece"
        assert lines[0].startswith("POST "), lines[0]
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
        assert headers["connection"] == "close"
        assert int(headers["content-length"]) == len(content), "the body did not come with the head"
        call = json.loads(content)
        assert type(call["id"]) is int, "the id is no whole number"
        if call["method"] != "Authenticate":
            assert list(call["params"])[-1] == "Token", "the token is not the last parameter"
        return call
