"""Defects in a link, and in called functions: each is logged with the traceback, and the link goes on."""

import asyncio
import math
from collections.abc import Callable
from typing import Any

import pytest
from structlog.testing import capture_logs

from gf_i2p.transport.peer_link import PeerLink
from gf_i2p.wire.messages import Response
from tests.transport.harness import (
    CLUSTER,
    USER,
    Identity,
    ask,
    connected,
    echo,
    request,
    response,
    serving,
    soon,
    until,
)

pytestmark = pytest.mark.usefixtures("unhandled")


def fail(*_: object) -> None:
    raise ZeroDivisionError("a defect")


def tracebacks(lines: list[Any]) -> list[str]:
    """Give the events of the lines with a traceback."""
    return [line["event"] for line in lines if line.get("exc_info") is True]


async def test_a_defect_while_dialling_is_logged_once_and_dialling_goes_on(node: Identity) -> None:
    async with serving(node, echo) as farm:
        transport = farm.client_transport()
        attempts = 0
        downs: list[str | None] = []

        class Defective:
            def proxied(self, endpoint: object, attempt: int) -> bool:
                return False

            def proxy_login(self, endpoint: object, attempt: int) -> None:
                return None

            def patience(self, endpoint: object) -> float:
                return math.inf

            async def dial(
                self, endpoint: Any, factory: Callable[[], Any], *, deadline: float, attempt: int
            ) -> asyncio.Transport:
                nonlocal attempts
                attempts += 1
                if attempts <= 3:
                    fail()
                return await transport.dial(endpoint, factory, deadline=deadline, attempt=attempt)

        link: PeerLink = farm.link(transport=Defective(), on_down=lambda: downs.append(link.last_error))
        with capture_logs() as lines:
            link.start()
            await until(lambda: link.connected)
        assert tracebacks(lines) == ["a defect ended an attempt or a connection"]
        assert len(downs) == 3
        assert all("ZeroDivisionError('a defect')" in (reason or "") for reason in downs)
        assert link.last_error is None
        assert await soon(ask(link, request(index=1))) == response(request(index=1))
        await link.stop()


async def test_a_defect_while_connected_ends_that_connection_only(
    node: Identity, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(node, echo) as farm, connected(farm) as link:
        monkeypatch.setattr(link.backoff, "reset", fail)
        monkeypatch.setattr("gf_i2p.transport.peer_link._STABLE_SECONDS", 0.0)
        with capture_logs() as lines:
            farm.server.disconnect(CLUSTER, {USER})
            await until(lambda: tracebacks(lines))
        monkeypatch.undo()
        await until(lambda: link.connected)
        assert await soon(ask(link, request(index=1))) == response(request(index=1))


async def test_who_raises_when_told_of_the_connection_does_not_end_it(node: Identity) -> None:
    async with serving(node, echo) as farm:
        link = farm.link(on_up=fail)
        with capture_logs() as lines:
            link.start()
            await until(lambda: link.connected)
        assert await soon(ask(link, request(index=1))) == response(request(index=1))
        assert farm.server.counters.authenticated == 1
        assert tracebacks(lines) == ["a callback failed"]
        await link.stop()


async def test_who_raises_when_told_of_the_end_does_not_stop_the_dialling(node: Identity) -> None:
    async with serving(node, echo) as farm, connected(farm, on_down=fail) as link:
        with capture_logs() as lines:
            farm.server.disconnect(CLUSTER, {USER})
            await until(lambda: farm.server.counters.authenticated == 2 and link.connected)
        assert tracebacks(lines) == ["a callback failed"]


async def test_who_raises_at_an_answer_keeps_it_from_nobody_else(node: Identity) -> None:
    async with serving(node) as farm, connected(farm) as link:
        before = ask(link, request(index=0))
        link.send(request(index=1), fail)
        after = ask(link, request(index=2))
        await until(lambda: len(farm.requests) == 3)
        with capture_logs() as lines:
            for _, received, reply in reversed(farm.requests):
                reply(response(received))  # all three in one piece
            assert await soon(before) == response(request(index=0))
            assert await soon(after) == response(request(index=2))
        assert link.connected
        assert tracebacks(lines) == ["a callback failed"]


async def test_who_raises_at_a_failure_keeps_it_from_nobody_else(node: Identity) -> None:
    answer: asyncio.Future[Response | None]
    async with serving(node) as farm, connected(farm, max_in_flight=2) as link:
        with capture_logs() as lines:
            link.send(request(), fail)
            answer = ask(link, request())
            link.send(request(), fail)  # one too many: the connection is given up
            link.send(request(), fail)  # not connected
            assert await soon(answer) is None
            await until(lambda: len(tracebacks(lines)) == 3)
