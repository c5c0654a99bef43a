"""One router by all interfaces, sensing, and the session that brings streams: bridges/router.py and the parts."""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import replace

import pytest
import pytest_asyncio

from bridges.errors import RouterError, RouterRefusedError, RouterUnreachableError
from bridges.i2cp.publisher import I2cpPublisher
from bridges.i2cp.settings import RouterKind
from bridges.i2pcontrol.access import I2pControlAccess
from bridges.i2pcontrol.router_status import I2pControl
from bridges.leaf_liveness import SESSIONS, LeafLiveness
from bridges.router import NO_CONNECTIONS, NO_NAME, LocalRouter
from bridges.router_protocol import ANY_MASTER, Publication, RouterBridge, SetFinding
from bridges.sam import destination_sensing
from bridges.sam.client import Sam
from bridges.sam.inbound_session import SamInbound
from gf_i2p.farm.record.router_facts import LeafStatus, RouterStatus
from gf_i2p.netdb.encoding import to_b32_address
from gf_i2p.netdb.meta_lease_set import MetaLease, MetaLeaseSet
from gf_i2p.netdb.private_keys import DestinationKeys
from gf_i2p.netdb.session_config import session_config
from tests.bridges.i2cp.fake_router import Clock, FakeRouter
from tests.bridges.simulated_i2pcontrol import PASSWORD, SimulatedRouter
from tests.bridges.test_leaf_liveness import Session
from tests.netdb.strategies import KEYS, NOW, entropy
from tests.transport.harness import PATIENCE, soon, until

LEAF = bytes(range(32))
DOWN = LeafStatus(up=False, name_reason=NO_NAME, connections_reason=NO_CONNECTIONS)
MASTER = KEYS.destination.hash
TARGET = DestinationKeys.generate(entropy(3)).destination


class FakeSam:
    """The part of SAM that a bridge speaks. `answers` by the first two words of a request; after "hang" SAM hangs,
    after "hang up" SAM hangs up.

    `first`: answers that are given once, before those.
    """

    def __init__(self) -> None:
        self.port = 0
        self.answers = {
            "HELLO VERSION": "HELLO REPLY RESULT=OK VERSION=3.1",
            "SESSION CREATE": "SESSION STATUS RESULT=OK DESTINATION=x",
            "STREAM FORWARD": "STREAM STATUS RESULT=OK",
            "STREAM CONNECT": "STREAM STATUS RESULT=OK",
            "NAMING LOOKUP": "NAMING REPLY RESULT=KEY_NOT_FOUND NAME=x",
            "HEAD /": "HTTP/1.0 200 OK",
            "": "hang",
        }
        self.first: dict[str, str] = {}
        self.requests: list[str] = []
        self.writers: set[asyncio.StreamWriter] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writers.add(writer)
        try:
            while line := await reader.readline():
                self.requests.append(line.decode().strip())
                words = " ".join(line.decode().split()[:2])
                answer = self.first.pop(words, None) or self.answers[words]
                if answer == "hang up":
                    break
                if answer != "hang":
                    writer.write(answer.encode() + b"\n")
        except ConnectionError:
            pass
        finally:
            self.writers.discard(writer)
            writer.close()

    def asked(self, words: str) -> list[str]:
        return [request for request in self.requests if request.startswith(words)]


@pytest_asyncio.fixture
async def fake() -> AsyncIterator[FakeSam]:
    made = FakeSam()
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    made.port = server.sockets[0].getsockname()[1]
    yield made
    server.close()
    for writer in list(made.writers):
        writer.close()
    await until(lambda: not made.writers)


@pytest.fixture
def sam(fake: FakeSam) -> Sam:
    return Sam("127.0.0.1", fake.port)


@pytest_asyncio.fixture
async def i2cp() -> AsyncIterator[FakeRouter]:
    async with FakeRouter(RouterKind.I2PD, Clock()) as running:
        yield running


Make = Callable[..., LocalRouter]


@pytest_asyncio.fixture
async def make(sam: Sam, i2cp: FakeRouter) -> AsyncIterator[Make]:
    made: list[LocalRouter] = []

    def build(control: I2pControl | None = None, *leaves: str) -> LocalRouter:
        publisher = I2cpPublisher(i2cp.settings(), clock=i2cp.clock)
        made.append(LocalRouter(sam, publisher, i2cp.settings(), control, leaves, again_seconds=0.0))
        return made[-1]

    yield build
    for router in made:
        await soon(router.close())


