"""A client that knows one running server finds the leader, because servers tell their Configuration."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from gf_i2p.netdb.private_keys import DestinationKeys
from gf_i2p.transport.backoff import Backoff
from gf_i2p.transport.client import farm_client as client_module
from gf_i2p.transport.client.farm_client import FarmClient, FoundFarm, FoundPlace
from gf_i2p.transport.client.known_servers import KnownServers, ServerEndpoint
from gf_i2p.transport.endpoint_transport import MixedTransport
from gf_i2p.transport.i2p.i2p_transport import ProxyMethod
from gf_i2p.transport.tls.tls_transport import TlsSettings, TlsTransport
from gf_i2p.wire.endpoint import Endpoint
from gf_i2p.wire.errors import NotCommittedError
from gf_i2p.wire.key_credentials import Login
from gf_i2p.wire.log_values import ClusterServer, Configuration
from gf_i2p.wire.messages import NOBODY
from tests.transport.client.test_farm_client import CLIENT, Member
from tests.transport.harness import CLUSTER, PASSWORD, Farm, Identity, authenticator, serving, soon, until
from tests.transport.i2p.i2p_harness import Router, listening, taken_port, through

pytestmark = pytest.mark.usefixtures("unhandled")


@dataclass
class Teller(Member):
    """A server that also answers questions for the Configuration, once the test has set `configuration`."""

    configuration: Configuration | None = None
    question_count: int = 0

    def tell(self, _: str) -> bytes | None:
        self.question_count += 1
        return None if self.configuration is None else self.configuration.encode()


@dataclass
class TellingFarm:
    members: dict[int, Teller]
    farms: dict[int, Farm]
    transport: TlsTransport
    prepared: list[Sequence[ServerEndpoint]] = field(default_factory=list)
    pins: str = ""
    given_endpoints: Sequence[Endpoint] = ()
    distrusted: Mapping[int, str] = field(default_factory=dict)

    def elect(self, leader: int) -> None:
        for member in self.members.values():
            member.leader = leader

    def tell(self, configuration: Configuration) -> None:
        for member in self.members.values():
            member.configuration = configuration

    def configuration(self, *ids: int, index: int = 7) -> Configuration:
        return Configuration(index, 1, tuple(ClusterServer(number, str(self.farms[number].endpoint)) for number in ids))

    def prepare(self, places: Sequence[ServerEndpoint]) -> dict[ServerEndpoint, str]:
        self.prepared.append(places)
        trusted = [place for place in places if place.server not in self.distrusted]
        self.trust(place.endpoint for place in trusted)
        return {place: self.distrusted[place.server] for place in places if place not in trusted}

    def trust(self, endpoints: Iterable[Endpoint]) -> None:
        self.transport.reload(
            TlsSettings(fingerprints={each: [self.pins] for each in [*endpoints, *self.given_endpoints]})
        )

    def client(self, *ids: int, **others: Endpoint) -> FarmClient:
        """Make a client that knows these servers at first. `s9=ENDPOINT` adds a server 9 that need not exist."""
        endpoints = {number: self.farms[number].endpoint for number in ids}
        endpoints |= {int(name[1:]): endpoint for name, endpoint in others.items()}
        self.given_endpoints = list(endpoints.values())
        self.trust([])
        return FarmClient(
            self.transport,
            endpoints,
            CLUSTER,
            Login(CLIENT, PASSWORD),
            prepare=self.prepare,
            backoff=lambda: Backoff(floor=0.001, ceiling=0.002),
        )


@contextlib.asynccontextmanager
async def telling(node: Identity, *ids: int) -> AsyncIterator[TellingFarm]:
    """Serve these servers on loopback. No server tells a Configuration until the test sets one."""
    members = {number: Teller(number) for number in ids}
    async with contextlib.AsyncExitStack() as stack:
        farms = {
            number: await stack.enter_async_context(
                serving(
                    node,
                    member.handle,
                    authenticators={CLUSTER: authenticator({CLIENT: PASSWORD})},
                    configurations={CLUSTER: member.tell},
                )
            )
            for number, member in members.items()
        }
        yield TellingFarm(members, farms, TlsTransport(TlsSettings()), pins=node.fingerprint)


_TAKEN: list[socket.socket] = []


def nowhere() -> Endpoint:
    """Give an endpoint where nobody listens, and where nobody else can listen during the test."""
    _TAKEN.append(taken_port())
    return Endpoint("127.0.0.1", _TAKEN[-1].getsockname()[1])


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Make the client's pauses short, but wait for each server, so that a busy machine does not hide a server."""
    monkeypatch.setattr(client_module, "_PATIENCE_SECONDS", 1000.0)
    monkeypatch.setattr(client_module, "_I2P_PATIENCE_SECONDS", 1000.0)
    monkeypatch.setattr(client_module, "_PAUSE_FLOOR", 0.001)
    monkeypatch.setattr(client_module, "_PAUSE_CEILING", 0.002)
    monkeypatch.setattr(client_module, "_REFRESH_SECONDS", 0.0)
    yield
    while _TAKEN:
        _TAKEN.pop().close()


