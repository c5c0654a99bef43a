import asyncio
import gc
import random
import socket
from collections import Counter
from collections.abc import Callable
from typing import Any, cast

import pytest
from structlog.testing import capture_logs

from gf_i2p.transport import inbound_connection
from gf_i2p.transport.connection_counters import ConnectionRefusal
from gf_i2p.transport.connection_gate import Gate
from gf_i2p.transport.inbound_connection import InboundConnection
from gf_i2p.transport.served import AuthenticatedConnection, Replier
from gf_i2p.transport.server import Server
from gf_i2p.transport.tls import tcp_sockets
from gf_i2p.transport.tls.tls_transport import TlsSettings, TlsTransport
from gf_i2p.wire.digest import Secret
from gf_i2p.wire.entries import Entry, ValueType
from gf_i2p.wire.errors import LocalProtocolError
from gf_i2p.wire.limits import MAX_ENTRIES_BYTES
from gf_i2p.wire.messages import (
    REQUEST_HEADER_BYTES,
    RESPONSE_BYTES,
    MessageType,
    OversizedRequest,
    Request,
    encode_request,
    encode_response,
)
from tests.transport.harness import (
    CLUSTER,
    PASSWORD,
    PATIENCE,
    USER,
    Identity,
    authenticator,
    echo,
    ends,
    foreign_client,
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

# --- Requests and responses -------------------------------------------------------------------------------


async def test_a_request_is_answered(node: Identity) -> None:
    came: list[AuthenticatedConnection] = []
    async with serving(node, on_caller=came.append) as farm:
        reader, writer = await foreign_session(farm)
        sent = request(index=5)
        writer.write(encode_request(sent))
        await until(lambda: farm.requests)
        caller, received, reply = farm.requests[0]
        assert received == sent
        assert (caller.cluster, caller.user) == (CLUSTER, USER)
        assert caller.remote == "{}:{}".format(*writer.get_extra_info("sockname"))
        assert came == [caller]
        reply(response(sent))
        assert await soon(reader.readexactly(RESPONSE_BYTES)) == encode_response(response(sent))
        assert (farm.server.counters.challenged, farm.server.counters.authenticated) == (1, 1)
        assert (farm.server.counters.current, farm.server.counters.unauthenticated) == (1, 0)
        await hang_up(writer)
        await until(lambda: farm.server.counters.current == 0)
        assert farm.server.counters.refused == {}


async def test_who_sends_a_request_stays_and_who_only_looks_does_not(
    node: Identity, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inbound_connection, "STAY_SECONDS", PATIENCE)
    stay: list[tuple[AuthenticatedConnection, float]] = []
    async with serving(node, on_stay=lambda *each: stay.append(each)) as farm:
        _, looking = await foreign_session(farm)
        await hang_up(looking)
        await until(lambda: farm.server.counters.authenticated == 1 and farm.server.counters.current == 0)
        assert stay == []
        _, writer = await foreign_session(farm)
        writer.write(encode_request(request()) * 2)
        await until(lambda: len(farm.requests) == 2)
        assert [caller for caller, _ in stay] == [farm.requests[0][0]]
        assert 0 <= stay[0][1] < inbound_connection.STAY_SECONDS
        await hang_up(writer)


async def test_who_is_silent_for_a_while_stays_and_one_that_has_gone_meanwhile_does_not(
    node: Identity, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inbound_connection, "STAY_SECONDS", 777.5)
    loop = asyncio.get_running_loop()
    call_later = loop.call_later
    alarms: list[tuple[asyncio.TimerHandle, Callable[[], object]]] = []

    def note(seconds: float, callback: Callable[..., object], *args: Any, **more: Any) -> asyncio.TimerHandle:
        handle = call_later(seconds, callback, *args, **more)
        if seconds == inbound_connection.STAY_SECONDS:
            alarms.append((handle, callback))
        return handle

    monkeypatch.setattr(loop, "call_later", note)
    stay: list[float] = []
    async with serving(node, on_stay=lambda _, seconds: stay.append(seconds)) as farm:
        _, looking = await foreign_session(farm)
        await hang_up(looking)
        await until(lambda: farm.server.counters.authenticated == 1 and farm.server.counters.current == 0)
        _, writer = await foreign_session(farm)
        await until(lambda: len(alarms) == 2)
        began = loop.time()
        await until(lambda: loop.time() > began + 0.1)
        for handle, ring in alarms:
            if not handle.cancelled():
                ring()
        assert len(stay) == 1
        assert stay[0] >= 0.1
        await hang_up(writer)
        await until(lambda: farm.server.counters.current == 0)
    assert len(stay) == 1


async def test_responses_leave_in_the_order_of_the_requests(node: Identity) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    choice = random.Random(seed)
    async with serving(node) as farm:
        reader, writer = await foreign_session(farm)
        writer.write(b"".join(encode_request(request(index=index)) for index in range(100)))
        await until(lambda: len(farm.requests) == 100)
        order = list(farm.requests)
        choice.shuffle(order)
        for _, received, reply in order:
            reply(response(received))
            if choice.random() < 0.3:
                await asyncio.sleep(0)
        assert await read_responses(reader, 100) == list(range(100))
        await hang_up(writer)


async def test_a_late_answer_holds_back_only_its_own_connection(node: Identity) -> None:
    async with serving(node) as farm:
        slow_reader, slow = await foreign_session(farm)
        reader, writer = await foreign_session(farm)
        slow.write(encode_request(request(index=1)))
        await until(lambda: len(farm.requests) == 1)
        writer.write(encode_request(request(index=2)))
        await until(lambda: len(farm.requests) == 2)
        farm.requests[1][2](response(farm.requests[1][1]))
        assert await read_responses(reader, 1) == [2]
        farm.requests[0][2](response(farm.requests[0][1]))
        assert await read_responses(slow_reader, 1) == [1]
        await hang_up(slow)
        await hang_up(writer)


async def test_an_unknown_outcome_closes_the_connection_in_its_turn(node: Identity) -> None:
    async with serving(node) as farm:
        reader, writer = await foreign_session(farm)
        writer.write(b"".join(encode_request(request(index=index)) for index in range(3)))
        await until(lambda: len(farm.requests) == 3)
        farm.requests[2][2](response(farm.requests[2][1]))
        farm.requests[1][2](None)
        writer.write(encode_request(request(index=3)))
        await asyncio.sleep(0)
        farm.requests[0][2](response(farm.requests[0][1]))
        # The request before is still answered; no request after the bad one is answered or even handled.
        assert await ends(reader) == encode_response(response(request(index=0)))
        assert len(farm.requests) == 3
        await hang_up(writer)


async def test_an_answer_after_the_end_of_the_connection_does_nothing(node: Identity) -> None:
    async with serving(node) as farm:
        _, writer = await foreign_session(farm)
        writer.write(encode_request(request()) * 2)
        await until(lambda: len(farm.requests) == 2)
        await hang_up(writer)
        await until(lambda: farm.server.counters.current == 0)
        farm.requests[1][2](response(request()))
        farm.requests[0][2](None)


async def test_a_reply_insists_on_one_right_answer(node: Identity) -> None:
    async with serving(node) as farm:
        reader, writer = await foreign_session(farm)
        writer.write(encode_request(request(index=1)))
        await until(lambda: farm.requests)
        reply = farm.requests[0][2]
        with pytest.raises(LocalProtocolError, match="REQUEST_VOTE_RESPONSE where APPEND_ENTRIES_RESPONSE is expected"):
            reply(response(request(kind=MessageType.REQUEST_VOTE_REQUEST)))
        reply(response(request(index=1)))
        with pytest.raises(LocalProtocolError, match="answered twice"):
            reply(response(request(index=1)))
        assert await read_responses(reader, 1) == [1]
        await hang_up(writer)


async def test_requests_that_come_with_the_handshake_are_handled(node: Identity) -> None:
    async with serving(node, echo) as farm:
        link = farm.link()
        link.start()
        await until(lambda: link.connected)
        await link.stop()
        # The nonce is known now, so that the first piece of a connection can hold everything.
        handshake = link._handshake().request()
        reader, writer = await foreign_client(farm)
        writer.write(handshake + encode_request(request(index=9)))
        assert (await soon(reader.readuntil(b"\r\n\r\n"))).startswith(b"HTTP/1.1 101")
        assert await read_responses(reader, 1) == [9]
        await hang_up(writer)


async def test_an_illegal_message_ends_the_connection_after_what_came_before_it(node: Identity) -> None:
    async with serving(node, echo) as farm:
        reader, writer = await foreign_session(farm)
        with capture_logs() as lines:
            writer.write(encode_request(request(index=1)) + b"\x63" + bytes(44))
            assert await ends(reader) == encode_response(response(request(index=1)))
        assert farm.server.counters.refused == {ConnectionRefusal.MESSAGE: 1}
        refusals = [line for line in lines if line["event"] == "connection refused"]
        assert [line["detail"] for line in refusals] == [
            f"{USER} of {CLUSTER}: a message of type 99 where a request is expected"
        ]
        await hang_up(writer)


@pytest.mark.parametrize("first", [0, 1])
async def test_a_defect_of_ours_ends_the_connection_and_is_reported(
    node: Identity, unhandled: list[dict[str, Any]], first: int
) -> None:
    replies: list[Replier] = []

    def fail(_: AuthenticatedConnection, received: Request, reply: Replier) -> None:
        replies.append(reply)
        if received.last_log_index:
            raise ZeroDivisionError

    async with serving(node, fail, max_in_flight=1) as farm:
        reader, writer = await foreign_session(farm)
        for index in range(first, 2):
            writer.write(encode_request(request(index=index)))
        await until(lambda: replies)
        if not first:
            replies[0](response(request()))  # the other request is next now, but not for the handler that answers here
        assert (await ends(reader))[RESPONSE_BYTES:] == b""
        await hang_up(writer)
    assert [type(context["exception"]) for context in unhandled] == [ZeroDivisionError]
    unhandled.clear()


# --- Bounds -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bound", [{"max_in_flight": 4}, {"max_bytes_in_flight": 4 * 100}])
async def test_no_more_requests_are_handled_than_may_be_in_flight(node: Identity, bound: dict[str, Any]) -> None:
    entries = (Entry(1, ValueType.APPLICATION, b"x" * 100),)
    async with serving(node, **bound) as farm:
        reader, writer = await foreign_session(farm)
        writer.write(b"".join(encode_request(request(index=index, entries=entries)) for index in range(20)))
        await until(lambda: len(farm.requests) == 4)
        answered = 0
        while answered < 20:
            assert len(farm.requests) - answered <= 4
            _, received, reply = farm.requests[answered]
            handled = len(farm.requests)
            reply(response(received))
            # The handler that answers is in the middle of something: the server does not call the handler from there.
            assert len(farm.requests) == handled
            answered += 1
            await until(lambda: len(farm.requests) > answered or answered == 20)  # noqa: B023
        assert await read_responses(reader, 20) == list(range(20))
        await hang_up(writer)


async def test_many_requests_that_wait_are_no_deep_recursion(node: Identity) -> None:
    async with serving(node, echo, max_in_flight=1) as farm:
        reader, writer = await foreign_session(farm)
        writer.write(b"".join(encode_request(request(index=index)) for index in range(3000)))
        assert await read_responses(reader, 3000) == list(range(3000))
        await hang_up(writer)


async def test_a_peer_that_does_not_take_its_answers_is_not_read(
    node: Identity, monkeypatch: pytest.MonkeyPatch
) -> None:
    def small(sock: socket.socket) -> None:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)

    monkeypatch.setattr(tcp_sockets, "tune", small)
    handled: Counter[int] = Counter()

    def count(_: AuthenticatedConnection, received: Request, reply: Replier) -> None:
        handled[received.last_log_index] += 1
        reply(response(received))

    async with serving(node, count) as farm:
        reader, writer = await foreign_session(farm)
        transport = cast("asyncio.Transport", writer.transport)
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        transport.pause_reading()
        async with asyncio.timeout(60):
            while not any(connection._output_full for connection in farm.server._connections):
                if transport.get_write_buffer_size() < 100_000:  # a slow server takes its time for what is there
                    writer.write(encode_request(request(index=1)) * 100)
                await asyncio.sleep(0)
        before = handled[1]
        (connection,) = farm.server._connections
        assert connection._transport is not None
        assert not connection._transport.is_reading()
        writer.write(encode_request(request(index=1)) * 100)
        # The other users are served meanwhile; the waiting request stays in place.
        other_reader, other = await foreign_session(farm)
        for index in range(2, 7):
            other.write(encode_request(request(index=index)))
            assert await read_responses(other_reader, 1) == [index]
        assert handled[1] == before
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1_000_000)
        transport.resume_reading()
        await until(lambda: handled[1] > before)
        assert await read_responses(reader, 1000) == [1] * 1000
        await hang_up(writer)
        await hang_up(other)