def publication(published: int = NOW) -> Publication:
    lease_set = MetaLeaseSet.build(KEYS, published=published, entries=[MetaLease(LEAF, published + 600)])
    return Publication(lease_set, session_config(KEYS, published * 1000))


async def test_it_is_a_router_bridge(make: Make) -> None:
    bridge: RouterBridge = make()
    assert await soon(bridge.local_router_status()) == RouterStatus()


async def test_without_i2pcontrol_a_router_is_up_when_its_sam_answers(make: Make, fake: FakeSam) -> None:
    fake.answers["HELLO VERSION"] = "HELLO REPLY RESULT=NOVERSION"
    with pytest.raises(RouterRefusedError, match="NOVERSION"):
        await soon(make().local_router_status())
    nobody = replace(make(), sam=Sam("127.0.0.1", 1))
    with pytest.raises(RouterUnreachableError, match="check that the router runs, and that SAM is on"):
        await soon(nobody.local_router_status())


async def test_with_i2pcontrol_it_is_asked_for_numbers_and_sam_is_not(
    make: Make, fake: FakeSam, i2pd: SimulatedRouter
) -> None:
    router = make(I2pControl(I2pControlAccess(i2pd.url, PASSWORD, any_certificate=True)))
    status = await soon(router.local_router_status())
    assert status.version is not None
    assert fake.requests == []


async def test_the_leaf_by_its_address_or_by_none(make: Make) -> None:
    assert await soon(make().local_leaf_hash(ANY_MASTER)) is None
    for address in (to_b32_address(LEAF), to_b32_address(LEAF).upper()):
        assert await soon(make(None, address).local_leaf_hash(ANY_MASTER)) == LEAF


async def test_the_leaf_of_the_asked_master_and_of_no_other(make: Make) -> None:
    router = make(None, to_b32_address(LEAF))
    with pytest.raises(RouterRefusedError, match=r"set publish\.master"):
        await soon(router.local_leaf_hash(MASTER))
    router = replace(router, master=MASTER)
    assert await soon(router.local_leaf_hash(MASTER)) == LEAF
    assert await soon(router.local_leaf_hash(TARGET.hash)) is None
    assert await soon(make().local_leaf_hash(MASTER)) is None, "there is no leaf at all"


async def test_a_tunnels_name_needs_i2pcontrol(make: Make) -> None:
    with pytest.raises(RouterRefusedError, match="'web' is no b32 address, and without i2pcontrol the address"):
        await soon(make(None, "web").local_leaf_hash(ANY_MASTER))


async def test_a_tunnels_name_by_i2pcontrol(make: Make, i2pd: SimulatedRouter) -> None:
    control = I2pControl(I2pControlAccess(i2pd.url, PASSWORD, any_certificate=True), ask_for_tunnels=True)
    tunnel = (await soon(control.tunnels()))[0]
    found = await soon(make(control, tunnel.name).local_leaf_hash(ANY_MASTER))
    assert found is not None
    assert found == tunnel.hash()
    named = replace(DOWN, name=tunnel.name, name_reason=None)
    assert await soon(make(control, tunnel.name).local_leaf_status(found)) == named
    with pytest.raises(RouterRefusedError, match="has no server tunnel 'nosuch'"):
        await soon(make(control, "nosuch").local_leaf_hash(ANY_MASTER))


async def test_a_leaf_is_up_while_its_lease_set_is_current(make: Make, fake: FakeSam, i2cp: FakeRouter) -> None:
    router = make(None, to_b32_address(LEAF))
    assert await soon(router.local_leaf_status(LEAF)) == DOWN
    assert i2cp.looked_for == [LEAF] * 2
    router = make(None, TARGET.b32)
    i2cp.netdb[TARGET.hash] = TARGET
    assert await soon(router.local_leaf_status(TARGET.hash)) == replace(DOWN, up=True, destination=TARGET.base64)
    with pytest.raises(RouterRefusedError, match="is not a leaf of this router"):
        await soon(router.local_leaf_status(LEAF))
    del i2cp.netdb[TARGET.hash]
    assert await soon(router.local_leaf_status(TARGET.hash)) == DOWN
    assert fake.asked("NAMING") == [], "both routers answer that from a cache that never ends"
    await i2cp.stop()
    with pytest.raises(RouterUnreachableError, match=r"\[i2cp\] enabled = true"):
        await soon(router.local_leaf_status(TARGET.hash))