@pytest.fixture
def one_round(monkeypatch: pytest.MonkeyPatch) -> None:
    """End each client's time at the first pause, however long the work before the pause takes."""

    class NoTime(Backoff):
        def next(self) -> float:
            raise TimeoutError

    monkeypatch.setattr(client_module, "Backoff", NoTime)


# --- Posting ----------------------------------------------------------------------------------------------


async def test_one_follower_is_enough_to_find_the_leader(node: Identity) -> None:
    async with telling(node, 1, 2, 3) as farm:
        farm.elect(3)
        farm.tell(farm.configuration(1, 2, 3))
        async with farm.client(1) as client:
            for value in (b"a", b"b"):
                await soon(client.post([value]))
        assert farm.members[3].log == [b"a", b"b"]
        assert farm.members[2].request_count == 0
        assert farm.members[1].request_count <= 2


async def test_servers_that_have_moved_are_found_through_the_one_that_has_not(node: Identity) -> None:
    async with telling(node, 1, 2, 3) as farm:
        farm.elect(2)
        farm.tell(farm.configuration(1, 2, 3))
        async with farm.client(1, s2=nowhere(), s3=nowhere()) as client:
            await soon(client.post([b"a"]))
            farm.elect(3)
            await soon(client.post([b"b"]))
        assert (farm.members[2].log, farm.members[3].log) == ([b"a"], [b"b"])


async def test_a_leader_that_joins_later_is_asked_for_when_it_is_named(node: Identity) -> None:
    async with telling(node, 1, 2) as farm:
        farm.elect(1)
        farm.tell(farm.configuration(1))
        async with farm.client(1) as client:
            await soon(client.post([b"a"]))
            await until(lambda: farm.prepared)
            farm.tell(farm.configuration(1, 2, index=8))
            farm.elect(2)
            await soon(client.post([b"b"]))
        assert (farm.members[1].log, farm.members[2].log) == ([b"a"], [b"b"])


async def test_a_server_that_is_out_of_the_farm_still_leads_to_it(node: Identity) -> None:
    # Server 1 knows no leader any more, and names other members of the farm.
    async with telling(node, 1, 2, 3) as farm:
        farm.tell(farm.configuration(2, 3))
        farm.elect(3)
        farm.members[1].leader = NOBODY
        async with farm.client(1) as client:
            await soon(client.post([b"a"]))
        assert farm.members[3].log == [b"a"]


async def test_a_server_that_names_a_leader_of_the_past_is_not_the_only_one_asked(node: Identity) -> None:
    gone = nowhere()
    async with telling(node, 1, 2, 3) as farm:
        farm.elect(3)
        farm.members[1].leader = 9
        async with farm.client(1, 2, 3, s9=gone) as client:
            await soon(client.post([b"a"]))
        assert farm.members[3].log == [b"a"]


