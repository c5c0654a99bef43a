"""A router's I2CP for tests: i2pd 2.45.1 and Java 2.8.0 with a publisher or a service, well-behaved or not.

The fake router speaks with struct and Reader alone, none of the codec under test. The behaviour was seen on the real
routers.
"""

import asyncio
import contextlib
import random
import ssl
import struct
from collections.abc import Callable
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Self

import pytest

from bridges.i2cp.connection import I2cpConnection
from bridges.i2cp.settings import Deadlines, I2cpSettings, RouterKind
from gf_i2p.netdb.byte_reader import Reader
from gf_i2p.netdb.destination import Destination
from gf_i2p.netdb.encoding import from_base64
from gf_i2p.netdb.errors import NetDbError
from gf_i2p.netdb.lease_set import LeaseSet2
from gf_i2p.netdb.mapping import read_mapping
from gf_i2p.netdb.meta_lease_set import MetaLeaseSet
from gf_i2p.netdb.session_config import SessionConfig
from gf_i2p.netdb.signing import verify
from tests.bridges.i2cp.recorded_host_lookup import FOUND, NOT_FOUND
from tests.netdb.strategies import NOW
from tests.transport.harness import close_server

LEASE = bytes(44)
JAVA_SECONDS = 180
# Long deadlines, which only end a failed test. A test that waits for a deadline sets its own deadlines.
PATIENT = Deadlines(connect=20, answer=20, tunnels=20, goodbye=20)


def deadlines_after_the_greeting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten a connection's deadlines only after the greeting, because the greeting may be slow on a busy machine."""
    impatient = I2cpConnection.open

    async def patient(settings: I2cpSettings, *clock: Callable[[], float]) -> I2cpConnection:
        connection = await impatient(replace(settings, deadlines=PATIENT), *clock)
        connection.settings = settings
        return connection

    monkeypatch.setattr(I2cpConnection, "open", patient)


class Clock:
    """Seconds since the epoch; the test sets the clock."""

    def __init__(self) -> None:
        self.now = float(NOW)

    def __call__(self) -> float:
        return self.now


@dataclass
class FakeSession:
    """A session at the fake router."""

    config: SessionConfig
    connection: "_Connection"
    number: int
    overdue: asyncio.TimerHandle | None = None
    """Closes the connection when a request is not answered."""


