import asyncio
import contextlib
import random
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from gf_i2p.transport.tls.tls_channel import RECORD_BYTES, SCRATCH_BYTES, TlsChannel
from tests.transport.harness import PATIENCE, Identity, foreign_client_context, soon, until

pytestmark = pytest.mark.usefixtures("unhandled")

MIB = 1024 * 1024


@dataclass(eq=False)
class Recorder(asyncio.Protocol):
    """Notes what happens to it."""

    received: bytearray = field(default_factory=bytearray)
    pieces: int = 0
    events: list[str] = field(default_factory=list)
    lost: asyncio.Event = field(default_factory=asyncio.Event)
    error: Exception | None = None
    on_data: Callable[[bytes], None] = lambda _: None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
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


@dataclass
class End:
    """One end of a connection."""

    channel: TlsChannel
    protocol: Recorder
    failures: list[Exception | None]


def server_context(identity: Identity) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(identity.certificate, identity.key)
    return context


def end(sock: socket.socket, context: ssl.SSLContext, *, server_side: bool) -> End:
    protocol = Recorder()
    failures: list[Exception | None] = []
    sock.setblocking(False)
    channel = TlsChannel(
        asyncio.get_running_loop(),
        sock,
        context,
        server_side=server_side,
        server_hostname=None,
        scratch=memoryview(bytearray(SCRATCH_BYTES)),
        opened=lambda _: protocol,
        failed=failures.append,
    )
    channel.start()
    return End(channel, protocol, failures)


@contextlib.asynccontextmanager
async def pair(identity: Identity) -> AsyncIterator[tuple[End, End]]:
    """Client and server, connected."""
    left, right = socket.socketpair()
    server = end(right, server_context(identity), server_side=True)
    client = end(left, foreign_client_context(), server_side=False)
    await until(lambda: client.protocol.events and server.protocol.events)
    try:
        yield client, server
    finally:
        for each in (client, server):
            each.channel.abort()
            await soon(each.protocol.lost.wait())


async def test_both_ends_meet_and_part(node: Identity) -> None:
    async with pair(node) as (client, server):
        client.channel.write(b"ping")
        await until(lambda: server.protocol.received == b"ping")
        server.channel.write(b"pong")
        await until(lambda: client.protocol.received == b"pong")
        assert server.channel.peer_certificate is None
        assert ssl.DER_cert_to_PEM_cert(client.channel.peer_certificate or b"") == node.certificate.read_text()
        client.channel.close()
        assert client.channel.is_closing()
        await soon(client.protocol.lost.wait())
        await soon(server.protocol.lost.wait())
    assert client.protocol.events == server.protocol.events == ["made", "lost"]
    assert client.protocol.error is server.protocol.error is None
    assert client.failures == server.failures == []


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
            sender.channel.write(data)
            expected[id(receiver)] += data
            if choice.random() < 0.2:
                await asyncio.sleep(0)
        await until(lambda: all(len(each.protocol.received) == len(expected[id(each)]) for each in (client, server)))
        assert client.protocol.received == expected[id(client)]
        assert server.protocol.received == expected[id(server)]


async def test_the_largest_message_passes_and_what_waits_is_told(node: Identity) -> None:
    data = random.Random(1).randbytes(16 * MIB)
    async with pair(node) as (client, server):
        server.channel.pause_reading()
        client.channel.write(data)
        assert client.protocol.events == ["made", "pause"]
        assert client.channel.get_write_buffer_size() > 10 * MIB
        server.channel.resume_reading()
        await until(lambda: len(server.protocol.received) == len(data))
        assert server.protocol.received == data
        await until(lambda: client.protocol.events == ["made", "pause", "resume"])
        assert client.channel.get_write_buffer_size() == 0


async def test_a_burst_of_small_writes_arrives_in_few_pieces(node: Identity) -> None:
    async with pair(node) as (client, server):
        for _ in range(200):
            client.channel.write(bytes(26))
        await until(lambda: len(server.protocol.received) == 5200)
        assert server.protocol.pieces < 20


async def test_small_writes_to_a_full_socket_arrive_in_order(node: Identity) -> None:
    async with pair(node) as (client, server):
        server.channel.pause_reading()
        sent = bytearray()
        while client.channel.get_write_buffer_size() < 1000:
            sent += len(sent).to_bytes(100, "big")
            client.channel.write(sent[-100:])
        server.channel.resume_reading()
        await until(lambda: len(server.protocol.received) == len(sent))
        assert server.protocol.received == sent