async def test_a_server_that_cannot_be_trusted_is_named_and_not_dialled(node: Identity, one_round: None) -> None:
    async with telling(node, 1, 2) as farm:
        farm.elect(2)
        farm.tell(farm.configuration(1, 2))
        farm.distrusted = {2: "Server 2 is new: add its fingerprint."}
        async with farm.client(1) as client:
            with pytest.raises(
                NotCommittedError, match=r"server 2 leads, says server 1, and server 2 is new: add its fingerprint\.$"
            ):
                await soon(client.post([b"a"]))
            assert farm.farms[2].server.counters.accepted == 0
            # As soon as server 2 can be trusted, the client dials server 2.
            farm.distrusted = {}
            await soon(client.post([b"a"]))
        assert farm.members[2].log == [b"a"]


async def test_without_anything_to_trust_it_by_the_transport_does_not_dial_it(node: Identity, one_round: None) -> None:
    async with telling(node, 1, 2) as farm:
        farm.elect(2)
        farm.tell(farm.configuration(1, 2))
        transport = TlsTransport(TlsSettings(fingerprints={farm.farms[1].endpoint: [node.fingerprint]}))
        async with FarmClient(transport, {1: farm.farms[1].endpoint}, CLUSTER, Login(CLIENT, PASSWORD)) as client:
            with pytest.raises(NotCommittedError, match=f"Nothing says which certificate {farm.farms[2].endpoint} has"):
                await soon(client.post([b"a"]))
        assert farm.farms[2].server.counters.accepted == 0


async def test_servers_are_asked_no_oftener_than_every_two_seconds(
    node: Identity, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_module, "_REFRESH_SECONDS", 1000.0)
    async with telling(node, 1) as farm:
        farm.elect(9)
        async with farm.client(1) as client:
            posting = asyncio.ensure_future(client.post([b"a"]))
            await until(lambda: farm.members[1].request_count >= 50)
            posting.cancel()
            await asyncio.wait([posting])
        assert farm.members[1].question_count == 1


async def test_where_the_farm_has_been_is_not_dialled_for_ever(node: Identity) -> None:
    async with telling(node, 1, 2) as farm:
        farm.elect(1)
        gone = nowhere()
        farm.tell(Configuration(7, 1, (*farm.configuration(1, 2).servers, ClusterServer(9, str(gone)))))
        async with farm.client(1) as client:
            await soon(client.post([b"a"]))
            farm.elect(9)
            posting = asyncio.ensure_future(client.post([b"b"]))
            await until(lambda: ServerEndpoint(9, gone) in client._links)
            farm.tell(farm.configuration(1, 2, index=8))
            farm.elect(1)
            await soon(posting)
            # The client asks anew when a server names a leader that cannot be found.
            farm.elect(5)
            posting = asyncio.ensure_future(client.post([b"c"]))
            await until(lambda: ServerEndpoint(9, gone) not in client._links)
            assert ServerEndpoint(9, gone) not in client._credentials
            farm.elect(1)
            await soon(posting)
        assert farm.members[1].log == [b"a", b"b", b"c"]


