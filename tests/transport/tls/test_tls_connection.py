"""Connections of `TlsTransport`: bytes, pressure, and the ways in which a connection ends."""

import asyncio
import contextlib
import os
import random
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from gf_i2p.transport.connection_gate import Admission, Gate
from gf_i2p.transport.stream_protocol import StreamProtocol
from gf_i2p.transport.tls import tls_transport
from gf_i2p.transport.tls.tls_transport import TlsSettings, TlsTransport
from gf_i2p.wire.endpoint import Endpoint
from tests.transport.harness import PATIENCE, Identity, foreign_client_context, soon, until

pytestmark = pytest.mark.usefixtures("unhandled")

MIB = 1024 * 1024
RECORD_BYTES = 16_384


@dataclass(eq=False)
class End(StreamProtocol):
    """One end of a connection, with the events at that end."""

    admission: Admission | None = None
    received: bytearray = field(default_factory=bytearray)
    pieces: int = 0
    events: list[str] = field(default_factory=list)
    lost: asyncio.Event = field(default_factory=asyncio.Event)
    error: Exception | None = None
    on_data: Callable[[bytes], None] = lambda _: None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.events.append("made")

    def data_received(self, data: bytes) -> None:
        self.received += data
        self.pieces += 1
        self.on_data(data)

    def pause_writing(self) -> None:
        self.events.append("pause")

    def resume_writing(self) -> None:
        self.events.append("resume")

    def connection_lost(self, exc: Exception | None) -> None:
        self.events.append("lost")
        self.error = exc
        self.lost.set()
        if self.admission is not None:
            self.admission.closed()

    @property
    def socket(self) -> socket.socket:
        """Return a second handle of the connection's socket, so that a test can act on TCP below TLS."""
        return socket.socket(fileno=os.dup(self.transport.get_extra_info("socket").fileno()))


@contextlib.asynccontextmanager
async def listening(identity: Identity) -> AsyncIterator[tuple[Endpoint, list[End], Gate]]:
    """Listen on loopback; yield the endpoint, the listener's ends of the connections, and the gate."""
    gate = Gate()
    ends: list[End] = []

    def accept(admission: Admission) -> End:
        ends.append(End(admission))
        return ends[-1]

    listener = await TlsTransport(TlsSettings(identity.certificate, identity.key)).listen(accept, gate)
    try:
        yield Endpoint("127.0.0.1", listener.port), ends, gate
    finally:
        listener.close()
        gate.close()
        await until(lambda: not gate.counters.unauthenticated)


@contextlib.asynccontextmanager
async def pair(identity: Identity) -> AsyncIterator[tuple[End, End]]:
    """Yield the client's end and the server's end of one connection."""
    async with listening(identity) as (endpoint, ends, _):
        client = End()
        transport = TlsTransport(TlsSettings(fingerprints={endpoint: [identity.fingerprint]}))
        await transport.dial(endpoint, lambda: client, deadline=PATIENCE)
        await until(lambda: ends)
        try:
            yield client, ends[0]
        finally:
            for each in (client, ends[0]):
                each.transport.abort()
                await soon(each.lost.wait())


async def test_both_ends_meet_and_part(node: Identity) -> None:
    async with pair(node) as (client, server):
        client.transport.write(b"ping")
        await until(lambda: server.received == b"ping")
        server.transport.write(b"pong")
        await until(lambda: client.received == b"pong")
        client.transport.close()
        assert client.transport.is_closing()
        await soon(client.lost.wait())
        await soon(server.lost.wait())
    assert client.events == server.events == ["made", "lost"]
    assert client.error is server.error is None


