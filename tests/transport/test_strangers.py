"""Peers that are not let in, and the harm that such peers cannot do to others."""

import asyncio
import contextlib
import socket
import ssl

import pytest
from structlog.testing import capture_logs

from gf_i2p.transport.connection_counters import ConnectionRefusal
from gf_i2p.transport.connection_gate import Gate
from gf_i2p.transport.stream_protocol import StreamProtocol
from gf_i2p.wire.limits import MAX_UNAUTHENTICATED_PER_SOURCE
from gf_i2p.wire.messages import encode_request
from tests.transport.harness import (
    CLUSTER,
    GET,
    Farm,
    GateClock,
    Identity,
    ask,
    authenticator,
    connected,
    echo,
    ends,
    exchange,
    foreign_client,
    foreign_client_context,
    foreign_session,
    hang_up,
    read_responses,
    request,
    response,
    serving,
    soon,
    until,
)

pytestmark = pytest.mark.usefixtures("unhandled")


async def refused(farm: Farm, reason: ConnectionRefusal) -> None:
    await until(lambda: farm.server.counters.refused[reason])
    assert farm.server.counters.refused == {reason: 1}
    await until(lambda: farm.server.counters.unauthenticated == 0)
    assert farm.server.counters.authenticated == 0


@pytest.mark.parametrize(
    "head",
    [
        GET.replace(b"farm/1", b"other/1") + b"\r\n",
        GET.replace(b"/1/", b"/2/") + b"\r\n",
        GET.replace(b"HTTP/1.1", b"HTTP/1.0") + b"\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
    ],
)
async def test_a_wrong_path_is_answered_with_404_and_closed(node: Identity, head: bytes) -> None:
    async with serving(node) as farm:
        assert (await exchange(farm, head)).startswith(b"HTTP/1.1 404 Not Found\r\n")
        await refused(farm, ConnectionRefusal.NOT_FOUND)


async def test_no_credentials_are_an_ordinary_beginning(node: Identity) -> None:
    async with serving(node) as farm:
        assert (await exchange(farm, GET + b"\r\n")).startswith(b"HTTP/1.1 401 Unauthorized\r\n")
        await until(lambda: farm.server.counters.unauthenticated == 0)
        assert farm.server.counters.refused == {}
        assert farm.server.counters.challenged == 1


async def test_wrong_credentials_are_counted(node: Identity) -> None:
    async with serving(node) as farm:
        wrong = b'Digest username="server-1", realm="farm", nonce="x", uri="/", response="0"'
        # In pieces, too: the whole head counts.
        reader, writer = await foreign_client(farm)
        for piece in (GET + b"autho", b"rizaTION: " + wrong + b"\r\n\r\n"):
            writer.write(piece)
            await asyncio.sleep(0)
        assert (await ends(reader)).startswith(b"HTTP/1.1 401 Unauthorized\r\n")
        await hang_up(writer)
        await refused(farm, ConnectionRefusal.CREDENTIALS)


@pytest.mark.parametrize("data", [b"\x00\x01\x02", b"A" * 20_000, b"no http at all\r\n\r\n"])
async def test_what_is_no_http_is_closed_without_a_byte(node: Identity, data: bytes) -> None:
    async with serving(node) as farm:
        assert await exchange(farm, data) == b""
        await refused(farm, ConnectionRefusal.NOT_HTTP)


@pytest.mark.parametrize("data", [GET + b"\r\n", b"\x00" * 64, b"\x16\x03\x01\x02\x00" + b"x" * 600])
async def test_what_is_no_tls_is_closed(node: Identity, data: bytes) -> None:
    async with serving(node) as farm:
        reader, writer = await asyncio.open_connection(farm.endpoint.host, farm.endpoint.port)
        writer.write(data)
        assert b"HTTP/" not in await ends(reader)
        await hang_up(writer)
        await refused(farm, ConnectionRefusal.TLS)


async def test_who_leaves_in_the_middle_is_counted(node: Identity) -> None:
    async with serving(node) as farm:
        _, writer = await foreign_client(farm)
        await until(lambda: farm.server.counters.unauthenticated == 1)
        await hang_up(writer)
        await refused(farm, ConnectionRefusal.LEFT)


async def test_who_looks_in_without_a_word_is_counted(node: Identity) -> None:
    async with serving(node) as farm:
        socket.create_connection((farm.endpoint.host, farm.endpoint.port)).close()
        await refused(farm, ConnectionRefusal.LEFT)


