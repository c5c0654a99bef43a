"""Asking for the Configuration over real connections: the users that are told, the refusals, and the effects."""

import asyncio
import contextlib
import re
import ssl
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from gf_i2p.transport.client.server_queries import ask_for_newer, fetch_configuration
from gf_i2p.transport.connection_counters import ConnectionRefusal
from gf_i2p.transport.connection_gate import Gate
from gf_i2p.transport.endpoint_transport import MixedTransport
from gf_i2p.transport.errors import DialError, UnreachableError
from gf_i2p.transport.i2p.i2p_transport import ProxyMethod
from gf_i2p.transport.tls.tls_transport import TlsSettings, TlsTransport
from gf_i2p.wire.configuration_get import ConfigurationGet
from gf_i2p.wire.digest import Credentials
from gf_i2p.wire.endpoint import Endpoint
from gf_i2p.wire.log_values import ClusterServer, Configuration
from tests.transport.harness import (
    CLUSTER,
    GET,
    PASSWORD,
    PATIENCE,
    USER,
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
    foreign_session,
    hang_up,
    request,
    response,
    serving,
    soon,
    until,
)
from tests.transport.i2p.i2p_harness import PLACE, Router, listening, serving_inside, taken_port, through

pytestmark = pytest.mark.usefixtures("unhandled")

FIRST = Configuration(5, 1, (ClusterServer(1, "tcp://192.0.2.1:9001"), ClusterServer(2, "tcp://192.0.2.2:9001")))
LATER = Configuration(9, 5, (ClusterServer(2, "tcp://192.0.2.2:9001"),))
CONFIG = GET.replace(b"/websocket", b"/config")


def telling(configuration: Configuration) -> dict[str, Any]:
    return {"configurations": {CLUSTER: lambda _: configuration.encode()}}


async def fetch(
    farm: Farm, *, user: str = USER, password: str = PASSWORD, cluster: str = CLUSTER, **options: Any
) -> Configuration | None:
    credentials = options.pop("credentials", None) or Credentials(user, password)
    transport = options.pop("transport", None) or farm.client_transport()
    options.setdefault("seconds", PATIENCE)
    return await soon(fetch_configuration(transport, farm.endpoint, cluster, credentials, **options))


# --- One server -------------------------------------------------------------------------------------------


async def test_two_servers_tell_what_each_knows(node: Identity) -> None:
    async with serving(node, **telling(FIRST)) as one, serving(node, **telling(LATER)) as two:
        credentials = Credentials(USER, PASSWORD)
        assert await fetch(one, credentials=credentials) == FIRST
        assert await fetch(two) == LATER
        assert await fetch(one, credentials=credentials) == FIRST
        counters = one.server.counters
        # The second time without a challenge; and no connection is left.
        assert (counters.accepted, counters.challenged, counters.told, counters.authenticated) == (3, 1, 2, 0)
        await until(lambda: (counters.current, counters.unauthenticated) == (0, 0))
        assert counters.refused == {}


async def test_it_is_asked_for_beside_a_link_with_the_same_credentials(node: Identity) -> None:
    credentials = Credentials(USER, PASSWORD)
    async with serving(node, echo, **telling(FIRST)) as farm, connected(farm, credentials=credentials) as link:
        answers = await soon(asyncio.gather(*(fetch(farm, credentials=credentials) for _ in range(10))))
        assert answers == [FIRST] * 10
        assert await soon(ask(link, request(index=3))) == response(request(index=3))
        assert (farm.server.counters.challenged, farm.server.counters.authenticated) == (1, 1)


@pytest.mark.parametrize("user", ["server-1", "client-a", "admin-b"])
async def test_every_role_is_told_and_nobody_hears_of_a_session(node: Identity, user: str) -> None:
    callers: list[Any] = []
    users: list[str] = []

    def provider(name: str) -> bytes:
        users.append(name)
        return FIRST.encode()

    async with serving(
        node,
        authenticators={CLUSTER: authenticator({user: PASSWORD})},
        configurations={CLUSTER: provider},
        on_caller=callers.append,
    ) as farm:
        assert await fetch(farm, user=user) == FIRST
        assert users == [user]
        assert callers == []