async def test_a_leaf_that_answers_pings_no_more_is_down_though_its_lease_set_is_current(
    make: Make, i2cp: FakeRouter
) -> None:
    session = Session()
    session.answering = {TARGET.data}
    router = replace(make(None, TARGET.b32), liveness={TARGET.b32: LeafLiveness(session)})
    i2cp.netdb[TARGET.hash] = TARGET
    assert (await soon(router.local_leaf_status(TARGET.hash))).up
    await until(lambda: session.pinged)
    session.answering = set()
    assert not (await soon(router.local_leaf_status(TARGET.hash))).up
    before = session.closed
    await soon(router.close())
    assert session.closed == before + 1


async def test_several_leaves_are_named_by_their_places_and_judged_each_by_itself(make: Make, i2cp: FakeRouter) -> None:
    other = DestinationKeys.generate(entropy(4)).destination
    sessions = {TARGET.b32: Session(), other.b32: Session()}
    for session in sessions.values():
        session.answering = {TARGET.data, other.data}
    liveness = {leaf: LeafLiveness(session) for leaf, session in sessions.items()}
    router = replace(make(None, *sessions), liveness=liveness, master=MASTER)
    assert [await soon(router.local_leaf_hash(MASTER, place)) for place in range(3)] == [TARGET.hash, other.hash, None]
    i2cp.netdb.update({each.hash: each for each in (TARGET, other)})
    for leaf in (TARGET, other):
        assert (await soon(router.local_leaf_status(leaf.hash))).destination == leaf.base64
        await until(lambda leaf=leaf: sessions[leaf.b32].pinged == [leaf.data])  # type: ignore[misc]
    sessions[TARGET.b32].answering = set()
    assert [(await soon(router.local_leaf_status(leaf.hash))).up for leaf in (TARGET, other)] == [False, True]
    assert (sessions[TARGET.b32].closed, sessions[other.b32].closed) == (SESSIONS - 1, 0)
    await soon(router.close())
    assert sessions[other.b32].closed == 1


async def test_a_leaf_whose_tunnel_is_unknown_hides_no_other(make: Make, i2cp: FakeRouter) -> None:
    router = make(None, "web", TARGET.b32)
    i2cp.netdb[TARGET.hash] = TARGET
    with pytest.raises(RouterRefusedError, match="'web' is no b32 address"):
        await soon(router.local_leaf_hash(ANY_MASTER))
    assert await soon(router.local_leaf_hash(ANY_MASTER, 1)) == TARGET.hash
    assert (await soon(router.local_leaf_status(TARGET.hash))).up
    with pytest.raises(RouterRefusedError, match="'web' is no b32 address"):
        await soon(router.local_leaf_status(LEAF))


async def test_one_question_that_finds_no_leaf_is_not_believed(make: Make, i2cp: FakeRouter) -> None:
    router = make(None, TARGET.b32)
    asked = asyncio.create_task(replace(router, again_seconds=0.1).local_leaf_status(TARGET.hash))
    await until(lambda: i2cp.looked_for)
    i2cp.netdb[TARGET.hash] = TARGET
    assert await soon(asked) == replace(DOWN, up=True, destination=TARGET.base64)
    assert len(i2cp.looked_for) == 2


async def test_the_connections_of_a_leaf_or_why_they_are_not_known(make: Make) -> None:
    async def count() -> int:
        return 5

    async def nobody() -> int:
        raise RouterError("the node does not run")

    leaf = to_b32_address(LEAF)
    router = make(None, leaf)
    counted = await soon(replace(router, connections={leaf: count}).local_leaf_status(LEAF))
    assert counted == replace(DOWN, connections=5, connections_reason=None)
    unknown = await soon(replace(router, connections={leaf: nobody}).local_leaf_status(LEAF))
    assert unknown == replace(DOWN, connections_reason="the node does not run")


