"""Streams to a local service and back: bridges/streaming/tcp_forward.py."""

import asyncio
import hashlib
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

import pytest

from bridges.hosting_protocol import StreamLimits
from bridges.streaming import limits, tcp_forward
from bridges.streaming.envelope import pack_packet, unpack
from bridges.streaming.http_headers import BAD_REQUEST, HttpRequest
from bridges.streaming.http_response import BAD_GATEWAY
from bridges.streaming.packet import Flag, Packet
from bridges.streaming.stream import StreamPeer
from bridges.streaming.tcp_forward import Forwarder
from tests.bridges.streaming.streaming_client import CLIENT, Client
from tests.netdb.strategies import KEYS, NOW, entropy
from tests.transport.harness import PATIENCE
from tests.transport.i2p.i2p_harness import taken_port

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Line:
    """A forwarder; the clients' packets reach the forwarder at once."""

    def __init__(self, target: tuple[str, int], *, http: bool = False, most: StreamLimits | None = None) -> None:
        self.forwarder = Forwarder(
            KEYS, target, self._send, http=http, most=most, entropy=entropy(41), wall=lambda: NOW
        )
        self.clients: dict[int, Client] = {}
        self.changed = asyncio.Event()
        self.deaf = False
        """Whether all packets to the clients are lost."""
        self._loop = asyncio.get_running_loop()

    def client(self, data: bytes, number: int = 77) -> Client:
        client = self.clients[number] = Client(data, number=number)
        client.start(self._loop.time())
        self._flush(client)
        return client

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not condition():
                self.changed.clear()
                for client in self.clients.values():
                    client.tick(self._loop.time())
                    self._flush(client)
                with suppress(TimeoutError):
                    async with asyncio.timeout(0.05):
                        await self.changed.wait()

    def _send(self, peer: StreamPeer, payload: bytes) -> None:
        self.changed.set()
        assert peer.destination == CLIENT.destination
        raw = unpack(payload).payload
        client = self.clients[Packet.parse(raw).to]
        if not self.deaf:
            self._loop.call_soon(self._deliver, client, raw)

    def _deliver(self, client: Client, raw: bytes) -> None:
        client.receive(raw, self._loop.time())
        self.changed.set()
        self._flush(client)

    def _flush(self, client: Client) -> None:
        outgoing, client.outgoing = client.outgoing, []
        for raw in outgoing:
            self.forwarder.receive(pack_packet(raw, 0, 0))


@asynccontextmanager
async def serving(serve: Serve, *, http: bool = False, most: StreamLimits | None = None) -> AsyncIterator[Line]:
    tasks: set[asyncio.Task[None]] = set()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            with suppress(OSError):
                await serve(reader, writer)
        except asyncio.CancelledError:
            pass
        finally:
            writer.transport.abort()
            with suppress(OSError, asyncio.CancelledError):
                await writer.wait_closed()
            tasks.discard(task)

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    line = Line(server.sockets[0].getsockname()[:2], http=http, most=most)
    try:
        yield line
    finally:
        await line.forwarder.close()
        assert line.forwarder.open == 0
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        server.close()


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(10_000):
        writer.write(data)
        await writer.drain()


async def test_bytes_go_to_the_service_and_back_and_so_do_ends() -> None:
    data = random.Random(1).randbytes(2_500_000)
    async with serving(echo) as line:
        client = line.client(data)
        await line.until(lambda: client.done and not line.forwarder.open)
        assert client.received == data
        assert (line.forwarder.served, line.forwarder.trouble) == (1, None)


async def test_many_streams_side_by_side() -> None:
    async with serving(echo) as line:
        clients = [line.client(b"%d" % number * 1000, number) for number in range(1, 21)]
        await line.until(lambda: all(client.done for client in clients) and not line.forwarder.open)
        assert all(client.received == b"%d" % client.number * 1000 for client in clients)


async def test_a_service_that_is_down_resets_the_stream_and_says_what_to_do() -> None:
    with taken_port() as sock:
        down = Line(sock.getsockname())
        client = down.client(b"GET")
        await down.until(lambda: client.reset and not down.forwarder.open)
    assert down.forwarder.trouble is not None
    assert "does not answer (Connection refused)" in down.forwarder.trouble
    assert "start it, or mend the address" in down.forwarder.trouble


async def test_a_service_that_breaks_off_after_some_bytes() -> None:
    async def rude(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"some")
        await writer.drain()
        await reader.read(1)
        writer.transport.abort()

    async with serving(rude) as line:
        client = line.client(bytes(100_000))
        await line.until(lambda: (client.reset or client.ended) and not line.forwarder.open)
        assert client.received == b"some"


