"""Several farms on one server: each has separate users and requests, and one can go while the others stay."""

import asyncio
import re

import pytest

from gf_i2p.transport.connection_counters import ConnectionRefusal
from gf_i2p.transport.connection_gate import Gate
from gf_i2p.transport.served import AuthenticatedConnection, Replier, Served
from gf_i2p.wire.messages import Request, encode_request
from tests.transport.harness import (
    CLUSTER,
    GET,
    PASSWORD,
    USER,
    Farm,
    Identity,
    authenticator,
    echo,
    ends,
    exchange,
    foreign_client,
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

OTHER = "other"
GET_OTHER = GET.replace(b"/farm/", b"/other/")


def other(
    requests: list[tuple[AuthenticatedConnection, Request, Replier]], came: list[AuthenticatedConnection] | None = None
) -> Served:
    """Make a second farm with one user of its own, and one user whose name the first farm has, too."""
    users = authenticator({USER: PASSWORD, "client-b": PASSWORD}, OTHER)
    on_caller = None if came is None else came.append
    return Served(users, lambda *each: requests.append(each), on_caller, configuration=lambda _: b"told")


def without_nonces(answer: bytes) -> bytes:
    return re.sub(rb'nonce="[^"]*"', b"", answer)


async def test_the_path_selects_the_farm(node: Identity) -> None:
    requests: list[tuple[AuthenticatedConnection, Request, Replier]] = []
    came: list[AuthenticatedConnection] = []
    async with serving(node) as farm:
        unknown = await exchange(farm, GET_OTHER + b"\r\n")
        farm.server.serve(OTHER, other(requests, came))
        reader, writer = await foreign_session(farm)
        theirs, them = await foreign_session(farm, cluster=OTHER)
        writer.write(encode_request(request(index=1)))
        them.write(encode_request(request(index=2)))
        await until(lambda: requests and farm.requests)
        assert [(caller.cluster, received.last_log_index) for caller, received, _ in farm.requests] == [(CLUSTER, 1)]
        assert [(caller.cluster, received.last_log_index) for caller, received, _ in requests] == [(OTHER, 2)]
        assert [caller.cluster for caller in came] == [OTHER]
        requests[0][2](response(requests[0][1]))
        farm.requests[0][2](response(farm.requests[0][1]))
        assert await read_responses(reader, 1) == [1]
        assert await read_responses(theirs, 1) == [2]
        # A served farm asks for a password, in the same words as any farm; an unknown farm is never found.
        there = await exchange(farm, GET_OTHER + b"\r\n")
        assert b" 401 " in there
        assert without_nonces(there).replace(b'realm="other"', b"") == without_nonces(
            await exchange(farm, GET + b"\r\n")
        ).replace(b'realm="farm"', b"")
        assert await exchange(farm, GET.replace(b"/farm/", b"/third/") + b"\r\n") == unknown
        with pytest.raises(ValueError, match="served here already"):
            farm.server.serve(OTHER, other(requests))
        for each in (writer, them):
            await hang_up(each)


async def test_who_belongs_to_one_farm_is_nobody_in_another(node: Identity) -> None:
    requests: list[tuple[AuthenticatedConnection, Request, Replier]] = []
    async with serving(node, echo) as farm:
        farm.server.serve(OTHER, other(requests))
        link = farm.link(user="client-b")  # a user of the other farm only
        link.start()
        await until(lambda: link.last_error is not None)
        assert "refuses user client-b or its password" in (link.last_error or "")
        await link.stop()
        assert farm.server.counters.refused[ConnectionRefusal.CREDENTIALS] >= 1
        reader, writer = await foreign_session(farm, user="client-b", cluster=OTHER)
        await hang_up(writer)
        assert await ends(reader) == b""


async def test_a_farm_goes_and_the_others_stay(node: Identity) -> None:
    requests: list[tuple[AuthenticatedConnection, Request, Replier]] = []
    async with serving(node, echo) as farm:
        unknown = await exchange(farm, GET_OTHER + b"\r\n")
        farm.server.serve(OTHER, other(requests))
        reader, writer = await foreign_session(farm)
        idle_reader, idle = await foreign_session(farm, user="client-b", cluster=OTHER)
        theirs, them = await foreign_session(farm, cluster=OTHER)
        stranger_reader, stranger = await foreign_client(farm)
        stranger.write(GET_OTHER)  # in the middle of the request
        them.write(encode_request(request(index=1)) + encode_request(request(index=2)))
        await until(lambda: len(requests) == 2)
        leaving = asyncio.ensure_future(farm.server.withdraw(OTHER, grace=1000.0))
        assert await ends(idle_reader) == b""  # no request of this connection is being handled
        with pytest.raises(ValueError, match="served here already"):
            farm.server.serve(OTHER, other(requests))
        assert not leaving.done()
        stranger.write(b"\r\n")
        assert await ends(stranger_reader) == unknown
        for _, received, reply in requests:
            reply(response(received))
        assert await read_responses(theirs, 2) == [1, 2]
        assert await ends(theirs) == b""
        for each in (idle, them, stranger):
            await hang_up(each)
        await soon(leaving)
        # The connection of the other farm has not noticed, and that farm takes new ones.
        writer.write(encode_request(request(index=3)))
        assert await read_responses(reader, 1) == [3]
        _, another = await foreign_session(farm)
        assert farm.server.counters.current == 2
        assert await exchange(farm, GET_OTHER.replace(b"websocket", b"config") + b"\r\n") == unknown
        # The other farm may come back.
        farm.server.serve(OTHER, other(requests))
        _, back = await foreign_session(farm, cluster=OTHER)
        for each in (writer, another, back):
            await hang_up(each)


async def test_a_farm_that_goes_does_not_wait_longer_than_its_grace(node: Identity) -> None:
    requests: list[tuple[AuthenticatedConnection, Request, Replier]] = []
    async with serving(node, echo) as farm:
        await soon(farm.server.withdraw(OTHER, 1.0))  # never there: nothing to wait for
        farm.server.serve(OTHER, other(requests))
        reader, writer = await foreign_session(farm)
        theirs, them = await foreign_session(farm, cluster=OTHER)
        them.write(encode_request(request()))
        await until(lambda: requests)
        await soon(farm.server.withdraw(OTHER, grace=0.01))
        assert await ends(theirs) == b""
        requests[0][2](response(requests[0][1]))  # too late, and harmless
        writer.write(encode_request(request(index=9)))
        assert await read_responses(reader, 1) == [9]
        for each in (writer, them):
            await hang_up(each)


async def test_strangers_are_counted_at_the_door_whichever_farm_they_ask_for(node: Identity) -> None:
    gate = Gate(handshake_seconds=1000.0, max_per_source=2)
    async with serving(node, echo, gate=gate) as farm:
        farm.server.serve(OTHER, other([]))
        one_reader, one = await _waiting(farm, GET)
        _, two = await _waiting(farm, GET_OTHER)
        await until(lambda: farm.server.counters.unauthenticated == 2)
        _, three = await _waiting(farm, GET_OTHER)
        assert await ends(one_reader) == b""  # the oldest of the source made room
        assert farm.server.counters.refused == {ConnectionRefusal.SOURCE: 1}
        for each in (one, two, three):
            await hang_up(each)


async def _waiting(farm: Farm, data: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await foreign_client(farm)
    writer.write(data)
    return reader, writer