async def test_a_question_that_hangs_does_not_hold_up_posts_and_ends_with_the_client(
    node: Identity, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked_endpoints: list[Endpoint] = []

    async def hang(_: Any, endpoint: Endpoint, *__: Any, **___: Any) -> None:
        asked_endpoints.append(endpoint)
        await asyncio.Event().wait()

    monkeypatch.setattr(client_module, "fetch_configuration", hang)
    monkeypatch.setattr(client_module, "_PATIENCE_SECONDS", 0.01)
    async with telling(node, 1, 2) as farm:
        farm.elect(2)
        async with farm.client(1, 2) as client:
            assert await soon(client.post([b"a"])) == 1
            farm.elect(9)
            posting = asyncio.ensure_future(client.post([b"b"]))
            await until(lambda: farm.members[1].request_count >= 2)
            farm.elect(2)
            assert await soon(posting) == 2
        assert set(asked_endpoints) == {member.endpoint for member in farm.farms.values()}


# --- Looking ----------------------------------------------------------------------------------------------


async def test_what_is_found_says_where_each_server_is_and_who_leads(node: Identity) -> None:
    async with telling(node, 1, 2, 3) as farm:
        farm.elect(2)
        farm.tell(farm.configuration(1, 2, 3))
        farm.distrusted = {3: "Server 3 is new: add its fingerprint."}
        moved = nowhere()
        async with farm.client(1, s2=moved) as client:
            found_farm = await soon(client.find())
        assert found_farm == FoundFarm(
            2,
            None,
            7,
            (
                FoundPlace(1, str(farm.farms[1].endpoint), configured=True, current=True, connected=True, trouble=None),
                FoundPlace(
                    2, str(moved), configured=True, current=False, connected=False, trouble=found_farm.places[1].trouble
                ),
                FoundPlace(
                    2, str(farm.farms[2].endpoint), configured=False, current=True, connected=True, trouble=None
                ),
                FoundPlace(
                    3,
                    str(farm.farms[3].endpoint),
                    configured=False,
                    current=True,
                    connected=False,
                    trouble="Server 3 is new: add its fingerprint.",
                ),
            ),
        )
        assert "Connection refused" in (found_farm.places[1].trouble or "")
        assert all(member.log == [] for member in farm.members.values())


async def test_a_leader_that_cannot_be_trusted_is_named_at_once(node: Identity) -> None:
    async with telling(node, 1, 2) as farm:
        farm.elect(2)
        farm.tell(farm.configuration(1, 2))
        farm.distrusted = {2: "Server 2 is new: add its fingerprint."}
        async with farm.client(1) as client:
            found_farm = await soon(client.find(timeout=1000.0))
        assert found_farm.leader == 2
        assert found_farm.trouble == "server 2 leads, says server 1, and server 2 is new: add its fingerprint"


async def test_without_a_leader_what_is_known_is_found_when_the_time_is_over(node: Identity, one_round: None) -> None:
    async with telling(node, 1, 2) as farm:
        async with farm.client(1) as client:
            found_farm = await soon(client.find())
            assert (found_farm.leader, found_farm.trouble, found_farm.log_index) == (
                None,
                "server 1 knows no leader",
                None,
            )
            assert [place.current for place in found_farm.places] == [None]
        farm.tell(farm.configuration(1, 2))
        async with farm.client(1) as client:
            found_farm = await soon(client.find())
            assert found_farm.leader is None
            assert [(place.server, place.configured, place.current) for place in found_farm.places] == [
                (1, True, True),
                (2, False, True),
            ]


async def test_when_nobody_is_there_the_reasons_are_found(node: Identity) -> None:
    async with telling(node, 1) as farm, farm.client(s2=nowhere()) as client:
        finding = asyncio.ensure_future(client.find())
        await until(lambda: [bool(link.last_error) for link in client._links.values()] == [True])
        finding.cancel()
        await asyncio.wait([finding])
        found_farm = await soon(client.find(timeout=0.02))
        assert found_farm.leader is None
        assert "no server was reached (" in (found_farm.trouble or "")
        assert "Connection refused" in (found_farm.places[0].trouble or "")


async def test_a_server_that_hangs_up_is_asked_again(node: Identity) -> None:
    async with telling(node, 1) as farm:
        farm.elect(1)
        farm.members[1].drops = True
        async with farm.client(1) as client:
            finding = asyncio.ensure_future(client.find())
            await until(lambda: farm.members[1].request_count >= 2)
            farm.members[1].drops = False
            found_farm = await soon(finding)
        assert (found_farm.leader, found_farm.trouble) == (1, None)


# --- Known servers ----------------------------------------------------------------------------------------

HERE, THERE = Endpoint("192.0.2.1", 9001), Endpoint("192.0.2.2", 9001)


def configuration_of(index: int, *servers: tuple[int, str]) -> Configuration:
    return Configuration(index, 0, tuple(ClusterServer(*server) for server in servers))


def test_what_is_older_changes_nothing_and_what_was_given_stays() -> None:
    directory = KnownServers({1: HERE}, lambda _: {})
    directory.learn(configuration_of(5, (1, str(HERE)), (2, str(THERE))))
    assert directory.places == (ServerEndpoint(1, HERE), ServerEndpoint(2, THERE))
    directory.learn(configuration_of(4))
    assert directory.places == (ServerEndpoint(1, HERE), ServerEndpoint(2, THERE))
    directory.learn(configuration_of(6, (1, str(THERE))))
    assert directory.of(1) == [ServerEndpoint(1, HERE), ServerEndpoint(1, THERE)]
    directory.learn(configuration_of(7))
    assert list(directory.places) == [ServerEndpoint(1, HERE)]


def test_endpoints_that_are_none_are_named() -> None:
    directory = KnownServers({1: HERE}, lambda _: {})
    directory.learn(configuration_of(5, (2, "http://elsewhere"), (3, str(THERE))))
    assert directory.places == (ServerEndpoint(1, HERE), ServerEndpoint(3, THERE))
    assert "Server 2 has an endpoint that cannot be dialled" in directory.troubles[2]


# --- Inside I2P -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ProxyMethod)
async def test_one_follower_inside_i2p_is_enough(way: ProxyMethod, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_dns(*_: object) -> None:
        raise AssertionError("nothing is looked up here")

    monkeypatch.setattr("gf_i2p.transport.tls.tls_transport.resolve", no_dns)
    places = {number: Endpoint(DestinationKeys.generate().destination.b32, 80) for number in (1, 2, 3)}
    router = Router()
    members = {number: Teller(number, leader=3) for number in places}
    servers = [ClusterServer(number, str(place)) for number, place in places.items()]
    # One server names a place outside I2P: a client inside does not follow there.
    servers.append(ClusterServer(4, "tcp://farm.example.org:9001"))
    async with contextlib.AsyncExitStack() as stack:
        port = await stack.enter_async_context(listening(router.proxy(way)))
        for number, member in members.items():
            member.configuration = Configuration(7, 1, tuple(servers))
            await stack.enter_async_context(inside(router, places[number], member))
        i2p, tls = through(port, way), TlsTransport(TlsSettings())
        transport = MixedTransport(tls=tls, i2p=i2p, listening=tls)
        async with FarmClient(transport, {1: places[1]}, CLUSTER, Login(CLIENT, PASSWORD)) as client:
            assert await soon(client.post([b"a"])) == 1
            found_farm = await soon(client.find())
        assert (found_farm.leader, found_farm.log_index) == (3, 7)
        assert [place.connected for place in found_farm.places][:3] == [True, False, True]
    assert members[3].log == [b"a"]
    assert members[2].request_count == 0


@contextlib.asynccontextmanager
async def inside(router: Router, place: Endpoint, member: Teller) -> AsyncIterator[None]:
    """Serve one server behind the simulated router, at this I2P address."""
    from gf_i2p.transport.i2p.i2p_transport import I2pTransport, ProxySettings
    from gf_i2p.transport.served import Served
    from gf_i2p.transport.server import Server
    from tests.transport.i2p.i2p_harness import Inbound

    inbound = Inbound(names_peers=True)
    server = Server(
        I2pTransport(ProxySettings(), inbound=inbound),
        {CLUSTER: Served(authenticator({CLIENT: PASSWORD}), member.handle, configuration=member.tell)},
    )
    listener = await server.start()
    router.destinations[place.host] = int(listener.addresses[0].rpartition(":")[2])
    try:
        yield
    finally:
        await server.close(0)
        await until(lambda: not inbound.doing)