async def test_requests_that_were_read_wait_while_the_answers_are_not_taken(node: Identity) -> None:
    handled: list[int] = []

    def handle(_: AuthenticatedConnection, received: Request, reply: Replier) -> None:
        handled.append(received.last_log_index)
        if received.last_log_index == 2:
            connection.pause_writing()  # as the transport does when the answers back up
        reply(response(received))

    async with serving(node, handle, max_in_flight=1) as farm:
        reader, writer = await foreign_session(farm)
        (connection,) = farm.server._connections
        writer.write(b"".join(encode_request(request(index=index)) for index in range(10)))
        assert await read_responses(reader, 3) == [0, 1, 2]
        assert handled == [0, 1, 2]
        connection.resume_writing()
        assert await read_responses(reader, 7) == list(range(3, 10))
        await hang_up(writer)


async def test_a_user_has_a_limited_number_of_connections(node: Identity) -> None:
    users = authenticator({USER: PASSWORD, "client-a": PASSWORD})
    async with serving(node, max_per_user=2, authenticators={CLUSTER: users}) as farm:
        writers = [(await foreign_session(farm))[1] for _ in range(2)]
        with pytest.raises(asyncio.IncompleteReadError):
            await foreign_session(farm)
        await until(lambda: farm.server.counters.refused == {ConnectionRefusal.USER: 1})
        writers.append((await foreign_session(farm, user="client-a"))[1])
        await hang_up(writers.pop(0))
        await until(lambda: farm.server.counters.current == 2)
        writers.append((await foreign_session(farm))[1])
        assert farm.server.counters.current == 3
        for writer in writers:
            await hang_up(writer)


