"""Delivery of one request to the leader: asks server after server, and goes to the leader that a server names.

The two errors here are about requests of any kind. For posts, the callers turn the errors into `NotCommittedError` and
`OutcomeUnknownError`, whose words say what has become of the entries and what to do next.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import NamedTuple, TypeVar

from gf_i2p.transport.backoff import Backoff
from gf_i2p.wire.messages import Response

WayT = TypeVar("WayT")


class NotTaken(NamedTuple):
    """Why a server has not taken the request, or why no server can be asked."""

    why: str
    """The reason, as a clause for the operator."""
    at_once: bool = False
    """Whether another server to ask is known now, so that the next try needs no pause."""


class NotDeliveredError(Exception):
    """No server has taken the request, and the time is over, or `learn` has ended the search.

    When the time is over, `str()` is the last `NotTaken.why`, or an empty text.
    """


class UnansweredError(Exception):
    """A server got the request and has not answered."""

    def __init__(self, way: object, *, late: bool) -> None:
        """`way`: the way to that server. `late`: the time was over; otherwise the connection ended."""
        super().__init__()
        self.way = way
        self.late = late


async def deliver(
    reach: Callable[[], Awaitable[WayT | NotTaken]],
    ask: Callable[[WayT], Awaitable[Response | None]],
    learn: Callable[[WayT, Response | None], Awaitable[NotTaken]],
    *,
    final: Callable[[Response], bool],
    pause: Backoff,
    seconds: float | None = None,
    harmless: bool = False,
) -> tuple[WayT, Response]:
    """Ask one server after the other until an answer is final.

    Args:
        reach: chooses the next server, and returns a way to that server: the leader, or a server that may know the
            leader. `reach` may wait for a connection. A `NotTaken` says that no server can be asked now.
        ask: sends the request on that way. Returns the answer, or None when the connection has ended.
        learn: gets each answer that is not final, and returns why the server has not taken the request. `learn` may
            raise `NotDeliveredError` to end the search.
        final: whether an answer ends the search.
        pause: returns the seconds between two tries. After a refusal with `at_once` the next try follows without a
            pause, but never two such tries in a row.
        seconds: time limit for the whole delivery; None: there is no limit.
        harmless: whether the request may be sent twice. Then a lost answer does not end the search: `learn` gets None.

    Returns:
        The way to the server that gave the final answer, and that answer.

    Raises:
        NotDeliveredError: surely no server will act on the request.
        UnansweredError: a server may act on the request, unless the request is harmless.
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
                    if response is None and not harmless:
                        raise UnansweredError(way, late=False)
                    pending_way = None
                    if response is not None and final(response):
                        return way, response
                    refusal = await learn(way, response)
                followed_at_once = refusal.at_once and not followed_at_once
                if not followed_at_once:
                    await asyncio.sleep(pause.next())
    except TimeoutError:
        if pending_way is not None and not harmless:
            raise UnansweredError(pending_way, late=True) from None
        raise NotDeliveredError(refusal.why) from None
