"""The search for the leader, one server after the other: gf_i2p/transport/delivery.py."""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, repeat

import pytest

from gf_i2p.transport.backoff import Backoff
from gf_i2p.transport.delivery import NotTaken, deliver
from gf_i2p.wire.errors import NotCommittedError, OutcomeUnknownError
from gf_i2p.wire.messages import NOBODY, MessageType, Response

PAUSE = 1e-6


def answer(source: int, leader: int) -> Response:
    return Response(MessageType.APPEND_ENTRIES_RESPONSE, source, leader, 1, 1, accepted=source == leader)


class Servers:
    """Servers with the test's answers, and a caller that begins with the first server."""

    def __init__(self, *answers: Response | None, ways: Iterable[int | NotTaken] = ()) -> None:
        self.answers: Iterator[Response | None] = iter(answers)
        self.ways = iter(ways)
        self.events: list[object] = []
        self.next = 1

    async def reach(self) -> int | NotTaken:
        way = next(self.ways, self.next)
        self.events.append(("reach", way) if isinstance(way, int) else way.why)
        return way

    async def ask(self, server: int) -> Response | None:
        response = next(self.answers, NotImplemented)
        if response is NotImplemented:
            await asyncio.get_running_loop().create_future()  # the server never answers
        assert response is None or isinstance(response, Response)
        return response

    async def learn(self, server: int, response: Response | None) -> NotTaken:
        if response is None:
            return NotTaken(f"server {server} is gone")
        if response.destination == NOBODY:
            return NotTaken("nobody leads")
        self.next = response.destination
        return NotTaken(f"server {response.destination} leads", at_once=True)

    async def deliver(self, seconds: float | None = None, *, harmless: bool = False) -> tuple[int, Response]:
        pause = _Pause(self.events)
        return await deliver(
            self.reach,
            self.ask,
            self.learn,
            final=lambda response: response.accepted,
            unknown=None if harmless else lambda server, late: f"server {server}, late: {late}",
            pause=pause,
            seconds=seconds,
        )


class _Pause(Backoff):
    def __init__(self, events: list[object]) -> None:
        super().__init__(floor=PAUSE, ceiling=PAUSE)
        self._events = events

    def next(self) -> float:
        self._events.append("pause")
        return super().next()


async def test_a_refusal_that_names_the_leader_is_followed_at_once() -> None:
    servers = Servers(answer(1, 2), answer(2, 2))
    assert await servers.deliver() == (2, answer(2, 2))
    assert servers.events == [("reach", 1), ("reach", 2)]


async def test_two_servers_that_name_each_other_are_not_asked_without_a_pause() -> None:
    servers = Servers(answer(1, 2), answer(2, 1), answer(1, 2), answer(2, 1), answer(1, 1))
    await servers.deliver()
    a, b = ("reach", 1), ("reach", 2)
    assert servers.events == [a, b, "pause", a, b, "pause", a]


async def test_while_nobody_leads_or_can_be_asked_the_search_pauses_and_goes_on() -> None:
    servers = Servers(answer(1, NOBODY), answer(1, 1), ways=(NotTaken("no way"), NotTaken("no way")))
    await servers.deliver()
    assert servers.events == ["no way", "pause", "no way", "pause", ("reach", 1), "pause", ("reach", 1)]


async def test_a_lost_answer_ends_the_search_with_the_server_that_has_the_request() -> None:
    servers = Servers(answer(1, 2), None)
    with pytest.raises(OutcomeUnknownError, match="server 2, late: False"):
        await servers.deliver()


async def test_a_late_answer_ends_the_search_with_the_server_that_has_the_request() -> None:
    servers = Servers(answer(1, 2))
    with pytest.raises(OutcomeUnknownError, match="server 2, late: True"):
        await servers.deliver(0.05)


async def test_a_harmless_request_is_sent_again() -> None:
    servers = Servers(None, answer(1, 1))
    assert await servers.deliver(harmless=True) == (1, answer(1, 1))
    assert servers.events == [("reach", 1), "pause", ("reach", 1)]


@pytest.mark.parametrize(
    ("servers", "harmless", "why"),
    [
        (lambda: Servers(ways=repeat(NotTaken("no way"))), False, "no way"),
        (lambda: Servers(answer(1, NOBODY), ways=chain([1], repeat(NotTaken("no way")))), False, "no way"),
        (lambda: Servers(answer(1, NOBODY)), True, "nobody leads"),
        (Servers, True, ""),
    ],
)
async def test_without_a_server_that_may_act_the_latest_refusal_is_told(
    servers: Callable[[], Servers], harmless: bool, why: str
) -> None:
    with pytest.raises(NotCommittedError) as caught:
        await servers().deliver(0.05, harmless=harmless)
    assert str(caught.value) == why


async def test_the_caller_may_end_the_search() -> None:
    class Hopeless(Servers):
        async def learn(self, server: int, response: Response | None) -> NotTaken:
            raise NotCommittedError("nobody can dial it")

    with pytest.raises(NotCommittedError, match="nobody can dial it"):
        await Hopeless(answer(1, 2)).deliver()
