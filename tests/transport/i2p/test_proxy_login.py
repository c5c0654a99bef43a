"""Logging in at the router's proxy: by GET, by CONNECT, by SOCKS5."""

import asyncio
import re

import pytest

from gf_i2p.transport.client.server_queries import fetch_configuration
from gf_i2p.transport.errors import DialError, ProxyAccessError, TransportError, UnreachableError
from gf_i2p.transport.i2p.i2p_transport import ProxyMethod, ProxySettings
from gf_i2p.transport.stream_protocol import StreamProtocol
from gf_i2p.wire.digest import Credentials
from gf_i2p.wire.log_values import ClusterServer, Configuration
from tests.transport import harness
from tests.transport.harness import CLUSTER, PATIENCE, ask, connected, echo, request, response, soon
from tests.transport.i2p.i2p_harness import PLACE, attempt, listening, serving_inside, through
from tests.transport.i2p.locked_router import PASSWORD, USER, LockedRouter

pytestmark = pytest.mark.usefixtures("unhandled")

HTTP_WAYS = (ProxyMethod.GET, ProxyMethod.CONNECT)
every_way = pytest.mark.parametrize("way", ProxyMethod)
http_ways = pytest.mark.parametrize("way", HTTP_WAYS)
SENT = re.compile(rb"Proxy-Authorization: (\w+)[^\r]*")


def schemes_sent(router: LockedRouter) -> list[bytes | None]:
    """Give the scheme of each request's login."""
    return [None if (found := SENT.search(head)) is None else found[1] for head in router.requests]


@http_ways
@pytest.mark.parametrize("schemes", [("MD5",), ("SHA-256", "MD5"), ("Basic",), ("Basic", "MD5")])
async def test_a_link_logs_in_at_the_proxy_and_then_at_the_peer(way: ProxyMethod, schemes: tuple[str, ...]) -> None:
    router = LockedRouter(schemes=schemes)
    async with (
        serving_inside(router, echo) as farm,
        listening(router.proxy(way)) as port,
        connected(farm, transport=through(port, way, USER, PASSWORD)) as link,
    ):
        assert await soon(ask(link, request(index=3))) == response(request(index=3))
    assert router.asked == 1, "the proxy's challenge is remembered"
    assert schemes_sent(router) == [None] + [b"Basic" if schemes == ("Basic",) else b"Digest"] * 2


async def test_the_peer_gets_its_own_login_and_never_the_proxys() -> None:
    router = LockedRouter()
    async with (
        serving_inside(router, echo) as farm,
        listening(router.get) as port,
        connected(farm, transport=through(port, ProxyMethod.GET, USER, PASSWORD)) as link,
    ):
        assert await soon(ask(link, request())) is not None
    assert [b"\r\nAuthorization: Digest " in head for head in router.requests] == [False, False, True]
    assert all(b"Proxy-" not in head for head in router.passed_on)
    (authorization,) = re.findall(rb"\r\nAuthorization: [^\r]*", router.passed_on[-1])
    assert f'username="{harness.USER}"'.encode() in authorization
    proxys = SENT.findall(router.requests[-1])
    assert proxys == [b"Digest"]
    assert f'username="{USER}"'.encode() in router.requests[-1].replace(authorization, b"")


async def test_a_peer_behind_connect_sees_no_login_of_the_proxy() -> None:
    router = LockedRouter()
    heard = bytearray()

    async def peer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.extend(await reader.readuntil(b"\r\n\r\n"))

    async with listening(peer) as there, listening(router.connect) as port:
        router.names_peers = False
        router.destinations[PLACE.host] = there
        await attempt(port, ProxyMethod.CONNECT, PLACE, USER, PASSWORD)
    assert heard.startswith(b"GET /GarlicFarm/")
    assert b"Proxy-" not in heard


