"""Asks a router that may answer late, or never, and keeps the last answer."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, Generic, TypeVar

import structlog

from bridges.errors import RouterError

logger = structlog.get_logger()

ROUTER_SECONDS: Final = 25.0
"""A router that has not answered after so many seconds counts as down. An answer by i2pcontrol takes up to 20 s."""
LEAF_SECONDS: Final = 120.0
"""A leaf without an answer for so many seconds counts as down. i2pd takes 30 to 40 s for a missing lease set, and the
bridge asks i2pd twice."""

T = TypeVar("T")


class RouterQuestion(Generic[T]):
    """One question to the router, asked again and again, with the newest answer."""

    def __init__(
        self, ask: Callable[[], Awaitable[T]], *, seconds: float, on_answer: Callable[[], None] = lambda: None
    ) -> None:
        """`seconds`: time limit for an answer. `on_answer` is called after each answer, and after each failure."""
        self.answer: T | None = None
        """The last answer; None after a failure."""
        self.trouble: str | None = "it has not answered yet"
        """Why the last question got no answer, as a clause; None when the router answered."""
        self.settled = False
        """Whether a question has ever ended, with an answer or without."""
        self._ask = ask
        self._seconds = seconds
        self._on_answer = on_answer
        self._task: asyncio.Task[None] | None = None

    async def ask(self, wait: float) -> None:
        """Ask, unless a question is under way, and wait up to `wait` seconds; a later answer still counts."""
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._ask_once())
        await asyncio.wait([self._task], timeout=wait)

    async def close(self) -> None:
        """Give up the question that is under way."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _ask_once(self) -> None:
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
            trouble = f"a defect of this program: {error!r}"
        self.answer, self.trouble, self.settled = answer, trouble, True
        self._on_answer()
