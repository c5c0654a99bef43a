import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from gf_i2p.transport.backoff import Backoff
from gf_i2p.transport.client import farm_client as client_module
from gf_i2p.transport.client.farm_client import FarmClient
from gf_i2p.transport.served import AuthenticatedConnection, Replier
from gf_i2p.transport.tls.tls_transport import TlsSettings, TlsTransport
from gf_i2p.wire.entries import ValueType
from gf_i2p.wire.errors import LocalProtocolError, NotCommittedError, OutcomeUnknownError
from gf_i2p.wire.key_credentials import Login
from gf_i2p.wire.limits import MAX_VALUE_BYTES
from gf_i2p.wire.messages import NOBODY, MessageType, Request, Response
from tests.transport.harness import CLUSTER, PASSWORD, Farm, Identity, authenticator, serving, soon, until

pytestmark = pytest.mark.usefixtures("unhandled")

CLIENT = "client-a"


@dataclass
class Member:
    """A server of a pretended farm: the server answers as if `leader` led."""

    id: int
    leader: int = NOBODY
    queue_full: int = 0  # refusals before there is room
    silent: bool = False
    drops: bool = False
    log: list[bytes] = field(default_factory=list)
    request_count: int = 0

    def handle(self, _: AuthenticatedConnection, request: Request, reply: Replier) -> None:
        self.request_count += 1
        assert request.type is MessageType.CLIENT_REQUEST
        assert all(entry.value_type is ValueType.APPLICATION for entry in request.entries)
        if self.silent:
            return
        if self.drops:
            reply(None)
        elif self.leader != self.id or self.queue_full:
            self.queue_full -= self.leader == self.id
            reply(Response(MessageType.APPEND_ENTRIES_RESPONSE, self.id, self.leader, 3, 0, accepted=False))
        else:
            self.log.extend(entry.value for entry in request.entries)
            reply(Response(MessageType.APPEND_ENTRIES_RESPONSE, self.id, self.id, 3, len(self.log) + 1, accepted=True))


@dataclass
class Pretended:
    members: dict[int, Member]
    farms: dict[int, Farm]
    client: FarmClient

    def elect(self, leader: int) -> None:
        for member in self.members.values():
            member.leader = leader


@contextlib.asynccontextmanager
async def pretended(node: Identity, *ids: int, down: tuple[int, ...] = (), **options: Any) -> AsyncIterator[Pretended]:
    """Serve a farm of these servers, without the servers in `down`."""
    members = {number: Member(number) for number in ids}
    async with contextlib.AsyncExitStack() as stack:
        farms = {
            number: await stack.enter_async_context(
                serving(node, member.handle, authenticators={CLUSTER: authenticator({CLIENT: PASSWORD})})
            )
            for number, member in members.items()
        }
        endpoints = {number: farm.endpoint for number, farm in farms.items()}
        for number in down:
            await farms[number].server.close(0)
        transport = TlsTransport(
            TlsSettings(fingerprints={endpoint: [node.fingerprint] for endpoint in endpoints.values()})
        )
        options.setdefault("backoff", lambda: Backoff(floor=0.001, ceiling=0.002))
        async with FarmClient(transport, endpoints, CLUSTER, Login(CLIENT, PASSWORD), **options) as client:
            yield Pretended(members, farms, client)


class Pauses(Backoff):
    """The client's pauses between the tries: short, and counted."""

    taken = 0

    def next(self) -> float:
        Pauses.taken += 1
        return 0.001


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the client's pauses short, but wait for each server, so that a busy machine does not hide a server."""
    monkeypatch.setattr(client_module, "_PATIENCE_SECONDS", 1000.0)
    monkeypatch.setattr(Pauses, "taken", 0)
    monkeypatch.setattr(client_module, "Backoff", Pauses)


async def test_values_go_to_the_leader(node: Identity) -> None:
    async with pretended(node, 1, 2, 3) as farm:
        farm.elect(1)
        assert await soon(farm.client.post([b"a"])) == 1
        assert await soon(farm.client.post([b"b", b"c"])) == 3
        assert farm.members[1].log == [b"a", b"b", b"c"]
        # No other server was even dialled.
        assert [farm.farms[number].server.counters.accepted for number in (2, 3)] == [0, 0]


async def test_a_refusal_leads_to_the_leader_and_it_is_remembered(node: Identity) -> None:
    async with pretended(node, 1, 2, 3) as farm:
        farm.elect(3)
        for value in (b"a", b"b", b"c"):
            await soon(farm.client.post([value]))
        assert farm.members[3].log == [b"a", b"b", b"c"]
        assert [member.request_count for member in farm.members.values()] == [1, 0, 3]
        farm.elect(2)
        assert await soon(farm.client.post([b"d"])) == 1
        assert farm.members[2].log == [b"d"]