async def test_a_forged_record_ends_the_connection(node: Identity) -> None:
    async with pair(node) as (client, server):
        client.channel._sock.send(b"\x17\x03\x03\x00\x20" + bytes(32))
        await soon(server.protocol.lost.wait())
        assert isinstance(server.protocol.error, ssl.SSLError)
        assert server.protocol.received == b""


async def test_writing_to_a_peer_that_has_gone_ends_the_connection(node: Identity) -> None:
    async with pair(node) as (client, server):
        server.channel.pause_reading()
        server.channel.write(b"unread")
        client.channel.pause_reading()
        server.channel.abort()
        await soon(server.protocol.lost.wait())
        while not client.channel.is_closing():
            client.channel.write(bytes(100))
        assert client.protocol.events == ["made"]  # told later, never from within write
        await soon(client.protocol.lost.wait())
        assert isinstance(client.protocol.error, OSError)


async def test_the_limits_of_the_write_buffer_are_kept(node: Identity) -> None:
    async with pair(node) as (client, server):
        client.channel.set_write_buffer_limits(high=1000, low=0)
        assert client.channel.get_write_buffer_limits() == (0, 1000)
        server.channel.pause_reading()
        assert not server.channel.is_reading()
        while not client.channel.get_write_buffer_size():
            client.channel.write(bytes(RECORD_BYTES))
        client.channel.write(bytes(1000))
        assert client.protocol.events[-1] == "pause"
        server.channel.resume_reading()
        await until(lambda: client.protocol.events[-1] == "resume")
        assert client.channel.get_write_buffer_size() == 0
        for high, low in ((10, 11), (-1, None)):
            with pytest.raises(ValueError, match="limits"):
                client.channel.set_write_buffer_limits(high, low)


async def test_a_paused_reader_gets_nothing_until_it_resumes(node: Identity) -> None:
    async with pair(node) as (client, server):
        server.channel.pause_reading()
        client.channel.write(b"one")
        client.protocol.received.clear()
        server.channel.write(b"other way")
        await until(lambda: client.protocol.received == b"other way")
        assert server.protocol.received == b""
        server.channel.resume_reading()
        await until(lambda: server.protocol.received == b"one")


