"""Questions to a router that may answer late, or never: whoever needs an answer takes the last one."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

import structlog

from bridges.errors import RouterError

logger = structlog.get_logger()

T = TypeVar("T")


class Question(Generic[T]):
    """One question, asked again and again."""

    def __init__(
        self, ask: Callable[[], Awaitable[T]], *, seconds: float, heard: Callable[[], None] = lambda: None
    ) -> None:
        """`seconds`: how long an answer may take; then there is none. `heard` is called when it is there, or late."""
        self.answer: T | None = None
        """The last one; None after a failure."""
        self.trouble: str | None = "it has not answered yet"
        """Why there is no answer."""
        self.settled = False
        """Whether one was there, or has failed to come."""
        self._ask = ask
        self._seconds = seconds
        self._heard = heard
        self._task: asyncio.Task[None] | None = None

    async def ask(self, wait: float) -> None:
        """Ask, unless that is under way, and wait so many seconds; an answer that comes later counts from then on."""
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._answered())
        await asyncio.wait([self._task], timeout=wait)

    async def close(self) -> None:
        """Give up what is under way."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _answered(self) -> None:
        answer: T | None = None
        trouble: str | None = None
        try:
            async with asyncio.timeout(self._seconds):
                answer = await self._ask()
        except TimeoutError:
            trouble = f"it has not answered within {self._seconds:g} s"
        except RouterError as error:
            trouble = str(error)
        except Exception as error:
            logger.exception("a defect in asking the router")
            trouble = f"a defect of ours: {error!r}"
        self.answer, self.trouble, self.settled = answer, trouble, True
        self._heard()
