"""A link's time-outs for answers, on a clock that stands until a test moves the clock."""

import asyncio
import math
from collections.abc import Callable
from typing import Any

import pytest

from gf_i2p.transport.backoff import Backoff
from gf_i2p.transport.errors import DialError
from gf_i2p.transport.peer_link import PeerLink
from gf_i2p.wire.messages import Response
from tests.transport.harness import Farm, Identity, ask, connected, request, response, serving, soon, until

pytestmark = pytest.mark.usefixtures("unhandled")

SECONDS = 10.0
# One connection: after the end of the connection the link makes no other.
ONCE = {"backoff": Backoff(floor=1000.0, ceiling=1000.0)}


class Alarm:
    def __init__(self, clock: "Clock", when: float, callback: Callable[[], object]) -> None:
        self.clock = clock
        self.at = when
        self.callback = callback

    def cancel(self) -> None:
        self.clock.alarms.remove(self)


class Clock:
    """Stands in for a connection's event loop: this clock gives the time, and the real loop does everything else."""

    def __init__(self, link: PeerLink, monkeypatch: pytest.MonkeyPatch) -> None:
        self.alarms: list[Alarm] = []
        self._now = 1000.0
        monkeypatch.setattr(link._connection, "_loop", self)

    def time(self) -> float:
        return self._now

    def call_at(self, when: float, callback: Callable[[], object]) -> Alarm:
        self.alarms.append(Alarm(self, when, callback))
        return self.alarms[-1]

    def call_soon(self, callback: Callable[..., object], *args: Any) -> asyncio.Handle:
        return asyncio.get_running_loop().call_soon(callback, *args)

    def move(self, seconds: float) -> None:
        """Let `seconds` pass, and run each timer at the timer's own time."""
        end = self._now + seconds
        while due := [alarm for alarm in self.alarms if alarm.at <= end]:
            alarm = min(due, key=lambda each: each.at)
            self._now = max(self._now, alarm.at)
            self.alarms.remove(alarm)
            alarm.callback()
        self._now = end


async def sent(
    farm: Farm, link: PeerLink, count: int, *, seconds: float | None = None
) -> list[asyncio.Future[Response | None]]:
    """Send requests, and return when the peer has them all."""
    before = len(farm.requests)
    answers = [ask(link, request(index=index), seconds=seconds) for index in range(before, before + count)]
    await until(lambda: len(farm.requests) == before + count)
    return answers


async def answered(farm: Farm, index: int, answer: asyncio.Future[Response | None]) -> None:
    """Let the peer answer this request, the oldest one, and see the answer arrive."""
    _, received, reply = farm.requests[index]
    reply(response(received))
    assert await soon(answer) == response(received)


