"""Streams that the router brings: the peer of each stream, and the fate of streams without a name."""

import asyncio
import base64
import contextlib
import hashlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from structlog.testing import capture_logs

from gf_i2p.netdb.encoding import to_b32_address, to_base64
from gf_i2p.netdb.private_keys import DestinationKeys
from gf_i2p.transport.connection_counters import ConnectionRefusal
from gf_i2p.transport.connection_gate import Admission, Gate
from gf_i2p.transport.i2p import i2p_listener
from gf_i2p.transport.i2p.i2p_listener import MAX_PEER_LINE_BYTES, ConfiguredTunnel, I2pListener
from gf_i2p.transport.stream_protocol import StreamProtocol
from gf_i2p.wire.limits import MAX_UNAUTHENTICATED_PER_SOURCE
from tests.transport.harness import ends, hang_up, soon, until
from tests.transport.i2p.i2p_harness import PEER, Inbound

pytestmark = pytest.mark.usefixtures("unhandled")

LINE = PEER.base64.encode() + b"\n"


class Visitor(StreamProtocol):
    """The protocol that the listener makes for each stream."""

    def __init__(self, admission: Admission) -> None:
        self.admission = admission
        self.transport: Any = None
        self.received = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert self.transport is None
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        assert data, "an empty piece means nothing"
        self.received += data

    def connection_lost(self, exc: Exception | None) -> None:
        self.admission.closed()


@dataclass
class Site:
    listener: I2pListener
    gate: Gate
    visitors: list[Visitor]
    _writers: list[asyncio.StreamWriter] = field(default_factory=list)

    @property
    def port(self) -> int:
        return int(self.listener.addresses[0].rpartition(":")[2])

    async def stream(self, data: bytes = b"") -> asyncio.StreamReader:
        """Open a stream as the router does."""
        reader, writer = await soon(asyncio.open_connection("127.0.0.1", self.port))
        self._writers.append(writer)
        writer.write(data)
        return reader

    async def named_stream(self, number: int) -> asyncio.StreamReader:
        """Open a stream from the destination of this number; return when the listener has the name."""
        count = len(self.visitors)
        reader = await self.stream(destination(number).encode() + b"\n")
        await until(lambda: len(self.visitors) > count)
        return reader

    async def hang_up(self) -> None:
        for writer in self._writers:
            await hang_up(writer)


def destination(number: int) -> str:
    return DestinationKeys.generate(number.to_bytes).destination.base64


@contextlib.asynccontextmanager
async def site(gate: Gate | None = None, *, names_peers: bool = True) -> AsyncIterator[Site]:
    gate = gate or Gate()
    visitors: list[Visitor] = []

    def visited(admission: Admission) -> Visitor:
        visitors.append(Visitor(admission))
        return visitors[-1]

    inbound = Inbound(names_peers=names_peers)
    listener = await I2pListener.open(inbound, "127.0.0.1", 0, visited, gate)
    local_site = Site(listener, gate, visitors)
    try:
        yield local_site
    finally:
        listener.close()
        gate.close()
        await local_site.hang_up()
        await until(lambda: not gate.counters.unauthenticated)
        await until(lambda: not inbound.doing)


# --- The first line ---------------------------------------------------------------------------------------


async def test_the_first_line_says_whom_a_stream_is_from_and_the_rest_is_the_protocols() -> None:
    async with site() as local_site:
        await local_site.stream(LINE + b"GET /\n\r\n")
        await until(lambda: local_site.visitors and local_site.visitors[0].received == b"GET /\n\r\n")
        admission = local_site.visitors[0].admission
        assert (admission.source, admission.remote) == (PEER.b32, PEER.b32)


async def test_the_protocol_is_there_before_the_peer_says_anything() -> None:
    async with site() as local_site:
        reader = await local_site.stream(LINE)
        await until(lambda: local_site.visitors)
        local_site.visitors[0].transport.write(b"hello")
        assert await soon(reader.readexactly(5)) == b"hello"
        assert local_site.visitors[0].received == b""


class FakeTransport(asyncio.Transport):
    """A transport that shows the calls on the transport."""

    def __init__(self) -> None:
        super().__init__({"peername": ("127.0.0.1", 7)})
        self.protocol: asyncio.BaseProtocol | None = None
        self.aborted = False

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self.protocol = protocol

    def is_closing(self) -> bool:
        return self.aborted

    def abort(self) -> None:
        self.aborted = True

    def feed(self, data: bytes) -> None:
        if data and not self.aborted:
            assert isinstance(self.protocol, StreamProtocol)
            self.protocol.data_received(data)


class Arrivals:
    """Stands in for the listener."""

    def __init__(self) -> None:
        self.count = 0

    def arrived(self) -> None:
        self.count += 1


