"""A destination served through I2CP, at a router with the behaviour of real ones: bridges/i2cp/service_hosting.py."""

import asyncio
import itertools
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Any

import pytest

from bridges.errors import RouterError, RouterRefusedError, RouterUnreachableError
from bridges.hosting_protocol import ServiceOffer, ServiceState, StreamLimits
from bridges.i2cp import service_hosting as module
from bridges.i2cp.lease_times import LEASES
from bridges.i2cp.service_hosting import I2cpHosting, I2cpService
from bridges.i2cp.settings import Deadlines, RouterKind
from bridges.streaming.envelope import pack_packet, unpack
from bridges.streaming.packet import Packet
from gf_i2p.netdb.lease_set import EncryptionKey, LeaseSet2
from gf_i2p.netdb.private_keys import DestinationKeys
from gf_i2p.netdb.session_config import session_config
from tests.bridges.i2cp.fake_router import PATIENT, Clock, FakeRouter
from tests.bridges.streaming.streaming_client import CLIENT, Client
from tests.netdb.strategies import DELEGATED, KEYS, NOW
from tests.transport.harness import PATIENCE

I2PD, JAVA = RouterKind.I2PD, RouterKind.JAVA


def leases(*ends: int) -> bytes:
    return b"".join(bytes([n]) * 32 + struct.pack(">IQ", n, end * 1000) for n, end in enumerate(ends, 1))


class OfferingNode:
    """The node's part of a service: the numbers, and the log where each set is announced."""

    def __init__(self) -> None:
        self.announced: list[LeaseSet2] = []
        self.may = asyncio.Event()
        """Set while the log can be written."""
        self.may.set()
        self.broken: Exception | None = None
        self._numbers = itertools.count(NOW)

    async def announce(self, lease_set: LeaseSet2) -> int:
        await self.may.wait()
        if self.broken is not None:
            raise self.broken
        self.announced.append(lease_set)
        return len(self.announced)

    def offer(self, target: tuple[str, int] = ("127.0.0.1", 1), **changes: Any) -> ServiceOffer:
        offer = ServiceOffer(KEYS, target, lambda: next(self._numbers), self.announce)
        return replace(offer, **changes)


@asynccontextmanager
async def routing(kind: RouterKind = I2PD) -> AsyncIterator[FakeRouter]:
    async with FakeRouter(kind, Clock()) as router:
        router.leases = leases(NOW + 600, NOW + 30)
        yield router


def hosting(router: FakeRouter, **changes: Any) -> I2cpHosting:
    return I2cpHosting(router.settings(kind=router.kind, **changes), clock=router.clock)


@asynccontextmanager
async def serving(router: FakeRouter, offer: ServiceOffer) -> AsyncIterator[I2cpService]:
    service = await hosting(router).open(offer)
    assert isinstance(service, I2cpService)
    try:
        await until(router, lambda: len(router.served) == 1)
        yield service
    finally:
        await service.close()