async def test_a_slow_peer_that_goes_on_answering_is_alive(node: Identity, monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(node) as farm, connected(farm, request_seconds=SECONDS, **ONCE) as link:
        clock = Clock(link, monkeypatch)
        # The last request waits five times as long as a single answer may take.
        for index, answer in enumerate(await sent(farm, link, 8)):
            clock.move(0.6 * SECONDS)
            await answered(farm, index, answer)
        assert link.connected
        assert farm.server.counters.authenticated == 1


async def test_a_peer_that_stops_answering_is_given_up(node: Identity, monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(node) as farm, connected(farm, request_seconds=SECONDS, **ONCE) as link:
        clock = Clock(link, monkeypatch)
        answers = await sent(farm, link, 4)
        clock.move(0.6 * SECONDS)
        await answered(farm, 0, answers[0])
        clock.move(0.6 * SECONDS)
        await answered(farm, 1, answers[1])
        clock.move(0.99 * SECONDS)
        assert link.connected
        clock.move(0.02 * SECONDS)
        assert not link.connected
        assert await soon(asyncio.gather(*answers[2:])) == [None, None]
        await until(lambda: link.last_error == "the peer did not answer within 10 s")


async def test_the_time_before_a_request_is_not_counted(node: Identity, monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(node) as farm, connected(farm, request_seconds=SECONDS, **ONCE) as link:
        clock = Clock(link, monkeypatch)
        await answered(farm, 0, (await sent(farm, link, 1))[0])
        clock.move(100 * SECONDS)
        (answer,) = await sent(farm, link, 1)
        clock.move(0.99 * SECONDS)
        assert link.connected
        clock.move(0.02 * SECONDS)
        assert await soon(answer) is None


async def given_up_after(clock: Clock, link: PeerLink, seconds: float) -> str:
    """Check that the link gives up the connection after `seconds`, within 1 %; return the reason."""
    clock.move(0.99 * seconds)
    assert link.connected
    clock.move(0.02 * seconds)
    assert not link.connected
    await until(lambda: link.last_error)
    return link.last_error or ""


async def test_a_request_may_have_a_time_of_its_own(node: Identity, monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(node) as farm, connected(farm, request_seconds=SECONDS, **ONCE) as link:
        clock = Clock(link, monkeypatch)
        (slow,) = await sent(farm, link, 1, seconds=6 * SECONDS)
        await sent(farm, link, 1)  # behind the slow request, so the peer cannot answer this one sooner
        clock.move(5.9 * SECONDS)
        await answered(farm, 0, slow)
        assert await given_up_after(clock, link, SECONDS) == "the peer did not answer within 10 s"


async def test_a_request_that_takes_longer_than_its_own_time_is_given_up(
    node: Identity, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(node) as farm, connected(farm, request_seconds=SECONDS, **ONCE) as link:
        clock = Clock(link, monkeypatch)
        await sent(farm, link, 1, seconds=6 * SECONDS)
        assert await given_up_after(clock, link, 6 * SECONDS) == "the peer did not answer within 60 s"


@pytest.mark.parametrize("together", [False, True])
async def test_a_long_time_that_was_not_needed_does_not_lengthen_the_next(
    node: Identity, monkeypatch: pytest.MonkeyPatch, together: bool
) -> None:
    async with serving(node) as farm, connected(farm, request_seconds=SECONDS, **ONCE) as link:
        clock = Clock(link, monkeypatch)
        answers = await sent(farm, link, 1, seconds=6 * SECONDS)
        if together:
            await sent(farm, link, 1)
        clock.move(0.1 * SECONDS)
        await answered(farm, 0, answers[0])
        if not together:
            await sent(farm, link, 1)
        assert await given_up_after(clock, link, SECONDS) == "the peer did not answer within 10 s"
        assert clock.alarms == []


async def test_another_time_holds_for_what_is_sent_from_then_on(
    node: Identity, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(node) as farm, connected(farm, request_seconds=SECONDS, **ONCE) as link:
        clock = Clock(link, monkeypatch)
        answers = await sent(farm, link, 1)
        link.request_seconds = 3 * SECONDS
        answers += await sent(farm, link, 1)
        link.request_seconds = SECONDS / 10
        clock.move(0.9 * SECONDS)
        await answered(farm, 0, answers[0])
        assert await given_up_after(clock, link, 3 * SECONDS) == "the peer did not answer within 30 s"


async def test_one_alarm_watches_however_many_requests(node: Identity, monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(node) as farm, connected(farm, request_seconds=SECONDS, **ONCE) as link:
        clock = Clock(link, monkeypatch)
        for index, answer in enumerate(await sent(farm, link, 20)):
            assert len(clock.alarms) == 1
            await answered(farm, index, answer)
        clock.move(2 * SECONDS)
        assert clock.alarms == []
        assert link.connected


async def test_an_overdue_answer_ends_the_connection_and_another_is_made(node: Identity) -> None:
    async with serving(node) as farm:
        downs: list[str | None] = []
        link: PeerLink
        options: dict[str, Any] = {"request_seconds": 0.1, "on_down": lambda: downs.append(link.last_error)}
        async with connected(farm, **options) as link:
            overdue = [ask(link, request(index=2)), ask(link, request(index=3))]
            assert await soon(asyncio.gather(*overdue)) == [None, None]
            await until(lambda: downs)
            assert downs[0] == "the peer did not answer within 0.1 s"
            await until(lambda: link.connected)


async def test_another_handshake_time_holds_for_the_next_attempt(node: Identity) -> None:
    deadlines: list[float] = []

    class Unreachable:
        def proxied(self, endpoint: object, attempt: int) -> bool:
            return False

        def proxy_login(self, endpoint: object, attempt: int) -> None:
            return None

        def patience(self, endpoint: object) -> float:
            return math.inf

        async def dial(self, endpoint: object, factory: object, *, deadline: float, attempt: int) -> asyncio.Transport:
            deadlines.append(deadline)
            link.handshake_seconds = 20.0
            raise DialError("nobody is there")

    async with serving(node) as farm:
        link = farm.link(transport=Unreachable(), handshake_seconds=10.0)
        link.start()
        await until(lambda: len(deadlines) >= 3)
        assert deadlines[:3] == [10.0, 20.0, 20.0]
        await link.stop()