async def test_an_ended_connection_leaves_nothing_to_the_garbage_collector(node: Identity) -> None:
    """An incomplete request has up to 16 MiB. 64 of them filled the memory of a node until the next collection."""

    def connections() -> int:
        return sum(isinstance(each, InboundConnection) for each in gc.get_objects())

    begin = encode_request(request(entries=(Entry(1, ValueType.APPLICATION, bytes(1000)),)))[:600]
    async with serving(node, echo) as farm:
        gc.collect()
        gc.disable()
        try:
            reader, writer = await foreign_session(farm)
            writer.write(encode_request(request()) + begin)
            await read_responses(reader, 1)
            assert connections() == 1
            await hang_up(writer)
            await until(lambda: not connections())
        finally:
            gc.enable()


async def test_a_user_has_a_limited_number_of_bytes_in_requests_that_are_not_whole(node: Identity) -> None:
    users = authenticator({USER: PASSWORD, "client-a": PASSWORD})
    whole = encode_request(request(entries=(Entry(1, ValueType.APPLICATION, bytes(1000)),)))
    begin, rest = whole[:600], whole[600:]
    async with serving(node, echo, max_unfinished_bytes=1500, authenticators={CLUSTER: users}) as farm:
        (one, one_out), (two, two_out), (three, three_out) = [await foreign_session(farm) for _ in range(3)]
        for reader, writer in ((one, one_out), (two, two_out)):
            writer.write(encode_request(request()) + begin)
            await read_responses(reader, 1)
        three_out.write(encode_request(request()) + begin)
        await ends(three)
        await until(lambda: farm.server.counters.refused == {ConnectionRefusal.MESSAGE: 1})
        other, other_out = await foreign_session(farm, user="client-a")
        other_out.write(begin)
        for reader, writer in ((one, one_out), (two, two_out), (other, other_out)):
            writer.write(rest)
            await read_responses(reader, 1)
        again, again_out = await foreign_session(farm)
        for _ in range(5):
            again_out.write(begin)
            again_out.write(rest)
            await read_responses(again, 1)
        for writer in (one_out, two_out, other_out, again_out):
            await hang_up(writer)
        await until(lambda: farm.server.counters.current == 0)


