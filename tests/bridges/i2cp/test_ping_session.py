"""Pings through a router's session: bridges/i2cp/ping_session.py."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
import pytest_asyncio

from bridges.errors import RouterUnreachableError
from bridges.i2cp.ping_session import PingSession
from bridges.i2cp.settings import RouterKind
from bridges.streaming.envelope import pack_packet, unpack
from bridges.streaming.packet import Flag, Packet, signing_key
from tests.bridges.i2cp.fake_router import PATIENT, FakeRouter, deadlines_after_the_greeting
from tests.bridges.i2cp.test_service_hosting import leases
from tests.netdb.strategies import KEYS, NOW
from tests.transport.harness import soon, until

KINDS = [RouterKind.I2PD, RouterKind.JAVA]
LEAF = KEYS.destination.data


@pytest_asyncio.fixture(params=KINDS)
async def router(request: pytest.FixtureRequest) -> AsyncIterator[FakeRouter]:
    async with FakeRouter(request.param) as running:
        running.leases = leases(NOW + 600, NOW + 300)
        yield running


def pings_of(router: FakeRouter) -> PingSession:
    return PingSession(router.settings(), clock=router.clock)


def answer(router: FakeRouter, *, number: int | None = None, token: bytes | None = None) -> None:
    """Answer the newest ping as a destination does."""
    packet = Packet.parse(unpack(router.sent[-1][1]).payload)
    pong = Packet(0, number or packet.to, flags=Flag.ECHO, payload=packet.payload if token is None else token)
    router.give(pack_packet(pong.encode(), 0, 0))


async def test_a_ping_and_its_answer(router: FakeRouter) -> None:
    pings = pings_of(router)
    asked = asyncio.create_task(pings.ping(LEAF))
    await until(lambda: router.sent)
    assert router.sent[0][0] == LEAF
    packet = Packet.parse(unpack(router.sent[0][1]).payload)
    (lease_set,) = router.served
    assert packet.source == lease_set.destination
    assert signing_key(packet, NOW) == lease_set.destination.signing_key
    answer(router)
    seconds = await soon(asked)
    assert seconds is not None
    assert seconds >= 0
    for _ in range(2):
        asked, count = asyncio.create_task(pings.ping(LEAF)), len(router.sent)
        await until(lambda count=count: len(router.sent) > count)  # type: ignore[misc]
        answer(router)
        assert await soon(asked) is not None
    assert router.log.count("create") == 1, "one session for all"
    router.ask()
    await until(lambda: len(router.served) == 2)
    assert router.served[1].published > router.served[0].published
    await pings.close()
    await until(lambda: not router.sessions)


async def test_no_answer_and_a_forged_one(router: FakeRouter) -> None:
    pings = pings_of(router)
    assert await soon(pings.ping(LEAF, seconds=0.05)) is None
    answer(router)  # too late
    asked = asyncio.create_task(pings.ping(LEAF, seconds=0.2))
    await until(lambda: len(router.sent) == 2)
    answer(router, token=b"guessed")
    answer(router, number=7)
    assert await soon(asked) is None
    await pings.close()


async def test_a_session_reaches_itself_when_its_own_ping_arrives(router: FakeRouter) -> None:
    pings = pings_of(router)
    asked = asyncio.create_task(pings.reaches_itself())
    await until(lambda: router.sent)
    to, payload = router.sent[0]
    (lease_set,) = router.served
    assert to == lease_set.destination.data
    router.give(payload)
    assert await soon(asked)
    assert not await soon(pings.reaches_itself(seconds=0.05))
    asked = asyncio.create_task(pings.reaches_itself(seconds=0.2))
    await until(lambda: len(router.sent) == 3)
    answer(router)
    router.give(payload)
    assert not await soon(asked), "neither an answer nor an old ping"
    pinged = asyncio.create_task(pings.ping(LEAF, seconds=0.2))
    await until(lambda: len(router.sent) == 4)
    router.give(router.sent[3][1])
    assert await soon(pinged) is None, "a ping that comes back is no answer"
    await pings.close()


async def test_a_session_that_the_router_ends_is_replaced(router: FakeRouter) -> None:
    pings = pings_of(router)
    asked = asyncio.create_task(pings.ping(LEAF))
    await until(lambda: router.sent)
    router.hang_up()
    with pytest.raises(RouterUnreachableError, match="hung up"):
        await soon(asked)
    asked = asyncio.create_task(pings.ping(LEAF))
    await until(lambda: len(router.sent) == 2)
    answer(router)
    assert await soon(asked) is not None
    first, second = (each.destination for each in router.served)
    assert first != second, "each session has a destination of its own"
    await pings.close()


async def test_a_router_without_tunnels(router: FakeRouter, monkeypatch: pytest.MonkeyPatch) -> None:
    deadlines_after_the_greeting(monkeypatch)
    router.ready.clear()
    pings = PingSession(router.settings(deadlines=replace(PATIENT, tunnels=0.05)), clock=router.clock)
    with pytest.raises(RouterUnreachableError, match="the tunnels are not built"):
        await soon(pings.ping(LEAF))
    await until(lambda: not router.sessions)
    await pings.close()


async def test_a_caller_that_stops_waiting_does_not_stop_the_opening(router: FakeRouter) -> None:
    router.ready.clear()
    pings = pings_of(router)
    asked = asyncio.create_task(pings.ping(LEAF))
    await until(lambda: router.sessions)
    asked.cancel()
    await asyncio.wait([asked])
    router.ready.set()
    asked = asyncio.create_task(pings.ping(LEAF))
    await until(lambda: router.sent)
    answer(router)
    assert await soon(asked) is not None
    assert router.log.count("create") == 1
    router.ready.clear()
    await pings.close()
    asked = asyncio.create_task(pings.ping(LEAF))
    await until(lambda: router.log.count("create") == 2)
    await pings.close()
    with pytest.raises(asyncio.CancelledError):
        await asked
    await until(lambda: not router.sessions)
