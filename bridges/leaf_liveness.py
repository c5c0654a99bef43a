"""Whether a leaf that has answered pings before still does: shows a leaf's death before its lease set ends."""

from typing import Final, Protocol

import structlog

from bridges.errors import RouterError

logger = structlog.get_logger()

PINGS: Final = 2
"""Pings in a row without an answer, through the tunnels of one session, after which these tunnels are in doubt."""


class Pings(Protocol):
    """Pings destinations: `bridges.i2cp.ping_session.PingSession`."""

    async def ping(self, destination: bytes) -> float | None:
        """Return the seconds until the answer; None without an answer. Raises `RouterError`."""
        ...

    async def close(self) -> None:
        """End the session; the next ping opens a session with new tunnels."""
        ...


class LeafLiveness:
    """Remembers which leaves have answered. A leaf that never has is not judged: its owner may have turned pings off.

    The fault may be in the tunnels of our own session. So a leaf is silent only when pings through new tunnels are not
    answered either.
    """

    def __init__(self, pings: Pings) -> None:
        self._pings = pings
        self._answered: set[bytes] = set()
        self._silent: set[bytes] = set()

    async def is_silent(self, destination: bytes) -> bool:
        """Whether a destination has answered before, and does not answer now. Takes up to a minute and a half.

        A router that opens no session for pings says nothing about the leaf.
        """
        try:
            if await self._answers(destination):
                self._answered.add(destination)
                self._silent.discard(destination)
            elif destination in self._answered:
                self._silent.add(destination)
        except RouterError as error:
            logger.info("the leaf is not pinged", reason=str(error))
        return destination in self._silent

    async def _answers(self, destination: bytes) -> bool:
        if await self._answers_one_of(destination, 1):
            return True
        if destination not in self._answered or destination in self._silent:
            return False
        if await self._answers_one_of(destination, PINGS - 1):
            return True
        await self._pings.close()
        return await self._answers_one_of(destination, PINGS)

    async def _answers_one_of(self, destination: bytes, pings: int) -> bool:
        for _ in range(pings):
            if await self._pings.ping(destination) is not None:
                return True
        return False

    async def close(self) -> None:
        """End the session."""
        await self._pings.close()