async def until(router: FakeRouter, condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not condition():
            router.heard.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(0.05):
                    await router.heard.wait()


# Lease sets ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [I2PD, JAVA])
async def test_the_first_lease_set_is_announced_then_given_with_its_key(kind: RouterKind) -> None:
    node = OfferingNode()
    async with routing(kind) as router:
        node.may.clear()
        opening = asyncio.create_task(hosting(router).open(node.offer()))
        await until(router, lambda: bool(router.sessions))
        assert router.served == []
        node.may.set()
        service = await opening
        assert (service.state, service.trouble, service.streams) == (ServiceState.SERVING, None, 0)
        await until(router, lambda: bool(router.served))
        assert router.served == node.announced == [service.announced]
        (given,) = router.served
        assert given.destination == KEYS.destination
        assert [lease.end for lease in given.leases] == [NOW + LEASES[kind].lease, NOW + 30]
        assert given.expires_at == NOW + LEASES[kind].expires, "floodfills keep the set for longer"
        assert given.encryption == (EncryptionKey.of(router.private[0]),)
        await service.close()
        assert service.state is ServiceState.CLOSED
        assert router.log[-1] == "destroy"
        await service.close()


async def test_a_fresh_set_is_given_before_the_last_is_old(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(LEASES, I2PD, replace(LEASES[I2PD], renew=0.02, second=0.02, pause=0.0))
    node = OfferingNode()
    async with routing() as router, serving(router, node.offer()):
        router.clock.now += 20
        await until(router, lambda: len(router.served) >= 4)
        published = [each.published for each in router.served]
        assert all(one < other for one, other in itertools.pairwise(published))
        assert router.served[-1].leases[0].end == NOW + 20 + LEASES[I2PD].lease
        assert {each.encryption for each in router.served} == {router.served[0].encryption}


async def test_the_router_gets_one_whenever_it_asks_with_the_tunnels_of_that_moment() -> None:
    node = OfferingNode()
    async with routing() as router, serving(router, node.offer()) as service:
        router.leases = leases(NOW + 500, NOW + 600, NOW + 700)
        router.ask()
        await until(router, lambda: len(router.served) == 2)
        assert len(router.served[1].leases) == 3
        router.leases = leases(NOW - 1)  # all leases have ended: no set can be announced
        router.ask()
        await until(router, lambda: service.trouble is not None and "check the clocks" in service.trouble)
        router.leases = leases(NOW + 50)
        router.ask()
        await until(router, lambda: len(router.served) >= 3 and len(router.served[-1].leases) == 1)
        await until(router, lambda: service.trouble is None)


@pytest.mark.parametrize(("quantity", "told"), [("3", 3), (None, None), ("many", None), ("9" * 200, None)])
async def test_the_tunnels_are_those_that_the_session_asks_for_and_the_router_has_offered(
    quantity: str | None, told: int | None
) -> None:
    options = {} if quantity is None else {"inbound.quantity": quantity}
    async with routing() as router, serving(router, OfferingNode().offer(options=options)) as service:
        assert (service.load.configured_tunnels, service.load.current_tunnels) == (told, 2)
        assert (service.load.current_connections, service.load.current_bandwidth) == (0, 0)
        router.clock.now += 60
        assert service.load.current_tunnels == 1, "one has ended"


async def test_leases_end_by_the_router_s_clock() -> None:
    node = OfferingNode()
    async with routing() as router:
        router.clock.now += 40
        late = Clock()
        service = await I2cpHosting(router.settings(kind=I2PD), clock=late).open(node.offer())
        await until(router, lambda: bool(router.served))
        ends = [lease.end for lease in router.served[0].leases]
        assert ends == [NOW + 40 + LEASES[I2PD].lease]  # the other one is over there
        await service.close()


async def test_leases_end_by_the_router_s_clock_after_this_machine_s_clock_was_set() -> None:
    async with routing() as router:
        ours = Clock()
        service = await I2cpHosting(router.settings(kind=I2PD), clock=ours).open(OfferingNode().offer())
        await until(router, lambda: len(router.served) == 1)
        ours.now += 3_600
        router.ask()
        await until(router, lambda: len(router.served) == 2)
        ends = [[lease.end for lease in each.leases] for each in router.served]
        assert max(abs(one - other) for one, other in zip(*ends, strict=True)) <= 1
        await service.close()


async def test_a_router_that_asks_while_the_log_is_slow_gets_the_last_set_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "_PATIENCE", 0.02)
    node = OfferingNode()
    async with routing() as router, serving(router, node.offer()) as service:
        node.may.clear()
        router.ask()
        await until(router, lambda: len(router.served) == 2)
        assert router.served[0] == router.served[1] == service.announced
        node.may.set()
        await until(router, lambda: len(router.served) == 3)
        assert router.served[2].published > router.served[1].published


async def test_a_set_that_cannot_be_announced_is_not_given_and_another_one_is_soon(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "_AGAIN", 0.02)
    node = OfferingNode()
    async with routing() as router, serving(router, node.offer()) as service:
        node.broken = RuntimeError("no majority")
        router.ask()
        await until(router, lambda: len(router.served) == 2)
        assert router.served[0] == router.served[1]
        assert (service.state, service.trouble) == (
            ServiceState.SERVING,
            "the lease set was not announced: no majority",
        )
        node.broken = None
        await until(router, lambda: len(router.served) == 3)
        assert router.served[2].published > router.served[1].published
        await until(router, lambda: service.trouble is None)
    node.broken = RuntimeError("no majority")
    async with routing() as router:
        with pytest.raises(RouterError, match="not announced: no majority"):
            await hosting(router).open(node.offer())
        assert router.served == []
        await until(router, lambda: not router.sessions)
        with pytest.raises(RouterError, match="the offer has no `announce`"):
            await hosting(router).open(ServiceOffer(KEYS, ("127.0.0.1", 1), lambda: NOW))


async def test_a_drain_is_not_held_up_by_an_announcement_and_can_be_taken_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "_PATIENCE", 0.02)
    node = OfferingNode()
    async with routing() as router, serving(router, node.offer()) as service:
        node.may.clear()
        router.ask()
        await until(router, lambda: len(router.served) == 2)
        assert not await service.drain(0.05)
        router.ask()
        await until(router, lambda: len(router.served) == 3)
        assert router.served[2] == router.served[0]
        node.may.set()
        service.resume()
        await until(router, lambda: len(router.served) == 4)
        await until(router, lambda: service.announced == router.served[3])
        assert service.state is ServiceState.SERVING
        assert router.served[3].published > router.served[2].published


