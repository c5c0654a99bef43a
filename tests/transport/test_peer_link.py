import asyncio
import ssl
from collections.abc import Callable
from typing import Any

import pytest
from structlog.testing import capture_logs

from gf_i2p.transport import peer_link as link_module
from gf_i2p.transport.backoff import Backoff
from gf_i2p.transport.tls.tls_transport import TlsSettings, TlsTransport
from gf_i2p.wire.digest import Credentials
from gf_i2p.wire.endpoint import Endpoint
from gf_i2p.wire.entries import Entry, ValueType
from gf_i2p.wire.errors import LocalProtocolError
from gf_i2p.wire.limits import MAX_VALUE_BYTES
from gf_i2p.wire.messages import (
    REQUEST_HEADER_BYTES,
    MessageType,
    Request,
    Response,
    encode_response,
)
from tests.transport.harness import (
    CLUSTER,
    PASSWORD,
    USER,
    Identity,
    ask,
    connected,
    echo,
    foreign_farm,
    request,
    response,
    serving,
    soon,
    until,
)

pytestmark = pytest.mark.usefixtures("unhandled")

MIB = 1024 * 1024


class Delays(Backoff):
    """Notes each call; the delays themselves are short."""

    def __init__(self) -> None:
        super().__init__(floor=0.001, ceiling=0.002)
        self.calls: list[str] = []

    def next(self) -> float:
        self.calls.append("next")
        return super().next()

    def reset(self) -> None:
        self.calls.append("reset")
        super().reset()


def next_index(answer: Response | None) -> int:
    assert answer is not None
    return answer.next_index