class FakeRouter:
    """An I2CP router on loopback, i2pd or Java; runs as long as the asynchronous context lasts."""

    def __init__(self, kind: RouterKind, clock: Clock | None = None, *, tls: ssl.SSLContext | None = None) -> None:
        self.kind = kind
        self.clock = clock or Clock()
        self.port = 0
        self.ready = asyncio.Event()
        """Set when tunnels are built and lease sets are asked for."""
        self.ready.set()
        self.patience = 20.0
        """Seconds that a request may go unanswered; i2pd's are 10."""
        self.login: dict[str, str] | None = None
        """Login data that GetDate must bring."""
        self.deaf: set[int] = set()
        """Types of messages that the router does not answer."""
        self.netdb: dict[bytes, Destination] = {}
        """Destinations with a current lease set, by hash."""
        self.looked_for: list[bytes] = []
        """Hashes of the HostLookups so far."""
        self.sessions: dict[int, FakeSession] = {}
        self.leases = LEASE
        """Leases that the router asks a session to put into a lease set, 44 bytes each."""
        self.stored: list[MetaLeaseSet] = []
        self.served: list[LeaseSet2] = []
        self.private: list[bytes] = []
        """The X25519 keys that came with `served`."""
        self.sent: list[tuple[bytes, bytes]] = []
        """Packets that services have sent: destination, packed payload."""
        self.heard = asyncio.Event()
        """Set when something was stored or sent; tests clear the event."""
        self.log: list[str] = []
        """Events so far: "hello", "create", "refuse", "store", "swallow", "destroy", "garbage"."""
        self._tls = tls
        self._random = random.Random(7)
        self._connections: set[_Connection] = set()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def start(self) -> None:
        """Listen; the second time on the same port."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port, ssl=self._tls)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Close everything without a word, as a router does at a stop."""
        await close_server(self._server)
        self.hang_up()
        await asyncio.gather(*(connection.task for connection in self._connections), return_exceptions=True)

    def settings(self, **changes: Any) -> I2cpSettings:
        """Give the settings that reach this router."""
        return I2cpSettings(**{"port": self.port, "deadlines": PATIENT, **changes})

    # Messages that routers send on their own ------------------------------------------------------------------------

    def tell_date(self, date_ms: int) -> None:
        """Tell a date unasked, as Java does after its clock has changed."""
        for connection in self._connections:
            connection.send(33, struct.pack(">Q", date_ms) + b"\x060.9.65")

    def ask(self) -> None:
        """Ask every session for its lease set."""
        for session in self.sessions.values():
            self.request(session)

    def request(self, session: FakeSession) -> None:
        session.connection.send(37, struct.pack(">HB", session.number, len(self.leases) // 44) + self.leases)
        if session.overdue is None:
            session.overdue = asyncio.get_running_loop().call_later(self.patience, session.connection.close)

    def lose_patience(self) -> None:
        """Close the connections with an unanswered request, as if the request were too old."""
        for session in self.sessions.values():
            if session.overdue is not None:
                session.connection.close()

    def say(self, kind: int, body: bytes) -> None:
        """Send a message to every session."""
        for session in self.sessions.values():
            session.connection.send(kind, body)

    def give(self, payload: bytes) -> None:
        """Hand a payload that has arrived to all sessions."""
        for session in self.sessions.values():
            session.connection.send(31, struct.pack(">HII", session.number, 1, len(payload)) + payload)

    def hang_up(self) -> None:
        """Close all connections."""
        for connection in self._connections:
            connection.close()

    def number(self) -> int:
        return self._random.randrange(0xFFFF)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        handler = _I2pd if self.kind is RouterKind.I2PD else _Java
        connection = handler(self, reader, writer)
        self._connections.add(connection)
        try:
            await connection.run()
        finally:
            self._connections.discard(connection)
            for session in [each for each in self.sessions.values() if each.connection is connection]:
                del self.sessions[session.number]
                if session.overdue is not None:
                    session.overdue.cancel()
            connection.close()


class _Connection:
    """One client's connection: the behaviour that i2pd and Java share."""

    def __init__(self, router: FakeRouter, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.router = router
        task = asyncio.current_task()
        assert task is not None
        self.task = task
        self._reader = reader
        self._writer = writer
        self._pending = b""
        self._tunnels: asyncio.Task[None] | None = None

    async def run(self) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, OSError):
            if await self._take(1) != b"\x2a":
                return
            while not self._writer.is_closing():
                length, kind = struct.unpack(">IB", await self._take(5))
                body = await self._take(length)
                if kind not in self.router.deaf:
                    self.handle(kind, body)
            await self._writer.drain()

    async def _take(self, count: int) -> bytes:
        head, self._pending = self._pending[:count], self._pending[count:]
        return head + (await self._reader.readexactly(count - len(head)) if len(head) < count else b"")

    def put_back(self, data: bytes) -> None:
        self._pending = data + self._pending

    def send(self, kind: int, body: bytes) -> None:
        self._writer.write(struct.pack(">IB", len(body), kind) + body)

    def close(self) -> None:
        if self._tunnels is not None:
            self._tunnels.cancel()
        self._writer.close()

    def status(self, session: int, status: int) -> None:
        self.send(20, struct.pack(">HB", session, status))

    def set_date(self, version: bytes) -> None:
        self.router.log.append("hello")
        self.send(33, struct.pack(">Q", int(self.router.clock.now * 1000)) + bytes([len(version)]) + version)

    def open(self, config: SessionConfig) -> None:
        session = FakeSession(config, self, self.router.number())
        self.router.sessions[session.number] = session
        self.router.log.append("create")
        self.status(session.number, 1)
        self._tunnels = asyncio.create_task(self._build_tunnels(session))

    async def _build_tunnels(self, session: FakeSession) -> None:
        await self.router.ready.wait()
        self.router.request(session)

    def store(self, session: FakeSession, lease_set: MetaLeaseSet | LeaseSet2) -> None:
        if session.overdue is not None:
            session.overdue.cancel()
            session.overdue = None
        if isinstance(lease_set, MetaLeaseSet):
            self.router.stored.append(lease_set)
        else:
            self.router.served.append(lease_set)
        self.router.log.append("store")
        self.router.heard.set()

    def store_service(self, session: FakeSession, body: bytes) -> None:
        """Take a lease set with one X25519 key: number of keys, type, length, key."""
        assert body[-37:-32] == b"\x01\x00\x04\x00\x20"
        self.router.private.append(body[-32:])
        self.store(session, LeaseSet2.parse(body[3:-37]))

    def sent(self, body: bytes) -> None:
        """Take a SendMessageExpires."""
        assert int.from_bytes(body[:2]) in self.router.sessions
        reader = Reader(body[2:], "SendMessageExpires")
        destination = Destination.read(reader).data
        payload = reader.take(reader.number(4))
        assert reader.number(4) == 0
        reader.take(2 + 6)
        reader.finish()
        self.router.sent.append((destination, payload))
        self.router.heard.set()

    def host_reply(self, body: bytes) -> None:
        """Answer a HostLookup by hash, with the bytes that real routers gave without a session."""
        session, _, _, kind = struct.unpack_from(">HIIB", body)
        assert (session, kind, len(body)) == (0xFFFF, 0, 11 + 32)
        self.router.looked_for.append(body[11:])
        found = self.router.netdb.get(body[11:])
        recorded = (NOT_FOUND if found is None else FOUND)[self.router.kind]
        self.send(39, recorded.answer(body[2:6], b"" if found is None else found.data))

    def held(self, config: SessionConfig) -> bool:
        return any(each.config.destination == config.destination for each in self.router.sessions.values())

    def handle(self, kind: int, body: bytes) -> None:
        raise NotImplementedError


class _I2pd(_Connection):
    """Debian's i2pd 2.45.1."""

    def handle(self, kind: int, body: bytes) -> None:
        match kind:
            case 32:
                self.set_date(body[1 : 1 + body[0]])  # the client's own
            case 1:
                self._create(SessionConfig.parse(body))
            case 41 if body[2] == 3 and int.from_bytes(body[:2]) in self.router.sessions:
                self.store_service(self.router.sessions[int.from_bytes(body[:2])], body)
            case 41:
                self._store(body)
            case 36:
                self.sent(body)
            case 38:
                self.host_reply(body)
            case 3:
                self.router.log.append("destroy")
                self.status(int.from_bytes(body), 0)
                self.close()
            case _:
                pass  # "Unknown I2CP message"

    def _create(self, config: SessionConfig) -> None:
        if any(session.connection is self for session in self.router.sessions.values()):
            return self._refuse(4)
        try:
            config.verify()  # by the destination's own key, whatever the options say
        except NetDbError:
            return self._refuse(3)
        if self.held(config):
            return self._refuse(3)
        return self.open(config)

    def _refuse(self, status: int) -> None:
        self.router.log.append("refuse")
        self.status(self.router.number(), status)

    def _store(self, body: bytes) -> None:
        session = self.router.sessions.get(int.from_bytes(body[:2]))
        try:
            lease_set = MetaLeaseSet.parse(body[3:-1])
        except NetDbError:
            lease_set = None
        if session is None or lease_set is None or body[2] != 7 or body[-1] != 0:
            self.router.log.append("swallow")
        else:
            self.store(session, lease_set)


_NO_LOGIN = "Authorization required, specify i2cp.username and i2cp.password in options"
_WRONG_LOGIN = "Authorization failed, user = node"


class _Java(_Connection):
    """The messages of Java I2P 2.8.0."""

    def handle(self, kind: int, body: bytes) -> None:
        match kind:
            case 32:
                self._greet(Reader(body, "GetDate"))
            case 1:
                self._create(SessionConfig.parse(body))
            case 41 if body[2] == 3:
                self.store_service(self.router.sessions[int.from_bytes(body[:2])], body)
            case 41:
                self._store(body)
            case 36:
                self.sent(body)
            case 38:
                self.host_reply(body)
            case 3:
                self.router.log.append("destroy")
                self.close()
            case _:
                self.router.log.append("garbage")
                self.disconnect("net.i2p.data.i2cp.I2CPMessageException: The type 99 is an unknown I2CP message")

    def disconnect(self, reason: str) -> None:
        self.send(30, bytes([len(reason)]) + reason.encode())
        self.close()

    def _greet(self, reader: Reader) -> None:
        reader.take(reader.number(1))
        login = read_mapping(reader) if reader.position < len(reader.data) else {}
        if self.router.login is not None and login != self.router.login:
            return self.disconnect(_WRONG_LOGIN if login else _NO_LOGIN)
        return self.set_date(b"0.9.65")

    def _create(self, config: SessionConfig) -> None:
        reason = self._objection(config)
        if reason is None:
            self.open(config)
        else:
            self.router.log.append("refuse")
            self.disconnect(reason)

    def _objection(self, config: SessionConfig) -> str | None:
        if config.destination.crypto_type:
            return "Non-ElGamal encryption type in key certificate unsupported"
        try:
            if config.delegated:
                key = config.options["i2cp.leaseSetTransientPublicKey"].removeprefix("7:")
                verify(from_base64(key, 32), config.data[-64:], config.data[:-64])
            else:
                config.verify()
        except NetDbError:
            return "Invalid signature on CreateSessionMessage"
        if abs(config.date_ms / 1000 - self.router.clock.now) > JAVA_SECONDS:
            return "Create session message client clock skew? 4 min in the past"
        return "duplicate destination" if self.held(config) else None

    def _store(self, body: bytes) -> None:
        session = self.router.sessions[int.from_bytes(body[:2])]
        try:
            lease_set = MetaLeaseSet.parse(body[3:])
        except NetDbError:
            try:
                lease_set = MetaLeaseSet.parse(body[3:-1])
            except NetDbError:
                return self.disconnect("Invalid leaseset: it does not verify")
            self.put_back(body[-1:])  # Java reads the fields that Java knows, and goes on from there
        if lease_set.destination != session.config.destination:
            return self.disconnect("Different destination in LS")
        return self.store(session, lease_set)