async def test_a_server_without_it_answers_404_and_nothing_breaks(node: Identity) -> None:
    async with serving(node, echo) as farm, connected(farm) as link:
        assert await fetch(farm) is None
        assert await soon(ask(link, request(index=3))) == response(request(index=3))
    async with serving(node, configurations={CLUSTER: lambda _: None}) as farm:
        assert await fetch(farm) is None
        assert farm.server.counters.told == 1


async def test_each_refusal_is_told_in_a_sentence(node: Identity, identities: dict[str, Identity]) -> None:
    async with serving(node, **telling(FIRST)) as farm:
        with pytest.raises(DialError, match="refuses user server-1 or its password"):
            await fetch(farm, password="wrong")
        assert farm.server.counters.told == 0
        stranger = TlsTransport(TlsSettings(fingerprints={farm.endpoint: [identities["other"].fingerprint]}))
        with pytest.raises(DialError, match="shows another certificate than configured"):
            await fetch(farm, transport=stranger)
        with pytest.raises(DialError, match="Nothing says which certificate"):
            await fetch(farm, transport=TlsTransport(TlsSettings()))
        assert await fetch(farm, cluster="other") is None
    with pytest.raises(UnreachableError, match="Connection refused"):
        await fetch(farm)


@contextlib.asynccontextmanager
async def behaving(node: Identity, data: bytes | None) -> AsyncIterator[Farm]:
    """A peer that takes a request, writes this data and hangs up; or stays silent."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            await reader.readuntil(b"\r\n\r\n")
            if data is None:
                await reader.read()
            else:
                writer.write(data)
                await writer.drain()
        await hang_up(writer)

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(node.certificate, node.key)
    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    try:
        yield Farm(None, Endpoint("127.0.0.1", server.sockets[0].getsockname()[1]), node)  # type: ignore[arg-type]
    finally:
        server.close()


class AtLeisure(MixedTransport):
    """Dials without a deadline: time runs out behind the TLS handshake, which takes long on a busy machine."""

    def __init__(self, tls: TlsTransport) -> None:
        super().__init__(tls=tls, i2p=tls, listening=tls)

    async def dial(self, endpoint: Endpoint, factory: Any, *, deadline: float, attempt: int = 0) -> asyncio.Transport:
        return await super().dial(endpoint, factory, deadline=PATIENCE, attempt=attempt)


async def test_peers_that_do_not_keep_to_it_are_given_up(node: Identity) -> None:
    challenge = (
        b'HTTP/1.1 401 X\r\nWWW-Authenticate: Digest realm="farm", qop="auth", nonce="n", algorithm=MD5, stale=true\r\n'
        b"Content-Length: 0\r\n\r\n"
    )
    for data, expected in (
        (b"HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\nabc", "the connection ended without an answer"),
        (b"", "the connection ended without an answer"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 999999\r\n\r\n", "has 999999 bytes; the limit is 17488"),
        (challenge, "calls its own new nonce stale"),
    ):
        async with behaving(node, data) as farm:
            with pytest.raises(DialError, match=expected):
                await fetch(farm)
    async with behaving(node, None) as farm:
        with pytest.raises(UnreachableError, match=r"did not answer the HTTP request within 0\.0\d s: check"):
            await fetch(farm, transport=AtLeisure(farm.client_transport()), seconds=0.05)


# --- Limits -----------------------------------------------------------------------------------------------


async def test_a_user_with_all_its_connections_is_told_nothing_more(node: Identity) -> None:
    async with serving(node, max_per_user=1, **telling(FIRST)) as farm:
        _, writer = await foreign_session(farm)
        with pytest.raises(UnreachableError, match="the connection ended without an answer"):
            await fetch(farm)
        assert farm.server.counters.refused == {ConnectionRefusal.USER: 1}
        await hang_up(writer)
        await until(lambda: farm.server.counters.current == 0)
        # Clients that are told do not stay in the count either.
        for _ in range(3):
            assert await fetch(farm) == FIRST
            await until(lambda: farm.server.counters.current == 0)


async def test_who_asks_is_a_stranger_until_it_has_said_who_it_is(
    node: Identity, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = GateClock(monkeypatch)
    async with serving(node, gate=Gate(handshake_seconds=10.0), **telling(FIRST)) as farm:
        reader, writer = await foreign_client(farm)
        writer.write(CONFIG)
        await until(lambda: farm.server.counters.unauthenticated == 1)
        clock.move(10.0)
        assert await ends(reader) == b""
        await hang_up(writer)
        assert farm.server.counters.refused == {ConnectionRefusal.DEADLINE: 1}


async def test_what_is_sent_behind_the_request_is_not_read_as_messages(node: Identity) -> None:
    credentials = Credentials(USER, PASSWORD)
    async with serving(node, **telling(FIRST)) as farm:
        await fetch(farm, credentials=credentials)
        now = asyncio.get_running_loop().time()
        get = ConfigurationGet(host="x", cluster=CLUSTER, credentials=credentials, now=now, entropy=bytes)
        answer = await exchange(farm, get.request() + b"\x00 no message" * 10)
        assert answer.endswith(FIRST.encode())
        assert farm.requests == []
        assert farm.server.counters.refused == {}


async def test_strangers_get_the_same_bytes_whatever_they_ask_for(node: Identity) -> None:
    wrong = b'Authorization: Digest username="%s", realm="farm", nonce="x", uri="/", response="0"\r\n\r\n'
    async with serving(node, **telling(FIRST)) as farm:
        unknown = {
            re.sub(rb'nonce="[^"]*"', b"", await exchange(farm, head + rest))
            for head in (GET, CONFIG)
            for rest in (b"\r\n", wrong % b"server-1", wrong % b"server-77", b"Authorization: Basic eDp5\r\n\r\n")
        }
        assert len(unknown) == 1
        assert unknown.pop().startswith(b"HTTP/1.1 401 ")
        nowhere = {
            await exchange(farm, CONFIG.replace(*change) + b"\r\n")
            for change in (
                (b"config", b"config/"),
                (b"config", b"other"),
                (b"farm/1", b"farm/2"),
                (b"farm/1", b"other/1"),
                (b"GET", b"HEAD"),
                (b"HTTP/1.1", b"HTTP/1.0"),
            )
        }
        assert nowhere == {b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"}
        assert farm.server.counters.told == 0
    async with serving(node) as farm:
        assert {await exchange(farm, CONFIG + b"\r\n")} == nowhere


async def test_a_provider_that_fails_costs_its_connection_only(node: Identity, unhandled: list[dict[str, Any]]) -> None:
    def defect(_: str) -> bytes:
        raise ZeroDivisionError

    async with serving(node, echo, configurations={CLUSTER: defect}) as farm, connected(farm) as link:
        with pytest.raises(UnreachableError):
            await fetch(farm)
        assert await soon(ask(link, request(index=3))) == response(request(index=3))
    assert all(isinstance(context["exception"], ZeroDivisionError) for context in unhandled)
    unhandled.clear()


# --- Inside I2P -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ProxyMethod)
async def test_it_is_fetched_through_the_router(way: ProxyMethod) -> None:
    router = Router()
    async with serving_inside(router, **telling(FIRST)) as farm, listening(router.proxy(way)) as port:
        credentials = Credentials(USER, PASSWORD)
        for _ in range(2):
            assert await fetch(farm, transport=through(port, way), credentials=credentials) == FIRST
        assert farm.server.counters.challenged == 1
        if way is ProxyMethod.GET:
            line = f"GET http://{PLACE.host}:7001/GarlicFarm/farm/1/config HTTP/1.1\r\nHost: {PLACE.host}:7001\r\n"
            assert all(head.startswith(line.encode()) for head in router.requests)
    async with serving_inside(router) as farm, listening(router.proxy(way)) as port:
        assert await fetch(farm, transport=through(port, way)) is None


async def test_a_name_in_capitals_is_asked_for_in_small_letters() -> None:
    router = Router()
    async with serving_inside(router, **telling(FIRST)) as farm, listening(router.get) as port:
        farm.endpoint = Endpoint(PLACE.host.upper(), PLACE.port)
        assert await fetch(farm, transport=through(port, ProxyMethod.GET)) == FIRST


@pytest.mark.parametrize("way", ProxyMethod)
async def test_a_peer_that_the_router_does_not_reach_is_named(way: ProxyMethod) -> None:
    router = Router()
    async with listening(router.proxy(way)) as port:
        with pytest.raises(UnreachableError, match="heck the address"):
            await soon(
                fetch_configuration(through(port, way), PLACE, CLUSTER, Credentials(USER, PASSWORD), seconds=PATIENCE)
            )
    with taken_port() as sock:
        proxy = through(sock.getsockname()[1], way)
        with pytest.raises(DialError, match="check that the router runs"):
            await soon(fetch_configuration(proxy, PLACE, CLUSTER, Credentials(USER, PASSWORD), seconds=PATIENCE))


class TwoWays(TlsTransport):
    """Fails on the first of two ways."""

    tried: list[int]
    broken: tuple[int, ...] = (0,)

    def patience(self, endpoint: Endpoint) -> float:
        return PATIENCE

    async def dial(self, endpoint: Endpoint, factory: Any, *, deadline: float, attempt: int = 0) -> Any:
        self.tried = [*getattr(self, "tried", []), attempt]
        if attempt in self.broken:
            raise UnreachableError(f"not by way {attempt}")
        return await super().dial(endpoint, factory, deadline=deadline)


async def test_where_there_are_two_ways_the_second_is_tried_too(node: Identity) -> None:
    async with serving(node, **telling(FIRST)) as farm:
        transport = TwoWays(TlsSettings(fingerprints={farm.endpoint: [node.fingerprint]}))
        assert await fetch(farm, transport=transport) == FIRST
        assert transport.tried == [0, 1, 1]
        transport.broken = (0, 1)
        with pytest.raises(UnreachableError, match="not by way 1"):
            await fetch(farm, transport=transport)


# --- Several servers --------------------------------------------------------------------------------------


async def around(node: Identity, farms: list[Farm], newer_than: int = -1, seconds: float = PATIENCE) -> Any:
    transport = AtLeisure(TlsTransport(TlsSettings(fingerprints={farm.endpoint: [node.fingerprint] for farm in farms})))
    servers = {farm.endpoint: Credentials(USER, PASSWORD) for farm in farms}
    return await soon(ask_for_newer(transport, servers, CLUSTER, newer_than=newer_than, seconds=seconds))


async def test_the_search_goes_on_until_somebody_knows_something_newer(node: Identity) -> None:
    async with serving(node, **telling(FIRST)) as old, serving(node, **telling(LATER)) as new:
        for farms in ([old, new], [new, old]):
            assert await around(node, farms, newer_than=FIRST.log_index) == LATER
        assert await around(node, [old, new], newer_than=9) is None
        assert await around(node, [old]) == FIRST


async def test_those_who_do_not_tell_do_not_hold_up_the_others(node: Identity) -> None:
    async with (
        serving(node, **telling(LATER)) as new,
        serving(node) as silent,
        serving(node) as down,
        behaving(node, None) as stuck,
    ):
        await down.server.close(0)
        assert await around(node, [stuck, new]) == LATER
        assert await around(node, [silent, down]) is None
    assert await around(node, []) is None


async def test_the_search_ends_with_its_time_and_can_be_given_up(node: Identity) -> None:
    async with behaving(node, None) as stuck:
        assert await around(node, [stuck], seconds=0.05) is None
        searching = asyncio.ensure_future(around(node, [stuck]))
        await asyncio.sleep(0)
        searching.cancel()
        with pytest.raises(asyncio.CancelledError):
            await soon(searching)


async def test_who_is_refused_hears_so_though_another_has_answered_the_challenge(node: Identity) -> None:
    """A link and a question share their credentials: chance decides which of the two answers a challenge first."""

    class Shared(Credentials):
        def challenged(self, header_values: Sequence[str], now: float) -> bool:
            stale = super().challenged(header_values, now)
            self.authorize("GET", "/", now, bytes)  # the other one
            return stale

    async with serving(node, **telling(FIRST)) as farm:
        with pytest.raises(DialError, match=f"refuses user {USER} or its password"):
            await fetch(farm, credentials=Shared(USER, "wrong"))