def large(size: int) -> Request:
    values = [bytes(MAX_VALUE_BYTES)] * (size // MAX_VALUE_BYTES) or [bytes(size)]
    return request(entries=tuple(Entry(1, ValueType.APPLICATION, value) for value in values))


# --- Requests and responses -------------------------------------------------------------------------------


async def test_answers_come_to_who_asked_in_order(node: Identity) -> None:
    async with serving(node, echo) as farm, connected(farm) as link:
        order: list[int] = []
        answers = []
        for index in range(300):
            answers.append(ask(link, request(index=index)))
            answers[-1].add_done_callback(lambda answer: order.append(next_index(answer.result())))
            if index % 7 == 0:
                await asyncio.sleep(0)
        for index, answer in enumerate(answers):
            assert await soon(answer) == response(request(index=index))
        await asyncio.sleep(0)
        assert order == list(range(300))
        assert link.connected
        assert link.last_error is None


async def test_requests_of_one_turn_leave_together(node: Identity, monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(node) as farm, connected(farm) as link:
        connection = link._connection
        assert connection is not None
        assert connection._transport is not None
        write = connection._transport.write
        writes: list[int] = []

        class Noting:
            def write(self, data: bytes) -> None:
                writes.append(len(data))
                write(data)

        monkeypatch.setattr(connection, "_transport", Noting())
        for index in range(50):
            ask(link, request(index=index))
        await until(lambda: len(farm.requests) == 50)
        # The first request leaves at once, the rest when the turn of the loop is over.
        monkeypatch.undo()
        assert writes == [REQUEST_HEADER_BYTES, 49 * REQUEST_HEADER_BYTES]


async def test_the_largest_request_passes(node: Identity) -> None:
    async with serving(node, echo) as farm, connected(farm) as link:
        entries = (*large(15 * MIB).entries, Entry(1, ValueType.APPLICATION, bytes(MIB - 16 * 13)))
        answers = [ask(link, request(entries=entries)), ask(link, request(index=7))]
        assert [answer is not None for answer in await soon(asyncio.gather(*answers))] == [True, True]


async def test_without_a_connection_nothing_is_sent(node: Identity) -> None:
    async with serving(node, echo) as farm:
        link = farm.link()
        assert not link.connected
        assert await soon(ask(link, request())) is None
        link.start()
        assert await soon(ask(link, request())) is None
        await until(lambda: link.connected)
        assert await soon(ask(link, request())) is not None
        await link.stop()
        assert not link.connected
        assert await soon(ask(link, request())) is None


async def test_what_is_in_flight_fails_when_the_connection_ends(node: Identity) -> None:
    async with serving(node) as farm:
        downs: list[str | None] = []
        link: link_module.PeerLink
        async with connected(farm, on_down=lambda: downs.append(link.last_error)) as link:
            answers = [ask(link, request(index=index)) for index in range(3)]
            await until(lambda: len(farm.requests) == 3)
            farm.requests[0][2](response(farm.requests[0][1]))
            farm.requests[1][2](None)
            assert [answer is not None for answer in await soon(asyncio.gather(*answers))] == [True, False, False]
            await until(lambda: downs)
            assert downs == ["the peer closed the connection"]
            await until(lambda: link.connected)
            assert link.last_error is None


async def test_an_illegal_request_is_the_callers_defect(node: Identity) -> None:
    async with serving(node, echo) as farm, connected(farm) as link:
        with pytest.raises(LocalProtocolError):
            link.send(request(index=-1), lambda _: pytest.fail("done was called"))
        assert await soon(ask(link, request())) is not None


# --- Peers that break the rules ---------------------------------------------------------------------------


async def until_down(link: link_module.PeerLink) -> str:
    await until(lambda: not link.connected and link.last_error is not None)
    return link.last_error or ""


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (
            encode_response(response(request(kind=MessageType.REQUEST_VOTE_REQUEST))),
            "the peer broke the protocol: it answered REQUEST_VOTE_RESPONSE where APPEND_ENTRIES_RESPONSE is expected",
        ),
        (b"\x01" + bytes(25), "the peer broke the protocol: a message of type 1 where a response is expected"),
        (b"\x04" + bytes(20), "the peer closed the connection"),
    ],
)
async def test_a_wrong_answer_ends_the_connection(node: Identity, answer: bytes, reason: str) -> None:
    async def answer_wrongly(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(2 * REQUEST_HEADER_BYTES)
        writer.write(encode_response(response(request(index=1))) + answer)
        await writer.drain()

    backoff = Backoff(floor=1000.0, ceiling=1000.0)
    async with foreign_farm(node, answer_wrongly) as farm, connected(farm, backoff=backoff) as link:
        first, second = ask(link, request(index=1)), ask(link, request(index=2))
        assert await soon(first) == response(request(index=1))
        assert await soon(second) is None
        assert await until_down(link) == reason


async def test_what_follows_a_challenge_is_of_no_interest(
    node: Identity, unhandled: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    receive = link_module._OutboundConnection.data_received

    def twice(connection: link_module._OutboundConnection, data: bytes) -> None:
        receive(connection, data)
        if data.startswith(b"HTTP/1.1 401"):
            receive(connection, b"more, before the link has come round to hang up")

    monkeypatch.setattr(link_module._OutboundConnection, "data_received", twice)
    async with serving(node, echo) as farm, connected(farm) as link:
        assert await soon(ask(link, request(index=1))) == response(request(index=1))
    assert farm.server.counters.accepted == 2
    assert unhandled == []


async def test_an_answer_that_nobody_asked_for_ends_the_connection(node: Identity) -> None:
    async def chatter(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(encode_response(response(request())))
        await reader.read()

    backoff = Backoff(floor=1000.0, ceiling=1000.0)
    async with foreign_farm(node, chatter) as farm:
        link = farm.link(backoff=backoff)
        link.start()
        assert await until_down(link) == "the peer broke the protocol: it sent an answer without a request"
        await link.stop()


async def not_reading(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    del reader
    writer.transport.pause_reading()  # type: ignore[attr-defined]
    await asyncio.Event().wait()


async def test_a_peer_that_does_not_read_is_given_up(node: Identity) -> None:
    backoff = Backoff(floor=1000.0, ceiling=1000.0)
    options = {"backoff": backoff, "max_buffered": 100_000}
    async with foreign_farm(node, not_reading) as farm, connected(farm, **options) as link:
        answers = []
        while link.connected:
            answers.append(ask(link, large(50_000)))
            await asyncio.sleep(0)
            assert len(answers) < 1000  # the kernel takes some MiB too
        assert await soon(asyncio.gather(*answers)) == [None] * len(answers)
        assert await until_down(link) == "the peer takes no more bytes; all requests in flight are given up"


async def test_a_peer_that_does_not_answer_is_given_up(node: Identity) -> None:
    backoff = Backoff(floor=1000.0, ceiling=1000.0)
    async with serving(node) as farm, connected(farm, backoff=backoff, max_in_flight=10) as link:
        answers = [ask(link, request()) for _ in range(11)]
        assert not link.connected
        assert await soon(asyncio.gather(*answers)) == [None] * 11
        assert await until_down(link) == "the peer owes 10 answers; all requests in flight are given up"


async def test_a_slow_peer_delays_nobody_else(node: Identity) -> None:
    async with (
        foreign_farm(node, not_reading) as slow_farm,
        serving(node, echo) as farm,
        connected(slow_farm) as slow,
        connected(farm) as link,
    ):
        stuck = ask(slow, large(16 * MIB - 10_000))
        for index in range(200):
            assert await soon(ask(link, request(index=index))) is not None
            assert not stuck.done()
        assert slow.connected


async def test_who_ends_the_connection_while_being_told_gets_one_answer_for_each(node: Identity) -> None:
    backoff = Backoff(floor=1000.0, ceiling=1000.0)
    async with serving(node) as farm, connected(farm, backoff=backoff, max_in_flight=3) as link:
        answers: list[asyncio.Future[Response | None]] = []

        def flood(_: Response | None) -> None:
            answers.extend(ask(link, request()) for _ in range(2))

        link.send(request(index=0), flood)
        answers.extend(ask(link, request(index=index)) for index in (1, 2))
        await until(lambda: len(farm.requests) == 3)
        for _, received, reply in reversed(farm.requests):
            reply(response(received))  # all three in one piece
        await until(lambda: len(answers) == 4)
        assert await soon(asyncio.gather(*answers)) == [None] * 4
        assert not link.connected


# --- Coming up, going down --------------------------------------------------------------------------------


async def test_a_reconnect_is_one_http_request(node: Identity) -> None:
    async with serving(node) as farm, connected(farm) as link:
        counters = farm.server.counters
        assert (counters.accepted, counters.challenged, counters.authenticated) == (2, 1, 1)
        for reconnects in range(1, 4):
            farm.server.disconnect(CLUSTER, {USER})
            await until(lambda: counters.authenticated == 1 + reconnects and link.connected)  # noqa: B023
            assert (counters.accepted, counters.challenged) == (2 + reconnects, 1)


async def test_a_new_link_with_the_same_credentials_needs_one_request(node: Identity) -> None:
    credentials = Credentials(USER, PASSWORD)
    async with serving(node) as farm:
        for connects in range(1, 4):
            async with connected(farm, credentials=credentials):
                assert farm.server.counters.challenged == 1
                assert farm.server.counters.authenticated == connects


async def test_it_comes_back_when_the_server_does(node: Identity) -> None:
    delays = Delays()
    async with serving(node, echo) as farm:
        ups = 0

        def up() -> None:
            nonlocal ups
            ups += 1

        link = farm.link(on_up=up, backoff=delays)
        link.start()
        await until(lambda: link.connected)
    assert "Connection refused" in await until_down_for(link, "Connection refused")
    await until(lambda: len(delays.calls) >= 5)
    async with serving(node, echo, port=farm.endpoint.port):
        # The new process knows no nonce of the old process: the answer says stale, and all is well.
        await until(lambda: ups == 2)
        assert await soon(ask(link, request(index=6))) == response(request(index=6))
        assert "reset" not in delays.calls
        await link.stop()


async def until_down_for(link: link_module.PeerLink, reason: str) -> str:
    await until(lambda: reason in (link.last_error or ""))
    return link.last_error or ""


async def test_a_nudge_cuts_the_delay_short(node: Identity) -> None:
    async with serving(node, echo) as farm:
        link = farm.link(backoff=Backoff(floor=1000.0, ceiling=1000.0))
        link.nudge()  # of no consequence
        link.start()
        await until(lambda: link.connected)
        farm.server.disconnect(CLUSTER, {USER})
        await until(lambda: link.last_error is not None)
        link.nudge()
        await until(lambda: link.connected)
        await link.stop()


async def test_who_is_dialled_by_a_peer_that_was_silent_for_long_dials_anew(
    node: Identity, monkeypatch: pytest.MonkeyPatch
) -> None:
    ups = 0

    def up() -> None:
        nonlocal ups
        ups += 1

    async with serving(node, echo) as farm:
        link = farm.link(backoff=Backoff(floor=1000.0, ceiling=1000.0), on_up=up)
        link.doubt()  # of no consequence
        link.start()
        await until(lambda: link.connected)
        link.doubt()
        assert link.connected, "something was heard a moment ago"
        link.doubt(1000.0)
        assert link.connected, "it was not silent before the dial, and one that takes long adds nothing"
        monkeypatch.setattr(link_module, "DOUBT_SECONDS", 0.0)
        answer = asyncio.ensure_future(ask(link, request(index=6)))
        await asyncio.sleep(0)
        link.doubt()
        assert await soon(answer) == response(request(index=6)), "an answer was owed: that will show how the peer does"
        link.doubt()
        assert not link.connected
        await until(lambda: ups == 2)
        assert await soon(ask(link, request(index=7))) == response(request(index=7))
        await link.stop()


async def test_a_connection_that_lasted_resets_the_delays(node: Identity, monkeypatch: pytest.MonkeyPatch) -> None:
    delays = Delays()
    async with serving(node) as farm, connected(farm, backoff=delays) as link:
        farm.server.disconnect(CLUSTER, {USER})
        await until(lambda: delays.calls == ["next"])
        await until(lambda: link.connected)
        monkeypatch.setattr(link_module, "_STABLE_SECONDS", 0.0)
        farm.server.disconnect(CLUSTER, {USER})
        await until(lambda: delays.calls == ["next", "reset", "next"])


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"cluster": "another"}, "404 Not Found: the peer has no farm named another"),
        ({"password": "wrong"}, "refuses user server-1 or its password"),
    ],
)
async def test_a_refusal_says_what_to_check(node: Identity, options: dict[str, str], reason: str) -> None:
    async with serving(node) as farm:
        link = farm.link(**options)
        link.start()
        assert reason in await until_down_for(link, reason)
        await link.stop()