async def test_close_sends_what_waits(node: Identity, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gf_i2p.transport.tls.tls_channel._LINGER_SECONDS", PATIENCE)
    data = random.Random(2).randbytes(8 * MIB)
    async with pair(node) as (client, server):
        client.channel.write(data)
        client.channel.close()
        client.channel.write(b"too late")
        await soon(server.protocol.lost.wait())
        assert server.protocol.received == data
        await soon(client.protocol.lost.wait())
        assert client.protocol.error is None


async def test_close_does_not_lose_the_last_words_to_unread_input(
    node: Identity, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gf_i2p.transport.tls.tls_channel._LINGER_SECONDS", PATIENCE)
    # A socket closed with unread input answers with a reset, which may overtake what was sent before.
    async with pair(node) as (client, server):
        client.channel.write(bytes(MIB))
        server.channel.write(b"last words")
        server.channel.close()
        await soon(client.protocol.lost.wait())
        assert client.protocol.received == b"last words"
        assert client.protocol.error is None


async def test_close_gives_up_on_a_peer_that_does_not_read(node: Identity, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gf_i2p.transport.tls.tls_channel._LINGER_SECONDS", 0.01)
    async with pair(node) as (client, server):
        server.channel.pause_reading()
        client.channel.write(bytes(16 * MIB))
        client.channel.close()
        await soon(client.protocol.lost.wait())
        assert server.protocol.events == ["made"]


async def test_nothing_is_delivered_after_close(node: Identity) -> None:
    async with pair(node) as (client, server):
        server.protocol.on_data = lambda _: server.channel.close()
        client.channel.write(b"first")
        await until(server.channel.is_closing)
        client.channel.write(b"second")
        await soon(server.protocol.lost.wait())
        assert server.protocol.received == b"first"


async def test_abort_drops_everything(node: Identity) -> None:
    async with pair(node) as (client, server):
        server.channel.pause_reading()
        client.channel.write(bytes(16 * MIB))
        client.channel.abort()
        client.channel.abort()
        client.channel.close()
        client.channel.write(b"ignored")
        assert client.channel.get_write_buffer_size() == 0
        await soon(client.protocol.lost.wait())
        assert client.protocol.events == ["made", "pause", "lost"]
        with pytest.raises(RuntimeError, match="no protocol"):
            client.channel.get_protocol()


async def test_an_exception_in_the_protocol_closes_the_connection_and_is_reported(
    node: Identity, unhandled: list[dict[str, Any]]
) -> None:
    def fail(_: bytes) -> None:
        raise ZeroDivisionError

    async with pair(node) as (client, server):
        server.protocol.on_data = fail
        client.channel.write(b"x")
        await soon(server.protocol.lost.wait())
        await soon(client.protocol.lost.wait())
    assert [type(context["exception"]) for context in unhandled] == [ZeroDivisionError]
    unhandled.clear()


async def test_the_protocol_can_be_exchanged(node: Identity) -> None:
    async with pair(node) as (client, server):
        second = Recorder()
        assert server.channel.get_protocol() is server.protocol
        server.channel.set_protocol(second)
        client.channel.write(b"hello")
        await until(lambda: second.received == b"hello")
        server.channel.set_protocol(server.protocol)


@pytest.mark.parametrize("sent", [b"GET / HTTP/1.1\r\n\r\n", bytes(100), b"\x16\x03\x01\xff\xff" + bytes(200)])
async def test_what_is_no_tls_fails_the_handshake(node: Identity, sent: bytes) -> None:
    left, right = socket.socketpair()
    server = end(right, server_context(node), server_side=True)
    with left:
        left.setblocking(False)
        await asyncio.get_running_loop().sock_sendall(left, sent)
        left.shutdown(socket.SHUT_WR)
        await until(lambda: server.failures)
        assert isinstance(server.failures[0], ssl.SSLError | ConnectionError)
    assert len(server.failures) == 1
    assert server.protocol.events == []


async def test_a_peer_that_leaves_in_the_handshake_fails_it(node: Identity) -> None:
    left, right = socket.socketpair()
    server = end(right, server_context(node), server_side=True)
    left.close()
    await until(lambda: server.failures)
    assert isinstance(server.failures[0], ConnectionResetError)


async def test_closing_in_the_handshake_fails_it_without_an_error(node: Identity) -> None:
    left, right = socket.socketpair()
    with left:
        server = end(right, server_context(node), server_side=True)
        server.channel.close()
        assert server.failures == [None]


async def test_the_peer_is_judged_before_anything_but_the_hello_is_sent(node: Identity) -> None:
    left, right = socket.socketpair()
    server = end(right, server_context(node), server_side=True)

    def judge(_: TlsChannel) -> asyncio.Protocol:
        raise PermissionError("not you")

    failures: list[Exception | None] = []
    left.setblocking(False)
    client = TlsChannel(
        asyncio.get_running_loop(),
        left,
        foreign_client_context(),
        server_side=False,
        server_hostname=None,
        scratch=memoryview(bytearray(SCRATCH_BYTES)),
        opened=judge,
        failed=failures.append,
    )
    client.start()
    await until(lambda: failures)
    assert isinstance(failures[0], PermissionError)
    # The server has not even seen the end of the handshake.
    await until(lambda: server.failures)
    assert server.protocol.events == []


async def test_it_talks_to_the_event_loops_own_tls(node: Identity) -> None:
    loop = asyncio.get_running_loop()
    left, right = socket.socketpair()
    server = end(right, server_context(node), server_side=True)
    left.setblocking(False)
    reader, writer = await asyncio.open_connection(sock=left, ssl=foreign_client_context(), server_hostname="")
    assert writer.get_extra_info("ssl_object").version() == "TLSv1.3"
    data = random.Random(3).randbytes(MIB)
    server.protocol.on_data = server.channel.write
    writer.write(data)
    assert await soon(reader.readexactly(len(data))) == data
    server.channel.close()
    assert await soon(reader.read()) == b""
    writer.close()
    await soon(writer.wait_closed())
    await soon(server.protocol.lost.wait())
    assert server.protocol.error is None
    assert loop.is_running()
