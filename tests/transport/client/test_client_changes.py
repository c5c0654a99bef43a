"""A client of an administrator: changes of the servers reach the leader, and every server is asked about the log."""

import contextlib
from dataclasses import dataclass, field

import pytest

from gf_i2p.netdb.private_keys import DestinationKeys
from gf_i2p.transport.client import farm_client as client_module
from gf_i2p.transport.client.farm_client import FarmClient
from gf_i2p.transport.endpoint_transport import MixedTransport
from gf_i2p.transport.i2p.i2p_transport import ProxyMethod
from gf_i2p.transport.served import AuthenticatedConnection, Replier
from gf_i2p.transport.tls.tls_transport import TlsSettings, TlsTransport
from gf_i2p.wire.endpoint import Endpoint
from gf_i2p.wire.entries import Entry, ValueType
from gf_i2p.wire.errors import NotCommittedError, OutcomeUnknownError
from gf_i2p.wire.key_credentials import Login
from gf_i2p.wire.log_values import ClusterServer, Configuration, encode_server_id
from gf_i2p.wire.messages import NOBODY, RESPONSE_TYPE, MessageType, Request, Response
from tests.transport.client.test_client_finding import Teller, inside, nowhere, one_round, quick, telling
from tests.transport.client.test_farm_client import CLIENT
from tests.transport.harness import CLUSTER, PASSWORD, Identity, soon
from tests.transport.i2p.i2p_harness import Router, listening, through

__all__ = ["one_round", "quick"]

pytestmark = pytest.mark.usefixtures("unhandled")

REMOVE = Request(
    MessageType.REMOVE_SERVER_REQUEST,
    0, 0, 0, 0, 0, 0,
    (Entry(0, ValueType.CLUSTER_SERVER, encode_server_id(2)),),
)  # fmt: skip


@dataclass
class Changeable(Teller):
    """A server that takes changes as a leader, unless another change is under way."""

    busy: bool = False
    changes: list[Request] = field(default_factory=list)

    def handle(self, caller: AuthenticatedConnection, request: Request, reply: Replier) -> None:
        if request.type is MessageType.CLIENT_REQUEST:
            super().handle(caller, request, reply)
            return
        self.changes.append(request)
        if self.drops:
            reply(None)
            return
        accepted = self.leader == self.id and not self.busy
        reply(Response(RESPONSE_TYPE[request.type], self.id, self.leader, 3, 0, accepted=accepted))


@pytest.fixture(autouse=True)
def changeable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.transport.client.test_client_finding.Teller", Changeable)


async def test_a_change_goes_to_the_leader_and_its_answer_is_final(node: Identity) -> None:
    async with telling(node, 1, 2, 3) as farm:
        farm.elect(3)
        farm.tell(farm.configuration(1, 2, 3))
        leader = farm.members[3]
        assert isinstance(leader, Changeable)
        async with farm.client(1) as client:
            response = await soon(client.change_servers(REMOVE))
            assert (response.type, response.accepted) == (MessageType.REMOVE_SERVER_RESPONSE, True)
            leader.busy = True
            response = await soon(client.change_servers(REMOVE))
            assert (response.source, response.accepted) == (3, False)
        assert leader.changes == [REMOVE, REMOVE], "a refusal is not asked again"


async def test_who_hangs_up_leaves_it_open(node: Identity) -> None:
    async with telling(node, 1) as farm:
        farm.elect(1)
        farm.members[1].drops = True
        async with farm.client(1) as client:
            with pytest.raises(OutcomeUnknownError, match="the change may have begun or not"):
                await soon(client.change_servers(REMOVE))


async def test_nobody_to_ask_does_not_leave_it_open(node: Identity, one_round: None) -> None:
    async with telling(node, 1) as farm:
        farm.elect(NOBODY)
        async with farm.client(1) as client:
            with pytest.raises(NotCommittedError, match="knows no leader"):
                await soon(client.change_servers(REMOVE))


async def test_everybody_is_asked_and_who_says_nothing_has_a_reason(node: Identity) -> None:
    async with telling(node, 1, 2, 3, 4) as farm:
        old, new = farm.configuration(1, 2), farm.configuration(1, 2, 3, 4, index=9)
        farm.members[1].configuration, farm.members[2].configuration, farm.members[3].configuration = old, new, new
        farm.distrusted = {4: "Nobody knows its certificate."}
        async with farm.client(1, 2, s5=nowhere()) as client:
            survey = await soon(client.survey())
        assert survey.configurations == {1: old, 2: new, 3: new}, "also the one that only another has told of"
        assert survey.undiallable == {4: "Nobody knows its certificate."}
        assert set(survey.troubles) == {4, 5}
        assert "cannot be reached" in survey.troubles[5]
        farm.members[3].configuration = None
        async with farm.client(1, 2) as client:
            survey = await soon(client.survey())
        assert "(404)" in survey.troubles[3]


@pytest.mark.parametrize("way", ProxyMethod)
async def test_all_of_it_inside_i2p(way: ProxyMethod, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "_REFRESH_SECONDS", 0.0)
    places = {number: Endpoint(DestinationKeys.generate().destination.b32, 80) for number in (1, 2, 3)}
    configuration = Configuration(7, 1, tuple(ClusterServer(number, str(place)) for number, place in places.items()))
    router = Router()
    members = {number: Changeable(number, leader=3, configuration=configuration) for number in places}
    async with contextlib.AsyncExitStack() as stack:
        port = await stack.enter_async_context(listening(router.proxy(way)))
        for number, member in members.items():
            await stack.enter_async_context(inside(router, places[number], member))
        i2p, tls = through(port, way), TlsTransport(TlsSettings())
        transport = MixedTransport(tls=tls, i2p=i2p, listening=tls)
        async with FarmClient(transport, {1: places[1]}, CLUSTER, Login(CLIENT, PASSWORD)) as client:
            assert (await soon(client.change_servers(REMOVE))).accepted
            assert (await soon(client.survey())).configurations == dict.fromkeys(places, configuration)
    assert members[3].changes == [REMOVE]