def begin(gate: Gate) -> tuple[FakeTransport, list[Visitor], Arrivals]:
    """Make a stream; the test chooses the stream's pieces."""
    visitors: list[Visitor] = []
    arrivals: Any = Arrivals()
    transport = FakeTransport()

    def visited(admission: Admission) -> Visitor:
        visitors.append(Visitor(admission))
        return visitors[-1]

    transport.protocol = stream = i2p_listener._Stream(arrivals, gate, visited, names_peer=True)
    stream.connection_made(transport)
    return transport, visitors, arrivals


async def test_the_line_may_be_cut_anywhere() -> None:
    gate = Gate()
    whole = LINE + b"\nRaft\n"
    for cut in range(len(whole)):
        transport, visitors, arrivals = begin(gate)
        transport.feed(whole[:cut])
        assert arrivals.count == len(visitors) == (cut >= len(LINE))
        transport.feed(whole[cut:])
        assert [(visitor.admission.remote, bytes(visitor.received)) for visitor in visitors] == [
            (PEER.b32, b"\nRaft\n")
        ]
        assert arrivals.count == 1
        visitors[0].connection_lost(None)
    assert gate.counters.refused == {ConnectionRefusal.LEFT: len(whole)}


async def test_the_line_may_come_byte_by_byte() -> None:
    gate = Gate()
    transport, visitors, _ = begin(gate)
    for byte in LINE + b"Raft":
        transport.feed(bytes([byte]))
    assert [bytes(visitor.received) for visitor in visitors] == [b"Raft"]
    gate.close()


@pytest.mark.parametrize("end", [b"\r\n", b" FROM_PORT=0 TO_PORT=7001\n"])
async def test_java_may_add_ports_to_the_line(end: bytes) -> None:
    gate = Gate()
    transport, visitors, _ = begin(gate)
    transport.feed(PEER.base64.encode() + end + b"Raft")
    assert visitors[0].admission.source == PEER.b32
    assert visitors[0].received == b"Raft"
    gate.close()


OTHER_KEYS = {
    "DSA-SHA1, without a key certificate": bytes(384) + bytes.fromhex("00 0000"),
    "ECDSA-P256": bytes(384) + bytes.fromhex("05 0004 0001 0000"),
    "ECDSA-P521, whose key continues in the certificate": bytes(384) + bytes.fromhex("05 0008 0003 0000") + bytes(4),
    "the longest": bytes(384) + bytes.fromhex("05 0058 0003 0000") + bytes(84),
}


@pytest.mark.parametrize("data", OTHER_KEYS.values(), ids=OTHER_KEYS)
async def test_a_peer_may_have_keys_that_we_could_not_use(data: bytes) -> None:
    # A router's proxy dials from the destination of its creation, perhaps long ago.
    gate = Gate()
    transport, visitors, _ = begin(gate)
    transport.feed(to_base64(data).encode() + b"\nRaft")
    assert not transport.aborted
    assert visitors[0].admission.remote == to_b32_address(hashlib.sha256(data).digest())
    gate.close()


# --- Streams that do not name the peer --------------------------------------------------------------------

RUBBISH = {
    "HTTP": b"GET / HTTP/1.1\r\n",
    "an empty line": b"\n",
    "no ASCII": b"\xff" * 524 + b"\n",
    "no base64": b"*" * 524 + b"\n",
    "the standard's base64": base64.b64encode(b"\xff" * 391) + b"\n",
    "less than a destination": LINE[4:],
    "more than a destination": b"AAAA" + LINE,
    "half a destination": LINE[:262] + b"\n",
    "a certificate that is longer": to_base64(bytes(384) + bytes.fromhex("05 0005 0007 0000")).encode() + b"\n",
    "SAM's status": b"STREAM STATUS RESULT=OK\n",
    "a space first": b" " + LINE,
    "two lines in one": LINE[:-1] + b"," + LINE,
    "a long line": b"A" * 5000 + b"\n",
    "no end of a line": b"A" * (MAX_PEER_LINE_BYTES + 1),
}


@pytest.mark.parametrize("data", RUBBISH.values(), ids=RUBBISH)
async def test_a_stream_without_a_peer_is_closed_and_counted(data: bytes) -> None:
    async with site() as local_site:
        with capture_logs() as lines:
            assert await ends(await local_site.stream(data + b"Raft")) == b""
            await until(lambda: local_site.gate.counters.refused)
        assert local_site.gate.counters.refused == {ConnectionRefusal.NOT_HTTP: 1}
        assert local_site.visitors == []
        assert "the router did not name the stream's sender: check that SAM forwards to this port" in str(lines)
        await until(lambda: not local_site.gate.counters.unauthenticated)