async def test_a_peer_that_is_silent_after_tls_is_given_up_at_the_deadline(node: Identity) -> None:
    stop = asyncio.Event()

    async def silent(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await stop.wait()
        writer.transport.abort()

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(node.certificate, node.key)
    server = await asyncio.start_server(silent, "127.0.0.1", 0, ssl=context)
    endpoint = Endpoint("127.0.0.1", server.sockets[0].getsockname()[1])
    transport = TlsTransport(TlsSettings(fingerprints={endpoint: [node.fingerprint]}))
    link = link_module.PeerLink(
        transport, endpoint, CLUSTER, Credentials(USER, PASSWORD), request_seconds=1.0, handshake_seconds=0.3
    )
    link.start()
    assert "did not answer the HTTP request within 0.3 s" in await until_down_for(link, "HTTP request")
    await link.stop()
    stop.set()
    server.close()
    await soon(server.wait_closed())


async def test_a_peer_that_is_no_farm_node_is_named(node: Identity) -> None:
    async with foreign_farm(node, not_reading) as farm:
        link = farm.link(cluster="another")
        link.start()
        assert "404" in await until_down_for(link, "404")
        await link.stop()


async def test_a_wrong_certificate_keeps_the_link_down(node: Identity, identities: dict[str, Identity]) -> None:
    async with serving(node) as farm:
        pins = {farm.endpoint: [identities["other"].fingerprint]}
        link = farm.link(transport=TlsTransport(TlsSettings(fingerprints=pins)))
        link.start()
        await until_down_for(link, "shows another certificate than configured")
        await link.stop()
        assert farm.server.counters.challenged == 0


async def test_a_reason_is_logged_once_not_with_every_attempt(node: Identity) -> None:
    delays = Delays()
    async with serving(node) as farm:
        with capture_logs() as lines:
            link = farm.link(password="wrong", backoff=delays)
            link.start()
            await until(lambda: len(delays.calls) >= 6)
            await link.stop()
    assert [line["event"] for line in lines if line["log_level"] == "warning"] == ["no connection"]


async def test_secrets_are_not_logged(node: Identity) -> None:
    async with serving(node) as farm:
        with capture_logs() as lines:
            async with connected(farm):
                pass
            link = farm.link(password="another secret")
            link.start()
            await until_down_for(link, "password")
            await link.stop()
    assert PASSWORD not in str(lines)
    assert "another secret" not in str(lines)


@pytest.mark.parametrize("stage", ["not started", "dialling", "waiting", "connected"])
async def test_it_stops_at_any_time(node: Identity, stage: str) -> None:
    async with serving(node) as farm:
        link = farm.link(
            backoff=Backoff(floor=1000.0, ceiling=1000.0), password=PASSWORD if stage != "waiting" else "wrong"
        )
        conditions: dict[str, Callable[[], object]] = {
            "not started": lambda: True,
            "dialling": lambda: farm.server.counters.accepted,
            "waiting": lambda: link.last_error,
            "connected": lambda: link.connected,
        }
        if stage != "not started":
            link.start()
        await until(conditions[stage])
        await soon(link.stop())
        await soon(link.stop())
        await until(lambda: not farm.server.counters.current and not farm.server.counters.unauthenticated)