async def test_every_byte_arrives_whatever_the_sizes(node: Identity) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    choice = random.Random(seed)
    sizes = [choice.choice([1, 26, 45, RECORD_BYTES - 1, RECORD_BYTES, RECORD_BYTES + 1, 100_000]) for _ in range(120)]
    async with pair(node) as (client, server):
        expected = {id(client): bytearray(), id(server): bytearray()}
        for size in sizes:
            data = choice.randbytes(size)
            sender, receiver = choice.choice([(client, server), (server, client)])
            sender.transport.write(data)
            expected[id(receiver)] += data
            if choice.random() < 0.2:
                await asyncio.sleep(0)
        await until(lambda: all(len(each.received) == len(expected[id(each)]) for each in (client, server)))
        assert client.received == expected[id(client)]
        assert server.received == expected[id(server)]


async def test_the_largest_message_passes_and_what_waits_is_told(node: Identity) -> None:
    data = random.Random(1).randbytes(16 * MIB)
    async with pair(node) as (client, server):
        server.transport.pause_reading()
        client.transport.write(data[: 15 * MIB])  # asyncio's TLS counts waiting bytes from the second write on
        client.transport.write(data[15 * MIB :])
        await until(lambda: client.events[-1] == "pause")
        server.transport.resume_reading()
        await until(lambda: len(server.received) == len(data))
        assert server.received == data
        await until(lambda: client.events[-1] == "resume")
        assert client.transport.get_write_buffer_size() == 0


async def test_a_burst_of_small_writes_arrives_in_few_pieces(node: Identity) -> None:
    async with pair(node) as (client, server):
        for _ in range(200):
            client.transport.write(bytes(26))
        await until(lambda: len(server.received) == 5200)
        assert server.pieces < 20


async def test_small_writes_to_a_full_socket_arrive_in_order(node: Identity) -> None:
    async with pair(node) as (client, server):
        server.transport.pause_reading()
        sent = bytearray()
        while "pause" not in client.events:
            for _ in range(1000):
                sent += len(sent).to_bytes(100, "big")
                client.transport.write(sent[-100:])
            await asyncio.sleep(0)
        server.transport.resume_reading()
        await until(lambda: len(server.received) == len(sent))
        assert server.received == sent


async def test_a_forged_record_ends_the_connection(node: Identity) -> None:
    async with pair(node) as (client, server):
        with client.socket as below:
            below.send(b"\x17\x03\x03\x00\x20" + bytes(32))
        await soon(server.lost.wait())
        assert isinstance(server.error, ssl.SSLError)
        assert server.received == b""


async def test_writing_to_a_peer_that_has_gone_ends_the_connection(node: Identity) -> None:
    async with pair(node) as (client, server):
        server.transport.abort()
        await soon(server.lost.wait())
        async with asyncio.timeout(PATIENCE):
            while not client.lost.is_set():
                client.transport.write(bytes(100))
                await asyncio.sleep(0)
        assert client.events == ["made", "lost"]