async def test_without_a_leader_it_asks_around_until_there_is_one(node: Identity) -> None:
    async with pretended(node, 1, 2, 3) as farm:
        posting = asyncio.ensure_future(farm.client.post([b"a"]))
        await until(lambda: all(member.request_count for member in farm.members.values()))
        await until(lambda: "knows no leader" in farm.client.waits_for)
        assert not posting.done()
        farm.elect(2)
        assert await soon(posting) == 1
        assert farm.members[2].log == [b"a"]


async def test_a_full_queue_is_waited_for(node: Identity) -> None:
    async with pretended(node, 1, 2) as farm:
        farm.elect(2)
        farm.members[2].queue_full = 10**9
        posting = asyncio.ensure_future(farm.client.post([b"a"]))
        await until(lambda: "its queue or disk is full, or this user posts" in farm.client.waits_for)
        await until(lambda: farm.members[2].request_count > 3)
        request_count = farm.members[2].request_count
        farm.members[2].queue_full = 5
        assert await soon(posting) == 1
        assert request_count + 5 <= farm.members[2].request_count <= request_count + 7
        assert farm.members[1].request_count == 1


async def test_a_server_that_is_down_is_passed_over(node: Identity) -> None:
    async with pretended(node, 1, 2, 3, down=(1,)) as farm:
        farm.elect(3)
        assert await soon(farm.client.post([b"a"])) == 1


async def test_a_leader_that_is_down_is_waited_for_with_the_others(node: Identity) -> None:
    async with pretended(node, 1, 2, 3, down=(3,)) as farm:
        farm.elect(3)  # as the others still believe
        posting = asyncio.ensure_future(farm.client.post([b"a"]))
        await until(lambda: farm.members[1].request_count >= 10)
        # At first the client follows the redirect; after a failure of the redirect, there is a pause before every try.
        assert farm.members[1].request_count + farm.members[2].request_count <= Pauses.taken + 3
        farm.elect(2)
        assert await soon(posting) == 1
        assert farm.members[2].log == [b"a"]


async def test_a_leader_that_is_not_configured_is_named(node: Identity, monkeypatch: pytest.MonkeyPatch) -> None:
    class NoTime(Backoff):
        def next(self) -> float:
            raise TimeoutError

    monkeypatch.setattr(client_module, "Backoff", NoTime)
    async with pretended(node, 1) as farm:
        farm.elect(9)
        with pytest.raises(
            NotCommittedError, match=r"server 9 leads, says server 1, and its endpoint is not configured"
        ):
            await soon(farm.client.post([b"a"]))


async def test_two_servers_that_point_at_each_other_are_not_asked_in_a_frenzy(node: Identity) -> None:
    async with pretended(node, 1, 2) as farm:
        farm.members[1].leader, farm.members[2].leader = 2, 1
        posting = asyncio.ensure_future(farm.client.post([b"a"]))
        await until(lambda: Pauses.taken >= 20)
        posting.cancel()
        await asyncio.wait([posting])
        request_count = sum(member.request_count for member in farm.members.values())
        assert request_count > 4
        assert request_count <= 2 * Pauses.taken + 2


async def test_when_nobody_can_be_reached_the_reasons_are_named(node: Identity) -> None:
    async with pretended(node, 1, 2, down=(1, 2)) as farm:
        posting = asyncio.ensure_future(farm.client.post([b"a"]))
        await until(lambda: [bool(link.last_error) for link in farm.client._links.values()] == [True, True])
        assert not posting.done()
        assert farm.client.waits_for.startswith("no server is reached (")
        assert "Connection refused" in farm.client.waits_for
        with pytest.raises(
            NotCommittedError, match=r"no server was reached \(.*Connection refused.*Connection refused"
        ):
            await soon(farm.client.post([b"a"], timeout=0.02))
        posting.cancel()
        await asyncio.wait([posting])


async def test_a_connection_that_ends_leaves_the_outcome_unknown(node: Identity) -> None:
    async with pretended(node, 1, 2) as farm:
        farm.elect(1)
        farm.members[1].drops = True
        with pytest.raises(OutcomeUnknownError, match=r"Server 1 got the values, but .*: they may be committed or not"):
            await soon(farm.client.post([b"a"]))
        assert farm.members[1].request_count == 1  # the client must not try again
        farm.members[1].drops = False
        assert await soon(farm.client.post([b"a"])) == 1