# --- Reload and end ---------------------------------------------------------------------------------------


async def test_other_secrets_change_who_may_come_in(node: Identity) -> None:
    users = authenticator()
    came: list[AuthenticatedConnection] = []
    async with serving(node, echo, authenticators={CLUSTER: users}, on_caller=came.append) as farm:
        reader, writer = await foreign_session(farm)
        users.replace({"client-b": Secret.derive("client-b", CLUSTER, PASSWORD)})
        link = farm.link()
        link.start()
        await until(lambda: link.last_error is not None)
        assert "refuses user server-1 or its password" in (link.last_error or "")
        await link.stop()
        second_reader, second = await foreign_session(farm, user="client-b")
        assert [caller.user for caller in came] == [USER, "client-b"]
        # A connected client stays connected until the server disconnects the client.
        writer.write(encode_request(request(index=4)))
        assert await read_responses(reader, 1) == [4]
        farm.server.disconnect("another", {USER, "client-b"})
        farm.server.disconnect(CLUSTER, {USER})
        assert await ends(reader) == b""
        second.write(encode_request(request(index=5)))
        assert await read_responses(second_reader, 1) == [5]
        for each in (writer, second):
            await hang_up(each)


async def test_closing_lets_requests_be_answered_that_are_being_handled(node: Identity) -> None:
    async with serving(node, gate=Gate(handshake_seconds=1000.0)) as farm:
        reader, writer = await foreign_session(farm)
        idle_reader, idle = await foreign_session(farm)
        stranger_reader, stranger = await foreign_client(farm)
        silent_reader, silent = await asyncio.open_connection(farm.endpoint.host, farm.endpoint.port)
        await until(lambda: farm.server.counters.unauthenticated == 2)
        writer.write(encode_request(request(index=1)) + encode_request(request(index=2)))
        await until(lambda: len(farm.requests) == 2)
        closing = asyncio.ensure_future(farm.server.close(grace=PATIENCE))
        # A client without a request in flight goes at once, strangers too, and nobody comes in.
        assert await ends(idle_reader) == b""
        assert await ends(stranger_reader) == b""
        assert await ends(silent_reader) == b""
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(farm.endpoint.host, farm.endpoint.port)
        writer.write(encode_request(request(index=3)))
        await asyncio.sleep(0)
        assert not closing.done()
        for _, received, reply in reversed(farm.requests):
            reply(response(received))
        assert await read_responses(reader, 2) == [1, 2]
        assert await ends(reader) == b""
        for each in (writer, idle, stranger, silent):
            await hang_up(each)
        await soon(closing)
        assert len(farm.requests) == 2
        assert farm.server.counters.current == farm.server.counters.unauthenticated == 0