async def test_a_407_of_a_peer_behind_connect_gets_no_answer() -> None:
    router = LockedRouter()
    heard: list[bytes] = []

    async def thief(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 407 Give it to me\r\nProxy-Authenticate: Basic realm=x\r\n\r\n")

    router.names_peers = False
    async with listening(thief) as there, listening(router.connect) as port:
        router.destinations[PLACE.host] = there
        reason = await attempt(port, ProxyMethod.CONNECT, PLACE, USER, PASSWORD)
    assert "the answer is 407 Give it to me, which no farm node sends" in reason
    assert len(heard) == 1


@every_way
async def test_a_question_for_the_configuration_logs_in_too(way: ProxyMethod) -> None:
    router = LockedRouter()
    known = Configuration(3, 0, (ClusterServer(1, str(PLACE)),))
    async with (
        serving_inside(router, configurations={CLUSTER: lambda _: known.encode()}),
        listening(router.proxy(way)) as port,
    ):
        transport = through(port, way, USER, PASSWORD)
        mine = Credentials(harness.USER, harness.PASSWORD)
        assert await fetch_configuration(transport, PLACE, CLUSTER, mine, seconds=PATIENCE) == known


@http_ways
async def test_an_expired_nonce_costs_one_more_request(way: ProxyMethod) -> None:
    router = LockedRouter(stale=2)
    async with (
        serving_inside(router, echo) as farm,
        listening(router.proxy(way)) as port,
        connected(farm, transport=through(port, way, USER, PASSWORD)) as link,
    ):
        assert await soon(ask(link, request())) is not None
    assert router.asked == 3


@http_ways
async def test_a_proxy_that_asks_for_ever_is_given_up(way: ProxyMethod) -> None:
    router = LockedRouter(stale=1_000)
    async with listening(router.proxy(way)) as port:
        reason = await attempt(port, way, PLACE, USER, PASSWORD)
    assert "asks for a user and a password again and again" in reason
    assert router.asked == 4


@every_way
async def test_a_wrong_password_is_named_and_not_shown(way: ProxyMethod) -> None:
    router = LockedRouter()
    async with serving_inside(router), listening(router.proxy(way)) as port:
        reason = await attempt(port, way, PLACE, USER, "wrong-secret")
    assert f"refuses user {USER} or its password: check proxy_user and proxy_password" in reason
    assert "wrong-secret" not in reason
    assert router.passed_on == []


@every_way
async def test_a_missing_login_is_named_with_the_settings(way: ProxyMethod) -> None:
    router = LockedRouter()
    async with serving_inside(router), listening(router.proxy(way)) as port:
        reason = await attempt(port, way)
        assert "asks for a user and a password: set proxy_user and proxy_password" in reason
        mine = Credentials(harness.USER, harness.PASSWORD)
        with pytest.raises(ProxyAccessError, match="set proxy_user and proxy_password") as caught:
            await fetch_configuration(through(port, way), PLACE, CLUSTER, mine, seconds=PATIENCE)
    assert not isinstance(caught.value, UnreachableError)


async def test_many_links_log_in_side_by_side() -> None:
    router = LockedRouter()
    known = Configuration(3, 0, (ClusterServer(1, str(PLACE)),))
    async with (
        serving_inside(router, configurations={CLUSTER: lambda _: known.encode()}),
        listening(router.get) as port,
    ):
        transport = through(port, ProxyMethod.GET, USER, PASSWORD)
        answers = await soon(
            asyncio.gather(
                *(
                    fetch_configuration(
                        transport, PLACE, CLUSTER, Credentials(harness.USER, harness.PASSWORD), seconds=PATIENCE
                    )
                    for _ in range(20)
                )
            )
        )
    assert answers == [known] * 20


@pytest.mark.parametrize("scheme", ["Basic", "MD5"])
async def test_a_proxy_without_a_password_never_learns_one(scheme: str) -> None:
    class Open(LockedRouter):
        def admitted(self, head: bytes, writer: asyncio.StreamWriter) -> bytes | None:
            return head

    router = Open(schemes=(scheme,))
    for way in HTTP_WAYS:
        async with (
            serving_inside(router, echo) as farm,
            listening(router.proxy(way)) as port,
            connected(farm, transport=through(port, way, USER, PASSWORD)) as link,
        ):
            assert await soon(ask(link, request())) is not None
    assert set(schemes_sent(router)) == {None}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (("127.0.0.1", 1, ProxyMethod.GET, "user"), "belong together"),
        (("127.0.0.1", 1, ProxyMethod.GET, None, "secret"), "belong together"),
        (("127.0.0.1", 1, ProxyMethod.GET, "a:b", "secret"), "no colon"),
        (("127.0.0.1", 1, ProxyMethod.SOCKS5, "user", "secret\n"), "printable ASCII"),
        (("192.0.2.1", 1, ProxyMethod.SOCKS5, "user", "secret"), "would go to 192.0.2.1 in the clear"),
    ],
)
def test_logins_that_cannot_be_or_would_be_seen_are_refused(settings: tuple[object, ...], message: str) -> None:
    with pytest.raises(TransportError, match=message) as caught:
        ProxySettings(*settings)  # type: ignore[arg-type]
    assert "secret" not in str(caught.value)


def test_only_a_get_hands_the_login_to_the_request() -> None:
    assert through(1, ProxyMethod.GET, USER, PASSWORD).proxy_login(PLACE) is not None
    for way in (ProxyMethod.CONNECT, ProxyMethod.SOCKS5):
        assert through(1, way, USER, PASSWORD).proxy_login(PLACE) is None
    assert through(1, ProxyMethod.GET).proxy_login(PLACE) is None
    settings = ProxySettings("127.0.0.1", 1, ProxyMethod.GET, USER, PASSWORD)
    assert PASSWORD not in repr(settings) + str(settings)


async def test_an_unreadable_407_is_named() -> None:
    async def odd(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 407 No\r\nno header at all\r\n\r\n")

    async with listening(odd) as port:
        with pytest.raises(DialError, match="does not answer as an HTTP proxy does"):
            await through(port, ProxyMethod.CONNECT, USER, PASSWORD).dial(PLACE, StreamProtocol, deadline=PATIENCE)
