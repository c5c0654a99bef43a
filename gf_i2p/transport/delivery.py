"""Delivery of one request to the leader: asks server after server, and goes to the leader that a server names.

The two errors here are about requests of any kind. For posts, the callers turn the errors into `NotCommittedError` and
`OutcomeUnknownError`, whose words say what has become of the entries and what to do next.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import NamedTuple, TypeVar

from gf_i2p.transport.backoff import Backoff
from gf_i2p.wire.errors import NotCommittedError, OutcomeUnknownError
from gf_i2p.wire.messages import Response

WayT = TypeVar("WayT")


class NotTaken(NamedTuple):
    """Why a server has not taken the request, or why no server can be asked."""

    why: str
    """The reason, as a clause for the operator."""
    at_once: bool = False
    """Whether another server to ask is known now, so that the next try needs no pause."""


async def deliver(
    reach: Callable[[], Awaitable[WayT | NotTaken]],
    ask: Callable[[WayT], Awaitable[Response | None]],
    learn: Callable[[WayT, Response | None], Awaitable[NotTaken]],
    *,
    final: Callable[[Response], bool],
    unknown: Callable[[WayT, bool], str] | None,
    pause: Backoff,
    seconds: float | None = None,
) -> tuple[WayT, Response]:
    """Ask one server after the other until an answer is final.

    Args:
        reach: chooses the next server, and returns a way to that server: the leader, or a server that may know the
            leader. `reach` may wait for a connection. A `NotTaken` says that no server can be asked now.
        ask: sends the request on that way. Returns the answer, or None when the connection has ended.
        learn: gets each answer that is not final, and returns why the server has not taken the request. `learn` may
            raise `NotCommittedError` to end the search.
        final: whether an answer ends the search.
        unknown: returns the text of an `OutcomeUnknownError`. The arguments are the way to the server that has not
            answered, and whether the time was over; otherwise the connection has ended. None: the request is harmless
            and may be sent twice. Then a lost answer does not end the search: `learn` gets None.
        pause: returns the seconds between two tries. After a refusal with `at_once` the next try follows without a
            pause, but never two such tries in a row.
        seconds: time limit for the whole delivery; None: there is no limit.

    Returns:
        The way to the server that gave the final answer, and that answer.

    Raises:
        NotCommittedError: surely no server will act on the request. When the time is over, the text is the last
            `NotTaken.why`, or empty.
        OutcomeUnknownError: a server has got the request, has not answered, and may act on the request. A harmless
            request does not raise this error.
    """
    refusal = NotTaken("")
    pending_way: WayT | None = None
    followed_at_once = False
    try:
        async with asyncio.timeout(seconds):
            while True:
                way = await reach()
                if isinstance(way, NotTaken):
                    refusal = way
                else:
                    pending_way = way
                    response = await ask(way)
                    if response is None and unknown is not None:
                        raise OutcomeUnknownError(unknown(way, False))
                    pending_way = None
                    if response is not None and final(response):
                        return way, response
                    refusal = await learn(way, response)
                followed_at_once = refusal.at_once and not followed_at_once
                if not followed_at_once:
                    await asyncio.sleep(pause.next())
    except TimeoutError:
        if pending_way is not None and unknown is not None:
            raise OutcomeUnknownError(unknown(pending_way, True)) from None
        raise NotCommittedError(refusal.why) from None