async def test_closing_does_not_wait_longer_than_the_grace(node: Identity) -> None:
    async with serving(node) as farm:
        reader, writer = await foreign_session(farm)
        writer.write(encode_request(request()))
        await until(lambda: farm.requests)
        await soon(farm.server.close(grace=0.01))
        assert farm.server.counters.current == 0
        assert await ends(reader) == b""
        farm.requests[0][2](response(farm.requests[0][1]))
        await hang_up(writer)


async def test_a_server_that_never_started_closes(node: Identity) -> None:
    transport = TlsTransport(TlsSettings(node.certificate, node.key))
    await soon(Server(transport).close(grace=1.0))


# --- Requests over a limit -------------------------------------------------------------------------------


async def test_entries_over_the_limit_are_read_past_at_a_bounded_rate(
    node: Identity, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inbound_connection, "MAX_SKIPPED_BYTES_PER_SECOND", 1 << 22)
    size = MAX_ENTRIES_BYTES + 1
    async with serving(node) as farm:
        reader, writer = await foreign_session(farm)
        head = encode_request(request(index=5))
        assert len(head) == REQUEST_HEADER_BYTES
        began = asyncio.get_running_loop().time()
        writer.write(head[:-4] + size.to_bytes(4, "big"))
        await until(lambda: farm.requests)
        _, received, reply = farm.requests[0]
        assert isinstance(received, OversizedRequest)
        assert (received.source, received.term, received.entries) == (1, request().term, ())
        writer.write(bytes(size) + encode_request(request(index=6)))
        await soon(writer.drain())
        reply(response(received))
        await until(lambda: len(farm.requests) == 2)
        assert asyncio.get_running_loop().time() - began > size / (1 << 22) / 2
        farm.requests[1][2](response(farm.requests[1][1]))
        assert await read_responses(reader, 2) == [response(received).next_index, response(request(index=6)).next_index]
        assert farm.server.counters.current == 1, "the connection stays"
        await hang_up(writer)