# Sessions -----------------------------------------------------------------------------------------------------------


async def test_delegated_keys_serve_with_a_config_that_the_master_has_signed() -> None:
    node = OfferingNode()
    async with routing() as router:
        offer = node.offer(keys=DELEGATED)
        with pytest.raises(RouterRefusedError, match="signed by a transient key"):
            await hosting(router).open(offer)
        offer = replace(offer, signed_session=session_config(KEYS, 1, offer.options))
        async with serving(router, offer):
            assert router.served[0].offline == DELEGATED.offline
        other = DestinationKeys.generate()
        wrong = replace(offer, signed_session=session_config(other, 1, offer.options))
        with pytest.raises(RouterRefusedError, match="Make the config for the destination of the service"):
            await hosting(router).open(wrong)
        with pytest.raises(RouterRefusedError, match="its config is broken"):
            await hosting(router).open(replace(offer, signed_session=b"garbage"))


async def test_a_destination_that_another_client_holds_is_refused() -> None:
    node = OfferingNode()
    async with routing() as router, serving(router, node.offer()):
        with pytest.raises(RouterRefusedError, match="another client of this router holds the destination"):
            await hosting(router).open(node.offer())


async def test_a_router_without_tunnels_is_given_up_and_freed() -> None:
    node = OfferingNode()
    async with routing() as router:
        router.ready.clear()
        with pytest.raises(RouterUnreachableError, match="the tunnels are not built"):
            await hosting(router, deadlines=replace(PATIENT, tunnels=0.05)).open(node.offer())
        await until(router, lambda: not router.sessions)
        assert "destroy" in router.log


async def test_an_opening_that_is_cancelled_leaves_nothing_behind() -> None:
    node = OfferingNode()
    async with routing() as router:
        router.ready.clear()
        opening = asyncio.create_task(hosting(router).open(node.offer()))
        await until(router, lambda: bool(router.sessions))
        opening.cancel()
        await asyncio.gather(opening, return_exceptions=True)
        await until(router, lambda: not router.sessions)


@pytest.mark.parametrize("how", ["hangs up", "says so", "destroys", "asks for nothing"])
async def test_a_router_that_ends_the_session_is_noticed(how: str) -> None:
    node = OfferingNode()
    async with routing() as router, serving(router, node.offer()) as service:
        (number,) = router.sessions
        match how:
            case "hangs up":
                router.hang_up()
            case "says so":
                router.say(30, b"\x04bye!")
            case "destroys":
                router.say(20, struct.pack(">HB", number, 0))
            case _:
                router.say(37, struct.pack(">HB", number, 0))
        await asyncio.wait_for(service.lost(), 20)
        assert service.state is ServiceState.LOST
        assert service.trouble


async def test_nobody_listens_where_the_router_should_be() -> None:
    async with routing() as router:
        pass
    with pytest.raises(RouterUnreachableError, match="does not answer"):
        await hosting(router, deadlines=Deadlines(connect=5)).open(OfferingNode().offer())


@pytest.mark.parametrize(
    "target", [("a.b32.i2p", 80), ("A.I2P.", 80), ("127.0.0.1", 0), ("127.0.0.1", 65_536), ("", 80)]
)
def test_a_local_service_that_cannot_be_one_is_refused(target: tuple[str, int]) -> None:
    with pytest.raises(ValueError, match="the local service"):
        OfferingNode().offer(target)


