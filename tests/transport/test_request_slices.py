"""Requests of one user's many connections take a slice of each turn of the event loop, and hold up nobody else."""

import asyncio
from collections import Counter, deque

import pytest

from gf_i2p.transport.request_slices import SLICE_SECONDS, RequestSlices
from gf_i2p.transport.served import AuthenticatedConnection, Replier
from gf_i2p.wire.message_stream import RequestDecoder
from gf_i2p.wire.messages import Request, encode_request
from tests.transport.harness import (
    CLUSTER,
    PASSWORD,
    USER,
    Identity,
    authenticator,
    foreign_session,
    hang_up,
    read_responses,
    request,
    response,
    serving,
    soon,
    until,
)

pytestmark = pytest.mark.usefixtures("unhandled")

BUSY, HONEST = "client-busy", "client-honest"
CONNECTIONS, REQUESTS = 8, 100
A_SLICE = 10
"""Requests of `SLICE_SECONDS`, if each takes a tenth."""


class Clock:
    """A clock that only `Work` moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Work:
    """Answers each request, and counts the requests of each turn of the event loop and user."""

    def __init__(self, clock: Clock) -> None:
        self.handled = Counter[tuple[str, int]]()
        self.of_user = Counter[str]()
        self._clock = clock
        self.turn = 0

    def __call__(self, caller: AuthenticatedConnection, received: Request, reply: Replier) -> None:
        self._clock.now += SLICE_SECONDS / A_SLICE
        self.handled[caller.user, self.turn] += 1
        self.of_user[caller.user] += 1
        reply(response(received))

    async def count_turns(self) -> None:
        while True:
            self.turn += 1
            await asyncio.sleep(0)


async def test_one_turn_takes_a_slice_of_a_user_s_requests_however_many_connections_there_are(node: Identity) -> None:
    clock = Clock()
    work = Work(clock)
    users = {CLUSTER: authenticator({BUSY: PASSWORD, HONEST: PASSWORD})}
    async with serving(node, work, authenticators=users, slices=RequestSlices(clock)) as farm:
        turns = asyncio.create_task(work.count_turns())
        sessions = [await foreign_session(farm, user=BUSY) for _ in range(CONNECTIONS)]
        honest = await foreign_session(farm, user=HONEST)
        for _, writer in sessions:
            writer.write(b"".join(encode_request(request(index=number)) for number in range(REQUESTS)))
        for reader, _ in sessions:
            assert await read_responses(reader, REQUESTS) == list(range(REQUESTS)), "in order, and none is lost"
        assert max(work.handled.values()) <= A_SLICE + CONNECTIONS, "one more request may begin before the end is seen"
        honest[1].write(encode_request(request(index=5)))
        assert await read_responses(honest[0], 1) == [5]
        turns.cancel()
        for _, writer in [*sessions, honest]:
            await hang_up(writer)


async def test_data_is_decoded_in_slices(node: Identity, monkeypatch: pytest.MonkeyPatch) -> None:
    clock, decoded, feed = Clock(), Counter[int](), RequestDecoder.feed
    work = Work(clock)

    def slow(decoder: RequestDecoder, data: bytes, most: int | None = None) -> list[Request]:
        clock.now += SLICE_SECONDS
        found = feed(decoder, data, most)
        decoded[work.turn] += len(found)
        return found

    monkeypatch.setattr(RequestDecoder, "feed", slow)
    many = 10_000
    async with serving(node, work, slices=RequestSlices(clock)) as farm:
        turns = asyncio.create_task(work.count_turns())
        reader, writer = await foreign_session(farm)
        writer.write(b"".join(encode_request(request(index=number)) for number in range(many)))
        assert await read_responses(reader, many) == list(range(many))
        assert max(decoded.values()) * len(encode_request(request())) < (40 << 10)
        turns.cancel()
        await hang_up(writer)


async def test_what_came_before_an_illegal_message_is_handled_in_later_turns(node: Identity) -> None:
    clock = Clock()
    work = Work(clock)
    async with serving(node, work, slices=RequestSlices(clock)) as farm:
        reader, writer = await foreign_session(farm)
        writer.write(b"".join(encode_request(request(index=number)) for number in range(REQUESTS)) + b"\xff")
        assert await read_responses(reader, REQUESTS) == list(range(REQUESTS))
        assert await soon(reader.read()) == b""
        assert work.of_user == {USER: REQUESTS}
        await hang_up(writer)


async def test_a_connection_that_ends_while_its_requests_wait_is_forgotten(node: Identity) -> None:
    clock = Clock()
    work = Work(clock)
    async with serving(node, work, slices=RequestSlices(clock)) as farm:
        _, writer = await foreign_session(farm)
        writer.write(b"".join(encode_request(request(index=number)) for number in range(REQUESTS)))
        await until(lambda: work.of_user[USER])
        await hang_up(writer)
        await until(lambda: farm.server.counters.current == 0)


async def test_users_take_turns_and_each_goes_on_where_the_slice_ended() -> None:
    clock = Clock()
    slices = RequestSlices(clock)
    order: list[str] = []
    left = {"a1": 3, "a2": 3, "b": 1}

    def go_on(name: str) -> None:
        user = CLUSTER, name[0]
        while left[name] and slices.has_time(user):
            clock.now += SLICE_SECONDS / 2
            order.append(name)
            left[name] -= 1
        if left[name]:
            slices.put_off(user, lambda: go_on(name))

    for name in left:
        go_on(name)
    assert order == ["a1", "a1", "b"]
    await until(lambda: not any(left.values()))
    assert order == ["a1", "a1", "b", "a1", "a2", "a2", "a2"]


async def test_each_turn_has_a_slice_of_its_own() -> None:
    """A request in a later turn does not wait because an earlier request has used its own turn's slice."""
    clock = Clock()
    slices = RequestSlices(clock)
    assert slices.has_time((CLUSTER, "a"))
    clock.now += 2 * SLICE_SECONDS
    assert not slices.has_time((CLUSTER, "a"))
    await asyncio.sleep(0)
    assert slices.has_time((CLUSTER, "a"))


async def test_a_user_without_requests_leaves_nothing_behind() -> None:
    slices = RequestSlices(Clock())
    assert slices.has_time((CLUSTER, "a"))
    done: deque[int] = deque()
    slices.put_off((CLUSTER, "a"), lambda: done.append(1))
    await until(lambda: done)
    await until(lambda: slices.idle)