async def test_a_caller_that_looks_again_itself_is_told_at_once(make: Make, i2cp: FakeRouter) -> None:
    router = replace(make(None, to_b32_address(LEAF)), again_seconds=None)
    assert await soon(router.local_leaf_status(LEAF)) == DOWN
    assert len(i2cp.looked_for) == 1


@pytest.mark.parametrize(("kind", "tells"), [(RouterKind.I2PD, False), (RouterKind.JAVA, True)])
async def test_a_master_is_looked_for_where_the_router_can_find_it(
    make: Make, i2cp: FakeRouter, kind: RouterKind, tells: bool
) -> None:
    i2cp.kind = kind
    bridge = make()
    assert isinstance(bridge, SetFinding)
    if tells:
        assert await soon(bridge.find_set(MASTER, 7)) is None
    else:
        with pytest.raises(RouterRefusedError, match="i2pd drops every Meta lease set that it finds"):
            await soon(bridge.find_set(MASTER, 7))
    assert await soon(bridge.find_set(MASTER, 3)) is None
    i2cp.netdb[MASTER] = KEYS.destination
    seconds = await soon(bridge.find_set(MASTER, 3))
    assert seconds is not None
    assert seconds >= 0


async def test_publishing_goes_by_i2cp_and_its_trouble_is_told(make: Make, i2cp: FakeRouter) -> None:
    router = make()
    assert router.publication_trouble(MASTER) == "nothing is published"
    await soon(router.publish_meta_lease_set(publication()))
    await until(lambda: i2cp.stored)
    assert i2cp.stored == [publication().lease_set]
    assert router.publication_trouble(MASTER) is None
    for session in list(i2cp.sessions.values()):
        session.connection.close()
    await until(lambda: router.publication_trouble(MASTER) is not None)
    await soon(router.publish_meta_lease_set(publication(NOW + 1)))
    assert router.publication_trouble(MASTER) is None
    await soon(router.stop_publishing_meta_lease_set(MASTER))
    await until(lambda: not i2cp.sessions)
    assert router.publication_trouble(MASTER) == "nothing is published"


async def test_who_is_given_up_while_it_opens_can_be_asked_again(make: Make, i2cp: FakeRouter) -> None:
    """A node that is no longer the publisher cancels the opening, and need not wait until tunnels are built."""
    router = make()
    i2cp.ready.clear()
    call = asyncio.create_task(router.publish_meta_lease_set(publication()))
    await until(lambda: i2cp.sessions)
    call.cancel()
    await asyncio.wait([call])
    await soon(router.stop_publishing_meta_lease_set(MASTER))
    await until(lambda: not i2cp.sessions)
    i2cp.ready.set()
    await soon(router.publish_meta_lease_set(publication(NOW + 1)))
    assert router.publication_trouble(MASTER) is None


async def test_closing_ends_all_even_when_a_part_fails(
    make: Make, i2cp: FakeRouter, i2pd: SimulatedRouter, monkeypatch: pytest.MonkeyPatch
) -> None:
    control = I2pControl(I2pControlAccess(i2pd.url, PASSWORD, any_certificate=True))
    router = make(control)
    await soon(router.local_router_status())

    async def fail(_: I2cpPublisher) -> None:
        raise RouterError("broken")

    closed = []
    close = control.close

    async def seen() -> None:
        closed.append(True)
        await close()

    monkeypatch.setattr(control, "close", seen)
    with monkeypatch.context() as patched:
        patched.setattr(I2cpPublisher, "close", fail)
        with pytest.raises(RouterError, match="broken"):
            await soon(router.close())
    assert closed == [True]
    await soon(router.close())
    with pytest.raises(RouterError, match="was closed"):
        await soon(router.publish_meta_lease_set(publication()))


# Sensing ------------------------------------------------------------------------------------------------------------


async def test_a_destination_without_a_lease_set(make: Make, fake: FakeSam) -> None:
    measured = await soon(make().remote_measured_status(TARGET.hash))
    assert (measured.lease_set_seconds, measured.connect_seconds) == (None, None)
    assert measured.error == "its lease set was not found"
    assert fake.asked("STREAM CONNECT") == []
    await until(lambda: not fake.writers)