async def test_a_byte_at_a_time_does_not_pass_the_deadline_over_tls(
    node: Identity, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = GateClock(monkeypatch)
    async with serving(node, gate=Gate(handshake_seconds=10.0)) as farm:
        reader, writer = await foreign_client(farm)
        ended = asyncio.ensure_future(ends(reader))
        for byte in GET + b"X-Filler: " + b"x" * 10_000:
            if farm.server.counters.refused:
                break
            writer.write(bytes([byte]))
            await asyncio.wait([ended], timeout=0.005)
            assert not ended.done()
            clock.move(0.1)
        assert await soon(ended) == b""
        assert 1010.0 <= clock.time() < 1010.2
        await hang_up(writer)
        await refused(farm, ConnectionRefusal.DEADLINE)


async def test_a_byte_at_a_time_does_not_pass_the_deadline_within_tls(node: Identity) -> None:
    # A real ClientHello, sent so slowly that TLS never stands.
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    hello = foreign_client_context().wrap_bio(incoming, outgoing)
    with contextlib.suppress(ssl.SSLWantReadError):
        hello.do_handshake()
    async with serving(node, gate=Gate(handshake_seconds=0.4)) as farm:
        reader, writer = await asyncio.open_connection(farm.endpoint.host, farm.endpoint.port)
        ended = asyncio.ensure_future(ends(reader))
        for byte in outgoing.read()[:-1]:
            if ended.done():
                break
            writer.write(bytes([byte]))
            await asyncio.wait([ended], timeout=0.005)
        assert await soon(ended) == b""
        await hang_up(writer)
        await refused(farm, ConnectionRefusal.DEADLINE)


async def test_a_crowd_of_silent_strangers_does_not_keep_a_peer_out(node: Identity) -> None:
    gate = Gate(max_unauthenticated=8, max_per_source=6)
    async with serving(node, echo, gate=gate) as farm:
        crowd = [
            socket.create_connection((farm.endpoint.host, farm.endpoint.port), source_address=(source, 0))
            for source in ("127.0.0.2", "127.0.0.3", "127.0.0.4")
            for _ in range(6)
        ]
        await until(lambda: farm.server.counters.accepted == 18)
        assert farm.server.counters.unauthenticated == 8
        assert farm.server.counters.refused == {ConnectionRefusal.CROWDED: 10}
        reader, writer = await foreign_session(farm)
        writer.write(encode_request(request(index=3)))
        assert await read_responses(reader, 1) == [3]
        await hang_up(writer)
        for sock in crowd:
            sock.close()


async def test_too_many_strangers_from_one_address_push_out_their_oldest(node: Identity) -> None:
    async with serving(node, gate=Gate(max_per_source=3)) as farm:
        place = (farm.endpoint.host, farm.endpoint.port)
        crowd = []
        for number in range(1, 5):
            crowd.append(await soon(asyncio.open_connection(*place)))
            await until(lambda: farm.server.counters.accepted == number)  # noqa: B023
        assert await ends(crowd[0][0]) == b""
        assert farm.server.counters.unauthenticated == 3
        assert farm.server.counters.refused == {ConnectionRefusal.SOURCE: 1}
        for _, writer in crowd:
            await hang_up(writer)


class Holder(StreamProtocol):
    def __init__(self) -> None:
        self.lost = asyncio.Event()

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.set()


async def hold(farm: Farm, context: ssl.SSLContext | None) -> None:
    """Hold a silent connection to the server, and dial again after each hang-up."""
    loop = asyncio.get_running_loop()
    while True:
        with contextlib.suppress(OSError):
            transport, holder = await loop.create_connection(
                Holder, farm.endpoint.host, farm.endpoint.port, ssl=context
            )
            try:
                await holder.lost.wait()
            finally:
                transport.abort()


@pytest.mark.parametrize("encrypted", [False, True])
async def test_a_crowd_from_the_same_address_does_not_keep_a_peer_out(node: Identity, encrypted: bool) -> None:
    # The deadline is so late that only the limits can end a connection.
    async with serving(node, echo, gate=Gate(handshake_seconds=1000.0)) as farm:
        counters = farm.server.counters
        crowd = [asyncio.create_task(hold(farm, foreign_client_context() if encrypted else None)) for _ in range(40)]
        try:
            await until(lambda: counters.unauthenticated == MAX_UNAUTHENTICATED_PER_SOURCE)
            with capture_logs() as lines:
                # Several rounds, so that luck explains nothing.
                for round_ in range(5):
                    async with connected(farm) as link:
                        assert await soon(ask(link, request(index=round_))) == response(request(index=round_))
                refused_count = counters.refused[ConnectionRefusal.SOURCE]
                await until(lambda: counters.refused[ConnectionRefusal.SOURCE] >= refused_count + 100)
            assert counters.unauthenticated <= MAX_UNAUTHENTICATED_PER_SOURCE
            # However many the strangers are, the log does not fill up.
            assert len([line for line in lines if line["event"] == "connection refused"]) <= len(ConnectionRefusal)
        finally:
            for task in crowd:
                task.cancel()
            await soon(asyncio.wait(crowd))


async def test_a_stranger_does_not_disturb_the_farm(node: Identity) -> None:
    # The whole list of the issue, while one link works on.
    users = {CLUSTER: authenticator()}
    async with serving(node, echo, authenticators=users) as farm, connected(farm) as link:
        connection = link._connection
        for data in (
            GET.replace(b"farm/1", b"other/1") + b"\r\n",
            GET.replace(b"/1/", b"/2/") + b"\r\n",
            GET.replace(b"HTTP/1.1", b"HTTP/1.0") + b"\r\n",
            GET + b"Authorization: Digest wrong\r\n\r\n",
            b"\x00garbage",
            encode_request(request()),
        ):
            assert b"101" not in await exchange(farm, data)
            assert await soon(ask(link, request(index=1))) == response(request(index=1))
        assert link._connection is connection
        assert farm.server.counters.authenticated == 1