async def test_no_answer_in_time_leaves_the_outcome_unknown(node: Identity) -> None:
    async with pretended(node, 1) as farm:
        farm.elect(1)
        await soon(farm.client.post([b"a"]))
        farm.members[1].silent = True
        with pytest.raises(OutcomeUnknownError, match=r"no answer came within 0\.02 s"):
            await soon(farm.client.post([b"b"], timeout=0.02))
    async with pretended(node, 1, request_seconds=0.05) as farm:
        farm.members[1].silent = True
        with pytest.raises(OutcomeUnknownError):
            await soon(farm.client.post([b"a"]))


async def test_closing_leaves_the_outcome_of_running_posts_unknown(node: Identity) -> None:
    async with pretended(node, 1) as farm:
        farm.members[1].silent = True
        posting = asyncio.ensure_future(farm.client.post([b"a"]))
        await until(lambda: farm.members[1].request_count)
        await farm.client.close()
        with pytest.raises(OutcomeUnknownError):
            await soon(posting)


async def test_many_posts_share_one_connection(node: Identity) -> None:
    async with pretended(node, 1, 2) as farm:
        farm.elect(2)
        indexes = await soon(asyncio.gather(*(farm.client.post([bytes([value])]) for value in range(100))))
        assert sorted(indexes) == list(range(1, 101))
        assert sorted(farm.members[2].log) == [bytes([value]) for value in range(100)]
        assert farm.farms[2].server.counters.authenticated == 1


async def test_a_server_that_says_nothing_at_all_does_not_hold_up_the_first_post(
    node: Identity, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_module, "_PATIENCE_SECONDS", 0.02)
    async with pretended(node, 1, 2) as farm:
        farm.elect(2)
        dialled: list[int] = []
        dial: Callable[..., Any] = farm.client._transport.dial

        async def stuck(endpoint: Any, factory: Any, **options: Any) -> Any:
            dialled.append(endpoint.port)
            if endpoint == farm.farms[1].endpoint:
                await asyncio.Event().wait()
            return await dial(endpoint, factory, **options)

        monkeypatch.setattr(farm.client._transport, "dial", stuck)
        assert await soon(farm.client.post([b"a"])) == 1
        assert dialled[0] == farm.farms[1].endpoint.port
        # The client remembers the server that has answered.
        monkeypatch.setattr(client_module, "_PATIENCE_SECONDS", 1000.0)
        assert await soon(farm.client.post([b"b"])) == 2


@contextlib.asynccontextmanager
async def stranger(farm: Pretended) -> AsyncIterator[FarmClient]:
    """A client with a wrong password."""
    endpoints = {number: each.endpoint for number, each in farm.farms.items()}
    login = Login(CLIENT, "another password")
    transport = farm.client._transport
    async with FarmClient(transport, endpoints, CLUSTER, login, backoff=_quick) as client:
        yield client


def _quick() -> Backoff:
    return Backoff(floor=0.001, ceiling=0.002)


async def test_a_client_that_all_servers_reject_is_told_at_once(node: Identity) -> None:
    async with pretended(node, 1, 2) as farm, stranger(farm) as client:
        farm.elect(1)
        with pytest.raises(NotCommittedError, match=r"no server takes this client: .*refuses user .*; .*refuses user"):
            await soon(client.post([b"a"], timeout=1000))
        assert "no server takes this client" in ((await soon(client.find(timeout=1000))).trouble or "")
        assert farm.members[1].log == []


async def test_a_client_that_is_let_in_again_needs_no_luck(node: Identity) -> None:
    async with pretended(node, 1) as farm, stranger(farm) as client:
        farm.elect(1)
        with pytest.raises(NotCommittedError, match="no server takes this client"):
            await soon(client.post([b"a"], timeout=1000))
        client._login = Login(CLIENT, PASSWORD)
        client._credentials.clear()
        (link,) = client._links.values()
        link._credentials = client._credentials_for(next(iter(client._links)))
        assert await soon(client.post([b"b"], timeout=1000)) == 1, "the post waits for an attempt of its own"


async def test_a_server_that_is_not_reached_might_take_the_client(node: Identity) -> None:
    async with pretended(node, 1, 2, down=(2,)) as farm, stranger(farm) as client:
        with pytest.raises(NotCommittedError, match=r"Not committed within 0.3 s: no server was reached"):
            await client.post([b"a"], timeout=0.3)


async def test_posts_that_make_no_sense_are_refused(node: Identity) -> None:
    async with pretended(node, 1) as farm:
        farm.elect(1)
        with pytest.raises(ValueError, match="one value at least"):
            await farm.client.post([])
        with pytest.raises(LocalProtocolError):
            await soon(farm.client.post([bytes(MAX_VALUE_BYTES + 1)]))
    with pytest.raises(ValueError, match="endpoint of one server"):
        FarmClient(TlsTransport(TlsSettings()), {}, CLUSTER, Login(CLIENT, PASSWORD))