async def test_the_limits_of_the_write_buffer_are_kept(node: Identity) -> None:
    async with pair(node) as (client, server):
        client.transport.set_write_buffer_limits(high=MIB, low=MIB)
        server.transport.pause_reading()
        client.transport.write(bytes(MIB // 2))
        await asyncio.sleep(0)
        assert client.events == ["made"]
        for _ in range(32):  # as much as the kernel may take
            client.transport.write(bytes(MIB // 2))
        await until(lambda: client.events[-1] == "pause")
        server.transport.resume_reading()
        await until(lambda: client.events[-1] == "resume")


async def test_a_paused_reader_gets_nothing_until_it_resumes(node: Identity) -> None:
    async with pair(node) as (client, server):
        server.transport.pause_reading()
        client.transport.write(b"one")
        server.transport.write(b"other way")
        await until(lambda: client.received == b"other way")
        assert server.received == b""
        server.transport.resume_reading()
        await until(lambda: server.received == b"one")


async def test_close_sends_what_waits(node: Identity, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tls_transport, "_LINGER_SECONDS", PATIENCE)
    data = random.Random(2).randbytes(8 * MIB)
    async with pair(node) as (client, server):
        client.transport.write(data)
        client.transport.close()
        client.transport.write(b"too late")
        await soon(server.lost.wait())
        assert server.received == data
        await soon(client.lost.wait())
        assert client.error is None


async def test_close_does_not_lose_the_last_words_to_unread_input(
    node: Identity, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tls_transport, "_LINGER_SECONDS", PATIENCE)
    # A socket closed with unread input answers with a reset, and the reset may overtake earlier data.
    async with pair(node) as (client, server):
        client.transport.write(bytes(MIB))
        server.transport.write(b"last words")
        server.transport.close()
        await soon(client.lost.wait())
        assert client.received == b"last words"


async def test_close_gives_up_on_a_peer_that_does_not_read(node: Identity, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tls_transport, "_LINGER_SECONDS", 0.01)
    async with pair(node) as (client, server):
        server.transport.pause_reading()
        client.transport.write(bytes(16 * MIB))
        client.transport.close()
        await soon(client.lost.wait())
        assert server.events == ["made"]


async def test_abort_drops_everything(node: Identity) -> None:
    async with pair(node) as (client, server):
        server.transport.pause_reading()
        client.transport.write(bytes(16 * MIB))
        client.transport.abort()
        client.transport.abort()
        client.transport.close()
        await soon(client.lost.wait())
        assert client.events[-1] == "lost"
        server.transport.resume_reading()
        await soon(server.lost.wait())
        assert len(server.received) < 16 * MIB


async def test_an_exception_in_the_protocol_closes_the_connection_and_is_reported(
    node: Identity, unhandled: list[dict[str, Any]]
) -> None:
    def fail(_: bytes) -> None:
        raise ZeroDivisionError

    async with pair(node) as (client, server):
        server.on_data = fail
        client.transport.write(b"x")
        await soon(server.lost.wait())
        await soon(client.lost.wait())
    assert [type(context["exception"]) for context in unhandled] == [ZeroDivisionError]
    unhandled.clear()


@pytest.mark.parametrize("sent", [b"GET / HTTP/1.1\r\n\r\n", bytes(100), b"\x16\x03\x01\xff\xff" + bytes(200), b""])
async def test_what_is_no_tls_never_becomes_a_connection(node: Identity, sent: bytes) -> None:
    async with listening(node) as (endpoint, ends, gate):
        reader, writer = await asyncio.open_connection(endpoint.host, endpoint.port)
        writer.write(sent)
        writer.write_eof()
        with contextlib.suppress(ConnectionResetError):
            await soon(reader.read())
        writer.close()
        await until(lambda: gate.counters.refused.total() == 1)
        await until(lambda: not gate.counters.unauthenticated)
        assert ends == []


async def test_a_connection_that_is_refused_in_the_handshake_ends_at_once(node: Identity) -> None:
    async with listening(node) as (endpoint, ends, gate):
        reader, writer = await asyncio.open_connection(endpoint.host, endpoint.port)
        await until(lambda: gate.counters.unauthenticated)
        gate.close()
        assert await soon(reader.read()) == b""
        writer.close()
        await until(lambda: not gate.counters.unauthenticated)
        assert ends == []


async def test_a_listener_speaks_tls_1_3_with_any_client(node: Identity) -> None:
    async with listening(node) as (endpoint, ends, _):
        reader, writer = await asyncio.open_connection(
            endpoint.host, endpoint.port, ssl=foreign_client_context(), server_hostname=""
        )
        assert writer.get_extra_info("ssl_object").version() == "TLSv1.3"
        data = random.Random(3).randbytes(MIB)
        await until(lambda: ends)
        (server,) = ends
        server.on_data = server.transport.write
        writer.write(data)
        assert await soon(reader.readexactly(len(data))) == data
        server.transport.close()
        assert await soon(reader.read()) == b""
        writer.close()
        await soon(writer.wait_closed())
        await soon(server.lost.wait())
        assert server.error is None
