"""Tests whether a leaf that has answered pings before still answers: shows a leaf's death before its lease set ends."""

import asyncio
from typing import Final, Protocol

import structlog

from bridges.errors import RouterError

logger = structlog.get_logger()

PINGS: Final = 2
"""Pings in a row without an answer, through the tunnels of one session, after which these tunnels are in doubt.

If one ping in five gets lost, the six of three sessions get lost once in 15,000 tries.
"""
SESSIONS: Final = 3
"""Sessions in a row without an answer that decide that a leaf is silent; only a session that reaches itself counts.

Pings of one session share a fate: its tunnels may lead through a router that has just restarted. A minute after one
of eight routers had restarted, the first session of another i2pd got no answer, and the next three did. All four
sessions of a third i2pd got none, although other routers reached the same leaves: that router's leaf was dropped.
"""
JUDGE_SECONDS: Final = 90.0
"""Most seconds for a judgement: the pings of `SESSIONS` sessions, and the tunnels of two new sessions in between."""


class Pings(Protocol):
    """Pings destinations, as `bridges.i2cp.ping_session.PingSession` does."""

    async def ping(self, destination: bytes) -> float | None:
        """Return the seconds until the answer; None without an answer. Raises `RouterError`."""
        ...

    async def reaches_itself(self) -> bool:
        """Return whether a ping of the session to itself arrives. Raises `RouterError`."""
        ...

    async def close(self) -> None:
        """End the session; the next ping opens a session with new tunnels."""
        ...


class LeafLiveness:
    """Judges whether leaves are silent. A leaf that has never answered is not judged: its owner may have pings off.

    The fault may be in the tunnels of the session for pings. So a leaf is silent only when pings through new tunnels
    are not answered either, and when each of these sessions reaches itself.

    A leaf that comes back has new keys. With i2pd, a session that knew the old keys got no answer for 150 s; of new
    sessions, 7 in 10 got an answer. So each ping of a silent leaf goes through a new session.
    """

    def __init__(self, pings: Pings) -> None:
        self._pings = pings
        self._answered: set[bytes] = set()
        self._silent: set[bytes] = set()
        self._unanswered = 0
        """Number of unanswered pings of leaves that never answered, each through a new session; up to `SESSIONS`."""
        self._first: asyncio.Task[None] | None = None
        """Waits for the first answer of a leaf; nobody waits for this task."""

    async def is_silent(self, destination: bytes) -> bool:
        """Return whether a destination has answered before, and does not answer now. Takes `JUDGE_SECONDS` at most.

        If the router opens too few sessions in time that reach themselves, the last result stays: the router may be at
        fault.
        """
        if destination not in self._answered:
            if self._first is None or self._first.done():
                self._first = asyncio.get_running_loop().create_task(self._await_first_answer(destination))
            return False
        try:
            async with asyncio.timeout(JUDGE_SECONDS):
                if await self._answers(destination):
                    self._silent.discard(destination)
                else:
                    self._silent.add(destination)
        except RouterError as error:
            logger.info("the leaf is not pinged", reason=str(error))
        except TimeoutError:
            logger.info(
                "pings do not judge the leaf",
                reason=f"in {JUDGE_SECONDS:g} s fewer than {SESSIONS} sessions for pings reached themselves: see "
                "whether the router builds tunnels",
            )
        return destination in self._silent

    async def _await_first_answer(self, destination: bytes) -> None:
        try:
            if await self._pings.ping(destination) is not None:
                self._answered.add(destination)
                logger.info("the leaf answers pings")
            elif self._unanswered < SESSIONS:  # the fault may be in the session
                self._unanswered += 1
                await self._pings.close()
        except RouterError as error:
            logger.info("the leaf is not pinged", reason=str(error))

    async def _answers(self, destination: bytes) -> bool:
        if destination in self._silent:
            await self._pings.close()
            return await self._answers_one_of(destination, 1)
        counted = 0
        while not await self._answers_one_of(destination, PINGS):
            counted += await self._pings.reaches_itself()
            if counted == SESSIONS:
                return False
            await self._pings.close()
        return True

    async def _answers_one_of(self, destination: bytes, pings: int) -> bool:
        for _ in range(pings):
            if await self._pings.ping(destination) is not None:
                return True
        return False

    async def close(self) -> None:
        """End the session."""
        if self._first is not None:
            self._first.cancel()
            await asyncio.wait([self._first])
        await self._pings.close()