async def test_a_destination_that_answers_and_one_that_does_not(
    make: Make, fake: FakeSam, i2cp: FakeRouter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(destination_sensing, "_END_SECONDS", 0.01)
    i2cp.netdb[TARGET.hash] = TARGET
    measured = await soon(make().remote_measured_status(TARGET.hash))
    assert measured.lease_set_seconds is not None
    assert measured.connect_seconds is not None
    assert measured.error is None
    for request, answer, seconds, error in (
        ("HEAD /", "hang", 0.05, "nothing was heard within 0.05 s"),
        ("HEAD /", "hang up", PATIENCE, "the stream was closed without"),
        ("STREAM CONNECT", "hang", 0.05, "no stream opened within 0.05 s"),
    ):
        good, fake.answers[request] = fake.answers[request], answer
        measured = await soon(
            destination_sensing.measure(Sam("127.0.0.1", fake.port), i2cp.settings(), TARGET.hash, seconds=seconds)
        )
        fake.answers[request] = good
        assert measured.lease_set_seconds is not None
        assert measured.connect_seconds is None, "i2pd calls a stream open that leads nowhere"
        assert error in (measured.error or "")
    fake.answers["STREAM CONNECT"] = "STREAM STATUS RESULT=CANT_REACH_PEER"
    measured = await soon(make().remote_measured_status(TARGET.hash))
    assert measured.lease_set_seconds is not None
    assert measured.connect_seconds is None
    assert "CANT_REACH_PEER" in (measured.error or "")
    keys = {request.split("DESTINATION=")[1].split()[0] for request in fake.asked("SESSION CREATE")}
    assert len(keys) == 5, "each time from a destination that nobody knows"
    await until(lambda: not fake.writers)


async def test_sensing_leaves_no_session_behind(make: Make, fake: FakeSam, i2cp: FakeRouter) -> None:
    i2cp.deaf = {38}
    call = asyncio.create_task(make().remote_measured_status(TARGET.hash))
    await until(lambda: fake.asked("SESSION CREATE"))
    call.cancel()
    await asyncio.wait([call])
    await until(lambda: not fake.writers)
    fake.answers["SESSION CREATE"] = "SESSION STATUS RESULT=I2P_ERROR MESSAGE=no"
    with pytest.raises(RouterRefusedError, match="I2P_ERROR"):
        await soon(make().remote_measured_status(TARGET.hash))
    await until(lambda: not fake.writers)


# Being reached ------------------------------------------------------------------------------------------------------


async def test_streams_are_forwarded_to_our_port_with_the_peers_name(sam: Sam, fake: FakeSam) -> None:
    inbound = SamInbound(sam, KEYS, {"inbound.length": "2"}, settle=0.0)
    assert await soon(inbound.open("127.0.0.1", 4150)) == KEYS.destination.b32
    assert "inbound.length=2" in fake.asked("SESSION CREATE")[0]
    assert KEYS.base64 in fake.asked("SESSION CREATE")[0]
    (forward,) = fake.asked("STREAM FORWARD")
    assert "PORT=4150" in forward
    assert "SILENT=false" in forward
    assert not await soon(inbound.published())
    fake.answers["NAMING LOOKUP"] = f"NAMING REPLY RESULT=OK NAME=x VALUE={KEYS.destination.base64}"
    assert await soon(inbound.published())
    ended = asyncio.create_task(inbound.ended())
    await asyncio.sleep(0)
    assert not ended.done()
    for writer in list(fake.writers):
        writer.close()
    await soon(ended)
    assert await soon(inbound.open("127.0.0.1", 4150)) == KEYS.destination.b32, "it may be opened again"
    inbound.close()
    inbound.close()
    await until(lambda: not fake.writers)


@pytest.mark.parametrize("call", ["SESSION CREATE", "STREAM FORWARD"])
async def test_what_was_half_opened_is_closed(sam: Sam, fake: FakeSam, call: str) -> None:
    status = "SESSION STATUS" if call == "SESSION CREATE" else "STREAM STATUS"
    good, fake.answers[call] = fake.answers[call], f"{status} RESULT=I2P_ERROR"
    inbound = SamInbound(sam, KEYS, settle=0.0)
    with pytest.raises(inbound.failure, match="I2P_ERROR"):
        await soon(inbound.open("127.0.0.1", 4150))
    inbound.close()
    await until(lambda: not fake.writers)
    fake.answers[call] = good
    await soon(inbound.open("127.0.0.1", 4150))
    inbound.close()
