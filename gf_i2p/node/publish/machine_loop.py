"""Drives a publishing machine of `gf_i2p/farm/publishing`: steps the machine and performs its effects."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final, Protocol

import structlog

from gf_i2p.farm.publishing.effects import Effect, PublishingEffects
from gf_i2p.farm.publishing.lease import LOOK_SECONDS
from gf_i2p.node.report.reporter import Reporter
from gf_i2p.node.view import FarmView

logger = structlog.get_logger()

_LEAST_SECONDS: Final = 0.05
"""Least seconds between two steps: a machine that asks for no pause must not block the event loop."""


class Publisher(Protocol):
    """The publisher that `[publish] mode` names: `MetaPublisher` or `FailoverPublisher`."""

    @property
    def trouble(self) -> str | None:
        """Why this server does not publish as it should; None when all is well."""
        ...

    async def run(self) -> None:
        """Publish while the farm chooses this server, until cancelled."""
        ...

    def shown(self) -> dict[str, Any] | None:
        """Describe for the status what this server publishes now. None: this server publishes nothing."""
        ...

    async def finish(self, seconds: float) -> None:
        """After this server has resigned: wait up to `seconds` until no client needs the server. `run` goes on."""
        ...


class MachineLoop:
    """Drives one machine, and performs its effects one at a time."""

    def __init__(
        self,
        step: Callable[[], PublishingEffects],
        begin: Callable[[Effect], Coroutine[None, None, None]],
        *,
        view: FarmView,
        reporter: Reporter,
        clock: Callable[[], float],
        resume: Callable[[], None] = lambda: None,
    ) -> None:
        """Begin nothing yet.

        Args:
            step: steps the machine.
            begin: performs an effect of the machine, tells the machine the outcome, and raises nothing.
            view: the log; each new entry causes a step.
            reporter: each committed record causes a step; posts a record when the lease is in doubt.
            clock: the machine's clock, in seconds.
            resume: lets a draining session go on.
        """
        self._step = step
        self._begin = begin
        self._reporter = reporter
        self._clock = clock
        self._resume = resume
        self._news = asyncio.Event()
        self._under_way: asyncio.Task[None] | None = None
        view.on_change.append(self.wake)
        reporter.on_committed.append(self.wake)

    def wake(self) -> None:
        """Have the machine step, because something has changed."""
        self._news.set()

    async def run(self) -> None:
        """Step and perform effects until cancelled. Cancelling also cancels the effect under way."""
        try:
            while True:
                self._news.clear()
                try:
                    effects = self._step()
                    await self._perform(effects)
                except Exception:
                    logger.exception("a defect in publishing")
                    effects = PublishingEffects(self._clock() + LOOK_SECONDS)
                await self._wait(min(effects.next_step_at - self._clock(), LOOK_SECONDS))
        finally:
            await self._cancel()

    async def _wait(self, seconds: float) -> None:
        await asyncio.sleep(_LEAST_SECONDS)
        try:
            async with asyncio.timeout(seconds):
                await self._news.wait()
        except TimeoutError:
            return

    async def _perform(self, effects: PublishingEffects) -> None:
        if effects.cancel:
            await self._cancel()
        if effects.resume:
            self._resume()
        if effects.renew:
            self._reporter.renew()
        if effects.begin is not None:
            assert self._under_way is None or self._under_way.done(), "a machine asks for one thing at a time"
            self._under_way = asyncio.get_running_loop().create_task(self._begin(effects.begin))
            self._under_way.add_done_callback(lambda _: self.wake())

    async def _cancel(self) -> None:
        task, self._under_way = self._under_way, None
        if task is not None and not task.done():
            task.cancel()
            await asyncio.wait([task])