# Traffic ------------------------------------------------------------------------------------------------------------


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(10_000):
        writer.write(data)
        await writer.drain()
    writer.close()
    await writer.wait_closed()


class Talk:
    """A client whose packets go through the fake router."""

    def __init__(self, router: FakeRouter, data: bytes, number: int = 77) -> None:
        self._router = router
        self._loop = asyncio.get_running_loop()
        self.client = Client(data, number=number)
        self.client.start(self._loop.time())
        self._seen = len(router.sent)
        self.flush()

    def flush(self) -> None:
        for destination, payload in self._router.sent[self._seen :]:
            assert destination == CLIENT.destination.data
            raw = unpack(payload).payload
            if Packet.parse(raw).to == self.client.number:
                self.client.receive(raw, self._loop.time())
        self._seen = len(self._router.sent)
        self.client.tick(self._loop.time())
        (number,) = self._router.sessions
        for raw in self.client.outgoing:
            payload = pack_packet(raw, 0, 0)
            self._router.say(31, struct.pack(">HII", number, 1, len(payload)) + payload)
        self.client.outgoing.clear()

    def done(self) -> bool:
        self.flush()
        return self.client.done


async def test_streams_reach_the_local_service_through_the_session() -> None:
    node = OfferingNode()
    # uvloop waits for a server that is open at the end of the loop: a failed assertion must close the server as well.
    async with await asyncio.start_server(echo, "127.0.0.1", 0) as server, routing() as router:
        offer = node.offer(server.sockets[0].getsockname()[:2], limits=StreamLimits(7, 3))
        async with serving(router, offer) as service:
            talk = Talk(router, b"hello" * 5000)
            await until(router, talk.done)
            assert talk.client.received == b"hello" * 5000
            assert (service.served, service.trouble, service.dropped) == (1, None, 0)
            load = service.load
            assert (load.configured_connections, load.configured_tunnels) == (7, 4)
            assert 0 < (load.current_bandwidth or 0) <= 2 * 25_000, "both directions"
            assert service._forwarder._rate.total == 2 * 25_000
            router.say(31, struct.pack(">HII", 0xFFFF, 1, 0))  # another session's
            await until(router, lambda: service.streams == 0)


async def test_a_service_that_is_down_is_said() -> None:
    node = OfferingNode()
    async with routing() as router, serving(router, node.offer()) as service:
        talk = Talk(router, b"hello")
        await until(router, lambda: talk.done() or talk.client.reset)
        assert talk.client.reset
        assert service.trouble is not None
        assert "the local service at 127.0.0.1:1 does not answer" in service.trouble


async def test_a_drain_publishes_no_more_and_serves_whoever_has_our_last_set() -> None:
    node = OfferingNode()
    async with await asyncio.start_server(echo, "127.0.0.1", 0) as server, routing() as router:
        async with serving(router, node.offer(server.sockets[0].getsockname()[:2])) as service:
            assert service.announced is not None
            draining = asyncio.create_task(service.drain(1000))
            await until(router, lambda: service.state is ServiceState.DRAINING)
            router.ask()
            await until(router, lambda: len(router.served) == 2)
            assert router.served[0] == router.served[1]  # the router gets an answer, and no new set
            talk = Talk(router, b"hello")
            await until(router, talk.done)
            assert talk.client.received == b"hello"
            assert not draining.done()  # the service's last set is still good
            draining.cancel()
            await asyncio.wait([draining])
            router.clock.now = service.announced.expires_at + module._LATE_SECONDS - 0.1
            assert await service.drain(20)
            late = Talk(router, b"hello", 78)
            router.ask()
            await until(router, lambda: len(router.served) == 3)
            late.flush()
            assert late.client.remote == 0
            service.resume()
            late.client.start(asyncio.get_running_loop().time())
            await until(router, lambda: late.done() or late.client.remote != 0)
        assert service.state is ServiceState.CLOSED


async def test_a_drain_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    node = OfferingNode()
    async with routing() as router, serving(router, node.offer()) as service:
        assert not await service.drain(0.02)  # the service's last set is still good
        draining = asyncio.create_task(service.drain(20))
        router.hang_up()
        assert not await draining