async def test_a_client_that_resets_breaks_the_service_s_connection() -> None:
    broken = asyncio.Event()
    began = asyncio.Event()

    async def watch(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        began.set()
        with suppress(OSError):
            await reader.read()
        broken.set()

    async with serving(watch) as line:
        client = line.client(b"GET")
        client._pieces = [b"GET"]  # it does not close
        await line.until(lambda: bool(client.remote) and began.is_set())
        reset = Packet(client.remote, client.number, 9, 0, flags=Flag.RESET | Flag.SIGNATURE)
        line.forwarder.receive(pack_packet(reset.encode(CLIENT.key.sign), 0, 0))
        await line.until(lambda: broken.is_set() and not line.forwarder.open)


async def test_a_client_that_is_gone_breaks_the_service_s_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bridges.streaming.round_trip.MIN_TIMEOUT", 0.01)
    monkeypatch.setattr("bridges.streaming.round_trip.MAX_TIMEOUT", 0.02)

    async def talkative(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            writer.write(bytes(10_000))
            await writer.drain()

    async with serving(talkative) as line:
        client = line.client(b"GET")
        client._pieces = [b"GET"]
        await line.until(lambda: len(client.received) > 100_000)
        line.deaf = True
        await line.until(lambda: not line.forwarder.open)


async def test_a_slow_client_holds_the_service_back() -> None:
    written = 0

    async def talkative(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal written
        while True:
            writer.write(bytes(50_000))
            await writer.drain()
            written += 50_000

    async with serving(talkative) as line:
        client = line.client(b"GET")
        await line.until(lambda: bool(client.remote))
        line.deaf = True
        (stream,) = line.forwarder._acceptor.streams
        await line.until(lambda: stream.room == 0)
        assert stream.buffered <= limits.MAX_UNSENT + (limits.MAX_WINDOW + 1) * 2500


async def test_a_slow_service_holds_the_client_back() -> None:
    go_on = asyncio.Event()
    digest = hashlib.sha256()

    async def slow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await go_on.wait()
        while data := await reader.read(65_536):
            digest.update(data)

    data = random.Random(2).randbytes(12_000_000)
    async with serving(slow) as line:
        client = line.client(data)
        await line.until(lambda: bool(client.remote))
        (stream,) = line.forwarder._acceptor.streams
        await line.until(lambda: stream._receiver.choked)
        assert stream.buffered < limits.MAX_UNREAD + 2000
        go_on.set()
        await line.until(lambda: client.done and not line.forwarder.open)
        assert digest.digest() == hashlib.sha256(data).digest()


# First packets --------------------------------------------------------------------------------------------------------


async def test_a_first_packet_without_data_brings_no_connection_to_the_service() -> None:
    connected = 0

    async def count(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connected
        connected += 1
        await echo(reader, writer)

    async with serving(count) as line:
        line.deaf = True
        silent = line.client(b"never sent", 1)
        line.deaf = False
        client = line.client(b"hello", 2)
        await line.until(lambda: client.done and line.forwarder.open == 0)
        assert client.received == b"hello"
        assert silent.remote == 0
        assert (connected, line.forwarder.served) == (1, 1)


async def test_a_service_that_speaks_first_does_so_once_the_client_has_the_answer() -> None:
    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 ready\r\n")
        await reader.read()

    async with serving(greet) as line:
        client = line.client(b"")
        client._pieces = []  # the client sends no data, and does not close
        await line.until(lambda: client.received == b"220 ready\r\n")


async def test_a_stream_that_gives_way_loses_its_connection_and_its_client_hears_of_it() -> None:
    ended = 0

    async def watch(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal ended
        with suppress(OSError):
            await reader.read()
        ended += 1

    async with serving(watch, most=StreamLimits(4, 3)) as line:
        clients = [line.client(b"GET", number) for number in (1, 2, 3)]
        for client in clients:
            client._pieces = [b"GET"]
        await line.until(lambda: all(client.remote for client in clients) and line.forwarder.open == 3)
        streams = line.forwarder._acceptor.streams
        await line.until(lambda: all(stream.served for stream in streams))
        for stream in streams:
            stream.progress -= limits.STANDING + stream.remote_number
        late = line.client(b"GET", 4)
        late._pieces = [b"GET"]
        await line.until(lambda: clients[2].reset and ended == 1 and bool(late.remote))
        assert [client.reset for client in clients] == [False, False, True]
        assert (line.forwarder.open, line.forwarder.evicted, line.forwarder.refused) == (3, 1, 0)


async def test_a_service_that_takes_no_data_does_not_hold_the_place_of_a_stream_that_was_reset() -> None:
    async def stuck(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.get_running_loop().create_future()

    async with serving(stuck) as line:
        client = line.client(bytes(12_000_000))
        await line.until(lambda: bool(client.remote))
        (stream,) = line.forwarder._acceptor.streams
        await line.until(lambda: stream._receiver.choked)
        reset = Packet(client.remote, client.number, 9, 0, flags=Flag.RESET | Flag.SIGNATURE)
        line.forwarder.receive(pack_packet(reset.encode(CLIENT.key.sign), 0, 0))
        assert (line.forwarder.open, line.forwarder._acceptor.open) == (0, 0)


# Web servers ----------------------------------------------------------------------------------------------------------


async def web(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer with the request, and go on listening, like a server that ignores `Connection: close`."""
    request = await reader.readuntil(b"\r\n\r\n")
    writer.write(b"HTTP/1.1 200 OK\r\n\r\n" + request)
    await writer.drain()
    writer.write_eof()
    await reader.read()


async def test_a_web_server_is_told_who_asks() -> None:
    async with serving(web, http=True) as line:
        client = line.client(b"GET / HTTP/1.1\r\nX-I2P-DestB32: forged\r\nHost: a\r\n\r\nGET /2 HTTP/1.1\r\n\r\n")
        await line.until(lambda: client.done and not line.forwarder.open)
        assert f"\r\nX-I2P-DestB32: {CLIENT.destination.b32}\r\n".encode() in client.received
        assert b"forged" not in client.received
        assert b"/2" not in client.received


async def test_an_answer_says_nothing_about_the_web_server() -> None:
    body = random.Random(5).randbytes(200_000)

    async def tell(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        for piece in (b"HTTP/1.1 200 OK\r\nDate: now\r\nSer", b"ver: x\r\nA:b\r\n", b"B:" + b"c" * 30_000, b"\r\n\r\n"):
            writer.write(piece)
            await writer.drain()
        writer.write(body)
        await writer.drain()

    async with serving(tell, http=True) as line:
        client = line.client(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        await line.until(lambda: client.done and not line.forwarder.open)
        assert client.received == b"HTTP/1.1 200 OK\r\nA: b\r\nB: " + b"c" * 30_000 + b"\r\n\r\n" + body


@pytest.mark.parametrize("answer", [b"SSH-2.0\r\n\r\n", b"HTTP/1.1 200 OK\r\nServer: x\r\n", b""])
async def test_an_answer_that_is_none_does_not_reach_the_client(answer: bytes) -> None:
    async def rude(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        await writer.drain()

    async with serving(rude, http=True) as line:
        client = line.client(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        await line.until(lambda: (client.done or client.reset) and not line.forwarder.open)
        assert client.received == BAD_GATEWAY


async def test_a_request_that_is_none_is_answered_without_the_service() -> None:
    async with serving(web, http=True) as line:
        client = line.client(b"SSH-2.0\r\n\r\n")
        await line.until(lambda: client.done and not line.forwarder.open)
        assert client.received == BAD_REQUEST


async def test_the_loop_turns_after_each_piece_of_a_request_also_with_many_clients(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Tiny chunks cost a microsecond a byte, and a blocked event loop would delay elections."""
    loop = asyncio.get_running_loop()
    fed: list[tuple[int, int]] = []
    turns = 0
    over = False
    feed = HttpRequest.feed
    bodies: list[bytes] = []
    head = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
    sent = random.Random(3).randbytes(12_000)
    chunks = b"".join(b"1\r\n%c\r\n" % byte for byte in sent) + b"0\r\n\r\n"

    def turn() -> None:
        nonlocal turns
        turns += 1
        if not over:
            loop.call_soon(turn)

    def watched(request: HttpRequest, data: bytes) -> bytes:
        fed.append((turns, len(data)))
        return feed(request, data)

    async def collect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        body = bytearray()
        while size := int(await reader.readline(), 16):
            body += (await reader.readexactly(size + 2))[:size]
        bodies.append(bytes(body))

    monkeypatch.setattr(HttpRequest, "feed", watched)
    loop.call_soon(turn)
    async with serving(collect, http=True) as line:
        clients = [line.client(head + chunks, number) for number in (77, 78, 79)]
        await line.until(lambda: all(client.done for client in clients) and not line.forwarder.open)
    over = True
    assert bodies == [sent] * 3
    assert sum(size for _, size in fed) >= 3 * len(head + chunks)
    assert max(size for _, size in fed) == tcp_forward.MAX_FED
    assert len({at for at, _ in fed}) == len(fed)


async def test_a_client_that_says_nothing_gets_no_connection_to_the_web_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tcp_forward, "HEAD_SECONDS", 0.05)
    async with serving(web, http=True) as line:
        client = line.client(b"GET / HT")
        client._pieces = [b"GET / HT"]
        await line.until(lambda: client.reset and not line.forwarder.open)
        assert client.received == b""


# Ends ---------------------------------------------------------------------------------------------------------------


async def test_closing_resets_the_clients_and_waiting_for_none_waits_for_all() -> None:
    began = asyncio.Event()

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        began.set()
        await reader.read()
        await asyncio.get_running_loop().create_future()

    async with serving(silent) as line:
        await line.forwarder.wait_until_idle()
        client = line.client(b"GET")
        none = asyncio.create_task(line.forwarder.wait_until_idle())
        await line.until(began.is_set)
        assert not none.done()
        line.forwarder.accepts_streams = False
        late = line.client(b"GET", 78)
        await line.forwarder.close()
        await line.until(lambda: client.reset)
        await none
        assert (late.remote, line.forwarder.refused) == (0, 1)


async def test_what_is_no_packet_is_passed_over() -> None:
    async with serving(echo) as line:
        for payload in (b"", b"garbage", pack_packet(b"garbage", 0, 0), pack_packet(Packet(5, 6, 7).encode(), 0, 0)):
            line.forwarder.receive(payload)
        assert line.forwarder.open == 0