async def test_an_endless_line_is_read_up_to_its_limit() -> None:
    gate = Gate()
    transport, visitors, arrivals = begin(gate)
    for _ in range(MAX_PEER_LINE_BYTES):
        transport.feed(b"A")
    assert not transport.aborted
    transport.feed(b"A")
    assert transport.aborted
    assert (visitors, arrivals.count) == ([], 0)
    assert gate.counters.refused == {ConnectionRefusal.NOT_HTTP: 1}
    gate.close()


async def test_a_stream_that_ends_within_its_line_is_counted() -> None:
    async with site() as local_site:
        await local_site.stream(LINE[:100])
        await until(lambda: local_site.gate.counters.accepted)
        await local_site.hang_up()
        await until(lambda: local_site.gate.counters.refused == {ConnectionRefusal.LEFT: 1})
        assert local_site.visitors == []


@pytest.mark.parametrize("data", [b"", LINE[:100], LINE, LINE + b"GET"])
async def test_a_stream_that_says_no_more_is_refused_at_the_deadline(data: bytes) -> None:
    async with site(Gate(handshake_seconds=0.05)) as local_site:
        assert await ends(await local_site.stream(data)) == b""
        assert local_site.gate.counters.refused == {ConnectionRefusal.DEADLINE: 1}


async def test_the_clock_runs_from_the_connection_and_not_from_the_line() -> None:
    gate = Gate(handshake_seconds=1000.0)
    transport, visitors, _ = begin(gate)
    (admission,) = gate._unauthenticated["not named yet"]
    deadline = admission._deadline
    assert deadline is not None
    transport.feed(LINE)
    assert visitors[0].admission is admission
    assert admission._deadline is deadline
    gate.close()


# --- At the gate ------------------------------------------------------------------------------------------


async def test_strangers_count_for_their_destinations() -> None:
    async with site(Gate(max_per_source=2)) as local_site:
        first, second = await local_site.named_stream(1), await local_site.named_stream(1)
        others = [await local_site.named_stream(number) for number in range(2, 8)]
        assert local_site.gate.counters.unauthenticated == 8
        third = await local_site.named_stream(1)
        assert await ends(first) == b""
        assert local_site.gate.counters.refused == {ConnectionRefusal.SOURCE: 1}
        assert local_site.gate.counters.unauthenticated == 8
        assert not any(reader.at_eof() for reader in (second, third, *others))


async def test_those_that_are_not_named_yet_push_out_their_like_only() -> None:
    async with site(Gate(max_per_source=2)) as local_site:
        named_stream = await local_site.named_stream(1)
        unnamed = []
        for number in range(2, 5):
            unnamed.append(await local_site.stream())
            await until(lambda: local_site.gate.counters.accepted == number)  # noqa: B023
        assert await ends(unnamed[0]) == b""
        assert local_site.gate.counters.refused == {ConnectionRefusal.SOURCE: 1}
        assert not named_stream.at_eof()
        # A stream with a name is through at once, however many streams are silent.
        for number in range(2, 12):
            await local_site.named_stream(number)
        assert local_site.gate.counters.refused == {ConnectionRefusal.SOURCE: 2}
        assert len(local_site.visitors) == 11
        assert not unnamed[2].at_eof()


async def test_who_has_authenticated_is_no_stranger_of_its_destination() -> None:
    async with site(Gate(max_per_source=2)) as local_site:
        for _ in range(6):
            await local_site.named_stream(1)
            local_site.visitors[-1].admission.authenticated()
        assert local_site.gate.counters.refused == {}
        assert local_site.gate.counters.authenticated == 6


async def test_a_destination_may_reconnect_all_its_clients_at_once() -> None:
    async with site() as local_site:
        for _ in range(MAX_UNAUTHENTICATED_PER_SOURCE):
            await local_site.named_stream(1)
        assert local_site.gate.counters.refused == {}


# --- A server tunnel of the router's ----------------------------------------------------------------------


async def test_a_server_tunnel_names_nobody_so_addresses_count() -> None:
    async with site(names_peers=False) as local_site:
        await local_site.stream(b"GET /\n")
        await until(lambda: local_site.visitors and local_site.visitors[0].received == b"GET /\n")
        admission = local_site.visitors[0].admission
        assert admission.source == "127.0.0.1"
        assert admission.remote.startswith("127.0.0.1:")


async def test_a_server_tunnel_is_the_operators_to_keep() -> None:
    tunnel = ConfiguredTunnel()
    assert not tunnel.names_peers
    with capture_logs() as lines:
        listener = await I2pListener.open(tunnel, "127.0.0.1", 0, Visitor, Gate())
        await until(lambda: lines)
        listener.close()
        await soon(asyncio.wait([listener._keeper]))
    assert [line["event"] for line in lines] == ["reachable through I2P"]
    assert lines[0]["address"] == f"the router's server tunnel to {listener.addresses[0]}"
    assert await tunnel.published()
